"""A version of a Delta table: reads its vectors and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.extras import pa
from dvcodec.core.rowset import RowSet
from dvcodec.delta import EMPTY, read_frames
from dvcodec.delta.vectors import read_inline, read_vector
from dvcodec.ops.stats import VectorStats, measure
from dvcodec.tables.delta.actions import AddFile, Metadata, Protocol
from dvcodec.tables.delta.bounds import SHORT_OFFSET, bounds_of, parse_statistics
from dvcodec.tables.delta.contradictions import check_hint, contradictions
from dvcodec.tables.delta.log import Log
from dvcodec.tables.delta.partition import in_folders, partition_scalar
from dvcodec.tables.delta.protocol import check_provider
from dvcodec.tables.delta.rows import read_rows
from dvcodec.tables.delta.schema import TableSchema, has_own_names, read_schema
from dvcodec.tables.metadata.cache import Cache
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, RowReader, StoredNames
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.rows.columns import chosen
from dvcodec.tables.rows.data_file import count_rows
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.table import Snapshot

_KEPT_STATISTICS = 16
"""Of data files."""


@dataclass(frozen=True, kw_only=True)
class DeltaSnapshot(Snapshot):
    """A version of a Delta table; see `Snapshot`.

    The record of a data file and of its vector is the `AddFile` that has both.

    Attributes:
        protocol: the protocol in effect.
        metadata: the metadata in effect.
        action_findings: findings in the commits up to this version; see `ActionChecks`.
        log: the table's log.
        transactions: see `State`.
    """

    protocol: Protocol = field(repr=False, compare=False)
    metadata: Metadata = field(repr=False, compare=False)
    action_findings: tuple[Finding, ...] = field(repr=False, compare=False)
    log: Log = field(repr=False, compare=False)
    transactions: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Check the frames of a vector file; those of superseded vectors are not checked.

        Check: ``frame`` for each vector, that a frame of its size begins at its offset.

        Raises:
            DecodeError: the file does not begin with its version, or is not frames back to back.
            OSError: it cannot be read.
        """
        with self.table.folder.storage.open(location) as source:
            frames = {
                cursor.base: len(cursor.view) for cursor in read_frames(source, limits=self.table.folder.storage.limits)
            }
        for vector in vectors:
            size = frames.get(1 if vector.offset is None else vector.offset)
            if size != vector.size:
                expected = f"one of {vector.size} bytes (log)"
                actual = "none" if size is None else f"one of {size} bytes"
                yield Finding.of_vector("frame", vector, "frame in the file", expected, actual)

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a vector by its byte range, or from the log, and verify it by its descriptor; see `Snapshot.read`."""
        added = self._record(vector, AddFile)
        assert vector.data_file is not None and added.vector is not None  # noqa: S101, PT018
        descriptor, rows = added.vector.descriptor, added.rows
        limits = self.table.folder.storage.limits
        if descriptor == EMPTY:
            return (DeletedRows(vector.data_file, RowSet(), replace(_NO_ROWS, row_count=rows)),)
        if descriptor.is_inline:
            text, size = descriptor.path_or_inline_dv, descriptor.size_in_bytes
            found = read_inline(text, size, cardinality=vector.cardinality, limits=limits, source=vector.where)
            stats = measure(found, row_count=rows, size=size)
        else:
            with self.table.folder.storage.open(vector.location) as source:
                found = read_vector(source, replace(descriptor, cardinality=vector.cardinality or 0), limits)
                return (DeletedRows(vector.data_file, found.load(), measure(found, row_count=rows)),)
        return (DeletedRows(vector.data_file, found.load(), stats),)

    def has_columns_of(self, other: DeltaSnapshot) -> bool:
        """Compare the schemas as they are recorded, names in data files included; see `Snapshot.has_columns_of`."""
        return self.metadata.schema == other.metadata.schema

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of a version; see `Snapshot.schema`.

        Raises:
            UsageError: no such column.
            Unsupported: a column has an unsupported type: variant, geometry, geography.
            NotCanonical: the schema is corrupt.
        """
        return self._columns.select(chosen(self._columns.names, columns, self.table.location))

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads a data file in the columns of a version; see `Snapshot.rows`.

        Partition columns are read from the log, columns that the file lacks are null, and narrower types are widened.
        Dates and times before 1582 are read as stored, in the writer's calendar.

        Raises:
            UsageError: no such column.
            NotCanonical: the schema or a partition value is corrupt.
            Unsupported: another format than Parquet, or an unknown change of schema.
        """
        schema, metadata = self._columns, self.metadata
        names = chosen(schema.names, columns, self.table.location)
        check_provider(metadata)
        fields = [schema.column(name) for name in names]
        values = self._record(data_file, AddFile).partition_values
        partition = frozenset(metadata.partition_columns)
        location, storage = data_file.location, self.table.folder.storage
        return RowReader(partial(read_rows, location, storage, fields, values, partition, schema=schema))

    def stored_names(self, data_file: DataFile, columns: Sequence[str]) -> StoredNames | None:
        """Return where a program that finds columns by name reads them; see `Snapshot.stored_names`.

        Delta Spark reads data files itself in this way: missing columns are null, and types are widened.
        """
        schema = self._columns
        found = [schema.column(name) for name in chosen(schema.names, columns, self.table.location)]
        partition = [column for column in found if column.name in self.metadata.partition_columns]
        by_name = self.metadata.provider == "parquet" and schema.mode != "id" and all(map(has_own_names, found))
        if not by_name or (partition and not in_folders(data_file, partition)):
            return None
        return StoredNames(tuple(column.stored_name for column in found), bool(partition))

    def bounds(self, data_file: DataFile, columns: Sequence[str]) -> Mapping[str, ColumnBounds]:
        """Return the bounds of columns by the log: partition values, and the statistics of the data file."""
        added, found = self._record(data_file, AddFile), {}
        for name in chosen(self._columns.names, columns, self.table.location):
            column = self._columns.column(name)
            if name in self.metadata.partition_columns:
                found[name] = ColumnBounds.of_partition(
                    partition_scalar(added.partition_values, column, data_file.location)
                )
            else:
                found[name] = bounds_of(column, self._statistics_of(added))
        return found

    def _statistics_of(self, added: AddFile) -> Mapping[str, Any]:
        text = added.action.get("stats")
        return self._statistics.get(text, lambda: parse_statistics(text)) if isinstance(text, str) else {}

    @cached_property
    def _statistics(self) -> Cache[str, Mapping[str, Any]]:
        """Parsed statistics by their text, which thousands of data files may share."""
        return Cache(_KEPT_STATISTICS, lambda _: 1)

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the row count in the footer of a Parquet data file; None for other formats."""
        parquet = self.metadata.provider == "parquet"
        return count_rows(data_file.location, self.table.folder.storage) if parquet else None

    def check_metadata(self) -> Iterator[Finding]:
        """Find where the log contradicts the vectors, the columns or itself; see `contradictions`."""
        yield from contradictions(self.protocol, self.metadata, vectors=bool(self.vectors))
        yield from self.action_findings
        yield from self._short_offsets()
        if not self.log.is_broken and self.info.id == self.log.latest:
            yield from check_hint(self.table.folder, self.log)

    def _short_offsets(self) -> Iterator[Finding]:
        """Find statistics whose times may be off by seconds (``delta-statistics``): Delta Spark skips files by them."""
        if '"timestamp"' not in self.metadata.schema:
            return
        for file in self.data_files:
            text = self._record(file, AddFile).action.get("stats")
            if isinstance(text, str) and (found := SHORT_OFFSET.search(text)):
                what, expected = "statistics of a data file", "offsets with the seconds that they had before 1973"
                yield Finding.failed(
                    "delta-statistics", what, expected, found[0], data_file=file.path, path=self.log.location
                )

    @cached_property
    def _columns(self) -> TableSchema:
        return read_schema(self.protocol, self.metadata)


_NO_ROWS = VectorStats(0, None, None, 0, ContainerMix(0, 0, 0), 0, 0)
"""Statistics for the descriptor of no rows, which has no bytes."""
