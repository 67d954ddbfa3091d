package dvcodec.interop;

import io.delta.kernel.engine.FileReadRequest;
import io.delta.kernel.engine.FileSystemClient;
import io.delta.kernel.internal.fs.Path;
import io.delta.kernel.utils.CloseableIterator;
import io.delta.kernel.utils.FileStatus;
import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.net.URI;

/** Lets the kernel read byte ranges of local files; it needs no more to load a deletion vector. */
final class LocalFiles implements FileSystemClient {
  @Override
  public CloseableIterator<ByteArrayInputStream> readFiles(CloseableIterator<FileReadRequest> requests)
      throws IOException {
    return requests.map(LocalFiles::read);
  }

  private static ByteArrayInputStream read(FileReadRequest request) {
    try (RandomAccessFile file = open(request.getPath())) {
      long end = (long) request.getStartOffset() + request.getReadLength();
      if (request.getStartOffset() < 0 || request.getReadLength() < 0 || end > file.length()) {
        throw new EOFException(
            String.format(
                "bytes %d to %d of a file of %d", request.getStartOffset(), end, file.length()));
      }
      byte[] bytes = new byte[request.getReadLength()];
      file.seek(request.getStartOffset());
      file.readFully(bytes);
      return new ByteArrayInputStream(bytes);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static RandomAccessFile open(String path) throws IOException {
    URI uri = new Path(path).toUri();
    if (uri.getScheme() != null && !uri.getScheme().equals("file")) {
      throw new IOException("not a local file: " + path);
    }
    return new RandomAccessFile(uri.getPath(), "r");
  }

  @Override
  public CloseableIterator<FileStatus> listFrom(String path) {
    throw new UnsupportedOperationException();
  }

  @Override
  public String resolvePath(String path) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean mkdirs(String path) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean delete(String path) {
    throw new UnsupportedOperationException();
  }

  @Override
  public FileStatus getFileStatus(String path) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void copyFileAtomically(String source, String target, boolean overwrite) {
    throw new UnsupportedOperationException();
  }
}
