"""An epoch of a scorch index: reads its bitmaps of deleted documents and stored documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dvcodec.core.errors import NotCanonical
from dvcodec.io import Storage
from dvcodec.ops.read import read_vector
from dvcodec.ops.sniff import ContainerKind, VectorRef
from dvcodec.ops.stats import measure
from dvcodec.tables.columns import select
from dvcodec.tables.findings import Finding
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, PhysicalRows
from dvcodec.tables.scorch.metadata import read_root, read_transaction
from dvcodec.tables.scorch.rows import read_rows, schema
from dvcodec.tables.table import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ScorchSnapshot"]


@dataclass(frozen=True)
class ScorchSnapshot(Snapshot):
    """An epoch of a scorch index; see `Snapshot`."""

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a bitmap by its byte range.

        Raises:
            NotCanonical: also if ``root.bolt`` was written since the snapshot was read.
            DecodeError: the bitmap is corrupt.
            OSError: ``root.bolt`` cannot be read.
        """
        try:
            with self.table.folder.storage.open(vector.location) as source:
                ref = VectorRef(ContainerKind.ROARING32, vector.offset or 0, vector.size or 0)
                stored = read_vector(source, ref)
        finally:
            _refuse_later(vector, self.table.folder.storage)
        rows = stored.load()
        stats = measure(stored, row_count=vector.record["physical_rows"])
        return (DeletedRows(str(vector.data_file), rows, stats),)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Check ``root.bolt`` as a whole, and the segments of vectors.

        Checks, for each record: ``range`` (the key ``d`` of its segment is at this very range) and ``segment`` (its
        file is there, with a valid footer, and of the snapshot's version).

        Raises:
            DecodeError: ``root.bolt`` is corrupt.
        """
        ranges = {
            (epoch.id, entry.id): (entry.deleted.offset, len(entry.deleted.data))
            for epoch in read_root(location, self.table.folder.storage).epochs
            for entry in epoch.segments
            if entry.deleted is not None
        }
        for vector in vectors:
            found = ranges.get((vector.record["epoch"], vector.record["segment"]))
            expected, problem = (vector.offset, vector.size), vector.record["problem"]
            if found != expected:
                yield Finding.of_vector("range", vector, "offset and size of the bitmap", expected, found or "none")
            if problem is not None:
                what, segment = "file of the segment", vector.data_file
                yield Finding.failed("segment", what, "a valid segment", problem, vectors=(vector,), data_file=segment)

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the number of documents of a segment, which the model takes from its footer."""
        return data_file.physical_rows

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of stored documents, which are the same for every index; see `rows.schema`.

        Raises:
            UsageError: no such column.
        """
        return select(schema(), columns, self.table.location)

    def rows(
        self,
        data_file: DataFile,
        *,
        columns: Sequence[str] | None = None,
        batch_rows: int = 1 << 16,
    ) -> Iterator[PhysicalRows]:
        """Read the stored documents of a segment; see `Snapshot.rows`. Values of dropped fields are omitted.

        Only a bounded part of the file is in memory at a time.

        Raises:
            DecodeError: the segment is corrupt, or was replaced.
        """
        stop = 0
        for rows in read_rows(
            data_file.location, self.table.folder.storage, data_file.record["dropped_fields"], columns, batch_rows
        ):
            yield rows
            stop = rows.start + rows.batch.num_rows
        if stop != data_file.physical_rows:
            raise NotCanonical(
                "documents of the segment", source=data_file.location, expected=data_file.physical_rows, actual=stop
            )


def _refuse_later(vector: DeletionVector, storage: Storage) -> None:
    """Raise `NotCanonical` if the place of a vector may hold something else by now."""
    read, now = vector.record["transaction"], read_transaction(vector.location, storage)
    if now != read:
        raise NotCanonical(
            "transaction",
            source=vector.location,
            expected=f"{read}, in which the snapshot was read",
            actual=f"{now}: the index was written since",
        )
