package dvcodec.interop;

import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * {@code decode KIND in.bytes out.results}: bytes in, what the reference makes of them out. The input
 * of some kinds has a record count before each case.
 */
final class Decode {
  /** Reads one case. */
  interface Decoder {
    Rows decode(byte[] bytes, long recordCount) throws Exception;
  }

  private static final long UNKNOWN = -1;

  private Decode() {}

  static void run(Map<String, Decoder> kinds, Set<String> countedKinds, List<String> arguments)
      throws Exception {
    CommandLine.expect(arguments, 3, "decode KIND in.bytes out.results");
    Decoder decoder = CommandLine.kind(kinds, arguments.get(0));
    boolean counted = countedKinds.contains(arguments.get(0));
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
