package dvcodec.interop;

import com.fasterxml.jackson.annotation.JsonProperty;
import io.delta.kernel.internal.actions.DeletionVectorDescriptor;
import io.delta.kernel.internal.deletionvectors.DeletionVectorStoredBitmap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Drives the kernel's DeletionVectorDescriptor and DeletionVectorStoredBitmap: {@code delta-read
 * descriptors.json} prints one line of JSON per descriptor.
 */
final class DeltaRead {
  /** A descriptor as it stands in a log, and the table it belongs to. */
  record Descriptor(
      @JsonProperty("table_root") String tableRoot,
      String storageType,
      String pathOrInlineDv,
      Integer offset,
      int sizeInBytes,
      long cardinality) {
    DeletionVectorDescriptor kernel() {
      return new DeletionVectorDescriptor(
          storageType, pathOrInlineDv, Optional.ofNullable(offset), sizeInBytes, cardinality);
    }
  }

  private DeltaRead() {}

  static void run(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 1, "delta-read descriptors.json");
    for (Descriptor descriptor : Json.read(arguments.get(0), Descriptor[].class)) {
      Json.print(read(descriptor));
    }
  }

  private static Map<String, Object> read(Descriptor descriptor) {
    Map<String, Object> line = new LinkedHashMap<>();
    try {
      DeletionVectorDescriptor dv = descriptor.kernel();
      line.put("unique_id", dv.getUniqueId());
      line.put("absolute_path", dv.isInline() ? null : dv.getAbsolutePath(descriptor.tableRoot()));
      DeletionVectorStoredBitmap stored =
          new DeletionVectorStoredBitmap(dv, Optional.ofNullable(descriptor.tableRoot()));
      Rows rows = DeltaVectors.rows(stored.load(new LocalFiles()));
      line.put("cardinality", rows.cardinality());
      line.put("positions", rows.positions());
    } catch (Throwable t) { // an OutOfMemoryError or AssertionError is an answer too
      line.put("error", Failure.describe(t));
    }
    return line;
  }
}
