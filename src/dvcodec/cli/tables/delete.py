"""The commands that commit: delete, enable, compact-deletes, upgrade-deletes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, cast

import typer

from dvcodec.cli.json_text import print_json
from dvcodec.cli.render import Table, counter
from dvcodec.cli.shared import Json
from dvcodec.cli.tables.shared import Allow, Catalog, DryRun, Kind, OnlyWriter, Reference, TableName, Threads, opened
from dvcodec.core.errors import UsageError
from dvcodec.core.text import counted, number, plain
from dvcodec.tables.adapters import enable as enable_vectors
from dvcodec.tables.consequences import INSTEAD
from dvcodec.tables.deleting import Deletion, Isolation
from dvcodec.tables.deleting import delete as delete_rows
from dvcodec.tables.iceberg.compact_deletes import compact_deletes as compact
from dvcodec.tables.iceberg.upgrade_deletes import upgrade_deletes as upgrade
from dvcodec.tables.model import POSITION_DELETES


def delete(
    target: TableName,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="SQL", help='Condition in DuckDB\'s dialect, as in "id = 7".', show_default=False
        ),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            "--keys", metavar="FILE", help="Parquet file with the keys of the rows to delete.", show_default=False
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="COLUMNS", help="Columns of the key, with commas between.", show_default=False),
    ] = None,
    positions: Annotated[
        str | None,
        typer.Option(
            "--positions",
            metavar="FILE",
            help="Parquet file with the columns file_path and pos (0-based rows of data files).",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted; write nothing.")] = False,
    isolation: Annotated[
        str,
        typer.Option(
            "--isolation",
            help="snapshot: rows that others add meanwhile stay. serializable: if they may match, fail.",
        ),
    ] = "snapshot",
    kind: Kind = None,
    catalog: Catalog = None,
    reference: Reference = None,
    only_writer: OnlyWriter = False,
    allow: Allow = None,
    threads: Threads = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Data files to show.")] = 20,
    as_json: Json = False,
) -> None:
    """Delete rows of a table: write deletion vectors and commit them.

    Iceberg tables of format version 2 get position deletes instead. Data files that lose all their rows are removed
    from the table; none is rewritten. Nothing is committed if no live row matches. Delta and Paimon tables must have
    deletion vectors: see enable.
    """
    given = [name for name, value in (("--where", where), ("--keys", keys), ("--positions", positions)) if value]
    if len(given) != 1:
        raise UsageError(f"expected one of --where, --keys and --positions, found {' and '.join(given) or 'none'}")
    if (keys is None) != (on is None):
        raise UsageError("--keys and --on go together: --on names the columns of the key")
    table = opened(target, kind, allow, catalog, only_writer, reference)
    with counter("searching") as progress:
        done = delete_rows(
            table,
            where,
            keys=keys,
            on=[name.strip() for name in on.split(",")] if on else (),
            positions=positions,
            isolation=cast("Isolation", isolation),
            dry_run=dry_run,
            threads=threads,
            progress=progress,
        )
    if as_json:
        print_json(values(done))
        return
    if done.deletes:
        show(done, limit)
    skipped = number(done.skipped)
    if done.groups_skipped:
        skipped = f"{counted(done.skipped, 'data file')} and {counted(done.groups_skipped, 'row group')}"
    searched = f"{counted(done.searched, 'data file')} searched, {skipped} skipped by statistics"
    if done.committed:
        what = f"snapshot {done.snapshot}: {counted(done.rows, 'row')} deleted from {counted(done.files, 'data file')}"
        print(f"{what} ({searched})")
    elif done.deletes:
        print(
            f"dry run: {counted(done.rows, 'row')} of {counted(done.files, 'data file')} would be deleted ({searched})"
        )
    else:
        print(f"no live row matches: nothing was committed ({searched})")


def show(done: Deletion, limit: int) -> None:
    """Print the data files of a delete."""
    shown = Table("data file", "deleted now", "before", "rows", "then", right=("deleted now", "before", "rows"))
    for one in done.deletes[:limit]:
        rows = one.data_file.physical_rows
        replaced = any(vector.format != POSITION_DELETES for vector in one.replaced)
        then = "removed" if one.whole else "vector replaced" if replaced else "deletes added"
        cells = (number(one.gained), number(one.before.cardinality), "?" if rows is None else number(rows))
        shown.add(plain(one.data_file.path), *cells, then)
    shown.show()
    if done.files > limit:
        print(f"... {counted(done.files - limit, 'more data file')}")


def values(done: Deletion) -> dict[str, Any]:
    """Return a delete as plain values for JSON."""
    return {
        "committed": done.committed,
        "snapshot": done.snapshot,
        "rows": done.rows,
        "files": [
            {
                "path": one.data_file.path,
                "deleted": one.gained,
                "deleted_before": one.before.cardinality,
                "physical_rows": one.data_file.physical_rows,
                "removed": one.whole,
            }
            for one in done.deletes
        ],
        "searched": done.searched,
        "skipped": done.skipped,
        "row_groups_skipped": done.groups_skipped,
        "retries": done.retries,
        "bytes_written": done.bytes_written,
    }


def enable(
    target: TableName,
    dry_run: DryRun = False,
    kind: Kind = None,
    catalog: Catalog = None,
    only_writer: OnlyWriter = False,
    allow: Allow = None,
    as_json: Json = False,
) -> None:
    """Let engines write deletion vectors to a table: change its protocol, version or options.

    Nothing is written if they may already. Engines that do not know deletion vectors cannot read the table afterwards:
    --dry-run lists what libraries do then. Deletes from Iceberg tables of version 2 need none of this.
    Data files stay as they are. Delta: reader version 3, writer version 7, and the table property. Iceberg: format
    version 3. Paimon: the table option, for append tables.
    """
    table = opened(target, kind, allow, catalog, only_writer)
    done = enable_vectors(table, dry_run=dry_run)
    if as_json:
        values = {"table": table.location, "kind": table.kind.value, "changes": list(done.changes), "path": done.path}
        print_json(values | {"consequences": [asdict(one) for one in done.consequences]})
        return
    for change in done.changes:
        print(plain(change))
    if dry_run and done.changes:
        shown = Table("library", "reads", "writes")
        for one in done.consequences:
            shown.add(one.library, one.reads, one.writes)
        print("\nafterwards:")
        shown.show()
        if table.kind in INSTEAD:
            print(INSTEAD[table.kind])
        print()
    if done.path is not None:
        print(f"wrote {plain(done.path)}")
    elif done.changes:
        print("dry run: nothing was written")
    else:
        print(f"{plain(table.location)}: deletion vectors are enabled, nothing was written")


def compact_deletes(
    target: TableName,
    dry_run: DryRun = False,
    catalog: Catalog = None,
    reference: Reference = None,
    only_writer: OnlyWriter = False,
    allow: Allow = None,
    as_json: Json = False,
) -> None:
    """Merge the files of position deletes of an Iceberg table of version 2, and commit.

    There is one for each data file, or for each partition, afterwards; data files stay. The same rows are live.
    """
    table = opened(target, None, allow, catalog, only_writer, reference)
    with counter("reading") as progress:
        done = compact(table, dry_run=dry_run, progress=progress)
    if as_json:
        print_json(done.to_dict())
        return
    files = f"{counted(done.before, 'file')} of position deletes"
    if done.committed:
        print(f"snapshot {done.snapshot}: {files} merged into {done.after}, of {counted(done.rows, 'row')}")
    elif done.after < done.before:
        print(f"dry run: {files} would be merged into {done.after}, of {counted(done.rows, 'row')}")
    else:
        print(f"{files}, as few as there can be: nothing was committed")


def upgrade_deletes(
    target: TableName,
    dry_run: DryRun = False,
    catalog: Catalog = None,
    only_writer: OnlyWriter = False,
    allow: Allow = None,
    as_json: Json = False,
) -> None:
    """Replace position deletes and equality deletes of an Iceberg table by vectors, and commit.

    The same rows are live afterwards, and readers that know vectors alone can read the table. It has to be of format
    version 3: see enable.
    """
    table = opened(target, None, allow, catalog, only_writer)
    with counter("searching") as progress:
        done = upgrade(table, dry_run=dry_run, progress=progress)
    if as_json:
        print_json(done.to_dict())
        return
    if not done.position_deletes + done.equality_deletes:
        print("no position deletes or equality deletes: nothing was committed")
        return
    old = f"{counted(done.position_deletes, 'file')} of position deletes and {done.equality_deletes} of equality"
    removed = f"; {counted(done.removed, 'data file')} without a live row removed" if done.removed else ""
    begin = f"snapshot {done.snapshot}" if done.committed else "dry run"
    print(f"{begin}: {old} deletes replaced by {counted(done.vectors, 'vector')}{removed}")
