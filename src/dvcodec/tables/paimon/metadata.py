"""Snapshots and schemas of a Paimon table: JSON files.

Specification: Paimon's "Snapshot" and "Schema": ``snapshot/snapshot-N``, ``tag/tag-NAME``, ``schema/schema-N``; Java
classes ``Snapshot``, ``Tag``, ``Changelog`` and ``TableSchema``.
Tags and changelogs are snapshots with some more fields, kept after the snapshot itself has expired.

Types: Paimon's "Data Types"; Java classes ``DataTypeJsonParser`` and ``ArrowFieldTypeConversion``. An atomic type is
text, ``DECIMAL(10, 2) NOT NULL``; a nested one is an object, ``{"type": "ARRAY", "element": ..}``. Each has an Arrow
type that holds its values.

Types of an older schema can be read as those of a newer one if a cast does not change values: Java class
``SchemaEvolutionUtil``. A file's columns have the names and types of the schema it was written with; fields added since
are null, renamed ones keep their id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.core.extras import pa
from dvcodec.core.extras import types as kinds
from dvcodec.core.json_text import parse_json
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields, bare_name
from dvcodec.tables.model import SnapshotInfo
from dvcodec.tables.rows.columns import Column, Evolution, column_errors, is_list, plain_array

VERSION = 3
"""Newest version of the files of snapshots, and of those of schemas."""


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot, tag or changelog, from its file.

    Attributes:
        name: name of the file below the table's folder, for errors.
        id: number of the snapshot, from 1.
        schema_id: the schema it was committed with.
        base_manifest_list, delta_manifest_list: bare names; together they list the snapshot's manifests.
        changelog_manifest_list: bare name, None without changelog.
        index_manifest: bare name, None without index files.
        statistics: bare name, None without statistics.
        commit_kind: ``APPEND``, ``COMPACT``, ``OVERWRITE`` or ``ANALYZE``.
        time_ms: milliseconds since 1970 UTC.
        total_records: records of the snapshot; None in files of old writers.
    """

    name: str
    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    changelog_manifest_list: str | None
    index_manifest: str | None
    statistics: str | None
    commit_kind: str
    time_ms: int
    total_records: int | None = None

    @property
    def info(self) -> SnapshotInfo:
        """The snapshot as a value of the model. Snapshots are numbered without gaps."""
        return SnapshotInfo(self.id, self.time_ms, self.commit_kind, self.id - 1 if self.id > 1 else None)


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A column: renames keep its `id`; `type` is unparsed JSON (see `read_column`)."""

    id: int
    name: str
    type: Any


@dataclass(frozen=True)
class TableSchema:
    """A version of a table's schema. The type of each column is parsed once, when it is asked for.

    Attributes:
        source: location of its file, for errors.
        id: id of the version, from 0.
        fields: columns, in order.
        partition_keys, primary_keys: names of columns.
        options: the table's options, as text.
    """

    source: str
    id: int
    fields: tuple[SchemaField, ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]

    @cached_property
    def named(self) -> Mapping[str, SchemaField]:
        """The fields by name."""
        return {field.name: field for field in self.fields}

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return {}

    def column(self, name: str) -> Column:
        """Return a column that is known to exist.

        Raises:
            NotCanonical: its type is not one.
            Unsupported: an unknown type.
        """
        if name not in self._columns:
            self._columns[name] = read_column(self.named[name], self.source)
        return self._columns[name]

    def is_true(self, option: str, *, default: bool = False) -> bool:
        """Whether a boolean option is on."""
        return self.options.get(option, str(default)).strip().lower() == "true"


def numbered(names: Iterable[str], prefix: str) -> list[int]:
    """Return the numbers of the files called ``<prefix>-<number>``, ascending.

    >>> numbered(["snapshot-10", "LATEST", "snapshot-9", "snapshot-x"], "snapshot")
    [9, 10]
    """
    found = (re.fullmatch(rf"{prefix}-(0|[1-9][0-9]{{0,18}})", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def read_snapshot(folder: Folder, name: str) -> SnapshotRecord:
    """Read a snapshot, a tag or a changelog by its name below the table's folder.

    Raises:
        NotCanonical: the file is corrupt.
        Unsupported: an unknown version.
        OSError: it cannot be read.
    """
    fields = _read(folder, name)

    def bare_or_none(field: str) -> str | None:
        found = fields.text_or_none(field)
        return found if found is None else bare_name(found, field, fields.source)

    return SnapshotRecord(
        name,
        fields.integer("id", least=0),
        fields.integer("schemaId", least=0),
        bare_name(fields.text("baseManifestList"), "baseManifestList", fields.source),
        bare_name(fields.text("deltaManifestList"), "deltaManifestList", fields.source),
        bare_or_none("changelogManifestList"),
        bare_or_none("indexManifest"),
        bare_or_none("statistics"),
        fields.text("commitKind"),
        fields.integer("timeMillis", least=0),
        fields.integer_or_none("totalRecordCount"),
    )


def read_schema(folder: Folder, number: int) -> TableSchema:
    """Read ``schema/schema-<number>``.

    Raises:
        NotCanonical: the file is corrupt.
        Unsupported: an unknown version.
        OSError: it cannot be read.
    """
    name = f"schema/schema-{number}"
    fields = _read(folder, name)
    if fields.integer("id") != number:
        fields.fail("id", number)
    columns = tuple(
        SchemaField(item.integer("id", least=0), item.column_name("name"), item.values.get("type"))
        for item in fields.objects("fields")
    )
    for unique in ("id", "name"):
        values = [getattr(column, unique) for column in columns]
        if len(set(values)) < len(values):
            fields.fail("fields", f"one column of each {unique}", f"{values!r:.80}")
    keys = {which: fields.texts(which) if which in fields else () for which in ("partitionKeys", "primaryKeys")}
    names = {column.name for column in columns}
    for which, found in keys.items():
        if not names.issuperset(found) or len(set(found)) < len(found):
            fields.fail(which, "names of columns", f"{found!r:.80}")
    options = fields.object_if_any("options")
    return TableSchema(
        fields.source,
        number,
        columns,
        keys["partitionKeys"],
        keys["primaryKeys"],
        {option: options.text(option) for option in options.values},
    )


def _read(folder: Folder, name: str) -> JsonFields:
    source = folder.join(name)
    fields = JsonFields.of(parse_json(folder.read(name), source, "metadata", parse_constant=_refuse_constant), source)
    version = fields.integer_or_none("version", least=0)
    if version is not None and version > VERSION:
        raise Unsupported("version", source=source, expected=f"at most {VERSION}", actual=version)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_ATOMIC = re.compile(
    r"(?P<root>[A-Z]+(?:_LTZ)?)(?: PRECISION)?"
    r"(?:\( *(?P<first>\d{1,10}) *(?:, *(?P<second>\d{1,10}) *)?\))?"
    r"(?P<zone> WITHOUT TIME ZONE| WITH LOCAL TIME ZONE)?"
    r"(?P<null> NOT NULL| NULL)?"
)
_DEFAULTS = {"DECIMAL": (10, 0), "TIME": (0, 0), "TIMESTAMP": (6, 0), "TIMESTAMP_LTZ": (6, 0)}
"""Precision and scale if the text has none."""
_SYNONYMS = {"STRING": "VARCHAR", "BYTES": "VARBINARY", "INTEGER": "INT", "NUMERIC": "DECIMAL", "DEC": "DECIMAL"}
_MAX_LENGTH = 2**31 - 1
_LENGTHS = {"CHAR": 1, "BINARY": 1, "VARCHAR": 1, "VARBINARY": 1, "STRING": _MAX_LENGTH, "BYTES": _MAX_LENGTH}
_PLAIN = {
    "BOOLEAN": "bool",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "DATE": "date32",
    "TIME": "time32[ms]",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "BLOB": "large_binary",
}
"""Names of the Arrow types of types that correspond one to one."""
_ROOTS = frozenset([*_PLAIN, *_DEFAULTS, "VARIANT"])
_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class DataType:
    """A type.

    Attributes:
        root: its name without parameters; synonyms are resolved: ``STRING`` is a ``VARCHAR``.
        nullable: whether null is a value.
        precision: digits of a decimal; of times, digits of the fraction of a second.
        scale: digits of a decimal after its point.
        length: maximum characters or bytes of a text; items of a vector.
        children: fields of a row; ``element``, or ``key`` and ``value``, of other nested types.
    """

    root: str
    nullable: bool = True
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    children: tuple[Field, ...] = ()

    @property
    def text(self) -> str:
        """The type in short, for errors."""
        numbers = [str(number) for number in (self.precision, self.scale, self.length) if number is not None]
        inner = [child.type.text for child in self.children]
        return self.root + (f"({', '.join(numbers)})" if numbers else "") + (f"<{', '.join(inner)}>" if inner else "")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a row type, or a part of another nested type (then `id` is -1). Renames keep the id."""

    id: int
    name: str
    type: DataType


