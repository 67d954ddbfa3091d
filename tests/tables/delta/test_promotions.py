"""Arrays of data files in the types of the table."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.tables.delta.rows import DeltaEvolution
from dvcodec.tables.rows.columns import FIELD_ID, Column, ColumnIndex, file_columns

UTC = pa.timestamp("us", tz="UTC")


def column(kind: pa.DataType, *children: Column, name: str = "c", physical: str | None = None) -> Column:
    return Column(name, physical_name=physical or name, type=kind, children=children)


def conform(array: pa.Array, wanted: Column, source: str) -> pa.Array:
    (stored,) = file_columns([pa.field(wanted.name, array.type)], source)
    return DeltaEvolution(source, [], []).convert(array, stored, wanted, f"column {wanted.name}")


def find_field(fields: list[pa.Field], wanted: Column, source: str) -> int | None:
    return ColumnIndex(file_columns(fields, source)).find(wanted, source)


def struct(*children: Column, name: str = "c") -> Column:
    return column(pa.struct([child.field for child in children]), *children, name=name)


@each(
    ("values", "found", "wanted", "expected"),
    [
        ([1, None], pa.int8(), pa.int16(), [1, None]),
        ([1], pa.int8(), pa.int64(), [1]),
        ([1], pa.int32(), pa.int64(), [1]),
        ([-128], pa.int32(), pa.int8(), [-128]),
        ([1.5], pa.float32(), pa.float64(), [1.5]),
        ([7], pa.int16(), pa.float64(), [7.0]),
        ([7], pa.int8(), pa.decimal128(4, 1), [Decimal("7.0")]),
        ([9999], pa.int16(), pa.decimal128(5, 0), [Decimal(9999)]),
        ([7], pa.int32(), pa.decimal128(12, 2), [Decimal("7.00")]),
        ([2**62], pa.int64(), pa.decimal128(20, 0), [Decimal(2**62)]),
        ([Decimal("1.5")], pa.decimal128(4, 1), pa.decimal128(6, 3), [Decimal("1.500")]),
        ([dt.date(2020, 1, 2)], pa.date32(), pa.timestamp("us"), [dt.datetime(2020, 1, 2)]),  # noqa: DTZ001
        ([1000], pa.timestamp("ms"), UTC, [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc)]),
        ([1000], pa.timestamp("ns"), pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),  # noqa: DTZ001
        (["a"], pa.large_string(), pa.string(), ["a"]),
        (["a" * 20, None], pa.string_view(), pa.string(), ["a" * 20, None]),  # as deltalake writes updated rows
        ([b"a"], pa.binary_view(), pa.binary(), [b"a"]),
        ([b"a"], pa.binary(), pa.string(), ["a"]),
        (["a"], pa.string(), pa.binary(), [b"a"]),
        ([None], pa.null(), pa.int8(), [None]),
        ([None], pa.null(), pa.list_(pa.int8()), [None]),
    ],
)
def test_primitives(values: list[Any], found: pa.DataType, wanted: pa.DataType, expected: list[Any]) -> None:
    array = conform(pa.array(values, found), column(wanted), "file")
    assert array.type == wanted
    assert array.to_pylist() == expected


@each(
    ("found", "wanted"),
    [
        (pa.int64(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.float64(), pa.float32()),
        (pa.int32(), pa.float32()),
        (pa.int32(), pa.decimal128(10, 1)),
        (pa.int64(), pa.decimal128(19, 0)),
        (pa.decimal128(6, 2), pa.decimal128(7, 4)),
        (pa.decimal128(6, 2), pa.decimal128(6, 1)),
        (pa.date32(), UTC),
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (pa.bool_(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.timestamp("us"), pa.date32()),
        (pa.list_(pa.int32()), pa.int32()),
        (pa.int32(), pa.list_(pa.int32())),
        (pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_invalid_widenings_are_named(found: pa.DataType, wanted: pa.DataType) -> None:
    assert not DeltaEvolution("file", [], []).promotes(found, column(wanted))
    with pytest.raises(Unsupported, match=r"^file: column c: expected .*, found "):
        conform(pa.nulls(1, found), column(wanted), "file")


@pytest.mark.parametrize(
    ("values", "found", "wanted"),
    [
        ([128], pa.int32(), pa.int8()),
        ([b"\xff"], pa.binary(), pa.string()),
        ([1], pa.timestamp("ns"), pa.timestamp("us")),
    ],
)
def test_values_that_do_not_fit(values: list[Any], found: pa.DataType, wanted: pa.DataType) -> None:
    with pytest.raises(NotCanonical, match=r"^file: column c: expected values of"):
        conform(pa.array(values, found), column(wanted), "file")


def test_fields_of_structs_are_found_by_their_physical_names() -> None:
    values = [{"col-2": 1, "gone": 5, "col-1": "a"}, None, {"col-2": None, "gone": 6, "col-1": "b"}]
    found = pa.array(values, pa.struct([("col-2", pa.int32()), ("gone", pa.int32()), ("col-1", pa.string())]))
    wanted = struct(
        column(pa.string(), name="s", physical="col-1"),
        column(pa.int64(), name="n", physical="col-2"),
        column(pa.float64(), name="new", physical="col-3"),
    )
    assert conform(found, wanted, "file").to_pylist() == [
        {"s": "a", "n": 1, "new": None},
        None,
        {"s": "b", "n": None, "new": None},
    ]


@pytest.mark.parametrize("by_id", [False, True])
def test_fields_are_matched_where_types_are_equal(by_id: bool) -> None:
    """One that was dropped and made again does not get the old values, and two do not change places."""

    def child(name: str, physical: str, number: int) -> Column:
        return Column(name, number if by_id else None, physical, type=pa.int64())

    def stored(name: str, number: int) -> pa.Field:
        return pa.field(name, pa.int64(), metadata={FIELD_ID: str(number).encode()})

    found = pa.struct([stored("a", 1), stored("b", 2), stored("x", 3)])
    wanted = struct(child("a", "b", 2), child("b", "a", 1), child("x", "col-new", 4))
    assert found == wanted.type
    rows = [{"a": 1, "b": 2, "x": 3}, None]
    expected = [{"a": 2, "b": 1, "x": None}, None]
    assert conform(pa.array(rows, found), wanted, "file").to_pylist() == expected
    element = Column("element", type=wanted.type, children=wanted.children)
    array = conform(
        pa.array([rows, None], pa.list_(pa.field("element", found))), column(pa.list_(element.field), element), "file"
    )
    assert array.to_pylist() == [expected, None]
    key, value = (
        Column("key", type=pa.string(), nullable=False),
        Column("value", type=wanted.type, children=wanted.children),
    )
    entries = pa.array([[("k", row) for row in rows]], pa.map_(pa.string(), found))
    assert conform(entries, column(pa.map_(key.field, value.field), key, value), "file").to_pylist() == [
        [("k", row) for row in expected]
    ]


ELEMENT = struct(column(pa.int64(), name="x", physical="col-1"), name="element")
LIST = column(pa.list_(ELEMENT.field), ELEMENT)
KEY, VALUE = Column("key", type=pa.string(), nullable=False), column(pa.int64(), name="value")
MAP = column(pa.map_(KEY.field, VALUE.field), KEY, VALUE)


@given(st.lists(st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3), max_size=6), st.integers(0, 3))
def test_lists_and_maps_keep_rows_and_nulls(rows: list[list[int | None] | None], start: int) -> None:
    """Slices too: a batch may begin in the middle of an array."""
    items = [None if row is None else [None if x is None else {"col-1": x} for x in row] for row in rows]
    wanted = [None if row is None else [None if x is None else {"x": x} for x in row] for row in rows]
    for kind in (pa.list_, pa.large_list):
        array = pa.array(items, kind(pa.struct([("col-1", pa.int8())])))
        conformed = conform(array[start:], LIST, "file")
        conformed.validate(full=True)
        assert conformed.to_pylist() == wanted[start:]
    pairs = [None if row is None else [(str(i), x) for i, x in enumerate(row)] for row in rows]
    conformed = conform(pa.array(pairs, pa.map_(pa.string(), pa.int8()))[start:], MAP, "file")
    conformed.validate(full=True)
    assert conformed.type == MAP.type
    assert conformed.to_pylist() == pairs[start:]
    nested = struct(LIST)
    slices = pa.array([{"c": row} for row in items], pa.struct([("c", pa.list_(pa.struct([("col-1", pa.int8())])))]))
    assert conform(slices[start:], nested, "file").to_pylist() == [{"c": row} for row in wanted[start:]]


def test_fields_are_found_as_spelled_or_in_any_case() -> None:
    fields = [pa.field("A", pa.int32()), pa.field("a", pa.int32()), pa.field("B", pa.int32())]
    assert find_field(fields, column(pa.int32(), name="a"), "file") == 1
    assert find_field(fields, column(pa.int32(), name="b"), "file") == 2
    assert find_field(fields, column(pa.int32(), name="c"), "file") is None
    with pytest.raises(NotCanonical, match="file: column x: expected one column with this name or id, found 2"):
        find_field([pa.field("a", pa.int32())] * 2, column(pa.int32(), name="x", physical="a"), "file")
