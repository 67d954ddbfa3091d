"""Applying deletion vectors to rows in memory: Arrow tables and batches, pandas and Polars frames (extra ``arrow``).

A row's position is never guessed from the order of batches: either the caller says at which physical position the
data starts, or a column holds each row's position (Spark's ``_metadata.row_index``, Iceberg's ``_pos``).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import require_extra
from dvcodec.core.rowset import RowSet

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["live_rows", "row_mask"]

Frame = TypeVar("Frame")
_SHORT = 8
"""Rows for each change from wanted to unwanted or back; with fewer, stretches are short."""


def row_mask(
    rows: RowSet, *, start: int | None = None, length: int | None = None, positions: Any = None, keep: bool = True
) -> pa.BooleanArray:
    """Return a packed mask for rows of a data file.

    Args:
        rows: the deleted rows.
        start: physical position of the first row, with `length`.
        length: number of rows, which follow one another in the file.
        positions: instead of both, each row's position (NumPy or Arrow integers, any order).
        keep: True marks live rows, False deleted ones.

    Raises:
        UsageError: neither or both ways of placing rows are given, or a position is null or negative.

    >>> row_mask(RowSet([1, 4]), start=0, length=6).to_pylist()
    [True, False, True, True, False, True]
    """
    if positions is None and start is not None and length is not None:
        if length < 0:
            raise UsageError("length must not be negative")
        return rows.arrow_mask(start, start + length, keep=keep)
    if positions is None or start is not None or length is not None:
        raise UsageError("say where the rows are: start and length, or positions")
    pa = require_extra("pyarrow", "arrow")
    found = rows.contains(_position_array(positions))
    return pa.array(~found if keep else found)


def _position_array(positions: Any) -> NDArray[Any]:
    if isinstance(positions, np.ndarray):
        return positions
    nulls = positions.isna().sum() if hasattr(positions, "isna") else getattr(positions, "null_count", 0)
    nulls = nulls() if callable(nulls) else nulls  # a method in Polars
    if nulls:
        raise UsageError(f"row positions hold {nulls} nulls")
    return np.asarray(positions)


def live_rows(
    data: Frame, rows: RowSet, *, start: int | None = None, row_index: str | None = None, keep: bool = True
) -> Frame:
    """Return the rows that are not deleted, as the type that came in.

    Args:
        data: pyarrow Table or RecordBatch, pandas or Polars DataFrame.
        rows: the deleted rows.
        start: physical position of the first row of `data`; its rows must follow one another in the file.
        row_index: instead, the column that holds each row's physical position.
        keep: False returns the deleted rows instead.

    Raises:
        UsageError: neither or both of `start` and `row_index`, no such column, or another type of `data`.
    """
    if (start is None) == (row_index is None):
        raise UsageError("say where the rows are: start (position of the first row) or row_index (a column)")
    kind = _kind(data)
    frame: Any = data
    if row_index is None:
        mask = row_mask(rows, start=start, length=len(frame), keep=keep)
    else:
        mask = row_mask(rows, positions=_column(frame, kind, row_index), keep=keep)
    if kind == "pandas":
        return frame[mask.to_numpy(zero_copy_only=False)]  # type: ignore[no-any-return]
    if kind == "polars":
        return frame.filter(sys.modules["polars"].from_arrow(mask))  # type: ignore[no-any-return]
    return _filtered(frame, mask)  # type: ignore[no-any-return]


def _filtered(frame: Any, mask: pa.BooleanArray) -> Any:
    """Filter a Table or RecordBatch.

    Arrow's filter copies stretch by stretch of wanted rows. Where these are short, as when a tenth of the rows or more
    is deleted here and there, values of a fixed width are taken one by one in half the time.
    """
    packed = np.frombuffer(mask.buffers()[1], np.uint8)
    changes = int(np.bitwise_count((packed ^ packed >> 1) & 0x7F).sum())
    if changes * _SHORT < len(mask) or not frame.num_columns:
        return frame.filter(mask)
    pa = require_extra("pyarrow", "arrow")
    wanted = np.unpackbits(packed, bitorder="little")[mask.offset : mask.offset + len(mask)].view(np.bool_)
    is_batch = isinstance(frame, pa.RecordBatch)
    parts, at = [], 0
    for batch in [frame] if is_batch else frame.to_batches():
        stop = at + batch.num_rows
        index, part = pa.array(np.flatnonzero(wanted[at:stop])), mask[at:stop]
        columns = (
            column.take(index) if pa.types.is_primitive(column.type) else column.filter(part)
            for column in batch.columns
        )
        parts.append(pa.RecordBatch.from_arrays(list(columns), schema=frame.schema))
        at = stop
    return parts[0] if is_batch else pa.Table.from_batches(parts, schema=frame.schema)


def _column(frame: Any, kind: str, name: str) -> Any:
    names = list(frame.schema.names if kind in ("table", "batch") else frame.columns)
    count = names.count(name)
    if count != 1:
        problem = f"{count} columns are called {name!r}" if count else f"no column {name!r}"
        raise UsageError(f"{problem} among {', '.join(map(str, names)) or 'no columns'}")
    return frame.column(name) if kind in ("table", "batch") else frame[name]


def _kind(data: object) -> str:
    """Return which library a frame belongs to, without importing it: a frame's library is already imported."""
    for module, name, kind in (
        ("pyarrow", "Table", "table"),
        ("pyarrow", "RecordBatch", "batch"),
        ("pandas", "DataFrame", "pandas"),
        ("polars", "DataFrame", "polars"),
    ):
        library = sys.modules.get(module)
        if library is not None and isinstance(data, getattr(library, name)):
            return kind
    raise UsageError(f"need a pyarrow Table or RecordBatch, a pandas or a Polars DataFrame, got {type(data).__name__}")
