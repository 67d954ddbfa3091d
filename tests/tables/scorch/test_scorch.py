"""Indexes by bleve, whole, and what is made of damaged ones."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap

from cli_runner import run
from dvcodec import BadMagic, DecodeError, NotCanonical, Unsupported, UsageError, tables
from dvcodec.tables import TableKind, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.model import Part
from dvcodec.tables.scorch import ScorchTable, SegmentRecord
from dvcodec.tables.scorch import open as open_index
from samples.bolt import Bolt, Inline

from .truth import check

NAMES = ("small-v15", "small-v16", "small-v17")


@pytest.fixture(scope="module")
def indexes(own_vectors: Path) -> Path:
    (folder,) = (own_vectors / "tables" / "scorch").iterdir()
    return folder


@pytest.fixture
def copied(indexes: Path, tmp_path: Path) -> Callable[[str], ScorchTable]:
    def copy(name: str) -> ScorchTable:
        shutil.copytree(indexes / name, tmp_path / name)
        return open_index(str(tmp_path / name))

    return copy


def truth(indexes: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((indexes / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_epoch_is_as_bleve_says(indexes: Path, name: str) -> None:
    table = open_table(indexes / name)
    assert isinstance(table, ScorchTable)
    assert table.kind is TableKind.SCORCH
    expected = truth(indexes, name)
    assert any(segment["deleted"] for epoch in expected for segment in epoch["segments"])
    check(table, expected)
    check(table, expected, batch_rows=1000)


def test_what_is_not_there(indexes: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not a scorch index \(neither root.bolt nor store/root.bolt exists\)"):
        open_index(str(tmp_path))
    with pytest.raises(UsageError, match="no snapshot 99"):
        open_index(str(indexes / "small-v16")).snapshot(99)


# ---------------------------------------------------------------------- damage


def test_a_segment_that_is_gone_or_damaged(indexes: Path, copied: Callable[[str], ScorchTable]) -> None:
    table = copied("small-v16")
    file = table.snapshot().data_files[0]
    path = Path(file.location)
    valid = path.read_bytes()
    path.write_bytes(valid[:-20])
    assert_problem(table, "zap")
    path.write_bytes(b"")
    assert_problem(table, "zap footer")
    path.unlink()
    assert_problem(table, "No such file")
    shutil.copy(table.folder.join("index_meta.json"), path)
    assert_problem(table, "zap version")
    shutil.copy(indexes / "small-v17" / "store" / path.name, path)
    assert_problem(table, "zap version: expected 16, found 17")


def assert_problem(table: ScorchTable, text: str) -> None:
    snapshot = table.snapshot()
    assert snapshot.data_files[0].physical_rows is None
    assert text in str(SegmentRecord.of(snapshot.data_files[0]).problem)
    assert SegmentRecord.of(snapshot.data_files[1]).problem is None
    vector = next(vector for vector in snapshot.vectors if vector.data_file == snapshot.data_files[0].path)
    assert list(snapshot.check_container(vector.location, [vector])) == []
    assert list(snapshot.damaged_files()) == [snapshot.data_files[0].path]
    check = "missing-data-file" if text == "No such file" else "unreadable-data-file"
    for orphans in (True, False):
        found = audit(table, orphans=orphans)
        assert [(one.check, one.data_file) for one in found.findings] == [(check, snapshot.data_files[0].path)]
    assert snapshot.read(vector)[0].rows


def test_a_deep_audit_verifies_segments(copied: Callable[[str], ScorchTable]) -> None:
    table = copied("small-v16")
    first = table.snapshot().data_files[0]
    data = bytearray(Path(first.location).read_bytes())
    data[100] ^= 4
    Path(first.location).write_bytes(data)
    shallow = audit(table)
    assert (shallow.findings, shallow.older) == ((), None)
    (note,) = shallow.notes
    assert (note.check, note.what[:51]) == ("segment-contents", "only the footer of 2 segments was read; a deep audi")
    deep = audit(table, deep=True)
    assert deep.notes == ()
    assert {(one.check, one.data_file, one.path) for one in deep.findings} == {("segment", first.path, first.location)}
    assert (deep.findings[0].what, deep.findings[0].offset) == ("crc of file: CRC-32 of the segment", len(data) - 4)
    assert not deep.ok


def test_an_older_snapshot_whose_segments_are_whole_is_named(copied: Callable[[str], ScorchTable]) -> None:
    table = copied("small-v16")
    first, second = (Path(file.location) for file in table.snapshot().data_files)
    ids = [info.id for info in table.snapshots()]
    files = {number: [file.path for file in table.snapshot(number).data_files] for number in ids}
    without = max(number for number in ids if second.name not in files[number])
    data = bytearray(second.read_bytes())
    data[100] ^= 4
    second.write_bytes(data)
    assert (audit(table).older, audit(table, deep=True).older) == (None, without)
    second.unlink()
    assert (audit(table).older, audit(table, orphans=False).older) == (without, without)
    assert audit(table, without, deep=True).findings == ()
    line = f"snapshot {without} has no vector or data file with these errors (--snapshot {without})"
    assert line in run("audit", table.location).out.splitlines()
    first.unlink()  # the oldest snapshot has no segments
    assert audit(table).older is None


def test_a_segment_that_was_swapped(copied: Callable[[str], ScorchTable]) -> None:
    table = copied("small-v16")
    snapshot = table.snapshot()
    first, second = snapshot.data_files
    shutil.copy(second.location, first.location)
    with pytest.raises(NotCanonical, match=f"documents of the segment: expected {first.physical_rows}"):
        list(snapshot.rows(first))


def test_a_damaged_bitmap(copied: Callable[[str], ScorchTable]) -> None:
    table = copied("small-v16")
    snapshot = table.snapshot()
    vector = snapshot.vectors[0]
    path = Path(vector.location)
    valid = path.read_bytes()
    assert vector.offset is not None
    assert vector.size is not None
    refused = 0
    for bit in range(0, 8 * vector.size, 3):
        data = bytearray(valid)
        data[vector.offset + (bit >> 3)] ^= 1 << (bit & 7)
        path.write_bytes(data)
        try:
            snapshot.read(vector)
        except DecodeError as error:
            assert error.source == str(path)
            refused += 1
    assert refused >= 8 * 4
    data = bytearray(valid)
    data[vector.offset] ^= 2
    path.write_bytes(data)
    with pytest.raises(BadMagic, match=f"at byte {vector.offset}"):
        snapshot.read(vector)


# ---------------------------------------------------------------------- crafted indexes


def bitmap(*rows: int) -> bytes:
    return BitMap(rows).serialize()


def index(folder: Path, epochs: dict[bytes, Any], *, transaction: int = 7) -> ScorchTable:
    (folder / "root.bolt").write_bytes(Bolt({b"s": epochs} if epochs else {}).data(transaction=transaction))
    return open_index(str(folder))


def epoch(meta: dict[bytes, bytes] | None = None, **segments: Any) -> dict[bytes, Any]:
    """A snapshot; segments are `s5={b"p": b"a.zap"}`."""
    whole = {b"type": b"zap", b"version": b"\0\0\0\x10\0"} | (meta or {})
    return {b"m": Inline(whole), b"i": Inline()} | {
        bytes([136 + int(name[1:])]): Inline(entries) for name, entries in segments.items()
    }


def test_documents_are_deleted_by_their_own_library(tmp_path: Path) -> None:
    table = index(tmp_path, {})
    for act in (
        lambda: table.delete(where="a = 1"),
        lambda: tables.delete(table, where="a = 1"),
        lambda: tables.enable(table),
    ):
        with pytest.raises(UsageError, match=f"^{re.escape(table.location)}: .* deleted by its own library"):
            act()


def test_a_segment_is_read_in_one_part(indexes: Path) -> None:
    """By the first of several readers."""
    snapshot = open_table(indexes / NAMES[0]).snapshot()
    file = snapshot.data_files[0]
    counts = [
        sum(rows.batch.num_rows for rows in snapshot.row_reader(file)(100, Part(number, 3), None))
        for number in range(3)
    ]
    assert counts == [file.physical_rows, 0, 0]
    assert [snapshot.unknown_files(vector) for vector in snapshot.vectors] == [()] * len(snapshot.vectors)


def test_a_transaction_after_the_snapshot_was_read(tmp_path: Path) -> None:
    segments = {"s5": {b"p": b"a.zap", b"d": bitmap(1, 2)}}
    table = index(tmp_path, {b"\x88": epoch(**segments)})
    snapshot = table.snapshot()
    assert snapshot.read(snapshot.vectors[0])[0].rows == {1, 2}
    index(tmp_path, {b"\x88": epoch(**segments)}, transaction=8)
    with pytest.raises(NotCanonical, match="transaction: expected 7, in which the snapshot was read, found 8"):
        snapshot.read(snapshot.vectors[0])
    snapshot = table.snapshot()
    assert snapshot.read(snapshot.vectors[0])[0].rows == {1, 2}


def test_a_record_that_is_not_in_the_file(tmp_path: Path) -> None:
    table = index(
        tmp_path, {b"\x88": epoch(s5={b"p": b"a.zap", b"d": bitmap(1)}, s6={b"p": b"b.zap", b"d": bitmap(2)})}
    )
    one, other = table.snapshot().vectors
    moved = type(one)(**{**{name: getattr(one, name) for name in one.__slots__}, "offset": other.offset})
    found = [one for one in table.snapshot().check_container(one.location, [moved]) if one.check == "range"]
    assert [finding.offset for finding in found] == [other.offset]
    assert found[0].actual == str((one.offset, one.size))


def test_what_transformed_contents_are(tmp_path: Path) -> None:
    table = index(tmp_path, {b"\x88": epoch({b"fileWriterID": b"secret"}), b"\x89": epoch({b"fileWriterID": b""})})
    assert [info.id for info in table.snapshots()] == [0, 1]
    assert table.snapshot(1).data_files == ()
    with pytest.raises(Unsupported, match=r"contents transformed by a writer of its own.*b'secret'"):
        table.snapshot(0)


def test_two_segments_of_one_file(tmp_path: Path) -> None:
    table = index(tmp_path, {b"\x88": epoch(s5={b"p": b"a.zap"}, s6={b"p": b"a.zap"})})
    with pytest.raises(NotCanonical, match=r"segments of one file: expected one, found 2 of a\.zap"):
        table.snapshot()


def test_fields_that_were_dropped(indexes: Path, tmp_path: Path) -> None:
    (name,) = (indexes / "small-v16" / "store").glob("*2.zap")
    shutil.copy(name, tmp_path / "a.zap")
    fields = b'{"title": {"Deleted": true}, "n": {"Store": true}, "flag": {"Index": true, "Store": false}, "x": {}}'
    table = index(tmp_path, {b"\x88": epoch(s5={b"p": b"a.zap", b"fields": fields})})
    snapshot = table.snapshot()
    (file,) = snapshot.data_files
    assert SegmentRecord.of(file).dropped_fields == ("n", "title")
    (rows,) = snapshot.rows(file)
    seen = {value["field"] for row in rows.batch["_stored"].to_pylist() for value in row}
    assert seen == {"flag", "list"}
