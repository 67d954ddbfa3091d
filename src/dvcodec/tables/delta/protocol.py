"""What protocol and metadata declare: the columns of a table, its features, and where they contradict the data.

Columns are those of ``schemaString``, as Arrow types, and how to find each in data files. Features say which tables can
be read and written. Specification: Delta's PROTOCOL.md, "Schema Serialization Format", "Column Mapping", "Table
Features", "Valid Feature Names in Table Features", "Deletion Vectors" (reader version 3, writer version 7, the table
feature in both lists) and "Append-only Tables".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, KeysView, Mapping
from functools import cached_property, lru_cache
from typing import Any

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import pa
from dvcodec.core.json_text import parse_json
from dvcodec.tables.delta.log import Metadata, Protocol
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.rows.columns import Column, ColumnKey, column_errors
from dvcodec.tables.snapshots.findings import Finding

# ---------------------------------------------------------------------- columns

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


# ---------------------------------------------------------------------- features

READER_VERSION, WRITER_VERSION = 3, 7
"""The versions that list features, and the highest ones; vectors need both."""
KNOWN = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Supported reader features."""
OF_COLUMNS = frozenset(
    {
        "geospatial",
        "geospatial-dev",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features that only add column types: files and vectors do not change, and such columns are refused by type."""
OF_WRITERS = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "domainMetadata",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "materializePartitionColumns",
        "rowTracking",
    }
)
"""Writer features, which readers may ignore even if they are listed among the reader features."""
CARRIED = KNOWN | OF_COLUMNS | OF_WRITERS - {"icebergCompatV1", "icebergCompatV2"}
"""Features that a delete leaves as they are: it repeats the actions of data files, and writes no rows."""
FEATURE, PROPERTY = "deletionVectors", "delta.enableDeletionVectors"
"""Of deletion vectors: what the protocol lists, and the property of the table that lets writers make new ones."""


def check_protocol(protocol: Protocol) -> None:
    """Check that all features that readers have to support are known.

    Raises:
        Unsupported: one is not. (For catalog-managed tables, the log may lack the newest commits.)
    """
    if protocol.reader_version > READER_VERSION:
        expected = f"at most {READER_VERSION}"
        raise Unsupported(
            "protocol.minReaderVersion", source=protocol.source, expected=expected, actual=protocol.reader_version
        )
    unknown = sorted(set(protocol.reader_features) - KNOWN - OF_COLUMNS - OF_WRITERS)
    if unknown:
        known = ", ".join(sorted(KNOWN | OF_COLUMNS))
        raise Unsupported(
            "protocol.readerFeatures", source=protocol.source, expected=f"of {known}", actual=", ".join(unknown)[:200]
        )


def check_features(protocol: Protocol) -> None:
    """Check the features that a writer of deletes has to support.

    Raises:
        Unsupported: an unknown writer feature.
    """
    features = {*protocol.reader_features, *protocol.writer_features}
    unknown = sorted(features - CARRIED)
    if unknown or (protocol.writer_version or 0) > WRITER_VERSION:
        actual = ", ".join(unknown)[:200] or f"writer version {protocol.writer_version}"
        raise Unsupported(
            "protocol of the table", source=protocol.source, expected="features that a delete may leave", actual=actual
        )


def check_provider(metadata: Metadata) -> None:
    """Check that the data files are Parquet.

    Raises:
        Unsupported: they are not.
    """
    if metadata.provider != "parquet":
        what, actual = "metaData.format.provider", metadata.provider[:60]
        raise Unsupported(what, source=metadata.source, expected="parquet", actual=actual)


def check_writer(protocol: Protocol, metadata: Metadata, table: str) -> None:
    """Check that a delete may commit a deletion vector.

    Raises:
        UsageError: the table does not have vectors enabled, is append-only, or has a property that forbids them.
        Unsupported: an unknown writer feature.
    """
    check_features(protocol)
    listed = FEATURE in protocol.reader_features and FEATURE in protocol.writer_features
    if not (listed and is_on(metadata, PROPERTY)):
        raise UsageError(
            f"{table}: deletion vectors are not enabled (feature {FEATURE}, {PROPERTY}): "
            "enable them first, with dvcodec enable or dvcodec.tables.enable"
        )
    for name, why in FORBIDDING.items():
        if is_on(metadata, name):
            raise UsageError(f"{table}: {name} is set: {why}")


FORBIDDING = {
    "delta.appendOnly": "its rows must not be deleted",
    "delta.enableIcebergCompatV1": "Iceberg readers of the table would not see deletion vectors",
    "delta.enableIcebergCompatV2": "Iceberg readers of the table would not see deletion vectors",
}
"""Properties that keep a table from being deleted from, and why."""


def is_on(metadata: Metadata, name: str) -> bool:
    """Whether a property of the table is true, in any case; with spaces around it, Delta does not read it as true."""
    return (metadata.configuration.get(name) or "").lower() == "true"


_TYPES = ("type", "elementType", "keyType", "valueType")
APPEND_ONLY = "delta.appendOnly"


def contradictions(protocol: Protocol, metadata: Metadata, *, vectors: bool) -> Iterator[Finding]:
    """Find where protocol and properties contradict the data.

    Checks:

    - ``delta-protocol``: vectors, but not reader version 3 and writer version 7. Readers that follow the protocol
      return the deleted rows; or a writer version above 7, which deltalake refuses;
    - ``delta-feature``: vectors, or a property or column that needs a table feature, without the feature; or a reader
      feature that is not a writer feature. Spark refuses a table whose protocol lacks the feature of an active
      property, other readers one that has it in a single list;
    - ``delta-schema``: columns that readers refuse: two whose names differ only in case, or mapped columns without the
      names and ids that they have in data files;
    - ``delta-column-mapping``: a column mapping mode that the protocol does not have. Readers that follow the protocol
      look for the columns under the wrong names and return nulls;
    - ``delta-append-only``: vectors where rows must not be deleted. Readers return the right rows;
    - ``delta-property``: vectors, but new deletes do not write them. The existing ones stay valid.

    Args:
        protocol: protocol of the version.
        metadata: metadata of the version.
        vectors: whether a data file has one.
    """
    reader, writer = protocol.reader_version, protocol.writer_version or 0
    is_old = reader < READER_VERSION or (protocol.writer_version is not None and writer < WRITER_VERSION)
    if vectors and is_old:
        expected = f"reader version {READER_VERSION} and writer version {WRITER_VERSION}"
        actual = f"reader version {reader} and writer version {protocol.writer_version}"
        yield _finding("delta-protocol", protocol.source, "protocol of a table with vectors", expected, actual)
    if writer >= WRITER_VERSION and (vectors or is_on(metadata, PROPERTY)):
        yield from _feature(protocol, FEATURE, "vectors" if vectors else f"{PROPERTY}=true")
    if is_on(metadata, APPEND_ONLY):
        yield from _feature(protocol, "appendOnly", f"{APPEND_ONLY}=true", reader=None)
    mode = metadata.configuration.get(MAPPING_MODE) or "none"
    if mode != "none":
        why = f"{MAPPING_MODE}={mode!r:.40}"
        yield from _feature(protocol, MAPPING, why, reader=2, writer=5, check="delta-column-mapping")
    if writer > WRITER_VERSION:
        expected = f"a writer version of at most {WRITER_VERSION}"
        yield _finding("delta-protocol", protocol.source, "protocol", expected, f"writer version {writer}")
    unlisted = sorted(set(protocol.reader_features) - {*protocol.writer_features, FEATURE, MAPPING})
    if writer >= WRITER_VERSION and unlisted:
        expected = "the readerFeatures in writerFeatures too"
        yield _finding("delta-feature", protocol.source, "protocol", expected, f"no {', '.join(unlisted)} there")
    yield from _schema(protocol, metadata)
    if vectors and is_on(metadata, APPEND_ONLY):
        yield _finding("delta-append-only", metadata.source, APPEND_ONLY, "no deleted rows", "true, and vectors")
    if vectors and not is_on(metadata, PROPERTY):
        actual = metadata.configuration.get(PROPERTY) or "not set"
        yield _finding("delta-property", metadata.source, f"{PROPERTY} of a table with vectors", "true", actual)


def _feature(
    protocol: Protocol,
    feature: str,
    why: str,
    *,
    reader: int | None = 0,
    writer: int = 0,
    check: str = "delta-feature",
) -> Iterator[Finding]:
    """Find that a protocol does not have a feature.

    Args:
        protocol: protocol of the version.
        feature: its name.
        why: what of the table needs it.
        reader: the least version that may have it, which lists it or does not list features; None: readers need none.
        writer: the same for writers.
        check: name of the finding.
    """
    missing = []
    for kind, least, listing, version, features in (
        ("reader", reader, READER_VERSION, protocol.reader_version, protocol.reader_features),
        ("writer", writer, WRITER_VERSION, protocol.writer_version, protocol.writer_features),
    ):
        if least is not None and version is not None and version < least:
            missing.append(f"{kind} version {version}")
        elif least is not None and (version or 0) >= listing and feature not in features:
            missing.append(f"none in {kind}Features")
    if missing:
        lists = "writerFeatures" if reader is None else "readerFeatures and writerFeatures"
        what = f"protocol of a table with {why}"
        yield _finding(check, protocol.source, what, f"{feature} in {lists}", ", ".join(missing))


def _schema(protocol: Protocol, metadata: Metadata) -> Iterator[Finding]:
    """Find columns that readers refuse. Unknown types and properties are ignored."""
    try:
        mode = read_schema(protocol, metadata).mode
    except Unsupported:
        return
    except NotCanonical as error:
        yield Finding.from_error("delta-schema", error, metadata.source)
        return
    nodes = list(_nodes(json.loads(metadata.schema)))
    bare = None if mode == "none" else next((node for node in nodes if "name" in node and not _has_id(node)), None)
    if bare is not None:
        actual = f"not both of {str(bare['name'])!r:.60}"
        yield _finding("delta-schema", metadata.source, "mapped column", f"{PHYSICAL_NAME} and {FIELD_ID}", actual)
    if any(node.get(key) == "timestamp_ntz" for node in nodes for key in _TYPES):
        yield from _feature(protocol, "timestampNtz", "a column of timestamp_ntz", reader=READER_VERSION)


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the nested types of a schema, and the fields of structs: everything that is an object in its JSON."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node)
        elif isinstance(node, dict):
            yield node
            waiting += [node.get(key) for key in ("fields", *_TYPES)]


def _has_id(field: dict[str, Any]) -> bool:
    metadata = field.get("metadata")
    if not isinstance(metadata, dict):
        return False
    return isinstance(metadata.get(PHYSICAL_NAME), str) and type(metadata.get(FIELD_ID)) is int


def _finding(check: str, source: str, what: str, expected: str, actual: str) -> Finding:
    return Finding.failed(check, what, expected, actual, path=source)
