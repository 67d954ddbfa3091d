"""Rows of a scan as one number each: a hash of the file, and the position in it.

Spark lists the files of a scan before it runs (``inputFiles``). So their hashes can be shown to be distinct on the
driver, and a row crosses from the JVM to Python as one long, without the path. Only the file of each vector is looked
up by its hash.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as sf

from dvcodec.core import batch
from dvcodec.core.errors import UsageError
from dvcodec.spark.accumulate import CHUNK_ROWS, vector_batches
from dvcodec.spark.paths import data_file_of, file_path_of

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["UNLISTED", "URI", "ScannedFiles", "packed", "packed_places"]

URI = "uri"
"""The column of a file as ``_metadata.file_path`` spells it."""
MOST_FILES = 20_000
"""More names are not shipped to every worker, and would hardly have distinct hashes of 32 bits."""
_NAME_CHARS = 1 << 12
"""The maximum of a name: there may be one in each of 100,000 rows of a batch."""
UNLISTED = "rows come from files that inputFiles() did not list, perhaps added since: create the DataFrame again"
_POSITION_BITS = 32
_FEW = 32
"""With fewer consecutive rows of a file than this on average, sorting pays: fewer vectors are encoded and merged."""


def packed(uri: Column, row: Column) -> Column:
    """Return the hash of the file and the position in one long.

    The CRC is the fastest of Spark's hashes for strings as long as paths.

    Args:
        uri: ``_metadata.file_path``.
        row: ``_metadata.row_index``. A position of more than 32 bits fails the job.
    """
    key = sf.shiftleft(sf.crc32(uri.cast("binary")), _POSITION_BITS).bitwiseOR(row)
    refused = sf.raise_error(sf.lit("a position has more than 32 bits: build these vectors with strategy 'partial'"))
    return sf.when(sf.shiftright(row, _POSITION_BITS) == 0, key).otherwise(refused.cast("long")).alias("key")


def packed_places(number: int, start: int, rows: int) -> pa.Array:
    """Return what `packed` does for consecutive rows of a data file that has a number for its hash.

    Raises:
        UsageError: a position has more than 32 bits.
    """
    if start + rows > 1 << _POSITION_BITS:
        raise UsageError(f"row {start + rows - 1} of a data file: positions of more than 32 bits are not searched here")
    return pa.array(np.arange(start, start + rows) + (number << _POSITION_BITS))


@dataclass(frozen=True, slots=True, eq=False)
class ScannedFiles:
    """The files of a scan; a call encodes its rows as vectors.

    Attributes:
        hashes: uint32, ascending, all different.
        names: the data file of each, in plain text.
    """

    hashes: NDArray[np.uint32]
    names: pa.Array

    @classmethod
    def of(cls, uris: list[str]) -> ScannedFiles | None:
        """Return the files of ``df.inputFiles()``; None if they are too many or too long, or two have the same hash."""
        if len(uris) > MOST_FILES or max(map(len, uris), default=0) > _NAME_CHARS:
            return None
        spelled = list(dict.fromkeys(map(file_path_of, uris)))
        hashes = np.array([zlib.crc32(uri.encode()) for uri in spelled], np.uint32)
        order = np.argsort(hashes)
        if (np.diff(hashes[order]) == 0).any():
            return None
        names = pa.array([data_file_of(spelled[i]) for i in order.tolist()], pa.string())
        return cls(hashes[order], names)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode rows of `packed` as vectors; a data file may be repeated.

        Raises:
            UsageError: rows of other files.
        """
        chunk: list[NDArray[np.uint64]] = []
        rows = 0
        for rows_of in batches:
            chunk.append(rows_of.column(0).to_numpy().view(np.uint64))
            rows += len(chunk[-1])
            if rows >= CHUNK_ROWS:
                yield from self._encode(np.concatenate(chunk))
                chunk, rows = [], 0
        if rows:
            yield from self._encode(np.concatenate(chunk))

    def _encode(self, keys: NDArray[np.uint64]) -> Iterator[pa.RecordBatch]:
        heads = _scan_order(keys)
        if heads is None:
            keys.sort()
            new = np.append(True, keys[1:] != keys[:-1])
            keys = keys if new.all() else keys[new]
            files = keys >> np.uint64(_POSITION_BITS)
            heads = np.flatnonzero(np.append(True, files[1:] != files[:-1]))
        hashes = (keys[heads] >> np.uint64(_POSITION_BITS)).astype(np.uint32)
        index = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        if (self.hashes[index] != hashes).any():
            raise UsageError(UNLISTED)
        positions = (keys & np.uint64((1 << _POSITION_BITS) - 1)).view(np.int64)
        counts = np.diff(heads, append=len(keys))
        del keys
        yield from vector_batches(self.names.take(pa.array(index)), counts, batch.encode(positions, counts))


def _scan_order(keys: NDArray[np.uint64]) -> NDArray[np.int64] | None:
    """Return where each file begins if rows come file by file and ascend in each, else None.

    A scan returns its rows in that order. Sorting them, which hashes would need, costs 15 times the encoding.
    """
    new_file = (keys[1:] ^ keys[:-1]) >> np.uint64(_POSITION_BITS) != 0
    heads = np.flatnonzero(np.append(True, new_file))
    if len(heads) * _FEW > len(keys) or not ((keys[1:] > keys[:-1]) | new_file).all():
        return None
    return heads
