"""Verified vectors of a batch: read, re-encoded in another layout in the bytes of Java's writers, compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dvcodec.core import batch, vector
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.ragged import ByteStrings, Index, cut_by_weight
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Magic, Vector
from dvcodec.io.target import check_data_file
from dvcodec.spark.columns import BinaryColumn, binary_column, texts_of


def vector_columns(dvs: DataFrame) -> DataFrame:
    """Select what a job reads of a vectors DataFrame: ``data_file``, ``dv``, and ``error`` (null if absent).

    Raises:
        UsageError: no such columns.
    """
    missing = {"data_file", "dv"} - set(dvs.columns)
    if missing:
        raise UsageError(f"vectors need the columns data_file and dv: no {' and no '.join(sorted(missing))}")
    error = sf.col("error") if "error" in dvs.columns else sf.lit(None)
    return dvs.select("data_file", "dv", error.cast("string").alias("error"))


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedVectors:
    """Vectors of a batch, all verified.

    Attributes:
        column: the frames; none is null.
        found: results of the verification.
    """

    column: BinaryColumn
    found: batch.Survey

    def read(self, i: int) -> Vector:
        """Walk one verified vector."""
        return vector.read(Cursor(self.column.view(i)), verify_checksum=False)

    def load(self, i: int) -> RowSet:
        """Return one of them as a row set."""
        return self.read(i).load()

    def expand(self, chosen: Index) -> tuple[Index, Index]:
        """Return the positions of some vectors, concatenated, and the count of each."""
        starts, sizes = self.column.starts[chosen], self.column.sizes[chosen]
        return batch.expand(self.column.data, starts, sizes, verify_checksum=False, max_rows=None)

    def keys(self, chosen: Index, codes: Index) -> Index:
        """Return the positions of some of them as sorted numbers ``code << 40 | position``; `codes` ascend."""
        positions, counts = self.expand(chosen)
        return np.asarray(np.repeat(codes << POSITION_BITS, counts) | positions)


@dataclass(frozen=True, slots=True, eq=False)
class NamedVectors(VerifiedVectors):
    """Vectors and their data files, all verified.

    Attributes:
        files: the data file of each.
    """

    files: list[str]

    @classmethod
    def of(
        cls, files: pa.Array, frames: pa.Array, errors: pa.Array | None = None, stated: Index | None = None
    ) -> NamedVectors:
        """Verify the vectors of a batch.

        Args:
            files: strings.
            frames: binary, whole frames.
            errors: strings: why a vector is missing.
            stated: int64, cardinality of each in metadata; -1 if unknown.

        Raises:
            UsageError: a vector without data file, or with one whose name is not UTF-8; a data file without vector.
            DecodeError: the first vector that is corrupt; the message names its data file.
        """
        if files.null_count:
            raise UsageError(f"{files.null_count} vectors name no data file")
        names, column = [str(name) for name in texts_of(files)], binary_column(frames)
        for name in names:
            check_data_file(name)
        if (i := first_true(~column.valid)) is not None:
            why = errors[i].as_py() if errors is not None else None
            raise UsageError(
                f"data file {names[i]!r} has no vector{f' ({why})' if why else ''}: "
                "filter out rows with an error, or repair them"
            )
        found = batch.survey(column.data, column.starts, column.sizes, cardinalities=stated)
        for i, err in sorted(found.errors.items())[:1]:
            raise named(err, names[i], int(column.starts[i]))
        return cls(column, found, names)


def named(err: DecodeError, data_file: str, start: int = 0) -> DecodeError:
    """Add the data file to an error, and make its offset relative to the vector."""
    offset = None if err.offset is None else err.offset - start
    return type(err)(err.what, source=f"vector of {data_file}", offset=offset, expected=err.expected, actual=err.actual)


Target: TypeAlias = Literal["iceberg", "delta", "paimon64", "paimon32"]
MAGICS: dict[Target, Magic] = {
    "iceberg": Magic.PORTABLE64,
    "delta": Magic.PORTABLE64,
    "paimon64": Magic.PORTABLE64,
    "paimon32": Magic.PAIMON32,
}
"""Formats, and the layout in which their vectors are written."""
_MAX_32 = 2**31 - 1
"""Highest position in a 32-bit vector."""
_SMALL = 1 << 14
"""Vectors of at most this many rows are re-encoded together with others."""
_AT_ONCE = 1 << 21
"""Positions expanded at once."""
_BITMAP = 20
"""Bytes of a 64-bit frame before its only bitmap: length, magic, count of bitmaps, key."""


def encode(rows: RowSet, magic: Magic = Magic.PORTABLE64) -> bytes:
    """Return the frame of a row set."""
    return vector.build(magic, *vector.encode_pieces(rows, magic))


EMPTY = encode(RowSet())
"""The frame of a vector without rows."""


def decode(frame: bytes, path: str) -> RowSet:
    """Return the rows of a vector that a task returned.

    Raises:
        DecodeError: it is corrupt.
    """
    try:
        return vector.read(Cursor(memoryview(frame))).load()
    except DecodeError as err:
        err.source = err.source or f"vector of {path}"
        raise


def has_magic(vectors: NamedVectors, magic: Magic) -> NDArray[np.bool_]:
    """Return which vectors have this layout."""
    column = vectors.column
    found = column.data[column.starts[:, None] + np.arange(4, 8)] if len(column.starts) else np.zeros((0, 4), np.uint8)
    return np.asarray((found == np.frombuffer(magic.value, np.uint8)).all(axis=1))


def refuse_far(vectors: NamedVectors, magic: Magic) -> None:
    """Refuse positions that the layout cannot hold.

    Raises:
        UsageError: a position above 2**31 - 1 in 32 bits; the message names the data file.
    """
    far = np.flatnonzero(vectors.found.max > _MAX_32)
    if magic is Magic.PAIMON32 and len(far):
        raise UsageError(
            f"data file {vectors.files[int(far[0])]!r}: position {int(vectors.found.max[far[0]])} does not fit a "
            f"32-bit vector (at most {_MAX_32}): use paimon64"
        )


def reencode(vectors: NamedVectors, index: Index, magic: Magic) -> dict[int, bytes]:
    """Return the frames of some vectors in a layout, by index."""
    frames: dict[int, bytes] = {}
    small = vectors.found.cardinality[index] <= _SMALL
    for i in index[~small].tolist():
        frames[i] = encode(vectors.load(i), magic)
    index = index[small]
    for part in cut_by_weight(vectors.found.cardinality[index] + 1, _AT_ONCE):
        encoded = batch.encode(*vectors.expand(index[part])).to_list()
        if magic is Magic.PAIMON32:
            encoded = list(map(narrow, encoded))
        frames.update(zip(index[part].tolist(), encoded, strict=True))
    return frames


def narrow(data: bytes) -> bytes:
    """Return a canonical 64-bit vector of at most one bitmap as a 32-bit one: the bitmap has the same bytes."""
    bitmap = data[_BITMAP:-4]
    return vector.build(Magic.PAIMON32, bitmap) if bitmap else encode(RowSet(), Magic.PAIMON32)


POSITION_BITS = 40
"""Vector code and position share 63 bits; larger positions take a slower path."""
Difference: TypeAlias = tuple[Index, tuple[Index, Index], tuple[ByteStrings, ByteStrings]]
"""Indices of pairs that differ, their numbers of added and restored positions, and the vectors of both."""


def differences(old: VerifiedVectors, new: VerifiedVectors) -> Iterator[Difference]:
    """Yield the pairs of vectors that differ in rows: rows only in `new` are added, rows only in `old` are restored."""
    sizes = old.found.cardinality + new.found.cardinality
    large = (sizes > _SMALL) | (np.maximum(old.found.max, new.found.max) >> POSITION_BITS > 0)
    small = np.flatnonzero(~large)
    for part in cut_by_weight(sizes[small] + 1, _AT_ONCE):
        chosen = small[part]
        keys = [side.keys(chosen, np.arange(len(chosen))) for side in (old, new)]
        found = [keys[1][~is_in(keys[1], keys[0])], keys[0][~is_in(keys[0], keys[1])]]
        counts = [np.bincount(left >> POSITION_BITS, minlength=len(chosen)).astype(np.int64) for left in found]
        differ = np.flatnonzero(counts[0] + counts[1])
        positions = [left & ((1 << POSITION_BITS) - 1) for left in found]
        frames = [batch.encode(values, count).take(differ) for values, count in zip(positions, counts, strict=True)]
        yield chosen[differ], (counts[0][differ], counts[1][differ]), (frames[0], frames[1])
    for i in np.flatnonzero(large).tolist():
        before, after = old.load(i), new.load(i)
        added, restored = after - before, before - after
        if added or restored:
            cards = np.array([len(added)]), np.array([len(restored)])
            yield (
                np.array([i]),
                cards,
                (ByteStrings.from_list([encode(added)]), ByteStrings.from_list([encode(restored)])),
            )


def is_in(wanted: Index, keys: Index) -> NDArray[np.bool_]:
    """Return which of `wanted` are among `keys`, which ascend."""
    if not len(keys):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(keys[places] == wanted)
