package dvcodec.interop;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** Writes the batch files that Python reads: a case count, then the cases; all big-endian. */
final class BatchWriter implements Closeable {
  private static final int FAILED = -1;
  private static final int TOO_MANY = -1;
  private static final int CHUNK_LONGS = 1 << 13;

  private final DataOutputStream out;

  BatchWriter(String file, int cases) throws IOException {
    this.out =
        new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(Path.of(file)), 1 << 16));
    out.writeInt(cases);
  }

  /** One case of a bytes batch. */
  void bytes(ByteBuffer bytes) throws IOException {
    out.writeInt(bytes.remaining());
    out.write(bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
  }

  /** One case of a bytes batch that has no bytes. */
  void failedBytes(Throwable thrown) throws IOException {
    out.writeInt(FAILED);
    text(Failure.describe(thrown));
  }

  /** One case of a results batch; {@code positions} is null when they are too many to list. */
  void result(long cardinality, long[] positions) throws IOException {
    out.writeByte(1);
    out.writeLong(cardinality);
    out.writeInt(positions == null ? TOO_MANY : positions.length);
    if (positions != null) {
      longs(positions);
    }
  }

  /** One case of a results batch that was refused. */
  void failedResult(Throwable thrown) throws IOException {
    out.writeByte(0);
    text(Failure.describe(thrown));
  }

  private void longs(long[] values) throws IOException {
    ByteBuffer chunk = ByteBuffer.allocate(CHUNK_LONGS * Long.BYTES);
    for (int from = 0; from < values.length; from += CHUNK_LONGS) {
      int count = Math.min(CHUNK_LONGS, values.length - from);
      chunk.asLongBuffer().put(values, from, count);
      out.write(chunk.array(), 0, count * Long.BYTES);
    }
  }

  private void text(String text) throws IOException {
    byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
    out.writeInt(utf8.length);
    out.write(utf8);
  }

  @Override
  public void close() throws IOException {
    out.close();
  }
}
