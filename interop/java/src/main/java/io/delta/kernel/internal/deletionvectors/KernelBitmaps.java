package io.delta.kernel.internal.deletionvectors;

import java.io.IOException;
import java.lang.reflect.Field;
import org.roaringbitmap.RoaringBitmap;

/** Opens what the kernel's {@link RoaringBitmapArray} keeps package-private or private. */
public final class KernelBitmaps {
  private KernelBitmaps() {}

  /** The bitmap in {@code payload}, which starts with either magic. */
  public static RoaringBitmapArray readFrom(byte[] payload) throws IOException {
    return RoaringBitmapArray.readFrom(payload);
  }

  /** The sum of the bitmaps' own cardinalities; the class has no such method, so its field is read. */
  public static long cardinality(RoaringBitmapArray array) throws ReflectiveOperationException {
    Field field = RoaringBitmapArray.class.getDeclaredField("bitmaps");
    field.setAccessible(true);
    long cardinality = 0;
    for (RoaringBitmap bitmap : (RoaringBitmap[]) field.get(array)) {
      cardinality += bitmap.getLongCardinality();
    }
    return cardinality;
  }
}
