"""From windows to Arrow batches: checked together, and nothing made that was not asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core.batch import expand, survey
from dvcodec.core.cursor import Cursor
from dvcodec.core.ragged import ByteStrings, offsets_of
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import read
from dvcodec.ops.sniff import ALLOWED, ContainerKind
from dvcodec.spark.columns import binary_array, pieces
from dvcodec.spark.sources.windows import Outcome, Window

__all__ = ["MAX_LIST", "Surveyed", "batches"]

Index = NDArray[np.int64]

BATCH_BYTES = 1 << 24
BATCH_ROWS = 1 << 15
MAX_LIST = 1 << 20
"""Most positions, or ranges, in one row; a vector with more gives several rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Surveyed:
    """Vectors of several windows, checked; one entry a row.

    Attributes:
        of_window: which window each is of.
        offsets: see `Window`.
        lengths: see `Window`.
        data: bytes of all frames.
        starts: where each frame is in `data`.
        sizes: bytes of each frame in `data`; 0 where it is not sound.
        cardinality: rows.
        min: lowest position, -1 for none.
        max: highest position, -1 for none.
        mix: int64[n, 3], containers of each kind.
        crc_ok: 1, 0, or -1 for unknown.
        errors: what is wrong, by index.
    """

    of_window: Index
    offsets: Index
    lengths: Index
    data: NDArray[np.uint8]
    starts: Index
    sizes: Index
    cardinality: Index
    min: Index
    max: Index
    mix: Index
    crc_ok: Index
    errors: dict[int, str]

    @property
    def sound(self) -> NDArray[np.bool_]:
        """Whether each has no error."""
        sound = np.ones(len(self.offsets), np.bool_)
        sound[list(self.errors)] = False
        return sound


def batches(windows: Iterable[Window], schema: pa.Schema, *, content: bool, verify: bool) -> Iterator[pa.RecordBatch]:
    """Turn windows into batches of a schema.

    Args:
        windows: in the order in which the rows are to come.
        schema: what columns, and in which order; ``positions`` or ``ranges`` expands the vectors.
        content: whether the windows have their bytes: without, only where vectors are can be told.
        verify: whether CRCs are checked.
    """
    for pool in _pools(windows):
        surveyed = _surveyed(pool, content=content, verify=verify)
        yield from _expanded(pool, surveyed, schema)