def parse_type(raw: Any, *, source: str, what: str, depth: int = 0) -> DataType:
    """Parse a type from a schema's JSON.

    Args:
        raw: text or object.
        source: the schema's file, for errors.
        what: the column, for errors.
        depth: nesting depth.

    Raises:
        NotCanonical: it is not a type.
        Unsupported: an unknown type.
    """
    if depth > _MAX_DEPTH:
        raise Unsupported(f"type of {what}", source=source, expected=f"at most {_MAX_DEPTH} nested types")
    if isinstance(raw, str):
        return _atomic(raw, source, what)
    kind = raw.get("type") if isinstance(raw, dict) else None
    if not isinstance(kind, str):
        raise NotCanonical(f"type of {what}", source=source, expected="text or an object", actual=f"{raw!r:.80}")
    root = kind.split(" ")[0]
    nullable = "NOT NULL" not in kind

    def inner(name: str) -> Field:
        child = parse_type(raw.get(name), source=source, what=f"{what}.{name}", depth=depth + 1)
        return Field(-1, name, child)

    if root in ("ARRAY", "MULTISET"):
        return DataType(root, nullable, children=(inner("element"),))
    if root == "VECTOR" and isinstance(raw.get("length"), int) and 0 < raw["length"] <= _MAX_LENGTH:
        return DataType(root, nullable, length=raw["length"], children=(inner("element"),))
    if root == "MAP":
        return DataType(root, nullable, children=(inner("key"), inner("value")))
    if root == "ROW" and isinstance(raw.get("fields"), list):
        return DataType(root, nullable, children=tuple(_row_field(f, source, what, depth) for f in raw["fields"]))
    raise Unsupported(f"type of {what}", source=source, expected="a type that is known here", actual=f"{raw!r:.80}")


