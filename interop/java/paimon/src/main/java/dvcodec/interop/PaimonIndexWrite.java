package dvcodec.interop;

import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.deletionvectors.DeletionVector;

/**
 * Drives Paimon's DeletionVectorsIndexFile: {@code index-write cases.json outdir} writes NAME-0, NAME-1
 * and so on, and prints one line of JSON per case.
 */
final class PaimonIndexWrite {
  /** Vectors to write, in this order; a null target size means that there is to be one file. */
  @JsonNaming(SnakeCaseStrategy.class)
  record Case(String name, int bits, Long targetSize, List<Deletes> vectors) {}

  /** Positions of one data file, single or as ranges with exclusive ends; the data file may come again. */
  @JsonNaming(SnakeCaseStrategy.class)
  record Deletes(String dataFile, Integer bits, long[] positions, long[][] ranges) {
    void addTo(DeletionVector vector) {
      if (positions != null) {
        for (long position : positions) {
          vector.delete(position);
        }
      }
      if (ranges != null) {
        for (long[] range : ranges) {
          for (long position = range[0]; position < range[1]; position++) {
            vector.delete(position);
          }
        }
      }
    }
  }

  private PaimonIndexWrite() {}

  static void run(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 2, "index-write cases.json outdir");
    Path directory = Path.of(arguments.get(1));
    for (Case each : Json.read(arguments.get(0), Case[].class)) {
      Map<String, Object> line = new LinkedHashMap<>();
      line.put("name", each.name());
      try {
        line.put(
            "files",
            Paimon.writeIndex(
                PaimonFiles.into(directory, each.name()), vectors(each), each.targetSize()));
      } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
        line.put("error", Failure.describe(t));
      }
      Json.print(line);
    }
  }

  private static Map<String, DeletionVector> vectors(Case each) {
    Map<String, DeletionVector> vectors = new LinkedHashMap<>();
    for (Deletes deletes : each.vectors()) {
      int bits = deletes.bits() == null ? each.bits() : deletes.bits();
      deletes.addTo(vectors.computeIfAbsent(deletes.dataFile(), file -> Paimon.newVector(bits)));
    }
    return vectors;
  }
}
