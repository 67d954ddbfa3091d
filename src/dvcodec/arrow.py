"""Applies deletion vectors to rows: Arrow tables, batches and streams, pandas and Polars frames (extra ``arrow``).

Positions are explicit: either the caller passes the physical position of the first row, or a column has the position of
each row (Spark's ``_metadata.row_index``, Iceberg's ``_pos``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import as_count

__all__ = ["live_rows", "row_mask"]


def __dir__() -> list[str]:
    return sorted(__all__)


Frame = TypeVar("Frame")
_SHORT = 8
"""Mean rows between changes of the mask below which single values are taken."""


def row_mask(
    rows: RowSet, *, start: int | None = None, length: int | None = None, positions: Any = None, keep: bool = True
) -> pa.BooleanArray:
    """Return a packed mask for rows of a data file.

    Args:
        rows: the deleted rows.
        start: physical position of the first row, with `length`.
        length: number of rows, which must be consecutive in the file.
        positions: instead of both, the position of each row (NumPy or Arrow integers, in any order).
        keep: True marks live rows, False deleted ones.

    Raises:
        UsageError: not a `RowSet`, neither or both of `start` with `length` and `positions`, or a position is null or
            negative.

    >>> row_mask(RowSet([1, 4]), start=0, length=6).to_pylist()
    [True, False, True, True, False, True]
    """
    check_rows(rows)
    if positions is None and start is not None and length is not None:
        start, length = as_count(start, "start"), as_count(length, "length")
        return rows.arrow_mask(start, start + length, keep=keep)
    if positions is None or start is not None or length is not None:
        raise UsageError("pass either start and length, or positions")
    found = rows.contains(_position_array(positions))
    return pa.array(~found if keep else found)


def _position_array(positions: Any) -> NDArray[Any]:
    if isinstance(positions, np.ndarray):
        return positions
    nulls = positions.isna().sum() if hasattr(positions, "isna") else getattr(positions, "null_count", 0)
    nulls = nulls() if callable(nulls) else nulls  # a method in Polars
    if nulls:
        raise UsageError(f"row positions contain {nulls} nulls")
    return np.asarray(positions)


def live_rows(
    data: Frame, rows: RowSet, *, start: int | None = None, row_index: str | None = None, keep: bool = True
) -> Frame:
    """Return the rows that are not deleted, with the type of `data`; of a stream or a LazyFrame as they are read.

    Args:
        data: pyarrow Table, RecordBatch or RecordBatchReader, pandas or Polars DataFrame, Polars LazyFrame; or what
            else exports an Arrow stream, as a relation of DuckDB does, of which the result is a RecordBatchReader.
        rows: the deleted rows.
        start: physical position of the first row of `data`; the rows must be consecutive in the file.
        row_index: instead, the column with the physical position of each row.
        keep: False returns the deleted rows instead.

    Raises:
        UsageError: neither or both of `start` and `row_index`, no such column, or another type of `data`.
    """
    if (start is None) == (row_index is None):
        raise UsageError("pass either start (position of the first row) or row_index (a column)")
    kind = _kind(data)
    frame: Any = data
    if kind == "lazy":
        return _lazily(frame, rows, start, row_index, keep)  # type: ignore[no-any-return]
    if kind == "stream":
        return _streamed(frame, rows, start, row_index, keep)  # type: ignore[no-any-return]
    if row_index is None:
        mask = row_mask(rows, start=start, length=len(frame), keep=keep)
    else:
        mask = row_mask(rows, positions=_column(frame, kind, row_index), keep=keep)
    if kind == "pandas":
        return frame[mask.to_numpy(zero_copy_only=False)]  # type: ignore[no-any-return]
    if kind == "polars":
        return frame.filter(sys.modules["polars"].from_arrow(mask))  # type: ignore[no-any-return]
    return _filtered(frame, mask)  # type: ignore[no-any-return]


def _streamed(frame: Any, rows: RowSet, start: int | None, row_index: str | None, keep: bool) -> Any:
    try:
        reader = pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowException, TypeError) as err:  # of one column, as ChunkedArray is
        raise UsageError(f"the stream of the {type(frame).__name__} is not one of rows: {err}") from None
    live_rows(reader.schema.empty_table(), rows, start=start, row_index=row_index, keep=keep)

    def batches(start: int | None) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            yield live_rows(batch, rows, start=start, row_index=row_index, keep=keep)
            start = None if start is None else start + batch.num_rows

    return pa.RecordBatchReader.from_batches(reader.schema, batches(start))


def _lazily(frame: Any, rows: RowSet, start: int | None, row_index: str | None, keep: bool) -> Any:
    polars = sys.modules["polars"]
    schema = frame.collect_schema()
    live_rows(polars.DataFrame(schema=schema), rows, start=start, row_index=row_index, keep=keep)
    position = row_index or max(["row", *schema.names()], key=len) + "_"

    def mask(positions: Any) -> Any:
        numbers = positions if start is None else positions.cast(polars.Int64) + start
        return polars.from_arrow(row_mask(rows, positions=numbers, keep=keep))

    found = polars.col(position).map_batches(mask, return_dtype=polars.Boolean, is_elementwise=True)
    if row_index is not None:
        return frame.filter(found)
    return frame.with_row_index(position).filter(found).drop(position)


def _filtered(frame: Any, mask: pa.BooleanArray) -> Any:
    """Filter a Table or RecordBatch.

    Arrow's filter copies runs of wanted rows. For short runs (a tenth or more of the rows deleted at random), `take` is
    twice as fast for fixed-width values.
    """
    packed = np.frombuffer(mask.buffers()[1], np.uint8)
    changes = int(np.bitwise_count((packed ^ packed >> 1) & 0x7F).sum())
    if changes * _SHORT < len(mask) or not frame.num_columns:
        return frame.filter(mask)
    wanted = np.unpackbits(packed, bitorder="little")[mask.offset : mask.offset + len(mask)].view(np.bool_)
    is_batch = isinstance(frame, pa.RecordBatch)
    parts, start = [], 0
    for batch in [frame] if is_batch else frame.to_batches():
        stop = start + batch.num_rows
        index, part = pa.array(np.flatnonzero(wanted[start:stop])), mask[start:stop]
        columns = (
            column.take(index) if pa.types.is_primitive(column.type) else column.filter(part)
            for column in batch.columns
        )
        parts.append(pa.RecordBatch.from_arrays(list(columns), schema=frame.schema))
        start = stop
    return parts[0] if is_batch else pa.Table.from_batches(parts, schema=frame.schema)


def _column(frame: Any, kind: str, name: str) -> Any:
    names = list(frame.schema.names if kind in ("table", "batch") else frame.columns)
    count = names.count(name)
    if count != 1:
        problem = f"{count} columns {name!r}" if count else f"no column {name!r}"
        raise UsageError(f"{problem} among {', '.join(map(str, names)) or 'no columns'}")
    return frame.column(name) if kind in ("table", "batch") else frame[name]


def _kind(data: object) -> str:
    """Return the kind of a frame without importing its library, which must already be imported."""
    for module, name, kind in (
        ("pyarrow", "Table", "table"),
        ("pyarrow", "RecordBatch", "batch"),
        ("pandas", "DataFrame", "pandas"),
        ("polars", "DataFrame", "polars"),
        ("polars", "LazyFrame", "lazy"),
    ):
        library = sys.modules.get(module)
        if library is not None and isinstance(data, getattr(library, name)):
            return kind
    if hasattr(data, "__arrow_c_stream__"):
        return "stream"
    raise UsageError(
        "need a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or a Polars DataFrame, a LazyFrame or "
        f"another Arrow stream, got {type(data).__name__}"
    )
