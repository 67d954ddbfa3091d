"""Parquet and ORC files: rows by physical position, as deletion vectors count them.

Row groups that cannot have rows of interest, by the statistics in a Parquet footer, are skipped.

Specification: parquet.thrift, ``Statistics`` and ``ColumnOrder``. Treated as unknown here:

- bounds without a column order that says what they are ordered by, and the deprecated ``min`` and ``max``;
- floats: writers leave NaN out of bounds, or not;
- decimals in fixed bytes: those of Arrow C++ before version 4 are ordered wrongly;
- nested columns, whose nulls are counted otherwise, and columns whose conversion changes their order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any

from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.core.extras import pa, pq, types
from dvcodec.io import Storage
from dvcodec.io.orc import OrcFile, open_orc
from dvcodec.io.parquet import arrow_damage, column_chunks, parquet_file, parquet_metadata
from dvcodec.tables.model import WHOLE, Part
from dvcodec.tables.rows.bounds import ColumnBounds, RowGroupFilter
from dvcodec.tables.rows.schema_evolution import Evolution

_WIDTHS = {"BOOLEAN": 0, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
"""Bytes of a value, by physical type; strings are wider."""


@contextmanager
def open_parquet(location: str, storage: Storage, *, int96_unit: str = "us") -> Iterator[pq.ParquetFile]:
    """Open a Parquet data file by byte ranges.

    Args:
        location: path or URL.
        storage: opens it.
        int96_unit: unit in which timestamps of 96 bits are read; as ``ns``, years beyond 2262 wrap around silently.

    Raises:
        MissingExtra: pyarrow is not installed.
        NotCanonical: it is not a Parquet file, or the part that the block reads is damaged.
        Unsupported: it uses a feature that pyarrow does not support.
        OSError: it cannot be read.
    """
    with _opened(location, storage, parquet_file, coerce_int96_timestamp_unit=int96_unit) as file, file:
        yield file


@contextmanager
def open_metadata(location: str, storage: Storage, *, dictionary: str | None = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file of metadata (a checkpoint, position deletes).

    Args:
        location: path or URL.
        storage: opens it.
        dictionary: column to read as a dictionary, if the file has it.

    Raises:
        DecodeError: see `open_parquet`.
        OSError: it cannot be read.
    """
    with _opened(location, storage, parquet_metadata, dictionary=dictionary) as file, file:
        yield file


@contextmanager
def _opened(location: str, storage: Storage, opener: Callable[..., Any], **options: Any) -> Iterator[Any]:
    with storage.open(location) as source:
        try:
            with arrow_damage("Parquet file", "a readable footer"):
                file = opener(source, limits=storage.limits, **options)
            with arrow_damage("Parquet file", "readable values"):
                yield file
        except DecodeError as err:
            err.source = err.source or location
            raise


def count_rows(location: str, storage: Storage) -> int:
    """Return the row count in the footer of a Parquet file; its pages are not read.

    Args:
        location: path or URL.
        storage: opens it.

    Raises:
        DecodeError: it is not a valid Parquet file.
        MissingExtra: pyarrow is not installed.
        OSError: it cannot be read.
    """
    with open_parquet(location, storage) as file:
        return int(file.metadata.num_rows)


