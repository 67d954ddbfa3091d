"""Rows of a data file, Parquet, ORC or Avro, in the columns of a snapshot, and what manifests record of their values.

Specification: Iceberg table spec, "Column Projection" and "Schema Evolution": columns are found by field id, or in
files without ids by the table's name mapping; a missing column has the value of an identity partition, its
``initial-default``, or null; types of old files are promoted. Appendix A, "ORC": types that ORC does not have.

Files are skipped by ``lower_bounds``, ``upper_bounds`` and counts of values ("Manifests"; appendix D, "Binary
single-value serialization"). Upper bounds that were cut off are greater than what they stand for. Bounds of a file that
is older than a promotion have the old type. A snapshot does not keep statistics, which would be most of it: the
manifest is read again for the requested columns.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dvcodec.core.avro_columns import AvroColumns, AvroPairs, Path, read_columns
from dvcodec.core.errors import CardinalityMismatch, NotCanonical, Unsupported
from dvcodec.core.extras import pa, types
from dvcodec.core.json_text import parse_json
from dvcodec.core.ragged import Flags, Index
from dvcodec.io import Storage
from dvcodec.tables.iceberg.entries import BOUNDS, DELETED, ENTRY_COLUMNS, FILE_COLUMNS, DataFiles, chosen
from dvcodec.tables.iceberg.schema import constant_of_default, constant_of_partition, scaled
from dvcodec.tables.metadata.avro_fields import open_avro, select
from dvcodec.tables.metadata.json_fields import JsonFields, is_nan
from dvcodec.tables.model import WHOLE, Part, PhysicalRows
from dvcodec.tables.rows.bounds import ColumnBounds, Range, RowGroupFilter, safe_text
from dvcodec.tables.rows.columns import Column, ColumnIndex, ColumnKey, Evolution, check_related, file_columns
from dvcodec.tables.rows.data_file import open_data_file


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The field id of a name, and the mapping of nested names."""

    id: int | None
    below: Mapping[str, NameMapping]


_UNMAPPED = NameMapping(None, {})


def read_name_mapping(text: str | None, source: str) -> Mapping[str, NameMapping] | None:
    """Read the property ``schema.name-mapping.default``; None if the table does not have it.

    Raises:
        NotCanonical: it is not the JSON of one.
    """
    if text is None:
        return None
    what = "name mapping"
    return _name_mapping(JsonFields({what: parse_json(text, source, what)}, source), what)


def _name_mapping(members: JsonFields, name: str) -> dict[str, NameMapping]:
    found: dict[str, NameMapping] = {}
    for item in members.objects_if_any(name):
        below = _name_mapping(item, "fields")
        found.update(dict.fromkeys(item.texts("names"), NameMapping(item.integer_or_none("field-id"), below)))
    return found


def read_rows(
    location: str,
    storage: Storage,
    fields: Sequence[Column],
    *,
    file_format: str,
    partition: Mapping[int, Any],
    names: Mapping[str, NameMapping] | None,
    rows: int | None,
    batch_rows: int,
    part: Part = WHOLE,
    stored: Mapping[int, str] | None = None,
    dropped: Collection[int] = (),
    wanted: RowGroupFilter | None = None,
) -> Iterator[PhysicalRows]:
    """Read a data file, deleted rows included.

    Missing columns are read as their default, or null. A file with rows but without any column of the schema is
    refused, whatever columns are requested: its field ids are not those of the table. It is read if other schemas of
    the table have all its columns, because then they were dropped; engines do the same.

    Args:
        location: path or URL.
        storage: opens it.
        fields: columns to return, in this order.
        file_format: one of `FILE_FORMATS`.
        partition: values of identity partitions by field id of the column, as Avro stores them.
        names: name mapping of the table, None if it has none.
        rows: as recorded; None skips the check.
        batch_rows: maximum rows in a batch.
        part: of the file.
        stored: all columns of the schema that files may hold, by field id; None skips the check that the file has one.
        dropped: field ids of columns that other schemas of the table have.
        wanted: see `Snapshot.rows`.

    Raises:
        CardinalityMismatch: the file's row count differs from the recorded one.
        NotCanonical: it is not a valid file, or lacks a required column or has nulls in it.
        Unsupported: another format, no field ids and no name mapping, or a type that is not promoted to the column's.
        OSError: it cannot be read.
    """
    with open_data_file(location, storage, file_format) as file:
        if rows is not None and file.rows != rows:
            raise CardinalityMismatch(
                "record_count", source=location, expected=f"{rows} (manifest)", actual=f"{file.rows} rows"
            )
        columns = _columns(file.schema, names, location)
        ids = {column.id for column in columns}
        if file.rows and stored is not None:
            keys = [ColumnKey(name, number) for number, name in stored.items() if partition.get(number) is None]
            check_related(columns, keys, location, lambda column: column.id in dropped)
        constants = {
            field.name: constant_of_partition(field, partition[field.id], location)
            for field in fields
            if field.id is not None and field.id not in ids and partition.get(field.id) is not None
        }
        evolution = _Evolution(location, fields, columns, constants)
        evolution.has_int96, evolution.is_orc = file.has_int96, file_format == "orc"
        for start, batch in file.read(evolution.names, batch_rows, file.skipped(evolution, wanted, part)):
            yield PhysicalRows(start, evolution.apply(batch, start))


