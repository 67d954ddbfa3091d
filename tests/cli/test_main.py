"""The program as a whole: exit codes, streams, messages, signals and encodings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from inspect import getdoc
from pathlib import Path

import pytest
import typer

import dvcodec
from cases import each
from cli_runner import (
    PROGRAM,
    SCHEMA,
    A,
    Result,
    delta_file,
    flipped,
    in_terminal,
    puffin_file,
    run,
    spawn,
)
from dvcodec import RowSet, cli
from dvcodec.cli import app
from dvcodec.cli.app import COMMANDS, build
from samples.iceberg_table import Commit, build_iceberg

needs_terminal = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals, pipes and file names")


@pytest.fixture
def puffin(tmp_path: Path) -> Path:
    return puffin_file(tmp_path / "deletes.puffin")


# ---------------------------------------------------------------------------------------------------- help, version


def test_version_by_name_and_as_a_module() -> None:
    assert run("--version") == Result(0, f"dvcodec {dvcodec.__version__}\n".encode(), "")
    command = [sys.executable, "-m", "dvcodec"]
    assert subprocess.run([*command, "--version"], capture_output=True, check=True).stdout == run("--version").raw
    assert subprocess.run([*command, "verify", "none"], capture_output=True, check=False).returncode == 2


def test_help_names_every_command_and_the_exit_codes() -> None:
    result = run("--help")
    assert result.code == 0
    assert not result.err
    for command in COMMANDS:
        assert f"{command} " in result.out
    assert "0 fine, 1 findings (or differences), 2 unreadable" in result.out
    assert not [line for line in result.out.splitlines() if "--version" in line and "<" in line], "it takes no value"


def test_no_command_shows_the_help_and_is_wrong_usage() -> None:
    result = run()
    assert result.code == 2
    assert result.raw == run("--help").raw


def test_help_says_of_commands_what_they_say_of_themselves() -> None:
    app = build()
    said = {str(command.name): getdoc(command.callback) or "" for command in app.registered_commands}
    said |= {
        str(group.name): str(group.typer_instance.info.help) for group in app.registered_groups if group.typer_instance
    }
    assert {name: " ".join(text.partition("\n\n")[0].split()) for name, text in said.items()} == {
        name: line for name, (_, line) in COMMANDS.items()
    }


def test_the_schema_of_json_has_every_command_that_prints_any() -> None:
    app = build()
    (group,) = app.registered_groups
    assert group.typer_instance is not None
    printing = {str(one.name) for one in app.registered_commands if "as_json" in one.callback.__annotations__}
    printing |= {f"zap {one.callback.__name__}" for one in group.typer_instance.registered_commands if one.callback}
    assert set(SCHEMA["properties"]["dvcodec"]["properties"]["command"]["enum"]) == printing
    conditions = [one["if"]["properties"]["dvcodec"]["properties"]["command"]["const"] for one in SCHEMA["allOf"]]
    assert set(conditions) == printing
    refs = [one["then"]["properties"]["result"]["$ref"] for one in SCHEMA["allOf"]]
    assert refs == [f"#/$defs/{name.replace(' ', '-')}" for name in conditions]


def test_help_imports_no_command() -> None:
    code = "import sys; from dvcodec.cli.app import build; build(''); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@each(
    ("words", "found"),
    [
        pytest.param("dvcodec aud", "audit", id="a command"),
        pytest.param("dvcodec verify --fai", "--failed", id="an option of a command"),
        pytest.param("dvcodec zap post", "postings", id="a command of a group"),
    ],
)
def test_the_shell_completes(words: str, found: str) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_DVCODEC_COMPLETE": "complete_bash"}
    result = spawn(env=asked)
    assert (result.code, result.out.split(), result.err) == (0, [found], "")


def test_quiet_leaves_the_exit_code_and_errors(puffin: Path, tmp_path: Path) -> None:
    bad = flipped(puffin, 46, to=tmp_path / "bad")
    assert run("verify", bad).out
    for output in ((), ("--json",)):
        result = run("verify", bad, *output, "--quiet")
        assert (result.code, result.raw, result.err) == (1, b"", "")
    assert run("verify", "-q", tmp_path / "missing").complaint == f"{tmp_path / 'missing'}: No such file or directory"
    assert run("verify", puffin).out, "of this command alone"


# ---------------------------------------------------------------------------------------------------- exit codes


# ---------------------------------------------------------------------------------------------------- one line


WRONG = {
    "missing file": (["inspect", "nothing"], "nothing: No such file or directory"),
    "folder without vectors": (["inspect", "others"], "no deletion vectors in 2 files"),
    "no vectors in it": (["inspect", "others/a.txt"], "others/a.txt at byte 0: container: expected a Puffin file"),
    "damaged": (["positions", "bad@4"], "bad at byte 48: CRC-32 of magic and bitmap: expected 0x"),
    "no such command": (["explode"], "No such command 'explode' (see dvcodec --help)"),
    "no such option": (["inspect", "--nope", "good"], "No such option: --nope (see dvcodec inspect --help)"),
    "limit is negative": (
        ["positions", "--limit", "-1", "good"],
        "--limit -1: expected a number of 0 or more, or NAME=VALUE",
    ),
    "a container for its format": (["convert", "good", "-o", "x", "--to", "puffin"], "hudi; did you mean 'iceberg'?"),
    "no data files": (["convert", "bin", "-o", "x", "--to", "iceberg"], "give --data-file 2 times, in file order"),
    "no such data file": (["ranges", "good", "--data-file", "x"], "no vector of x in 1 file"),
    "rewrite nothing": (["rewrite-paths", "good", "-o", "x"], "give --from and --to, or one or more --map OLD=NEW"),
    "no such prefix": (
        ["rewrite-paths", "good", "-o", "x", "--from", "gs://", "--to", "s3://"],
        "good: no data file is in the folder gs://",
    ),
    "no such path": (["rewrite-paths", "good", "-o", "x", "--map", "a=b"], "--map a=b: good has no such data file"),
    "diff of vectors without names": (
        ["diff", "bin", "good"],
        "bin holds 2 vectors without data files",
    ),
    "diff of one with many": (["diff", "bin@1", "good"], "bin@1 does not name its data file and good holds several"),
    "merge of vectors without names": (["merge", "bin", "-o", "x"], "choose one by its offset, as in bin@1"),
}


@each(("arguments", "said"), WRONG.values(), ids=WRONG.keys())
def test_errors_are_reported_on_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = puffin_file(tmp_path / "good")
    flipped(good, 30, to=tmp_path / "bad")
    delta_file(tmp_path / "bin")
    (tmp_path / "others").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "others" / name).write_text("rows are rows")
    before = sorted(tmp_path.rglob("*"))
    result = run(*arguments)
    assert said in result.complaint
    assert (result.code, result.out) == (2, "")
    assert sorted(tmp_path.rglob("*")) == before, "a failed command writes nothing"


@pytest.mark.parametrize("command", ["inspect", "stats", "positions", "ranges", "verify"])
def test_json_is_whole_when_a_file_cannot_be_read(command: str, puffin: Path) -> None:
    result = run(command, "--json", puffin.with_name("missing"), puffin)
    assert result.code == 2
    assert result.complaint.endswith("missing: No such file or directory")
    found = result.json["vectors"] if command == "stats" else result.json
    assert {item["source"] for item in found} == {str(puffin)}


# ---------------------------------------------------------------------------------------------------- extras


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_missing_extra_cli(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from dvcodec.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dvcodec: the command line needs typer and rich: pip install 'dvcodec[cli]'\n"


# ---------------------------------------------------------------------------------------------------- pipes, signals


def many_rows(path: Path) -> Path:
    return puffin_file(path, {A: RowSet.from_ranges((i, i + 1) for i in range(0, 400_000, 2))})


@needs_posix
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        (["positions"], ""),
        (["positions"], "1"),
        (["positions", "--json"], ""),
        (["--help"], ""),
    ],
)
def test_closed_pipe_is_not_an_error(arguments: list[str], unbuffered: str, tmp_path: Path) -> None:
    target = [] if arguments == ["--help"] else [str(many_rows(tmp_path / "many"))]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*PROGRAM, *arguments, *target],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


WAITING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore it
class Standard:
    def read(self):
        print("reading", flush=True)
        import time
        time.sleep(600)
sys.stdin = type("Stdin", (), {"buffer": Standard()})()
from dvcodec.cli import main
main()
"""


