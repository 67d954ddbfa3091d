"""A Paimon table as one of the model's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.report import Check
from dvcodec.ops.stats import measure
from dvcodec.paimon import IndexManifestEntry, read_index_manifest
from dvcodec.paimon.index_file import load_vector
from dvcodec.tables.columns import chosen
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import (
    NO_SNAPSHOT,
    DataFile,
    DeletedRows,
    DeletionVector,
    PhysicalRows,
    Snapshot,
    SnapshotInfo,
    Table,
    TableKind,
)
from dvcodec.tables.paimon.files import Layout
from dvcodec.tables.paimon.manifests import live_entries, read_manifest_list, read_manifests
from dvcodec.tables.paimon.metadata import PaimonSnapshot, TableSchema, numbered, read_schema, read_snapshot
from dvcodec.tables.paimon.references import referenced_files
from dvcodec.tables.paimon.rows import column, read_rows
from dvcodec.tables.paimon.types import arrow_field
from dvcodec.tables.paimon.vectors import check_index_file, meta_of, vectors_of_entry
from dvcodec.tables.paimon.visible import Visible, visible_records
from dvcodec.tables.parquet import count_rows
from dvcodec.tables.problems import Problem

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PaimonTable"]

ENABLED = "deletion-vectors.enabled"
"""Table option: whether readers look for vectors."""


@dataclass(frozen=True, slots=True)
class _View:
    """What reading rows of a snapshot needs besides it.

    Attributes:
        snapshot: which.
        schema: that its rows are read in.
        layout: of its files.
        visible: which records are rows, by data file.
    """

    snapshot: Snapshot
    schema: TableSchema
    layout: Layout
    visible: Mapping[str, Visible | str]


class PaimonTable(Table):
    """A Paimon table, read from its folder.

    States are the snapshots and, of those that have expired, the tagged ones. The schema of a state asked for by its id
    is the one that it was committed with, that of the current one the newest; options are those of the commit. Branches
    are tables of their own (``branch/branch-NAME``), and are not listed; their files count as needed.
    """

    kind = TableKind.PAIMON

    def __init__(self, location: Folder | str) -> None:
        """Open a table by its folder; nothing is read yet."""
        self.folder = Folder.of(location)
        self._schemas: dict[int, TableSchema] = {}
        self._last: _View | None = None

    def snapshots(self) -> tuple[SnapshotInfo, ...]:  # noqa: D102  (as the model says)
        return tuple(self._state(name).info for name in self._state_names().values())

    def snapshot(self, id: int | None = None) -> Snapshot:  # noqa: A002, D102
        if id in (None, NO_SNAPSHOT) and not self._state_names():
            return Snapshot(SnapshotInfo(NO_SNAPSHOT), (), (), self._newest_schema())
        state = self._find(id)
        schema = self._schema(state.schema_id)
        layout = Layout(self.folder, schema)
        manifests = [
            name
            for manifest_list in (state.base_manifest_list, state.delta_manifest_list)
            for name in read_manifest_list(self.folder, manifest_list)
        ]
        entries = live_entries(entry for _, found in read_manifests(self.folder, manifests) for entry in found)
        files: dict[str, DataFile] = {}
        named: dict[tuple[bytes, int, str], str] = {}
        for entry in entries:
            file = layout.data_file(entry)
            if file.path in files:
                expected = f"{file.path!r:.120} at one level"
                raise NotCanonical("_FILE", source=entry.manifest, expected=expected, actual="two")
            files[file.path] = file
            named[entry.partition, entry.bucket, entry.file["_FILE_NAME"]] = file.path
        vectors = self._vectors(state, schema, layout, named)
        shown = self._newest_schema() if id is None else state.schema_id
        return self._view(Snapshot(state.info, tuple(files.values()), tuple(vectors), shown)).snapshot

    def read(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[DeletedRows, ...]:  # noqa: ARG002, D102
        found = load_vector(meta_of(vector), vector.location, storage_options=self.folder.storage)
        return (DeletedRows(str(vector.data_file), found.load(), measure(found)),)

    def other_deletes(self, data_file: DataFile, snapshot: Snapshot) -> str | None:  # noqa: D102
        visible = self._view(snapshot).visible.get(data_file.path, Visible.ALL)
        if visible is Visible.NONE:
            return "its records are not seen before they are compacted"
        if visible is Visible.KINDS and data_file.record.get("_DELETE_ROW_COUNT") != 0:
            return "some of its records say that a key is gone (_VALUE_KIND)"
        return visible if isinstance(visible, str) else None

    def check_metadata(self, snapshot: Snapshot) -> Iterator[Problem]:
        """Find vectors that readers skip.

        Checks: ``paimon-vectors-disabled``, vectors in a table whose schema does not have ``deletion-vectors.enabled``:
        Paimon's readers go by that option and return the deleted rows. Of the current state it is the newest schema
        that counts, of a state asked for by its id the one that it was committed with.
        """
        schema = self._view(snapshot).schema
        if snapshot.vectors and not schema.is_true(ENABLED):
            source = self.folder.join(schema.name)
            what, actual = f"{ENABLED} of a table with vectors", schema.options.get(ENABLED, "not set")
            check = Check.failed("paimon-vectors-disabled", source, None, what, "true", actual)
            yield Problem(check, source=source)

    def stored_rows(self, data_file: DataFile, snapshot: Snapshot) -> int | None:  # noqa: ARG002
        """Return the rows of a Parquet data file by its footer; None for other formats."""
        parquet = data_file.location.lower().endswith(".parquet")
        return count_rows(data_file.location, self.folder.storage) if parquet else None

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Check]:
        """Check an index file against the index manifest's record of it; see `vectors.check_index_file`."""
        return check_index_file(location, vectors, self.folder.storage)

    def referenced(self) -> frozenset[str]:  # noqa: D102
        return referenced_files(self.folder)

    def schema(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of a state, in order; see `Table.schema`.

        Raises:
            UsageError: no such column.
            NotCanonical: the schema is not sound.
            Unsupported: a type that is not known here.
            MissingExtra: pyarrow is not installed.
        """
        schema = self._view(snapshot).schema
        wanted = map(schema.field, chosen([field.name for field in schema.fields], columns, self.location))
        fields = [arrow_field(column(field, self.folder.join(schema.name))) for field in wanted]
        import pyarrow as pa  # noqa: PLC0415  (extra "tables")

        return pa.schema(fields)

    def physical_rows(
        self,
        data_file: DataFile,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | None = None,
        batch_rows: int = 1 << 16,
    ) -> Iterator[PhysicalRows]:
        """Read a data file; see `Table.physical_rows`, and `visible` for which of its records are rows.

        Raises:
            UsageError: no such column, or a data file of another snapshot.
            NotCanonical: the file is not sound, or has other rows than the metadata says.
            Unsupported: its format is not read here, a column's type was changed to one that does not hold it, or its
                records are rows only after they are merged with those of other files; the message says why.
            OSError: the file cannot be read.
        """
        view = self._view(snapshot)
        schema = view.schema
        visible = view.visible.get(data_file.path)
        if visible is None:
            raise UsageError(f"{data_file.path}: no data file of snapshot {snapshot.info.id}")
        if isinstance(visible, str):
            raise Unsupported(f"rows of the data file: {visible}", source=data_file.location)
        names = chosen([field.name for field in schema.fields], columns, self.location)
        partition = view.layout.spec.decode(data_file.record["_PARTITION"], source=data_file.location)
        written = self._schema(data_file.record["_SCHEMA_ID"])
        return read_rows(
            data_file,
            self.folder.storage,
            [column(schema.field(name), self.folder.join(schema.name)) for name in names],
            dict(zip(view.layout.spec.names, partition.values, strict=True)),
            written,
            self.folder.join(written.name),
            visible,
            batch_rows,
            schema.fields,
        )

    def _vectors(
        self,
        state: PaimonSnapshot,
        schema: TableSchema,
        layout: Layout,
        named: Mapping[tuple[bytes, int, str], str],
    ) -> Iterator[DeletionVector]:
        """Yield the vectors of a state; `named` has the paths of its data files by partition, bucket and name."""
        if state.index_manifest is None:
            return
        source = self.folder.join(f"manifest/{state.index_manifest}")
        bitmap64 = schema.is_true("deletion-vectors.bitmap64")
        for entry in read_index_manifest(source, storage_options=self.folder.storage):
            if entry.kind != "ADD":
                raise NotCanonical("_KIND", source=source, expected="ADD", actual=f"{entry.kind} {entry.file_name!r}")

            def data_file(name: str, entry: IndexManifestEntry = entry) -> str:
                path = named.get((entry.partition, entry.bucket, name))
                return path or f"{layout.data_folder(entry.partition, entry.bucket, source)[1]}/{name}"

            path = layout.index_file(entry, source)
            yield from vectors_of_entry(entry, self.folder, path, data_file, bitmap64=bitmap64)

    def _view(self, snapshot: Snapshot) -> _View:
        """Return what belongs to a snapshot; that of the last one is kept, for its many data files."""
        last = self._last
        if last is None or last.snapshot is not snapshot:
            number = snapshot.info.id
            committed = self._schema(snapshot.schema_id if number == NO_SNAPSHOT else self._find(number).schema_id)
            shown = committed if snapshot.schema_id is None else self._schema(snapshot.schema_id)
            visible = visible_records(committed, snapshot.data_files)
            last = self._last = _View(snapshot, shown, Layout(self.folder, committed), visible)
        return last

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

    def _find(self, id: int | None) -> PaimonSnapshot:  # noqa: A002
        names = self._state_names()
        if id is None and names:
            id = max(names)  # noqa: A001
        if id not in names:
            raise UsageError(f"{self.location}: there is no snapshot {id}")
        return self._state(names[id])

    def _state(self, name: str) -> PaimonSnapshot:
        state = read_snapshot(self.folder, name)
        prefix, _, number = name.rpartition("-")
        if prefix == "snapshot/snapshot" and state.id != int(number):
            raise NotCanonical("id", source=self.folder.join(name), expected=number, actual=state.id)
        return state

    def _newest_schema(self) -> int:
        return max(numbered(self.folder.names("schema"), "schema"))

    def _schema(self, number: int) -> TableSchema:
        if number not in self._schemas:
            self._schemas[number] = read_schema(self.folder, number)
        return self._schemas[number]
