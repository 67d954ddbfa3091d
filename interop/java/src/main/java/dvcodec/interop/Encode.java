package dvcodec.interop;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;

/** {@code encode KIND in.positions out.bytes}: positions in, the reference's bytes out. */
final class Encode {
  /** Makes one case's bytes. */
  interface Encoder {
    ByteBuffer encode(long[] positions) throws Exception;
  }

  private Encode() {}

  static void run(Map<String, Encoder> kinds, List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 3, "encode KIND in.positions out.bytes");
    Encoder encoder = CommandLine.kind(kinds, arguments.get(0));
    try (BatchReader in = new BatchReader(arguments.get(1));
        BatchWriter out = new BatchWriter(arguments.get(2), in.cases())) {
      for (int i = 0; i < in.cases(); i++) {
        long[] positions = in.positions();
        ByteBuffer bytes;
        try {
          bytes = encoder.encode(positions);
        } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
          out.failedBytes(t);
          continue;
        }
        out.bytes(bytes);
      }
    }
  }
}
