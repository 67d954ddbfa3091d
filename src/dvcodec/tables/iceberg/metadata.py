"""The metadata file of an Iceberg table.

Specification: Iceberg table spec, "Table Metadata and Snapshots". Schemas are kept as JSON: an unknown type
does not prevent listing files.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dvcodec.core.errors import NotCanonical, Truncated, Unsupported
from dvcodec.core.json_text import parse_json
from dvcodec.core.limits import Limits, enough_memory
from dvcodec.io import Storage
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import NO_SNAPSHOT, SnapshotInfo

MAIN = "main"
"""The branch whose snapshot is the table's current one."""

VERSIONS = (1, 2, 3)
NAME_MAPPING = "schema.name-mapping.default"
"""Table property: field ids for data files that have none."""

_GZIP = b"\x1f\x8b"
_STEP = 1 << 14
"""Bytes of a later gzip member that are decompressed at once."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field of a partition spec.

    Attributes:
        field_id: field id of the partition field.
        source_id: id of the source column; None if it is made from several.
        name: name of the partition field.
        transform: as the spec spells it: ``identity``, ``day``, ``bucket[16]``.
        column: name of the column in the current schema; None if it was dropped or is nested in another column.
    """

    field_id: int
    source_id: int | None
    name: str
    transform: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot as the metadata records it.

    Attributes:
        info: as in the model.
        sequence_number: 0 in tables of version 1.
        schema_id: its columns; None if it is not recorded.
        manifest_list: path as recorded; None if the snapshot lists manifests itself, as version 1 may.
        encrypted: whether a key is needed for its manifest list.
    """

    info: SnapshotInfo
    sequence_number: int
    schema_id: int | None
    manifest_list: str | None
    encrypted: bool


@dataclass(frozen=True, slots=True)
class Reference:
    """A branch or a tag.

    Attributes:
        snapshot_id: its snapshot; None for the main branch of a table that has none.
        is_branch: whether it can be committed to.
    """

    snapshot_id: int | None
    is_branch: bool


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """One metadata file.

    Attributes:
        source: the file.
        format_version: format version of the table: 1, 2 or 3.
        location: the table's folder as recorded.
        snapshots: by id, oldest first, the current one last.
        current: its id, None if the table has no current snapshot.
        references: branches and tags by name, the main branch among them.
        schemas: by schema id.
        current_schema_id: schema id of new snapshots.
        specs: partition specs by id.
        metadata_log: paths of earlier metadata files.
        statistics: paths of statistics and partition statistics files.
        name_mapping: the table property, unparsed.
    """

    source: str
    format_version: int
    location: str
    snapshots: dict[int, SnapshotRecord]
    current: int | None
    references: dict[str, Reference]
    schemas: dict[int, JsonFields]
    current_schema_id: int
    specs: dict[int, tuple[PartitionField, ...]]
    metadata_log: tuple[str, ...]
    statistics: tuple[str, ...]
    name_mapping: str | None

    @property
    def earlier(self) -> frozenset[str]:
        """Bare names of the earlier metadata files that this one lists."""
        return frozenset(path.rpartition("/")[2] for path in self.metadata_log)


def read_metadata(location: str, storage: Storage) -> TableMetadata:
    """Read a metadata file, gzip-compressed or not.

    Checked: the types of all members that are used here, that the current snapshot exists, that no snapshot is
    repeated, and that chains of parents end.

    Raises:
        DecodeError: the file is corrupt.
        Unsupported: another format version.
        OSError: it cannot be read.
    """
    members = read_members(location, storage)
    version = members.integer("format-version")
    if version not in VERSIONS:
        known = ", ".join(map(str, VERSIONS))
        raise Unsupported("format-version", source=location, expected=known, actual=version)
    schemas, current_schema = _schemas(members)
    snapshots, current = _snapshots(members)
    files = members.objects_if_any("statistics") + members.objects_if_any("partition-statistics")
    return TableMetadata(
        source=location,
        format_version=version,
        location=members.path("location").rstrip("/") or "/",
        snapshots=snapshots,
        current=current,
        references={**_references(members), MAIN: Reference(current, is_branch=True)},
        schemas=schemas,
        current_schema_id=current_schema,
        specs=_specs(members, schemas[current_schema]),
        metadata_log=tuple(item.path("metadata-file") for item in members.objects_if_any("metadata-log")),
        statistics=tuple(item.path("statistics-path") for item in files),
        name_mapping=members.object_if_any("properties").text_or_none(NAME_MAPPING),
    )


def _references(members: JsonFields) -> dict[str, Reference]:
    refs = members.object_if_any("refs")
    found = {name: refs.object_if_any(name) for name in refs.values}
    return {
        name: Reference(ref.integer("snapshot-id"), is_branch=ref.text_or_none("type") != "tag")
        for name, ref in found.items()
    }


def read_members(location: str, storage: Storage) -> JsonFields:
    """Read a metadata file as JSON, with all its members.

    Raises:
        NotCanonical: it is not a JSON object.
        LimitExceeded: it is larger than `Limits.max_metadata_bytes`.
        OSError: it cannot be read.
    """
    data = storage.read(location)
    text = _unzipped(data, location, storage.limits) if data.startswith(_GZIP) else data
    return JsonFields.of(parse_json(text, location, "table metadata"), location)


def _unzipped(data: bytes, location: str, limits: Limits) -> bytes:
    """Decompress metadata, and no more of it than the limit allows.

    The content may be in several members, one after the other, as for Java's ``GZIPInputStream``. Java ignores anything
    else after a member; here it is an error: what was damaged or appended is unknown.

    Raises:
        NotCanonical: a member is corrupt, or something else follows it.
        Truncated: the last member has no end.
        LimitExceeded: the content is too large.
    """
    with enough_memory("the metadata", location):
        return b"".join(_inflated(data, location, limits))


def _inflated(data: bytes, location: str, limits: Limits) -> Iterator[bytes]:
    size = at = 0
    inflater: zlib._Decompress | None = None
    # zlib copies all that it is given beyond the end of a member: not everything again for each of many members.
    step = len(data)
    while at < len(data):
        if inflater is None:
            if not _GZIP.startswith(data[at : at + len(_GZIP)]):
                expected, actual = "another member or the end", f"{len(data) - at} other bytes"
                raise NotCanonical("gzip", source=location, offset=at, expected=expected, actual=actual)
            inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        given = data[at : at + step]
        try:
            content = inflater.decompress(given, limits.max_metadata_bytes + 1 - size)
        except zlib.error as err:
            raise NotCanonical("gzip", source=location, expected="a valid stream", actual=str(err)) from None
        size += len(content)
        limits.check("max_metadata_bytes", size, location)
        if content:
            yield content
        at += len(given) - len(inflater.unused_data)
        step = _STEP
        if inflater.eof:
            inflater = None
    if inflater is not None:
        raise Truncated("gzip", source=location, expected="a whole stream", actual="no end")


def _schemas(members: JsonFields) -> tuple[dict[int, JsonFields], int]:
    if "schemas" not in members:  # version 1 has one
        schema = members.object("schema")
        number = schema.integer_or_none("schema-id") or 0
        return {number: schema}, number
    schemas = {schema.integer("schema-id"): schema for schema in members.objects("schemas")}
    current = members.integer("current-schema-id")
    if current not in schemas:
        members.fail("current-schema-id", "one of schemas", current)
    return schemas, current


def _specs(members: JsonFields, schema: JsonFields) -> dict[int, tuple[PartitionField, ...]]:
    found = schema.values.get("fields")  # errors are raised on reading it
    items = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    columns: dict[int | None, str] = {
        item["id"]: item["name"] for item in items if type(item.get("id")) is int and isinstance(item.get("name"), str)
    }
    if "partition-specs" not in members:  # version 1 has one
        return {0: _partition_fields(members, "partition-spec", columns)}
    return {
        spec.integer("spec-id"): _partition_fields(spec, "fields", columns)
        for spec in members.objects("partition-specs")
    }


def _partition_fields(spec: JsonFields, name: str, columns: Mapping[int | None, str]) -> tuple[PartitionField, ...]:
    return tuple(
        PartitionField(
            1000 + i if "field-id" not in item else item.integer("field-id"),  # version 1 counts from 1000
            item.integer_or_none("source-id"),
            item.column_name("name"),
            item.text("transform"),
            columns.get(item.integer_or_none("source-id")),
        )
        for i, item in enumerate(spec.objects(name))
    )


def _snapshots(members: JsonFields) -> tuple[dict[int, SnapshotRecord], int | None]:
    found: dict[int, SnapshotRecord] = {}
    for item in members.objects_if_any("snapshots"):
        record = _snapshot(item)
        if record.info.id in found:
            item.fail("snapshot-id", "each snapshot once", f"{record.info.id} twice")
        found[record.info.id] = record
    _check_parents(found, members)
    current = members.integer_or_none("current-snapshot-id")
    if current == NO_SNAPSHOT:
        current = None
    if current is not None and current not in found:
        members.fail("current-snapshot-id", "one of snapshots", current)
    ordered = sorted(
        found.values(), key=lambda one: (one.info.id == current, one.sequence_number, one.info.timestamp_ms)
    )
    return {record.info.id: record for record in ordered}, current


def _snapshot(item: JsonFields) -> SnapshotRecord:
    info = SnapshotInfo(
        item.integer("snapshot-id"),
        item.integer("timestamp-ms"),
        item.object_if_any("summary").text_or_none("operation"),
        item.integer_or_none("parent-snapshot-id"),
    )
    if "manifest-list" not in item and "manifests" not in item:
        item.fail("manifest-list", "a path")
    return SnapshotRecord(
        info if info.parent != NO_SNAPSHOT else replace(info, parent=None),
        item.integer_or_none("sequence-number", least=0) or 0,
        item.integer_or_none("schema-id"),
        item.path("manifest-list") if "manifest-list" in item else None,
        "key-id" in item,
    )


def _check_parents(snapshots: dict[int, SnapshotRecord], members: JsonFields) -> None:
    """Check that the chains of parents end."""
    ended: set[int] = set()
    for start in snapshots:
        way: dict[int, None] = {}
        number: int | None = start
        while number in snapshots and number not in ended:
            if number in way:
                members.fail("snapshots", "parents that lead to a first snapshot", f"{number} is its own ancestor")
            way[number] = None
            number = snapshots[number].info.parent
        ended.update(way)
