"""An Iceberg table as the model has it."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.report import Check
from dvcodec.core.rowset import RowSet
from dvcodec.io.allowed_locations import check_reach
from dvcodec.io.parallel import run_bounded
from dvcodec.io.paths import split
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg.cache import Cache
from dvcodec.tables.iceberg.container import check_vectors
from dvcodec.tables.iceberg.contradictions import contradictions
from dvcodec.tables.iceberg.deletes import PositionDeletes, read_deletes
from dvcodec.tables.iceberg.latest import METADATA, VERSION_HINT, check_newest, find_metadata, without_version
from dvcodec.tables.iceberg.manifest_list import Manifest, read_list
from dvcodec.tables.iceberg.manifests import Entry, read_manifest
from dvcodec.tables.iceberg.metadata import SnapshotRecord, TableMetadata, read_metadata
from dvcodec.tables.iceberg.plan import Plan
from dvcodec.tables.iceberg.rows import read_name_mapping, read_rows
from dvcodec.tables.iceberg.schema import read_fields, stored_ids
from dvcodec.tables.iceberg.vectors import read_vector, refuse_encrypted
from dvcodec.tables.members import Members
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
from dvcodec.tables.parquet import count_rows
from dvcodec.tables.problems import POSITION_DELETES, Problem

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["IcebergTable", "open"]

Item = TypeVar("Item")
Result = TypeVar("Result")
_LOGGER = logging.getLogger("dvcodec.tables")
_KEPT_PLANS = 8
"""Snapshots that are kept; they share most of their entries."""
_KEPT_ENTRIES = 50_000
"""Entries of manifests that are kept, about 3 KB each: snapshots share most of their manifests."""
_KEPT_DELETES = 64 << 20
"""Bytes of position deletes that are kept."""


def open(location: Folder | str | os.PathLike[str]) -> IcebergTable:  # noqa: A001  (every kind of table has one)
    """Open a table by its folder, or by one of its ``*.metadata.json`` files.

    By its folder, metadata files whose names say no version are passed over: how new they are is not known. They are
    `IcebergTable.passed_over`, and a warning of the logger ``dvcodec.tables``; by its path any of them is opened.

    Args:
        location: the folder; or its path or URL, for a local table or one that the environment alone reaches.

    Raises:
        UsageError: there is no metadata file, or it takes a catalog to tell which one holds.
        DecodeError: the metadata is not sound.
        Unsupported: another format version; or a file that is not in the folder ``metadata`` names a table's folder
            that metadata may not name.
        OSError: it cannot be read.
    """
    folder = Folder.of(location)
    spelled = folder.location
    nameless: tuple[str, ...] = ()
    if not spelled.endswith((".metadata.json", ".metadata.json.gz")):
        names = folder.names(METADATA)
        spelled, nameless = find_metadata(folder, names), without_version(names)
    metadata = read_metadata(spelled, folder.storage)
    above, name = split(split(spelled)[0])
    if name != METADATA:
        check_reach(metadata.location, spelled, folder.allow)
        above = metadata.location
    known = {split(spelled)[1], *metadata.earlier}
    passed_over = tuple(other for other in nameless if other not in known)
    if passed_over:
        told = "%s: passed over %s: names without a version; the table is read from %s. By its path any file is opened"
        _LOGGER.warning(told, above, ", ".join(passed_over), split(spelled)[1])
    return IcebergTable(replace(folder, location=above, recorded=metadata.location), metadata, passed_over)


class IcebergTable(Table):
    """An Iceberg table as one metadata file describes it.

    A snapshot asked for by its id has the columns of the schema that it was made with, the current one those of the
    table's current schema.

    Attributes:
        metadata: the metadata file.
        passed_over: bare names of metadata files beside it that may be newer: their names say no version.
    """

    kind = TableKind.ICEBERG

    def __init__(self, folder: Folder, metadata: TableMetadata, passed_over: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.metadata = metadata
        self.passed_over = passed_over
        self._plans: Cache[int, Plan] = Cache(_KEPT_PLANS, lambda _: 1)
        self._entries: Cache[Manifest, tuple[Entry, ...]] = Cache(_KEPT_ENTRIES, len)
        self._deletes: Cache[str, PositionDeletes] = Cache(_KEPT_DELETES, lambda deletes: deletes.cost)

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the snapshots of the metadata by sequence number, the current one last, whatever branch it is on."""
        return tuple(record.info for record in self.metadata.snapshots.values())

    def snapshot(self, id: int | None = None) -> Snapshot:  # noqa: A002
        """Return a snapshot; None = the current one, that of the main branch.

        A table without a current snapshot has no data files then, and the table's schema; its id is that of the
        metadata, -1.

        Vectors are deletion vectors and files of position deletes. Equality deletes are none: they are met when rows
        of a data file are read for which they hold.

        Raises:
            UsageError: there is no such snapshot.
            DecodeError: its manifests are not sound.
            Unsupported: they are encrypted, or have something that is not known.
            OSError: they cannot be read.
        """
        if self.metadata.current is None and id in (None, NO_SNAPSHOT):
            return Snapshot(SnapshotInfo(NO_SNAPSHOT), (), (), self.metadata.current_schema_id)
        if id is None:
            assert self.metadata.current is not None  # noqa: S101
            return replace(self._plan(self.metadata.current).snapshot, schema_id=self.metadata.current_schema_id)
        if id not in self.metadata.snapshots:
            raise UsageError(f"{self.location}: no snapshot {id}")
        return self._plan(id).snapshot

    def read(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[DeletedRows, ...]:
        """Read a vector, or the position deletes of a file that hold for data files of the snapshot.

        Position deletes do not hold for data files that are newer, or have a deletion vector. They do hold for a data
        file that they name with another scheme, if there is but one: see `spellings`.

        Raises:
            UsageError: position deletes of another snapshot.
            DecodeError: they are not sound, or do not say where they are, or for what.
            OSError: the file cannot be read.
        """
        plan = self._plan(snapshot.info.id)
        refuse_encrypted(vector.record, vector.where)
        if vector.format == "iceberg":
            return (read_vector(vector, plan, self.folder.storage),)
        if vector.data_file is None and vector.path not in plan.by_partition:
            raise UsageError(f"{vector.path}: no position deletes of snapshot {snapshot.info.id}")
        deletes = self._position_deletes(vector)
        rows: dict[str, RowSet] = {}
        for path, some in deletes.rows.items():
            meant = plan.find(path) or path
            if vector.data_file not in (None, meant):
                raise NotCanonical("file_path", source=vector.location, expected=vector.data_file, actual=path)
            rows[meant] = rows[meant] | some if meant in rows else some
        found = []
        for path, some in rows.items():
            data = plan.data.get(path)
            if data is not None and plan.holds(vector, data):
                found.append(DeletedRows(path, some))
        return tuple(found)

    def unknown_files(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[str, ...]:  # noqa: D102
        if vector.data_file is not None or vector.format != POSITION_DELETES:
            return ()
        plan = self._plan(snapshot.info.id)
        return tuple(path for path in self._position_deletes(vector).rows if plan.find(path) is None)

    def respelled(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[tuple[str, str], ...]:  # noqa: D102
        if vector.format != POSITION_DELETES:
            return ()
        plan = self._plan(snapshot.info.id)
        recorded = plan.respelled.get(vector.path)
        spelled = dict.fromkeys(([] if recorded is None else [recorded]) + list(self._position_deletes(vector).rows))
        pairs = ((path, plan.find(path)) for path in spelled)
        return tuple(
            (path, meant) for path, meant in pairs if meant not in (None, path) and plan.holds(vector, plan.data[meant])
        )

    def other_deletes(self, data_file: DataFile, snapshot: Snapshot) -> str | None:
        """Name the newest equality deletes that hold for a data file; None if there are none."""
        plan = self._plan(snapshot.info.id)
        data = plan.data.get(data_file.path)
        deletes = None if data is None else plan.equality_deletes(data)
        return None if deletes is None else f"equality deletes ({deletes.path})"

    def check_metadata(self, snapshot: Snapshot) -> Iterator[Problem]:
        """Find what engines refuse, or pass vectors over for, and metadata that was not read; see `contradictions`."""
        if snapshot.info.id == NO_SNAPSHOT:
            return iter(())
        return contradictions(self.metadata, self._plan(snapshot.info.id), self.passed_over)

    def stored_rows(self, data_file: DataFile, snapshot: Snapshot) -> int | None:
        """Return the rows of a Parquet data file by its footer; None for other formats and encrypted files."""
        entry = self._plan(snapshot.info.id).data.get(data_file.path)
        if entry is None or entry.format != "parquet" or "key_metadata" in data_file.record:
            return None
        return count_rows(data_file.location, self.folder.storage)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Check]:
        """Check a file of vectors; see `container.check_vectors` for the names of the checks."""
        return check_vectors(location, vectors, self.folder.storage)

    def referenced(self) -> frozenset[str]:
        """Return the locations of metadata, statistics, manifests, data files and delete files of all snapshots.

        Raises:
            UsageError: another metadata file is as new or newer: what its snapshots need is not known here.
            DecodeError: manifests are not sound.
            OSError: they cannot be read.
        """
        metadata = self.metadata
        check_newest(metadata.source, self.folder.storage, metadata.earlier)
        found = {metadata.source, self.folder.join(f"{METADATA}/{VERSION_HINT}")}
        found.update(map(self._locate, (*metadata.metadata_log, *metadata.statistics)))
        for record in metadata.snapshots.values():
            found.add(self._manifest_list(record))
        lists = [self._manifest_list(record) for record in metadata.snapshots.values()]
        manifests = dict.fromkeys(itertools.chain.from_iterable(self._each(self._read_list, lists)))
        for manifest, entries in zip(manifests, self._each(self._read_manifest, manifests), strict=True):
            found.add(manifest.location)
            found.update(entry.location for entry in entries)
        return frozenset(found)

    def schema(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of the snapshot's schema; see `Table.schema`.

        Raises:
            UsageError: no such column.
            NotCanonical: the metadata does not have it, or it is not sound.
            Unsupported: a type that is not known.
        """
        fields = read_fields(self._schema(snapshot), columns, self.location)
        import pyarrow as pa  # noqa: PLC0415  (extra "tables")

        return pa.schema([pa.field(field.name, field.arrow, nullable=not field.required) for field in fields])

    def physical_rows(
        self,
        data_file: DataFile,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | None = None,
        batch_rows: int = 1 << 16,
    ) -> Iterator[PhysicalRows]:
        """Read a Parquet data file in the columns of the snapshot; see `rows.read_rows`.

        Raises:
            UsageError: no such column or data file.
            Unsupported: equality deletes hold for the file, which are not applied; or another format than Parquet, or
                an encrypted file.
        """
        plan = self._plan(snapshot.info.id)
        entry = plan.data.get(data_file.path)
        if entry is None:
            raise UsageError(f"{data_file.path}: no data file of snapshot {snapshot.info.id}")
        schema = self._schema(snapshot)
        fields = read_fields(schema, columns, self.location)
        refuse_encrypted(data_file.record, entry.path)
        deletes = plan.equality_deletes(entry)
        if deletes is not None:
            raise Unsupported(
                "equality deletes",
                source=data_file.path,
                expected="data files without",
                actual=f"{deletes.path} holds for this one",
            )
        if entry.format != "parquet":
            raise Unsupported("file format", source=data_file.path, expected="parquet", actual=entry.format)
        mapping = self.metadata.name_mapping
        return read_rows(
            data_file.location,
            self.folder.storage,
            fields,
            partition=self._identity_values(entry),
            names=None if mapping is None else read_name_mapping(mapping, self.metadata.source),
            rows=data_file.physical_rows,
            batch_rows=batch_rows,
            stored=stored_ids(schema),
            dropped=frozenset().union(*map(stored_ids, self.metadata.schemas.values())),
        )

    def _plan(self, number: int) -> Plan:
        return self._plans.get(number, lambda: self._read_plan(number))

    def _read_plan(self, number: int) -> Plan:
        if number not in self.metadata.snapshots:
            raise UsageError(f"{self.location}: no snapshot {number}")
        record = self.metadata.snapshots[number]
        location = self._manifest_list(record)
        entries = itertools.chain.from_iterable(self._each(self._read_manifest, self._read_list(location)))
        schema_id = self.metadata.current_schema_id if record.schema_id is None else record.schema_id
        return Plan.of(record.info, entries, self.metadata.specs, location, schema_id=schema_id)

    def _each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Read metadata of one level, several files at a time where they are far away."""
        return run_bounded(work, items, self.folder.storage.readers(self.location))

    def _read_list(self, location: str) -> list[Manifest]:
        return read_list(location, self._locate, self.folder.storage)

    def _position_deletes(self, vector: DeletionVector) -> PositionDeletes:
        file_format, count = vector.record["file_format"].lower(), vector.cardinality or 0
        return self._deletes.get(
            vector.location, lambda: read_deletes(vector.location, file_format, count, self.folder.storage)
        )

    def _manifest_list(self, record: SnapshotRecord) -> str:
        where = f"snapshot {record.info.id}"
        if record.manifest_list is None:
            raise Unsupported(where, source=self.metadata.source, expected="a manifest-list", actual="manifests")
        if record.encrypted:
            raise Unsupported(where, source=self.metadata.source, expected="no encryption", actual="a key-id")
        return self._locate(record.manifest_list)

    def _read_manifest(self, manifest: Manifest) -> tuple[Entry, ...]:
        fields = self.metadata.specs.get(manifest.spec_id)
        if fields is None:
            raise NotCanonical(
                f"partition_spec_id of {manifest.path}",
                source=self.metadata.source,
                expected="one of partition-specs",
                actual=manifest.spec_id,
            )
        return self._entries.get(manifest, lambda: read_manifest(manifest, fields, self._locate, self.folder.storage))

    def _locate(self, path: str) -> str:
        root = self.metadata.location
        below = path[len(root) :]
        if path.startswith(f"{root}/") and "//" not in below and "/.." not in below:  # as most of many thousands are
            return self.folder.join(below[1:])
        return self.folder.locate(path)

    def _schema(self, snapshot: Snapshot) -> Members:
        number = snapshot.schema_id
        schema = None if number is None else self.metadata.schemas.get(number)
        if schema is None:
            raise NotCanonical(
                f"schema-id of snapshot {snapshot.info.id}",
                source=self.metadata.source,
                expected="one of schemas",
                actual=number,
            )
        return schema

    def _identity_values(self, entry: Entry) -> Mapping[int, Any]:
        spec = self.metadata.specs[entry.partition.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec, entry.partition.values, strict=True)
            if field.transform == "identity" and field.source_id is not None
        }