@needs_posix
@pytest.mark.parametrize("arguments", [["inspect", "--json"], ["convert", "--to", "delta", "-o", "out"]])
def test_interrupt(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", WAITING, *arguments, "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"reading\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b"", "no JSON that looks whole"
        assert process.stderr.read() == b""
        assert process.wait() == 130
    assert not list(tmp_path.iterdir())


COMMITTING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore it
link, stuck = os.link, "stuck" in sys.argv
def slow(*names, **options):
    print("committing", flush=True)
    while sys.stdin.readline() == "on\\n":  # a signal that was sent before is handled first
        print("still committing", flush=True)
    while stuck:
        try:
            print("stuck", flush=True)
            signal.pause()
        except KeyboardInterrupt:
            pass
    link(*names, **options)
os.link = slow
from dvcodec import cli
if stuck:
    cli._SECONDS_TO_CLEAN_UP = 0
sys.argv[1:] = ["enable", "t"]
cli.main()
"""


@contextmanager
def interrupted_commit(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is at its commit, and has handled one interrupt."""
    build_iceberg(folder / "t", Commit(data={"a": 3}), version=2)
    command = [sys.executable, "-c", COMMITTING, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"committing\n"
        process.send_signal(signal.SIGINT)
        process.stdin.write(b"on\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"still committing\n"
        yield process


@needs_posix
@pytest.mark.parametrize(("interrupts", "version"), [(1, 3), (2, 2)])
def test_interrupt_while_a_commit_takes_long(interrupts: int, version: int, tmp_path: Path) -> None:
    """One waits until the commit is settled, however long that takes; a second one does not."""
    with interrupted_commit(tmp_path) as process:
        if interrupts == 2:
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(b"go\n")
    assert process.returncode == 130
    assert said == (b"dvcodec: interrupted; the commit is complete\n" if interrupts == 1 else b"")
    assert not [path.name for path in tmp_path.rglob("*.partial")]
    newest = max((tmp_path / "t").rglob("*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    assert json.loads(newest.read_bytes())["format-version"] == version


@needs_posix
def test_a_second_interrupt_ends_a_commit_that_does_not_react(tmp_path: Path) -> None:
    """As a store's client that does not return: soon afterwards the process ends."""
    with interrupted_commit(tmp_path, "stuck") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"stuck\n"
        with pytest.raises(subprocess.TimeoutExpired):  # one interrupt does not end it
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


@pytest.mark.parametrize("error", [KeyboardInterrupt, typer.Abort, typer.Exit(130)], ids=str)
def test_interrupt_in_every_version_of_typer(
    error: BaseException | type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> int:
        if isinstance(error, typer.Exit):  # as newer ones report it
            return error.exit_code
        raise error

    monkeypatch.setattr("dvcodec.cli.app.build", lambda _: interrupted)
    result = run("inspect", "x")
    assert (result.code, result.out, result.err) == (130, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_under_standard_output(unbuffered: str, puffin: Path) -> None:
    with Path("/dev/full").open("w") as full:
        env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        command = [*PROGRAM, "positions", f"{puffin}@4"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=env, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("dvcodec: ")
    assert done.stderr.endswith("No space left on device\n")
    assert done.stderr.count("\n") == 1


@needs_posix
def test_closed_standard_output(puffin: Path) -> None:
    command = ["sh", "-c", '"$@" >&-', "sh", *PROGRAM, "inspect", str(puffin)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@needs_posix
def test_standard_output_is_a_target_and_a_sink(puffin: Path) -> None:
    script = '"$@" convert "$FILE" --to delta -o - | "$@" positions -- -@1'
    env = {**os.environ, "FILE": str(puffin)}
    done = subprocess.run(["sh", "-c", script, "sh", *PROGRAM], capture_output=True, text=True, env=env, check=True)
    assert done.stdout == "0\n1\n2\n7\n"
    assert done.stderr.endswith("wrote -, 91 B\n")


# ---------------------------------------------------------------------------------------------------- text


def test_narrow_encoding(tmp_path: Path) -> None:
    name = "s3://lake/größe-\N{SNOWMAN}.parquet"
    puffin = puffin_file(tmp_path / "f", {name: RowSet(range(0, 64, 2)), "empty": RowSet()})
    result = spawn("inspect", "--rows", "64", puffin, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (result.code, result.err) == (0, "")
    assert "gr\\xf6\\xdfe-\\u2603.parquet" in result.out
    assert "55555555555555555555555555555555" in result.out, "bars are digits: half of every slice is deleted"
    assert "................................" in result.out


HOSTILE = (
    *("[bold]a[/bold]", "a[/x]", "[nope]a", "a\\", "a\\[b]", ":smile:a", "[link=https://example.org]a[/link]"),
    *("a\x1b[31mred", "a\nb\r\nc", "a\tb", "a\x07", "a\u202eb"),
)


def seen(name: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


@needs_posix
@each("name", HOSTILE, ids=map(repr, HOSTILE))
def test_names_are_printed_literally(name: str, tmp_path: Path) -> None:
    file, data_file = tmp_path / name / "f", f"s3://{name}/f.parquet"
    file.parent.mkdir(parents=True)
    puffin_file(file, {data_file: RowSet([1]), "other": RowSet([2])})
    for command in (["inspect"], ["stats"], ["positions"], ["ranges"], ["verify", "--all"]):
        result = run(*command, file)
        assert (result.code, result.err) == (0, "")
        assert seen(data_file) in result.out
        assert seen(str(file)) in result.out or command[0] not in ("inspect", "verify")
        missing = run(*command, f"{file}missing")
        assert seen(f"{file}missing") in missing.complaint
        assert "\x1b" not in result.out + missing.err


# ---------------------------------------------------------------------------------------------------- terminal


@needs_terminal
def test_terminal_has_a_table_where_it_fits(puffin: Path) -> None:
    _, wide = in_terminal("stats", puffin, columns=92)
    _, narrow = in_terminal("stats", puffin, columns=60)
    assert " ".join(wide.splitlines()[0].split()) == "vector deleted share density size B/row arrays bitsets runs gaps"
    assert narrow.splitlines()[0] == A
    assert "deleted 4  density 50 %" in narrow


def test_pipe_is_not_squeezed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    name = f"s3://{'deep/' * 100}f.parquet"
    for command in ("inspect", "stats"):
        text = run(command, puffin_file(tmp_path / "f", {name: RowSet([1])})).out
        assert any(line.startswith(f"{name}  ") for line in text.splitlines())


@needs_terminal
def test_colours_in_a_terminal_and_none_with_no_color(puffin: Path) -> None:
    _, coloured = in_terminal("verify", puffin, columns=100, colour=True)
    assert coloured.startswith("\x1b[32mok")
    result = spawn("verify", puffin, env={"NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm-256color"})
    assert "\x1b[32m" not in result.out
    assert "ok" in result.out


# ---------------------------------------------------------------------------------------------------- its own process


class TestInProcess:
    """What happens to the streams and signals of a process, seen from within."""

    @pytest.mark.parametrize("error", [RuntimeError("of ours"), ImportError("x", name="numpy")], ids=repr)
    def test_errors_of_the_program_are_not_hidden(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr(app, "build", fail)
        with pytest.raises(type(error), match=str(error)):
            run("verify", "x")

    @needs_posix
    @pytest.mark.parametrize(("number", "ends"), [(signal.SIGINT, [130]), (signal.SIGUSR1, [])])
    def test_a_signal_ends_it_after_a_while(
        self, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, ends: list[int]
    ) -> None:
        """Ctrl-C does, although Python would wait for its threads; other signals do not."""
        slept: list[float] = []
        ended: list[int] = []
        watch: list[threading.Thread] = []
        start = threading.Thread.start

        def noted(thread: threading.Thread) -> None:
            watch.append(thread)
            start(thread)

        monkeypatch.setattr("time.sleep", slept.append)
        monkeypatch.setattr("os._exit", ended.append)
        monkeypatch.setattr(threading.Thread, "start", noted)
        before = signal.signal(number, lambda *_: None)
        try:
            with cli._ended_by_interrupt():
                signal.raise_signal(number)
                if ends:
                    watch[0].join(10)
        finally:
            signal.signal(number, before)
        watch[0].join(10)
        assert not watch[0].is_alive(), "it ends with the command"
        assert (ended, slept) == (ends, [2.0] * len(ends))
        assert signal.set_wakeup_fd(-1) == -1, "as it was before"

    def test_other_threads_leave_signals_alone(self) -> None:
        """A wakeup descriptor is the main thread's: whoever calls the program from another has no watch."""
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(run, "--version").result().code == 0
