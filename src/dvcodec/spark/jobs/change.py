"""Compare vectors, and convert them between layouts."""

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
from dvcodec.io.file_key import log_united, undecidable
from dvcodec.spark.columns import BinaryColumn, binary_array, pieces
from dvcodec.spark.paths import decoded_key_column, match_key_column, twin_column
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
"""A number for a vector and a position share 63 bits; larger positions take a slower path."""
_SMALL = 1 << 14
"""Rows of a vector up to which it is processed in bulk."""
_AT_ONCE = 1 << 21
"""Rows expanded at once."""
_BATCH_BYTES = 16 << 20
_HEAD = 20
"""Bytes of a frame before its only bitmap: length, magic, count, key."""
_MAX_32 = 2**31 - 1
_WRAPS = {"iceberg": "puffin", "delta": "delta", "paimon64": "delta", "paimon32": "paimon"}
"""Container kind of such frames (`dvcodec.ContainerKind`)."""


def diff(old: DataFrame, new: DataFrame) -> DataFrame:
    """Return what changed between two states of a table, one row per data file that differs.

    Frames with the same bytes are equal and are not read. A data file without a vector has no deleted row.
    Spellings of one data file (``/x`` and ``file:/x``, ``s3://`` and ``s3a://``, ..) are one; a difference
    in spelling alone is ignored.

    Args:
        old: vectors (``data_file``, ``dv``), one row a data file. All its files are spelled in one way: ``a b`` and
            ``a%20b`` are two files there.
        new: likewise.

    Returns:
        ``data_file``, as `old` spells it where it has it; ``added`` and ``restored``, the vectors (perhaps empty ones)
        of rows that are deleted in `new` only and in `old` only; ``added_rows`` and ``restored_rows``, their numbers.
        Vectors that differ in bytes but not in rows are left out.

    Raises:
        UsageError: a frame without those columns. While it runs: a vector that is null, a repeated data
            file (`merge` merges its vectors), or ``a b`` on one side and ``a%20b`` on the other, which may be the same
            file percent-encoded.
        DecodeError: while it runs: a vector that is compared is corrupt.
    """
    sides = [_side(dvs, name) for dvs, name in ((old, "old"), (new, "new"))]
    # Names of one side are of one spelling: only where each side has one name are two names perhaps the same file.
    old_key, new_key, old_plain, new_plain = map(sf.col, ("old_key", "new_key", "old_plain", "new_plain"))
    encoded = (old_key == new_plain) | (new_key == old_plain) | (old_plain == new_plain)
    single = (sf.col("old_names") == 1) & (sf.col("new_names") == 1)
    same = (old_key == new_key) | (single & encoded)
    both = sides[0].join(sides[1], (sf.col("old_twin") == sf.col("new_twin")) & same, "full_outer")
    suspect = old_key != new_key
    for name in ("old", "new"):
        there = sf.col(f"{name}_count").isNotNull()
        file, dv, count = (sf.col(f"{name}_{what}") for what in ("file", "dv", "count"))
        suspect = sf.coalesce(suspect, sf.lit(False)) | (there & (file.isNull() | dv.isNull() | (count > 1)))
    chosen = both.where(suspect | ~sf.col("old_dv").eqNullSafe(sf.col("new_dv")))
    file = sf.coalesce("old_file", "new_file").alias("data_file")
    wanted = [f"{side}_{what}" for side in ("old", "new") for what in ("dv", "error", "count", "file", "key")]
    return chosen.select(file, *wanted).mapInArrow(_changes, _CHANGES)


def _side(dvs: DataFrame, name: str) -> DataFrame:
    """Select the columns of one side, with the key of its data file and how often that occurs."""
    named = vector_columns(dvs).withColumnRenamed("data_file", "file")
    keyed = named.withColumn("key", match_key_column(sf.col("file")))
    keyed = keyed.withColumns({"plain": decoded_key_column(sf.col("key")), "twin": twin_column(sf.col("key"))})
    keys = sf.collect_list("key").over(Window.partitionBy("twin"))
    counted = keyed.withColumn("keys", keys).withColumns(
        {
            "count": sf.size(sf.filter("keys", lambda key: key == sf.col("key"))),
            "names": sf.size(sf.array_distinct("keys")),
        }
    )
    chosen = ("file", "key", "plain", "twin", "dv", "error", "count", "names")
    return counted.select(*(sf.col(column).alias(f"{name}_{column}") for column in chosen))


