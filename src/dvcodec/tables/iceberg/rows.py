"""Rows of a data file, Parquet, ORC or Avro, in the columns of a snapshot.

Specification: Iceberg table spec, "Column Projection" and "Schema Evolution": columns are found by field id, or in
files without ids by the table's name mapping; a missing column has the value of an identity partition, its
``initial-default``, or null; types of old files are promoted. Appendix A, "ORC": types that ORC does not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dvcodec.core.errors import CardinalityMismatch, NotCanonical, Unsupported
from dvcodec.core.extras import pa, types
from dvcodec.core.json_text import parse_json
from dvcodec.io import Storage
from dvcodec.tables.iceberg.schema import constant_of_default, constant_of_partition
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import WHOLE, Part, PhysicalRows
from dvcodec.tables.rows.bounds import RowGroupFilter
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
            wanted_ids = [number for number in stored if number in ids and partition.get(number) is None]
            if not wanted_ids and not (columns and all(number in dropped for number in ids)):
                wanted_ids = [number for number in stored if partition.get(number) is None]  # for the error
            keys = [ColumnKey(stored[number], number) for number in wanted_ids]
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
        elif stored.type != field.type or not _is_plain(field.type) or spelled[stored.name.lower()] > 1:
            return None
        found.append(None if stored is None else stored.name)
    return tuple(found) if any(found) else None


def _is_plain(kind: pa.DataType) -> bool:
    """Whether every reader has the same values for a type; fields of structs are found by id, too."""
    tests = (
        types.is_binary,
        types.is_boolean,
        types.is_date32,
        types.is_decimal,
        types.is_floating,
        types.is_signed_integer,
        types.is_string,
    )
    return any(test(kind) for test in tests) or (types.is_timestamp(kind) and kind.unit == "us")


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
