"""Live rows of a table as Arrow batches, without its engine: by physical position, row group by row group.

A corrupt or ambiguous vector raises before any row of its data file is returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import NotCanonical
from dvcodec.core.extras import require_extra
from dvcodec.core.rowset import RowSet
from dvcodec.io import SinkFile, SinkTarget, StorageOptions, open_sink
from dvcodec.tables import rules
from dvcodec.tables.model import DataFile, DeletionVector, vectors_of
from dvcodec.tables.naming import named_files
from dvcodec.tables.new_files import check_outside
from dvcodec.tables.reading import Progress
from dvcodec.tables.rules import Part
from dvcodec.tables.table import Snapshot, Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["deleted_rows", "export_live", "live_batches"]


def live_batches(
    table: Table,
    data_file: str | None = None,
    *,
    snapshot_id: int | None = None,
    columns: Sequence[str] | None = None,
    deleted: bool = False,
    batch_rows: int = 1 << 16,
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a snapshot, data file by data file, each in physical order.

    Args:
        table: see `open_table`.
        data_file: the only one to read: its `DataFile.path` or `DataFile.location`, however it is spelled, its path
            relative to the table's folder, or its bare name, if no other has it; None = all.
        snapshot_id: the snapshot to read; None = the current one.
        columns: names to read, in this order; None = all.
        deleted: True yields the deleted rows instead.
        batch_rows: maximum rows in a batch. Batches end with row groups; none is empty.

    Raises:
        UsageError: no such snapshot, data file or column.
        DecodeError: a vector, the metadata or a data file is corrupt; a data file has two vectors of different rows; a
            vector has positions beyond its data file, or is for a data file with another path in the snapshot.
        OSError: a file cannot be read.
    """
    snapshot = table.snapshot(snapshot_id)
    files = named_files(snapshot, data_file)
    rows_of = _Deletes(snapshot)
    for file in files:
        yield from _batches(snapshot, file, rows_of(file), columns, deleted=deleted, batch_rows=batch_rows)


def deleted_rows(table: Table, data_file: str, *, snapshot_id: int | None = None) -> RowSet:
    """Return the deleted rows of a data file, those that `live_batches` leaves out.

    Args:
        table: see `open_table`.
        data_file: `DataFile.path`, however it is spelled.
        snapshot_id: the snapshot to read; None = the current one.

    Raises:
        UsageError, DecodeError, OSError: as `live_batches`.
    """
    snapshot = table.snapshot(snapshot_id)
    (file,) = named_files(snapshot, data_file)
    return _Deletes(snapshot)(file)


def export_live(
    table: Table,
    sink: SinkTarget,
    *,
    data_file: str | None = None,
    snapshot_id: int | None = None,
    columns: Sequence[str] | None = None,
    deleted: bool = False,
    compression: str = "zstd",
    batch_rows: int = 1 << 16,
    progress: Progress | None = None,
    storage_options: StorageOptions = None,
) -> int:
    """Write the live rows of a snapshot, or of one data file, to one Parquet file, whole or not at all.

    Args:
        table: see `open_table`.
        sink: path or URL outside of the table, or writable file. An existing file is replaced.
        data_file: the only one to read, see `live_batches`; None = all.
        snapshot_id: the snapshot to read; None = the current one.
        columns: names to write, in this order; None = all.
        deleted: True writes the deleted rows instead.
        compression: compression of pyarrow's Parquet writer: ``zstd``, ``snappy``, ``none`` ...
        batch_rows: maximum rows read at a time.
        progress: called with the number of data files done, and the total.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        Rows written.

    Raises:
        MissingExtra: pyarrow is not installed.
        UsageError: the sink is in the table; see also `live_batches`.
        DecodeError, OSError: see `live_batches`; the sink cannot be written.
    """
    check_outside(sink, table.location)
    pa, pq = require_extra("pyarrow", "tables"), require_extra("pyarrow.parquet", "tables")
    snapshot = table.snapshot(snapshot_id)
    files = named_files(snapshot, data_file)
    rows_of = _Deletes(snapshot)
    schema = snapshot.schema(columns)
    written = 0
    with (
        open_sink(sink, storage_options=storage_options) as out,
        pa.PythonFile(SinkFile(out), mode="w") as file,
        pq.ParquetWriter(file, schema, compression=compression) as writer,
    ):
        waiting: list[Any] = []
        for done, one in enumerate(files, 1):
            rows = rows_of(one)
            for batch in _batches(snapshot, one, rows, columns, deleted=deleted, batch_rows=batch_rows):
                waiting.append(batch)
                written += batch.num_rows
                if sum(some.num_rows for some in waiting) >= _GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(waiting, schema))
                    waiting = []
            if progress is not None:
                progress(done, len(files))
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting, schema))
    return written


_GROUP_ROWS = 1 << 17
"""Rows from which on a row group is full."""


class _Deletes:
    """Reads the deleted rows of data files, one at a time.

    Refuses vectors for a data file that has another path now: its deleted rows would be live again.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        for vector in snapshot.vectors:
            rules.refuse(rules.paths(snapshot, vector), "gone-data-file")
        self._snapshot = snapshot
        self._named = vectors_of(snapshot.vectors)
        self._wide: dict[str, list[Part]] = {}
        for vector in snapshot.vectors:
            if vector.data_file is None:
                for part in self._read(vector):
                    self._wide.setdefault(part.found.data_file, []).append(part)

    def __call__(self, file: DataFile) -> RowSet:
        """Return the deleted rows of a data file.

        Raises:
            DecodeError: a vector is corrupt, or there are two of different rows, or positions beyond the file.
        """
        vectors = self._named.get(file.path, ())
        parts = [*self._wide.get(file.path, ()), *(part for vector in vectors for part in self._read(vector))]
        rules.refuse(rules.of_data_file(file, vectors, parts), "equal-vectors")
        return RowSet().union(*(part.found.rows for part in parts))

    def _read(self, vector: DeletionVector) -> list[Part]:
        found = self._snapshot.read(vector)
        total = sum(one.rows.cardinality for one in found)
        return [Part(vector, one, total) for one in found]


def _batches(
    snapshot: Snapshot,
    file: DataFile,
    rows: RowSet,
    columns: Sequence[str] | None,
    *,
    deleted: bool = False,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    stop = 0
    for part in snapshot.rows(file, columns=columns, batch_rows=batch_rows):
        if part.start != stop:
            raise NotCanonical("rows in physical order", source=file.path, expected=f"row {stop}", actual=part.start)
        stop = part.start + part.batch.num_rows
        wanted = rows.arrow_mask(part.start, stop, keep=not deleted)
        if part.keep is not None:
            import pyarrow.compute as pc  # noqa: PLC0415  (extra "tables")

            wanted = pc.and_(wanted, part.keep)
        batch = part.batch.filter(wanted)
        if batch.num_rows:
            yield batch
    if file.physical_rows not in (None, stop):
        expected = f"{file.physical_rows} rows (metadata)"
        raise NotCanonical("rows of the data file", source=file.location, expected=expected, actual=stop)
    if rows.max is not None and rows.max >= stop:
        expected = f"below {stop} (rows of the data file)"
        raise NotCanonical("highest deleted position", source=file.path, expected=expected, actual=rows.max)
