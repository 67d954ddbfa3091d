"""The snapshots of a table one after another, each by the data files whose entries or vectors differ.

Snapshots share most of their manifests: a commit usually adds one to those of the snapshot before, and its index
manifest repeats the vectors that it does not change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from dvcodec.core.errors import NotCanonical
from dvcodec.paimon import DeletionVectorMeta, IndexManifestEntry
from dvcodec.tables.folder import Folder
from dvcodec.tables.paimon.manifests import ManifestEntry, Manifests, live_entries
from dvcodec.tables.paimon.metadata import SnapshotRecord

__all__ = ["FileKey", "Part", "StateWalk", "file_key"]

FileKey: TypeAlias = tuple[bytes, int, str]
"""A data file as vectors name it, or an index file: serialized partition, bucket, bare name."""
Identity: TypeAlias = tuple[object, ...]
Places: TypeAlias = list[tuple[FileKey, DeletionVectorMeta]]
"""The vectors of a data file: the key of each one's index file, and where in it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some data files of a snapshot, and their vectors.

    Attributes:
        state: the snapshot.
        keys: these data files, and others that have vectors and are gone.
        entries: the data files.
        index: the index files of their vectors, which have those of other data files too.
    """

    state: SnapshotRecord
    keys: Collection[FileKey]
    entries: Collection[ManifestEntry]
    index: Collection[IndexManifestEntry]


class StateWalk:
    """Goes from snapshot to snapshot. A step costs what differs, if manifests are only added to the earlier ones.

    Args:
        folder: the table's.
        state: where the walk starts.
        manifests: reads the table's manifests.

    Attributes:
        state: the snapshot that it is at.

    Raises:
        DecodeError: a manifest is corrupt.
        OSError: it cannot be read.
    """

    def __init__(self, folder: Folder, state: SnapshotRecord, manifests: Manifests) -> None:
        self._folder = folder
        self._manifests = manifests
        self._names: frozenset[str] = frozenset()
        self._live: dict[Identity, ManifestEntry] = {}
        self._deleted: set[Identity] = set()
        self._identities: defaultdict[FileKey, dict[Identity, None]] = defaultdict(dict)
        self._index_manifest: str | None = None
        self._index: dict[FileKey, IndexManifestEntry] = {}
        self._places: dict[FileKey, Places] = {}
        self.state = state
        self._go(state)

    def step(self, state: SnapshotRecord) -> tuple[Part, Part]:
        """Go to a snapshot.

        Returns:
            Its predecessor in this walk and the snapshot, of the data files that are only in one of them or have other
            vectors. All entries and vectors of these data files are there.

        Raises:
            DecodeError: a manifest is corrupt.
            OSError: it cannot be read.
        """
        return self._go(state)

    def _go(self, state: SnapshotRecord) -> tuple[Part, Part]:
        gone, new = self._changed_files(state)
        index, places = self._index, self._places
        if state.index_manifest != self._index_manifest:
            index, places = self._read_index(state.index_manifest)
        keys = dict.fromkeys(map(file_key, (*gone.values(), *new.values())))
        if places is not self._places:
            keys.update((key, None) for key, found in self._places.items() if places.get(key) != found)
            keys.update((key, None) for key in places if key not in self._places)
        before = self._part(keys)
        for identity, entry in gone.items():
            del self._live[identity]
            left = self._identities[file_key(entry)]
            del left[identity]
            if not left:
                del self._identities[file_key(entry)]
        for identity, entry in new.items():
            self._live[identity] = entry
            self._identities[file_key(entry)][identity] = None
        self._index, self._places, self.state = index, places, state
        self._index_manifest = state.index_manifest
        return before, self._part(keys)

    def _part(self, keys: Collection[FileKey]) -> Part:
        entries = [self._live[one] for key in keys for one in self._identities.get(key, ())]
        index = dict.fromkeys(own for key in keys for own, _ in self._places.get(key, ()))
        return Part(self.state, keys, entries, [self._index[own] for own in index])

    def _changed_files(
        self, state: SnapshotRecord
    ) -> tuple[dict[Identity, ManifestEntry], dict[Identity, ManifestEntry]]:
        """Return the data files that a snapshot does not have any more, and those that it has in addition."""
        lists = (state.base_manifest_list, state.delta_manifest_list)
        names = [name for one in lists for name in self._manifests.listed(one)]
        if self._names.issubset(names):
            entries = self._entries(name for name in names if name not in self._names)
            deleted = dict.fromkeys(entry.identity for entry in entries if entry.deleted)
            self._deleted.update(deleted)
            gone = {identity: self._live[identity] for identity in deleted if identity in self._live}
            added = live_entries(entry for entry in entries if entry.deleted or entry.identity not in self._deleted)
            new = {entry.identity: entry for entry in added}
            twice = next((entry for entry in added if entry.identity in self._live), None)
            if twice is not None:
                expected = f"{twice.file.file_name!r:.80} added once"
                raise NotCanonical("_FILE", source=twice.manifest, expected=expected, actual="twice")
        else:
            entries = self._entries(names)
            live = {entry.identity: entry for entry in live_entries(entries)}
            self._deleted = {entry.identity for entry in entries if entry.deleted}
            gone = {identity: entry for identity, entry in self._live.items() if identity not in live}
            new = {identity: entry for identity, entry in live.items() if identity not in self._live}
        self._names = frozenset(names)
        return gone, new

    def _entries(self, names: Iterable[str]) -> list[ManifestEntry]:
        """Return the entries of manifests."""
        return [entry for _, entries in self._manifests.read(names) for entry in entries]

    def _read_index(self, name: str | None) -> tuple[dict[FileKey, IndexManifestEntry], dict[FileKey, Places]]:
        """Return the index files of an index manifest by their keys, and where the vectors of each data file are."""
        entries = () if name is None else self._manifests.live_index(name)
        index = {(entry.partition, entry.bucket, entry.file_name): entry for entry in entries}
        found: defaultdict[FileKey, Places] = defaultdict(list)
        for own, entry in index.items():
            for meta in entry.vectors or ():
                found[entry.partition, entry.bucket, meta.data_file].append((own, meta))
        return index, dict(found)


def file_key(entry: ManifestEntry) -> FileKey:
    """Return what the vectors of a data file name it by."""
    return entry.file.partition, entry.file.bucket, entry.file.file_name
