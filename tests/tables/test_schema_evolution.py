"""Columns are found in data files by id or name, however many there are. Promotions are tested with their formats."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.delta.rows import DeltaEvolution
from dvcodec.tables.rows.columns import Column, ColumnIndex, ColumnKey, file_columns


def test_the_way_in_which_columns_are_found() -> None:
    named = [Column(name, number, type=pa.int64()) for name, number in (("a", 1), ("A", 2), ("b", None), ("B", None))]
    index = ColumnIndex(named)
    assert index.find(ColumnKey("x", 2), "f") == 1
    assert index.find(ColumnKey("a", 3), "f") is None  # a name is not tried if there is an id
    assert (index.find(ColumnKey("a"), "f"), index.find(ColumnKey("B"), "f")) == (0, 3)
    assert index.find(ColumnKey("z", physical_name="A"), "f") == 1
    assert index.find(ColumnKey("c"), "f") is None
    only = ColumnIndex([Column("Ab", type=pa.int64())])
    assert only.find(ColumnKey("aB"), "f") == 0
    with pytest.raises(NotCanonical, match="f: column aB: expected one column with this name or id, found 2"):
        ColumnIndex([Column(name, type=pa.int64()) for name in ("AB", "ab")]).find(ColumnKey("aB"), "f")
    with pytest.raises(NotCanonical, match="column x: expected one column with this name or id, found 2"):
        ColumnIndex([Column(name, 7, type=pa.int64()) for name in "ab"]).find(ColumnKey("x", 7), "f")


def test_a_name_that_the_file_has_twice() -> None:
    stored = file_columns([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": f"{i}"}) for i in (1, 2)], "f")
    with pytest.raises(NotCanonical, match=r"f: column x: expected one column .*, found several named a"):
        DeltaEvolution("f", [Column("x", 1, type=pa.int64())], stored)


def test_fields_of_a_struct_are_found_in_every_batch() -> None:
    struct = pa.struct([("b", pa.int32()), ("a", pa.int64())])
    wanted = Column("s", type=pa.struct([("a", pa.int64()), ("c", pa.int64()), ("b", pa.int64())]), children=(
        Column("a", type=pa.int64()), Column("c", type=pa.int64()), Column("b", type=pa.int64()),
    ))  # fmt: skip
    evolution = DeltaEvolution("f", [wanted], file_columns([pa.field("s", struct)], "f"))
    for start in range(3):
        array = pa.array([{"a": start, "b": start + 1}, None], struct)
        found = evolution.apply(pa.record_batch([array], ["s"]))
        assert found["s"].to_pylist() == [{"a": start, "c": None, "b": start + 1}, None]


def test_null_keys_of_a_map_are_refused() -> None:
    """A dictionary may hide them; pyarrow ends the process if an array has them."""
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["a", None]))
    array = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), keys, pa.array([1, 2]))
    parts = Column("key", type=pa.string(), nullable=False), Column("value", type=pa.int64())
    column = Column("m", type=pa.map_(pa.string(), pa.int64()), children=parts)
    batch = pa.record_batch([array], names=["m"])
    with pytest.raises(NotCanonical, match=r"f: column m\.key: expected no nulls, found 1"):
        DeltaEvolution("f", [column], file_columns(batch.schema, "f")).apply(batch)


def test_nulls_of_required_columns_are_refused() -> None:
    x = Column("x", type=pa.int64(), nullable=False)
    columns = [Column("s", type=pa.struct([x.field]), children=(x,)), x]
    batch = pa.record_batch({"s": pa.array([None, {"x": 1}], pa.struct({"x": pa.int64()})), "x": [1, None]})
    evolution = DeltaEvolution("f", columns, file_columns(batch.schema, "f"))
    with pytest.raises(NotCanonical, match="f: column x: expected no nulls, found 1 from row 9 on"):
        evolution.apply(batch, 9)
    found = evolution.apply(batch, rows=pa.array([True, False]))
    assert found["s"].to_pylist() == [None, {"x": 1}]
    assert found["s"].field(0).null_count == 0
