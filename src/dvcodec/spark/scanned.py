"""Rows as one number each: a hash of the data file, and the position in it.

Where the data files are known before the job, their hashes can be shown to be distinct on the driver, and a row crosses
from the JVM to Python as one long, without the path. Only the file of each vector is looked up by its hash. Spark lists
the files of a scan (``inputFiles``); those that a column names take a job of their own.
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

__all__ = ["CHANGED", "MOST_FILES", "POSITION_BITS", "UNLISTED", "KnownFiles", "packed"]

MOST_FILES = 20_000
"""More names are not shipped to every worker, and would hardly have distinct hashes of 32 bits."""
CHANGED = "the rows named other data files when they were computed again: strategy 'partial' computes them once"
UNLISTED = "rows come from files that inputFiles() did not list, perhaps added since: create the DataFrame again"
POSITION_BITS = 32
_FEW = 32
"""With fewer consecutive rows of a file than this on average, sorting pays: fewer vectors are encoded and merged."""


def packed(uri: Column, row: Column) -> Column:
    """Return the hash of the file and the position in one long.

    The CRC is the fastest of Spark's hashes for strings as long as paths.

    Args:
        uri: ``_metadata.file_path``, or the name of the data file; null in the result if it is null.
        row: ``_metadata.row_index``, or the position. One that is null, negative or above 2**32 - 1 fails the job.
    """
    key = sf.shiftleft(sf.crc32(uri.cast("binary")), POSITION_BITS).bitwiseOR(row)
    wrong = sf.when(row.isNull(), sf.lit("a row has no position")).otherwise(
        sf.concat(
            sf.lit("position "),
            row.cast("string"),
            sf.lit(" is negative, or has more than 32 bits: strategy 'partial' takes up to 63"),
        )
    )
    refused = sf.raise_error(wrong).cast("long")
    return sf.when(sf.shiftright(row, POSITION_BITS) == 0, key).otherwise(refused).alias("key")


@dataclass(frozen=True, slots=True, eq=False)
class KnownFiles:
    """Data files whose hashes are distinct; a call encodes rows of them as vectors.

    Attributes:
        hashes: uint32, ascending, all different.
        names: the data file of each, in plain text.
        unknown: the error if a row is of another file.
    """

    hashes: NDArray[np.uint32]
    names: pa.Array
    unknown: str

    @classmethod
    def scanned(cls, uris: list[str]) -> KnownFiles | None:
        """Return the files of ``df.inputFiles()``; None if they are too many, or two have the same hash."""
        if len(uris) > MOST_FILES:
            return None
        spelled = list(dict.fromkeys(map(file_path_of, uris)))
        return cls._of(spelled, list(map(data_file_of, spelled)), UNLISTED)

    @classmethod
    def named(cls, names: list[str]) -> KnownFiles | None:
        """Return the files that a column names; None if there are none or too many, or two have the same hash."""
        return cls._of(names, names, CHANGED) if 0 < len(names) <= MOST_FILES else None

    @classmethod
    def _of(cls, hashed: list[str], names: list[str], unknown: str) -> KnownFiles | None:
        hashes = np.array([zlib.crc32(name.encode(errors="surrogatepass")) for name in hashed], np.uint32)
        order = np.argsort(hashes)
        if (np.diff(hashes[order]) == 0).any():
            return None
        return cls(hashes[order], pa.array(names, pa.string()).take(pa.array(order)), unknown)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode rows of `packed` as vectors; a data file may be repeated.

        Raises:
            UsageError: rows of other files, or of none.
        """
        chunk: list[NDArray[np.uint64]] = []
        rows = 0
        for rows_of in batches:
            if rows_of.column(0).null_count:
                raise UsageError(f"{rows_of.column(0).null_count} rows name no data file")
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
            files = keys >> np.uint64(POSITION_BITS)
            heads = np.flatnonzero(np.append(True, files[1:] != files[:-1]))
        hashes = (keys[heads] >> np.uint64(POSITION_BITS)).astype(np.uint32)
        index = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        if (self.hashes[index] != hashes).any():
            raise UsageError(self.unknown)
        positions = (keys & np.uint64((1 << POSITION_BITS) - 1)).view(np.int64)
        counts = np.diff(heads, append=len(keys))
        del keys
        yield from vector_batches(self.names.take(pa.array(index)), counts, batch.encode(positions, counts))


def _scan_order(keys: NDArray[np.uint64]) -> NDArray[np.int64] | None:
    """Return where each file begins if rows come file by file and ascend in each, else None.

    A scan returns its rows in that order. Sorting them, which hashes would need, costs 15 times the encoding.
    """
    new_file = (keys[1:] ^ keys[:-1]) >> np.uint64(POSITION_BITS) != 0
    heads = np.flatnonzero(np.append(True, new_file))
    if len(heads) * _FEW > len(keys) or not ((keys[1:] > keys[:-1]) | new_file).all():
        return None
    return heads
