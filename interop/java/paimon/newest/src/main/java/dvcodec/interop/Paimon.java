package dvcodec.interop;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.DeletionVectorsIndexFile;
import org.apache.paimon.format.FileFormat;
import org.apache.paimon.fs.Path;
import org.apache.paimon.index.DeletionVectorMeta;
import org.apache.paimon.index.HashIndexFile;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.index.IndexPathFactory;
import org.apache.paimon.manifest.IndexManifestFile;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.source.DeletionFile;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.FileStorePathFactory;
import org.apache.paimon.utils.IntIterator;
import org.apache.paimon.utils.OptimizedRoaringBitmap64;
import org.apache.paimon.utils.PathFactory;

/** What the commands need of Paimon, here of a version that has both kinds of vector. */
final class Paimon {
  private static final int FRAME_32 = 8; // the length of the 32-bit kind leaves out itself and the CRC

  static final Map<String, Encode.Encoder> ENCODERS = new LinkedHashMap<>();
  static final Map<String, Decode.Decoder> DECODERS = new LinkedHashMap<>();

  static {
    ENCODERS.put("paimon32", positions -> record(new BitmapDeletionVector(), positions));
    ENCODERS.put("paimon64", positions -> record(new Bitmap64DeletionVector(), positions));

    DECODERS.put("paimon", (record, count) -> decode(record, null));
    DECODERS.put("paimon32", (record, count) -> decode(record, (long) record.length - FRAME_32));
    DECODERS.put("paimon64", (record, count) -> decode(record, (long) record.length));
  }

  private Paimon() {}

  static DeletionVector newVector(int bits) {
    return switch (bits) {
      case 32 -> new BitmapDeletionVector();
      case 64 -> new Bitmap64DeletionVector();
      default -> throw new IllegalArgumentException("bits must be 32 or 64, not " + bits);
    };
  }

  private static ByteBuffer record(DeletionVector vector, long[] positions) throws IOException {
    for (long position : positions) {
      vector.delete(position);
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    vector.serializeTo(new DataOutputStream(bytes));
    return ByteBuffer.wrap(bytes.toByteArray());
  }

  private static Rows decode(byte[] record, Long length) throws Exception {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(record));
    return rows(DeletionVector.read(in, length));
  }

  /** The positions; the classes give no access to those of the 64-bit kind, so its field is read. */
  static Rows rows(DeletionVector vector) throws ReflectiveOperationException {
    if (vector instanceof BitmapDeletionVector small) {
      return new Rows(
          vector.getCardinality(),
          consumer -> {
            Iterator<Integer> positions = small.get().iterator();
            while (positions.hasNext()) {
              consumer.accept(positions.next());
            }
          });
    }
    Field field = Bitmap64DeletionVector.class.getDeclaredField("roaringBitmap");
    field.setAccessible(true);
    OptimizedRoaringBitmap64 bitmap = (OptimizedRoaringBitmap64) field.get(vector);
    return new Rows(vector.getCardinality(), bitmap::forEach);
  }

  static DeletionVectorsIndexFile indexFile(PathFactory files) {
    return indexFile(files, MemorySize.MAX_VALUE);
  }

  private static DeletionVectorsIndexFile indexFile(PathFactory files, MemorySize targetSize) {
    return new DeletionVectorsIndexFile(PaimonFiles.IO, indexFiles(files), targetSize, true);
  }

  private static IndexPathFactory indexFiles(PathFactory files) {
    return new IndexPathFactory() {
      @Override
      public Path newPath() {
        return files.newPath();
      }

      @Override
      public Path toPath(IndexFileMeta file) {
        return files.toPath(file.fileName());
      }

      @Override
      public boolean isExternalPath() {
        return false;
      }
    };
  }

  /** Writes one file, or as many as it takes when there is a target size. */
  static List<PaimonIndexFile> writeIndex(
      PathFactory files, Map<String, DeletionVector> vectors, Long targetSize) {
    List<IndexFileMeta> written =
        targetSize == null
            ? List.of(indexFile(files).writeSingleFile(vectors))
            : indexFile(files, MemorySize.ofBytes(targetSize)).writeWithRolling(vectors);
    return written.stream().map(Paimon::describe).toList();
  }

  static DeletionFile deletionFile(String path, PaimonIndexFile.Vector vector) {
    return new DeletionFile(path, vector.offset(), vector.length(), vector.cardinality());
  }

  static PaimonIndexFile describe(IndexFileMeta meta) {
    List<PaimonIndexFile.Vector> vectors =
        meta.dvRanges() == null
            ? null
            : meta.dvRanges().values().stream()
                .map(
                    vector ->
                        new PaimonIndexFile.Vector(
                            vector.dataFileName(),
                            vector.offset(),
                            vector.length(),
                            vector.cardinality()))
                .toList();
    return new PaimonIndexFile(
        meta.indexType(),
        meta.fileName(),
        meta.fileSize(),
        meta.rowCount(),
        vectors,
        meta.externalPath());
  }

  static IndexFileMeta meta(PaimonIndexFile file) {
    LinkedHashMap<String, DeletionVectorMeta> vectors = null;
    if (file.vectors() != null) {
      vectors = new LinkedHashMap<>();
      for (PaimonIndexFile.Vector vector : file.vectors()) {
        vectors.put(
            vector.dataFile(),
            new DeletionVectorMeta(
                vector.dataFile(), vector.offset(), vector.length(), vector.cardinality()));
      }
    }
    return new IndexFileMeta(
        file.indexType(),
        file.fileName(),
        file.fileSize(),
        file.rowCount(),
        vectors,
        file.externalPath());
  }

  /** The table's index manifests; a null compression leaves it to Paimon. */
  static IndexManifestFile manifest(PathFactory files, String compression) {
    Options options = new Options();
    if (compression != null) {
      options.set(CoreOptions.MANIFEST_COMPRESSION, compression);
    }
    CoreOptions core = new CoreOptions(options);
    FileStorePathFactory paths =
        new FileStorePathFactory(
            new Path("/"),
            RowType.of(),
            core.partitionDefaultName(),
            core.fileFormatString(),
            core.dataFilePrefix(),
            core.changelogFilePrefix(),
            core.legacyPartitionName(),
            core.fileSuffixIncludeCompression(),
            core.fileCompression(),
            core.dataFilePathDirectory(),
            List.of(),
            core.indexFileInDataFileDir()) {
          @Override
          public PathFactory indexManifestFileFactory() {
            return files;
          }
        };
    return new IndexManifestFile.Factory(
            PaimonFiles.IO,
            FileFormat.manifestFormat(core),
            core.manifestCompression(),
            paths,
            null)
        .create();
  }

  static PaimonIndexFile writeHash(PathFactory files, int[] ints) throws IOException {
    return describe(new HashIndexFile(PaimonFiles.IO, indexFiles(files)).write(ints));
  }

  static int[] readHash(PathFactory files, String name) throws IOException {
    IndexFileMeta meta =
        new IndexFileMeta(HashIndexFile.HASH_INDEX, name, 0, 0, null, null); // only its name counts
    return IntIterator.toInts(new HashIndexFile(PaimonFiles.IO, indexFiles(files)).read(meta));
  }
}
