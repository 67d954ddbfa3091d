"""Delete rows of a table: find them, write deletion vectors, commit. One way for all formats.

A `Finder` says which rows: `predicate`, `keys` and `positions` have one each. `run` searches the data files
with it, writes and commits, and repeats after a conflict. What differs by format is its `Committer`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias, get_args

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa, pc
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count, check_choice
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.run import Finder, Isolation, run
from dvcodec.tables.model import Deletion
from dvcodec.tables.snapshots.reading import Progress
from dvcodec.tables.table import Table, check_progress, check_table
from dvcodec.tables.writing import refreshed

__all__ = ["Deletion", "Isolation", "KeySource", "WritableTable", "delete"]

KeySource: TypeAlias = "pa.Table | pa.RecordBatch | pa.RecordBatchReader | str | os.PathLike[str]"
"""Keys: an Arrow table, batch or reader, or the path of a Parquet file or folder."""


def delete(
    table: Table,
    where: pc.Expression | str | None = None,
    *,
    keys: KeySource | None = None,
    on: Sequence[str] = (),
    positions: Mapping[str, RowSet] | KeySource | None = None,
    isolation: Isolation = "snapshot",
    dry_run: bool = False,
    retries: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Deletion:
    """Delete the rows of a table that match, in one commit.

    Data files that lose rows get a deletion vector, which includes the old one; in Iceberg tables of format version 2,
    position deletes are added instead. Data files that lose all their rows are removed. None is rewritten. If nothing
    matches, nothing is committed. If another writer commits first, the rows are merged with its vectors, or searched
    again in the data files that it wrote, and then committed.

    Args:
        table: see `open_table`; its newest state counts, and afterwards it shows the new one.
        where: a pyarrow expression, or SQL text (extra ``sql``). As in SQL, rows for which it is NULL stay.
        keys: rows are deleted whose key is here; may be larger than memory.
        on: columns of the key.
        positions: data file -> 0-based physical row positions; or Arrow data, or the path of a Parquet file, with
            columns ``file_path`` and ``pos``. Exactly one of `where`, `keys` and `positions`.
        isolation: ``snapshot``: rows that others add meanwhile stay. ``serializable``: if they may match, the delete
            fails.
        dry_run: search only; nothing is written.
        retries: conflicts with other writers after which the delete fails; None = as the table's properties say
            (Iceberg: ``commit.retry.num-retries``), else 50.
        threads: data files searched at a time; None = one for each core, or for remote tables as many as the storage
            takes at once. Memory is a batch of rows for each.
        progress: called with how many data files have been searched, and of how many.

    Raises:
        UsageError: an argument of a wrong type, no such column or data file, or a table that must not be written to:
            the message says why.
        Unsupported: the table uses a feature that is not known here; the message names it.
        CommitConflict: another writer changed what this delete depends on; nothing was committed.
        CommitUnknown: it could not be found out whether the commit is in.
        MissingExtra: a package is not installed.
        DecodeError: a vector, the metadata or a data file is corrupt; nothing was committed.
        OSError: a file cannot be read or written; nothing was committed.
    """
    check_table(table)
    check_choice(isolation, get_args(Isolation), "isolation")
    if retries is not None:
        retries = as_count(retries, "retries")
    check_progress(progress)
    finder = _finder(where, keys, on, positions)
    with refreshed(table, dry_run):
        return run(
            committer_of(table),
            finder,
            isolation=isolation,
            dry_run=dry_run,
            retries=retries,
            threads=threads,
            progress=progress,
        )


def _finder(
    where: pc.Expression | str | None,
    keys: KeySource | None,
    on: Sequence[str],
    positions: Mapping[str, RowSet] | KeySource | None,
) -> Finder:
    given = [name for name, value in (("where", where), ("keys", keys), ("positions", positions)) if value is not None]
    if len(given) != 1:
        raise UsageError(f"expected one of where, keys and positions, found {' and '.join(given) or 'none'}")
    if (keys is None) != (not on):
        raise UsageError("keys and on go together: on names the columns of the key")
    if where is not None:
        from dvcodec.tables.deleting.predicate import where_finder  # noqa: PLC0415  (each has packages of its own)

        return where_finder(where)
    if keys is not None:
        from dvcodec.tables.deleting.keys import keys_finder  # noqa: PLC0415

        return keys_finder(keys, on)
    from dvcodec.tables.deleting.positions import positions_finder  # noqa: PLC0415

    return positions_finder(positions)


class WritableTable(Table):
    """A table of a format that ``dvcodec.tables.<format>.commit`` commits to."""

    delete = delete