def _row_field(raw: Any, source: str, what: str, depth: int) -> Field:
    if not isinstance(raw, dict) or not isinstance(raw.get("id"), int) or not isinstance(raw.get("name"), str):
        raise NotCanonical(f"type of {what}", source=source, expected="fields with id and name", actual=f"{raw!r:.80}")
    name = JsonFields(raw, source, f"type of {what}").column_name("name")
    kind = parse_type(raw.get("type"), source=source, what=f"{what}.{name:.80}", depth=depth + 1)
    return Field(raw["id"], name, kind)


def _atomic(text: str, source: str, what: str) -> DataType:
    def fail(expected: str, kind: type[DecodeError] = NotCanonical) -> DecodeError:
        return kind(f"type of {what}", source=source, expected=expected, actual=f"{text!r:.80}")

    match = _ATOMIC.fullmatch(text.strip())
    spelled = match["root"] if match else text
    root = _SYNONYMS.get(spelled, spelled)
    if match and match["zone"] and root == "TIMESTAMP":
        root = "TIMESTAMP_LTZ" if "LOCAL" in match["zone"] else root
    if match is None or root not in _ROOTS or (match["zone"] and root not in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ")):
        raise fail("a type that is known here", Unsupported)
    numbers = [int(match[part]) for part in ("first", "second") if match[part] is not None]
    nullable = match["null"] != " NOT NULL"
    if len(numbers) > 1 and root != "DECIMAL":
        raise fail(f"{root} with one parameter")
    if root in _DEFAULTS:
        precision, scale = [*numbers, *_DEFAULTS[root][len(numbers) :]]
        if precision > (38 if root == "DECIMAL" else 9) or (root == "DECIMAL" and not 0 <= scale <= precision > 0):
            raise fail("a precision it can have")
        return DataType(root, nullable, precision, scale if root == "DECIMAL" else None)
    if spelled in _LENGTHS:
        return DataType(root, nullable, length=numbers[0] if numbers else _LENGTHS[spelled])
    if numbers:
        raise fail(f"{root} without parameters")
    return DataType(root, nullable)


def read_column(field: SchemaField, source: str) -> Column:
    """Parse the type of a column of a schema.

    Raises:
        NotCanonical: it is not a type.
        Unsupported: an unknown type.
    """
    with column_errors(field.name):
        kind = parse_type(field.type, source=source, what=f"column {field.name:.80}")
        return to_column(Field(field.id, field.name, kind))


def to_column(field: Field) -> Column:
    """Return a field as a column, for `dvcodec.tables.rows.columns`.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    kind, children = field.type, field.type.children
    if kind.root == "MULTISET":
        children = (*children, Field(-1, "value", DataType("INT", nullable=False)))
    parts = tuple(map(to_column, children))
    made = _arrow_type(kind, [part.field for part in parts])  # of those of its parts, which are made once
    inner = () if kind.root == "VECTOR" else parts
    extension = "paimon.variant" if kind.root == "VARIANT" else ""
    return Column(
        field.name, field.id, type=made, nullable=kind.nullable, children=inner, kind=kind, extension=extension
    )


def _arrow_type(kind: DataType, parts: Sequence[pa.Field]) -> pa.DataType:
    """Return the Arrow type that holds the values of a type without loss; its parts have these.

    Times of up to 3 digits of a second's fraction are in milliseconds, of up to 6 in microseconds, else in
    nanoseconds; those with a local time zone are instants, in UTC. A multiset is a map to counts.
    """
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        precision = kind.precision or 0
        unit = "ms" if precision <= 3 else "us" if precision <= 6 else "ns"
        return pa.timestamp(unit, tz="UTC" if kind.root == "TIMESTAMP_LTZ" else None)
    if kind.root == "DECIMAL":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.root == "ROW":
        return pa.struct(parts)
    if kind.root in ("MAP", "MULTISET"):
        key, value = parts
        return pa.map_(key.with_nullable(False), value)
    if kind.root == "ARRAY":
        return pa.list_(parts[0])
    if kind.root == "VECTOR":
        return pa.list_(parts[0], kind.length)
    if kind.root == "VARIANT":
        return pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("value", "metadata")])
    return pa.type_for_alias(_PLAIN[kind.root])


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
_TIMES = ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


class PaimonEvolution(Evolution):
    """Reads arrays in the types of the schema that a file was written with, then promotes those."""

    misfit = Unsupported

    def promotes(self, found: pa.DataType, column: Column) -> bool:  # noqa: ARG002
        """Return True: `convert` has already compared Paimon's types, which are more specific than Arrow's."""
        return True

    def convert(self, array: pa.Array, stored: Column, column: Column, what: str) -> pa.Array:
        """Convert an array; see `Evolution.convert`."""
        old, new = stored.kind, column.kind
        nested = old.root == new.root and new.root in ("ROW", "ARRAY")
        if not (nested or _plain(old) == _plain(new) or _widens(old, new)):
            raise Unsupported(
                what, source=self.source, expected=f"a type that {new.text} holds unchanged", actual=old.text
            )
        return super().convert(self._as_stored(plain_array(array), stored, what), stored, column, what)

    def _as_stored(self, array: pa.Array, stored: Column, what: str) -> pa.Array:
        """Return values in the Arrow type of the schema they were written with: the unit or width may differ."""
        if array.type == stored.type:
            return array
        if _kin(array.type, stored.type):
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return array if stored.children else array.cast(stored.type)
        expected = f"values of {stored.kind.text}"
        raise Unsupported(what, source=self.source, expected=expected, actual=str(array.type))


def _kin(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two Arrow types have the same kind, so that a cast between them changes no meaning."""
    if kinds.is_struct(wanted):
        return kinds.is_struct(found) and [field.name for field in found] == [field.name for field in wanted]
    if kinds.is_fixed_size_list(wanted):
        return is_list(found) and (found.value_type == wanted.value_type or _kin(found.value_type, wanted.value_type))
    if kinds.is_int32(found) and kinds.is_time32(wanted):  # as ORC stores it
        return True
    same = (
        is_list,
        kinds.is_map,
        kinds.is_signed_integer,
        kinds.is_timestamp,
        kinds.is_decimal,
        kinds.is_time,
        lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind),
        lambda kind: kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind),
    )
    return any(is_kind(found) and is_kind(wanted) for is_kind in same)


