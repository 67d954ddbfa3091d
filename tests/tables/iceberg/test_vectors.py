"""Vectors, and position deletes in Parquet, Avro and ORC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from cases import each
from dvcodec import RowSet, iceberg
from dvcodec.core.errors import (
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    NotCanonical,
    Truncated,
    Unsupported,
)
from dvcodec.io import Storage
from dvcodec.tables.iceberg import open as open_iceberg
from dvcodec.tables.iceberg.deletes import read_deletes
from samples.iceberg_table import VECTOR, altered, build_iceberg


@each(
    ("change", "error", "match"),
    [
        ({"record_count": 3}, CardinalityMismatch, "cardinality: expected 3"),
        ({"content_offset": 5}, DecodeError, "vectors-1-0.puffin at byte"),
        ({"content_offset": -1}, Truncated, "byte range"),
        ({"content_offset": 2**62}, Truncated, "byte range"),
        ({"content_size_in_bytes": 2**62}, Truncated, "byte range"),
        ({"content_size_in_bytes": -4}, Truncated, "byte range"),
        ({"content_size_in_bytes": None}, NotCanonical, "found no content_size_in_bytes"),
        ({"content_offset": None}, NotCanonical, "found no content_offset"),
        ({"referenced_data_file": None}, NotCanonical, "found no referenced_data_file"),
        ({"key_metadata": b"key"}, Unsupported, "expected no encryption"),
        ({"sequence_number": 0}, NotCanonical, "at least 1, that of the data file, found 0"),
    ],
)
def test_a_wrong_record_of_a_vector(
    tmp_path: Path, change: dict[str, Any], error: type[DecodeError], match: str
) -> None:
    table = open_iceberg(build_iceberg(tmp_path, VECTOR, tweak_entry=altered(change, content=1)).folder)
    snapshot = table.snapshot()
    (vector,) = snapshot.vectors
    with pytest.raises(error, match=match):
        snapshot.read(vector)


def test_a_damaged_vector_is_named(tmp_path: Path) -> None:
    made = build_iceberg(tmp_path, VECTOR)
    table = open_iceberg(made.folder)
    (vector,) = table.snapshot().vectors
    data = bytearray(Path(vector.location).read_bytes())
    assert vector.offset is not None
    data[vector.offset + 30] ^= 1
    Path(vector.location).write_bytes(data)
    with pytest.raises(ChecksumMismatch, match=r"vectors-1-0.puffin at byte \d+: CRC-32"):
        table.snapshot().read(vector)


def test_a_vector_in_a_file_that_is_not_puffin(tmp_path: Path) -> None:
    """Bare blobs, and files of Delta, stand under the format name of Puffin."""
    rows = RowSet([1, 2, 17])
    blob = iceberg.encode(rows)
    for name, head in (("bare", b""), ("delta", b"\x01")):
        change = {"content_offset": len(head), "content_size_in_bytes": len(blob), "record_count": 3}
        change["file_size_in_bytes"] = len(head + blob)
        made = build_iceberg(tmp_path / name, VECTOR, tweak_entry=altered(change, content=1))
        table = open_iceberg(made.folder)
        snapshot = table.snapshot()
        (vector,) = snapshot.vectors
        Path(vector.location).write_bytes(head + blob)
        (found,) = snapshot.read(vector)
        assert found.rows == rows
        assert list(snapshot.check_container(vector.location, [vector])) == []


FORMATS = ("parquet", "avro", "orc")
PATHS = ["/t/b", "/t/a", "/t/b", "/t/b"]
POSITIONS = [7, 2**40, 0, 7]


def write(path: Path, file_format: str, columns: Mapping[str, list[Any]]) -> str:
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    if file_format == "parquet":
        pq.write_table(table, path, row_group_size=2)
    elif file_format == "orc":
        orc.write_table(table, path)
    else:
        kinds = {name: "long" if pa.types.is_integer(table[name].type) else "string" for name in columns}
        fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "d", "fields": fields}, table.to_pylist())
    return str(path)


@pytest.mark.parametrize("file_format", FORMATS)
def test_what_is_read(tmp_path: Path, file_format: str) -> None:
    path = write(tmp_path / "d", file_format, {"file_path": PATHS, "pos": POSITIONS, "row": ["x"] * 4})
    found = read_deletes(path, file_format, 4, Storage())
    assert found.rows == {"/t/b": RowSet([0, 7]), "/t/a": RowSet([2**40])}
    assert found.count == 4
    assert found.cost >= 4


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_wrong_count(tmp_path: Path, file_format: str) -> None:
    path = write(tmp_path / "d", file_format, {"file_path": PATHS, "pos": POSITIONS})
    with pytest.raises(CardinalityMismatch, match=r"/d: record_count: expected 5 \(manifest\), found 4 rows"):
        read_deletes(path, file_format, 5, Storage())


@each("file_format", FORMATS)
@each(
    "columns",
    [
        {"file_path": PATHS},
        {"pos": POSITIONS},
        {"file_path": PATHS, "pos": [1, 2, -3, 4]},
        {"file_path": PATHS, "pos": [1, None, 3, 4]},
        {"file_path": ["a", None, "b", "c"], "pos": POSITIONS},
        {"file_path": PATHS, "pos": PATHS},
        {"file_path": POSITIONS, "pos": POSITIONS},
    ],
)
def test_other_columns(tmp_path: Path, file_format: str, columns: Mapping[str, list[Any]]) -> None:
    path = write(tmp_path / "d", file_format, columns)
    with pytest.raises(NotCanonical, match="/d"):
        read_deletes(path, file_format, 4, Storage())


def test_another_format(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="x: format of position deletes: expected parquet, avro, orc, found lance"):
        read_deletes("x", "lance", 4, Storage())
