package dvcodec.interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** {@code versions}: what is on the class path. */
final class PaimonVersions {
  private static final Map<String, Class<?>> ARTIFACTS = new LinkedHashMap<>();

  static {
    ARTIFACTS.put("paimon-core", org.apache.paimon.deletionvectors.DeletionVector.class);
    ARTIFACTS.put("paimon-common", org.apache.paimon.utils.RoaringBitmap32.class);
    ARTIFACTS.put("paimon-format", org.apache.paimon.format.avro.AvroFileFormat.class);
    ARTIFACTS.put("jackson-core", com.fasterxml.jackson.core.JsonFactory.class);
    ARTIFACTS.put("jackson-databind", ObjectMapper.class);
  }

  private PaimonVersions() {}

  static void run(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 0, "versions");
    Json.print(Jars.versions(ARTIFACTS));
  }
}
