"""A snapshot of an Iceberg table: reads its vectors, position deletes and rows, and has what is recorded in columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import numpy as np

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa
from dvcodec.core.ragged import Flags, Index
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import counted
from dvcodec.core.vector import Magic
from dvcodec.tables.columns import FileColumns, Places, VectorColumns
from dvcodec.tables.iceberg.deletes import (
    EqualityMatcher,
    PositionDeletes,
    check_vectors,
    read_deletes,
    read_small,
    read_vector,
    refuse_encrypted,
)
from dvcodec.tables.iceberg.entries import ManifestEntry
from dvcodec.tables.iceberg.metadata import TableMetadata
from dvcodec.tables.iceberg.plan import ScanPlan, contradictions
from dvcodec.tables.iceberg.rows import (
    ColumnStatistics,
    NameMapping,
    bounds_of,
    may_be_between,
    names_in_file,
    read_name_mapping,
    read_rows,
    read_statistics,
)
from dvcodec.tables.iceberg.schema import SchemaColumns, constant_of_partition, stored_ids
from dvcodec.tables.metadata import Cache
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import (
    NO_SNAPSHOT,
    POSITION_DELETES,
    DataFile,
    DeletedRows,
    DeletionVector,
    RowReader,
    StoredNames,
)
from dvcodec.tables.rows.bounds import ColumnBounds, Range
from dvcodec.tables.rows.columns import Column
from dvcodec.tables.rows.data_file import FILE_FORMATS, count_rows
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.table import Snapshot

_INTEGER_BYTES = {"int": 4, "long": 8}
_KEPT_STATISTICS = 1 << 20
"""Of columns in data files, each some 300 bytes."""
Locate = Callable[[Sequence[str]], Sequence[str]]
"""Returns where recorded paths can be opened."""


@dataclass(frozen=True, repr=False, kw_only=True)
class IcebergSnapshot(Snapshot):
    """A snapshot of an Iceberg table; see `Snapshot`.

    Attributes:
        metadata: metadata of the table.
        plan: which deletes apply to which data file.
        deletes: position deletes that were read, shared by the snapshots of the table.
        locate_each: returns where recorded paths can be opened.
        skipped_metadata: see `IcebergTable`.
    """

    metadata: TableMetadata = field(repr=False, compare=False)
    plan: ScanPlan = field(repr=False, compare=False)
    deletes: Cache[str, PositionDeletes] = field(repr=False, compare=False)
    locate_each: Locate = field(repr=False, compare=False)
    skipped_metadata: tuple[str, ...] = ()

    @property
    def frame_magics(self) -> tuple[Magic, ...]:
        """What vectors begin with; see `Snapshot.frame_magics`."""
        return (Magic.PORTABLE64,)

    @cached_property
    def files(self) -> Mapping[str, DataFile]:
        """The data files by path."""
        return self.plan.data

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of the data files by path."""
        return self.plan.numbers

    @cached_property
    def file_columns(self) -> FileColumns:
        """What is recorded of the data files, by column; see `Snapshot.file_columns`."""
        return _FileColumns(self.plan, self.locate_each)

    @cached_property
    def vector_columns(self) -> VectorColumns:
        """What is recorded of the vectors, by column; see `Snapshot.vector_columns`."""
        return _VectorColumns(self.plan, self.locate_each)

    def with_other_deletes(self) -> Sequence[int]:
        """Return the numbers of the data files to which equality deletes may apply."""
        return range(len(self.data_files)) if self.plan.equality else ()

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a vector, or those position deletes of a file that apply to data files of the snapshot.

        Position deletes do not apply to data files that are newer, or have a deletion vector. They do apply to a data
        file that they name with another scheme, if only one matches: see `plan`.

        Raises:
            UsageError: a vector of another table, or position deletes of another snapshot.
            DecodeError: they are corrupt, or lack their location or data file.
            OSError: the file cannot be read.
        """
        plan = self.plan
        entry = self._record(vector, ManifestEntry)
        refuse_encrypted(entry, vector.where)
        if vector.format == "iceberg":
            return (read_vector(vector, plan, self.table.folder.storage),)
        deletes = self._position_deletes(vector)
        rows: dict[str, RowSet] = {}
        for path, some in deletes.rows.items():
            meant = plan.find(path) or path
            if vector.data_file not in (None, meant):
                raise NotCanonical("file_path", source=vector.location, expected=vector.data_file, actual=path)
            rows[meant] = rows[meant] | some if meant in rows else some
        there = {path: some for path, some in rows.items() if path in plan.data}
        return tuple(DeletedRows(path, some) for path, some in there.items() if plan.holds(vector, plan.data[path]))

    def read_ahead(self, vectors: Sequence[DeletionVector]) -> None:
        """Read small Parquet files of position deletes together; see `read_small`."""
        wanted: dict[str, int] = {}
        for vector in vectors:
            entry = vector.record
            if vector.format != POSITION_DELETES or not isinstance(entry, ManifestEntry):
                continue
            if entry.is_plain_parquet and self._has_vector(vector) and self.deletes.find(vector.location) is None:
                wanted.setdefault(vector.location, vector.cardinality or 0)
        for location, found in read_small(wanted.items(), self.table.folder.storage).items():
            self.deletes.add(location, found)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of the snapshot's schema; see `Snapshot.schema`.

        Raises:
            UsageError: no such column.
            NotCanonical: the metadata does not have it, or it is corrupt.
            Unsupported: an unknown type.
        """
        return pa.schema([column.field for column in self._read(columns)])

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads a data file in the columns of the snapshot; see `rows.read_rows`.

        Raises:
            UsageError: no such column or data file.
            Unsupported: a format other than Parquet, ORC and Avro, or an encrypted file.
        """
        entry = self._record(data_file, ManifestEntry)
        fields = self._read(columns)
        refuse_encrypted(entry, data_file.path)
        if entry.file_format not in FILE_FORMATS:
            expected, actual = " or ".join(FILE_FORMATS), entry.file_format
            raise Unsupported("file format", source=data_file.path, expected=expected, actual=actual)
        read = partial(
            read_rows,
            data_file.location,
            self.table.folder.storage,
            fields,
            file_format=entry.file_format,
            partition=entry.partition.identity,
            names=self._names,
            rows=data_file.physical_rows,
            stored=self._stored,
            dropped=self._every_id,
        )
        return RowReader(read)

    def read_alike(self, numbers: Sequence[int], columns: Sequence[str]) -> Sequence[Hashable | None]:
        """Return the values of identity partitions, as far as they are read; see `Snapshot.read_alike`."""
        ids = frozenset(field.id or 0 for field in self._read(columns))
        return [self._read_as(ManifestEntry.of(self.data_files[number]), ids) for number in numbers]

    def _read_as(self, entry: ManifestEntry, ids: frozenset[int]) -> Hashable | None:
        if not entry.is_plain_parquet:
            return None
        values = entry.partition.identity
        if not values:
            return ()
        known = frozenset(number for number, value in values.items() if value is not None)
        return known, tuple(values[number] for number in sorted(ids & known))

    def stored_names(self, data_file: DataFile, columns: Sequence[str]) -> StoredNames | None:
        """Return where a program that finds columns by name reads them, by the footer; see `Snapshot.stored_names`."""
        entry = self._record(data_file, ManifestEntry)
        if not entry.is_plain_parquet:
            return None
        partition = entry.partition.identity
        names = names_in_file(data_file.location, self.table.folder.storage, self._read(columns), partition)
        return None if names is None else StoredNames(names)

    def _read(self, columns: Sequence[str] | None) -> tuple[Column, ...]:
        return self._columns.read(columns, self.table.location)

    @cached_property
    def _columns(self) -> SchemaColumns:
        return SchemaColumns(self._fields())

    @cached_property
    def _stored(self) -> dict[int, str]:
        return stored_ids(self._fields())

    @cached_property
    def _names(self) -> Mapping[str, NameMapping] | None:
        return read_name_mapping(self.metadata.name_mapping, self.metadata.source)

    @cached_property
    def _every_id(self) -> frozenset[int]:
        return frozenset().union(*map(stored_ids, self.metadata.schemas.values()))

    def files_in(self, ranges: Mapping[str, Range]) -> Sequence[int] | None:
        """Return the data files that may have rows in ranges, by manifests; see `Snapshot.files_in`."""
        found: list[int] = []
        partition_fields = chain.from_iterable(self.metadata.specs.values())
        constants = {field.source_id for field in partition_fields if field.transform == "identity"}
        wanted = {
            field.id: (_INTEGER_BYTES[field.kind], ranges[field.name])
            for field in self._read(list(ranges))
            if field.kind in _INTEGER_BYTES and field.id and field.id not in constants
        }
        if not wanted:
            return None
        first = 0
        for part in self.plan.data_parts:
            may = may_be_between(part, wanted, self.table.folder.storage)
            found += (first + np.flatnonzero(may)).tolist()
            first += len(part)
        return found

    def bounds(self, data_file: DataFile, columns: Sequence[str]) -> Mapping[str, ColumnBounds]:
        """Return the bounds of columns by the manifest, and by the values of identity partitions."""
        entry = self._record(data_file, ManifestEntry)
        fields = {field.id or 0: field for field in self._read(columns)}
        values = entry.partition.identity
        found = {
            field.name: ColumnBounds.of_partition(constant_of_partition(field, values[number], data_file.location))
            for number, field in fields.items()
            if number in values
        }
        ids = frozenset(fields.keys() - values.keys())
        if ids:
            manifest = entry.manifest
            folder = self.table.folder
            recorded = self._statistics.get(
                (manifest, ids), lambda: read_statistics(folder.locate(manifest), ids, folder.storage)
            )
            for number, statistics in recorded.get(data_file.path, {}).items():
                found[fields[number].name] = bounds_of(fields[number], statistics)
        return found

    @cached_property
    def _statistics(self) -> Cache[tuple[str, frozenset[int]], Mapping[str, Mapping[int, ColumnStatistics]]]:
        return Cache(_KEPT_STATISTICS, lambda files: sum(map(len, files.values())))

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the row count in the footer of a Parquet data file; None for other formats and encrypted files."""
        entry = self._record(data_file, ManifestEntry)
        if not entry.is_plain_parquet:
            return None
        return count_rows(data_file.location, self.table.folder.storage)

    def other_deletes(self, data_file: DataFile) -> str | None:
        """Name the newest equality deletes that apply to a data file; None without any.

        Value bounds, by which engines skip more of them, are ignored.
        """
        if not self.plan.equality:
            return None
        groups = (self.plan.equality.get(key, ()) for key in (None, ManifestEntry.of(data_file).partition))
        newest = max((one[-1] for one in groups if one), key=attrgetter("file.sequence_number"), default=None)
        if newest is None or (newest.file.sequence_number or 0) <= (data_file.sequence_number or 0):
            return None
        return f"equality deletes ({newest.file.path})"

    @cached_property
    def equality_deletes(self) -> frozenset[str]:
        """Files of equality deletes."""
        return frozenset(one.path for one in self.plan.equality_files)

    def deleted_by_value(self, data_file: DataFile) -> RowSet:
        """Return the rows that equality deletes delete; see `EqualityMatcher.find`."""
        return self._equality.find(data_file)

    @cached_property
    def _equality(self) -> EqualityMatcher:
        return EqualityMatcher(self.plan, self.metadata, self.table.folder.storage, lambda: self._names)

    def unknown_files(self, vector: DeletionVector) -> tuple[str, ...]:
        """Return data files that are not in the snapshot; see `Snapshot.unknown_files`."""
        if vector.data_file is not None or vector.format != POSITION_DELETES:
            return ()
        return tuple(path for path in self._position_deletes(vector).rows if self.plan.find(path) is None)

    def respelled(self, vector: DeletionVector) -> tuple[tuple[str, str], ...]:
        """Return data files named with another scheme; see `Snapshot.respelled`."""
        if vector.format != POSITION_DELETES:
            return ()
        plan = self.plan
        recorded = plan.respelled.get(vector.path)
        spelled = dict.fromkeys(([] if recorded is None else [recorded]) + list(self._position_deletes(vector).rows))
        pairs = ((path, plan.find(path)) for path in spelled)
        return tuple(
            (path, meant) for path, meant in pairs if meant not in (None, path) and plan.holds(vector, plan.data[meant])
        )

    def check_metadata(self) -> Iterator[Finding]:
        """Find metadata that was not read, or makes engines refuse the table or skip vectors; see `contradictions`."""
        if self.info.id == NO_SNAPSHOT:
            return iter(())
        return contradictions(self.metadata, self.plan, self.skipped_metadata)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Check a file of vectors; see `deletes.check_vectors`."""
        return check_vectors(location, vectors, self.table.folder.storage, self.path_matcher)

    def blind_spots(self, *, deep: bool = False) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """Report files of position deletes: few writers give their pages checksums; see `Snapshot.blind_spots`."""
        count = sum(vector.format == POSITION_DELETES for vector in self.vectors)
        if count:
            files = f"{counted(count, 'file')} of position deletes"
            yield "no-checksum", f"{files}: a changed position is only found if their writer stored Parquet's checksums"

    def _position_deletes(self, vector: DeletionVector) -> PositionDeletes:
        file_format, count = ManifestEntry.of(vector).file_format, vector.cardinality or 0
        storage = self.table.folder.storage
        return self.deletes.get(vector.location, lambda: read_deletes(vector.location, file_format, count, storage))

    def _fields(self) -> JsonFields:
        schema = None if self.schema_id is None else self.metadata.schemas.get(self.schema_id)
        if schema is None:
            what, source = f"schema-id of snapshot {self.info.id}", self.metadata.source
            raise NotCanonical(what, source=source, expected="one of schemas", actual=self.schema_id)
        return schema


def _of_parts(parts: str, name: str) -> cached_property[Index]:
    """Return a column of all data files or vectors, from those of each manifest."""

    def joined(columns: Any) -> Index:
        return np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in getattr(columns.plan, parts))])

    return cached_property(joined)


class _FileColumns(FileColumns):
    def __init__(self, plan: ScanPlan, locate: Locate) -> None:
        super().__init__(plan.data_files)
        self.plan, self._locate = plan, locate

    @cached_property
    def paths(self) -> Sequence[str]:
        return list(self.plan.numbers)

    @cached_property
    def locations(self) -> Sequence[str]:
        return self._locate(self.paths)

    @cached_property
    def partitions(self) -> Sequence[str | None]:
        partitions, of_files, _ = self.plan.partitions
        labels = [partition.label for partition in partitions]
        return [labels[code] for code in of_files.tolist()]

    rows = _of_parts("data_parts", "rows")
    sizes = _of_parts("data_parts", "sizes")

    @cached_property
    def single(self) -> Flags:
        return np.ones(len(self.files), np.bool_)


class _VectorColumns(VectorColumns):
    def __init__(self, plan: ScanPlan, locate: Locate) -> None:
        super().__init__(plan.vectors, plan.numbers)
        self.plan, self._locate = plan, locate

    @cached_property
    def files(self) -> Index:
        return self.plan.files_of_vectors

    @cached_property
    def bitmaps(self) -> Flags:
        return self.plan.bitmaps

    @cached_property
    def frames(self) -> Flags:
        plan, known = self.plan, np.flatnonzero(self.files >= 0)
        of_files, of_vectors = plan.sequence_numbers
        found: Flags = self.bitmaps.copy()  # without those that are older than their data file, or have a key
        found[known] &= of_vectors[known] >= of_files[self.files[known]]
        starts = accumulate((len(part) for part in plan.vector_parts), initial=0)
        for first, part in zip(starts, plan.vector_parts, strict=False):
            found[[first + number for number in part.entries.keys]] = False
        return found

    @cached_property
    def have_wide(self) -> bool:
        return None in self.plan.named

    @cached_property
    def places(self) -> Places:
        numbers: dict[str, int] = {}
        own = (part.entries.paths for part in self.plan.vector_parts)
        path_of = np.array([numbers.setdefault(path, len(numbers)) for paths in own for path in paths], np.int64)
        located: dict[str, int] = {}
        of_path = [located.setdefault(one, len(located)) for one in self._locate(list(numbers))]
        return Places(list(numbers), path_of, list(located), np.array(of_path, np.int64)[path_of])

    offsets = _of_parts("vector_parts", "offsets")
    sizes = _of_parts("vector_parts", "sizes")
    cardinalities = _of_parts("vector_parts", "cardinalities")
    file_sizes = _of_parts("vector_parts", "file_sizes")
