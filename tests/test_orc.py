"""ORC files, parsed in another process: what a dead, slow or full worker becomes, and that the next file is read."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from dvcodec import LimitExceeded, NotCanonical
from dvcodec.io import open_source, worker_program, workers
from dvcodec.io import workers as reading
from dvcodec.io.workers import ORC, open_orc

TABLE = pa.table({"file_path": ["/t/b", "/t/a", None, "/t/b"], "pos": [7, 2**40, 0, 7], "more": [1.5] * 4})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    orc.write_table(TABLE, tmp_path / "d.orc")
    return tmp_path / "d.orc"


def read(path: Path | bytes, *columns: str) -> pa.Table:
    with open_source(path) as source, open_orc(source) as file:
        return pa.Table.from_batches(file.batches(columns))


def test_columns_in_their_order(path: Path) -> None:
    with open_source(path) as source, open_orc(source) as file:
        assert file.schema == TABLE.schema
    assert read(path, "pos", "file_path") == TABLE.select(["pos", "file_path"])


def test_a_column_of_strings_as_a_dictionary(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_CHUNK", 100)  # the file is sent in pieces
    with open_source(path) as source, open_orc(source) as file:
        (batch,) = file.batches(["pos", "file_path"], dictionary="file_path")
    assert (batch.schema.names, pa.types.is_dictionary(batch.column(1).type)) == (["pos", "file_path"], True)
    assert batch.to_pylist() == TABLE.select(["pos", "file_path"]).to_pylist()


@pytest.mark.parametrize(("stated", "batch_rows", "found"), [(3, 9, 4), (5, 9, 4), (2, 2, 4), (0, 2, 2)])
def test_a_footer_that_states_another_number_of_rows(path: Path, stated: int, batch_rows: int, found: int) -> None:
    with open_source(path) as source, open_orc(source) as file:
        file.rows = stated
        with pytest.raises(NotCanonical, match=rf"ORC file: expected {stated} rows, found {found} rows in stripes"):
            list(file.batches(["pos"], batch_rows))
    assert read(path, "pos") == TABLE.select(["pos"])


def test_a_batch_of_many_bytes_is_sent_in_parts() -> None:
    half = "x" * (worker_program.BATCH_BYTES // 2 + 1)
    for rows, most, parts in ((2, 9, [1, 1]), (1, 9, [1]), (5, 2, [1, 1, 1, 1, 1])):
        batch = pa.record_batch({"x": [half] * rows})
        assert [part.num_rows for part in worker_program._sliced(batch, most)] == parts
    assert [part.num_rows for part in worker_program._sliced(pa.record_batch({"x": [1] * 5}), 2)] == [2, 2, 1]


def test_a_file_that_cannot_be_read_to_its_end(path: Path) -> None:
    """The worker waits for the rest: it is not used again."""

    class Broken:
        name, size = "broken", 100

        def read(self, *_: int) -> memoryview:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"), open_orc(Broken()):
        pass
    assert read(path, "pos") == TABLE.select(["pos"])


def test_a_file_that_a_worker_cannot_hold() -> None:
    class Large:
        name, size = "large", (3 << 30) + 1

        def read(self, *_: int) -> memoryview:
            raise AssertionError("it is not read")

    with pytest.raises(LimitExceeded, match=r"a file of at most 3221225472 bytes, found 3221225473"), open_orc(Large()):
        pass


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("step", ["before", "opened", "reading"])
def test_a_worker_that_crashes(path: Path, step: str) -> None:
    read(path, "pos")
    (worker,) = workers._IDLE[-1:]
    if step == "before":
        os.kill(worker._process.pid, signal.SIGSEGV)
        worker._process.wait()
        assert read(path, "pos") == TABLE.select(["pos"])
        return
    with open_source(path) as source, open_orc(source) as file:
        if step == "reading":
            batches = file.batches(["pos"])
            next(batches)
            os.kill(file._worker._process.pid, signal.SIGSEGV)
        else:
            os.kill(file._worker._process.pid, signal.SIGSEGV)
            batches = file.batches(["pos"])
        with pytest.raises(NotCanonical, match=r"expected valid stripes, found a crash of the decoder \(signal 11\)"):
            list(batches)
    assert read(path, "pos") == TABLE.select(["pos"])


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_worker_that_takes_too_long(path: Path) -> None:
    with open_source(path) as source, open_orc(source) as file:
        os.kill(file._worker._process.pid, signal.SIGSTOP)
        file._worker.kind = replace(ORC, seconds=0.2)
        with pytest.raises(LimitExceeded, match=r"seconds for an ORC stripe: expected at most 0\.2"):
            list(file.batches(["pos"]))
    assert read(path, "pos") == TABLE.select(["pos"])


@pytest.mark.skipif(os.name != "posix", reason="address space cannot be limited elsewhere")
def test_a_worker_without_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of 100 MB is a file of a few kilobytes."""
    orc.write_table(pa.table({"x": ["x" * (100 << 20)]}), tmp_path / "d.orc", compression="zstd")
    workers._close_all()
    monkeypatch.setattr(reading, "ORC", replace(ORC, memory=600 << 20))
    with pytest.raises(LimitExceeded, match=r"memory to decode ORC: expected at most 629145600 bytes"):
        read(tmp_path / "d.orc", "x")
    workers._close_all()


