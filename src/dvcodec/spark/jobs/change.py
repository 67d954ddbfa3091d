"""Vectors against vectors, and from one layout to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from dvcodec.core import batch, frame, vector
from dvcodec.core.errors import UsageError
from dvcodec.core.frame import Magic
from dvcodec.core.ragged import ByteStrings
from dvcodec.core.rowset import RowSet
from dvcodec.spark.columns import BinaryColumn, binary_array, pieces
from dvcodec.spark.schemas import arrow_schema
from dvcodec.spark.vectors import NamedVectors, vector_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["TARGETS", "convert", "diff"]

Target: TypeAlias = Literal["iceberg", "delta", "paimon64", "paimon32"]
TARGETS: tuple[str, ...] = get_args(Target)
Index = NDArray[np.int64]

_CHANGES = StructType(
    [
        StructField("data_file", StringType()),
        StructField("added", BinaryType()),
        StructField("restored", BinaryType()),
        StructField("added_rows", LongType()),
        StructField("restored_rows", LongType()),
    ]
)
_SCHEMA = arrow_schema(_CHANGES)
_EMPTY = frame.build(Magic.PORTABLE64, vector.encode_payload(RowSet(), Magic.PORTABLE64))
_POSITION_BITS = 40
"""A number for a vector and a position share 63 bits; larger positions are compared the long way."""
_SMALL = 1 << 14
"""Rows of a vector up to which it is worked on together with others."""
_AT_ONCE = 1 << 21
"""Rows that are expanded at once."""
_BATCH_BYTES = 16 << 20
_HEAD = 20
"""Bytes of a frame before its only bitmap: length, magic, count, key."""
_MAX_32 = 2**31 - 1
_WRAPS = {"iceberg": "puffin", "delta": "delta", "paimon64": "delta", "paimon32": "paimon"}
"""How a container of such frames is called (`dvcodec.ContainerKind`)."""


def diff(old: DataFrame, new: DataFrame) -> DataFrame:
    """Return what changed between two states of a table, one row a data file that differs.

    Frames that are the same bytes are the same rows and are not read. A data file without a vector has no deleted row.

    Args:
        old: vectors (``data_file``, ``dv``), one row a data file.
        new: likewise.

    Returns:
        ``data_file``; ``added`` and ``restored``, the vectors (perhaps empty ones) of rows that are deleted in `new`
        only and in `old` only; ``added_rows`` and ``restored_rows``, their numbers. What differs in bytes but not in
        rows is left out.

    Raises:
        UsageError: a frame without those columns. While it runs: a vector that is null, or a data file that comes
            twice (`merge` unites its vectors).
        DecodeError: while it runs: a vector that is compared is not sound.
    """
    sides = [_side(dvs, name) for dvs, name in ((old, "old"), (new, "new"))]
    both = sides[0].join(sides[1], "data_file", "full_outer")
    suspect = sf.lit(False)
    for name in ("old", "new"):
        there = sf.col(f"{name}_count").isNotNull()
        suspect |= there & (sf.col(f"{name}_dv").isNull() | (sf.col(f"{name}_count") > 1))
    suspect |= sf.col("data_file").isNull()
    return both.where(suspect | ~sf.col("old_dv").eqNullSafe(sf.col("new_dv"))).mapInArrow(_changes, _CHANGES)


def _side(dvs: DataFrame, name: str) -> DataFrame:
    count = sf.count(sf.lit(1)).over(Window.partitionBy("data_file"))
    columns = [sf.col("dv").alias(f"{name}_dv"), sf.col("error").alias(f"{name}_error"), count.alias(f"{name}_count")]
    return vector_columns(dvs).select("data_file", *columns)


def _changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in batches:
        files = table.column("data_file")
        old, new = (_frames(table, name) for name in ("old", "new"))
        for rows, counts, frames in _differences(old, new):
            if not len(rows):
                continue
            columns = [files.take(pa.array(rows)), *map(binary_array, frames), *map(pa.array, counts)]
            yield pa.record_batch(columns, schema=_SCHEMA)


def _frames(table: pa.RecordBatch, name: str) -> NamedVectors:
    """Check the vectors of one side; where a data file is not there at all, it has the empty one."""
    files, frames = table.column("data_file"), table.column(f"{name}_dv")
    counts = table.column(f"{name}_count").to_numpy(zero_copy_only=False)
    often = np.flatnonzero(counts > 1)
    if len(often):
        file, count = files[int(often[0])].as_py(), int(counts[often[0]])
        raise UsageError(f"data file {file!r} has {count} {name} vectors: unite them with merge first")
    absent = table.column(f"{name}_count").is_null()
    frames = pc.if_else(absent, pa.scalar(_EMPTY, pa.binary()), frames)
    return NamedVectors.of(files, frames, table.column(f"{name}_error"))


Difference: TypeAlias = tuple[Index, tuple[Index, Index], tuple[ByteStrings, ByteStrings]]
"""Rows of the batch; how many positions were added and restored in each; the vectors of both."""


def _differences(old: NamedVectors, new: NamedVectors) -> Iterator[Difference]:
    sizes = old.found.cardinality + new.found.cardinality
    large = (sizes > _SMALL) | (np.maximum(old.found.max, new.found.max) >> _POSITION_BITS > 0)
    small = np.flatnonzero(~large)
    for part in pieces(sizes[small] + 1, _AT_ONCE):
        chosen = small[part]
        keys = [_keys(side, chosen) for side in (old, new)]
        found = [_without(keys[1], keys[0]), _without(keys[0], keys[1])]
        counts = [np.bincount(left >> _POSITION_BITS, minlength=len(chosen)).astype(np.int64) for left in found]
        differ = np.flatnonzero(counts[0] + counts[1])
        positions = [left & ((1 << _POSITION_BITS) - 1) for left in found]
        frames = [batch.encode(values, count).take(differ) for values, count in zip(positions, counts, strict=True)]
        yield chosen[differ], (counts[0][differ], counts[1][differ]), (frames[0], frames[1])
    for i in np.flatnonzero(large).tolist():
        before, after = old.read(i).load(), new.read(i).load()
        added, restored = after - before, before - after
        if added or restored:
            cards = np.array([len(added)]), np.array([len(restored)])
            yield np.array([i]), cards, (_strings(added), _strings(restored))


def _keys(side: NamedVectors, chosen: Index) -> Index:
    """Return the positions of some vectors as ascending numbers that say of which vector they are."""
    positions, counts = side.expand(chosen)
    return np.asarray(np.repeat(np.arange(len(chosen)) << _POSITION_BITS, counts) | positions)


def _without(keys: Index, others: Index) -> Index:
    """Return the keys that are not among the others; both ascend."""
    if not len(others):
        return keys
    at = np.minimum(np.searchsorted(others, keys), len(others) - 1)
    return np.asarray(keys[others[at] != keys])


def _strings(rows: RowSet) -> ByteStrings:
    return ByteStrings.from_list([_encode(rows, Magic.PORTABLE64)])


def _encode(rows: RowSet, magic: Magic) -> bytes:
    return frame.build(magic, vector.encode_payload(rows, magic))


# ---------------------------------------------------------------------- converting


def convert(dvs: DataFrame, to: Target) -> DataFrame:
    """Return the same vectors in the layout of a format.

    ``iceberg``, ``delta`` and ``paimon64`` are one and the same frame: it is checked whole and copied; other layouts
    are encoded anew, in the bytes of Java's writers.

    Args:
        dvs: vectors (``data_file``, ``dv``). All other columns are kept as they are, but ``size`` (bytes of the frame)
            and ``format`` (the container that holds such frames), which follow. ``container`` and ``offset`` still say
            where a vector was read.
        to: the format.

    Raises:
        UsageError: an unknown format, or `dvs` without those columns. While it runs: a vector that is null, or a
            position above 2**31 - 1 for ``paimon32``.
        DecodeError: while it runs: a vector is not sound.
    """
    if to not in TARGETS:
        raise UsageError(f"cannot convert to {to!r}, only to {', '.join(TARGETS)}")
    vector_columns(dvs)
    return dvs.mapInArrow(_Convert(to), dvs.schema)


@dataclass(frozen=True, slots=True)
class _Convert:
    """Replaces vectors by those of a format, and what their rows say about them."""

    to: Target

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in batches:
            names = table.schema.names
            errors = table.column("error") if "error" in names else None
            vectors = NamedVectors.of(table.column("data_file"), table.column("dv"), errors)
            magic = Magic.PAIMON32 if self.to == "paimon32" else Magic.PORTABLE64
            if magic is Magic.PAIMON32:
                _refuse_far(vectors)
            known = _with_magic(vectors.column, magic)
            for part in pieces(vectors.column.sizes + 64, _BATCH_BYTES):
                rows = table.slice(part.start, part.stop - part.start)
                if known[part].all():
                    frames, sizes = rows.column("dv"), vectors.column.sizes[part]
                else:
                    strings = _converted(vectors, part, known, magic)
                    frames, sizes = binary_array(strings), strings.lengths
                new: dict[str, Any] = {"dv": frames}
                if "size" in names:
                    new["size"] = pa.array(sizes).cast(rows.schema.field("size").type)
                if "format" in names:
                    new["format"] = pa.array([_WRAPS[self.to]] * len(rows), pa.string())
                yield pa.record_batch([new.get(name, rows.column(name)) for name in names], names)


def _refuse_far(vectors: NamedVectors) -> None:
    far = np.flatnonzero(vectors.found.max > _MAX_32)
    if len(far):
        highest = int(vectors.found.max[far[0]])
        raise UsageError(
            f"data file {vectors.files[int(far[0])]!r}: position {highest} does not fit a 32-bit vector "
            f"(at most {_MAX_32}): use paimon64"
        )


def _with_magic(column: BinaryColumn, magic: Magic) -> NDArray[np.bool_]:
    """Tell which frames, checked before, have this magic."""
    if not len(column.starts):
        return np.zeros(0, np.bool_)
    found = column.data[column.starts[:, None] + np.arange(4, 8)]
    return np.asarray((found == np.frombuffer(magic.value, np.uint8)).all(axis=1))


def _converted(vectors: NamedVectors, part: slice, known: NDArray[np.bool_], magic: Magic) -> ByteStrings:
    """Return the frames of some vectors, encoded anew where they are of another layout."""
    rows = np.arange(part.start, part.stop)
    frames: list[bytes] = [b""] * len(rows)
    for i in rows[known[part]].tolist():
        frames[i - part.start] = bytes(vectors.column.view(i))
    others = rows[~known[part]]
    large = vectors.found.cardinality[others] > _SMALL
    for i in others[large].tolist():
        frames[i - part.start] = _encode(vectors.read(i).load(), magic)
    small = others[~large]
    for some in pieces(vectors.found.cardinality[small] + 1, _AT_ONCE):
        encoded = batch.encode(*vectors.expand(small[some]))
        for i, data in zip(small[some].tolist(), encoded, strict=True):
            frames[i - part.start] = data if magic is Magic.PORTABLE64 else _narrow(data)
    return ByteStrings.from_list(frames)


def _narrow(data: bytes) -> bytes:
    """Re-frame a canonical 64-bit vector of one bitmap, or of none, as a 32-bit one: the bitmap is the same bytes."""
    bitmap = data[_HEAD:-4]
    return frame.build(Magic.PAIMON32, bitmap) if bitmap else _encode(RowSet(), Magic.PAIMON32)
