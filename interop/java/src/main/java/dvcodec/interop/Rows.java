package dvcodec.interop;

import java.util.Arrays;
import java.util.function.LongConsumer;

/**
 * What a reference class read: the cardinality it reports, and its own way of walking the positions.
 * The two can disagree when the bytes are malformed, which is why both are kept.
 */
record Rows(long cardinality, Walk walk) {
  /** The most positions that are listed. */
  static final int LIMIT = 20_000_000;

  /** Gives every position, in the reference class's order. */
  interface Walk {
    void forEach(LongConsumer consumer);
  }

  /** Ends a walk that goes on past {@link #LIMIT}. */
  private static final class TooMany extends RuntimeException {
    private static final long serialVersionUID = 1;

    TooMany() {
      super(null, null, false, false);
    }
  }

  /** The positions in iteration order, or null if they are more than {@link #LIMIT}. */
  long[] positions() {
    if (cardinality > LIMIT) {
      return null;
    }
    Collector collector = new Collector((int) Math.max(0, cardinality));
    try {
      walk.forEach(collector);
    } catch (TooMany e) {
      return null;
    }
    return collector.toArray();
  }

  /** A growing array of positions. */
  private static final class Collector implements LongConsumer {
    private long[] values;
    private int size;

    Collector(int expected) {
      this.values = new long[expected];
    }

    @Override
    public void accept(long value) {
      if (size == LIMIT) {
        throw new TooMany();
      }
      if (size == values.length) {
        values = Arrays.copyOf(values, Math.min(LIMIT, Math.max(16, 2 * size)));
      }
      values[size++] = value;
    }

    long[] toArray() {
      return size == values.length ? values : Arrays.copyOf(values, size);
    }
  }
}
