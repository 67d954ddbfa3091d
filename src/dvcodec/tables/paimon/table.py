"""Paimon tables and their snapshots, and the files that some state still needs (Java class ``OrphanFilesClean``).

States are snapshots, tags and changelogs, of the table and of its branches. Branches have their own metadata folders
(``branch/branch-NAME``) and share the table's data and manifests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import compress
from typing import TypeAlias

import numpy as np

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import pa
from dvcodec.core.ragged import Index
from dvcodec.core.vector import Magic
from dvcodec.io.target import split
from dvcodec.ops.convert import measure
from dvcodec.paimon import IndexManifestEntry, read_vector
from dvcodec.tables.columns import UNKNOWN, FileColumns, Places, VectorColumns, distinct, recorded
from dvcodec.tables.deleting import WritableTable
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import (
    NO_SNAPSHOT,
    DataFile,
    DeletedRows,
    DeletionVector,
    OnDemand,
    RowReader,
    SnapshotInfo,
    TableKind,
    joined,
)
from dvcodec.tables.paimon.manifests import (
    DataFileMeta,
    Entries,
    IndexedVector,
    IndexVectors,
    Manifests,
    check_index_file,
)
from dvcodec.tables.paimon.metadata import (
    SnapshotRecord,
    TableSchema,
    numbered,
    read_schema,
    read_snapshot,
)
from dvcodec.tables.paimon.partition import Layout, PartitionSpec, Value
from dvcodec.tables.paimon.rows import (
    FileStatistics,
    Visible,
    bounds_of,
    partition_scalar,
    read_rows,
    read_statistics,
    visible_records,
)
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.rows.columns import Column, chosen
from dvcodec.tables.rows.data_file import count_rows
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.table import Snapshot, checks_snapshot

ENABLED = "deletion-vectors.enabled"
"""Table option: whether readers look for vectors."""


@dataclass(frozen=True, repr=False, kw_only=True)
class PaimonSnapshot(Snapshot):
    """A snapshot of a Paimon table; see `Snapshot`.

    Attributes:
        partitions: how its data files are partitioned; None for a table without snapshots.
        visible: which records are rows, by data file.
        schemas: returns a schema of the table by its id.
        state: its file; None for the state of a table without snapshots.
        manifests: names of its manifests; none if it has only some of its data files.
        magics: how all its vectors begin; none if some begin in another way, which decides what their length counts.
        recorded: its data files and vectors by column; None for a table without snapshots.
    """

    partitions: PartitionSpec | None = field(repr=False, compare=False)
    visible: Mapping[str, Visible | str] = field(repr=False, compare=False)
    schemas: Callable[[int], TableSchema] = field(repr=False, compare=False)
    state: SnapshotRecord | None = field(default=None, repr=False, compare=False)
    manifests: tuple[str, ...] = field(default=(), repr=False, compare=False)
    magics: tuple[Magic, ...] = field(default=(), repr=False, compare=False)
    recorded: tuple[FileColumns, VectorColumns] | None = field(default=None, repr=False, compare=False)

    @property
    def frame_magics(self) -> tuple[Magic, ...]:
        """How vectors begin; see `Snapshot.frame_magics`."""
        return self.magics

    @cached_property
    def file_columns(self) -> FileColumns:
        """What is recorded of the data files, by column; see `Snapshot.file_columns`."""
        return FileColumns(self.data_files) if self.recorded is None else self.recorded[0]

    @cached_property
    def vector_columns(self) -> VectorColumns:
        """What is recorded of the vectors, by column; see `Snapshot.vector_columns`."""
        return VectorColumns(self.vectors, self.numbers) if self.recorded is None else self.recorded[1]

    def with_other_deletes(self) -> Sequence[int]:
        """Return the numbers of the data files of which some records are not rows, or may not be."""
        return [number for number, one in enumerate(self.visible.values()) if one is not Visible.ALL]

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a vector and verify it; see `Snapshot.read`."""
        meta = self._record(vector, IndexedVector).meta
        if meta.cardinality != vector.cardinality:
            meta = replace(meta, cardinality=vector.cardinality)
        with self.table.folder.storage.open(vector.location) as source:
            found = read_vector(source, meta, self.table.folder.storage.limits)
            return (DeletedRows(str(vector.data_file), found.load(), measure(found)),)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of the snapshot, in order; see `Snapshot.schema`.

        Raises:
            UsageError: no such column.
            NotCanonical: the schema is corrupt.
            Unsupported: an unknown type.
            MissingExtra: pyarrow is not installed.
        """
        return pa.schema([column.field for column in self._read(columns)])

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads a data file; see `Snapshot.rows`, and `visible` for which of its records are rows.

        Raises:
            UsageError: no such column, or a data file of another snapshot.
            Unsupported: its format is not read here, a column's type was changed to one that does not hold it, or its
                records are rows only after they are merged with those of other files; the message says why.
        """
        meta, visible = self._record(data_file, DataFileMeta), self.visible[data_file.path]
        if isinstance(visible, str):
            raise Unsupported(f"rows of the data file: {visible}", source=data_file.location)
        fields, constants = self._read(columns), self._constants(data_file)
        read = partial(
            read_rows,
            data_file,
            self.table.folder.storage,
            fields,
            constants,
            self.schemas(meta.schema_id),
            visible,
            shown=self.shown.fields,
        )
        return RowReader(read)

    def read_alike(self, numbers: Sequence[int], columns: Sequence[str]) -> Sequence[Hashable | None]:
        """Return the schemas of data files, and their partitions if those are read; see `Snapshot.read_alike`."""
        names = () if self.partitions is None else self.partitions.names
        has_constants, found = not set(names).isdisjoint(columns), []
        for file in map(self.data_files.__getitem__, numbers):
            meta, visible = DataFileMeta.of(file), self.visible[file.path]
            usual = visible is Visible.ALL and file.location.endswith(".parquet")
            partition = meta.partition if has_constants else b""
            found.append((meta.schema_id, meta.write_cols, partition) if usual else None)
        return found

    def bounds(self, data_file: DataFile, columns: Sequence[str]) -> Mapping[str, ColumnBounds]:
        """Return the partition values of a data file, the only ones by which files are skipped here."""
        values = self._constants(data_file)
        every = self.shown
        known = [every.column(name) for name in self._chosen(columns) if name in values]
        scalars = {column.name: partition_scalar(values[column.name], column, data_file.location) for column in known}
        return {name: ColumnBounds.of_partition(value) for name, value in scalars.items()}

    def stated_bounds(self, data_file: DataFile, columns: Sequence[str]) -> Mapping[str, ColumnBounds]:
        """Return `bounds`, and the statistics in the manifest."""
        meta = self._record(data_file, DataFileMeta)
        statistics = self._statistics.get(meta)
        if statistics is None:
            return self.bounds(data_file, columns)
        schema = self.schemas(meta.schema_id)
        written = [schema.column(field.name) for field in schema.fields]
        found = bounds_of(self._read(columns), written, statistics, meta, data_file.location)
        return found | dict(self.bounds(data_file, columns))

    @cached_property
    def _statistics(self) -> Mapping[DataFileMeta, FileStatistics]:
        return {} if self.state is None else read_statistics(self.table.folder, self.manifests)

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the row count in the footer of a Parquet data file; None for other formats."""
        parquet = data_file.location.lower().endswith(".parquet")
        return count_rows(data_file.location, self.table.folder.storage) if parquet else None

    def is_hidden(self, data_file: DataFile) -> bool:
        """Whether its records wait for compaction; see `visible_records`."""
        return self.visible.get(data_file.path) is Visible.NONE

    def other_deletes(self, data_file: DataFile) -> str | None:
        """Describe what else deletes rows; see `Snapshot.other_deletes`."""
        visible = self.visible.get(data_file.path, Visible.ALL)
        if self.is_hidden(data_file):
            return "its records are not seen before they are compacted"
        if visible is Visible.KINDS and DataFileMeta.of(data_file).delete_row_count != 0:
            return "some of its records say that a key is gone (_VALUE_KIND)"
        return visible if isinstance(visible, str) else None

    def check_metadata(self) -> Iterator[Finding]:
        """Find vectors that readers skip.

        Checks: ``paimon-vectors-disabled``, vectors in a table whose schema does not have ``deletion-vectors.enabled``:
        Paimon's readers follow that option and return the deleted rows. For the current snapshot the newest schema
        counts, for one opened by its id the one that it was committed with.
        """
        schema = self.shown
        if self.vectors and not schema.is_true(ENABLED):
            what, actual = f"{ENABLED} of a table with vectors", schema.options.get(ENABLED, "not set")
            yield Finding.failed("paimon-vectors-disabled", what, "true", actual, path=schema.source)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Compare an index file with its record in the index manifest; see `check_index_file`."""
        return check_index_file(location, vectors, self.table.folder.storage)

    def _constants(self, data_file: DataFile) -> dict[str, Value]:
        """Return the partition values of a data file by column."""
        meta = self._record(data_file, DataFileMeta)
        if self.partitions is None:
            return {}
        values = self.partitions.decode(meta.partition, source=data_file.location).values
        return dict(zip(self.partitions.names, values, strict=True))

    def _chosen(self, columns: Sequence[str] | None) -> list[str]:
        return chosen(self.shown.named, columns, self.table.location)

    def _read(self, columns: Sequence[str] | None) -> list[Column]:
        return list(map(self.shown.column, self._chosen(columns)))

    @property
    def shown(self) -> TableSchema:
        """The schema in which rows are read."""
        if self.schema_id is None:
            raise NotCanonical("schemaId", source=self.table.location, expected="a schema", actual="none")
        return self.schemas(self.schema_id)