def _plain(kind: DataType) -> tuple[Any, ...]:
    """Return a type without its nullability, for comparison."""
    children = tuple((child.id, child.name, _plain(child.type)) for child in kind.children)
    return (kind.root, kind.precision, kind.scale, kind.length, children)


def _widens(old: DataType, new: DataType) -> bool:
    """Whether every value of one type is a value of the other, and Paimon's cast preserves it."""
    if old.root in _INTEGERS:
        if new.root in _INTEGERS:
            return _INTEGERS.index(old.root) <= _INTEGERS.index(new.root)
        if new.root == "DECIMAL":
            return (new.precision or 0) - (new.scale or 0) >= _DIGITS[old.root]
        whole = {"FLOAT": ("TINYINT", "SMALLINT"), "DOUBLE": ("TINYINT", "SMALLINT", "INT")}.get(new.root, ())
        return old.root in whole or (new.root == "VARCHAR" and (new.length or 0) >= _DIGITS[old.root] + 1)
    if old.root == new.root == "DECIMAL":
        scales = (old.scale or 0, new.scale or 0)
        return scales[0] <= scales[1] and (old.precision or 0) - scales[0] <= (new.precision or 0) - scales[1]
    if old.root in _TIMES and new.root == old.root:
        return (old.precision or 0) <= (new.precision or 0)
    texts = (old.root in _TEXTS and new.root == "VARCHAR") or (old.root in _BYTES and new.root == "VARBINARY")
    return (old.root, new.root) == ("FLOAT", "DOUBLE") or (texts and (old.length or 0) <= (new.length or 0))
