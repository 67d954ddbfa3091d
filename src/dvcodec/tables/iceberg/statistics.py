"""What manifests record of the values of columns, by which files are skipped.

Specification: Iceberg table spec, "Manifests" (``lower_bounds``, ``upper_bounds``, counts of values), and appendix D,
"Binary single-value serialization". Upper bounds that were cut off are greater than what they stand for. Bounds of a
file that is older than a promotion have the old type. A snapshot does not keep statistics, which would be most of it:
the manifest is read again for the requested columns.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dvcodec.core.avro_columns import AvroColumns, AvroPairs, Path, read_columns
from dvcodec.core.extras import pa
from dvcodec.core.ragged import Flags, Index
from dvcodec.io import Storage
from dvcodec.tables.iceberg.entries import DataFiles
from dvcodec.tables.iceberg.manifest_schemas import BOUNDS, DELETED, ENTRY_COLUMNS, FILE_COLUMNS, chosen
from dvcodec.tables.iceberg.schema import scaled
from dvcodec.tables.metadata.avro_fields import open_avro, select
from dvcodec.tables.metadata.json_fields import is_nan
from dvcodec.tables.rows.bounds import ColumnBounds, Range, safe_text
from dvcodec.tables.rows.columns import Column

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
