package dvcodec.interop;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

/** Reads the batch files that Python writes: a case count, then the cases; all big-endian. */
final class BatchReader implements Closeable {
  private static final int CHUNK_LONGS = 1 << 13;

  private final DataInputStream in;
  private final int cases;

  BatchReader(String file) throws IOException {
    this.in = new DataInputStream(new BufferedInputStream(Files.newInputStream(Path.of(file)), 1 << 16));
    this.cases = in.readInt();
  }

  /** The number of cases in the file. */
  int cases() {
    return cases;
  }

  /** One case of a positions batch. */
  long[] positions() throws IOException {
    long[] positions = new long[in.readInt()];
    for (int from = 0; from < positions.length; from += CHUNK_LONGS) {
      int count = Math.min(CHUNK_LONGS, positions.length - from);
      ByteBuffer.wrap(exactly(count * Long.BYTES)).asLongBuffer().get(positions, from, count);
    }
    return positions;
  }

  /** One case of a bytes batch. */
  byte[] bytes() throws IOException {
    return exactly(in.readInt());
  }

  /** The record count before a case of a counted bytes batch. */
  long recordCount() throws IOException {
    return in.readLong();
  }

  private byte[] exactly(int length) throws IOException {
    byte[] bytes = in.readNBytes(length);
    if (bytes.length != length) {
      throw new EOFException("the batch ends inside a case");
    }
    return bytes;
  }

  @Override
  public void close() throws IOException {
    in.close();
  }
}
