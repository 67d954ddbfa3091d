"""Paimon tables, and the files that some snapshot, tag or changelog still needs (Java class ``OrphanFilesClean``).

States are snapshots, tags and changelogs, of the table and of its branches. Branches
have their own metadata folders (``branch/branch-NAME``) and share the table's data and manifests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import TypeAlias

from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.paimon import DeletionVectorMeta, IndexManifestEntry
from dvcodec.tables.deleting import WritableTable
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import NO_SNAPSHOT, DataFile, DeletionVector, SnapshotInfo, TableKind
from dvcodec.tables.paimon.manifests import ManifestEntry, Manifests, live_entries
from dvcodec.tables.paimon.metadata import SnapshotRecord, TableSchema, numbered, read_schema, read_snapshot
from dvcodec.tables.paimon.partition import Layout
from dvcodec.tables.paimon.rows import visible_records
from dvcodec.tables.paimon.snapshot import PaimonSnapshot
from dvcodec.tables.paimon.vectors import IndexedVector, vectors_of_entry
from dvcodec.tables.snapshots.older import checks_snapshot
from dvcodec.tables.table import Contents, Key, Snapshot, Walk

FileKey: TypeAlias = tuple[bytes, int, str]
"""A data file as vectors name it, or an index file: serialized partition, bucket, bare name."""
Recorded: TypeAlias = ManifestEntry | tuple[FileKey, DeletionVectorMeta]
"""A data file; or a vector, by the key of its index file and its place there."""


def open(location: Folder | str | os.PathLike[str]) -> PaimonTable:  # noqa: A001  (every kind of table has one)
    """Open a table by its folder. Nothing is read yet."""
    return PaimonTable(Folder.of(location))


class PaimonTable(WritableTable):
    """A Paimon table, read from its folder.

    Its snapshots include expired ones that are tagged. A snapshot opened by its id has the schema that it was
    committed with, the current one the newest; options are those of the commit. Branches are tables of their own
    (``branch/branch-NAME``) and are not listed; their files count as needed. A branch has snapshots, tags and schemas;
    its manifests and data are in the folder of the table that it is a branch of.
    """

    kind = TableKind.PAIMON

    def __init__(self, location: Folder | str) -> None:
        """Open a table by its folder; nothing is read yet."""
        self.folder = Folder.of(location)
        self._schemas: dict[int, TableSchema] = {}

    @cached_property
    def _root(self) -> Folder:
        """The folder of manifests, index files and data files."""
        of_branch = re.fullmatch(r"(.+)/branch/branch-[^/]+", self.folder.location)
        if of_branch is None or self.folder.names("manifest"):
            return self.folder
        return replace(self.folder, location=of_branch[1])

    @cached_property
    def manifests(self) -> Manifests:
        """Reads the table's manifests."""
        return Manifests(self._root)

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the snapshots that still have metadata; see `Table.snapshots`."""
        return tuple(self.state(name).info for name in self._state_names().values())

    @checks_snapshot
    def snapshot(self, id: int | None = None) -> PaimonSnapshot:  # noqa: A002
        """Return a snapshot; see `Table.snapshot`."""
        if id in (None, NO_SNAPSHOT) and not self._state_names():
            newest = self._newest_schema()
            return PaimonSnapshot(
                self, SnapshotInfo(NO_SNAPSHOT), (), (), newest, partitions=None, visible={}, schemas=self._schema
            )
        return self._whole(self._find(id), id)

    def _whole(self, state: SnapshotRecord, id: int | None) -> PaimonSnapshot:  # noqa: A002
        schema = self._schema(state.schema_id)
        manifests = [
            name
            for manifest_list in (state.base_manifest_list, state.delta_manifest_list)
            for name in self.manifests.listed(manifest_list)
        ]
        entries = live_entries(entry for _, found in self.manifests.read(manifests) for entry in found)
        index = () if state.index_manifest is None else self.manifests.live_index(state.index_manifest)
        snapshot = self._snapshot(state, entries, index)
        shown = self._newest_schema() if id is None else state.schema_id
        self._schema(shown)  # its errors are errors of the snapshot
        visible = visible_records(schema, snapshot.data_files)
        return replace(snapshot, schema_id=shown, visible=visible, manifests=tuple(manifests))

    def older_ids(self) -> Iterator[int]:
        """Yield the snapshots before the current one; see `Table.older_ids`."""
        yield from list(self._state_names())[-2::-1]

    def walk_from(self, snapshot: Snapshot) -> StateWalk:
        """Return what reads the manifests that neighbours do not share; see `Table.walk_from`."""
        return StateWalk(self, self._state_names(), snapshot.info)

    def opener(self) -> Callable[[int], PaimonSnapshot]:
        """Return what opens snapshots; see `Table.opener`. Snapshots are listed, and tags read, once."""
        names = self._state_names()

        def opened(id_: int) -> PaimonSnapshot:
            if id_ not in names:
                raise UsageError(f"{self.location}: there is no snapshot {id_}")
            return self._whole(self.state(names[id_]), id_)

        return opened

    def referenced(self) -> frozenset[str]:
        """Return the files that any snapshot needs; see `Table.referenced`."""
        return referenced_files(self._root, self.manifests)

    def part(
        self,
        state: SnapshotRecord,
        entries: Iterable[ManifestEntry],
        index: Iterable[IndexManifestEntry],
        keys: Collection[FileKey],
    ) -> PaimonSnapshot:
        """Return a snapshot that has some data files alone. Which of their records are rows depends on the others.

        Args:
            state: the snapshot.
            entries: the data files.
            index: the index files of their vectors, which have those of other data files too.
            keys: the data files whose vectors these are; some may be gone.
        """
        found = self._snapshot(state, entries, index)
        metas = ((vector, IndexedVector.of(vector).meta) for vector in found.vectors)
        vectors = (one for one, meta in metas if (one.partition_key, one.bucket, meta.data_file) in keys)
        return replace(found, vectors=tuple(vectors))

    def _snapshot(
        self, state: SnapshotRecord, entries: Iterable[ManifestEntry], index: Iterable[IndexManifestEntry]
    ) -> PaimonSnapshot:
        """Return a snapshot in its own schema, of these data files and all vectors of these index files."""
        schema = self._schema(state.schema_id)
        layout = Layout(self._root, schema)
        files: dict[str, DataFile] = {}
        named: dict[FileKey, str] = {}
        for entry in entries:
            file = layout.data_file(entry)
            if file.path in files:
                expected = f"{file.path!r:.120} at one level"
                raise NotCanonical("_FILE", source=entry.manifest, expected=expected, actual="two")
            files[file.path] = file
            named[file_key(entry)] = file.path
        return PaimonSnapshot(
            self,
            state.info,
            tuple(files.values()),
            tuple(self._vectors(state, index, layout, named)),
            state.schema_id,
            partitions=layout.spec,
            visible={},
            schemas=self._schema,
            state=state,
        )

    def _vectors(
        self,
        state: SnapshotRecord,
        index: Iterable[IndexManifestEntry],
        layout: Layout,
        named: Mapping[FileKey, str],
    ) -> Iterator[DeletionVector]:
        """Yield the vectors of index files; `named` has the paths of data files."""
        source = self._root.join(f"manifest/{state.index_manifest}")
        bitmap64 = self._schema(state.schema_id).is_true("deletion-vectors.bitmap64")
        for entry in index:

            def data_file(name: str, entry: IndexManifestEntry = entry) -> str:
                path = named.get((entry.partition, entry.bucket, name))
                return path or f"{layout.data_folder(entry.partition, entry.bucket, source)[1]}/{name}"

            path = layout.index_file(entry, source)
            yield from vectors_of_entry(entry, self._root, path, data_file, bitmap64=bitmap64)

    def _state_names(self) -> dict[int, str]:
        """Return the files of the states by id, ascending; a snapshot's own one before a tag."""
        found = {
            number: f"snapshot/snapshot-{number}" for number in numbered(self.folder.names("snapshot"), "snapshot")
        }
        last = max(found, default=0)
        for name in sorted(self.folder.names("tag")):
            if name.startswith("tag-"):
                state = self.state(f"tag/{name}")
                if state.id < last:
                    found.setdefault(state.id, state.name)
        return dict(sorted(found.items()))

    def _find(self, id: int | None) -> SnapshotRecord:  # noqa: A002
        names = self._state_names()
        if id is None and names:
            id = max(names)  # noqa: A001
        if id not in names:
            raise UsageError(f"{self.location}: there is no snapshot {id}")
        return self.state(names[id])

    def state(self, name: str) -> SnapshotRecord:
        """Read a snapshot by the name of its file, or of a tag's."""
        state = read_snapshot(self.folder, name)
        prefix, _, number = name.rpartition("-")
        if prefix == "snapshot/snapshot" and state.id != int(number):
            raise NotCanonical("id", source=self.folder.join(name), expected=number, actual=state.id)
        return state

    def _newest_schema(self) -> int:
        found = numbered(self.folder.names("schema"), "schema")
        if not found:
            raise UsageError(f"{self.location}: not a Paimon table: there is no schema/schema-N")
        return max(found)

    def _schema(self, number: int) -> TableSchema:
        if number not in self._schemas:
            self._schemas[number] = read_schema(self.folder, number)
        return self._schemas[number]


