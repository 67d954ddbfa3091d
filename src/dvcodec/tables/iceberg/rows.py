"""Rows of a Parquet data file in the columns of a snapshot.

Specification: Iceberg table spec, "Column Projection" and "Schema Evolution": columns are found by field id, in files
without ids by the table's name mapping; what a file lacks is the value of an identity partition, the
``initial-default``, or null; types of old files are promoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import CardinalityMismatch, NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables.columns import unrelated
from dvcodec.tables.iceberg.schema import Field, constant_of_default, constant_of_partition
from dvcodec.tables.members import Members
from dvcodec.tables.model import PhysicalRows
from dvcodec.tables.parquet import open_parquet, physical_batches

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["NameMapping", "read_name_mapping", "read_rows"]

_FIELD_ID = b"PARQUET:field_id"
_DIGITS = re.compile(rb"[0-9]{1,10}")
_PARTS = {"list": ("element",), "map": ("key", "value")}


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The field id that a name stands for, and those of names below it."""

    id: int | None
    below: Mapping[str, NameMapping]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A field of a data file; of a list or a map the parts are below it."""

    id: int | None
    below: tuple[_Stored, ...]


def read_name_mapping(text: str, source: str) -> Mapping[str, NameMapping]:
    """Read the property ``schema.name-mapping.default``.

    Raises:
        NotCanonical: it is not the JSON of one.
    """
    try:
        return _name_mapping(Members({"name mapping": json.loads(text)}, source), "name mapping")
    except (ValueError, RecursionError) as err:
        if isinstance(err, NotCanonical):
            raise
        raise NotCanonical("name mapping", source=source, expected="JSON", actual=str(err)[:80]) from None


def _name_mapping(members: Members, name: str) -> dict[str, NameMapping]:
    found = {}
    for item in members.objects_if_any(name):
        below = _name_mapping(item, "fields")
        mapping = NameMapping(item.integer_or_none("field-id"), below)
        for spelled in item.array("names"):
            if not isinstance(spelled, str):
                item.fail("names", "strings", type(spelled).__name__)
            found[spelled] = mapping
    return found


def read_rows(
    location: str,
    storage: Storage,
    fields: Sequence[Field],
    *,
    partition: Mapping[int, Any],
    names: Mapping[str, NameMapping] | None,
    rows: int | None,
    batch_rows: int,
    stored: Mapping[int, str] | None = None,
    dropped: Collection[int] = (),
) -> Iterator[PhysicalRows]:
    """Read a data file, deleted rows included.

    What a file lacks is its default, or null. But a file with rows and without a single column of the schema is
    refused, whatever is asked for: its field ids are not those of the table. Unless all its columns are known from
    other schemas of the table: then they were dropped, and engines read it just so.

    Args:
        location: path or URL.
        storage: by which it is opened.
        fields: columns to give, in this order.
        partition: values of identity partitions by field id of the column, as Avro stores them.
        names: name mapping of the table, None if it has none.
        rows: as recorded; None leaves them unchecked.
        batch_rows: at most so many rows in a batch.
        stored: all columns of the schema that files may hold, by field id; None leaves unchecked whether this one does.
        dropped: field ids of columns that other schemas of the table have.

    Raises:
        CardinalityMismatch: the file has other rows than recorded.
        NotCanonical: it is no sound Parquet file, or lacks a required column.
        Unsupported: no field ids and no name mapping, or a type that is not promoted to the column's.
        OSError: it cannot be read.
    """
    with open_parquet(location, storage) as file:
        found = file.metadata.num_rows
        if rows is not None and found != rows:
            raise CardinalityMismatch(
                "record_count", source=location, expected=f"{rows} (manifest)", actual=f"{found} rows"
            )
        projection = _Projection(file, fields, partition, names, location)
        if found and stored is not None:
            wanted = {number: name for number, name in stored.items() if partition.get(number) is None}
            if wanted and not projection.holds(wanted, dropped):
                expected = [f"{name} (field id {number})" for number, name in wanted.items()]
                raise unrelated(location, expected, file.schema_arrow.names)
        for start, batch in physical_batches(file, projection.read, batch_rows=batch_rows):
            yield PhysicalRows(start, projection.apply(batch))


class _Projection:
    """From the columns of one file to those of a schema.

    Attributes:
        read: names of the columns that are read from the file.
    """

    def __init__(
        self,
        file: pq.ParquetFile,
        fields: Sequence[Field],
        partition: Mapping[int, Any],
        names: Mapping[str, NameMapping] | None,
        location: str,
    ) -> None:
        import pyarrow as pa  # noqa: PLC0415

        self._pa = pa
        self._location = location
        self._fields = fields
        self._partition = partition
        self._has_int96 = any(file.schema.column(i).physical_type == "INT96" for i in range(len(file.schema)))
        schema = file.schema_arrow
        stored = [_stored(field, None, location) for field in schema]
        if not any(map(_has_id, stored)) and len(schema):
            if names is None:
                raise Unsupported(
                    "Parquet schema",
                    source=location,
                    expected="field ids, or the table property schema.name-mapping.default",
                    actual="neither",
                )
            stored = [_stored(field, names, location) for field in schema]
        self._ids = [column.id for column in stored]
        wanted = {field.id for field in fields}
        self._columns: dict[int, tuple[str, _Stored]] = {}
        for name, column in zip(schema.names, stored, strict=True):
            if column.id is None or column.id not in wanted:
                continue
            if column.id in self._columns or schema.names.count(name) > 1:
                raise NotCanonical(
                    "Parquet schema", source=location, expected="each column once", actual=f"{name} twice"
                )
            self._columns[column.id] = name, column
        self.read = [name for name, _ in self._columns.values()]
        self._schema = pa.schema([pa.field(field.name, field.arrow, nullable=not field.required) for field in fields])

    def holds(self, wanted: Collection[int], dropped: Collection[int]) -> bool:
        """Whether the file has one of the wanted columns; or nothing but columns that were dropped."""
        if any(number in wanted for number in self._ids):
            return True
        return bool(self._ids) and all(number in dropped for number in self._ids)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch of the file in the columns of the schema."""
        if not self._fields:
            return batch.select([])
        arrays = []
        for field in self._fields:
            if field.id in self._columns:
                name, stored = self._columns[field.id]
                arrays.append(self._project(batch.column(name), stored, field))
            elif self._partition.get(field.id) is not None:
                value = constant_of_partition(field, self._partition[field.id], self._location)
                arrays.append(self._pa.repeat(value, batch.num_rows))
            else:
                arrays.append(self._missing(field, batch.num_rows))
        return self._pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _missing(self, field: Field, rows: int) -> pa.Array:
        if field.default is not None:
            return self._pa.repeat(constant_of_default(field, self._location), rows)
        if field.required:
            raise NotCanonical("Parquet schema", source=self._location, expected=f"column {field.name}", actual="none")
        return self._pa.nulls(rows, field.arrow)

    def _project(self, array: pa.Array, stored: _Stored, field: Field) -> pa.Array:
        """Return a column of the file, or a part of one, as the field's type; nulls stay where they are."""
        pa = self._pa
        array = _plain(array)
        if array.type == field.arrow and not field.children:
            return array
        if field.kind == "struct" and pa.types.is_struct(array.type):
            places = {part.id: i for i, part in enumerate(stored.below) if part.id is not None}
            parts = [
                self._project(array.field(places[child.id]), stored.below[places[child.id]], child)
                if child.id in places
                else self._missing(child, len(array))
                for child in field.children
            ]
            if not parts:
                buffers = array.buffers()[:1]
                return pa.Array.from_buffers(field.arrow, len(array), buffers, array.null_count, array.offset)
            return pa.StructArray.from_arrays(parts, fields=list(field.arrow), mask=array.is_null())
        if field.kind == "list" and pa.types.is_list(array.type):
            values = self._project(array.values, stored.below[0], field.children[0])
            return _same_lists(array, field.arrow, values)
        if field.kind == "map" and pa.types.is_map(array.type):
            parts = [
                self._project(part, below, child)
                for part, below, child in zip((array.keys, array.items), stored.below, field.children, strict=True)
            ]
            entries = pa.StructArray.from_arrays(parts, fields=[field.arrow.key_field, field.arrow.item_field])
            return _same_lists(array, field.arrow, entries)
        return self._cast(array, field)

    def _cast(self, array: pa.Array, field: Field) -> pa.Array:
        if field.kind == "unknown":
            return self._pa.nulls(len(array), field.arrow)
        as_utc = self._has_int96 and field.kind.startswith("timestamptz") and self._pa.types.is_timestamp(array.type)
        if not as_utc and not _promotes(field.kind, array.type, field.arrow):
            raise Unsupported(
                f"column {field.name}", source=self._location, expected=str(field.arrow), actual=str(array.type)
            )
        try:
            return array.cast(field.arrow)
        except self._pa.ArrowInvalid as err:
            raise NotCanonical(
                f"column {field.name}", source=self._location, expected=str(field.arrow), actual=str(err)[:120]
            ) from None


