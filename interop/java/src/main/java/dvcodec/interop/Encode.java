package dvcodec.interop;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** {@code encode KIND in.positions out.bytes}: positions in, the reference's bytes out. */
final class Encode {
  /** Makes one case's bytes. */
  interface Encoder {
    ByteBuffer encode(long[] positions) throws Exception;
  }

  private static final Map<String, Encoder> KINDS = new LinkedHashMap<>();

  static {
    KINDS.put("iceberg", IcebergVectors::encode);
    KINDS.put("iceberg-ranges", IcebergVectors::encodeRanges);
    KINDS.put("roaring32", RoaringVectors::encode32);
    KINDS.put("roaring64", RoaringVectors::encode64);
    KINDS.put("delta-portable", DeltaVectors::encodePortable);
    KINDS.put("delta-native", DeltaVectors::encodeNative);
  }

  private Encode() {}

  static void run(List<String> arguments) throws Exception {
    Main.expect(arguments, 3, "encode KIND in.positions out.bytes");
    Encoder encoder = Main.kind(KINDS, arguments.get(0));
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
