package org.apache.iceberg.mumbling;

import java.nio.ByteBuffer;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.iceberg.ManifestBitmap;

/** Opens what Iceberg keeps package-private: the encoding of descriptors. No writer of bitmaps is released. */
public final class Mumblings {
  private Mumblings() {}

  /** Byte values, one each, in PFOR encoding. */
  public static ByteBuffer encodeDescriptors(long[] values) {
    int[] descriptors = LongStream.of(values).mapToInt(Math::toIntExact).toArray();
    ByteBuffer encoded = PFOREncoding.encode(descriptors, descriptors.length);
    byte[] bytes = new byte[encoded.remaining()];
    encoded.get(bytes);
    return ByteBuffer.wrap(bytes);
  }

  /** All positions of a bitmap: each one that its containers can hold is asked for. */
  public static LongStream positions(byte[] bytes) {
    ManifestBitmap bitmap = MumblingBitmaps.read(ByteBuffer.wrap(bytes));
    int containers = (bytes[4] & 0xFF) | (bytes[5] & 0xFF) << 8;
    return IntStream.range(0, containers << 8).filter(bitmap::isSet).asLongStream();
  }

  /** The cardinality that a bitmap states. */
  public static long cardinality(byte[] bytes) {
    return MumblingBitmaps.read(ByteBuffer.wrap(bytes)).cardinality();
  }
}
