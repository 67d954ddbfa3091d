package dvcodec.interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.IcebergBuild;

/** {@code versions}: what is on the class path, told by the jars that the driven classes came from. */
final class Versions {
  private static final Map<String, Class<?>> ARTIFACTS = new LinkedHashMap<>();

  static {
    ARTIFACTS.put("iceberg-core", org.apache.iceberg.puffin.Puffin.class);
    ARTIFACTS.put("iceberg-data", org.apache.iceberg.data.BaseDeleteLoader.class);
    ARTIFACTS.put("RoaringBitmap", org.roaringbitmap.RoaringBitmap.class);
    ARTIFACTS.put(
        "delta-kernel-api", io.delta.kernel.internal.actions.DeletionVectorDescriptor.class);
    ARTIFACTS.put(
        "delta-spark_2.13", org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray.class);
    ARTIFACTS.put("scala-library", scala.Enumeration.class);
    ARTIFACTS.put("jackson-core", com.fasterxml.jackson.core.JsonFactory.class);
    ARTIFACTS.put("jackson-databind", ObjectMapper.class);
  }

  private Versions() {}

  static void run(List<String> arguments) throws Exception {
    Main.expect(arguments, 0, "versions");
    Map<String, String> line = new LinkedHashMap<>();
    line.put("java", System.getProperty("java.version"));
    for (Map.Entry<String, Class<?>> artifact : ARTIFACTS.entrySet()) {
      line.put(artifact.getKey(), version(artifact.getKey(), artifact.getValue()));
    }
    line.put("iceberg-created-by", IcebergBuild.fullVersion());
    Json.print(line);
  }

  /** The version in the name of the jar, {@code ARTIFACT-VERSION.jar}. */
  private static String version(String artifact, Class<?> type) throws URISyntaxException {
    Path jar = Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI());
    return jar.getFileName().toString().replace(artifact + "-", "").replace(".jar", "");
  }
}