def names_in_file(
    location: str, storage: Storage, fields: Sequence[Column], partition: Mapping[int, Any]
) -> tuple[str | None, ...] | None:
    """Return under which names a Parquet file has the values of columns; None if it does not have all as they are.

    Args:
        location: see `read_rows`.
        storage: see `read_rows`.
        fields: see `read_rows`.
        partition: see `read_rows`.

    Returns:
        None in place of the name of a column that the file lacks, so that its values are null.

    Raises:
        DecodeError, OSError: see `read_rows`.
    """
    with open_data_file(location, storage, "parquet") as file:
        columns, has_int96 = file_columns(file.schema, location), file.has_int96
    if has_int96 or not any(map(_has_id, columns)):  # not by an Iceberg writer: its dates may be of another calendar
        return None
    spelled = Counter(column.name.lower() for column in columns)
    index, found = ColumnIndex(columns), []
    for field in fields:
        place = index.find(field, location)
        stored = None if place is None else columns[place]
        if stored is None:
            if field.default is not None or not field.nullable or partition.get(field.id or 0) is not None:
                return None
        elif stored.type != field.type or not _PLAIN.fullmatch(str(field.type)) or spelled[stored.name.lower()] > 1:
            return None
        found.append(None if stored is None else stored.name)
    return tuple(found) if any(found) else None


_PLAIN = re.compile(
    r"binary|bool|date32\[day\]|decimal\d+\(.*\)|double|float|halffloat|int\d+|string|timestamp\[us(, .*)?\]"
)
"""Types, as pyarrow spells them, of which every reader has the same values; fields of structs are found by id, too."""


class _Evolution(Evolution):
    has_int96 = is_orc = False

    def promotes(self, found: pa.DataType, column: Column) -> bool:
        kind, wanted = column.kind, column.type
        if kind in ("int", "long"):
            most = 32 if kind == "int" else 64
            fits = types.is_integer(found) and found.bit_width <= most - types.is_unsigned_integer(found)
        elif kind in ("float", "double"):
            fits = types.is_floating(found) and found.bit_width <= wanted.bit_width
        elif kind == "decimal":
            fits = types.is_decimal(found) and found.scale == wanted.scale and found.precision <= wanted.precision
        elif kind in ("timestamp", "timestamp_ns"):
            fits = types.is_date(found) or (types.is_timestamp(found) and found.tz is None)
        elif kind in ("timestamptz", "timestamptz_ns"):
            fits = types.is_timestamp(found) and (found.tz is not None or self.has_int96)
        elif kind == "string":
            fits = str(found) in ("large_string", "string_view", "binary", "large_binary")
        elif kind == "binary":
            fits = str(found) in ("large_binary", "binary_view")
        elif kind == "unknown":
            fits = True
        elif self.is_orc and kind == "time":
            fits = types.is_int64(found)  # microseconds
        elif self.is_orc and kind in ("uuid", "fixed"):
            fits = types.is_binary(found)
        else:
            fits = (kind == "date" and types.is_date(found)) or (kind == "time" and types.is_time(found))
        return bool(fits)

    def missing(self, column: Column, rows: int) -> pa.Array:
        if column.default is not None:
            return pa.repeat(constant_of_default(column, self.source), rows)
        if not column.nullable:
            raise NotCanonical(
                "schema of the data file", source=self.source, expected=f"column {column.name:.80}", actual="none"
            )
        return super().missing(column, rows)


