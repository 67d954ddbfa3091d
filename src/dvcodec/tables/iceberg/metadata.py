"""The metadata file of an Iceberg table: which is the latest, what it has, and what a commit changes in it.

Specification: Iceberg table spec, "Table Metadata and Snapshots". Schemas are kept as JSON: an unknown type
does not prevent listing files. A commit keeps all members that it does not change, including unknown ones; bounds and
order of the logs are those of Iceberg Java's ``TableMetadata.Builder``.

Names and version hint of a table without a catalog are those that Java's ``HadoopTableOperations`` and
``BaseMetastoreTableOperations`` write: ``v3.metadata.json`` with a hint, or ``00003-<uuid>.metadata.json`` without;
compressed ones have ``.gz`` before ``.metadata.json``, older ones after it.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dvcodec.core.errors import DvcodecError, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.core.json_text import encode_json, parse_json
from dvcodec.core.limits import Limits, enough_memory
from dvcodec.io import Storage, read_up_to
from dvcodec.io.store import ObjectChanged
from dvcodec.io.target import file_key, is_outside, split
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import METADATA_SUFFIXES, NO_SNAPSHOT, SnapshotInfo

MAIN = "main"
"""The branch whose snapshot is the table's current one."""

_GZIP = b"\x1f\x8b"
_STEP = 1 << 20
"""Bytes that are decompressed at once."""


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
    if not 1 <= version <= 3:
        raise Unsupported("format-version", source=location, expected="1, 2, 3", actual=version)
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
        name_mapping=members.object_if_any("properties").text_or_none("schema.name-mapping.default"),
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
    else after a member; here only zeros may follow, as padding: what was damaged or appended is unknown.

    Raises:
        NotCanonical: a member is corrupt, or something else follows it.
        Truncated: the last member has no end.
        LimitExceeded: the content is too large.
    """
    pieces, size = [], 0
    with enough_memory("the metadata", location), gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        try:
            while piece := file.read(_STEP):
                size += len(piece)
                limits.check("max_metadata_bytes", size, location)
                pieces.append(piece)
        except EOFError:
            raise Truncated("gzip", source=location, expected="a whole stream", actual="no end") from None
        except (gzip.BadGzipFile, zlib.error) as err:
            raise NotCanonical("gzip", source=location, expected="a valid stream", actual=str(err)) from None
        return b"".join(pieces)


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


METADATA = "metadata"
"""Folder of metadata files in a table's folder."""
VERSION_HINT = "version-hint.text"
"""Names the current version in tables without a catalog."""
HADOOP_NAME = re.compile(r"v([0-9]{1,18})(?:\.gz)?\.metadata\.json(?:\.gz)?")
"""Names of metadata files in tables without a catalog."""

_CATALOG_NAME = re.compile(r"([0-9]{1,18})-.*?(?:\.gz)?\.metadata\.json(?:\.gz)?", re.DOTALL)
_HINT_BYTES, _HINT_ATTEMPTS = 4096, 10
_NUMBER = re.compile("[0-9]+")
_SHOWN_DIGITS, _SHOWN_NAMES = 18, 5
_MOST_TRIED = 10


def version_of(name: str) -> int:
    """Return the version in the name of a metadata file, -1 if it has none.

    >>> version_of("v3.metadata.json"), version_of("00004-1f.gz.metadata.json"), version_of("vfinal.metadata.json")
    (3, 4, -1)
    """
    match = HADOOP_NAME.fullmatch(name) or _CATALOG_NAME.fullmatch(name)
    return int(match[1]) if match else -1


def without_version(names: Iterable[str]) -> tuple[str, ...]:
    """Return the metadata files without a version in their names: their order is unknown.

    >>> without_version(["v1.metadata.json", "vfinal.metadata.json", "snap-1.avro"])
    ('vfinal.metadata.json',)
    """
    return tuple(sorted(name for name in names if name.endswith(METADATA_SUFFIXES) and version_of(name) < 0))


