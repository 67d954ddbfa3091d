package dvcodec.interop;

import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.Files;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.puffin.BlobMetadata;
import org.apache.iceberg.puffin.FileMetadata;
import org.apache.iceberg.puffin.Puffin;
import org.apache.iceberg.puffin.PuffinReader;
import org.apache.iceberg.puffin.StandardBlobTypes;
import org.apache.iceberg.util.ByteBuffers;

/**
 * Drives Iceberg's PuffinReader for the footer and BaseDeleteLoader, the engines' way, for deletion
 * vectors: {@code puffin-read file...} prints one line of JSON per file.
 */
final class PuffinRead {
  private PuffinRead() {}

  static void run(List<String> arguments) throws Exception {
    CommandLine.expectSome(arguments, "puffin-read file...");
    for (String file : arguments) {
      Json.print(read(file));
    }
  }

  private static Map<String, Object> read(String file) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("file", file);
    try {
      InputFile input = Files.localInput(file);
      try (PuffinReader reader = Puffin.read(input).build()) {
        FileMetadata footer = reader.fileMetadata();
        line.put("file_size", input.getLength());
        line.put("properties", footer.properties());
        line.put("blobs", footer.blobs().stream().map(blob -> read(input, reader, blob)).toList());
      }
    } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
      line.put("error", Failure.describe(t));
    }
    return line;
  }

  /** One blob: its metadata, and what is in it or why that cannot be read. */
  private static Map<String, Object> read(InputFile input, PuffinReader reader, BlobMetadata blob) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("type", blob.type());
    line.put("fields", blob.inputFields());
    line.put("snapshot_id", blob.snapshotId());
    line.put("sequence_number", blob.sequenceNumber());
    line.put("offset", blob.offset());
    line.put("length", blob.length());
    line.put("compression_codec", blob.compressionCodec());
    line.put("properties", blob.properties());
    try {
      if (blob.type().equals(StandardBlobTypes.DV_V1)) {
        Rows rows = vector(input, blob);
        line.put("cardinality", rows.cardinality());
        line.put("positions", rows.positions());
      } else {
        byte[] data = ByteBuffers.toByteArray(reader.readAll(List.of(blob)).iterator().next().second());
        line.put("data_hex", HexFormat.of().formatHex(data));
      }
    } catch (Throwable t) {
      line.put("error", Failure.describe(t));
    }
    return line;
  }

  /** Reads a vector through a manifest entry made of the footer, as if it had come from a table. */
  private static Rows vector(InputFile input, BlobMetadata blob) {
    String dataFile = blob.properties().get("referenced-data-file");
    long recordCount = Long.parseLong(blob.properties().get("cardinality"));
    DeleteFile file =
        IcebergVectors.deleteFile(
            input.location(), input.getLength(), dataFile, blob.offset(), blob.length(), recordCount);
    BaseDeleteLoader loader = new BaseDeleteLoader(ignored -> input);
    return IcebergVectors.rows(loader.loadPositionDeletes(List.of(file), dataFile));
  }
}
