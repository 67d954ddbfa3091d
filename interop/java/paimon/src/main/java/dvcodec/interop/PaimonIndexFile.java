package dvcodec.interop;

import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import java.util.List;

/**
 * What a manifest says of an index file, as it stands in our JSON. Every version of Paimon has its own
 * class for it; what a version does not have is null.
 */
@JsonNaming(SnakeCaseStrategy.class)
record PaimonIndexFile(
    String indexType,
    String fileName,
    long fileSize,
    Long rowCount,
    List<Vector> vectors,
    String externalPath) {
  /** Where a data file's vector is; null for {@code cardinality} means not recorded. */
  @JsonNaming(SnakeCaseStrategy.class)
  record Vector(String dataFile, int offset, int length, Long cardinality) {}
}
