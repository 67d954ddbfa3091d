"""Parquet, ORC and Avro files: rows by physical position, as deletion vectors count them.

Row groups that cannot have rows of interest, by the statistics in a Parquet footer, are skipped.

Specification: parquet.thrift, ``Statistics`` and ``ColumnOrder``. Treated as unknown here:

- bounds without a column order that says what they are ordered by, and the deprecated ``min`` and ``max``;
- floats: writers leave NaN out of bounds, or not;
- decimals in fixed bytes: those of Arrow C++ before version 4 are ordered wrongly;
- nested columns, whose nulls are counted otherwise, and columns whose conversion changes their order.

Avro: Iceberg table spec, appendix A; Paimon's class ``AvroSchemaConverter``, whose files have no field ids. Records are
decoded as they are stored; their logical types come with Arrow, a column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from itertools import accumulate, islice
from typing import Any

import numpy as np

from dvcodec.core.avro import AvroFile
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.core.extras import pa, pq, types
from dvcodec.io import Storage
from dvcodec.io.parquet import arrow_damage, column_chunks, parquet_file, parquet_metadata
from dvcodec.io.workers import OrcFile, open_orc
from dvcodec.tables.metadata.avro_fields import Logical, fields_of, not_null, open_avro
from dvcodec.tables.model import WHOLE, Part
from dvcodec.tables.rows.bounds import ColumnBounds, RowGroupFilter
from dvcodec.tables.rows.columns import FIELD_ID, Evolution, is_text, parts_of

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


FILE_FORMATS = ("parquet", "orc", "avro")


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A data file that is open.

    Attributes:
        schema: its columns.
        rows: total rows.
        read: takes names, a number of rows, and row groups to skip, and yields batches of at most that many rows,
            each with the physical position of its first row.
        skipped: see `skipped_groups`; a file of another format is one group.
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
            yield _one_group(orc.schema, orc.rows, lambda *wanted: _orc_batches(orc, *wanted))
    elif file_format == "avro":
        with _open_avro(location, storage) as avro:
            yield avro
    else:
        raise Unsupported("file format", source=location, expected=" or ".join(FILE_FORMATS), actual=file_format)


def _one_group(
    schema: pa.Schema, rows: int, read: Callable[[Sequence[str], int], Iterator[tuple[int, pa.RecordBatch]]]
) -> OpenFile:
    """Return a file whose rows are one group, which is in the first part."""
    return OpenFile(
        schema,
        rows,
        lambda names, batch_rows, skip: iter(()) if skip else read(names, batch_rows),
        lambda _evolution, _wanted, part: () if part.has(0, rows) else (0,),
    )


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
    known = cache(partial(_bounds_of_groups, file, evolution, counts))

    def is_wanted(number: int, start: int) -> bool:
        if not part.has(start, file.metadata.num_rows):
            return False
        return wanted is None or wanted(start, counts[number], GroupBounds(known, number, evolution))

    starts = accumulate(counts, initial=0)
    return frozenset(
        number for number, start in zip(range(len(counts)), starts, strict=False) if not is_wanted(number, start)
    )


class GroupBounds(Mapping[str, ColumnBounds]):
    """What is known of the columns in a row group, read when it is asked for: not every filter looks at it.

    Attributes:
        evolution: how the columns of the file become those of the table.
    """

    def __init__(
        self, known: Callable[[], Mapping[str, Sequence[ColumnBounds]]], number: int, evolution: Evolution
    ) -> None:
        self._known, self._number, self.evolution = known, number, evolution

    def __getitem__(self, name: str) -> ColumnBounds:
        return self._known()[name][self._number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())


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
    if data is None or width is None or (width == _TEXT) != is_text(kind):
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
        (is_text, is_text),
    )
    return any(is_stored(kind) and is_wanted(wanted) for is_stored, is_wanted in pairs)


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


_DECIMAL_BYTES = 16
_CHUNK_VALUES = 1 << 20
"""Values that are decoded at a time: as Python's objects, a hundred bytes each."""


