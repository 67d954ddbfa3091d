package dvcodec.interop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.nio.file.Path;

/** Our own JSON, in and out. Output is plain ASCII, so lone surrogates and consoles do it no harm. */
final class Json {
  private static final ObjectMapper MAPPER =
      JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

  private Json() {}

  static <T> T read(String file, Class<T> type) throws IOException {
    return MAPPER.readValue(Path.of(file).toFile(), type);
  }

  static <T> T parse(String text, Class<T> type) throws JsonProcessingException {
    return MAPPER.readValue(text, type);
  }

  static void write(Path file, Object value) throws IOException {
    MAPPER.writeValue(file.toFile(), value);
  }

  /** Prints {@code value} on one line. */
  static void print(Object value) throws JsonProcessingException {
    System.out.println(MAPPER.writeValueAsString(value));
  }
}
