package dvcodec.interop;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** The program for Paimon, the same for each of its versions. */
public final class PaimonMain {
  private static final Map<String, CommandLine.Command> COMMANDS = new LinkedHashMap<>();

  static {
    COMMANDS.put("encode", arguments -> Encode.run(Paimon.ENCODERS, arguments));
    COMMANDS.put("decode", arguments -> Decode.run(Paimon.DECODERS, Set.of(), arguments));
    COMMANDS.put("index-write", PaimonIndexWrite::run);
    COMMANDS.put("index-read", PaimonIndexRead::run);
    COMMANDS.put("manifest-write", PaimonManifest::runWrite);
    COMMANDS.put("manifest-read", PaimonManifest::runRead);
    COMMANDS.put("hash-write", PaimonHash::runWrite);
    COMMANDS.put("hash-read", PaimonHash::runRead);
    COMMANDS.put("versions", PaimonVersions::run);
  }

  private PaimonMain() {}

  public static void main(String[] arguments) {
    System.exit(CommandLine.run(COMMANDS, Arrays.asList(arguments)));
  }
}
