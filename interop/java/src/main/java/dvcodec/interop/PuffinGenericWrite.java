package dvcodec.interop;

import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.Files;
import org.apache.iceberg.puffin.Blob;
import org.apache.iceberg.puffin.Puffin;
import org.apache.iceberg.puffin.PuffinCompressionCodec;
import org.apache.iceberg.puffin.PuffinWriter;

/** Drives Iceberg's Puffin.write with any blobs: {@code puffin-generic-write spec.json out.puffin}. */
final class PuffinGenericWrite {
  /** The file to write; properties keep their order. */
  @JsonNaming(SnakeCaseStrategy.class)
  record Spec(LinkedHashMap<String, String> properties, boolean compressFooter, List<BlobSpec> blobs) {}

  /** One blob; a null compression leaves it to the writer, which then takes none. */
  @JsonNaming(SnakeCaseStrategy.class)
  record BlobSpec(
      String type,
      List<Integer> fields,
      long snapshotId,
      long sequenceNumber,
      String dataHex,
      String compression,
      LinkedHashMap<String, String> properties) {
    Blob blob() {
      return new Blob(
          type,
          fields,
          snapshotId,
          sequenceNumber,
          ByteBuffer.wrap(HexFormat.of().parseHex(dataHex)),
          compression == null ? null : PuffinCompressionCodec.forName(compression),
          properties == null ? Map.of() : properties);
    }
  }

  private PuffinGenericWrite() {}

  static void run(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 2, "puffin-generic-write spec.json out.puffin");
    Spec spec = Json.read(arguments.get(0), Spec.class);
    Path file = Path.of(arguments.get(1)).toAbsolutePath(); // Files.localOutput looks at its parent
    java.nio.file.Files.deleteIfExists(file);

    Map<String, Object> line = new LinkedHashMap<>();
    line.put("file", arguments.get(1));
    try {
      PuffinWriter writer = write(spec, file);
      line.put("file_size", writer.fileSize());
      line.put("footer_size", writer.footerSize());
    } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
      java.nio.file.Files.deleteIfExists(file);
      line.put("error", Failure.describe(t));
    }
    Json.print(line);
  }

  private static PuffinWriter write(Spec spec, Path file) throws IOException {
    Puffin.WriteBuilder builder = Puffin.write(Files.localOutput(file.toFile()));
    if (spec.properties() != null) {
      builder.setAll(spec.properties());
    }
    if (spec.compressFooter()) {
      builder.compressFooter();
    }
    try (PuffinWriter writer = builder.build()) {
      for (BlobSpec blob : spec.blobs()) {
        writer.write(blob.blob());
      }
      writer.finish();
      return writer;
    }
  }
}
