package dvcodec.interop;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.DeletionVectorsIndexFile;

/**
 * Drives Paimon's ways of reading an index file, given what a manifest says of it: {@code index-read
 * spec.json} prints one line of JSON per file.
 */
final class PaimonIndexRead {
  /** A file to read. */
  record Spec(String file, String reader, List<PaimonIndexFile.Vector> vectors) {
    PaimonIndexFile indexFile() throws Exception {
      return new PaimonIndexFile(
          DeletionVectorsIndexFile.DELETION_VECTORS_INDEX,
          PaimonFiles.name(file),
          PaimonFiles.size(file),
          (long) vectors.size(),
          vectors,
          null);
    }
  }

  /** Reads one vector. */
  private interface Reader {
    DeletionVector read(Spec spec, PaimonIndexFile.Vector vector) throws Exception;
  }

  private static final Map<String, Reader> READERS = new LinkedHashMap<>();

  /** The reader that takes all vectors at once, so that they fail together. */
  private static final String ALL = "maintenance";

  static {
    READERS.put(
        "scan",
        (spec, vector) ->
            DeletionVector.read(
                PaimonFiles.IO,
                Paimon.deletionFile(PaimonFiles.absolute(spec.file()), vector)));
    READERS.put(
        "maintenance-one",
        (spec, vector) ->
            Paimon.indexFile(PaimonFiles.nextTo(spec.file()))
                .readDeletionVector(
                    Paimon.deletionFile(PaimonFiles.absolute(spec.file()), vector)));
  }

  private PaimonIndexRead() {}

  static void run(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 1, "index-read spec.json");
    for (Spec spec : Json.read(arguments.get(0), Spec[].class)) {
      if (!spec.reader().equals(ALL) && !READERS.containsKey(spec.reader())) {
        throw new IllegalArgumentException(
            "reader must be one of " + ALL + ", " + String.join(", ", READERS.keySet()));
      }
      Json.print(read(spec));
    }
  }

  private static Map<String, Object> read(Spec spec) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("file", spec.file());
    try {
      if (spec.reader().equals(ALL)) {
        Map<String, DeletionVector> read =
            Paimon.indexFile(PaimonFiles.nextTo(spec.file()))
                .readAllDeletionVectors(Paimon.meta(spec.indexFile()));
        line.put(
            "vectors",
            spec.vectors().stream()
                .map(vector -> describe(vector, () -> read.get(vector.dataFile())))
                .toList());
      } else {
        Reader reader = READERS.get(spec.reader());
        line.put(
            "vectors",
            spec.vectors().stream()
                .map(vector -> describe(vector, () -> reader.read(spec, vector)))
                .toList());
      }
    } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
      line.put("error", Failure.describe(t));
    }
    return line;
  }

  /** What was read, or why it was not. */
  private static Map<String, Object> describe(
      PaimonIndexFile.Vector vector, Callable<DeletionVector> source) {
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("data_file", vector.dataFile());
    try {
      DeletionVector read = source.call();
      Rows rows = Paimon.rows(read);
      long[] positions = rows.positions();
      entry.put("class", read.getClass().getSimpleName());
      entry.put("cardinality", rows.cardinality());
      entry.put("positions", positions);
    } catch (Throwable t) {
      entry.put("error", Failure.describe(t));
    }
    return entry;
  }
}