FORKED = """
import os, sys
from dvcodec.io import open_source
from dvcodec.io import workers
from dvcodec.io.workers import open_orc

def read():
    with open_source(sys.argv[1]) as source, open_orc(source) as file:
        return [batch.num_rows for batch in file.batches(["pos"])], {one._process.pid for one in workers._IDLE}

read()
before = {one._process.pid for one in workers._IDLE}
child = os.fork()
if child == 0:
    rows, _ = read()
    now = {one._process.pid for one in workers._IDLE}
    workers._close_all()
    os._exit(0 if rows == [4] and now.isdisjoint(before) else 1)
assert os.waitpid(child, 0)[1] == 0
assert read()[0] == [4]
assert {one._process.pid for one in workers._IDLE} == before
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_forked_process_has_workers_of_its_own(path: Path) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED, str(path)], check=True)


def test_nothing_is_imported_from_the_current_folder(path: Path, tmp_path: Path) -> None:
    """A table's folder may hold a ``json.py``."""
    folder, program = tmp_path / "table", tmp_path / "program" / "read.py"
    folder.mkdir()
    program.parent.mkdir()
    for name in ("json", "os", "typing", "contextlib", "collections", "resource", "pyarrow"):
        (folder / f"{name}.py").write_text("open('ran', 'w').close()\n")
    program.write_text(READ)
    done = subprocess.run([sys.executable, program, path], cwd=folder, check=True, capture_output=True, text=True)
    assert (done.stdout, (folder / "ran").exists()) == ("4\n", False)


READ = """
import sys
from dvcodec.io import open_source
from dvcodec.io.workers import open_orc

with open_source(sys.argv[1]) as source, open_orc(source) as file:
    print(sum(batch.num_rows for batch in file.batches([])))
"""


@pytest.mark.skipif(os.name != "posix", reason="address space cannot be limited elsewhere")
def test_a_file_that_does_not_fit_is_no_commands(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the worker did not take in would be read as commands, and answered to the reader of the next file."""
    commands = message(OPEN, path.read_bytes()) + read_command(9) + message(NEXT) * 3

    class Large:
        name, size = "large", 500 << 20

        def read(self, start: int, size: int) -> memoryview:
            return memoryview((commands if not start else b"").ljust(size, b"\0"))

    workers._close_all()
    monkeypatch.setattr(reading, "ORC", replace(ORC, memory=600 << 20))
    with pytest.raises(LimitExceeded, match="memory to decode ORC: expected at most 629145600"), open_orc(Large()):
        pass
    assert not workers._IDLE
    orc.write_table(pa.table({"pos": [1]}), path)
    assert read(path, "pos") == pa.table({"pos": [1]})
    workers._close_all()


OPEN, NEXT, CLOSE = {"do": "open", "memory": None}, {"do": "next"}, {"do": "close"}


def message(command: dict[str, Any], file: bytes | None = None) -> bytes:
    parts = [json.dumps(command).encode(), *([] if file is None else [file])]
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def answers_of(said: bytes) -> list[bytes]:
    stream, found = io.BytesIO(said), []
    while (answer := worker_program.receive(stream)) is not None:
        found.append(answer)
    assert not stream.read(), "a whole number of messages"
    return found


def served(*messages: bytes) -> list[bytes]:
    """The answers of a worker that is asked this, in this process."""
    writing = io.BytesIO()
    worker_program.serve(io.BytesIO(b"".join(messages)), writing, "orc")
    return answers_of(writing.getvalue())


def read_command(rows: int, *columns: str) -> bytes:
    return message({"do": "read", "columns": columns, "rows": rows, "dictionary": None})


class TestProtocol:
    """What a worker answers, without a process for it."""

    def test_a_file(self, path: Path) -> None:
        commands = message(OPEN, path.read_bytes()), read_command(3, "pos"), *[message(NEXT)] * 4
        schema, begun, *batches, end, after = served(*commands)
        assert (schema[:9], pa.ipc.read_schema(pa.py_buffer(schema[9:]))) == (b"S" + bytes([4, *[0] * 7]), TABLE.schema)
        assert {begun, end, after} == {worker_program.END}, "and nothing is left after the end"
        assert {batch[:1] for batch in batches} == {worker_program.BATCH}
        tables = [pa.ipc.open_stream(batch[worker_program.BATCH_AT :]).read_all() for batch in batches]
        assert [table.num_rows for table in tables] == [3, 1]
        assert pa.concat_tables(tables) == TABLE.select(["pos"])

    @pytest.mark.parametrize("error", [MemoryError("x"), pa.ArrowMemoryError("malloc of size 9 failed")])
    def test_memory_that_is_not_there(self, path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        def refuse(*_: object) -> None:
            raise error

        monkeypatch.setattr(orc, "ORCFile", refuse)
        assert served(message(OPEN, path.read_bytes())) == [worker_program.MEMORY]
