"""Position delete files of v2, in any of Iceberg's three formats.

Specification: Iceberg table spec, "Position Delete Files": ``file_path`` string (field id 2147483546), ``pos`` long
(2147483545). The specification fixes both names and ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from dvcodec.core.errors import CardinalityMismatch, Unsupported
from dvcodec.core.extras import pa
from dvcodec.core.rowset import RowSet
from dvcodec.iceberg.position_deletes import FILE_PATH, POS, check_columns, data_errors, vectors_from_arrow
from dvcodec.io import Storage
from dvcodec.io.orc import open_orc
from dvcodec.tables.avro_fields import AvroColumn, open_avro, select
from dvcodec.tables.iceberg.manifests import FILE_PATH_ID
from dvcodec.tables.parquet import open_metadata, physical_batches

__all__ = ["PositionDeletes", "read_deletes"]

POS_ID = 2147483545
_BATCH_ROWS = 1 << 20
_BATCH_RECORDS = 1 << 16
_AVRO = (
    AvroColumn(FILE_PATH, FILE_PATH_ID, ("string",), required=True),
    AvroColumn(POS, POS_ID, ("long", "int"), required=True),
)


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """Contents of a position delete file.

    Attributes:
        rows: deleted rows by data file, as spelled in the file.
        count: rows of the file, including duplicates.
    """

    rows: Mapping[str, RowSet]
    count: int

    @property
    def cost(self) -> int:
        """Approximate bytes of memory: two per scattered row, more per data file."""
        return 2 * self.count + 512 * len(self.rows)


def read_deletes(location: str, file_format: str, count: int, storage: Storage) -> PositionDeletes:
    """Read a position delete file; memory is bounded by a batch and the row sets.

    Args:
        location: path or URL.
        file_format: ``parquet``, ``avro`` or ``orc``.
        count: rows as recorded.
        storage: opens it.

    Raises:
        NotCanonical: not such a file, one without the two columns, or one with a null or a negative position in them.
        CardinalityMismatch: its row count differs from the recorded one.
        Unsupported: another format.
        OSError: it cannot be read.
    """
    if file_format not in _READERS:
        known = ", ".join(_READERS)
        raise Unsupported("format of position deletes", source=location, expected=known, actual=file_format)
    found = 0

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal found
        for batch in batches:
            found += batch.num_rows
            yield batch

    with data_errors(location), _READERS[file_format](location, storage) as batches:
        rows = vectors_from_arrow(counted(batches))
    if found != count:
        raise CardinalityMismatch(
            "record_count", source=location, expected=f"{count} (manifest)", actual=f"{found} rows"
        )
    return PositionDeletes(rows, count)


_Reader: TypeAlias = "Iterator[Iterator[pa.RecordBatch]]"


@contextmanager
def _parquet(location: str, storage: Storage) -> _Reader:
    with open_metadata(location, storage, dictionary=FILE_PATH) as file:
        check_columns(file.schema_arrow, FILE_PATH, POS)
        yield (batch for _, batch in physical_batches(file, [FILE_PATH, POS], batch_rows=_BATCH_ROWS))


@contextmanager
def _orc(location: str, storage: Storage) -> _Reader:
    with storage.open(location) as source:
        # Like Avro's, and unlike Parquet's, the file is in memory as a whole.
        storage.limits.check("max_metadata_bytes", source.size, location)
        with open_orc(source) as file:
            check_columns(file.schema, FILE_PATH, POS)
            yield file.batches([FILE_PATH, POS], dictionary=FILE_PATH)


@contextmanager
def _avro(location: str, storage: Storage) -> _Reader:
    with open_avro(location, storage) as (file, cursor):
        names = [found.name for found in select(file.schema, _AVRO, "position deletes", cursor).values()]
        records = file.records(by_block=True)

        def batches() -> Iterator[pa.RecordBatch]:
            while chunk := list(islice(records, _BATCH_RECORDS)):
                columns = [pa.array([record[name] for record in chunk]) for name in names]
                yield pa.RecordBatch.from_arrays(columns, [FILE_PATH, POS])

        yield batches()


_READERS: Mapping[str, Callable[[str, Storage], Any]] = {"parquet": _parquet, "avro": _avro, "orc": _orc}
