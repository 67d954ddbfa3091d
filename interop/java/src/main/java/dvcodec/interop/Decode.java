package dvcodec.interop;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * {@code decode KIND in.bytes out.results}: bytes in, what the reference makes of them out. The input
 * of the kind {@code iceberg} has a record count before each case.
 */
final class Decode {
  /** Reads one case. */
  interface Decoder {
    Rows decode(byte[] bytes, long recordCount) throws Exception;
  }

  private static final String COUNTED = "iceberg";
  private static final long UNKNOWN = -1;

  private static final Map<String, Decoder> KINDS = new LinkedHashMap<>();

  static {
    KINDS.put(COUNTED, IcebergVectors::decode);
    KINDS.put("roaring32", (bytes, count) -> RoaringVectors.decode32(bytes));
    KINDS.put("roaring64", (bytes, count) -> RoaringVectors.decode64(bytes));
    KINDS.put("delta", (bytes, count) -> DeltaVectors.decodeKernel(bytes));
    KINDS.put("delta-spark", (bytes, count) -> DeltaVectors.decodeSpark(bytes));
  }

  private Decode() {}

  static void run(List<String> arguments) throws Exception {
    Main.expect(arguments, 3, "decode KIND in.bytes out.results");
    Decoder decoder = Main.kind(KINDS, arguments.get(0));
    boolean counted = arguments.get(0).equals(COUNTED);
    try (BatchReader in = new BatchReader(arguments.get(1));
        BatchWriter out = new BatchWriter(arguments.get(2), in.cases())) {
      for (int i = 0; i < in.cases(); i++) {
        long recordCount = counted ? in.recordCount() : UNKNOWN;
        byte[] bytes = in.bytes();
        long cardinality;
        long[] positions;
        try {
          Rows rows = decoder.decode(bytes, recordCount);
          cardinality = rows.cardinality();
          positions = rows.positions();
        } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
          out.failedResult(t);
          continue;
        }
        out.result(cardinality, positions);
      }
    }
  }
}