def _columns(schema: pa.Schema, names: Mapping[str, NameMapping] | None, source: str) -> tuple[Column, ...]:
    """Return the columns of a file with their ids: its own, or those from the name mapping."""
    columns = file_columns(schema, source)
    if not columns or any(map(_has_id, columns)):
        return columns
    if names is None:
        expected = "field ids, or the table property schema.name-mapping.default"
        raise Unsupported("schema of the data file", source=source, expected=expected, actual="neither")
    return tuple(_mapped(column, names) for column in columns)


def _has_id(column: Column) -> bool:
    return column.id is not None or any(map(_has_id, column.children))


def _mapped(column: Column, names: Mapping[str, NameMapping]) -> Column:
    mapping = names.get(column.name, _UNMAPPED)
    children = tuple(_mapped(child, mapping.below) for child in column.children)
    return replace(column, id=mapping.id, children=children)


_STATISTICS = {"null_value_counts": int, "nan_value_counts": int, "lower_bounds": bytes, "upper_bounds": bytes}
"""Maps by field id, in the order of `ColumnStatistics`, and the type of their values."""
_BOUNDS_ENTRY = chosen(ENTRY_COLUMNS, "status", "data_file")
_BOUNDS_FILE = chosen(FILE_COLUMNS, "file_path", "record_count", *_STATISTICS)
_WHOLE = {4: "<i", 8: "<q"}
_FLOATS = {4: "<f", 8: "<d"}
_DAY_UNITS = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_MAX_DAYS = 100_000
"""Since 1970: in nanoseconds they fit 64 bits."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What a manifest records of a column in a data file; None = not recorded.

    Attributes:
        rows: of the data file.
        nulls: values that are null.
        nans: values that are NaN.
        lower: serialized.
        upper: serialized.
    """

    rows: int
    nulls: int | None = None
    nans: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


def read_statistics(
    location: str, ids: Collection[int], storage: Storage
) -> Mapping[str, Mapping[int, ColumnStatistics]]:
    """Read the statistics of columns in the live data files of a manifest: path -> field id -> statistics.

    Raises:
        DecodeError: the manifest is corrupt.
        OSError: it cannot be read.
    """
    found: dict[str, Mapping[int, ColumnStatistics]] = {}
    with open_avro(location, storage) as (file, cursor):
        entry = select(file.schema, _BOUNDS_ENTRY, "manifest entry", cursor)
        columns = select(entry["data_file"].type, _BOUNDS_FILE, "data_file", cursor)
        names = {name: one.name for name, one in columns.items()}
        for record in file.records():
            stored = record[entry["data_file"].name]
            if record[entry["status"].name] == DELETED or stored is None:
                continue
            members = {name: stored[spelled] for name, spelled in names.items()}
            maps = [_pairs(members.get(name), ids, kind) for name, kind in _STATISTICS.items()]
            rows = members["record_count"]
            found[members["file_path"]] = {
                number: ColumnStatistics(rows, *(values.get(number) for values in maps)) for number in ids
            }
    return found


