"""The rows of a table that live, as Arrow batches, without its engine: by physical position, row group by row group.

A vector that is not sound, or that could mean two things, is an error before any row of its data file is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dvcodec.core.errors import MissingExtra, NotCanonical
from dvcodec.core.rowset import RowSet
from dvcodec.io import SinkFile, SinkTarget, StorageOptions, open_sink
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, Snapshot, Table, vectors_of
from dvcodec.tables.namesakes import Namesakes
from dvcodec.tables.naming import named_files
from dvcodec.tables.new_files import check_outside
from dvcodec.tables.problems import POSITION_DELETES
from dvcodec.tables.reading import Progress

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
            from the table's folder on, or its bare name, if no other has it; None = all.
        snapshot_id: which state; None = the current one.
        columns: names to read, in this order; None = all.
        deleted: True yields the deleted rows instead.
        batch_rows: at most so many rows in a batch. Batches end with row groups; none is empty.

    Raises:
        UsageError: no such snapshot, data file or column.
        DecodeError: a vector, the metadata or a data file is not sound; a data file has two vectors of different rows;
            a vector has positions beyond its data file, or is for a data file that the snapshot spells otherwise.
        OSError: a file cannot be read.
    """
    snapshot = table.snapshot(snapshot_id)
    files = named_files(table, snapshot, data_file)
    _check_strangers(table, snapshot)
    rows_of = _Deletes(table, snapshot)
    for file in files:
        yield from _batches(table, snapshot, file, rows_of(file), columns, deleted=deleted, batch_rows=batch_rows)


def deleted_rows(table: Table, data_file: str, *, snapshot_id: int | None = None) -> RowSet:
    """Return the deleted rows of a data file, as `live_batches` takes them; arguments as there.

    Raises:
        UsageError, DecodeError, OSError: as `live_batches`.
    """
    snapshot = table.snapshot(snapshot_id)
    (file,) = named_files(table, snapshot, data_file)
    _check_strangers(table, snapshot)
    return _Deletes(table, snapshot)(file)


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
        sink: path or URL outside of the table, or writable file. A file that is there is replaced.
        data_file: the only one to read, see `live_batches`; None = all.
        snapshot_id: which state; None = the current one.
        columns: names to write, in this order; None = all.
        deleted: True writes the deleted rows instead.
        compression: of pyarrow's Parquet writer: ``zstd``, ``snappy``, ``none`` ...
        batch_rows: at most so many rows are read at a time.
        progress: called with how many data files are done, and of how many.
        storage_options: for URLs: how the store is reached, as deltalake and polars spell it.

    Returns:
        Rows written.

    Raises:
        MissingExtra: pyarrow is not installed.
        UsageError: the sink is in the table; see also `live_batches`.
        DecodeError, OSError: see `live_batches`; the sink cannot be written.
    """
    check_outside(sink, table.location)
    try:
        import pyarrow as pa  # noqa: PLC0415  (extra "tables")
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("pyarrow", "tables") from None
    snapshot = table.snapshot(snapshot_id)
    files = named_files(table, snapshot, data_file)
    _check_strangers(table, snapshot)
    rows_of = _Deletes(table, snapshot)
    schema = table.schema(snapshot, columns)
    written = 0
    with (
        open_sink(sink, storage_options=storage_options) as out,
        pa.PythonFile(SinkFile(out), mode="w") as file,
        pq.ParquetWriter(file, schema, compression=compression) as writer,
    ):
        waiting: list[pa.RecordBatch] = []
        for done, one in enumerate(files, 1):
            rows = rows_of(one)
            for batch in _batches(table, snapshot, one, rows, columns, deleted=deleted, batch_rows=batch_rows):
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


def _check_strangers(table: Table, snapshot: Snapshot) -> None:
    """Refuse vectors for a data file that is there under another path: its deleted rows would live again."""
    paths = {file.path for file in snapshot.data_files}
    namesakes = Namesakes(table.folder, paths)
    for path, vectors in vectors_of(snapshot.vectors).items():
        _check_stranger(path, None if path in paths else namesakes.find(path), vectors[0])


def _check_stranger(path: str, meant: str | None, vector: DeletionVector) -> None:
    if meant is not None:
        what = "path of the data file of a vector"
        raise NotCanonical(what, source=vector.path, offset=vector.offset, expected=meant, actual=path)


class _Deletes:
    """Reads the deleted rows of one data file after the other."""

    def __init__(self, table: Table, snapshot: Snapshot) -> None:
        self._table, self._snapshot = table, snapshot
        self._named = vectors_of(snapshot.vectors)
        self._wide: dict[str, list[DeletedRows]] = {}
        namesakes = Namesakes(table.folder, [file.path for file in snapshot.data_files])
        for vector in snapshot.vectors:
            if vector.data_file is None:
                for path in table.unknown_files(vector, snapshot):
                    _check_stranger(path, namesakes.find(path), vector)
                for found in table.read(vector, snapshot):
                    self._wide.setdefault(found.data_file, []).append(found)

    def __call__(self, file: DataFile) -> RowSet:
        """Return the deleted rows of a data file.

        Raises:
            DecodeError: a vector is not sound, or there are two of different rows, or positions beyond the file.
        """
        rows = [found.rows for found in self._wide.get(file.path, ())]
        alive: DeletionVector | None = None
        known = RowSet()
        for vector in self._named.get(file.path, ()):
            found = RowSet.union(*(one.rows for one in self._table.read(vector, self._snapshot)))
            if vector.format != POSITION_DELETES:
                if alive is not None and found != known:
                    raise NotCanonical(
                        "second vector for a data file",
                        source=vector.path or file.path,
                        offset=vector.offset,
                        expected=f"the rows of {alive.where}, if there are two",
                        actual="other rows",
                    )
                alive, known = vector, found
            rows.append(found)
        union = RowSet.union(*rows)
        if file.physical_rows is not None:
            _check_reach(file, union, file.physical_rows)
        return union


def _check_reach(file: DataFile, rows: RowSet, physical_rows: int) -> None:
    highest = rows.max
    if highest is not None and highest >= physical_rows:
        expected = f"below {physical_rows} (rows of the data file)"
        raise NotCanonical("highest deleted position", source=file.path, expected=expected, actual=highest)


def _batches(
    table: Table,
    snapshot: Snapshot,
    file: DataFile,
    rows: RowSet,
    columns: Sequence[str] | None,
    *,
    deleted: bool = False,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    stop = 0
    for part in table.physical_rows(file, snapshot, columns=columns, batch_rows=batch_rows):
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
    _check_reach(file, rows, stop)
