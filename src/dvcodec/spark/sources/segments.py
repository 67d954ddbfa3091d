"""Find search segments to read, split large ones and pack small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import InputPartition

from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.ragged import cut_by_weight
from dvcodec.io import Storage
from dvcodec.io.paths import split
from dvcodec.io.target import is_local
from dvcodec.ops.layout import Part, layout
from dvcodec.spark.sources import storage
from dvcodec.spark.sources.options import OPEN_COST_BYTES, REMOTE_OPEN_COST_BYTES, Options, StoreValues
from dvcodec.zap import Segment
from dvcodec.zap.columns import SCHEMAS

__all__ = ["SegmentOptions", "SegmentPart", "SegmentShare", "plan", "plan_segment", "shares"]

PARTITION_BYTES = 1 << 27
PACKED_BYTES = 8 << 20
"""Bytes of small segments for one task, each with the cost of opening it; decoding them takes seconds."""
_AT_ONCE = 16
"""Large segments opened at once: each remote one is several round trips."""
_WEIGHTS = {
    "terms": (Part.DICTIONARY,),
    "postings": (Part.POSTINGS, Part.DICTIONARY),
    "locations": (Part.POSTINGS, Part.DICTIONARY),
    "doc_values": (Part.DOC_VALUES,),
}
"""Tables that can be split between fields, and the parts of a field that they read."""


@dataclass(frozen=True, slots=True)
class SegmentOptions:
    """Options of a read; see `dvcodec.spark.sources.zap`.

    Attributes:
        paths: as the user gave them.
        table: a key of `dvcodec.zap.columns.SCHEMAS`.
        fields: names of fields; None: all.
        part_bytes: a larger segment is split into parts of about this size.
        verify_checksum: whether CRCs are compared.
        storage_options: how stores are reached.
        push_filters: whether the reader accepts pushed filters.
    """

    paths: tuple[str, ...]
    table: str
    fields: tuple[str, ...] | None = None
    part_bytes: int = PARTITION_BYTES
    verify_checksum: bool = True
    storage_options: StoreValues = field(default=(), repr=False)
    push_filters: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SegmentOptions:
        """Read the options of a ``DataFrameReader``; names are not case-sensitive.

        Raises:
            UsageError: an unknown option or value, or no table.
        """
        given = Options(options)
        table = given.choice("table", tuple(SCHEMAS), "")
        if not table:
            raise UsageError(f"option table: expected one of {', '.join(SCHEMAS)}")
        parsed = cls(
            given.paths(),
            table,
            given.distinct("fields"),
            given.size("partition-bytes", PARTITION_BYTES),
            given.flag("verify-checksum", default=True),
            given.storage(),
            given.flag("push-filters", default=False),
        )
        given.expect_all_known()
        return parsed


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """A segment, or a part of it.

    Attributes:
        path: the segment.
        fields: names of the fields; None: all that are requested.
        docs: first document, and the one after the last; None: all.
        size: bytes of the segment; negative if unknown.
    """

    path: str
    fields: tuple[str, ...] | None = None
    docs: tuple[int, int] | None = None
    size: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class SegmentShare(InputPartition):
    """The parts of segments that one task reads, in order."""

    parts: tuple[SegmentPart, ...]


def shares(parts: Sequence[SegmentPart], options: SegmentOptions) -> list[SegmentShare]:
    """Distribute parts among tasks: adjacent small segments together, each part of a large one by itself."""
    costs = [_cost(part, options) for part in parts]
    most = min(PACKED_BYTES, options.part_bytes)
    return [SegmentShare(tuple(parts[one])) for one in cut_by_weight(np.array(costs, np.int64), most)]


def _cost(part: SegmentPart, options: SegmentOptions) -> int:
    if part.fields is not None or part.docs is not None:
        return options.part_bytes + PACKED_BYTES
    return max(part.size, 0) + (OPEN_COST_BYTES if is_local(part.path) else REMOTE_OPEN_COST_BYTES)


def plan(options: SegmentOptions) -> list[SegmentPart]:
    """Find the segments and split the large ones. The same files give the same parts in the same order.

    Raises:
        UsageError: no path, or a path without segments.
        OSError: a folder or file that cannot be read.
    """
    if not options.paths:
        raise UsageError("zap needs a path: load(path)")
    found: dict[str, int] = {}
    stores = Storage(dict(options.storage_options))
    for path, files in zip(options.paths, storage.find_all(options.paths, stores), strict=True):
        # An index has other files too.
        entries = [entry for entry in files.files if not entry.listed or split(entry.path)[1].endswith(".zap")]
        if not entries:
            raise UsageError(f"{path}: no segments (*.zap)")
        found.update((entry.path, entry.size) for entry in entries)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        parts = pool.map(lambda entry: plan_segment(entry[0], entry[1], options, stores), found.items())
        return [part for some in parts for part in some]


def plan_segment(path: str, size: int, options: SegmentOptions, stores: Storage | None = None) -> list[SegmentPart]:
    """Cut a segment into parts; one that fits in a single part is not even opened.

    In sequence, the parts have the rows of the segment in its order.

    Args:
        path: the segment.
        size: its size in bytes.
        options: what to read; fields and documents are never split.
        stores: opens it; None: a new one.

    Raises:
        OSError: it cannot be opened. (The task that reads it reports corrupt bytes.)
    """
    whole = [SegmentPart(path, size=size)]
    if size <= options.part_bytes or options.table == "fields":
        return whole
    try:
        reached = stores or Storage(dict(options.storage_options))
        with Segment.open(path, verify_checksum=False, storage_options=reached) as segment:
            if options.table == "stored":
                count = max(-(-segment.footer.stored_index // options.part_bytes), 1)
                bounds = sorted({segment.num_docs * i // count for i in range(count + 1)})
                return [SegmentPart(path, None, part, size) for part in pairwise(bounds)] or whole
            names, weights = _field_weights(segment, options.table, options.fields)
    except DecodeError:
        return whole
    parts = cut_by_weight(weights, options.part_bytes)
    return [SegmentPart(path, tuple(names[part]), None, size) for part in parts] or whole


def _field_weights(segment: Segment, table: str, fields: tuple[str, ...] | None) -> tuple[list[str], NDArray[np.int64]]:
    """Return the fields to read, in their order, and the bytes of each."""
    costs = {info.name: 0 for info in segment.fields}
    for span in layout(segment):
        if span.field is not None and span.part in _WEIGHTS[table]:
            costs[span.field] += span.size
    names = list(costs) if fields is None else [name for name in fields if name in costs]
    return names, np.array([costs[name] for name in names], np.int64)