def may_be_between(files: DataFiles, ranges: Mapping[int, tuple[int, Range]], storage: Storage) -> Flags:
    """Return which data files of a manifest may have values of integer columns in ranges: bool[n].

    All of them may, if the manifest is not read in columns now.

    Args:
        files: its data files.
        ranges: by field id: bytes of a value in the current schema, and the range.
        storage: opens the manifest.

    Raises:
        DecodeError: the manifest is corrupt.
        OSError: it cannot be read.
    """
    may = np.ones(len(files), np.bool_)
    with open_avro(files.entries.manifest.location, storage) as (file, cursor):
        entry = select(file.schema, _BOUNDS_ENTRY, "manifest entry", cursor)
        columns = select(entry["data_file"].type, _BOUNDS_FILE, "data_file", cursor)
        places: dict[str, Path] = {name: (entry["data_file"].name, field.name) for name, field in columns.items()}
        if not places.keys() >= set(BOUNDS):
            return may
        status: Path = (entry["status"].name,)
        found = read_columns(file, places["file_path"], [status], [places[name] for name in BOUNDS])
    if found is None:
        return may
    live = found.columns[status].values != DELETED
    if np.count_nonzero(live) != len(files):
        return may
    rows = np.where(live, np.cumsum(live) - 1, -1)
    for number, (size, wanted) in ranges.items():
        lower, upper = (found.pairs[places[name]].of_key(number).of_rows(rows) for name in BOUNDS)
        if wanted.high is not None:
            at, values = _integers(found, lower, size)
            may[at[values > wanted.high]] = False
        if wanted.low is not None:
            at, values = _integers(found, upper, size)
            may[at[values < wanted.low]] = False
    return may


def _integers(found: AvroColumns, items: AvroPairs, most: int) -> tuple[Index, Index]:
    """Return the rows of items that are integers of at most so many bytes, each the only one of its row, and these."""
    content, single = np.frombuffer(found.content, np.uint8), np.bincount(items.rows)[items.rows] == 1
    rows, numbers = [], []
    for size in [size for size in _WHOLE if size <= most]:
        these = np.flatnonzero(single & (items.sizes == size))
        rows.append(items.rows[these])
        data = content[items.values[these, None] + np.arange(size)]
        numbers.append(data.view(f"<i{size}").reshape(-1).astype(np.int64))
    return np.concatenate(rows), np.concatenate(numbers)


def _pairs(items: Any, ids: Collection[int], kind: type[Any]) -> dict[int, Any]:
    """Return the values of a map by field id, which Avro stores as pairs; None for an id that occurs twice."""
    found: dict[int, Any] = {}
    for item in items or ():
        number, value = (item.get("key"), item.get("value")) if isinstance(item, dict) else (None, None)
        if isinstance(number, int) and number in ids and isinstance(value, kind):
            found[number] = None if number in found else value
    return found


def bounds_of(column: Column, recorded: ColumnStatistics) -> ColumnBounds:
    """Return the bounds of a column by its statistics; an unreadable value counts as unknown."""
    if column.children:
        return ColumnBounds()
    nulls, values = recorded.nulls != 0, recorded.nulls is None or recorded.nulls < recorded.rows
    if column.kind in ("float", "double") and recorded.nans != 0:  # bounds are those of the other values
        return ColumnBounds(nulls=nulls, values=values)
    return ColumnBounds(_scalar(column, recorded.lower), _scalar(column, recorded.upper), nulls, values)


def _scalar(column: Column, data: bytes | None) -> pa.Scalar[Any] | None:
    value = None if data is None else _value(column, data)
    if value is None or is_nan(value):
        return None
    try:
        return pa.scalar(value, column.type)
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return None


def _value(column: Column, data: bytes) -> Any:
    """Return a serialized value in a form that Arrow accepts; None if it is invalid, or its order is not known.

    That of UUIDs is not: Java compares them as two signed numbers.
    """
    kind = column.kind
    if kind in ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"):
        if len(data) not in _WHOLE:
            return None
        number = struct.unpack(_WHOLE[len(data)], data)[0]
        if kind.startswith("timestamp") and len(data) == 4:  # it was a date
            return number * _DAY_UNITS[column.type.unit] if abs(number) <= _MAX_DAYS else None
        return number
    if kind in ("float", "double"):
        return struct.unpack(_FLOATS[len(data)], data)[0] if len(data) in _FLOATS else None
    if kind == "boolean":
        return data != b"\0" if len(data) == 1 else None
    if kind == "decimal":
        return scaled(int.from_bytes(data, "big", signed=True), column.type.scale) if 0 < len(data) <= 16 else None
    if kind == "string":
        return _text(data)
    return data if kind == "binary" or (kind == "fixed" and len(data) == column.type.byte_width) else None


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if safe_text(text) else None
