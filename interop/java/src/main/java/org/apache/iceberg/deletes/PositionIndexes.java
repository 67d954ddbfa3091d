package org.apache.iceberg.deletes;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Opens the two package-private classes behind Iceberg's deletion vectors: {@link
 * BitmapPositionDeleteIndex} and {@link RoaringPositionBitmap}.
 */
public final class PositionIndexes {
  private static final int HEADER_BYTES = 8; // length, magic
  private static final int TRAILER_BYTES = 4; // CRC-32

  private PositionIndexes() {}

  /** A new, empty index, as the engines' writers fill it. */
  public static PositionDeleteIndex create() {
    return new BitmapPositionDeleteIndex();
  }

  /** How many positions the bitmap in {@code blob} says it holds; length, magic and CRC are not looked at. */
  public static long cardinality(byte[] blob) {
    int length = Math.max(0, blob.length - HEADER_BYTES - TRAILER_BYTES);
    int offset = Math.min(HEADER_BYTES, blob.length);
    ByteBuffer vector = ByteBuffer.wrap(blob, offset, length).slice().order(ByteOrder.LITTLE_ENDIAN);
    return RoaringPositionBitmap.deserialize(vector).cardinality();
  }
}