def file_key(entry: ManifestEntry) -> FileKey:
    """Return what the vectors of a data file name it by."""
    return entry.file.partition, entry.file.bucket, entry.file.file_name


class StateWalk(Walk):
    """Reads the manifests that neighbours do not share: a commit usually adds one to those of the snapshot before.

    An index manifest repeats the vectors that its commit does not change, and is read whole.

    Args:
        table: whose snapshots.
        names: their files, by id.
        start: where the walk starts.

    Raises:
        DecodeError: a manifest is corrupt.
        OSError: it cannot be read.
    """

    def __init__(self, table: PaimonTable, names: Mapping[int, str], start: SnapshotInfo) -> None:
        self.info = start
        self._table, self._names = table, names
        self._state = table.state(names[start.id])
        self._manifests: frozenset[str] = frozenset()
        self._deleted: set[Key] = set()
        self._index_manifest: str | None = None
        self._index: dict[FileKey, IndexManifestEntry] = {}
        self._vectors: dict[Key, Recorded] = {}
        self._contents: Contents[Recorded] = Contents({})
        self._go(self._state)

    def step(self, info: SnapshotInfo) -> tuple[PaimonSnapshot, PaimonSnapshot]:
        """Go to another snapshot; see `Walk.step`."""
        old_state, old_index = self._state, self._index
        state = self._table.state(self._names[info.id])
        before, after = self._go(state)
        self._state, self.info = state, info
        return self._part(old_state, before, old_index), self._part(state, after, self._index)

    def _go(self, state: SnapshotRecord) -> tuple[list[Recorded], list[Recorded]]:
        gone: dict[Key, Recorded] = {}
        new: dict[Key, Recorded] = {}
        self._compare_files(state, gone, new)
        if state.index_manifest != self._index_manifest:
            self._index, vectors = self._read_index(state.index_manifest)
            gone.update((key, one) for key, one in self._vectors.items() if key not in vectors)
            new.update((key, one) for key, one in vectors.items() if key not in self._vectors)
            self._index_manifest, self._vectors = state.index_manifest, vectors
        return self._contents.step(gone, new)

    def _compare_files(
        self,
        state: SnapshotRecord,
        gone: dict[Key, Recorded],
        new: dict[Key, Recorded],
    ) -> None:
        """Find the data files that a snapshot does not have any more, and those that it has in addition."""
        read, live = self._table.manifests, self._contents.items
        names = [name for one in (state.base_manifest_list, state.delta_manifest_list) for name in read.listed(one)]
        is_longer = self._manifests.issubset(names)
        unread = (name for name in names if not is_longer or name not in self._manifests)
        entries = [(_key(entry), entry) for _, several in read.read(unread) for entry in several]
        deleted = {key for key, entry in entries if entry.deleted}
        if not is_longer:
            self._deleted = set()
        self._deleted.update(deleted)
        added = {
            _key(entry): entry
            for entry in live_entries(entry for key, entry in entries if entry.deleted or key not in self._deleted)
        }
        if is_longer:
            gone.update((key, live[key]) for key in deleted if key in live)
            twice = next((entry for key, entry in added.items() if key in live), None)
            if twice is not None:
                expected = f"{twice.file.file_name!r:.80} added once"
                raise NotCanonical("_FILE", source=twice.manifest, expected=expected, actual="twice")
        else:
            gone.update((k, one) for k, one in live.items() if isinstance(one, ManifestEntry) and k not in added)
        new.update((key, entry) for key, entry in added.items() if key not in live)
        self._manifests = frozenset(names)

    def _read_index(self, name: str | None) -> tuple[dict[FileKey, IndexManifestEntry], dict[Key, Recorded]]:
        """Return the index files of an index manifest by their keys, and that of each vector."""
        entries = () if name is None else self._table.manifests.live_index(name)
        index = {(entry.partition, entry.bucket, entry.file_name): entry for entry in entries}
        vectors: dict[Key, Recorded] = {}
        for own, entry in index.items():
            for meta in entry.vectors or ():
                vectors[(entry.partition, entry.bucket, meta.data_file), (own, meta)] = own, meta
        return index, vectors

    def _part(
        self,
        state: SnapshotRecord,
        found: Sequence[Recorded],
        index: Mapping[FileKey, IndexManifestEntry],
    ) -> PaimonSnapshot:
        """Return a snapshot that has some data files alone. Which of their records are rows depends on the others."""
        entries = [one for one in found if isinstance(one, ManifestEntry)]
        places = [one for one in found if not isinstance(one, ManifestEntry)]
        indexes = [index[own] for own in dict.fromkeys(own for own, _ in places)]
        named = {(*own[:2], meta.data_file) for own, meta in places}
        return self._table.part(state, entries, indexes, named)