class _FileColumns(FileColumns):
    def __init__(self, entries: Entries, layout: Layout, paths: Sequence[str], locations: Sequence[str]) -> None:
        files: OnDemand[DataFile] = OnDemand(len(paths), lambda number: layout.data_file(entries[number]), paths)
        super().__init__(files)
        self._entries, self._layout = entries, layout
        self.paths, self.locations = paths, locations
        self.rows, self.sizes = recorded(entries.rows), recorded(entries.sizes)
        self.single = np.ones(len(paths), np.bool_)

    @cached_property
    def partitions(self) -> Sequence[str | None]:
        spec, partitions = self._layout.spec, self._entries.partitions.tolist()
        texts = {one: spec.decode(one, source="").text for one in set(partitions)}
        return [texts[one] for one in partitions]


class _VectorColumns(VectorColumns):
    have_wide = False

    def __init__(self, parts: Sequence[IndexVectors], files: FileColumns) -> None:
        self._parts = [part for part in parts if len(part)]
        names = [path for part in self._parts for path in part.paths]
        super().__init__(joined(self._parts, names), {path: number for number, path in enumerate(files.paths)})
        known = self._number_of
        self.files = np.array([UNKNOWN if path is None else known.get(path, UNKNOWN) for path in names], np.int64)
        self.bitmaps = np.ones(len(names), np.bool_)
        self.offsets = self._joined(part.offsets for part in self._parts)
        self.sizes = self._joined(part.sizes for part in self._parts)
        self.cardinalities = self._joined(part.cardinalities for part in self._parts)
        self.file_sizes = self._joined(part.file_sizes for part in self._parts)

    @cached_property
    def places(self) -> Places:
        counts = [len(part) for part in self._parts]
        paths, path_of = distinct(part.path for part in self._parts)
        locations, location_of = distinct(part.location for part in self._parts)
        return Places(paths, path_of.repeat(counts), locations, location_of.repeat(counts))

    @staticmethod
    def _joined(columns: Iterable[Index]) -> Index:
        return np.concatenate([np.zeros(0, np.int64), *columns])


