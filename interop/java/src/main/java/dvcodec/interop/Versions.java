package dvcodec.interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.IcebergBuild;

/** {@code versions}: what is on the class path. */
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
    CommandLine.expect(arguments, 0, "versions");
    Map<String, String> line = Jars.versions(ARTIFACTS);
    line.put("iceberg-created-by", IcebergBuild.fullVersion());
    Json.print(line);
  }
}
