"""An epoch of a scorch index: reads its bitmaps of deleted documents and stored documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from dvcodec.core.errors import DvcodecError, NotCanonical
from dvcodec.core.extras import pa
from dvcodec.io.allowed_locations import hide_values
from dvcodec.ops.read import read_vector
from dvcodec.ops.sniff import ContainerKind, VectorRef
from dvcodec.ops.stats import measure
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, Record, RowReader
from dvcodec.tables.rows.columns import select
from dvcodec.tables.scorch.metadata import read_root, read_transaction
from dvcodec.tables.scorch.rows import read_rows, schema
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.table import Snapshot
from dvcodec.zap import verify_segment


@dataclass(frozen=True, slots=True)
class SegmentRecord(Record):
    """What is recorded of a segment, and of its deleted documents.

    Attributes:
        segment: its number.
        num_docs: documents by its footer, deleted ones included; None if that cannot be read.
        dropped_fields: of the whole index: fields whose stored values are no longer valid.
        problem: why its footer cannot be read, or that it is not the one that the epoch names; None if all is well.
    """

    segment: int
    num_docs: int | None
    dropped_fields: tuple[str, ...]
    problem: DvcodecError | OSError | None


@dataclass(frozen=True, kw_only=True)
class ScorchSnapshot(Snapshot):
    """An epoch of a scorch index; see `Snapshot`.

    Attributes:
        transaction: of ``root.bolt``, in which the epoch was read.
    """

    transaction: int = field(repr=False, compare=False)

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a bitmap by its byte range.

        Raises:
            NotCanonical: also if ``root.bolt`` was written since the snapshot was read.
            DecodeError: the bitmap is corrupt.
            OSError: ``root.bolt`` cannot be read.
        """
        record = self._record(vector, SegmentRecord)
        try:
            with self.table.folder.storage.open(vector.location) as source:
                ref = VectorRef(ContainerKind.ROARING32, vector.offset or 0, vector.size or 0)
                stored = read_vector(source, ref, limits=self.table.folder.storage.limits)
        finally:
            self._refuse_later(vector.location)
        with hide_values(vector.location, self.table.folder.storage.home):
            rows = stored.load()
            stats = measure(stored, row_count=record.num_docs)
        return (DeletedRows(str(vector.data_file), rows, stats),)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Check ``root.bolt`` as a whole, and the segments of vectors.

        Checks, for each record, ``range``: the key ``d`` of its segment is at this very range.

        Raises:
            DecodeError: ``root.bolt`` is corrupt.
        """
        ranges = {
            entry.id: (entry.deleted.offset, len(entry.deleted.data))
            for epoch in read_root(location, self.table.folder.storage).epochs
            for entry in epoch.segments
            if epoch.id == self.info.id and entry.deleted is not None
        }
        for vector in vectors:
            record = self._record(vector, SegmentRecord)
            found, expected = ranges.get(record.segment), (vector.offset, vector.size)
            if found != expected:
                yield Finding.of_vector("range", vector, "offset and size of the bitmap", expected, found or "none")

    def damaged_files(self) -> Mapping[str, DvcodecError | OSError]:
        """Return the segments that are missing, or whose footers are corrupt or of another version."""
        records = ((file.path, SegmentRecord.of(file).problem) for file in self.data_files)
        return {path: problem for path, problem in records if problem is not None}

    def check_contents(self, data_file: DataFile) -> Iterator[Finding]:
        """Verify a segment (``segment``); see `verify_segment`."""
        storage = self.table.folder.storage
        for check in verify_segment(data_file.location, limits=storage.limits, storage_options=storage).findings:
            yield Finding.failed(
                "segment",
                f"{check.name} of {check.subject}: {check.message}",
                check.expected,
                check.actual,
                data_file=data_file.path,
                path=data_file.location,
                offset=check.offset,
            )

    def blind_spots(self, *, deep: bool = False) -> Iterator[tuple[str, str]]:
        """Return ``segment-contents`` unless segments are verified."""
        if self.data_files and not deep:
            count = len(self.data_files)
            segments = "the segment" if count == 1 else f"{count:,} segments"
            yield "segment-contents", f"only the footer of {segments} was read; a deep audit verifies all bytes"

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the number of documents of a segment, which the model takes from its footer."""
        return data_file.physical_rows

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of stored documents, which are the same for every index; see `schema`.

        Raises:
            UsageError: no such column.
        """
        return select(schema(), columns, self.table.location)

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads the stored documents of a segment; see `Snapshot.rows`.

        Values of dropped fields are omitted. Only a bounded part of the file is in memory at a time.

        Raises:
            DecodeError: the segment is corrupt, or was replaced.
        """
        dropped = self._record(data_file, SegmentRecord).dropped_fields
        return RowReader(partial(read_rows, data_file, self.table.folder.storage, dropped, columns))

    def _refuse_later(self, location: str) -> None:
        """Raise `NotCanonical` if the bytes of vectors may have changed."""
        now = read_transaction(location, self.table.folder.storage)
        if now != self.transaction:
            raise NotCanonical(
                "transaction",
                source=location,
                expected=f"{self.transaction}, in which the snapshot was read",
                actual=f"{now}: the index was written since",
            )