@contextmanager
def _open_avro(location: str, storage: Storage) -> Iterator[OpenFile]:
    """Open an Avro data file, whose columns have the field ids that it records.

    Raises:
        DecodeError: see `avro_fields.open_avro`.
        Unsupported: a union of several types, or a decimal without a precision.
    """
    with open_avro(location, storage, rows=True) as (file, cursor):
        items = fields_of(file.schema, "Avro schema of a data file", cursor)
        stored = [_field(item["name"], item, item["type"], item["logical"], "field-id", cursor) for item in items]

        def read(names: Sequence[str], batch_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
            return _avro_batches(file, cursor, stored, names, batch_rows)

        yield _one_group(pa.schema([_meant(field) for field in stored]), file.count(), read)


def _avro_batches(
    file: AvroFile, cursor: Cursor, stored: Sequence[pa.Field], names: Sequence[str], batch_rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches with the position of their first row."""
    by_name = {field.name: field for field in stored}
    fields = [by_name[name] for name in names]
    values = sum(map(_values, stored))
    records = file.records(by_block=True)
    most = max(min(batch_rows, _CHUNK_VALUES // max(values, 1)), 1)
    start = 0
    while chunk := list(islice(records, most)):
        columns = []
        for field in fields:
            try:
                column = _with_meaning(pa.array([row[field.name] for row in chunk], field.type), _meant(field).type)
            except (pa.ArrowException, OverflowError, ValueError) as err:
                message = str(err).partition("\n")[0][:200]
                what, expected = f"column {field.name:.80}", f"values of {_meant(field).type!s:.80}"
                raise cursor.error(NotCanonical, what, at=0, expected=expected, actual=message) from None
            columns.append(column)
        yield start, pa.record_batch(columns, list(names)) if names else _without_columns(len(chunk))
        start += len(chunk)


def _values(field: pa.Field) -> int:
    """Return the values of a row in a field, without more items than one of lists and maps."""
    return 1 + sum(map(_values, parts_of(field.type)))


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


_DECIMAL = b"dvcodec.decimal"
"""Metadata of a field of bytes that are a decimal: precision and scale."""


def _field(name: str, item: Any, kind: Any, logical: Logical | None, number: str, cursor: Cursor) -> pa.Field:
    """Return a field as its values are decoded, with its field id.

    Args:
        name: of the field.
        item: what has its id: a field of a record, an array or a map.
        kind: its type, cleaned.
        logical: its logical type.
        number: the attribute that is its id.
        cursor: for errors.
    """
    plain = not_null(kind)
    if isinstance(plain, list):
        expected = "unions of null and one type"
        raise cursor.error(
            Unsupported, f"Avro type of {name:.60}", at=0, expected=expected, actual=f"{len(plain)} types"
        )
    metadata = {FIELD_ID: str(item[number]).encode()} if isinstance(item.get(number), int) else {}
    what = plain["type"] if isinstance(plain, dict) else plain
    if logical is not None and logical.name == "decimal" and what in ("bytes", "fixed"):
        if not logical.precision:
            raise cursor.error(Unsupported, f"decimal {name:.60}", at=0, expected="1 to 38 digits", actual="others")
        metadata[_DECIMAL] = f"{logical.precision} {logical.scale}".encode()
    if what == "record":
        type_ = pa.struct([_field(x["name"], x, x["type"], x["logical"], "field-id", cursor) for x in plain["fields"]])
    elif what == "array" and logical is not None and logical.name == "map":
        entries = fields_of(plain["items"], f"entries of the map {name:.60}", cursor)
        if [entry["name"] for entry in entries] != ["key", "value"]:
            raise cursor.error(NotCanonical, f"map {name:.60}", at=0, expected="key and value", actual="other fields")
        inner = [_field(x["name"], x, x["type"], x["logical"], "field-id", cursor) for x in entries]
        type_, metadata[_MAP] = pa.list_(pa.field("entries", pa.struct(inner), False)), b""
    elif what == "array":
        type_ = pa.list_(_field("element", plain, plain["items"], plain["logical"], "element-id", cursor))
    elif what == "map":
        key = _field("key", plain, "string", None, "key-id", cursor)
        type_ = pa.map_(key, _field("value", plain, plain["values"], plain["logical"], "value-id", cursor))
    else:
        type_ = _primitive(what, plain, logical)
    return pa.field(name, type_, isinstance(kind, list) or kind == "null", metadata or None)


_MAP = b"dvcodec.map"
"""Metadata of a field of lists of entries that are a map, whose keys are not text."""


def _primitive(what: str, plain: Any, logical: Logical | None) -> pa.DataType:
    if what == "fixed":
        return pa.binary(plain["size"])
    zone = "UTC" if logical is not None and logical.utc else None
    kinds = {
        "null": pa.null(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "bytes": pa.binary(),
        "string": pa.string(),
        ("int", "date"): pa.date32(),
        ("int", "time-millis"): pa.time32("ms"),
        ("long", "time-micros"): pa.time64("us"),
        ("long", "timestamp-millis"): pa.timestamp("ms", zone),
        ("long", "timestamp-micros"): pa.timestamp("us", zone),
        ("long", "timestamp-nanos"): pa.timestamp("ns", zone),
        ("long", "local-timestamp-millis"): pa.timestamp("ms"),  # Paimon's, of instants
        ("long", "local-timestamp-micros"): pa.timestamp("us"),
    }
    return kinds.get((what, "" if logical is None else logical.name)) or kinds[what]


def _meant(field: pa.Field) -> pa.Field:
    """Return a field in its final type, with decimals and maps."""
    metadata, kind = dict(field.metadata or {}), field.type
    digits, is_map = metadata.pop(_DECIMAL, None), metadata.pop(_MAP, None) is not None
    if digits is not None:
        kind = pa.decimal128(*map(int, digits.split()))
    elif is_map:
        key, value = map(_meant, kind.value_type)
        kind = pa.map_(key.with_nullable(False), value)
    elif types.is_struct(kind):
        kind = pa.struct([_meant(part) for part in kind])
    elif types.is_map(kind):
        kind = pa.map_(_meant(kind.key_field), _meant(kind.item_field))
    elif types.is_list(kind):
        kind = pa.list_(_meant(kind.value_field))
    return pa.field(field.name, kind, field.nullable, metadata or None)


def _with_meaning(array: Any, meant: pa.DataType) -> Any:
    """Convert decoded values to their logical type."""
    if array.type.equals(meant):
        return array
    if types.is_decimal(meant):
        return _decimals(array, meant)
    nulls = array.is_null() if array.null_count else None
    if types.is_struct(meant):
        parts = [_with_meaning(array.field(i), part.type) for i, part in enumerate(meant)]
        return pa.StructArray.from_arrays(parts, fields=list(meant), mask=nulls)
    if types.is_map(meant):
        flat = isinstance(array, pa.MapArray)
        keys, values = (array.keys, array.items) if flat else (array.values.field(0), array.values.field(1))
        keys, values = _with_meaning(keys, meant.key_type), _with_meaning(values, meant.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, values, type=meant, mask=nulls)
    return pa.ListArray.from_arrays(
        array.offsets, _with_meaning(array.values, meant.value_type), type=meant, mask=nulls
    )


def _decimals(array: Any, kind: Any) -> Any:
    """Return decimals of the bytes of their unscaled values, big-endian in two's complement.

    Raises:
        ValueError: one has more bytes, or more digits, than the type has.
    """
    count = len(array)
    if types.is_fixed_size_binary(array.type):
        bounds = np.arange(count + 1, dtype=np.int64) * array.type.byte_width
    else:
        bounds = np.frombuffer(array.buffers()[1], np.int32)[: count + 1].astype(np.int64)
    content = array.buffers()[-1]
    data = np.frombuffer(b"" if content is None else content, np.uint8)
    sizes = np.diff(bounds)
    out = np.zeros((count, _DECIMAL_BYTES), np.uint8)
    for size in np.unique(sizes).tolist():
        if size > _DECIMAL_BYTES:
            raise ValueError(f"a decimal of {size} bytes")
        chosen = np.flatnonzero(sizes == size)
        little = data[bounds[chosen][:, None] + np.arange(size)][:, ::-1]
        out[chosen, :size] = little
        if size:
            out[chosen, size:] = np.where(little[:, -1:] >= 128, 255, 0)
    found = pa.Array.from_buffers(kind, count, [array.buffers()[0], pa.py_buffer(out)], array.null_count)
    found.validate(full=True)
    return found