Identity: TypeAlias = tuple[object, ...]
"""See `ManifestEntry.identity`."""
FileKey: TypeAlias = tuple[bytes, int, str]
"""A data file as vectors name it: serialized partition, bucket, bare name."""


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
        names = self._state_names()
        if id in (None, NO_SNAPSHOT) and not names:
            newest = self._newest_schema()
            return PaimonSnapshot(
                self, SnapshotInfo(NO_SNAPSHOT), (), (), newest, partitions=None, visible={}, schemas=self._schema
            )
        return self._whole(self._find(names, id), id)

    def _whole(self, state: SnapshotRecord, id: int | None) -> PaimonSnapshot:  # noqa: A002
        manifests = [
            name
            for manifest_list in (state.base_manifest_list, state.delta_manifest_list)
            for name in self.manifests.listed(manifest_list)
        ]
        read = Entries.joined([found for _, found in self.manifests.read(manifests)])
        index = () if state.index_manifest is None else self.manifests.live_index(state.index_manifest)
        shown = self._newest_schema() if id is None else state.schema_id
        self._schema(shown)  # its errors are errors of the snapshot
        live = read.live()
        entries = read if len(live) == len(read) else read.take(live)
        schema = self._schema(state.schema_id)
        layout = Layout(self._root, schema)
        paths = layout.paths(entries)
        if len(set(paths)) < len(paths):
            seen = dict[str, int]()
            twice = next(number for number, path in enumerate(paths) if seen.setdefault(path, number) != number)
            expected = f"{paths[twice]!r:.120} at one level"
            raise NotCanonical("_FILE", source=entries[twice].manifest, expected=expected, actual="two")
        files = _FileColumns(entries, layout, paths, self._root.locate_each(paths))
        parts = list(self._vectors(state, index, layout, entries))
        wide = {one for part in parts for one in set(part.wide.tolist())}
        vectors = _VectorColumns(parts, files)
        return PaimonSnapshot(
            self,
            state.info,
            files.files,
            vectors.vectors,
            shown,
            partitions=layout.spec,
            visible=visible_records(schema, entries, paths),
            schemas=self._schema,
            state=state,
            manifests=tuple(manifests),
            magics=() if len(wide) != 1 else (Magic.PORTABLE64,) if True in wide else (Magic.PAIMON32,),
            recorded=(files, vectors),
        )

    def older_ids(self) -> Iterator[int]:
        """Yield the snapshots before the current one; see `Table.older_ids`."""
        yield from list(self._state_names())[-2::-1]

    def opener(self) -> Callable[[int], PaimonSnapshot]:
        """Return what opens snapshots; see `Table.opener`. Snapshots are listed, and tags read, once."""
        names = self._state_names()
        return lambda id_: self._whole(self._find(names, id_), id_)

    def referenced(self) -> frozenset[str]:
        """Return the files that any snapshot needs; see `Table.referenced`."""
        return References(self._root, self.manifests).collect()

    def _vectors(
        self, state: SnapshotRecord, index: Iterable[IndexManifestEntry], layout: Layout, entries: Entries
    ) -> Iterator[IndexVectors]:
        """Yield the vectors of each index file; `entries` has the data files."""
        source = self._root.join(f"manifest/{state.index_manifest}")
        bitmap64 = self._schema(state.schema_id).is_true("deletion-vectors.bitmap64")
        elsewhere: dict[FileKey, str] = {}
        for file in (entries[number].file for number in entries.unusual):
            if file.external_path is not None:
                elsewhere[file.partition, file.bucket, file.file_name] = file.external_path
        for entry in index:

            def data_file(name: str, entry: IndexManifestEntry = entry) -> str:
                path = elsewhere.get((entry.partition, entry.bucket, name)) if elsewhere else None
                return path or f"{layout.data_folder(entry.partition, entry.bucket, source)[1]}/{name}"

            path = layout.index_file(entry, source)
            yield IndexVectors(entry, self._root, path, data_file, bitmap64=bitmap64)

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

    def _find(self, names: Mapping[int, str], id: int | None) -> SnapshotRecord:  # noqa: A002
        wanted = max(names) if id is None else id
        if wanted not in names:
            raise UsageError(f"{self.location}: there is no snapshot {wanted}")
        return self.state(names[wanted])

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


