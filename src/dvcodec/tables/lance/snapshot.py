"""A version of a Lance dataset: reads its deletion files and rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from dvcodec.core.extras import pa
from dvcodec.io.target import split
from dvcodec.lance import DeletionFile, read_deletion_file
from dvcodec.lance.deletions import ARROW_MAGIC
from dvcodec.lance.manifest import read_row_count
from dvcodec.ops.read import read_vector
from dvcodec.ops.sniff import ContainerKind, VectorRef
from dvcodec.ops.stats import measure
from dvcodec.tables.lance.rows import fragment_rows, open_version, schema_of
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, Record, RowReader
from dvcodec.tables.rows.columns import select
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.table import Snapshot


@dataclass(frozen=True, slots=True)
class FragmentRecord(Record):
    """What the manifest records of a data file.

    Attributes:
        id: of the fragment.
        overlays: how many of `DataFile.files`, the last ones, are overlays: newer values of some rows.
    """

    id: int
    overlays: int


@dataclass(frozen=True, slots=True)
class DeletionRecord(Record):
    """What the manifest records of a vector.

    Attributes:
        file: the deletion file.
        physical_rows: rows of its fragment, deleted ones included; None if not recorded.
    """

    file: DeletionFile
    physical_rows: int | None


@dataclass(frozen=True)
class LanceSnapshot(Snapshot):
    """A version of a Lance dataset; see `Snapshot`."""

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a deletion file and compare it with the manifest: number of deleted rows, and rows of the fragment.

        Raises:
            DecodeError: it is corrupt, or differs from the manifest.
            MissingExtra: a file of the Arrow kind, without pyarrow.
            OSError: it cannot be read.
        """
        record = self._record(vector, DeletionRecord)
        physical_rows = record.physical_rows
        storage, cardinality = self.table.folder.storage, vector.cardinality
        with storage.open(vector.location) as source:
            found = read_deletion_file(
                source,
                num_deleted_rows=cardinality,
                physical_rows=physical_rows,
                limits=storage.limits,
                storage_options=storage,
            )
            kind = ContainerKind.ROARING32 if record.file.kind == "bin" else ContainerKind.LANCE_ARROW
            stats = measure(
                read_vector(source, VectorRef(kind, 0, source.size), limits=storage.limits),
                row_count=physical_rows,
                size=source.size,
            )
        return (DeletedRows(str(vector.data_file), found, stats),)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Check the name and the first bytes of a deletion file.

        Checks, for each record: ``name`` (it has the fragment, read version and id), ``read-version`` (the delete
        started from a version before the snapshot) and ``kind`` (whether the first bytes are those of an Arrow file).
        """
        with self.table.folder.storage.open(location) as source:
            head = bytes(source.read(0, min(source.size, len(ARROW_MAGIC))))
        kind = "arrow" if head == ARROW_MAGIC else "bin"
        for vector in vectors:
            file = self._record(vector, DeletionRecord).file
            started, version = file.read_version, self.info.id
            before = started if started < version else f"a version before {version}"
            for check, what, expected, actual in (
                ("name", "name of the deletion file", split(file.path(""))[1], split(location)[1]),
                ("read-version", "version that the delete started from", before, started),
                ("kind", "kind of the deletion file", file.kind, kind),
            ):
                if expected != actual:
                    yield Finding.of_vector(check, vector, what, expected, actual)

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the row count in the footers of a fragment's files; None if a file has an unknown version.

        All files have the rows of the fragment; if the counts differ, the first one that differs from the manifest is
        returned. Overlays hold values of some rows, and are not counted.
        """
        found = data_file.physical_rows
        overlays = self._record(data_file, FragmentRecord).overlays
        for path in data_file.files[: len(data_file.files) - overlays]:
            with self.table.folder.storage.open(self.table.folder.locate(path)) as source:
                rows = read_row_count(source, limits=self.table.folder.storage.limits)
            if rows is None or rows != found:
                return rows
        return found

    def blind_spots(self, *, deep: bool = False) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """Report that deletion files have no checksum."""
        count = len(self.vectors)
        if count:
            files = f"{count} deletion file{'s' if count > 1 else ''} (.arrow, .bin)"
            message = "a flipped bit that leaves a valid file with as many rows is not found"
            yield "no-checksum", f"Lance stores no checksum of {files}: {message}"

    def has_columns_of(self, other: LanceSnapshot) -> bool:
        """Compare the schemas of Lance's library, which have field ids; see `Snapshot.has_columns_of`."""
        options = self.table.folder.storage.options
        mine, its = (open_version(one.table.location, one.info.id, options).lance_schema for one in (self, other))
        return bool(mine == its)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of a version, as Lance's library reports them.

        Raises:
            MissingExtra: it is not installed.
            UsageError: no such column.
            NotCanonical: it cannot open the version.
        """
        dataset = open_version(self.table.location, self.info.id, self.table.folder.storage.options)
        return select(schema_of(dataset), columns, dataset.uri)

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads a fragment; see `Snapshot.rows`. Blob columns are read as bytes.

        The physical order is checked by the row addresses that Lance returns with live rows.

        Raises:
            MissingExtra: Lance's library is not installed.
            NotCanonical: it cannot read the fragment, or its row count differs from the manifest.
        """
        fragment = self._record(data_file, FragmentRecord).id
        options = self.table.folder.storage.options
        return RowReader(
            partial(fragment_rows, self.table.location, self.info.id, options, data_file, fragment, columns)
        )
