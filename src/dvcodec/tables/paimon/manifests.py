"""Manifest lists, manifests and index manifests, read and kept.

Specification: Paimon's "Manifest"; Java classes ``ManifestList``, ``ManifestFile``, ``ManifestEntry`` and
``DataFileMeta``. All are files of records (see `dvcodec.paimon`) in ``manifest/``. A snapshot's base list and
delta list name manifests, whose entries add and delete data files: a file that is added and not deleted is live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import hide_values
from dvcodec.paimon import IndexManifestEntry, Records, read_index_manifest, read_records
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.cache import Cache
from dvcodec.tables.metadata.json_fields import bare_name
from dvcodec.tables.paimon.entries import ENTRIES, VERSION, Entries, read_entry, read_in_columns

_KEPT_ENTRIES = 500_000
"""Maximum number of cached entries, about 0.2 KB each: snapshots may list the same manifests by turns."""
_KEPT_VECTORS = 50_000
"""Maximum number of cached vectors, about 1 KB each: snapshots may have the same index manifest by turns."""
LIST = {
    "type": "record",
    "fields": [{"name": "_VERSION", "type": "int"}, {"name": "_FILE_NAME", "type": "string"}],
}
"""The used fields of a manifest list."""


def read_manifest_list(folder: Folder, name: str) -> list[str]:
    """Return the bare names of the manifests that a list names.

    Raises:
        DecodeError: the list is corrupt, or names a manifest twice.
        OSError: it cannot be read.
    """
    stored = read_stored(folder, name, LIST)
    found: dict[str, None] = {}
    for record in stored.records:
        manifest = bare_name(record["_FILE_NAME"], "_FILE_NAME", stored.source)
        if manifest in found:
            expected = "each manifest once"
            raise NotCanonical("_FILE_NAME", source=stored.source, expected=expected, actual=f"{manifest!r:.80} twice")
        found[manifest] = None
    return list(found)


class Manifests:
    """Reads the manifests of a table, and keeps those that were read last: an audit, or a history, reads them again."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._kept: Cache[str, Entries] = Cache(_KEPT_ENTRIES, len)
        self._lists: Cache[str, list[str]] = Cache(_KEPT_ENTRIES, lambda names: len(names) + 1)
        self._indexes: Cache[str, tuple[IndexManifestEntry, ...]] = Cache(_KEPT_VECTORS, _count_vectors)

    def listed(self, name: str) -> list[str]:
        """Return the bare names of the manifests that a list names; see `read_manifest_list`."""
        return self._lists.get(name, lambda: read_manifest_list(self._folder, name))

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, Entries]]:
        """Yield manifests by name, in order; several are read concurrently if they are remote.

        Raises:
            DecodeError, OSError: see `read_manifest`.
        """

        def read(name: str) -> tuple[str, Entries]:
            return name, self._kept.get(name, lambda: read_manifest(self._folder, name))

        return run_bounded(read, names, self._folder.storage.readers(self._folder.location))

    def index(self, name: str) -> tuple[IndexManifestEntry, ...]:
        """Return the entries of an index manifest, in order.

        Raises:
            DecodeError, OSError: see `dvcodec.paimon.read_index_manifest`.
        """
        source, storage = self._folder.join(f"manifest/{name}"), self._folder.storage
        return self._indexes.get(
            name, lambda: tuple(read_index_manifest(source, limits=storage.limits, storage_options=storage))
        )

    def live_index(self, name: str) -> tuple[IndexManifestEntry, ...]:
        """Return the entries of a snapshot's index manifest, which deletes none.

        Raises:
            DecodeError, OSError: see `index`.
        """
        entries = self.index(name)
        for entry in entries:
            if entry.kind != "ADD":
                source, actual = self._folder.join(f"manifest/{name}"), f"{entry.kind} {entry.file_name!r}"
                raise NotCanonical("_KIND", source=source, expected="ADD", actual=actual)
        return entries


def _count_vectors(entries: Iterable[IndexManifestEntry]) -> int:
    return sum(1 + len(entry.vectors or ()) for entry in entries)


def read_manifest(folder: Folder, name: str) -> Entries:
    """Return a manifest's entries, in file order.

    Raises:
        DecodeError: the manifest is corrupt.
        OSError: it cannot be read.
    """
    stored = read_stored(folder, name, ENTRIES)
    found = None if stored.file is None else read_in_columns(stored.file, stored.source)
    return Entries.of(read_entry(record, stored.source) for record in stored.records) if found is None else found


def read_stored(folder: Folder, name: str, known: Mapping[str, Any]) -> Records:
    """Read a manifest list or a manifest with all its fields.

    Args:
        folder: the table's.
        name: bare name of the file.
        known: `LIST`; or `ENTRIES`, whose records `read_entry` reads.

    Raises:
        DecodeError: it is corrupt.
        OSError: it cannot be read.
    """
    location = folder.join(f"manifest/{name}")
    with folder.storage.open(location) as source:
        found = read_records(source, known, "that of a manifest", limits=folder.storage.limits)
    return replace(found, source=location, records=_checked(found.records, location, folder))


def _checked(records: Iterator[dict[str, Any]], location: str, folder: Folder) -> Iterator[dict[str, Any]]:
    with hide_values(location, folder.storage.home):
        for record in records:
            if record["_VERSION"] != VERSION:
                found = record["_VERSION"]
                raise Unsupported("_VERSION", source=location, offset=0, expected=VERSION, actual=found)
            yield record
