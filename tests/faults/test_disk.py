"""Disks that are full, limited, read-only or gone: one clear line, no litter, the old file untouched."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest

from dvcodec.io import open_sink
from faults.conftest import Disk, Order
from faults.deletes import GONE, delete, ids, make
from faults.writers import PARTIAL, WRITERS, Writer, params
from samples.id_tables import MAKERS

every_writer = pytest.mark.parametrize("writer", params(WRITERS))
PAGE = 4096


def prepared(writer: Writer, folder: Path) -> Path:
    """Make the inputs of a writer."""
    inputs = folder / "in"
    inputs.mkdir()
    writer.prepare(inputs)
    return inputs


def put_old(writer: Writer, inputs: Path, out: Path) -> None:
    """Put the old file where the new one is to be written, or something else in the folder."""
    out.mkdir(exist_ok=True)
    (out / (writer.file or "other")).write_bytes(writer.old(inputs))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sizes_of(writer: Writer, inputs: Path, folder: Path) -> list[int]:
    """Bytes of each file that a writer writes, where nothing is in its way."""
    out = folder / "free"
    put_old(writer, inputs, out)
    writer.write(inputs, out)
    return [len(data) for name, data in contents(out).items() if name != "other"]


@pytest.mark.parametrize("kind", MAKERS)
def test_deletes_on_a_full_disk(kind: str, disk: Disk) -> None:
    """The old state and an error that says so, or the new state; the first with room has all that belongs to it."""
    folder = disk.mount("size=1m") / "t"
    make(kind, folder)
    before, old = contents(folder), ids(folder)
    for room in range(100):
        disk.fill(but=room * PAGE)
        try:
            delete(folder)
            break
        except OSError as error:
            assert "No space left on device" in str(error)
            assert "unknown" not in str(error)
        assert (contents(folder), ids(folder)) == (before, old)
    assert ids(folder) == [one for one in old if one not in GONE]
    if kind == "iceberg":
        assert (folder / "metadata" / "version-hint.text").read_text() == "3"


@every_writer
@pytest.mark.parametrize("room", [0, 1, -1], ids=["nothing fits", "one byte fits", "one byte is missing"])
def test_limited_size(writer: Writer, room: int, tmp_path: Path, order: Order) -> None:
    """The limit of a process, as `ulimit -f` sets it: works where nothing can be mounted."""
    inputs, out = prepared(writer, tmp_path), tmp_path / "out"
    put_old(writer, inputs, out)
    before = contents(out)
    if room < 0:
        if writer.file is None:
            return  # of several files the first may be the small one: the other two limits do
        room += sum(sizes_of(writer, inputs, tmp_path))
    answer = order(writer=WRITERS.index(writer), inputs=inputs, out=out, limit=room)
    assert os.strerror(errno.EFBIG) in answer["text"]
    assert str(out) in answer["text"]
    assert ".partial" not in answer["text"]
    assert contents(out) == before


# ---------------------------------------------------------------------------------------------------- folders


@pytest.mark.parametrize("moved", [False, True])
def test_folder_that_goes_away(moved: bool, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()

    def write() -> None:
        with open_sink(folder / "x") as sink:
            sink.write(b"abc")
            if moved:
                folder.rename(tmp_path / "elsewhere")
            else:
                shutil.rmtree(folder)

    with pytest.raises(FileNotFoundError) as caught:
        write()
    assert str(caught.value).endswith(f"No such file or directory: '{folder / 'x'}'")
    assert not folder.exists()
    if moved:  # out of reach: what is left has a name that nothing reads
        assert all(PARTIAL.fullmatch(path.name) for path in (tmp_path / "elsewhere").iterdir())


def test_links_in_a_circle_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links") as caught, open_sink(tmp_path / "a"):
        pass
    assert caught.value.errno == errno.ELOOP
    assert (tmp_path / "a").is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400])
def test_unfinished_file_shows_no_more_than_the_old_one(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(mode)
    with open_sink(path) as sink:
        sink.write(b"secret")
        (partial,) = (found for found in tmp_path.iterdir() if PARTIAL.fullmatch(found.name))
        assert stat.S_IMODE(partial.stat().st_mode) & ~mode == 0
    assert stat.S_IMODE(path.stat().st_mode) == mode
