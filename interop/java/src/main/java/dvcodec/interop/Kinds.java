package dvcodec.interop;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.mumbling.Mumblings;

/** What {@code encode} and {@code decode} can drive in Iceberg, Delta and RoaringBitmap. */
final class Kinds {
  static final Map<String, Encode.Encoder> ENCODERS = new LinkedHashMap<>();
  static final Map<String, Decode.Decoder> DECODERS = new LinkedHashMap<>();

  /** The kinds of decoder whose cases have a record count. */
  static final Set<String> COUNTED = Set.of("iceberg");

  static {
    ENCODERS.put("iceberg", IcebergVectors::encode);
    ENCODERS.put("iceberg-ranges", IcebergVectors::encodeRanges);
    ENCODERS.put("pfor", Mumblings::encodeDescriptors);
    ENCODERS.put("roaring32", RoaringVectors::encode32);
    ENCODERS.put("roaring64", RoaringVectors::encode64);
    ENCODERS.put("roaring64-legacy", RoaringVectors::encodeLegacy);
    ENCODERS.put("roaring64-art", RoaringVectors::encodeArt);
    ENCODERS.put("roaring64-art-worn", RoaringVectors::encodeWornArt);
    ENCODERS.put("delta-portable", DeltaVectors::encodePortable);
    ENCODERS.put("delta-native", DeltaVectors::encodeNative);

    DECODERS.put("iceberg", IcebergVectors::decode);
    DECODERS.put("mumbling", (bytes, count) -> mumbling(bytes));
    DECODERS.put("roaring32", (bytes, count) -> RoaringVectors.decode32(bytes));
    DECODERS.put("roaring64", (bytes, count) -> RoaringVectors.decode64(bytes));
    DECODERS.put("roaring64-legacy", (bytes, count) -> RoaringVectors.decodeLegacy(bytes));
    DECODERS.put("roaring64-art", (bytes, count) -> RoaringVectors.decodeArt(bytes));
    DECODERS.put("delta", (bytes, count) -> DeltaVectors.decodeKernel(bytes));
    DECODERS.put("delta-spark", (bytes, count) -> DeltaVectors.decodeSpark(bytes));
  }

  private Kinds() {}

  private static Rows mumbling(byte[] bytes) {
    return new Rows(
        Mumblings.cardinality(bytes), consumer -> Mumblings.positions(bytes).forEach(consumer));
  }
}