def _stored(field: pa.Field, names: Mapping[str, NameMapping] | None, source: str, name: str | None = None) -> _Stored:
    """Return a field of a file with its id: its own, or that which the name mapping gives it."""
    mapping = None if names is None else names.get(name or field.name)
    own = _own_id(field, source) if names is None else None if mapping is None else mapping.id
    below = None if names is None else {} if mapping is None else mapping.below
    kind = field.type
    if hasattr(kind, "storage_type"):
        kind = kind.storage_type
    word = "map" if str(kind).startswith("map") else "list" if hasattr(kind, "value_field") else None
    if word is not None:
        parts = (kind.key_field, kind.item_field) if word == "map" else (kind.value_field,)
        named = zip(parts, _PARTS[word], strict=True)
        return _Stored(own, tuple(_stored(part, below, source, name) for part, name in named))
    children = [kind.field(i) for i in range(kind.num_fields)] if str(kind).startswith("struct") else []
    return _Stored(own, tuple(_stored(child, below, source) for child in children))


def _own_id(field: pa.Field, source: str) -> int | None:
    number = (field.metadata or {}).get(_FIELD_ID)
    if number is not None and not _DIGITS.fullmatch(number):
        raise NotCanonical(
            f"field id of column {field.name}", source=source, expected="decimal digits", actual=f"{number!r:.60}"
        )
    return None if number is None else int(number)


