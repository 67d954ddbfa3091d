package dvcodec.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.mumbling.Mumblings;

/**
 * {@code bench}: for each line of JSON on standard input, does some work so many times and prints the
 * seconds that one time took. Files are read, and the work is warmed up, before any time is taken.
 */
final class Bench {
  /**
   * One line of input.
   *
   * @param op {@code decode}: a blob to an array of positions; {@code encode}: sorted positions to a blob;
   *     {@code mumbling}: a Mumbling bitmap to an array of positions
   * @param times how often the work is done
   * @param warm seconds for which the work is repeated before
   * @param path the blob, or the positions as little-endian 64-bit integers
   * @param count how many positions it is about
   */
  record Line(String op, int times, double warm, String path, int count) {}

  /** What is timed; the result is kept, so that no compiler leaves the work out. */
  private interface Work {
    long run();
  }

  private static volatile long kept;

  private Bench() {}

  static void run(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 0, "bench");
    Map<String, Work> works = new HashMap<>();
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String text = in.readLine(); text != null; text = in.readLine()) {
      try {
        Line line = Json.parse(text, Line.class);
        String name = line.op() + " " + line.path();
        if (!works.containsKey(name)) {
          works.put(name, work(line));
        }
        Json.print(Map.of("seconds", seconds(works.get(name), line)));
      } catch (Throwable t) {
        Json.print(Map.of("error", Failure.describe(t)));
      }
    }
  }

  private static double seconds(Work work, Line line) {
    long warmUntil = System.nanoTime() + (long) (1e9 * line.warm());
    while (System.nanoTime() < warmUntil) {
      kept += work.run();
    }
    long start = System.nanoTime();
    for (int i = 0; i < line.times(); i++) {
      kept += work.run();
    }
    return (System.nanoTime() - start) / 1e9 / line.times();
  }

  private static Work work(Line line) throws IOException {
    byte[] bytes = Files.readAllBytes(Path.of(line.path()));
    return switch (line.op()) {
      case "decode" -> decode(bytes, line.count());
      case "encode" -> encode(bytes);
      case "mumbling" -> () -> Mumblings.positions(bytes).toArray().length;
      default -> throw new IllegalArgumentException("unknown op " + line.op());
    };
  }

  /** Iceberg's own reading, which checks length, magic, cardinality and CRC. */
  private static Work decode(byte[] blob, int count) {
    DeleteFile file =
        IcebergVectors.deleteFile(
            "vector.puffin", blob.length, "data.parquet", 0, blob.length, count);
    return () -> {
      long[] positions = new long[count];
      int[] size = {0};
      PositionDeleteIndex.deserialize(blob, file)
          .forEach(position -> positions[size[0]++] = position);
      return positions[count - 1] + size[0];
    };
  }

  /** Iceberg's own writing: each position is deleted, then the bitmap is run-optimised and framed. */
  private static Work encode(byte[] bytes) {
    long[] positions = new long[bytes.length / Long.BYTES];
    ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(positions);
    return () -> IcebergVectors.encode(positions).remaining();
  }
}
