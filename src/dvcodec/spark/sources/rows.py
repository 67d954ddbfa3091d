"""Windows to Arrow batches, with only the requested columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from dvcodec.core.batch import expand
from dvcodec.core.cursor import Cursor
from dvcodec.core.ragged import ByteStrings, Index, cut_by_weight
from dvcodec.core.vector import read
from dvcodec.spark.columns import binary_array, is_utf8, list_array, range_array, ranges_of, text_array
from dvcodec.spark.sources.batch_verify import Verified, pools, verify_windows
from dvcodec.spark.sources.options import Rows
from dvcodec.spark.sources.read_windows import Window

__all__ = ["MAX_LIST", "batches"]


MAX_LIST = 1 << 20
"""Maximum positions, or ranges, in one row; a vector with more gives several rows."""


def batches(
    windows: Iterable[Window], schema: pa.Schema, *, content: bool, verify: bool, rows: Rows = "none"
) -> Iterator[pa.RecordBatch]:
    """Yield windows as batches of a schema.

    Args:
        windows: in the order of the rows.
        schema: the columns, in order.
        content: whether the windows have bytes; without them only ranges are known.
        verify: whether to compare CRCs.
        rows: column that ``part`` counts; unused if the schema has neither.
    """
    for pool in pools(windows):
        found = verify_windows(pool, content=content, verify=verify)
        _refuse_names(pool, found)
        yield from _expanded(pool, found, schema, rows)


def _refuse_names(pool: list[Window], found: Verified) -> None:
    """Add an error to vectors whose data file has a name that no column of strings can hold."""
    for i, name in enumerate(name for window in pool for name in window.ranges.data_files):
        if not is_utf8(name):
            found.errors.setdefault(i, f"{name!a:.200}: a data file whose name is not UTF-8")


def _expanded(pool: list[Window], found: Verified, schema: pa.Schema, rows: Rows) -> Iterator[pa.RecordBatch]:
    if not {"part", rows}.intersection(schema.names):
        yield pa.RecordBatch.from_arrays([_column(field, pool, found) for field in schema], schema=schema)
        return
    own = {field.name: _column(field, pool, found) for field in schema if field.name not in ("part", rows)}
    weights = np.where(found.valid, found.cardinality, 0)
    for piece in cut_by_weight(weights, MAX_LIST):
        index = np.arange(piece.start, piece.stop)
        if len(index) == 1 and weights[index[0]] > MAX_LIST:
            lists = _large(found, int(index[0]), rows)
        else:
            lists = iter([_small(found, index, rows)])
        taken = {name: column.take(pa.array(index)) for name, column in own.items()}
        for part, made in enumerate(lists):
            taken["part"] = pa.array(np.full(len(index), part, np.int32))
            taken[rows] = made
            columns = [taken[field.name].cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _small(found: Verified, index: Index, rows: Rows) -> pa.Array:
    """Expand vectors that together have few positions; a corrupt one is null."""
    valid = found.valid[index]
    values, of_valid = expand(found.data, found.starts[index[valid]], found.sizes[index[valid]], verify_checksum=False)
    counts = np.zeros(len(index), np.int64)
    counts[valid] = of_valid
    if rows == "positions":
        return list_array(values, counts, valid)
    ranges, owner = ranges_of(values, np.repeat(np.arange(len(index)), counts))
    return list_array(range_array(ranges), np.bincount(owner, minlength=len(index)), valid)


def _large(found: Verified, i: int, rows: Rows) -> Iterator[pa.Array]:
    """Expand one vector in parts."""
    start = int(found.starts[i])
    cursor = Cursor(found.data[start : start + int(found.sizes[i])])
    loaded = read(cursor, verify_checksum=False).load()
    one = np.ones(1, np.bool_)
    if rows == "positions":
        parts: Iterator[pa.Array] = map(pa.array, loaded.chunks(MAX_LIST))
    else:
        ranges = loaded.ranges()
        parts = (range_array(ranges[start : start + MAX_LIST]) for start in range(0, len(ranges), MAX_LIST))
    for values in parts:
        yield list_array(values, np.full(1, len(values), np.int64), one)


def _column(field: pa.Field, pool: list[Window], found: Verified) -> pa.Array:
    name, valid = field.name, found.valid
    if name in ("container", "format"):
        texts = [window.ranges.path if name == "container" else window.ranges.format for window in pool]
        return text_array(texts).take(pa.array(found.of_window))
    if name == "data_file":
        return text_array([text for window in pool for text in window.ranges.data_files])
    if name in ("offset", "size"):
        columns = [window.ranges.offsets if name == "offset" else window.ranges.lengths for window in pool]
        values = np.concatenate(columns)
        return pa.array(values, mask=values < 0)
    if name in ("cardinality", "min", "max"):
        values = getattr(found, name)
        return pa.array(values, mask=~valid | (values < 0))
    if name == "containers":
        columns = [pa.array(found.mix[:, k].astype(np.int32)) for k in range(3)]
        return pa.StructArray.from_arrays(columns, fields=list(field.type), mask=pa.array(~valid))
    if name == "crc_ok":
        return pa.array(found.crc_ok > 0, mask=found.crc_ok < 0)
    if name == "error":
        texts = [found.errors.get(i) for i in range(len(valid))] if found.errors else [None] * len(valid)
        return text_array(texts)
    return binary_array(ByteStrings.cut(found.data, found.starts, found.sizes), valid=valid)
