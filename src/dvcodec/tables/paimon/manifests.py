"""Manifest lists and manifests: the data files of a snapshot.

Specification: Paimon's "Manifest"; Java classes ``ManifestList``, ``ManifestFile``, ``ManifestEntry`` and
``DataFileMeta``. All are Avro container files in ``manifest/``. A snapshot's base list and delta list name manifests,
whose entries add and delete data files: a file that is added and not deleted is live. Entries are of the same file if
they agree in partition, bucket, level, name, extra files, embedded index and external path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dvcodec.core import avro
from dvcodec.core.avro_schema import differs
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS
from dvcodec.io import read_window
from dvcodec.io.parallel import run_bounded
from dvcodec.tables.folder import Folder
from dvcodec.tables.json_fields import bare_name

__all__ = ["ManifestEntry", "live_entries", "read_manifest", "read_manifest_list", "read_manifests"]

VERSION = 2
ADD, DELETE = 0, 1


def _optional(kind: object) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


_TEXTS = {"type": "array", "items": "string"}
_LIST_SCHEMA = {
    "type": "record",
    "fields": [{"name": "_VERSION", "type": "int"}, {"name": "_FILE_NAME", "type": "string"}],
}
_ENTRY_SCHEMA = {
    "type": "record",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {
            "name": "_FILE",
            "type": {
                "type": "record",
                "fields": [
                    {"name": "_FILE_NAME", "type": "string"},
                    {"name": "_FILE_SIZE", "type": "long"},
                    {"name": "_ROW_COUNT", "type": "long"},
                    {"name": "_SCHEMA_ID", "type": "long"},
                    {"name": "_LEVEL", "type": "int"},
                    {"name": "_EXTRA_FILES", "type": _TEXTS},
                    {"name": "_DELETE_ROW_COUNT", **_optional("long")},
                    {"name": "_EMBEDDED_FILE_INDEX", **_optional("bytes")},
                    {"name": "_EXTERNAL_PATH", **_optional("string")},
                    {"name": "_FIRST_ROW_ID", **_optional("long")},
                    {"name": "_WRITE_COLS", **_optional(_TEXTS)},
                ],
            },
        },
    ],
}
"""What is used here. Producers write more, and older ones lack what has a default."""
_STATISTICS = frozenset({"_MIN_KEY", "_MAX_KEY", "_KEY_STATS", "_VALUE_STATS", "_EMBEDDED_FILE_INDEX"})
"""What is dropped once an entry is read: a reader may skip files by it, and it is large."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data file that a manifest adds or deletes.

    Attributes:
        manifest: the manifest's file, for errors.
        deleted: whether the entry deletes it.
        identity: equal for entries of the same file.
        partition: serialized.
        bucket: number.
        file: ``_FILE``, its statistics left out.
    """

    manifest: str
    deleted: bool
    identity: tuple[object, ...]
    partition: bytes
    bucket: int
    file: Mapping[str, Any]


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the entries of the live files, in the order in which they were added.

    Raises:
        NotCanonical: a file was added twice.
    """
    entries = list(entries)
    deleted = {entry.identity for entry in entries if entry.deleted}
    found: dict[tuple[object, ...], ManifestEntry] = {}
    for entry in entries:
        if entry.deleted or entry.identity in deleted:
            continue
        if entry.identity in found:
            name = entry.file["_FILE_NAME"]
            raise NotCanonical("_FILE", source=entry.manifest, expected=f"{name!r:.80} added once", actual="twice")
        found[entry.identity] = entry
    return list(found.values())


def read_manifest_list(folder: Folder, name: str) -> list[str]:
    """Return the bare names of the manifests that a list names.

    Raises:
        DecodeError: the list is corrupt.
        OSError: it cannot be read.
    """
    source = folder.join(f"manifest/{name}")
    return [bare_name(record["_FILE_NAME"], "_FILE_NAME", source) for record in _records(folder, source, _LIST_SCHEMA)]


def read_manifests(folder: Folder, names: Iterable[str]) -> Iterator[tuple[str, list[ManifestEntry]]]:
    """Yield manifests by name, in order; several are read concurrently if they are remote.

    Raises:
        DecodeError, OSError: see `read_manifest`.
    """
    return run_bounded(lambda name: (name, read_manifest(folder, name)), names, folder.storage.readers(folder.location))


def read_manifest(folder: Folder, name: str) -> list[ManifestEntry]:
    """Return a manifest's entries, in file order.

    Raises:
        DecodeError: the manifest is corrupt.
        OSError: it cannot be read.
    """
    source = folder.join(f"manifest/{name}")
    return [_entry(record, source) for record in _records(folder, source, _ENTRY_SCHEMA)]


def _records(folder: Folder, location: str, known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    with folder.storage.open(location) as source:
        cursor = read_window(source, 0, min(source.size, DEFAULT_LIMITS.max_manifest_bytes + 1))
    file = avro.decode(cursor)
    problem = differs(file.schema, known)
    if problem:
        raise cursor.error(Unsupported, "Avro schema", at=0, expected="that of a manifest", actual=problem)
    for record in file.records():
        if record["_VERSION"] != VERSION:
            raise cursor.error(Unsupported, "_VERSION", at=0, expected=VERSION, actual=record["_VERSION"])
        yield record


def _entry(record: Mapping[str, Any], source: str) -> ManifestEntry:
    kind, file = record["_KIND"], record["_FILE"]
    if kind not in (ADD, DELETE):
        raise NotCanonical("_KIND", source=source, expected="0 (ADD) or 1 (DELETE)", actual=kind)
    bare_name(file["_FILE_NAME"], "_FILE_NAME", source)
    for extra in file["_EXTRA_FILES"]:
        bare_name(extra, "_EXTRA_FILES", source)
    for name in ("_FILE_SIZE", "_ROW_COUNT", "_SCHEMA_ID", "_LEVEL"):
        if file[name] < 0:
            raise NotCanonical(name, source=source, expected="0 or more", actual=file[name])
    identity = (
        record["_PARTITION"],
        record["_BUCKET"],
        file["_LEVEL"],
        file["_FILE_NAME"],
        tuple(file["_EXTRA_FILES"]),
        file.get("_EMBEDDED_FILE_INDEX"),
        file.get("_EXTERNAL_PATH"),
    )
    kept = {name: value for name, value in file.items() if name not in _STATISTICS}
    return ManifestEntry(source, kind == DELETE, identity, record["_PARTITION"], record["_BUCKET"], kept)
