"""Rows whose data files are mostly known from a sample as one number each: the number of the file, and the position.

The sample's names are broadcast and compared with that of every row, so that a name crosses from the JVM to Python only
if the sample has missed it. The rows are computed once, and a wrong guess costs time, not rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dvcodec.spark.accumulate import RowAccumulator, as_text
from dvcodec.spark.hand_over import short_name

__all__ = ["SampledFiles"]

MOST_FILES = 10_000
"""More names are not sent to every worker."""
_POSITION_BITS = 48
_MIXED = 8
"""Rows of more data files than the sample shows are expected if so many of one data file come together."""
_UNSEEN = 20
"""One row of so many may name a data file that the sample has missed."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledFiles:
    """Names of data files by their numbers; a call encodes rows from `numbered` as vectors.

    Attributes:
        names: strings, all different.
    """

    names: pa.Array

    @classmethod
    def of(cls, sample: pa.ChunkedArray) -> SampledFiles | None:
        """Return the data files of a sample of rows; None if most rows probably have others, or there are too many.

        The sample is the first rows. Where the rows of a data file come together, they say little about the others.

        Raises:
            UsageError: a name is not UTF-8.
        """
        counts = pc.value_counts(sample.drop_null())
        names, each = counts.field("values"), counts.field("counts").to_numpy()
        if not 0 < len(names) <= MOST_FILES or _UNSEEN * int((each == 1).sum()) > len(sample):
            return None
        whole = sample.combine_chunks()
        changes = pc.sum(pc.not_equal(whole[1:], whole[:-1])).as_py() or 0
        return cls(as_text(names)) if _MIXED * changes >= len(sample) or len(names) == 1 else None

    def numbered(self, rows: DataFrame) -> DataFrame:
        """Replace the columns of rows by a number, and the name of the data file if it is not in the sample.

        Args:
            rows: ``data_file`` and ``pos``. A name that is null or too long fails the job; see `short_name`.

        Returns:
            ``key long``: number of the file and position; or only the position where there is a ``name``.
        """
        # One file for each hash: rows of another with the same hash keep their names.
        numbers = {zlib.crc32(name.encode(errors="surrogatepass")): i for i, name in enumerate(self.names.to_pylist())}
        number = pa.array(numbers.values(), pa.int64())
        table = {"hash": pa.array(numbers.keys(), pa.int64()), "known": self.names.take(number), "number": number}
        distinct = rows.sparkSession.createDataFrame(pa.table(table))
        file, pos = sf.col("data_file"), sf.col("pos")
        joined = rows.join(sf.broadcast(distinct), sf.crc32(file.cast("binary")) == sf.col("hash"), "left")
        same = (file == sf.col("known")) & (sf.shiftright(pos, _POSITION_BITS) == 0)
        known = joined.select(file, pos, "number", same.alias("same"))
        return known.select(
            sf.when(sf.col("same"), sf.shiftleft("number", _POSITION_BITS).bitwiseOR(pos)).otherwise(pos).alias("key"),
            sf.when(sf.col("same"), sf.lit(None)).otherwise(short_name(file)).alias("name"),
        )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode rows of `numbered` as vectors; a data file may be repeated.

        Raises:
            UsageError: a row has no position, or a negative one.
        """
        known, others = RowAccumulator(), RowAccumulator()
        for batch in batches:
            rows, names = batch.column(0), batch.column(1)
            if names.null_count < len(names):
                unknown = names.is_valid()
                yield from others.add(names.filter(unknown), rows.filter(unknown))
                rows = rows.filter(names.is_null())
            keys = rows.to_numpy()
            numbers = pa.array((keys >> _POSITION_BITS).astype(np.int32))
            positions = pa.array(keys & ((1 << _POSITION_BITS) - 1))
            yield from known.add(pa.DictionaryArray.from_arrays(numbers, self.names), positions)
        yield from known.flush()
        yield from others.flush()