def physical_batches(
    file: pq.ParquetFile, columns: Sequence[str] | None, *, batch_rows: int = 1 << 16, skip: Collection[int] = ()
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each batch with the physical position of its first row.

    The position is counted from the row groups' own row counts, group by group, so that it cannot drift.

    Args:
        file: an open file.
        columns: top-level columns to read, in any order; None = all. Without any, batches have rows but no columns: the
            column of the narrowest type is read, because a footer may claim any number of rows.
        batch_rows: maximum rows in a batch; batches end with row groups.
        skip: numbers of row groups that are skipped.

    Raises:
        NotCanonical: a row group does not have the stated number of rows, or cannot be decoded.
    """
    names = None if columns is None else list(columns)
    start = 0
    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if group in skip:
            start += rows
            continue
        position = start
        batches = _nothing(file, group, batch_rows) if names == [] else _batches(file, group, names, batch_rows)
        with arrow_damage(f"row group {group}", "readable pages"):
            for batch in batches:
                yield position, batch
                position += batch.num_rows
        if position != start + rows:
            raise NotCanonical(f"row group {group}", expected=f"{rows} rows", actual=f"{position - start} rows")
        start = position
    if start != file.metadata.num_rows:
        stated = f"{file.metadata.num_rows} rows (footer)"
        raise NotCanonical("row groups", expected=stated, actual=f"{start} rows")


def _batches(file: pq.ParquetFile, group: int, names: list[str] | None, batch_rows: int) -> Iterator[Any]:
    return file.iter_batches(batch_rows, row_groups=[group], columns=names)  # type: ignore[no-any-return]


def _nothing(file: pq.ParquetFile, group: int, batch_rows: int) -> Iterator[Any]:
    """Yield batches without columns: those of the column of the narrowest type, without it.

    The schema chooses it. pyarrow ends the process where the footer of a row group lacks the sizes of a column.
    """
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    if leaves:
        narrowest = min(leaves, key=lambda leaf: (leaf.max_repetition_level, _WIDTHS.get(leaf.physical_type, 16)))
        for batch in _batches(file, group, [narrowest.path], batch_rows):
            yield batch.select([])


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


_TEXT = 0
_BOUND_WIDTHS = {"INT32": 4, "INT64": 8, "BYTE_ARRAY": _TEXT}
"""Physical types whose bounds are read, and their bytes."""


def skipped_groups(
    file: pq.ParquetFile, evolution: Evolution, wanted: RowGroupFilter | None, part: Part = WHOLE
) -> frozenset[int]:
    """Return the numbers of the row groups that are not in a part of a data file, or that a filter does not want.

    Args:
        file: an open data file.
        evolution: of its columns.
        wanted: the filter, called for the row groups of the part; None = it wants all.
        part: of the data file.
    """
    if wanted is None and part == WHOLE:
        return frozenset()
    counts = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    known = {} if wanted is None else _bounds_of_groups(file, evolution, counts)

    def is_wanted(number: int, start: int) -> bool:
        if not part.has(start, file.metadata.num_rows):
            return False
        bounds = {name: groups[number] for name, groups in known.items()}
        return wanted is None or wanted(start, counts[number], bounds)

    starts = accumulate(counts, initial=0)
    return frozenset(
        number for number, start in zip(range(len(counts)), starts, strict=False) if not is_wanted(number, start)
    )


def _bounds_of_groups(
    file: pq.ParquetFile, evolution: Evolution, counts: Sequence[int]
) -> dict[str, list[ColumnBounds]]:
    """Return what is known of each column in each row group; nothing of columns that are left out."""
    schema = file.schema_arrow
    if len(set(schema.names)) < len(schema.names):
        return {}
    leaves = map(file.schema.column, range(len(file.schema)))
    widths = {leaf.path: _BOUND_WIDTHS.get(leaf.physical_type) for leaf in leaves}
    stored_columns = [(column, stored) for column, stored in evolution.stored if stored.name in widths]
    found = {}
    known = column_chunks(file, [(stored.name,) for _, stored in stored_columns])
    for column, stored in stored_columns:
        chunks = known.get((stored.name,))
        if chunks is not None and stored.name in schema.names:
            kind = schema.field(stored.name).type
            width = widths[stored.name] if _keeps_order(kind, column.type) else None
            lower, upper = (
                _converted([_value(bound, width, kind) for bound in bounds], kind, evolution, column, stored)
                for bounds in ([chunk.low for chunk in chunks], [chunk.high for chunk in chunks])
            )
            found[column.name] = [
                _bounds(low, high, chunk.nulls, rows)
                for low, high, chunk, rows in zip(lower, upper, chunks, counts, strict=True)
            ]
    return found


def _bounds(lower: Any, upper: Any, nulls: int | None, rows: int) -> ColumnBounds:
    if nulls is None or not 0 <= nulls <= rows or not rows:
        return ColumnBounds(lower, upper)
    return ColumnBounds(lower, upper, nulls=nulls > 0, values=nulls < rows, counted=True)


def _value(data: bytes | None, width: int | None, kind: pa.DataType) -> Any:
    """Return a bound as a value of the column's type in the file; None = unknown."""
    if data is None or width is None or (width == _TEXT) != _is_text(kind):
        return None
    if width == _TEXT:
        try:
            return data if types.is_binary(kind) or types.is_large_binary(kind) else data.decode()
        except UnicodeDecodeError:  # cut off within a character
            return None
    if len(data) != width:
        return None
    number = int.from_bytes(data, "little", signed=True)
    return Decimal(number).scaleb(-kind.scale) if types.is_decimal(kind) else number


def _keeps_order(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a type in the file become values of the table in the same order."""
    pairs: tuple[tuple[Any, Any], ...] = (
        (types.is_signed_integer, types.is_signed_integer),
        (types.is_signed_integer, types.is_decimal),
        (types.is_decimal, types.is_decimal),
        (types.is_date32, types.is_date32),
        (types.is_date32, types.is_timestamp),
        (types.is_timestamp, types.is_timestamp),
        (types.is_time, types.is_time),
        (_is_text, _is_text),
    )
    return any(is_stored(kind) and is_wanted(wanted) for is_stored, is_wanted in pairs)


def _is_text(kind: pa.DataType) -> bool:
    kinds = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
    return kind in kinds


def _converted(values: list[Any], kind: pa.DataType, evolution: Evolution, column: Any, stored: Any) -> list[Any]:
    """Return values of the file as scalars of the table's type, None for those that are unknown."""
    if all(value is None for value in values):
        return values
    try:
        whole = pa.types.is_temporal(kind)
        width = pa.int32() if whole and kind.bit_width == 32 else pa.int64()
        array = pa.array(values, width).cast(kind) if whole else pa.array(values, kind)
        found = evolution.convert(array, stored, column, f"statistics of column {column.name}")
    except (DecodeError, pa.ArrowException, OverflowError, ValueError):
        return [None] * len(values)
    return [one if one.is_valid else None for one in found]
