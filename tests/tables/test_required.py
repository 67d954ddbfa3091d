"""Nulls are refused where a schema has none, at every level; below a null they are no values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec import NotCanonical
from dvcodec.tables.rows.columns import Required

X = pa.field("x", pa.int64(), nullable=False)
STRUCT, LIST = pa.struct([X, pa.field("y", pa.string())]), pa.list_(X.with_name("element"))
PAIRS = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))


def _fits_parquet(array: pa.Array) -> bool:
    sink = pa.BufferOutputStream()
    try:
        pq.write_table(pa.table({"c": array}), sink)
        found = pq.read_table(pa.BufferReader(sink.getvalue())).column("c").to_pylist()
        return bool(found == array.to_pylist())
    except pa.ArrowException:
        return False


FIXED = _fits_parquet(pa.nulls(2, pa.list_(pa.int64(), 2)))
"""Whether this version of pyarrow stores nulls among lists of a fixed size in Parquet."""


def checked(array: pa.Array, *, nullable: bool = True, **given: Any) -> pa.Array:
    (found,) = Required(pa.schema([pa.field("c", array.type, nullable)]), "f").checked([array], **given)
    return found


@each(
    ("values", "kind", "nullable", "path", "count"),
    [
        ([1, None, None], pa.int64(), False, "c", 2),
        ([None], STRUCT, False, "c", 1),
        ([{"x": None, "y": None}, None], STRUCT, True, "c.x", 1),
        ([[1, None], None, [None, None]], LIST, True, "c.element", 3),
        ([[1, None], None], pa.large_list(X.with_name("e")), True, "c.element", 1),
        ([[1, None], None], pa.list_(X.with_name("e"), 2), True, "c.element", 1),
        ([[("a", None)], None], PAIRS, True, "c.value", 1),
        ([[{"x": 1}, {"x": None}, None]], pa.list_(STRUCT), True, "c.element.x", 1),
        ([{"s": None}], pa.struct([pa.field("s", STRUCT, nullable=False)]), True, "c.s", 1),
        ([{"s": {"x": None}}, None], pa.struct([pa.field("s", STRUCT, nullable=False)]), True, "c.s.x", 1),
    ],
    ids=str,
)
def test_a_null_among_values_is_refused(
    values: list[Any], kind: pa.DataType, nullable: bool, path: str, count: int
) -> None:
    with pytest.raises(NotCanonical, match=f"f: column {path}: expected no nulls, found {count} from row 7 on"):
        checked(pa.array(values, kind), nullable=nullable, start=7)


def test_without_nulls_nothing_is_copied() -> None:
    for array in (pa.array([{"x": 1, "y": None}, {"x": 2, "y": "b"}], STRUCT), pa.array([[1], [], None], LIST)):
        assert checked(array) is array


def test_records_that_are_no_rows_may_have_nulls() -> None:
    array = pa.array([{"x": 1}, {"x": None}, None, {"x": 4}], STRUCT)
    rows = pa.array([True, False, False, True])
    assert checked(array, nullable=False, rows=rows).filter(rows).to_pylist() == array.filter(rows).to_pylist()
    with pytest.raises(NotCanonical, match="column c: expected no nulls, found 1 from row 0"):
        checked(array, nullable=False, rows=pa.array([True, False, True, True]))
    with pytest.raises(NotCanonical, match=r"column c\.x: expected no nulls, found 1 from row 0"):
        checked(array, rows=pa.array([True, True, True, True]))


def types_of(kind: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    field = st.builds(lambda one, nullable: pa.field("f", one, nullable), kind, st.booleans())
    return st.one_of(
        st.lists(field, min_size=1, max_size=2).map(
            lambda some: pa.struct([one.with_name(f"f{i}") for i, one in enumerate(some)])
        ),
        field.map(pa.list_),
        field.map(lambda one: pa.list_(one, 2)),
        field.map(lambda one: pa.map_(pa.int64(), one)),
    )


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        found: st.SearchStrategy[Any] = st.fixed_dictionaries({one.name: values_of(one.type) for one in kind})
    elif pa.types.is_map(kind):
        found = st.lists(st.tuples(st.integers(0, 9), values_of(kind.item_type)), max_size=3)
    elif pa.types.is_fixed_size_list(kind):
        found = st.lists(values_of(kind.value_type), min_size=2, max_size=2)
    elif pa.types.is_list(kind):
        found = st.lists(values_of(kind.value_type), max_size=3)
    else:
        found = st.integers(0, 9)
    return st.one_of(found, found, found, st.none())


def is_right(value: Any, field: pa.Field) -> bool:
    kind = field.type
    if value is None:
        return bool(field.nullable)
    if pa.types.is_struct(kind):
        return all(is_right(value[one.name], one) for one in kind)
    if pa.types.is_map(kind):
        return all(is_right(item, kind.item_field) for _, item in value)
    return not pa.types.is_nested(kind) or all(is_right(item, kind.value_field) for item in value)


@given(data=st.data())
@settings(max_examples=examples(200))
def test_nulls_are_found_as_one_by_one(data: st.DataObject) -> None:
    """In slices, too, and among records of which some are no rows."""
    kind = data.draw(st.recursive(st.just(pa.int64()), types_of, max_leaves=4))
    field = pa.field("c", kind, data.draw(st.booleans()))
    values = data.draw(st.lists(values_of(kind), max_size=6))
    first = data.draw(st.integers(0, len(values)))
    array, values = pa.array(values, kind)[first:], values[first:]
    keep = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    rows = data.draw(st.sampled_from([None, pa.array(keep, pa.bool_())]))
    shown = values if rows is None else [value for value, kept in zip(values, keep, strict=True) if kept]
    required = Required(pa.schema([field]), "f")
    if not all(is_right(value, field) for value in shown):
        with pytest.raises(NotCanonical, match="expected no nulls"):
            required.checked([array], rows=rows)
        return
    (found,) = required.checked([array], rows=rows)
    found.validate(full=True)
    found, array = (found, array) if rows is None else (found.filter(rows), array.filter(rows))
    assert found.to_pylist() == array.to_pylist()
    if FIXED or "fixed_size_list" not in str(kind):
        pq.write_table(pa.Table.from_arrays([found], schema=pa.schema([field])), pa.MockOutputStream())
