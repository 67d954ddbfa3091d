package dvcodec.interop;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.function.LongConsumer;
import org.roaringbitmap.IntConsumer;
import org.roaringbitmap.RoaringBitmap;
import org.roaringbitmap.longlong.Roaring64Bitmap;
import org.roaringbitmap.longlong.Roaring64NavigableMap;

/** Drives RoaringBitmap (32 bits) and Roaring64NavigableMap in its portable form (64 bits, unsigned). */
final class RoaringVectors {
  private static final long MAX_32 = 0xFFFFFFFFL;

  private RoaringVectors() {}

  static ByteBuffer encode32(long[] positions) {
    RoaringBitmap bitmap = new RoaringBitmap();
    for (long position : positions) {
      if (position < 0 || position > MAX_32) {
        throw new IllegalArgumentException("not a 32-bit position: " + position);
      }
      bitmap.add((int) position);
    }
    bitmap.runOptimize();
    ByteBuffer bytes = ByteBuffer.allocate(bitmap.serializedSizeInBytes());
    bitmap.serialize(bytes);
    return bytes.flip();
  }

  static ByteBuffer encode64(long[] positions) throws IOException {
    Roaring64NavigableMap bitmap = new Roaring64NavigableMap();
    for (long position : positions) {
      bitmap.addLong(position);
    }
    bitmap.runOptimize();
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    bitmap.serializePortable(new DataOutputStream(bytes));
    return ByteBuffer.wrap(bytes.toByteArray());
  }

  /** The default mode of Roaring64NavigableMap, with unsigned keys. */
  static ByteBuffer encodeLegacy(long[] positions) throws IOException {
    Roaring64NavigableMap bitmap = new Roaring64NavigableMap();
    for (long position : positions) {
      bitmap.addLong(position);
    }
    bitmap.runOptimize();
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    bitmap.serializeLegacy(new DataOutputStream(bytes));
    return ByteBuffer.wrap(bytes.toByteArray());
  }

  static Rows decodeLegacy(byte[] bytes) throws IOException {
    Roaring64NavigableMap bitmap = new Roaring64NavigableMap();
    bitmap.deserializeLegacy(new DataInputStream(new ByteArrayInputStream(bytes)));
    return new Rows(bitmap.getLongCardinality(), consumer -> bitmap.forEach(consumer::accept));
  }

  /** The tree of Roaring64Bitmap. */
  static ByteBuffer encodeArt(long[] positions) throws IOException {
    Roaring64Bitmap bitmap = new Roaring64Bitmap();
    for (long position : positions) {
      bitmap.addLong(position);
    }
    bitmap.runOptimize();
    return serialized(bitmap);
  }

  /** The same values, after many others were added, in descending order, and removed again. */
  static ByteBuffer encodeWornArt(long[] positions) throws IOException {
    Roaring64Bitmap bitmap = new Roaring64Bitmap();
    Roaring64Bitmap wanted = new Roaring64Bitmap();
    for (int i = positions.length - 1; i >= 0; i--) {
      wanted.addLong(positions[i]);
      bitmap.addLong(positions[i]);
      for (int bit = 0; bit < 63; bit += 7) {
        bitmap.addLong(positions[i] ^ 1L << bit);
      }
    }
    for (int i = 0; i < positions.length; i++) {
      for (int bit = 0; bit < 63; bit += 7) {
        long other = positions[i] ^ 1L << bit;
        if (!wanted.contains(other)) {
          bitmap.removeLong(other);
        }
      }
    }
    return serialized(bitmap);
  }

  private static ByteBuffer serialized(Roaring64Bitmap bitmap) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    bitmap.serialize(new DataOutputStream(bytes));
    return ByteBuffer.wrap(bytes.toByteArray());
  }

  static Rows decodeArt(byte[] bytes) throws IOException {
    Roaring64Bitmap bitmap = new Roaring64Bitmap();
    bitmap.deserialize(new DataInputStream(new ByteArrayInputStream(bytes)));
    return new Rows(bitmap.getLongCardinality(), consumer -> bitmap.forEach(consumer::accept));
  }

  static Rows decode32(byte[] bytes) throws IOException {
    RoaringBitmap bitmap = new RoaringBitmap();
    bitmap.deserialize(ByteBuffer.wrap(bytes));
    return new Rows(bitmap.getLongCardinality(), consumer -> bitmap.forEach(unsigned(consumer)));
  }

  static Rows decode64(byte[] bytes) throws IOException {
    Roaring64NavigableMap bitmap = new Roaring64NavigableMap();
    bitmap.deserializePortable(new DataInputStream(new ByteArrayInputStream(bytes)));
    return new Rows(bitmap.getLongCardinality(), consumer -> bitmap.forEach(consumer::accept));
  }

  private static IntConsumer unsigned(LongConsumer consumer) {
    return value -> consumer.accept(Integer.toUnsignedLong(value));
  }
}