def _key(entry: ManifestEntry) -> Key:
    return file_key(entry), entry.identity


_STATES = {"snapshot": "snapshot-", "tag": "tag-", "changelog": "changelog-"}
_OWN = ("snapshot", "tag", "changelog", "schema", "consumer", "service", "metadata")
"""Folders whose files are all needed: states, hints to the first and last state, progress of readers, addresses of
services, and Iceberg metadata of the table."""


def referenced_files(folder: Folder, manifests: Manifests) -> frozenset[str]:
    """Return the locations of all files that some state needs, metadata included.

    Raises:
        DecodeError: metadata is corrupt.
        OSError: it cannot be read.
    """
    return _References(folder, manifests).collect()


class _Manifest:
    """What a manifest adds and deletes, by identity."""

    __slots__ = ("added", "deleted")

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        entries = list(entries)
        self.added = {entry.identity: entry for entry in entries if not entry.deleted}
        self.deleted = frozenset(entry.identity for entry in entries if entry.deleted)


class _References:
    """Collects paths. States share most of their manifests: each file is read once, and located once for a layout."""

    def __init__(self, folder: Folder, manifests: Manifests) -> None:
        self._folder = folder
        self._reader = manifests
        self._paths: set[str] = set()
        self._layouts: dict[Hashable, Layout] = {}
        self._manifests: dict[str, _Manifest] = {}
        self._left: dict[tuple[str, Layout], dict[tuple[object, ...], ManifestEntry]] = {}
        """Entries that no state needed yet, by manifest."""
        self._seen: set[Hashable] = set()
        self._manifest_list = cache(self._read_list)
        self._index_entries = cache(manifests.index)

    def collect(self) -> frozenset[str]:
        branches = [f"branch/{name}/" for name in self._folder.names("branch") if name.startswith("branch-")]
        for root in ["", *branches]:
            branch = self._folder.inner(root[:-1]) if root else self._folder
            layout_of = cache(partial(self._layout, branch))
            for name in _OWN:
                self._paths |= {f"{root}{name}/{file}" for file in branch.names(name)}
            for kind, prefix in _STATES.items():
                for file in branch.names(kind):
                    if file.startswith(prefix):
                        state = read_snapshot(branch, f"{kind}/{file}")
                        self._add(state, layout_of(state.schema_id), whole=kind != "changelog")
        return frozenset(map(self._folder.locate, self._paths))

    def _layout(self, branch: Folder, schema_id: int) -> Layout:
        """Return the layout of a schema: one for all that agree in it."""
        layout = Layout(self._folder, read_schema(branch, schema_id))
        return self._layouts.setdefault(layout.key, layout)

    def _add(self, state: SnapshotRecord, layout: Layout, *, whole: bool) -> None:
        """Add the files that a state needs; a changelog has only the changes of a snapshot and is not `whole`."""
        if state.statistics is not None:
            self._paths.add(f"statistics/{state.statistics}")
        if state.index_manifest is not None and self._is_new("index", state.index_manifest, layout):
            self._add_index(state.index_manifest, layout)
        base, delta, changelog = state.base_manifest_list, state.delta_manifest_list, state.changelog_manifest_list
        if self._is_new("state", base, delta, layout, whole):
            manifests = [*self._manifest_list(base), *self._manifest_list(delta)]
            if whole:
                gone = frozenset[object]().union(*(self._manifests[name].deleted for name in manifests))
                self._add_files(manifests, layout, gone)
            else:
                self._add_files(self._manifest_list(delta), layout)
        if changelog is not None and self._is_new("changelog", changelog, layout):
            self._add_files(self._manifest_list(changelog), layout)

    def _is_new(self, *key: Hashable) -> bool:
        """Whether what has this key was not added yet."""
        known = len(self._seen)
        self._seen.add(key)
        return len(self._seen) > known

    def _add_index(self, manifest: str, layout: Layout) -> None:
        path = f"manifest/{manifest}"
        source = self._folder.join(path)
        self._paths.add(path)
        self._paths |= {layout.index_file(entry, source) for entry in self._index_entries(manifest)}

    def _add_files(self, manifests: Iterable[str], layout: Layout, gone: frozenset[object] = frozenset()) -> None:
        """Add the files that manifests add, but those that are gone.

        A file that is added twice is not refused, unlike in `live_entries`: it is needed anyway.
        """
        for name in manifests:
            left = self._left.get((name, layout))
            if left is None:
                left = self._left[name, layout] = dict(self._manifests[name].added)
            for identity in [identity for identity in left if identity not in gone]:
                self._paths.update(layout.files(left.pop(identity)))

    def _read_list(self, name: str) -> list[str]:
        """Return the manifests of a list; those that were not yet read are read."""
        self._paths.add(f"manifest/{name}")
        names = self._reader.listed(name)
        self._paths.update(f"manifest/{one}" for one in names)
        new = [one for one in names if one not in self._manifests]
        for one, entries in self._reader.read(new):
            self._manifests[one] = _Manifest(entries)
        return names
