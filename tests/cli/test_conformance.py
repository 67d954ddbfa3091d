"""The command conformance, and the corpus that it runs decoders over."""

from __future__ import annotations

import queue
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from cli_runner import run
from dvcodec.cli import conformance
from dvcodec.cli.conformance import Case, read_corpus, run_decoder

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "corpus"
pytestmark = pytest.mark.skipif(not CORPUS.exists(), reason="not in the project's tree")
FORMATS = {
    *("iceberg", "delta-native", "paimon32", "roaring32", "roaring64"),
    *("mumbling", "puffin", "lance-arrow", "zap"),
}


def decoder(tmp_path: Path, body: str) -> str:
    """A decoder whose answer to `format` and `path` is printed by these lines of Python."""
    program = tmp_path / "decoder.py"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    program.write_text(
        "import sys, time\n"
        "for line in sys.stdin:\n"
        "    format, path = line.rstrip('\\n').split('\\t')\n"
        f"{lines}"
        "    sys.stdout.flush()\n"
    )
    return f"{sys.executable} {program}"


def test_the_corpus_is_complete() -> None:
    cases = read_corpus(str(CORPUS))
    assert {case.format for case in cases} == FORMATS
    files = {str(path.relative_to(CORPUS)) for path in CORPUS.glob("*/*.b*")}
    assert files == {case.file for case in cases}
    for name in FORMATS:
        assert {case.valid for case in cases if case.format == name} == {True, False}


def test_dvcodec_reads_what_is_valid_and_refuses_the_rest() -> None:
    pytest.importorskip("pyarrow")
    done = run(
        "conformance", "--corpus", str(CORPUS), f"{sys.executable} {ROOT}/interop/conformance/readers.py dvcodec"
    )
    assert done.code == 0, done.out
    assert done.out.endswith(f"{len(read_corpus(str(CORPUS)))} files, 0 skipped\n")


def test_verdicts(tmp_path: Path) -> None:
    body = (
        "if path.endswith('.bad'): print('ok 1 00000000' if 'crc' in path else 'error no')\n"
        "elif 'array' in path: print('ok 5 beef0000')\n"
        "elif 'bitset' in path: sys.exit(3)\n"
        "elif 'one' in path: print('error why not')\n"
        "else: print('skip')"
    )
    command = decoder(tmp_path, body)
    done = run("conformance", "--corpus", str(CORPUS), "--format", "paimon32", command)
    assert done.code == 1
    lines = done.out.splitlines()
    assert "refused   paimon32/one.bin: error why not" in lines
    assert "accepted  paimon32/crc.bad: ok 1 00000000" in lines
    assert "wrong     paimon32/array.bin: ok 5 beef0000" in lines
    assert "crashed   paimon32/bitset.bin: the process ended" in lines
    done = run("conformance", "--corpus", str(CORPUS), "--format", "paimon32", "--json", command)
    found = {one["file"]: one["verdict"] for one in done.json}
    assert found["paimon32/run.bin"] == "skipped"
    assert found["paimon32/length-zero.bad"] == "refused"
    done = run("conformance", "--corpus", str(CORPUS), "--format", "zap", "--json", decoder(tmp_path, "print(line)"))
    assert {one["verdict"] for one in done.json} == {"wrong"}


def test_a_decoder_without_answers_is_given_up(tmp_path: Path) -> None:
    done = run("conformance", "--corpus", str(CORPUS), decoder(tmp_path, "sys.exit(1)"))
    assert (done.code, done.out) == (2, "")
    assert "ends or is silent at 8 files in a row" in done.err


class Answers:
    """The answers of a process to some cases: it is silent at the one that is cut. Nothing waits for a clock."""

    def __init__(self, cases: list[Case]) -> None:
        self._left = iter(list(cases))

    def get(self, timeout: float) -> str:
        assert timeout == 3
        if "cut" in next(self._left).file:
            raise queue.Empty
        return "error"


def test_a_silent_decoder_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "_started", lambda _command, _folder, left: nullcontext(Answers(left)))
    cases = [case for case in read_corpus(str(CORPUS)) if case.format == "lance-arrow"]
    found = {one.case.file: (one.verdict, one.answer) for one in run_decoder(["x"], CORPUS, cases, 3)}
    assert found.pop("lance-arrow/cut.bad") == ("silent", "no answer in 3 seconds")
    assert len(found) == len(cases) - 1
    assert set(found.values()) == {("refused", "error")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "nowhere", "x"], "nowhere: no manifest.json here"),
        (["--corpus", str(CORPUS), ""], "expected a command, found an empty one"),
        (["--corpus", str(CORPUS), "no-such-program"], "no-such-program: cannot be started: No such file or directory"),
        (["--corpus", str(CORPUS), "--format", "zip", "x"], "--format zip: not one of roaring32, "),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    done = run("conformance", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
