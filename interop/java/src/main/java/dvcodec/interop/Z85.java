package dvcodec.interop;

import io.delta.kernel.internal.deletionvectors.Base85Codec;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Drives the kernel's Base85Codec: {@code z85-encode in.bytes out.bytes} and {@code z85-decode in.bytes
 * out.bytes}. Decoding gives whole blocks, so it keeps the zero padding of an encoded length that is
 * not a multiple of four.
 */
final class Z85 {
  /** Turns one case into another. */
  private interface Conversion {
    byte[] convert(byte[] bytes) throws Exception;
  }

  private Z85() {}

  static void runEncode(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 2, "z85-encode in.bytes out.bytes");
    convert(arguments, data -> Base85Codec.encodeBytes(data).getBytes(StandardCharsets.UTF_8));
  }

  static void runDecode(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 2, "z85-decode in.bytes out.bytes");
    convert(arguments, text -> Base85Codec.decodeAlignedBytes(new String(text, StandardCharsets.UTF_8)));
  }

  private static void convert(List<String> arguments, Conversion conversion) throws Exception {
    try (BatchReader in = new BatchReader(arguments.get(0));
        BatchWriter out = new BatchWriter(arguments.get(1), in.cases())) {
      for (int i = 0; i < in.cases(); i++) {
        byte[] bytes = in.bytes();
        byte[] converted;
        try {
          converted = conversion.convert(bytes);
        } catch (Throwable t) { // whatever the codec throws is an answer
          out.failedBytes(t);
          continue;
        }
        out.bytes(ByteBuffer.wrap(converted));
      }
    }
  }
}
