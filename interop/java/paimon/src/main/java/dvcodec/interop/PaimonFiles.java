package dvcodec.interop;

import java.io.IOException;
import java.nio.file.Files;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.utils.PathFactory;

/**
 * Tells Paimon where files are: all in one folder, the new ones named {@code PREFIX-0}, {@code PREFIX-1}
 * and so on. Paimon's own naming has a random part and fixed folders.
 */
final class PaimonFiles implements PathFactory {
  static final FileIO IO = LocalFileIO.create();

  private final Path folder;
  private final String prefix;
  private int written;

  private PaimonFiles(java.nio.file.Path folder, String prefix) {
    this.folder = new Path(folder.toAbsolutePath().toString());
    this.prefix = prefix;
  }

  /** For files that are written into {@code folder}, which comes into being with the first one. */
  static PaimonFiles into(java.nio.file.Path folder, String prefix) {
    return new PaimonFiles(folder, prefix);
  }

  /** For files that are read, from the folder that {@code file} is in. */
  static PaimonFiles nextTo(String file) {
    return new PaimonFiles(java.nio.file.Path.of(file).toAbsolutePath().getParent(), "new");
  }

  /** The name by which {@link #nextTo} finds {@code file}. */
  static String name(String file) {
    return java.nio.file.Path.of(file).getFileName().toString();
  }

  static String absolute(String file) {
    return java.nio.file.Path.of(file).toAbsolutePath().toString();
  }

  static long size(String file) throws IOException {
    return Files.size(java.nio.file.Path.of(file));
  }

  @Override
  public Path newPath() {
    return toPath(prefix + "-" + written++);
  }

  @Override
  public Path toPath(String name) {
    return new Path(folder, name);
  }
}