def _has_id(stored: _Stored) -> bool:
    return stored.id is not None or any(map(_has_id, stored.below))


def _plain(array: pa.Array) -> pa.Array:
    """Return an array without what Arrow wraps around a type: extensions, dictionaries, other widths of offsets."""
    if hasattr(array, "storage"):
        array = array.storage
    if hasattr(array, "dictionary"):
        array = array.dictionary_decode()
    kind = str(array.type)
    if kind.startswith(("large_list<", "fixed_size_list<")):
        import pyarrow as pa  # noqa: PLC0415

        array = array.cast(pa.list_(array.type.value_field))
    return array


def _same_lists(array: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    """Return lists, or maps, of the same lengths over other values."""
    import pyarrow as pa  # noqa: PLC0415

    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, array.offset, [values])


def _promotes(kind: str, stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a stored type are read as those of a column: what schema evolution and writers may leave."""
    from pyarrow import types  # noqa: PLC0415

    if kind in ("int", "long"):
        most = 32 if kind == "int" else 64
        found = types.is_integer(stored) and stored.bit_width <= most - types.is_unsigned_integer(stored)
    elif kind in ("float", "double"):
        found = types.is_floating(stored) and stored.bit_width <= wanted.bit_width
    elif kind == "decimal":
        found = types.is_decimal(stored) and stored.scale == wanted.scale and stored.precision <= wanted.precision
    elif kind in ("timestamp", "timestamp_ns"):
        found = types.is_date(stored) or (types.is_timestamp(stored) and stored.tz is None)
    elif kind in ("timestamptz", "timestamptz_ns"):
        found = types.is_timestamp(stored) and stored.tz is not None
    elif kind == "string":
        found = str(stored) in ("large_string", "string_view", "binary", "large_binary")
    elif kind == "binary":
        found = str(stored) in ("large_binary", "binary_view")
    else:
        found = (kind == "date" and types.is_date(stored)) or (kind == "time" and types.is_time(stored))
    return bool(found)
