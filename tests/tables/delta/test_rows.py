"""Data files in the columns of the table, by physical position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import NotCanonical
from dvcodec.io import Storage
from dvcodec.tables.delta.rows import read_rows
from dvcodec.tables.rows.columns import Column

A, B = (Column(name, type=pa.int64()) for name in "ab")


def read(
    file: Path, columns: Sequence[Column], values: Mapping[str, str | None] | None = None, batch_rows: int = 1 << 16
) -> list[tuple[int, list[dict[str, object]]]]:
    found = read_rows(str(file), Storage(), columns, values or {}, frozenset(values or {}), batch_rows)
    return [(rows.start, rows.batch.to_pylist()) for rows in found]


def write(file: Path, **columns: pa.Array | list[object]) -> Path:
    pq.write_table(pa.table(columns), file, row_group_size=3)
    return file


def test_partition_columns_are_taken_from_the_log(tmp_path: Path) -> None:
    """Delta 4 writes them into the files too."""
    file = write(tmp_path / "f", a=[1, 2], b=[8, 8])
    assert read(file, [B, A], {"b": "9"}) == [(0, [{"b": 9, "a": 1}, {"b": 9, "a": 2}])]
    file = write(tmp_path / "g", a=[1])
    assert read(file, [A, B], {"b": None}) == [(0, [{"a": 1, "b": None}])]
    assert read(file, [B], {"b": "9"}) == [(0, [{"b": 9}])]


def test_columns_that_a_file_lacks_are_null(tmp_path: Path) -> None:
    file = write(tmp_path / "f", a=[1, 2])
    new = Column("new", type=pa.list_(pa.string()))
    assert read(file, [new, A]) == [(0, [{"new": None, "a": 1}, {"new": None, "a": 2}])]
    assert read(file, [new]) == [(0, [{"new": None}, {"new": None}])]
    required = Column("required", type=pa.int64(), nullable=False)
    with pytest.raises(NotCanonical, match="column required: expected no nulls, found 2 from row 0 on"):
        read(file, [required])


def test_fields_that_are_never_null(tmp_path: Path) -> None:
    """Also if the file lacks them: then all structs have to be null."""
    x = Column("x", type=pa.int64(), nullable=False)
    s = Column("s", type=pa.struct([x.field, A.field]), children=(x, A))
    stored = pa.struct([("x", pa.int64()), ("a", pa.int64())])
    file = write(tmp_path / "f", s=pa.array([{"x": 1, "a": None}, None], stored), b=[1, 2])
    assert read(file, [s]) == [(0, [{"s": {"x": 1, "a": None}}, {"s": None}])]
    file = write(tmp_path / "f", s=pa.array([None, {"x": 1}, None, None, {"x": None}], stored))
    with pytest.raises(NotCanonical, match=r"f: column s\.x: expected no nulls, found 1 from row 3 on"):
        read(file, [s])
    lacking = pa.struct([("a", pa.int64())])
    assert read(write(tmp_path / "f", s=pa.nulls(1, lacking)), [s]) == [(0, [{"s": None}])]
    with pytest.raises(NotCanonical, match=r"column s\.x: expected no nulls, found 1 from row 0 on"):
        read(write(tmp_path / "f", s=pa.array([{"a": 1}, None], lacking)), [s])
    assert read(write(tmp_path / "f", b=[1]), [s]) == [(0, [{"s": None}])]


def test_names_with_dots(tmp_path: Path) -> None:
    file = tmp_path / "f"
    pq.write_table(pa.table({"a.b": [1], "a": [{"b": 2}], "b": [3]}), file)
    dotted = Column("a.b", type=pa.int64())
    assert read(file, [dotted, B]) == [(0, [{"a.b": 1, "b": 3}])]


def test_columns_by_id(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("x", pa.int64(), metadata={b"PARQUET:field_id": b"4"}), pa.field("a", pa.int64())])
    file = tmp_path / "f"
    pq.write_table(pa.table({"x": [1], "a": [2]}, schema=schema), file)
    columns = [Column("a", 4, "col-4", type=pa.int64()), Column("b", 5, "col-5", type=pa.int64())]
    assert read(file, columns) == [(0, [{"a": 1, "b": None}])]
    without = write(tmp_path / "g", a=[1])
    with pytest.raises(NotCanonical, match="field ids of columns: expected some, found none"):
        read(without, columns)
