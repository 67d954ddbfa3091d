"""Print the table of docs/differences.md, what each decoder makes of the corpus; with names, only these decoders."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYPAIMON = HERE.parent / "pypaimon" / ".venv" / "bin" / "python"
NAMES = {
    "dvcodec": "dvcodec",
    "java": "Iceberg Java 1.12.0, RoaringBitmap 1.6.29",
    "delta-kernel": "Delta kernel (Java) 4.4.1",
    "paimon-java": "Paimon Java 1.3.1",
    "pyiceberg": f"pyiceberg {version('pyiceberg')}",
    "deltalake": f"deltalake {version('deltalake')}",
    "polars": f"polars {version('polars')} (with deltalake)",
    "duckdb": "DuckDB 2.0.0, its extension delta",
    "pylance": f"pylance {version('pylance')}",
    "pypaimon": "pypaimon 2.1.0",
    "pyroaring": f"pyroaring {version('pyroaring')}",
    "zapx": "zapx 16.3.4, 17.2.3",
}
TIMEOUT_S = "120"
FORMATS = {"duckdb": ["delta-native"]}
"""Where not all formats are asked: DuckDB's extension is deltalake's kernel, and takes two seconds a file."""


def results(name: str) -> list[dict[str, object]]:
    python = str(PYPAIMON) if name == "pypaimon" else sys.executable
    options = [part for one in FORMATS.get(name, ()) for part in ("--format", one)]
    command = [sys.executable, "-m", "dvcodec", "conformance", "--json", "--timeout", TIMEOUT_S, *options]
    done = subprocess.run(
        [*command, f"{python} {HERE / 'readers.py'} {name}"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode == 2:
        sys.exit(done.stderr)
    found: list[dict[str, object]] = json.loads(done.stdout)["result"]
    return [one for one in found if one["verdict"] != "skipped"]


def main(chosen: list[str]) -> None:
    print("| decoder | format | valid files read | corrupt files refused | differently |")
    print("| --- | --- | --- | --- | --- |")
    for name in chosen or NAMES:
        found = results(name)
        for kind in dict.fromkeys(one["format"] for one in found):
            mine = [one for one in found if one["format"] == kind]
            valid = [one for one in mine if one["valid"]]
            corrupt = [one for one in mine if not one["valid"]]
            other: dict[str, list[str]] = {}
            for one in mine:
                if one["verdict"] != ("right" if one["valid"] else "refused"):
                    word = f"{'valid' if one['valid'] else 'corrupt'} {one['verdict']}"
                    other.setdefault(word, []).append(Path(str(one["file"])).stem)
            said = "; ".join(f"{word}: {', '.join(files)}" for word, files in other.items())
            right = sum(one["verdict"] == "right" for one in valid)
            refused = sum(one["verdict"] == "refused" for one in corrupt)
            counts = f"{right} of {len(valid)} | {refused} of {len(corrupt)}"
            print(f"| {NAMES[name]} | `{kind}` | {counts} | {said} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
