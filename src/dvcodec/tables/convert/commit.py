"""Commit a table's deletes to another table of the same data files, such as a Delta table beside an Iceberg table."""

from __future__ import annotations

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.arguments import check_table
from dvcodec.tables.convert.read import check_deletes, plan, rows_of
from dvcodec.tables.convert.record import absolute
from dvcodec.tables.convert.write import counter
from dvcodec.tables.deleting.positions import positions_finder
from dvcodec.tables.deleting.run import run
from dvcodec.tables.model import Deletion
from dvcodec.tables.put import refreshed
from dvcodec.tables.reading import Progress
from dvcodec.tables.storage import real_path
from dvcodec.tables.table import Table

__all__ = ["copy_deletes"]


def copy_deletes(
    table: Table,
    target: Table,
    *,
    snapshot_id: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Deletion:
    """Delete the rows that a table has deleted from another table of the same data files, in one commit.

    The target is one that another writer or a tool made of these data files: two formats over one set of Parquet files.
    Vectors and position deletes are read and verified; the target gets vectors of its own format in its own folder,
    which include its existing ones. Rows deleted only in the target stay deleted.

    Args:
        table: of Iceberg, Delta or Paimon; its deletes are read.
        target: the table to commit to; see `open_table`.
        snapshot_id: the snapshot of `table`; None = the current one.
        dry_run: compare only; nothing is written.
        progress: called with the number of vectors read and of all, after each.

    Raises:
        UsageError: both are one table; a data file with deleted rows that the target does not have, or with another
            number of rows; or the target must not be written to: the message says why.
        Unsupported: rows are not deleted by position, but by equality deletes, for example; or a feature that is not
            known here.
        CommitConflict: another writer changed what this commit depends on; nothing was committed.
        CommitUnknown: it could not be found out whether the commit is in.
        DecodeError: the metadata or a vector is corrupt; nothing was committed.
        OSError: a file cannot be read or written; nothing was committed.
    """
    check_table(table)
    check_table(target, "target")
    if real_path(absolute(table.location)) == real_path(absolute(target.location)) and table.kind is target.kind:
        raise UsageError(
            f"{target.location}: expected another table to commit to; position deletes and equality deletes of a table "
            "become its own vectors by upgrade-deletes"
        )
    snapshot = table.snapshot(snapshot_id)
    check_deletes(snapshot)
    planned = plan(snapshot, counter(len(snapshot.vectors), progress))
    writer = committer_of(target)
    known = {real_path(absolute(file.location)): file for file in writer.current().data_files}
    rows: dict[str, RowSet] = {}
    for item in planned:
        file = known.get(real_path(absolute(item.data_file.location)))
        if file is None:
            raise UsageError(f"{target.location}: it does not have {item.data_file.location}, which has deleted rows")
        counts = {item.data_file.physical_rows, file.physical_rows} - {None}
        if len(counts) > 1:
            raise UsageError(
                f"{file.path}: {file.physical_rows} rows, and {item.data_file.physical_rows} in {table.location}"
            )
        rows[file.path] = rows_of(snapshot, item)
    with refreshed(target, dry_run):
        return run(writer, positions_finder(rows), dry_run=dry_run)
