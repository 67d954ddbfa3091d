"""Standard output in any encoding, problems on one line of standard error, and what of the log is written there."""

from __future__ import annotations

import logging
import sys
from io import BytesIO, StringIO, TextIOWrapper

import pytest

from cli_runner import run
from dvcodec.cli.common import BARS, NONE_HERE, _logged, complain, speak_any_encoding


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


@pytest.mark.parametrize(("verbose", "shown"), [(0, ["zero"]), (1, ["zero", "one"]), (2, ["zero", "one", "two"])])
def test_levels_of_the_log(verbose: int, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("dvcodec")
    level = logger.level
    with _logged(verbose):
        logger.warning("zero")
        logger.info("one")
        logger.debug("two")
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "object stores" not in line] == [f"dvcodec: {word}" for word in shown]
    assert len(lines) == len(shown) + (verbose > 0), "and the requests, at the end"
    assert (logger.level, logger.handlers) == (level, [])


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_record_of_the_log_is_one_line_of_plain_text(verbose: int, capsys: pytest.CaptureFixture[str]) -> None:
    with _logged(verbose):
        logging.getLogger("dvcodec.tables").warning("%s: ignored", "x\x1b[31m\nok  b")
    assert capsys.readouterr().err.splitlines()[0] == r"dvcodec: x\x1b[31m\nok  b: ignored"


@pytest.mark.parametrize(
    ("given", "shown"), [("aws_secret_access_key:hidden", "aws_secret_access_key"), ("=hidden", "=..")]
)
def test_a_storage_option_that_is_refused_is_not_shown(given: str, shown: str) -> None:
    refused = run("verify", "vectors.puffin", "--storage-option", given)
    assert refused.code == 2
    assert f"--storage-option {shown}: expected KEY=VALUE" in refused.err
    assert "hidden" not in refused.err
