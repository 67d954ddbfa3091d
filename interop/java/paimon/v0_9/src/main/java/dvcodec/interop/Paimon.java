package dvcodec.interop;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.DeletionVectorsIndexFile;
import org.apache.paimon.fs.ByteArraySeekableStream;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.SeekableInputStream;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.HashIndexFile;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.manifest.IndexManifestFile;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.source.DeletionFile;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.FileStorePathFactory;
import org.apache.paimon.utils.IntIterator;
import org.apache.paimon.utils.Pair;
import org.apache.paimon.utils.PathFactory;
import org.apache.paimon.utils.RoaringBitmap32;

/** What the commands need of Paimon, here of 0.9: 32 bits only, and its classes frame no records. */
final class Paimon {
  private static final int FRAME = 8; // the length of a vector leaves out itself and the CRC

  static final Map<String, Encode.Encoder> ENCODERS = Map.of("paimon32", Paimon::record);
  static final Map<String, Decode.Decoder> DECODERS =
      Map.of("paimon32", (record, count) -> decode(record));

  private Paimon() {}

  static DeletionVector newVector(int bits) {
    if (bits != 32) {
      throw new IllegalArgumentException("bits must be 32, not " + bits);
    }
    return new BitmapDeletionVector();
  }

  /** A record cut out of an index file of one vector, from its offset to the end. */
  private static ByteBuffer record(long[] positions) throws IOException {
    DeletionVector vector = newVector(32);
    for (long position : positions) {
      vector.delete(position);
    }
    java.nio.file.Path directory = Files.createTempDirectory("dvcodec");
    java.nio.file.Path file = directory.resolve("record-0");
    try {
      PaimonIndexFile written =
          writeIndex(PaimonFiles.into(directory, "record"), Map.of("data", vector), null).get(0);
      byte[] bytes = Files.readAllBytes(file);
      int offset = written.vectors().get(0).offset();
      return ByteBuffer.wrap(Arrays.copyOfRange(bytes, offset, bytes.length));
    } finally {
      Files.deleteIfExists(file);
      Files.delete(directory);
    }
  }

  /** Reads a record as a file that holds nothing else; a scan does not ask for a version byte. */
  private static Rows decode(byte[] record) throws IOException, ReflectiveOperationException {
    FileIO memory =
        new LocalFileIO() {
          @Override
          public SeekableInputStream newInputStream(Path path) {
            return new ByteArraySeekableStream(record);
          }
        };
    return rows(DeletionVector.read(memory, new DeletionFile("record", 0, record.length - FRAME)));
  }

  /** The positions; the class gives no access to them, so its field is read. */
  static Rows rows(DeletionVector vector) throws ReflectiveOperationException {
    Field field = BitmapDeletionVector.class.getDeclaredField("roaringBitmap");
    field.setAccessible(true);
    RoaringBitmap32 bitmap = (RoaringBitmap32) field.get(vector);
    return new Rows(
        vector.getCardinality(),
        consumer -> {
          Iterator<Integer> positions = bitmap.iterator();
          while (positions.hasNext()) {
            consumer.accept(positions.next());
          }
        });
  }

  static DeletionVectorsIndexFile indexFile(PathFactory files) {
    return indexFile(files, MemorySize.MAX_VALUE);
  }

  private static DeletionVectorsIndexFile indexFile(PathFactory files, MemorySize targetSize) {
    return new DeletionVectorsIndexFile(PaimonFiles.IO, files, targetSize);
  }

  /** Writes one file, as for a bucketed table, or as many as it takes when there is a target size. */
  static List<PaimonIndexFile> writeIndex(
      PathFactory files, Map<String, DeletionVector> vectors, Long targetSize) {
    MemorySize size = targetSize == null ? MemorySize.MAX_VALUE : MemorySize.ofBytes(targetSize);
    return indexFile(files, size).write(vectors).stream().map(Paimon::describe).toList();
  }

  static DeletionFile deletionFile(String path, PaimonIndexFile.Vector vector) {
    return new DeletionFile(path, vector.offset(), vector.length());
  }

  static PaimonIndexFile describe(IndexFileMeta meta) {
    List<PaimonIndexFile.Vector> vectors =
        meta.deletionVectorsRanges() == null
            ? null
            : meta.deletionVectorsRanges().entrySet().stream()
                .map(
                    range ->
                        new PaimonIndexFile.Vector(
                            range.getKey(),
                            range.getValue().getLeft(),
                            range.getValue().getRight(),
                            null))
                .toList();
    return new PaimonIndexFile(
        meta.indexType(), meta.fileName(), meta.fileSize(), meta.rowCount(), vectors, null);
  }

  /** Leaves out what this version has no place for: cardinalities and the external path. */
  static IndexFileMeta meta(PaimonIndexFile file) {
    LinkedHashMap<String, Pair<Integer, Integer>> vectors = null;
    if (file.vectors() != null) {
      vectors = new LinkedHashMap<>();
      for (PaimonIndexFile.Vector vector : file.vectors()) {
        vectors.put(vector.dataFile(), Pair.of(vector.offset(), vector.length()));
      }
    }
    return new IndexFileMeta(
        file.indexType(), file.fileName(), file.fileSize(), file.rowCount(), vectors);
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
            core.fileFormat().getFormatIdentifier()) {
          @Override
          public PathFactory indexManifestFileFactory() {
            return files;
          }
        };
    return new IndexManifestFile.Factory(
            PaimonFiles.IO, core.manifestFormat(), core.manifestCompression(), paths, null)
        .create();
  }

  /** This version only tells the file's name; the size is asked for, the count is not known. */
  static PaimonIndexFile writeHash(PathFactory files, int[] ints) throws IOException {
    HashIndexFile hashes = new HashIndexFile(PaimonFiles.IO, files);
    String name = hashes.write(IntIterator.create(ints));
    return new PaimonIndexFile(
        HashIndexFile.HASH_INDEX, name, hashes.fileSize(name), null, null, null);
  }

  static int[] readHash(PathFactory files, String name) throws IOException {
    return IntIterator.toInts(new HashIndexFile(PaimonFiles.IO, files).read(name));
  }
}