_STATES = {"snapshot": "snapshot-", "tag": "tag-", "changelog": "changelog-"}
_OWN = ("snapshot", "tag", "changelog", "schema", "consumer", "service", "metadata")
"""Folders whose files are all needed: states, hints to the first and last state, progress of readers, addresses of
services, and Iceberg metadata of the table."""


class References:
    """Collects paths. States share most of their manifests: each is read once, and its files located once a layout.

    Args:
        folder: of manifests and data files.
        manifests: reads the manifests.
    """

    def __init__(self, folder: Folder, manifests: Manifests) -> None:
        self._folder = folder
        self._paths: set[str] = set()
        self._layouts: dict[Hashable, Layout] = {}
        self._reader = manifests
        self._entries: dict[str, Entries] = {}
        self._files = cache(self._files_of)
        self._index_entries = cache(manifests.index)

    def collect(self) -> frozenset[str]:
        """Return the locations of all files that some state needs, metadata included.

        Raises:
            DecodeError: metadata is corrupt.
            OSError: it cannot be read.
        """
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
        return frozenset(self._folder.locate_each(list(self._paths)))

    def _layout(self, branch: Folder, schema_id: int) -> Layout:
        """Return the layout of a schema: one for all that agree in it."""
        layout = Layout(self._folder, read_schema(branch, schema_id))
        return self._layouts.setdefault(layout.key, layout)

    def _add(self, state: SnapshotRecord, layout: Layout, *, whole: bool) -> None:
        """Add the files that a state needs; a changelog has only the changes of a snapshot and is not `whole`.

        A file that is added twice is not refused, unlike in `live_entries`: it is needed anyway.
        """
        if state.statistics is not None:
            self._paths.add(f"statistics/{state.statistics}")
        if state.index_manifest is not None:
            path = f"manifest/{state.index_manifest}"
            source = self._folder.join(path)
            entries = self._index_entries(state.index_manifest)
            self._paths |= {path, *(layout.index_file(entry, source) for entry in entries)}
        base, delta, changelog = map(
            self._manifests, (state.base_manifest_list, state.delta_manifest_list, state.changelog_manifest_list)
        )
        both = [*base, *delta]
        gone = {one for name in both for one in self._deleted(name)} if whole else set()
        for name in [*(both if whole else delta), *changelog]:
            identities, paths, others = self._files(name, layout)
            if not gone or name in changelog:
                self._paths.update(paths, *others.values())
                continue
            left = (identity not in gone for identity in identities)
            self._paths.update(compress(paths, left))
            self._paths.update(*(some for identity, some in others.items() if identity not in gone))

    def _manifests(self, name: str | None) -> list[str]:
        """Return the manifests of a list, which are needed, too."""
        if name is None:
            return []
        names = self._reader.listed(name)
        self._paths |= {f"manifest/{one}" for one in [name, *names]}
        self._entries.update(self._reader.read(one for one in names if one not in self._entries))
        return names

    def _deleted(self, manifest: str) -> Iterator[Identity]:
        """Yield the identities of the files that a manifest deletes."""
        entries = self._entries[manifest]
        return (entries[number].identity for number in np.flatnonzero(entries.deleted).tolist())

    def _files_of(self, manifest: str, layout: Layout) -> tuple[list[Identity], list[str], dict[Identity, list[str]]]:
        """Return identities and paths of the data files that a manifest adds, and the paths of their extra files."""
        entries = self._entries[manifest]
        added = entries.take(np.flatnonzero(~entries.deleted)) if entries.deleted.any() else entries
        identities, paths = added.identities(), layout.paths(added)
        extra = {
            identities[number]: [f"{split(paths[number])[0]}/{name}" for name in added.others[number].extra_files]
            for number in added.unusual
        }
        return identities, paths, extra
