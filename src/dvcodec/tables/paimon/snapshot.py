"""A snapshot of a Paimon table: reads its vectors and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa
from dvcodec.ops.stats import measure
from dvcodec.paimon.vectors import read_vector
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, RowReader
from dvcodec.tables.paimon.bounds import FileStatistics, bounds_of, read_statistics
from dvcodec.tables.paimon.manifests import DataFileMeta
from dvcodec.tables.paimon.metadata import SnapshotRecord, TableSchema
from dvcodec.tables.paimon.partition import PartitionSpec, Value
from dvcodec.tables.paimon.rows import Visible, partition_scalar, read_rows
from dvcodec.tables.paimon.schema import SchemaColumns
from dvcodec.tables.paimon.vectors import IndexedVector, check_index_file
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.rows.columns import Column, chosen
from dvcodec.tables.rows.data_file import count_rows
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.table import Snapshot

ENABLED = "deletion-vectors.enabled"
"""Table option: whether readers look for vectors."""


@dataclass(frozen=True, kw_only=True)
class PaimonSnapshot(Snapshot):
    """A snapshot of a Paimon table; see `Snapshot`.

    Attributes:
        partitions: how its data files are partitioned; None for a table without snapshots.
        visible: which records are rows, by data file.
        schemas: returns a schema of the table by its id.
        state: its file; None for the state of a table without snapshots.
        manifests: names of its manifests; none if it has only some of its data files.
    """

    partitions: PartitionSpec | None = field(repr=False, compare=False)
    visible: Mapping[str, Visible | str] = field(repr=False, compare=False)
    schemas: Callable[[int], TableSchema] = field(repr=False, compare=False)
    state: SnapshotRecord | None = field(default=None, repr=False, compare=False)
    manifests: tuple[str, ...] = field(default=(), repr=False, compare=False)

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
            self._columns_of(self.schemas(meta.schema_id)),
            visible,
            shown=self._shown.fields,
        )
        return RowReader(read)

    def bounds(self, data_file: DataFile, columns: Sequence[str]) -> Mapping[str, ColumnBounds]:
        """Return the partition values of a data file, the only ones by which files are skipped here."""
        values = self._constants(data_file)
        every = self._columns_of(self._shown)
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
        written = [self._columns_of(schema).column(field.name) for field in schema.fields]
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
        schema = self._shown
        if self.vectors and not schema.is_true(ENABLED):
            source = self.table.folder.join(schema.name)
            what, actual = f"{ENABLED} of a table with vectors", schema.options.get(ENABLED, "not set")
            yield Finding.failed("paimon-vectors-disabled", what, "true", actual, path=source)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Compare an index file with its record in the index manifest; see `vectors.check_index_file`."""
        return check_index_file(location, vectors, self.table.folder.storage)

    def _constants(self, data_file: DataFile) -> dict[str, Value]:
        """Return the partition values of a data file by column."""
        meta = self._record(data_file, DataFileMeta)
        assert self.partitions is not None  # noqa: S101  (of every snapshot with data files)
        values = self.partitions.decode(meta.partition, source=data_file.location).values
        return dict(zip(self.partitions.names, values, strict=True))

    def _chosen(self, columns: Sequence[str] | None) -> list[str]:
        return chosen(self._columns_of(self._shown).names, columns, self.table.location)

    def _read(self, columns: Sequence[str] | None) -> list[Column]:
        return list(map(self._columns_of(self._shown).column, self._chosen(columns)))

    def _columns_of(self, schema: TableSchema) -> SchemaColumns:
        if schema.id not in self._known:
            self._known[schema.id] = SchemaColumns(schema, self.table.folder.join(schema.name))
        return self._known[schema.id]

    @cached_property
    def _known(self) -> dict[int, SchemaColumns]:
        """By schema id."""
        return {}

    @property
    def _shown(self) -> TableSchema:
        """The schema in which rows are read."""
        if self.schema_id is None:
            raise NotCanonical("schemaId", source=self.table.location, expected="a schema", actual="none")
        return self.schemas(self.schema_id)
