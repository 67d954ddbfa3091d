package dvcodec.interop;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryRowWriter;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.IndexManifestFile;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.utils.SerializationUtils;

/**
 * Drives Paimon's IndexManifestFile: {@code manifest-write cases.json outdir} writes NAME-0 and prints
 * one line of JSON per case, {@code manifest-read file...} one per file.
 */
final class PaimonManifest {
  /**
   * A manifest to write. Without a bucket mode the entries are written as they stand; with one they are
   * committed, on top of the previous ones if there are any.
   */
  @JsonNaming(SnakeCaseStrategy.class)
  record Case(
      String name,
      String compression,
      String bucketMode,
      List<Entry> previous,
      List<Entry> entries) {}

  /** An entry to write; the partition's values are strings, ints or nulls. */
  record Entry(
      String kind,
      List<Object> partition,
      int bucket,
      @JsonProperty("index_file") PaimonIndexFile indexFile) {
    IndexManifestEntry paimon() {
      return new IndexManifestEntry(
          FileKind.valueOf(kind), row(partition), bucket, Paimon.meta(indexFile));
    }
  }

  private PaimonManifest() {}

  static void runWrite(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 2, "manifest-write cases.json outdir");
    Path directory = Path.of(arguments.get(1));
    for (Case each : Json.read(arguments.get(0), Case[].class)) {
      Map<String, Object> line = new LinkedHashMap<>();
      line.put("name", each.name());
      try {
        IndexManifestFile manifest =
            Paimon.manifest(PaimonFiles.into(directory, each.name()), each.compression());
        String written = write(manifest, each);
        line.put("file_name", written);
        line.put("entries", written == null ? List.of() : read(manifest, written));
      } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
        line.put("error", Failure.describe(t));
      }
      Json.print(line);
    }
  }

  /** The name of the file, or null when there was nothing to commit. */
  private static String write(IndexManifestFile manifest, Case each) {
    if (each.bucketMode() == null) {
      return manifest.writeWithoutRolling(paimon(each.entries()));
    }
    String previous =
        each.previous() == null ? null : manifest.writeWithoutRolling(paimon(each.previous()));
    return manifest.writeIndexFiles(
        previous, paimon(each.entries()), BucketMode.valueOf(each.bucketMode()));
  }

  private static List<IndexManifestEntry> paimon(List<Entry> entries) {
    return entries.stream().map(Entry::paimon).toList();
  }

  static void runRead(List<String> arguments) throws Exception {
    CommandLine.expectSome(arguments, "manifest-read file...");
    for (String file : arguments) {
      Map<String, Object> line = new LinkedHashMap<>();
      line.put("file", file);
      try {
        line.put(
            "entries",
            read(Paimon.manifest(PaimonFiles.nextTo(file), null), PaimonFiles.name(file)));
      } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
        line.put("error", Failure.describe(t));
      }
      Json.print(line);
    }
  }

  private static List<Map<String, Object>> read(IndexManifestFile manifest, String name) {
    return manifest.read(name).stream().map(PaimonManifest::describe).toList();
  }

  private static Map<String, Object> describe(IndexManifestEntry entry) {
    Map<String, Object> line = new LinkedHashMap<>();
    byte[] partition = SerializationUtils.serializeBinaryRow(entry.partition());
    line.put("kind", entry.kind().name());
    line.put("partition_hex", HexFormat.of().formatHex(partition));
    line.put("bucket", entry.bucket());
    line.put("index_file", Paimon.describe(entry.indexFile()));
    return line;
  }

  private static BinaryRow row(List<Object> values) {
    if (values.isEmpty()) {
      return BinaryRow.EMPTY_ROW;
    }
    BinaryRow row = new BinaryRow(values.size());
    BinaryRowWriter writer = new BinaryRowWriter(row);
    for (int i = 0; i < values.size(); i++) {
      Object value = values.get(i);
      if (value == null) {
        writer.setNullAt(i);
      } else if (value instanceof Integer number) {
        writer.writeInt(i, number);
      } else if (value instanceof String text) {
        writer.writeString(i, BinaryString.fromString(text));
      } else {
        throw new IllegalArgumentException("neither a string nor an int: " + value);
      }
    }
    writer.complete();
    return row;
  }
}
