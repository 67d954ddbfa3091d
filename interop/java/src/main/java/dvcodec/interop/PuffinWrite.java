package dvcodec.interop;

import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.types.Types;

/**
 * Drives Iceberg's BaseDVFileWriter on an unpartitioned version 3 table: {@code puffin-write cases.json
 * outdir} writes NAME.puffin, and in NAME.json what the manifest would say of it, in the writer's order.
 */
final class PuffinWrite {
  /** One file to write: positions to delete, on top of what was deleted before. */
  record Case(String name, List<Deletes> deletes, Map<String, long[]> previous) {
    long[] previousOf(String dataFile) {
      return previous == null ? null : previous.get(dataFile);
    }
  }

  /** Positions of one data file; the same data file may come again. */
  @JsonNaming(SnakeCaseStrategy.class)
  record Deletes(String dataFile, long[] positions) {}

  /** The fields of a manifest entry that describe a vector. */
  @JsonNaming(SnakeCaseStrategy.class)
  record Entry(
      String referencedDataFile,
      long contentOffset,
      long contentSizeInBytes,
      long recordCount,
      long fileSizeInBytes,
      String format) {
    static Entry of(DeleteFile file) {
      return new Entry(
          file.referencedDataFile(),
          file.contentOffset(),
          file.contentSizeInBytes(),
          file.recordCount(),
          file.fileSizeInBytes(),
          file.format().name());
    }
  }

  private final Table table;
  private final Path directory;

  private PuffinWrite(Table table, Path directory) {
    this.table = table;
    this.directory = directory;
  }

  static void run(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 2, "puffin-write cases.json outdir");
    Case[] cases = Json.read(arguments.get(0), Case[].class);
    try (InMemoryCatalog catalog = new InMemoryCatalog()) {
      catalog.initialize("interop", Map.of());
      catalog.createNamespace(Namespace.of("db"));
      Table table =
          catalog.createTable(
              TableIdentifier.of("db", "t"),
              new Schema(Types.NestedField.required(1, "id", Types.LongType.get())),
              PartitionSpec.unpartitioned(),
              Map.of(TableProperties.FORMAT_VERSION, "3"));
      PuffinWrite writer = new PuffinWrite(table, Files.createDirectories(Path.of(arguments.get(1))));
      for (Case each : cases) {
        writer.run(each);
      }
    }
  }

  private void run(Case each) throws IOException {
    Path puffin = directory.resolve(each.name() + ".puffin");
    Path json = directory.resolve(each.name() + ".json");
    Files.deleteIfExists(puffin);
    List<DeleteFile> vectors;
    try {
      vectors = write(each);
    } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
      Json.write(json, Map.of("error", Failure.describe(t)));
      return;
    }
    if (!vectors.isEmpty()) {
      copy(vectors.get(0).location(), puffin); // all vectors of a writer share one file
    }
    Json.write(json, vectors.stream().map(Entry::of).toList());
  }

  /** The vectors that the writer made, in its order. */
  private List<DeleteFile> write(Case each) throws IOException {
    OutputFileFactory files =
        OutputFileFactory.builderFor(table, 1, 1).format(FileFormat.PUFFIN).build();
    BaseDVFileWriter writer = new BaseDVFileWriter(files, path -> previousIndex(each.previousOf(path)));
    for (Deletes deletes : each.deletes()) {
      for (long position : deletes.positions()) {
        writer.delete(deletes.dataFile(), position, table.spec(), null);
      }
    }
    writer.close();
    return writer.result().deleteFiles();
  }

  /** Earlier deletes as an engine gets them: written once, then read back from the vector. */
  private static PositionDeleteIndex previousIndex(long[] positions) {
    if (positions == null) {
      return null;
    }
    PositionDeleteIndex written = IcebergVectors.index(positions);
    ByteBuffer blob = written.serialize();
    DeleteFile file =
        IcebergVectors.deleteFile(
            "previous.puffin", blob.remaining(), "data.parquet", 0, blob.remaining(), written.cardinality());
    return PositionDeleteIndex.deserialize(blob.array(), file);
  }

  private void copy(String location, Path target) throws IOException {
    try (InputStream in = table.io().newInputFile(location).newStream()) {
      Files.copy(in, target, StandardCopyOption.REPLACE_EXISTING);
    }
    table.io().deleteFile(location);
  }
}
