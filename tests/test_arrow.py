"""Row sets applied to rows: Arrow, pandas and Polars, by position and by row index, against brute force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.arrow import live_rows, row_mask

Make: TypeAlias = Callable[[dict[str, list[int]]], Any]
ROWS = RowSet([0, 3, 4, 7, 8, 9, 64, 65_535, 65_536, 2**33])


def many_chunks(data: dict[str, list[int]]) -> pa.Table:
    """A table in chunks of 1, 2, 3, ... rows, and empty ones between them; columns are cut at different places."""
    table = pa.table(data, schema=pa.schema([(name, pa.int64()) for name in data]))
    pieces, at, size = [table.slice(0, 0)], 0, 1
    while at < table.num_rows:
        pieces += [table.slice(at, size), table.slice(at, 0)]
        at, size = at + size, size + 1
    columns = []
    for i, name in enumerate(table.column_names):
        chunked = pa.concat_tables(pieces).column(name)
        columns.append(chunked if i % 2 else pa.chunked_array([chunked.combine_chunks()]))
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def strange_index(data: dict[str, list[int]]) -> pd.DataFrame:
    """A pandas frame whose index is neither sorted nor unique."""
    frame = pd.DataFrame(data, dtype="int64")
    frame.index = pd.Index([7 * i % 5 for i in range(len(frame))])
    return frame


def polars_of_many_chunks(data: dict[str, list[int]]) -> pl.DataFrame:
    schema = dict.fromkeys(data, pl.Int64)
    rows = [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
    return pl.concat([pl.DataFrame(schema=schema), *(pl.DataFrame([row], schema) for row in rows)], rechunk=False)


MAKERS: dict[str, Make] = {
    "table": lambda data: pa.table(data, schema=pa.schema([(name, pa.int64()) for name in data])),
    "table of many chunks": many_chunks,
    "sliced table": lambda data: many_chunks({name: [-5, *column, -6] for name, column in data.items()}).slice(
        1, len(next(iter(data.values())))
    ),
    "batch": lambda data: pa.record_batch(data, schema=pa.schema([(name, pa.int64()) for name in data])),
    "pandas": lambda data: pd.DataFrame(data, dtype="int64"),
    "pandas of a strange index": strange_index,
    "pandas, nullable": lambda data: pd.DataFrame(data, dtype="Int64"),
    "pandas of Arrow": lambda data: pd.DataFrame(data, dtype="int64[pyarrow]"),
    "polars": lambda data: pl.DataFrame(data, schema=dict.fromkeys(data, pl.Int64)),
    "polars of many chunks": polars_of_many_chunks,
    "polars, lazy": lambda data: polars_of_many_chunks(data).lazy(),
    "a stream": lambda data: many_chunks(data).to_reader(),
}


def values(frame: Any, column: str) -> list[int]:
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    elif isinstance(frame, pa.RecordBatchReader):
        frame = frame.read_all()
    found = frame.column(column) if isinstance(frame, (pa.Table, pa.RecordBatch)) else frame[column]
    return [int(value) for value in found.to_pylist()] if hasattr(found, "to_pylist") else found.to_list()


# ---------------------------------------------------------------------------------------------------- masks


@given(
    st.sets(st.integers(0, 300) | st.integers(2**32 - 20, 2**32 + 20), max_size=100),
    st.integers(0, 320) | st.integers(2**32 - 30, 2**32 + 30),
    st.integers(0, 200),
    st.booleans(),
)
def test_mask_by_start_against_brute_force(positions: set[int], start: int, length: int, keep: bool) -> None:
    expected = [(position in positions) != keep for position in range(start, start + length)]
    assert row_mask(RowSet(positions), start=start, length=length, keep=keep).to_pylist() == expected


POSITIONS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "int64": lambda values: np.array(values, np.int64),
    "Arrow": lambda values: pa.array(values, pa.int64()),
    "Arrow, chunked": lambda values: pa.chunked_array([values[:1], [], values[1:]], pa.int64()),
    "pandas": lambda values: pd.Series(values, dtype="int64"),
    "pandas, nullable": lambda values: pd.Series(values, dtype="Int64"),
    "polars": lambda values: pl.Series(values, dtype=pl.Int64),
}


@each("kind", POSITIONS)
def test_mask_by_positions(kind: str) -> None:
    for wanted in [[], [3], [9, 3, 1, 3, 0], [2**33, 5, 2**33 + 1, 64], [10**18, 3]]:
        deleted = [position in ROWS for position in wanted]
        assert row_mask(ROWS, positions=POSITIONS[kind](wanted), keep=False).to_pylist() == deleted
        assert row_mask(ROWS, positions=POSITIONS[kind](wanted)).to_pylist() == [not row for row in deleted]


@each(
    "options",
    [
        {},
        {"start": 0},
        {"length": 3},
        {"positions": [1], "start": 0},
        {"positions": [1], "length": 1},
        {"positions": [1], "start": 0, "length": 1},
    ],
    ids=str,
)
def test_mask_has_to_know_where_the_rows_are(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="start and length, or positions"):
        row_mask(ROWS, **options)


# ---------------------------------------------------------------------------------------------------- live rows


ORDERS: dict[str, list[int]] = {
    "in order": list(range(20)),
    "shuffled": np.random.default_rng(3).permutation(20).tolist(),
    "filtered": [2, 3, 8, 11, 19],
    "filtered and shuffled": [64, 3, 65_536, 2, 65_535, 8, 2**33, 7],
    "twice": [3, 3, 5, 5, 3],
    "no rows": [],
}


@each("kind", MAKERS)
def test_by_row_index(kind: str) -> None:
    for keep in [True, False]:
        for index in ORDERS.values():
            frame = MAKERS[kind]({"value": [3 * position for position in index], "_pos": index})
            found = live_rows(frame, ROWS, row_index="_pos", keep=keep)
            assert type(found) is type(frame)
            found = found.read_all() if isinstance(found, pa.RecordBatchReader) else found
            expected = [position for position in index if (position in ROWS) != keep]
            assert values(found, "_pos") == expected
            assert values(found, "value") == [3 * position for position in expected]


def columns_of_many_kinds(rows: int) -> pa.Table:
    """Columns that are taken by index and columns that are not, some with nulls, in chunks that do not line up."""
    numbers = np.arange(rows)
    table = pa.table(
        {
            "long": pa.chunked_array([numbers[:70], numbers[70:]]),
            "short": pa.array(numbers % 100, pa.int8()),
            "flag": pa.array(numbers % 3 == 0),
            "real": pa.array(numbers * 0.5, mask=numbers % 5 == 0),
            "day": pa.array(numbers, pa.int32()).cast(pa.date32()),
            "text": pa.chunked_array(
                [[str(i) if i % 7 else None for i in part] for part in (range(33), range(33, rows))]
            ),
            "list": pa.array([[i] * (i % 3) for i in range(rows)]),
            "named": pa.array([str(i % 4) for i in range(rows)]).dictionary_encode(),
        }
    )
    fields = [field.with_nullable(field.name != "long") for field in table.schema]
    return table.cast(pa.schema(fields, metadata={"who": "test"}))


@each("every", [2, 3, 5, 8, 9, 50], ids=lambda every: f"one row of {every}")
def test_short_and_long_stretches_of_columns_of_many_kinds(every: int) -> None:
    for start in [0, 5, 64]:
        for keep in [True, False]:
            table = columns_of_many_kinds(500)
            rows = RowSet(range(start, start + 600, every))
            wanted = [i for i in range(500) if (i % every != 0) == keep]
            batches = table.to_batches()
            frames = [(0, table), (3, table.slice(3)), (0, batches[0]), (len(batches[0]), batches[1])]
            for first, frame in frames:
                found = live_rows(frame, rows, start=start + first, keep=keep)
                mine = [i - first for i in wanted if first <= i < first + len(frame)]
                assert type(found) is type(frame)
                assert found.schema.equals(frame.schema, check_metadata=True)
                assert found.to_pylist() == frame.take(pa.array(mine, pa.int64())).to_pylist()
                found.validate(full=True)
            assert len(live_rows(table.select([]), rows, start=start, keep=keep)) == len(wanted)


@each("kind", MAKERS)
def test_live_rows_has_to_know_where_the_rows_are(kind: str) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "start .* or row_index"),
        ({"start": 0, "row_index": "a"}, "start .* or row_index"),
        ({"row_index": "b"}, "no column 'b' among a, c"),
        ({"start": -1}, "-1"),
    ]
    for options, said in wrong:
        frame = MAKERS[kind]({"a": [1, 2], "c": [3, 4]})
        with pytest.raises(UsageError, match=said):
            live_rows(frame, ROWS, **options)


INTEGERS = "flat array of integers"


@each(
    ("frame", "said"),
    [
        (pa.table({"i": pa.array([1, None])}), "1 nulls"),
        (pd.DataFrame({"i": pd.array([1, None], dtype="Int64")}), "1 nulls"),
        (pl.DataFrame({"i": [1, None]}), "1 nulls"),
        (pa.table({"i": ["1"]}), INTEGERS),
        (pa.table({"i": pa.array([1], pa.date32())}), INTEGERS),
        (pd.DataFrame({"i": ["1"]}), INTEGERS),
        (pa.table({"i": [-1]}), "position -1 is negative"),
        (pa.table([[1], [2]], names=["i", "i"]), "2 columns 'i'"),
        (pd.DataFrame([[1, 2]], columns=["i", "i"]), "2 columns 'i'"),
        (pa.table({}), "no column 'i' among no columns"),
    ],
)
def test_row_index_column_is_refused(frame: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        live_rows(frame, ROWS, row_index="i")


@each("kind", ["polars, lazy", "a stream", "a relation"])
def test_rows_that_are_read_later_by_their_place(kind: str) -> None:
    data = {"row": list(range(60_000, 70_000)), "other": list(range(10_000))}
    for start in (0, 2, 60_000):
        for keep in (True, False):
            if kind == "a relation":
                duckdb = pytest.importorskip("duckdb")
                frame = duckdb.connect().from_arrow(MAKERS["table"](data))
            else:
                frame = MAKERS[kind](data)
            found = live_rows(frame, ROWS, start=start, keep=keep)
            found = found.collect().to_arrow() if kind == "polars, lazy" else found.read_all()
            assert found.to_pydict() == {
                name: [value for number, value in enumerate(column, start) if (number in ROWS) != keep]
                for name, column in data.items()
            }


def test_a_stream_of_one_column_has_no_rows_to_apply_vectors_to() -> None:
    with pytest.raises(UsageError, match="ChunkedArray is not one of rows"):
        live_rows(pa.chunked_array([[1]]), ROWS, start=0)
    with pytest.raises(UsageError, match="another Arrow stream, got list"):
        live_rows([1], ROWS, start=0)


def test_a_row_set_is_an_arrow_array() -> None:
    assert pl.Series(ROWS).to_list() == pa.array(ROWS).to_pylist() == list(ROWS)
