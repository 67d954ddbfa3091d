"""Snapshots and schemas of a Paimon table: JSON files.

Specification: Paimon's "Snapshot" and "Schema": ``snapshot/snapshot-N``, ``tag/tag-NAME``, ``schema/schema-N``; Java
classes ``Snapshot``, ``Tag``, ``Changelog`` and ``TableSchema``.
Tags and changelogs are snapshots with some more fields, kept after the snapshot itself has expired.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from dvcodec.core.errors import Unsupported
from dvcodec.core.json_text import parse_json
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields, bare_name
from dvcodec.tables.model import SnapshotInfo

SNAPSHOT_VERSION = 3
SCHEMA_VERSION = 3


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
    """A column: renames keep its `id`; `type` is unparsed JSON (see `schema.read_column`)."""

    id: int
    name: str
    type: Any


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A version of a table's schema.

    Attributes:
        name: name of the file below the table's folder, for errors.
        id: id of the version, from 0.
        fields: columns, in order.
        partition_keys, primary_keys: names of columns.
        options: the table's options, as text.
    """

    name: str
    id: int
    fields: tuple[SchemaField, ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]

    def field(self, name: str) -> SchemaField:
        """Return a column that is known to exist."""
        return next(field for field in self.fields if field.name == name)

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
    fields = _read(folder, name, SNAPSHOT_VERSION)

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
    fields = _read(folder, name, SCHEMA_VERSION)
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
        name,
        number,
        columns,
        keys["partitionKeys"],
        keys["primaryKeys"],
        {option: options.text(option) for option in options.values},
    )


def _read(folder: Folder, name: str, newest: int) -> JsonFields:
    source = folder.join(name)
    fields = JsonFields.of(parse_json(folder.read(name), source, "metadata", parse_constant=_refuse_constant), source)
    version = fields.integer_or_none("version", least=0)
    if version is not None and version > newest:
        raise Unsupported("version", source=source, expected=f"at most {newest}", actual=version)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