def _pools(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Put windows together until there is enough to do at once: a folder may hold a hundred thousand files."""
    pool: list[Window] = []
    weight = rows = 0
    for window in windows:
        if pool and (weight + len(window.data) > BATCH_BYTES or rows + len(window.offsets) > BATCH_ROWS):
            yield pool
            pool, weight, rows = [], 0, 0
        pool.append(window)
        weight += len(window.data)
        rows += len(window.offsets)
    if pool:
        yield pool


def _surveyed(pool: list[Window], *, content: bool, verify: bool) -> Surveyed:
    counts = np.array([len(window.offsets) for window in pool], np.int64)
    of_window = np.repeat(np.arange(len(pool)), counts)
    offsets = np.concatenate([window.offsets for window in pool])
    lengths = np.concatenate([window.lengths for window in pool])
    n = len(offsets)
    none = np.zeros(n, np.int64)
    if not content:
        errors = _known_errors(pool, offsets_of(counts))
        empty = np.zeros(0, np.uint8)
        unknown = none - 1
        return Surveyed(
            of_window,
            offsets,
            lengths,
            empty,
            none,
            none,
            none,
            unknown,
            unknown,
            np.zeros((n, 3), np.int64),
            unknown,
            errors,
        )
    filled = [window.data for window in pool if len(window.data)]
    data = filled[0] if len(filled) == 1 else np.concatenate(filled) if filled else np.zeros(0, np.uint8)
    places = offsets_of(np.array([len(window.data) for window in pool], np.int64))[:-1]
    starts = np.concatenate([window.starts for window in pool]) + places[of_window]
    sizes = np.concatenate([window.sizes for window in pool])
    result = Surveyed(
        of_window,
        offsets,
        lengths,
        data,
        starts,
        sizes,
        none,
        none - 1,
        none - 1,
        np.zeros((n, 3), np.int64),
        np.full(n, -1, np.int64),
        {},
    )
    known = _put_outcomes(pool, offsets_of(counts), result)
    kinds: dict[ContainerKind, list[int]] = {}
    for i, window in enumerate(pool):
        if window.kind is not None:
            kinds.setdefault(window.kind, []).append(i)
    promised = np.concatenate([window.promised for window in pool])
    for kind, members in kinds.items():
        chosen = ~known if len(kinds) == 1 else ~known & np.isin(of_window, members)
        index = np.flatnonzero(chosen)
        if len(index):
            _put_survey(pool, result, places, index, promised, kind, verify=verify)
    result.sizes[~result.sound] = 0
    return result


def _known_errors(pool: list[Window], first: Index) -> dict[int, str]:
    return {
        int(first[w]) + i: outcome.error
        for w, window in enumerate(pool)
        for i, outcome in window.outcomes.items()
        if outcome.error is not None
    }


def _put_outcomes(pool: list[Window], first: Index, result: Surveyed) -> NDArray[np.bool_]:
    known = np.zeros(len(result.offsets), np.bool_)
    for w, window in enumerate(pool):
        for i, outcome in window.outcomes.items():
            at = int(first[w]) + i
            known[at] = True
            _put_outcome(result, at, outcome)
    return known


def _put_outcome(result: Surveyed, at: int, outcome: Outcome) -> None:
    result.cardinality[at], result.min[at], result.max[at] = outcome.cardinality, outcome.min, outcome.max
    result.mix[at] = outcome.mix
    result.crc_ok[at] = -1 if outcome.crc_ok is None else outcome.crc_ok
    if outcome.error is not None:
        result.errors[at] = outcome.error


def _put_survey(
    pool: list[Window],
    result: Surveyed,
    places: Index,
    index: Index,
    promised: Index,
    kind: ContainerKind,
    *,
    verify: bool,
) -> None:
    found = survey(
        result.data,
        result.starts[index],
        result.sizes[index],
        allowed=ALLOWED[kind],
        cardinalities=promised[index],
        verify_checksum=verify,
    )
    for name in ("cardinality", "min", "max", "mix"):
        getattr(result, name)[index] = getattr(found, name)
    if verify:
        result.crc_ok[index] = found.crc_ok
    for i, error in found.errors.items():
        at = int(index[i])
        of = int(result.of_window[at])
        error.source = pool[of].name
        if error.offset is not None:  # counted from the beginning of all windows; people look it up in the file
            error.offset += pool[of].base - int(places[of])
        result.errors[at] = str(error)


# ---------------------------------------------------------------------- columns


def _expanded(pool: list[Window], found: Surveyed, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    wide = [name for name in ("positions", "ranges") if name in schema.names]
    if not wide and "part" not in schema.names:
        yield pa.RecordBatch.from_arrays([_column(field, pool, found) for field in schema], schema=schema)
        return
    own = {
        field.name: _column(field, pool, found) for field in schema if field.name not in ("part", "positions", "ranges")
    }
    weights = np.where(found.sound, found.cardinality, 0)
    for piece in pieces(weights, MAX_LIST):
        index = np.arange(piece.start, piece.stop)
        if len(index) == 1 and weights[index[0]] > MAX_LIST:
            lists = _large(found, int(index[0]), wide)
        else:
            lists = iter([_small(found, index, wide, schema)])
        for part, made in enumerate(lists):
            made["part"] = pa.array(np.full(len(index), part, np.int32))
            taken = {name: column.take(pa.array(index)) for name, column in own.items()}
            columns = [
                taken[name] if name in taken else made[name].cast(schema.field(name).type) for name in schema.names
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _small(found: Surveyed, index: Index, wide: list[str], schema: pa.Schema) -> dict[str, pa.Array]:
    """Expand vectors that together have few positions; one that is not sound has a null."""
    del schema
    sound = found.sound[index]
    values, of_sound = expand(found.data, found.starts[index[sound]], found.sizes[index[sound]], verify_checksum=False)
    counts = np.zeros(len(index), np.int64)
    counts[sound] = of_sound
    made = {}
    if "positions" in wide:
        made["positions"] = _lists(pa.array(values), counts, sound)
    if "ranges" in wide:
        owner = np.repeat(np.arange(len(index)), counts)
        heads = np.flatnonzero(np.diff(values, prepend=-2) - 1 | np.diff(owner, prepend=-1))
        tails = np.append(heads[1:], len(values))[: len(heads)] - 1
        ranges = np.stack([values[heads], values[tails] + 1], 1)
        made["ranges"] = _lists(_pairs(ranges), np.bincount(owner[heads], minlength=len(index)), sound)
    return made


def _large(found: Surveyed, i: int, wide: list[str]) -> Iterator[dict[str, pa.Array]]:
    """Expand one vector in parts."""
    start = int(found.starts[i])
    cursor = Cursor(found.data[start : start + int(found.sizes[i])])
    rows = read(cursor, verify_checksum=False).load()
    chunks = _chunks(rows) if "positions" in wide else map(_pairs, _range_chunks(rows))
    one = np.ones(1, np.bool_)
    for values in chunks:
        yield {wide[0] if wide else "": _lists(values, np.full(1, len(values), np.int64), one)}


def _chunks(rows: RowSet) -> Iterator[pa.Array]:
    return map(pa.array, rows.chunks(MAX_LIST))


def _range_chunks(rows: RowSet) -> Iterator[NDArray[np.int64]]:
    ranges = rows.ranges()
    return (ranges[at : at + MAX_LIST] for at in range(0, len(ranges), MAX_LIST))


def _pairs(ranges: NDArray[np.int64]) -> pa.Array:
    columns = [pa.array(np.ascontiguousarray(ranges[:, k])) for k in (0, 1)]
    return pa.StructArray.from_arrays(columns, ["start", "stop"])


def _lists(values: pa.Array, counts: Index, valid: NDArray[np.bool_]) -> pa.Array:
    offsets = pa.array(offsets_of(counts).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(~valid))


def _column(field: pa.Field, pool: list[Window], found: Surveyed) -> pa.Array:
    name, sound = field.name, found.sound
    if name in ("container", "format"):
        texts = pa.array([window.path if name == "container" else window.format for window in pool], pa.string())
        return texts.take(pa.array(found.of_window))
    if name == "data_file":
        return pa.array([text for window in pool for text in window.data_files], pa.string())
    if name in ("offset", "size"):
        values = found.offsets if name == "offset" else found.lengths
        return pa.array(values, mask=values < 0)
    if name in ("cardinality", "min", "max"):
        values = getattr(found, name)
        return pa.array(values, mask=~sound | (values < 0))
    if name == "containers":
        columns = [pa.array(found.mix[:, k].astype(np.int32)) for k in range(3)]
        return pa.StructArray.from_arrays(columns, fields=list(field.type), mask=pa.array(~sound))
    if name == "crc_ok":
        return pa.array(found.crc_ok > 0, mask=found.crc_ok < 0)
    if name == "error":
        texts = [found.errors.get(i) for i in range(len(sound))] if found.errors else [None] * len(sound)
        return pa.array(texts, pa.string())
    return binary_array(ByteStrings.cut(found.data, found.starts, found.sizes), valid=sound)
