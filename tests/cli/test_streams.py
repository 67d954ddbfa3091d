"""Standard output in any encoding, and problems on one line of standard error."""

from __future__ import annotations

import sys
from io import BytesIO, StringIO, TextIOWrapper

import pytest

from dvcodec.cli.streams import BARS, NONE_HERE, complain, speak_any_encoding


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        ("so it is", "so it is"),
        (ValueError("two\nlines"), "two\\nlines"),
        (FileNotFoundError(2, "No such file or directory", "a\nb"), "a\\nb: No such file or directory"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("s3://b/x: no credentials"), "s3://b/x: no credentials"),
    ],
)
def test_complain(problem: Exception | str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    complain(problem)
    assert capsys.readouterr() == ("", f"dvcodec: {line}\n")


@pytest.mark.parametrize(
    ("text", "encoding", "written"),
    [
        (BARS + NONE_HERE, "ascii", b"12345678."),
        ("gr\xfcn \u2713", "ascii", rb"gr\xfcn \u2713"),
        ("gr\xfcn \u2713", "latin-1", b"gr\xfcn \\u2713"),
        (BARS, "utf-8", BARS.encode()),
    ],
)
def test_streams_of_any_encoding(text: str, encoding: str, written: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(raw, encoding))
    speak_any_encoding()
    print(text, end="", flush=True)
    assert raw.getvalue() == written


def test_other_errors_and_streams_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is no file is written as it is; bytes that are no text are no character to replace."""
    monkeypatch.setattr(sys, "stdout", StringIO())
    speak_any_encoding()
    with pytest.raises(UnicodeDecodeError, match="invalid start byte"):
        b"\xff".decode("utf-8", "dvcodec")
