package dvcodec.interop;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** The program for Iceberg, Delta and RoaringBitmap. */
public final class Main {
  private static final Map<String, CommandLine.Command> COMMANDS = new LinkedHashMap<>();

  static {
    COMMANDS.put("encode", arguments -> Encode.run(Kinds.ENCODERS, arguments));
    COMMANDS.put("decode", arguments -> Decode.run(Kinds.DECODERS, Kinds.COUNTED, arguments));
    COMMANDS.put("z85-encode", Z85::runEncode);
    COMMANDS.put("z85-decode", Z85::runDecode);
    COMMANDS.put("puffin-write", PuffinWrite::run);
    COMMANDS.put("puffin-generic-write", PuffinGenericWrite::run);
    COMMANDS.put("puffin-read", PuffinRead::run);
    COMMANDS.put("delta-read", DeltaRead::run);
    COMMANDS.put("rest-catalog", RestCatalog::run);
    COMMANDS.put("bench", Bench::run);
    COMMANDS.put("versions", Versions::run);
  }

  private Main() {}

  public static void main(String[] arguments) {
    System.exit(CommandLine.run(COMMANDS, Arrays.asList(arguments)));
  }
}
