package dvcodec.interop;

import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** What is on the class path, told by the jars that the driven classes came from. */
final class Jars {
  private Jars() {}

  /** The version of each artifact, given one of its classes, and of Java. */
  static Map<String, String> versions(Map<String, Class<?>> artifacts) throws URISyntaxException {
    Map<String, String> versions = new LinkedHashMap<>();
    versions.put("java", System.getProperty("java.version"));
    for (Map.Entry<String, Class<?>> artifact : artifacts.entrySet()) {
      versions.put(artifact.getKey(), version(artifact.getKey(), artifact.getValue()));
    }
    return versions;
  }

  /** The version in the name of the jar, {@code ARTIFACT-VERSION.jar}. */
  private static String version(String artifact, Class<?> type) throws URISyntaxException {
    Path jar = Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI());
    return jar.getFileName().toString().replace(artifact + "-", "").replace(".jar", "");
  }
}
