package dvcodec.interop;

import io.delta.kernel.internal.deletionvectors.KernelBitmaps;
import java.nio.ByteBuffer;
import java.util.function.LongConsumer;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArrayFormat;
import scala.Enumeration;

/**
 * Drives Delta's two RoaringBitmapArray classes: Spark's, which writes and reads both layouts, and the
 * kernel's, which only reads. A payload is the magic and the bitmaps, without size and CRC.
 */
final class DeltaVectors {
  private DeltaVectors() {}

  static ByteBuffer encodePortable(long[] positions) {
    return encode(positions, RoaringBitmapArrayFormat.Portable());
  }

  static ByteBuffer encodeNative(long[] positions) {
    return encode(positions, RoaringBitmapArrayFormat.Native());
  }

  private static ByteBuffer encode(long[] positions, Enumeration.Value format) {
    RoaringBitmapArray bitmap = new RoaringBitmapArray();
    for (long position : positions) {
      bitmap.add(position);
    }
    bitmap.runOptimize();
    return ByteBuffer.wrap(bitmap.serializeAsByteArray(format));
  }

  /** Reads a payload with the kernel's class. */
  static Rows decodeKernel(byte[] payload) throws Exception {
    return rows(KernelBitmaps.readFrom(payload));
  }

  static Rows rows(io.delta.kernel.internal.deletionvectors.RoaringBitmapArray bitmap)
      throws ReflectiveOperationException {
    return new Rows(KernelBitmaps.cardinality(bitmap), consumer -> each(bitmap.toArray(), consumer));
  }

  /** Reads a payload with Spark's class. */
  static Rows decodeSpark(byte[] payload) {
    RoaringBitmapArray bitmap = RoaringBitmapArray.readFrom(payload);
    return new Rows(bitmap.cardinality(), consumer -> each(bitmap.toArray(), consumer));
  }

  private static void each(long[] positions, LongConsumer consumer) {
    for (long position : positions) {
      consumer.accept(position);
    }
  }
}
