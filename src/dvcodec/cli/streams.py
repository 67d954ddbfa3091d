"""Standard output and standard error: any encoding, and problems on one line."""

from __future__ import annotations

import codecs
import sys
from io import TextIOWrapper

from dvcodec.core.text import NOTHING, plain

BARS = "▁▂▃▄▅▆▇█"
"""Few to many, in a strip."""
NONE_HERE = "·"
_ASCII = str.maketrans({NOTHING: "-", NONE_HERE: "."} | {bar: str(i) for i, bar in enumerate(BARS, 1)})


def speak_any_encoding() -> None:
    """Make standard output replace characters that its encoding lacks, instead of failing."""
    codecs.register_error("dvcodec", _in_ascii)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="dvcodec")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace our characters by ASCII: digits for the bars of a strip, escapes for others."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def complain(problem: Exception | str) -> None:
    """Report a problem on standard error, on one line; the notes of an error on lines of their own."""
    notes = getattr(problem, "__notes__", ())
    if isinstance(problem, OSError) and hasattr(problem, "words"):  # `StoreError`: its text is one line
        problem = str(problem)
    elif isinstance(problem, OSError) and problem.strerror:
        problem = f"{problem.filename}: {problem.strerror}" if problem.filename is not None else problem.strerror
    for line in (problem, *notes):
        print(f"dvcodec: {plain(str(line))}", file=sys.stderr)
