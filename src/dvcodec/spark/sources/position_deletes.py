"""Data source ``dvcodec_position_deletes``: Parquet rows of (data file, position), read as partial vectors.

Rows that bypass the JVM cost a fraction of those that it ships to Python: a worker reads whole row groups with pyarrow,
and returns only vectors to Spark. Several tasks may return vectors of one data file:
`dvcodec.spark.jobs.build_vectors` merges them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.iceberg import FILE_PATH, POS, check_columns
from dvcodec.io import Storage
from dvcodec.io.parquet import arrow_damage, column_chunks, parquet_file
from dvcodec.io.target import local_path
from dvcodec.spark.accumulate import RowAccumulator
from dvcodec.spark.columns import VECTORS
from dvcodec.spark.compat import datasource
from dvcodec.spark.sources.files import (
    FileSplit,
    counted,
    evenly,
    fetched_ahead,
    find_all,
    open_cost,
    packed,
)
from dvcodec.spark.sources.options import Options, StoreValues

NAME = "dvcodec_position_deletes"
PARTITION_BYTES = 32 << 20
"""Default bytes of Parquet per task: some millions of rows, about a chunk."""
OPEN_COST = 1 << 18
"""Cost of opening a file, in bytes: many small files are packed together."""
_BATCH_ROWS = 1 << 16
_NAME_BYTES = 8
"""With more stored bytes per row than this, most names are stored themselves, not as numbers of a dictionary."""


class PositionDeleteSource(datasource.DataSource):
    """Parquet files of (data file, position), as vectors: `VECTORS`; data files may repeat.

    Options: ``path`` (or several paths in ``load``), ``file-column`` (``file_path``), ``position-column`` (``pos``),
    ``partition-bytes`` (32 MB), ``storage.<key>`` (see `VectorSource`).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> StructType:
        """Return `VECTORS`."""
        return VECTORS

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        """Return the reader.

        Raises:
            UsageError: another schema than `VECTORS`, an unknown option, or an invalid value.
        """
        if schema != VECTORS:
            raise UsageError(f"{NAME}: expected the schema {VECTORS.simpleString()}, found {schema.simpleString()}")
        given = Options(self.options)
        reader = PositionDeleteReader(
            given.paths(),
            given.text("file-column") or FILE_PATH,
            given.text("position-column") or POS,
            given.size("partition-bytes", PARTITION_BYTES),
            given.storage(),
        )
        given.expect_all_known()
        return reader


@dataclass(frozen=True)
class PositionDeleteReader(datasource.DataSourceReader):
    """Splits files into tasks that read them."""

    paths: Sequence[str]
    file_column: str
    position_column: str
    partition_bytes: int
    storage_options: StoreValues = field(default=(), repr=False)

    def partitions(self) -> Sequence[datasource.InputPartition]:
        """List files, split large ones, pack small ones together."""
        with counted("plan", *self.paths):
            files = [file for one in find_all(self.paths, Storage(dict(self.storage_options))) for file in one.files]
        splits = [part for entry in files for part in evenly(FileSplit.of(entry), self.partition_bytes)]
        opening = max([OPEN_COST, *(open_cost(entry.path) for entry in files)])
        return packed(splits, self.partition_bytes + opening, opening)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Read the row groups of a task's `FilePartition` and yield vectors."""
        with counted("read", *(part.path for part in partition.splits[:1])):
            yield from self._read(partition.splits, Storage(dict(self.storage_options)))

    def _read(self, splits: tuple[FileSplit, ...], stores: Storage) -> Iterator[pa.RecordBatch]:
        accumulator = RowAccumulator()
        for piece in fetched_ahead(splits, stores):
            with _open_parquet(piece, self.file_column, stores) as file:
                check_columns(file.schema_arrow, self.file_column, self.position_column, f"{piece.path}: ")
                count = file.num_row_groups  # as if all had as many bytes: each is in one piece of the file
                groups = [i for i in range(count) if piece.start <= piece.size * i // count < piece.stop]
                columns = [self.file_column, self.position_column]
                if not groups:
                    continue
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False):
                    batch[self.file_column].validate(full=True)  # pyarrow checks neither UTF-8 nor the indices
                    yield from accumulator.add(batch[self.file_column], batch[self.position_column])
        yield from accumulator.flush()


@contextmanager
def _open_parquet(piece: FileSplit, file_column: str, stores: Storage) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; data files are read as a dictionary if they are stored as one.

    Raises:
        DecodeError: the file is corrupt, or the part that the block reads.
    """
    local = local_path(piece.path)
    try:
        with (
            arrow_damage("Parquet file", "a valid footer and pages"),
            stores.open(piece.path, size=piece.size) as source,
            parquet_file(source) as file,
        ):
            names = [file_column] if _has_dictionary(file, file_column) else []
            options: dict[str, Any] = {"metadata": file.metadata, "read_dictionary": names}
            if local is None:
                found = parquet_file(source, pre_buffer=True, **options)
            else:
                found = pq.ParquetFile(local, **options)
            with found:
                yield found
    except DecodeError as err:
        err.source = err.source or piece.path
        raise


def _has_dictionary(file: pq.ParquetFile, column: str) -> bool:
    """Return whether the names of most rows are stored as numbers of a dictionary, by the bytes that they take.

    If not, pyarrow would build a dictionary, which takes five times as long as reading the names.
    """
    chunks = column_chunks(file, [(column,)]).get((column,), ())
    return sum(chunk.size or 0 for chunk in chunks) <= _NAME_BYTES * sum(chunk.values or 0 for chunk in chunks)