def some_of(names: Sequence[str]) -> str:
    """Return the first names for a message, and how many more there are.

    >>> some_of(["a", "b"]), some_of(["a", "b", "c", "d", "e", "f", "g"])
    ('a and b', 'a, b, c, d, e and 2 more')
    """
    more = len(names) - _SHOWN_NAMES
    shown = [*names[:_SHOWN_NAMES], *([f"{more} more"] if more > 0 else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def remove_old(folder: Folder, newest: str, paths: Iterable[str]) -> None:
    """Remove old metadata files, as far as it can be done: those next to the newest one.

    A table's log may name any file, even one that is not metadata, or not the table's.

    Args:
        folder: the table's folder.
        newest: location of the newest metadata file.
        paths: as the metadata log records them.
    """
    beside, kept = file_key(split(newest)[0]), file_key(newest)
    for path in paths:
        with suppress(DvcodecError, OSError):
            location = folder.locate(path)
            parent, name = split(location)
            if file_key(parent) == beside and version_of(name) >= 0 and file_key(location) != kept:
                folder.storage.remove(location)


def check_newest(location: str, storage: Storage, older: Collection[str] = ()) -> None:
    """Check that no metadata file next to this one has a higher number, the same, or none.

    Args:
        location: location of the metadata file.
        storage: lists its folder.
        older: bare names of metadata files that are known to be older, whatever their names.

    Raises:
        UsageError: there is one, or this one has no number and others have.
        OSError: its folder cannot be listed.
    """
    folder, own = split(location)
    names = [name for name in storage.names(folder) if name not in older]
    numbered = _numbered(names)
    last = max(numbered, default=0)
    others = [name for name in (*numbered.get(last, ()), *without_version(names)) if name != own]
    if others:
        raise UsageError(f"{location}: {others[0]} beside it may be newer, and need files that this one does not name")


def _numbered(names: Iterable[str]) -> dict[int, list[str]]:
    numbered: dict[int, list[str]] = {}
    for name in names:
        version = version_of(name)
        if version >= 0:
            numbered.setdefault(version, []).append(name)
    return numbered


def older_metadata(names: Iterable[str], current: str) -> list[str]:
    """Return the metadata files before the current one, the newest first; of many, the first few."""
    last = version_of(current)
    older = [
        name for name in names if name != current and version_of(name) >= 0 and (last < 0 or version_of(name) <= last)
    ]
    return sorted(older, key=version_of, reverse=True)[:_MOST_TRIED]


def find_metadata(folder: Folder, names: Collection[str] | None = None) -> str:
    """Return the location of the latest metadata file.

    The version hint is followed, and from there every next version that exists, as in Java; without a hint, or with an
    empty one (as Impala writes), it is the file with the highest number. Unknown here: which file a catalog considers
    current, and how new files without a version in their names are (see `without_version`).

    Args:
        folder: the table's.
        names: names in its metadata folder, if that was listed already.

    Raises:
        UsageError: there is none, or two of the highest number: only a catalog knows which one is current.
        NotCanonical: the hint names a version that does not exist.
    """
    names = folder.names(METADATA) if names is None else names
    numbered = _numbered(names)
    nameless = without_version(names)
    if not numbered and not nameless:
        raise UsageError(f"{folder.location}: no *.metadata.json below {METADATA}")
    version = max(numbered, default=-1)
    hint = _read_hint(folder) if VERSION_HINT in names else ""
    if hint:
        if not _NUMBER.fullmatch(hint):
            found = [name for name in names if name in (hint, f"{hint}.metadata.json")]
            if not found:
                raise _bad_hint(folder, hint)
            return folder.join(f"{METADATA}/{found[0]}")
        version = int(hint)
        if version not in numbered:  # it may have been committed after the names were listed
            folder.storage.forget()
            numbered = _numbered(folder.names(METADATA))
        if version not in numbered:
            raise _bad_hint(folder, hint)
        while version + 1 in numbered:
            version += 1
    if not numbered:
        message = some_of(nameless)
        raise UsageError(
            f"{folder.location}: no version in the names below {METADATA} ({message}): open a file by its path"
        )
    if len(numbered[version]) > 1:
        message = some_of(sorted(numbered[version]))
        raise UsageError(
            f"{folder.location}: {message} share version {version}: name the catalog, or open the one meant by its path"
        )
    return folder.join(f"{METADATA}/{numbered[version][0]}")


def _read_hint(folder: Folder) -> str:
    """Return the hint. Each commit replaces it, so its listed size may be outdated, and it may change between requests.

    Raises:
        ObjectChanged: it did so again and again.
    """
    for _ in range(_HINT_ATTEMPTS - 1):
        with suppress(ObjectChanged):
            return _hint(folder)
    return _hint(folder)


def _hint(folder: Folder) -> str:
    with folder.storage.open(folder.join(f"{METADATA}/{VERSION_HINT}")) as source:
        return bytes(read_up_to(source, 0, _HINT_BYTES).view).decode("utf-8", "replace").strip()


def _bad_hint(folder: Folder, hint: str) -> NotCanonical:
    """Return the error for a hint; only a number is shown: the file may have any contents, or be a link to any file."""
    source = folder.join(f"{METADATA}/{VERSION_HINT}")
    is_shown = _NUMBER.fullmatch(hint) and len(hint) <= _SHOWN_DIGITS and not is_outside(source, folder.location)
    shown = hint if is_shown else "something else"
    return NotCanonical("version hint", source=source, expected="an existing version", actual=shown)


_PREVIOUS_MAX = "write.metadata.previous-versions-max"
_DELETE_AFTER = "write.metadata.delete-after-commit.enabled"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Change:
    """A commit.

    Attributes:
        timestamp_ms: of the commit.
        snapshot: the new snapshot, as the metadata has it; None = no new snapshot.
        upgrade: the new format version; None = unchanged.
        branch: whose snapshot it is.
    """

    timestamp_ms: int
    snapshot: Mapping[str, Any] | None = None
    upgrade: int | None = None
    branch: str = MAIN

    @property
    def snapshot_id(self) -> int:
        """Id of the new snapshot, or `NO_SNAPSHOT`."""
        return NO_SNAPSHOT if self.snapshot is None else int(self.snapshot["snapshot-id"])


def properties_of(members: JsonFields) -> dict[str, str]:
    """Return the table's properties.

    Raises:
        NotCanonical: one is not text.
    """
    found = members.object_if_any("properties")
    return {name: found.text(name) for name in found.values}


def number_of(text: str | None, default: int) -> int:
    """Return the number that a property has as text; the default if it is missing, not a number, or a huge one.

    >>> number_of("-3", 100), number_of("few", 100), number_of("9" * 5000, 100)
    (-3, 100, 100)
    """
    return int(text) if text is not None and _INTEGER.fullmatch(text) else default


def changed(members: JsonFields, change: Change, source: str) -> dict[str, Any]:
    """Return the new metadata.

    Args:
        members: the metadata of the base snapshot.
        change: the commit.
        source: path of that metadata file, to be recorded in the log of the new one.

    Raises:
        NotCanonical: a member has another type.
    """
    new = dict(members.values)
    if change.upgrade is not None:
        new["format-version"] = change.upgrade
        new["next-row-id"] = members.integer("next-row-id", least=0) if "next-row-id" in members else 0
    snapshot = change.snapshot
    if snapshot is not None:
        number = snapshot["snapshot-id"]
        entry = {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": number}
        refs = members.object_if_any("refs")
        branch = refs.object_if_any(change.branch).values
        new["snapshots"] = [*members.array_if_any("snapshots"), dict(snapshot)]
        new["refs"] = {**refs.values, change.branch: {"type": "branch", **branch, "snapshot-id": number}}
        if change.branch == MAIN:
            new["snapshot-log"] = [*members.array_if_any("snapshot-log"), entry]
            new["current-snapshot-id"] = number
        new["last-sequence-number"] = snapshot["sequence-number"]
        if "first-row-id" in snapshot:  # from version 3 on
            new["next-row-id"] = _next_row_id(members, snapshot)
    log = members.array_if_any("metadata-log")
    most = max(1, number_of(properties_of(members).get(_PREVIOUS_MAX), 100))
    kept = log[len(log) - most + 1 :] if len(log) >= most else log
    new["metadata-log"] = [*kept, {"timestamp-ms": members.integer("last-updated-ms"), "metadata-file": source}]
    new["last-updated-ms"] = change.timestamp_ms
    return new


def forgotten(members: JsonFields, new: Mapping[str, Any]) -> list[str]:
    """Return the paths of metadata files to remove after the commit, by the table's properties."""
    if properties_of(members).get(_DELETE_AFTER, "").lower() != "true":
        return []
    kept = {entry["metadata-file"] for entry in new["metadata-log"]}
    before = (entry.path("metadata-file") for entry in members.objects_if_any("metadata-log"))
    return [path for path in before if path not in kept]


def metadata_bytes(new: Mapping[str, Any], name: str, base: str) -> bytes:
    """Return the content of a metadata file.

    Args:
        new: the metadata.
        name: of the file; it says whether it is compressed.
        base: the metadata file before, for errors.

    Raises:
        NotCanonical: JSON cannot represent the metadata, see `encode_json`.
    """
    data = encode_json(new, base, "table metadata")
    return gzip.compress(data) if name.endswith((".gz.metadata.json", ".gz")) else data


def _next_row_id(members: JsonFields, snapshot: Mapping[str, Any]) -> int:
    number = int(snapshot["first-row-id"]) + int(snapshot["added-rows"])
    if number >= 1 << 63:
        raise NotCanonical("next-row-id", source=members.source, expected="a 64-bit number", actual=number)
    return number
