"""ORC files, parsed in another process: what a dead, slow or full worker becomes, and that the next file is read."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from dvcodec import DecodeError, LimitExceeded, NotCanonical
from dvcodec.io import open_source
from dvcodec.tables import orc as workers
from dvcodec.tables.orc import open_orc

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


def test_stripes_and_batches(tmp_path: Path) -> None:
    table = pa.table({"pos": range(200_000)})
    orc.write_table(table, tmp_path / "d.orc", stripe_size=1 << 16, batch_size=1000)
    assert orc.ORCFile(tmp_path / "d.orc").nstripes > 1
    assert read(tmp_path / "d.orc", "pos") == table


def test_a_file_that_is_left_early(path: Path) -> None:
    with open_source(path) as source, open_orc(source) as file:
        next(file.batches(["pos"]))
    assert read(path, "pos") == TABLE.select(["pos"])


def test_a_file_that_cannot_be_read_to_its_end(path: Path) -> None:
    """The worker waits for the rest: it is not used again."""

    class Broken:
        name, size = "broken", 100

        def read(self, *_: int) -> memoryview:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"), open_orc(Broken()):
        pass
    assert read(path, "pos") == TABLE.select(["pos"])


def test_one_worker_serves_many_files(path: Path) -> None:
    read(path, "pos")
    before = list(workers._IDLE)
    for _ in range(20):
        read(path, "pos")
    assert before == workers._IDLE


def test_threads(path: Path) -> None:
    found: list[pa.Table] = []
    threads = [threading.Thread(target=lambda: found.append(read(path, "pos"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [TABLE.select(["pos"])] * 6
    assert len(workers._IDLE) <= 2


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
def test_a_worker_that_takes_too_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_source(path) as source, open_orc(source) as file:
        os.kill(file._worker._process.pid, signal.SIGSTOP)
        monkeypatch.setattr(workers, "SECONDS", 0.2)
        with pytest.raises(LimitExceeded, match=r"seconds for an ORC stripe: expected at most 0\.2"):
            list(file.batches(["pos"]))
    monkeypatch.undo()
    assert read(path, "pos") == TABLE.select(["pos"])


@pytest.mark.skipif(os.name != "posix", reason="address space cannot be limited elsewhere")
def test_a_worker_without_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million equal strings of a kilobyte are a file of a few kilobytes."""
    orc.write_table(pa.table({"x": pa.array(["x" * 1000] * 1_000_000)}), tmp_path / "d.orc", compression="zstd")
    workers._close_all()
    monkeypatch.setattr(workers, "MEMORY_BYTES", 900 << 20)
    with pytest.raises(LimitExceeded, match=r"memory to decode ORC"):
        read(tmp_path / "d.orc", "x")
    workers._close_all()


FORKED = """
import os, sys
from dvcodec.io import open_source
from dvcodec.tables import orc as workers

def read():
    with open_source(sys.argv[1]) as source, workers.open_orc(source) as file:
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


def test_damaged_files(path: Path) -> None:
    """Whatever is changed, the file is read or refused."""
    data, chance, refused = path.read_bytes(), random.Random(1), 0
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        try:
            with open_source(bytes(changed)) as source, open_orc(source) as file:
                list(file.batches(file.schema.names))
        except DecodeError:
            refused += 1
    assert refused > 100
    assert read(path, "pos") == TABLE.select(["pos"])
