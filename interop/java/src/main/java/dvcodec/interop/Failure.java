package dvcodec.interop;

/** Puts what a reference class threw into words. */
final class Failure {
  private Failure() {}

  /** {@code "ExceptionClass: message"}, followed by its causes. */
  static String describe(Throwable thrown) {
    StringBuilder text = new StringBuilder();
    for (Throwable t = thrown; t != null; t = t.getCause()) {
      text.append(text.isEmpty() ? "" : "; caused by ").append(t.getClass().getSimpleName());
      if (t.getMessage() != null && !repeatsCause(t)) {
        text.append(": ").append(t.getMessage());
      }
    }
    return text.toString();
  }

  private static boolean repeatsCause(Throwable t) {
    return t.getCause() != null && t.getMessage().equals(t.getCause().toString());
  }
}
