"""Lance's data files, decoded in another process: corrupt ones end it, and not this one."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from dvcodec import MissingExtra, NotCanonical, UsageError
from dvcodec.io import worker_program, workers
from dvcodec.tables import live_batches, open_table
from dvcodec.tables.lance import table as reading

pytest.importorskip("lance.fragment")  # tests/tables/lance, too, can be imported as lance
lance = pytest.importorskip("lance")

TABLE = pa.table({"key": range(300), "text": [f"t{i % 7}" for i in range(300)], "list": [[1, 2]] * 300})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lance.write_dataset(TABLE, str(tmp_path / "t"), data_storage_version="2.1")
    lance.dataset(str(tmp_path / "t")).delete("key < 5")
    return tmp_path / "t"


def read(folder: Path, columns: list[str] | None = None, batch_rows: int = 100) -> list[tuple[int, pa.RecordBatch]]:
    snapshot = open_table(folder).snapshot()
    (file,) = snapshot.data_files
    return [(rows.start, rows.batch) for rows in snapshot.rows(file, columns=columns, batch_rows=batch_rows)]


def test_blobs_of_both_kinds_are_bytes_as_pylance_returns_them(tmp_path: Path) -> None:
    """A column of the newer kind is a struct in the schema of the dataset."""
    old = pa.field("old", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    blobs = lance.blob_array([b"aa", None, b"y" * 100_000])
    parts = pa.StructArray.from_arrays(
        [blobs, pa.array([1, 2, 3])], fields=[lance.blob_field("b"), pa.field("k", pa.int64())]
    )
    for version, fields, columns in (
        ("2.1", [old], [pa.array([b"", b"b", None], pa.large_binary())]),
        ("2.2", [lance.blob_field("b"), pa.field("s", parts.type)], [blobs, parts]),
    ):
        path = str(tmp_path / version)
        lance.write_dataset(pa.table(columns, pa.schema(fields)), path, data_storage_version=version)
        lance.dataset(path).delete("_rowid = 1")
        expected = lance.dataset(path).to_table(blob_handling="all_binary")
        table = open_table(path)
        assert table.snapshot().schema() == expected.schema
        assert pa.Table.from_batches(live_batches(table)) == expected


def test_an_error_whose_text_has_a_nul(folder: Path) -> None:
    """Arrow's Rust code aborts over it."""
    (file,) = (folder / "data").iterdir()
    data = file.read_bytes()
    name = b"/lance.encodings"
    assert name in data
    file.write_bytes(data.replace(name, name[:4] + b"\0" + name[5:]))
    with pytest.raises(NotCanonical, match=r"fragment 0: expected what Lance can read, found a crash of the decoder"):
        read(folder)
    file.write_bytes(data)
    assert len(read(folder)) == 3


@pytest.mark.parametrize("name", [b"key", b"text"])
def test_a_column_whose_name_has_a_nul(folder: Path, name: bytes) -> None:
    """Lance's library panics over it."""
    for manifest in (folder / "_versions").iterdir():
        manifest.write_bytes(manifest.read_bytes().replace(name, name[:1] + b"\0" + name[2:]))
    with pytest.raises(NotCanonical, match="expected what Lance can read"):
        read(folder)
    with pytest.raises(NotCanonical, match="expected what Lance can read"):
        open_table(folder).snapshot().schema()


def test_what_is_missing(folder: Path) -> None:
    with pytest.raises(UsageError, match="nosuch"):
        read(folder, ["nosuch"])
    (file,) = (folder / "data").iterdir()
    file.unlink()
    with pytest.raises((OSError, NotCanonical)):
        read(folder)
    table = open_table(folder)
    (one,) = table.snapshot().data_files
    with pytest.raises(UsageError, match=r"version 2 has no fragment 7"):
        list(reading.fragment_rows(str(folder), 2, None, one, 7, None, "a", batch_rows=10))


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker reports it; who asked names the extra."""
    command = json.dumps({"do": "open", "location": "/t", "version": 1, "options": None}).encode()
    writing = io.BytesIO()
    monkeypatch.setitem(sys.modules, "lance.dataset", None)
    worker_program.serve(io.BytesIO(len(command).to_bytes(8, "little") + command), writing, "lance")
    assert writing.getvalue()[8:] == worker_program.MISSING


def test_a_worker_reports_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = open_table(folder).snapshot().data_files
    monkeypatch.setattr(workers.Worker, "answer", lambda *_: memoryview(worker_program.MISSING))
    monkeypatch.setitem(sys.modules, "lance.dataset", None)
    with pytest.raises(MissingExtra, match=r"dvcodec\[lance\]"):
        list(reading.fragment_rows(str(folder), 2, None, one, 0, None, "b", batch_rows=10))
