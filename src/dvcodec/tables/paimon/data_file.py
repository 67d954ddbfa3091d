"""Data files by format: Parquet and ORC, with rows by their physical position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables.orc import OrcFile, open_orc
from dvcodec.tables.parquet import open_parquet, physical_batches

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["OpenFile", "open_data_file"]


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A data file that is open.

    Attributes:
        columns: top-level names.
        rows: total rows.
        read: takes names and a number of rows, and yields batches of at most that many rows, each with the physical
            position of its first row.
    """

    columns: frozenset[str]
    rows: int
    read: Callable[[Sequence[str], int], Iterator[tuple[int, pa.RecordBatch]]]


@contextmanager
def open_data_file(location: str, storage: Storage) -> Iterator[OpenFile]:
    """Open a data file; its extension determines the format.

    Raises:
        MissingExtra: pyarrow is not installed.
        NotCanonical: it is damaged.
        Unsupported: another format.
        OSError: it cannot be read.
    """
    name = location.rpartition("/")[2]
    extension = name.rpartition(".")[2].lower()
    if extension == "parquet":
        with open_parquet(location, storage, int96_unit="ns") as file:
            columns = frozenset(file.schema_arrow.names)
            yield OpenFile(
                columns, file.metadata.num_rows, lambda *wanted: _parquet_batches(file, location, storage, *wanted)
            )
    elif extension == "orc":
        with storage.open(location) as source, open_orc(source) as orc:
            yield OpenFile(frozenset(orc.schema.names), orc.rows, lambda *wanted: _orc_batches(orc, *wanted))
    else:
        raise Unsupported(f"format of {name}", source=location, expected="parquet or orc", actual=extension)


def _parquet_batches(
    file: pq.ParquetFile, location: str, storage: Storage, names: Sequence[str], batch_rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches; times of 96 bits are nanoseconds, and those out of range for that are refused."""
    leaves = (file.schema.column(i) for i in range(len(file.schema)))
    wide = {leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    times = [name for name in names if name in wide]
    batches = physical_batches(file, names, batch_rows=batch_rows)
    if not times:
        yield from batches
        return
    with open_parquet(location, storage) as coarse:
        others = physical_batches(coarse, times, batch_rows=batch_rows)
        for (start, batch), (_, other) in zip(batches, others, strict=True):
            for name in times:
                _check_times(other.column(name), batch.column(name).type, location, name)
            yield start, batch


def _check_times(microseconds: pa.Array, nanoseconds: pa.DataType, location: str, name: str) -> None:
    import pyarrow as pa  # noqa: PLC0415

    try:
        microseconds.cast(nanoseconds)
    except pa.ArrowInvalid as err:
        message = str(err).partition("\n")[0]
        expected = "times of the years 1678 to 2261"
        raise Unsupported(f"column {name}", source=location, expected=expected, actual=message) from None


def _orc_batches(file: OrcFile, names: Sequence[str], batch_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches with the position of their first row, counted from the rows of the stripes."""
    start = 0
    for batch in file.batches(names, batch_rows):
        yield start, batch
        start += batch.num_rows
    if start != file.rows:
        raise NotCanonical("ORC file", expected=f"{file.rows} rows", actual=f"{start} rows in stripes")
