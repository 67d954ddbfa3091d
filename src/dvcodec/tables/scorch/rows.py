"""The stored documents of a segment, one row each, and their columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.extras import pa
from dvcodec.core.ragged import offsets_of
from dvcodec.io import Storage
from dvcodec.io.allowed_locations import hide_values
from dvcodec.tables.model import WHOLE, DataFile, Part, PhysicalRows
from dvcodec.tables.rows.bounds import RowGroupFilter
from dvcodec.tables.rows.columns import chosen
from dvcodec.zap import Edges, Segment

ID, PARENT, STORED = "_id", "_parent", "_stored"


def schema() -> pa.Schema:
    """Return the columns of stored documents, which are the same for every index.

    ``_id`` binary; ``_parent`` int64, the document of the same segment that it is nested in, null for others;
    ``_stored`` list of (field, type, value, array_positions), in stored order, see `zap.SCHEMAS`.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    value = pa.struct(
        [
            pa.field("field", pa.string(), nullable=False),
            pa.field("type", pa.string(), nullable=False),
            pa.field("value", pa.binary(), nullable=False),
            pa.field("array_positions", pa.list_(pa.uint64()), nullable=False),
        ]
    )
    return pa.schema(
        [
            pa.field(ID, pa.binary(), nullable=False),
            pa.field(PARENT, pa.int64()),
            pa.field(STORED, pa.list_(pa.field("item", value, nullable=False)), nullable=False),
        ]
    )


_ALL_VALUES = 1 << 62
"""Values in a batch of `Segment.to_arrow`: batches then end where documents do, and are bounded by bytes."""

_MOST_NAMES = 2**31 - 1
"""Bytes that a column of text may have."""


def read_rows(
    data_file: DataFile,
    storage: Storage,
    dropped: Collection[str],
    columns: Sequence[str] | None,
    *,
    batch_rows: int,
    part: Part = WHOLE,
    wanted: RowGroupFilter | None = None,  # noqa: ARG001  (it has no row groups)
) -> Iterator[PhysicalRows]:
    """Yield the documents of a segment in order, a bounded part of the file at a time.

    Args:
        data_file: the segment.
        storage: opens it.
        dropped: fields whose values are omitted.
        columns: of `schema`, in this order; None = all.
        batch_rows: maximum documents in a batch.
        part: of the segment; all of it is in the first.
        wanted: see `Snapshot.rows`.

    Raises:
        UsageError: no such column.
        DecodeError: the segment is corrupt.
        OSError: it cannot be read.
    """
    whole = schema()
    names = chosen(whole.names, columns, data_file.location)
    if part.number:
        return
    start = 0
    location = data_file.location
    with (
        hide_values(location, storage.home),
        Segment.open(location, limits=storage.limits, storage_options=storage) as segment,
    ):
        hidden = np.array([info.id for info in segment.fields if info.name in dropped], np.int64)
        lengths = np.array([len(info.name.encode()) for info in segment.fields], np.int64)
        for values in segment.to_arrow("stored", batch_rows=_ALL_VALUES):
            _check_names(lengths, values, location)
            batch = _batch(values, start, hidden, segment.edges, whole).select(names)
            for at in range(0, batch.num_rows, batch_rows):
                yield PhysicalRows(start + at, batch.slice(at, batch_rows))
            start += batch.num_rows
    if start != data_file.physical_rows:
        raise NotCanonical(
            "documents of the segment", source=data_file.location, expected=data_file.physical_rows, actual=start
        )


def _check_names(lengths: NDArray[np.int64], values: pa.RecordBatch, location: str) -> None:
    """Check the names of fields, which the segment stores once: a row repeats the name for each value."""
    size = int(lengths[values["field"].indices.to_numpy()].sum())
    if size > _MOST_NAMES:
        expected = f"at most {_MOST_NAMES} bytes for the values of a batch"
        raise LimitExceeded("names of fields", source=location, expected=expected, actual=size)


def _batch(
    values: pa.RecordBatch, first: int, hidden: NDArray[np.int64], edges: Edges, whole: pa.Schema
) -> pa.RecordBatch:
    """Group the values of whole documents, one row each; the first value of a document is its id."""
    owner = values["doc"].to_numpy() - first
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    kept = ~np.isin(values["field"].indices.to_numpy(), hidden)
    kept[heads] = False
    count = len(heads)
    offsets = offsets_of(np.bincount(owner[kept], minlength=count)).astype(np.int32)
    rest = values.filter(pa.array(kept))
    item = whole.field(STORED).type.value_field
    columns = [rest["field"].dictionary_decode(), rest["type"], rest["value"], rest["array_positions"]]
    stored = pa.ListArray.from_arrays(
        pa.array(offsets), pa.StructArray.from_arrays(columns, fields=list(item.type)), type=whole.field(STORED).type
    )
    parents = np.full(count, -1, np.int64)
    inside = slice(*np.searchsorted(edges.children, (first, first + count)))
    parents[edges.children[inside] - first] = edges.parents[inside]
    return pa.RecordBatch.from_arrays(
        [values["value"].take(pa.array(heads)), pa.array(parents, mask=parents < 0), stored], schema=whole
    )