def _changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in batches:
        files = table.column("data_file")
        _check_names(table)
        old, new = (_frames(table, name) for name in ("old", "new"))
        for rows, counts, frames in _differences(old, new):
            if not len(rows):
                continue
            columns = [files.take(pa.array(rows)), *map(binary_array, frames), *map(pa.array, counts)]
            yield pa.record_batch(columns, schema=_SCHEMA)


def _check_names(table: pa.RecordBatch) -> None:
    """Refuse names that may be one data file or two; log which are one in two spellings."""
    files, keys = ([table.column(f"{side}_{what}") for side in ("old", "new")] for what in ("file", "key"))
    other = pc.fill_null(pc.not_equal(*keys), False)
    if pc.any(other).as_py():
        at = other.index(True).as_py()
        old, new = (column[at].as_py() for column in files)
        raise undecidable(old, new) if "%" in keys[0][at].as_py() else undecidable(new, old)
    spelled = table.filter(pc.fill_null(pc.not_equal(*files), False))
    log_united(list(zip(spelled.column("new_file").to_pylist(), spelled.column("old_file").to_pylist(), strict=True)))


def _frames(table: pa.RecordBatch, name: str) -> NamedVectors:
    """Verify the vectors of one side; a data file that is absent has the empty vector."""
    files, frames = table.column("data_file"), table.column(f"{name}_dv")
    counts = table.column(f"{name}_count").to_numpy(zero_copy_only=False)
    often = np.flatnonzero(counts > 1)
    if len(often):
        file, count = files[int(often[0])].as_py(), int(counts[often[0]])
        raise UsageError(f"data file {file!r} has {count} {name} vectors: merge them first")
    absent = table.column(f"{name}_count").is_null()
    frames = pc.if_else(absent, pa.scalar(_EMPTY, pa.binary()), frames)
    return NamedVectors.of(files, frames, table.column(f"{name}_error"))


Difference: TypeAlias = tuple[Index, tuple[Index, Index], tuple[ByteStrings, ByteStrings]]
"""Return the rows of the batch, their numbers of added and restored positions, and the vectors of both."""


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
    """Return the positions of some vectors as ascending numbers that include the vector's code."""
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

    ``iceberg``, ``delta`` and ``paimon64`` share one frame: it is verified and copied; other layouts
    are re-encoded, in the bytes of Java's writers.

    Args:
        dvs: vectors (``data_file``, ``dv``). All other columns are kept as they are, but ``size`` (bytes of the frame)
            and ``format`` (the container that holds such frames), which follow. ``container`` and ``offset`` still say
            where a vector was read.
        to: the format.

    Raises:
        UsageError: an unknown format, or `dvs` without those columns. While it runs: a vector that is null, or a
            position above 2**31 - 1 for ``paimon32``.
        DecodeError: while it runs: a vector is corrupt.
    """
    if to not in TARGETS:
        raise UsageError(f"cannot convert to {to!r}, only to {', '.join(TARGETS)}")
    vector_columns(dvs)
    return dvs.mapInArrow(_Convert(to), dvs.schema)


@dataclass(frozen=True, slots=True)
class _Convert:
    """Replaces vectors by those of a format, and updates the columns that describe them."""

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
    """Return which verified frames have this magic."""
    if not len(column.starts):
        return np.zeros(0, np.bool_)
    found = column.data[column.starts[:, None] + np.arange(4, 8)]
    return np.asarray((found == np.frombuffer(magic.value, np.uint8)).all(axis=1))


def _converted(vectors: NamedVectors, part: slice, known: NDArray[np.bool_], magic: Magic) -> ByteStrings:
    """Return the frames of some vectors, re-encoded where they are of another layout."""
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
