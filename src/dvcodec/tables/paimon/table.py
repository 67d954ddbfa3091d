"""Paimon tables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.usage import check_integer
from dvcodec.paimon import IndexManifestEntry
from dvcodec.tables.deleting.table import WritableTable
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import NO_SNAPSHOT, DataFile, DeletionVector, SnapshotInfo, TableKind
from dvcodec.tables.older import names_older
from dvcodec.tables.paimon.manifests import ManifestEntry, Manifests, live_entries
from dvcodec.tables.paimon.metadata import SnapshotRecord, TableSchema, numbered, read_schema, read_snapshot
from dvcodec.tables.paimon.partition import Layout
from dvcodec.tables.paimon.references import referenced_files
from dvcodec.tables.paimon.snapshot import PaimonSnapshot
from dvcodec.tables.paimon.vectors import IndexedVector, vectors_of_entry
from dvcodec.tables.paimon.visible import visible_records
from dvcodec.tables.paimon.walk import FileKey, Part, StateWalk, file_key
from dvcodec.tables.table import Snapshot

__all__ = ["PaimonTable", "open"]


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
    def _manifests(self) -> Manifests:
        return Manifests(self._root)

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the snapshots that still have metadata; see `Table.snapshots`."""
        return tuple(self._state(name).info for name in self._state_names().values())

    @names_older
    def snapshot(self, id: int | None = None) -> PaimonSnapshot:  # noqa: A002
        """Return a snapshot; see `Table.snapshot`."""
        if id is not None:
            check_integer(id, "the id of a snapshot")
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
            for name in self._manifests.listed(manifest_list)
        ]
        entries = live_entries(entry for _, found in self._manifests.read(manifests) for entry in found)
        index = () if state.index_manifest is None else self._manifests.live_index(state.index_manifest)
        snapshot = self._snapshot(state, entries, index)
        shown = self._newest_schema() if id is None else state.schema_id
        self._schema(shown)  # its errors are errors of the snapshot
        visible = visible_records(schema, snapshot.data_files)
        return replace(snapshot, schema_id=shown, visible=visible, manifests=tuple(manifests))

    def older_ids(self) -> Iterator[int]:
        """Yield the snapshots before the current one; see `Table.older_ids`."""
        yield from list(self._state_names())[-2::-1]

    def compared(
        self, pairs: Iterable[tuple[SnapshotInfo | None, SnapshotInfo]]
    ) -> Iterator[tuple[Snapshot | None, Snapshot]]:
        """Open pairs of snapshots; see `Table.compared`. Manifests that several list are read once."""
        names, opener = self._state_names(), self.opener()
        walk: StateWalk | None = None
        opened: SnapshotRecord | None = None
        for before, info in pairs:
            state = self._state(names[info.id])
            if before is not None and opened is not None and opened.id == before.id:
                walk = StateWalk(self._root, opened, self._manifests)
            opened = None
            if walk is not None and before is not None and walk.state.id == before.id:
                old, new = map(self._part, walk.step(state))
                yield old, new
            else:
                yield None if before is None else opener(before.id), opener(info.id)
                opened = state

    def opener(self) -> Callable[[int], PaimonSnapshot]:
        """Return what opens snapshots; see `Table.opener`. Snapshots are listed, and tags read, once."""
        names = self._state_names()

        def opened(id_: int) -> PaimonSnapshot:
            if id_ not in names:
                raise UsageError(f"{self.location}: there is no snapshot {id_}")
            return self._whole(self._state(names[id_]), id_)

        return opened

    def referenced(self) -> frozenset[str]:
        """Return the files that any snapshot needs; see `Table.referenced`."""
        return referenced_files(self._root, self._manifests)

    def _part(self, part: Part) -> PaimonSnapshot:
        """Return a snapshot that has some data files alone. Which of their records are rows depends on the others."""
        found = self._snapshot(part.state, part.entries, part.index)
        keys = set(part.keys)
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
                state = self._state(f"tag/{name}")
                if state.id < last:
                    found.setdefault(state.id, state.name)
        return dict(sorted(found.items()))

    def _find(self, id: int | None) -> SnapshotRecord:  # noqa: A002
        names = self._state_names()
        if id is None and names:
            id = max(names)  # noqa: A001
        if id not in names:
            raise UsageError(f"{self.location}: there is no snapshot {id}")
        return self._state(names[id])

    def _state(self, name: str) -> SnapshotRecord:
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
