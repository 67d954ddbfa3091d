package dvcodec.interop;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Drives Paimon's HashIndexFile: {@code hash-write cases.json outdir} writes NAME-0 and prints one line
 * of JSON per case, {@code hash-read file...} one per file.
 */
final class PaimonHash {
  /** A file to write. */
  record Case(String name, int[] ints) {}

  private PaimonHash() {}

  static void runWrite(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 2, "hash-write cases.json outdir");
    Path directory = Path.of(arguments.get(1));
    for (Case each : Json.read(arguments.get(0), Case[].class)) {
      Map<String, Object> line = new LinkedHashMap<>();
      line.put("name", each.name());
      try {
        line.put("file", Paimon.writeHash(PaimonFiles.into(directory, each.name()), each.ints()));
      } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
        line.put("error", Failure.describe(t));
      }
      Json.print(line);
    }
  }

  static void runRead(List<String> arguments) throws Exception {
    CommandLine.expectSome(arguments, "hash-read file...");
    for (String file : arguments) {
      Map<String, Object> line = new LinkedHashMap<>();
      line.put("file", file);
      try {
        line.put("ints", Paimon.readHash(PaimonFiles.nextTo(file), PaimonFiles.name(file)));
      } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
        line.put("error", Failure.describe(t));
      }
      Json.print(line);
    }
  }
}
