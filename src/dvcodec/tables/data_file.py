"""Data files by format: Parquet and ORC, with rows by their physical position."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dvcodec.core.errors import Unsupported
from dvcodec.core.extras import pa, pq
from dvcodec.io import Storage
from dvcodec.io.orc import OrcFile, open_orc
from dvcodec.tables.bounds import RowGroupFilter
from dvcodec.tables.model import Part
from dvcodec.tables.parquet import open_parquet, physical_batches
from dvcodec.tables.row_groups import skipped_groups
from dvcodec.tables.schema_evolution import Evolution

__all__ = ["FILE_FORMATS", "OpenFile", "open_data_file"]

FILE_FORMATS = ("parquet", "orc")


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A data file that is open.

    Attributes:
        schema: its columns.
        rows: total rows.
        read: takes names, a number of rows, and row groups to skip, and yields batches of at most that many rows,
            each with the physical position of its first row.
        skipped: see `skipped_groups`; an ORC file is one group.
        has_int96: whether it has times of 96 bits, which do not say whether they have a zone.
    """

    schema: pa.Schema
    rows: int
    read: Callable[[Sequence[str], int, Collection[int]], Iterator[tuple[int, pa.RecordBatch]]]
    skipped: Callable[[Evolution, RowGroupFilter | None, Part], Collection[int]]
    has_int96: bool = False


@contextmanager
def open_data_file(location: str, storage: Storage, file_format: str, *, int96_unit: str = "us") -> Iterator[OpenFile]:
    """Open a data file.

    Args:
        location: path or URL.
        storage: opens it.
        file_format: one of `FILE_FORMATS`.
        int96_unit: unit in which times of 96 bits in Parquet are read. As ``ns``, those out of range are refused.

    Raises:
        MissingExtra: pyarrow is not installed.
        NotCanonical: it is damaged.
        Unsupported: another format.
        OSError: it cannot be read.
    """
    if file_format == "parquet":
        with open_parquet(location, storage, int96_unit=int96_unit) as file:
            leaves = (file.schema.column(i) for i in range(len(file.schema)))
            wide = {leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
            checked = wide if int96_unit == "ns" else ()
            yield OpenFile(
                file.schema_arrow,
                file.metadata.num_rows,
                lambda *wanted: _parquet_batches(file, location, storage, checked, *wanted),
                lambda *wanted: skipped_groups(file, *wanted),
                bool(wide),
            )
    elif file_format == "orc":
        with storage.open(location) as source, open_orc(source) as orc:
            yield OpenFile(
                orc.schema,
                orc.rows,
                lambda names, batch_rows, skip: iter(()) if skip else _orc_batches(orc, names, batch_rows),
                lambda _evolution, _wanted, part: () if part.has(0, orc.rows) else (0,),
            )
    else:
        raise Unsupported("file format", source=location, expected=" or ".join(FILE_FORMATS), actual=file_format)


def _parquet_batches(
    file: pq.ParquetFile,
    location: str,
    storage: Storage,
    checked: Collection[str],
    names: Sequence[str],
    batch_rows: int,
    skip: Collection[int],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches; times of 96 bits in the columns to check are refused if nanoseconds do not hold them."""
    times = [name for name in names if name in checked]
    batches = physical_batches(file, names, batch_rows=batch_rows, skip=skip)
    if not times:
        yield from batches
        return
    with open_parquet(location, storage) as coarse:
        others = physical_batches(coarse, times, batch_rows=batch_rows, skip=skip)
        for (start, batch), (_, other) in zip(batches, others, strict=True):
            for name in times:
                _check_times(other.column(name), batch.column(name).type, location, name)
            yield start, batch


def _check_times(microseconds: pa.Array, nanoseconds: pa.DataType, location: str, name: str) -> None:
    try:
        microseconds.cast(nanoseconds)
    except pa.ArrowInvalid as err:
        message = str(err).partition("\n")[0]
        expected = "times of the years 1678 to 2261"
        raise Unsupported(f"column {name:.80}", source=location, expected=expected, actual=message) from None


def _orc_batches(file: OrcFile, names: Sequence[str], batch_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches with the position of their first row."""
    start = 0
    for batch in file.batches(names, batch_rows):
        yield start, batch
        start += batch.num_rows
