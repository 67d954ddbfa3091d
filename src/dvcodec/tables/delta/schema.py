"""The columns of a table: its ``schemaString`` as Arrow types, and how to find each in data files.

Specification: Delta's PROTOCOL.md, "Schema Serialization Format" and "Column Mapping".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, KeysView, Mapping
from functools import cached_property, lru_cache
from typing import Any

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa
from dvcodec.core.json_text import parse_json
from dvcodec.tables.delta.log import Metadata, Protocol
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.rows.columns import Column, ColumnKey, column_errors

MAPPING, MAPPING_MODE = "columnMapping", "delta.columnMapping.mode"
"""Of column mapping, likewise."""
PHYSICAL_NAME, FIELD_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
"""What the metadata of a mapped column has."""
MODES = ("none", "name", "id")
MAX_DEPTH = 64
"""Maximum nesting of types: Arrow recurses on them."""
_DECIMAL = re.compile(r"decimal(?:\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\))?")
_MAX_PRECISION = 38
_MAX_ID = "delta.columnMapping.maxColumnId"
_COUNT = re.compile(r"[0-9]{1,18}")


class TableSchema:
    """The columns of a table in order; types are parsed on request.

    Args:
        fields: name -> the field's JSON.
        mode: of column mapping: ``none``, ``name`` or ``id``.
        max_id: highest field id that column mapping has assigned; 0 if that is not recorded.
    """

    def __init__(self, fields: Mapping[str, JsonFields], mode: str, max_id: int = 0) -> None:
        self.mode = mode
        self.max_id = max_id
        self._fields = fields
        self._columns: dict[str, Column] = {}

    @property
    def names(self) -> KeysView[str]:
        """Names of the columns; not a copy, as there may be thousands and it is asked for by each data file."""
        return self._fields.keys()

    def column(self, name: str) -> Column:
        """Return a column.

        Raises:
            DecodeError: its type is invalid or unknown.
        """
        if name not in self._columns:
            with column_errors(name):
                self._columns[name] = _field(self._fields[name], self.mode, 0)
        return self._columns[name]

    @cached_property
    def stored(self) -> list[ColumnKey]:
        """How to find columns in data files; without those of type ``void``, which are not stored.

        Raises:
            NotCanonical: it is not recorded.
        """
        fields = (field for field in self._fields.values() if field.values.get("type") != "void")
        return [ColumnKey(field.column_name("name"), *_physical(field, self.mode)) for field in fields]

    def stored_among(self, columns: Iterable[Column]) -> list[ColumnKey]:
        """Return those of `stored` that may be found among the columns of a data file.

        Raises:
            NotCanonical: see `stored`.
        """
        keys = [key for column in columns for key in (column.id, column.name.lower())]
        return [self.stored[place] for place in sorted({place for key in keys for place in self._places.get(key, ())})]

    @cached_property
    def _places(self) -> dict[int | str | None, list[int]]:
        """Places in `stored` by field id, or by the name in small letters of columns that are found by name."""
        found: dict[int | str | None, list[int]] = {}
        for place, key in enumerate(self.stored):
            found.setdefault(key.stored_name.lower() if key.id is None else key.id, []).append(place)
        return found

    @cached_property
    def ids(self) -> frozenset[int]:
        """Field ids of column mapping, of the fields of structs too; those that are recorded."""
        found: set[int] = set()
        waiting: list[Any] = [field.values for field in self._fields.values()]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                metadata = value.get("metadata")
                number = metadata.get(FIELD_ID) if isinstance(metadata, dict) else None
                found.update([number] if isinstance(number, int) else [])
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value
        return frozenset(found)

    def was_dropped(self, column: Column) -> bool:
        """Whether a column of a data file has an id that no column of the table has any more (ids are not reused)."""
        number = column.id or 0
        return self.mode != "none" and 0 < number <= self.max_id and number not in self.ids

    def physical_name(self, name: str) -> str:
        """Return the name of a column in ``partitionValues``.

        Raises:
            NotCanonical: it is not recorded.
        """
        return _physical(self._fields[name], self.mode)[1]

    def select(self, names: Iterable[str]) -> pa.Schema:
        """Return columns as Arrow has them.

        Raises:
            DecodeError: the type of one is corrupt or unknown.
        """
        return pa.schema([self.column(name).field for name in names])


def read_schema(protocol: Protocol, metadata: Metadata) -> TableSchema:
    """Read the columns that a protocol and metadata declare, not yet their types.

    The table's property says how columns are found in data files, by ``name`` (physical), by ``id``, or by their own
    names (``none``), whatever the protocol says, as in Delta Spark: Delta 3.1 wrote tables of IcebergCompat with an
    empty list of reader features. If the protocol does not declare column mapping, a schema without physical names is
    read without it, as in Delta Spark.

    Raises:
        NotCanonical: the schema is not the JSON of a struct, or two columns have one name.
        Unsupported: another mode of column mapping.
    """
    declared = protocol.reader_version == 2 or MAPPING in protocol.reader_features
    mode = metadata.configuration.get(MAPPING_MODE) or "none"
    if mode not in MODES and declared:
        raise Unsupported(MAPPING_MODE, source=metadata.source, expected=" or ".join(MODES), actual=repr(mode)[:60])
    value = parse_json(metadata.schema, metadata.source, "schemaString")
    struct = JsonFields.of(value, metadata.source, "schemaString")
    fields = struct.objects("fields")
    named = {field.column_name("name"): field for field in fields}
    _unique(fields, metadata.source)
    for name in metadata.partition_columns:
        if name not in named:
            raise NotCanonical("partitionColumns", source=metadata.source, expected="columns", actual=repr(name)[:80])
    if mode not in MODES or not (declared or all(map(_is_mapped, fields))):
        mode = "none"
    highest = metadata.configuration.get(_MAX_ID) or ""
    return TableSchema(named, mode, int(highest) if _COUNT.fullmatch(highest) else 0)


def has_own_names(column: Column) -> bool:
    """Whether the fields of a column, and theirs, have in data files the names that they have in the table."""
    return all(child.stored_name == child.name and has_own_names(child) for child in column.children)


def _is_mapped(field: JsonFields) -> bool:
    metadata = field.values.get("metadata")
    return isinstance(metadata, dict) and PHYSICAL_NAME in metadata


def _unique(fields: list[JsonFields], source: str) -> None:
    seen = set()
    for field in fields:
        name = field.column_name("name")
        if name.lower() in seen:
            raise NotCanonical(field.where, source=source, expected="unique column names", actual=repr(name)[:80])
        seen.add(name.lower())


def _physical(field: JsonFields, mode: str) -> tuple[int | None, str]:
    """Return field id and physical name."""
    if mode == "none":
        return None, field.column_name("name")
    metadata = field.object("metadata")
    name = metadata.column_name(PHYSICAL_NAME)
    return metadata.integer(FIELD_ID) if mode == "id" else None, name


def _field(field: JsonFields, mode: str, depth: int) -> Column:
    found = _physical(field, mode)
    kind, children = _type(field, "type", mode, depth)
    nullable = field.flag("nullable")
    _check_void(kind, nullable, field, "type")
    return Column(field.column_name("name"), *found, type=kind, nullable=nullable, children=children)


def _check_void(kind: pa.DataType, nullable: bool, parent: JsonFields, member: str) -> None:
    """Refuse a type without values where they are required.

    Raises:
        NotCanonical: it is one.
    """
    if kind == pa.null() and not nullable:
        parent.fail(member, "a type that has values, which are required here", "'void'")


def _type(parent: JsonFields, name: str, mode: str, depth: int) -> tuple[pa.DataType, tuple[Column, ...]]:
    value: Any = parent.values.get(name)
    if isinstance(value, str):
        return _primitive(value, parent, name), ()
    if depth == MAX_DEPTH:
        parent.fail(name, f"at most {MAX_DEPTH} nested types", "more")
    node = parent.object(name)
    kind = node.text("type")
    if kind == "struct":
        fields = node.objects("fields")
        _unique(fields, node.source)
        children = tuple(_field(field, mode, depth + 1) for field in fields)
        return pa.struct([child.field for child in children]), children
    if kind == "array":
        element = _part(node, "element", "elementType", "containsNull", mode, depth)
        return pa.list_(element.field), (element,)
    if kind == "map":
        key = _part(node, "key", "keyType", None, mode, depth)
        value = _part(node, "value", "valueType", "valueContainsNull", mode, depth)
        return pa.map_(key.field, value.field), (key, value)
    raise Unsupported(parent.path_to(name), source=parent.source, expected="a known type", actual=repr(kind)[:60])


def _part(node: JsonFields, name: str, kind: str, nullable: str | None, mode: str, depth: int) -> Column:
    arrow, children = _type(node, kind, mode, depth + 1)
    may_be_null = nullable is not None and node.flag(nullable)
    _check_void(arrow, may_be_null, node, kind)
    return Column(name, type=arrow, nullable=may_be_null, children=children)


@lru_cache(maxsize=1)
def _simple_types() -> Mapping[str, pa.DataType]:
    """Return the types without parameters."""
    return {
        "string": pa.string(),
        "long": pa.int64(),
        "integer": pa.int32(),
        "short": pa.int16(),
        "byte": pa.int8(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }


def _primitive(name: str, parent: JsonFields, member: str) -> pa.DataType:
    simple = _simple_types()
    if name in simple:
        return simple[name]
    match = _DECIMAL.fullmatch(name)
    if match:
        precision, scale = (int(match[1]), int(match[2])) if match[1] else (10, 0)
        if 1 <= precision <= _MAX_PRECISION and scale <= precision:
            return pa.decimal128(precision, scale)
    raise Unsupported(parent.path_to(member), source=parent.source, expected="a known type", actual=repr(name)[:60])
