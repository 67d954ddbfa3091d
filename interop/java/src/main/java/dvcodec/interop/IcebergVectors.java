package dvcodec.interop;

import java.nio.ByteBuffer;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.deletes.PositionIndexes;

/** Drives Iceberg's BitmapPositionDeleteIndex: the framed {@code deletion-vector-v1} blob. */
final class IcebergVectors {
  private IcebergVectors() {}

  /** The blob after {@code delete(position)} for each of {@code positions}, in that order. */
  static ByteBuffer encode(long[] positions) {
    return index(positions).serialize();
  }

  /** The blob after {@code delete(start, end)} for each pair of {@code bounds}; ends are exclusive. */
  static ByteBuffer encodeRanges(long[] bounds) {
    if (bounds.length % 2 != 0) {
      throw new IllegalArgumentException("ranges need an even number of bounds");
    }
    PositionDeleteIndex index = PositionIndexes.create();
    for (int i = 0; i < bounds.length; i += 2) {
      index.delete(bounds[i], bounds[i + 1]);
    }
    return index.serialize();
  }

  /** Reads a blob; a negative {@code recordCount} stands for the one the bitmap itself claims. */
  static Rows decode(byte[] blob, long recordCount) {
    long count = recordCount < 0 ? PositionIndexes.cardinality(blob) : recordCount;
    DeleteFile file = deleteFile("vector.puffin", blob.length, "data.parquet", 0, blob.length, count);
    return rows(PositionDeleteIndex.deserialize(blob, file));
  }

  static Rows rows(PositionDeleteIndex index) {
    return new Rows(index.cardinality(), index::forEach);
  }

  static PositionDeleteIndex index(long[] positions) {
    PositionDeleteIndex index = PositionIndexes.create();
    for (long position : positions) {
      index.delete(position);
    }
    return index;
  }

  /** A manifest entry for one vector of an unpartitioned table. */
  static DeleteFile deleteFile(
      String path, long fileSize, String dataFile, long offset, long size, long recordCount) {
    return FileMetadata.deleteFileBuilder(PartitionSpec.unpartitioned())
        .ofPositionDeletes()
        .withFormat(FileFormat.PUFFIN)
        .withPath(path)
        .withFileSizeInBytes(fileSize)
        .withReferencedDataFile(dataFile)
        .withContentOffset(offset)
        .withContentSizeInBytes(size)
        .withRecordCount(recordCount)
        .build();
  }
}
