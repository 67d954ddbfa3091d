package dvcodec.interop;

import java.util.List;
import java.util.Map;

/**
 * What the programs' command lines have in common. What a reference class refuses is data and goes into
 * the output; the exit status is 0 when the command ran, 1 when its files could not be read or written,
 * 2 when it was misused.
 */
final class CommandLine {
  /** One sub-command. */
  interface Command {
    void run(List<String> arguments) throws Exception;
  }

  /** The arguments do not fit the command. */
  static final class UsageException extends Exception {
    private static final long serialVersionUID = 1;

    UsageException(String message) {
      super(message);
    }
  }

  private CommandLine() {}

  /** Runs one of {@code commands}; the result is the exit status. */
  static int run(Map<String, Command> commands, List<String> arguments) {
    try {
      Command command = arguments.isEmpty() ? null : commands.get(arguments.get(0));
      if (command == null) {
        throw new UsageException("COMMAND must be one of " + String.join(", ", commands.keySet()));
      }
      command.run(arguments.subList(1, arguments.size()));
      return 0;
    } catch (UsageException e) {
      System.err.println("usage: " + e.getMessage());
      return 2;
    } catch (Throwable t) {
      System.err.println("error: " + Failure.describe(t));
      return 1;
    }
  }

  /** Checks the number of arguments of a command whose full form is {@code usage}. */
  static void expect(List<String> arguments, int count, String usage) throws UsageException {
    if (arguments.size() != count) {
      throw new UsageException(usage);
    }
  }

  /** Checks that there is at least one argument of a command whose full form is {@code usage}. */
  static void expectSome(List<String> arguments, String usage) throws UsageException {
    if (arguments.isEmpty()) {
      throw new UsageException(usage);
    }
  }

  /** Looks {@code kind} up in {@code kinds}. */
  static <T> T kind(Map<String, T> kinds, String kind) throws UsageException {
    T value = kinds.get(kind);
    if (value == null) {
      throw new UsageException("KIND must be one of " + String.join(", ", kinds.keySet()));
    }
    return value;
  }
}
