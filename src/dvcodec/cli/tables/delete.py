"""The commands that write to a table: delete, enable, compact-deletes, upgrade-deletes, convert-table, repair."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal, cast

import typer

from dvcodec.cli import render
from dvcodec.cli.common import complain, storage
from dvcodec.cli.render import counter, print_json, say
from dvcodec.cli.tables import (
    Allow,
    Catalog,
    DryRun,
    Kind,
    OnlyWriter,
    Orphans,
    Reference,
    SnapshotId,
    TableName,
    Threads,
    opened,
)
from dvcodec.cli.targets import Json
from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.core.text import counted, number, plain
from dvcodec.io.target import split
from dvcodec.ops.convert import hint
from dvcodec.tables import Table, TableKind, convert
from dvcodec.tables.adapters import INSTEAD
from dvcodec.tables.adapters import enable as enable_vectors
from dvcodec.tables.auditing import Audit
from dvcodec.tables.auditing import audit as audit_table
from dvcodec.tables.deleting import Deletion, Isolation
from dvcodec.tables.deleting import delete as delete_rows
from dvcodec.tables.iceberg.commit import compact_deletes as compact
from dvcodec.tables.iceberg.commit import upgrade_deletes as upgrade
from dvcodec.tables.model import POSITION_DELETES
from dvcodec.tables.repair import RepairAction, Repaired, RepairPlan, commit_repair, judge_repair, repair_plan
from dvcodec.tables.snapshots.findings import Severity


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
            "--keys",
            metavar="FILE",
            help="Parquet or CSV file with the keys of the rows to delete.",
            show_default=False,
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
            help="Parquet or CSV file with the columns file_path and pos (0-based rows of data files).",
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
    shown = render.Table("data file", "deleted now", "before", "rows", "then", right=("deleted now", "before", "rows"))
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
        shown = render.Table("library", "reads", "writes")
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


_TO = f"Format to write: {', '.join(convert.TARGETS)} (the number is the width of the vectors)."


def convert_table(
    target: TableName,
    to: Annotated[str, typer.Option("--to", help=_TO)],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder to create and write to; left out with --commit.",
            show_default=False,
        ),
    ] = None,
    snapshot: SnapshotId = None,
    kind: Kind = None,
    catalog: Catalog = None,
    allow: Allow = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version",
            metavar="2|3",
            help="With --to iceberg: 3 for vectors, the default, or 2 for position delete files.",
            show_default=False,
        ),
    ] = None,
    in_place: Annotated[
        bool | None,
        typer.Option(
            "--in-place/--copy",
            help="Reference stored vectors where possible instead of copying them; default for Iceberg.",
        ),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option("--root", metavar="DIR", help="Folder of the table to commit to, by default this one (Delta)."),
    ] = None,
    commit: Annotated[
        bool,
        typer.Option("--commit", help="Commit the deletes to the table at --root, which has the same data files."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --commit: show what would be deleted; write nothing.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Vectors to show; the file has all.")] = 20,
    as_json: Json = False,
) -> None:
    """Write a table's deletes in another format: files of vectors, and commit values in JSON.

    Every vector is verified. If the format cannot express a delete, nothing is written. The table is not changed. With
    --commit the deletes are committed to another table of the same data files instead.
    """
    if to not in convert.TARGETS:
        raise UsageError(f"--to {to}: not one of {', '.join(convert.TARGETS)}{hint(to)}")
    if commit:
        if root is None or output is not None or in_place is not None:
            raise UsageError("--commit goes with --root, the table to commit to, and not with --output or --in-place")
        if version is not None:
            raise UsageError(
                "--version goes with --output: --commit writes what the version of the table at --root needs"
            )
        table = opened(target, kind, allow, catalog)
        other = opened(root, TableKind(to.removesuffix("32").removesuffix("64")), allow)
        with counter("comparing") as progress:
            deletion = convert.copy_deletes(table, other, snapshot_id=snapshot, dry_run=dry_run, progress=progress)
        _show_commit(deletion, root, limit, as_json)
        return
    if output is None or dry_run:
        raise UsageError("expected --output, the folder to write to" if output is None else "--dry-run needs --commit")
    table = opened(target, kind, allow, catalog)
    with counter("converting") as progress:
        done = convert.convert_table(
            table,
            to,
            output,
            snapshot_id=snapshot,
            version=cast("Literal[2, 3] | None", version),
            reference_in_place=in_place,
            root=root,
            progress=progress,
            storage_options=storage(),
        )
    if as_json:
        print_json(done.to_dict())
        return
    shown = render.Table("data file", "how", "in", "offset", "size", "rows", right=("offset", "size", "rows"))
    for vector in done.vectors[:limit]:
        where = vector.location
        cells = (number(where.offset), number(where.size), number(where.cardinality))
        shown.add(str(where.data_file), vector.how.value, split(where.path)[1], *cells)
    shown.show()
    if len(done.vectors) > limit:
        print(f"... {counted(len(done.vectors) - limit, 'more vector')}")
    summary = [counted(len(done.vectors), "vector"), counted(done.rows, "deleted row")]
    summary += [f"{number(done.count(how))} {how.value}" for how in convert.How if done.count(how)]
    summary += [f"{counted(done.empty, 'vector')} without rows skipped"] if done.empty else []
    print(f"snapshot {done.snapshot.id}: {', '.join(summary)}")
    for path in (*done.files, done.entries):
        print(f"wrote {plain(path)}")


def _show_commit(done: Deletion, root: str, limit: int, as_json: bool) -> None:
    if as_json:
        print_json(values(done))
        return
    if done.deletes:
        show(done, limit)
    what = f"{counted(done.rows, 'row')} of {counted(done.files, 'data file')}"
    if done.committed:
        print(f"snapshot {done.snapshot} of {plain(root)}: {what} deleted")
    elif done.deletes:
        print(f"dry run: {what} would be deleted")
    else:
        print("all of these rows are deleted already: nothing was committed")


_GOING_BACK = {
    TableKind.ICEBERG: "CALL CATALOG.system.rollback_to_snapshot('TABLE', {id}) in Spark, with the names of catalog "
    "and table; of a table of version 2 also manage_snapshots().rollback_to_snapshot({id}).commit() in pyiceberg "
    "(which cannot write version 3)",
    TableKind.DELTA: "RESTORE TABLE delta.`{location}` TO VERSION AS OF {id} in Spark, or restore({id}) of deltalake",
    TableKind.PAIMON: "CALL sys.rollback(table => 'TABLE', version => {id}) in Spark",
    TableKind.LANCE: "lance.dataset('{location}', version={id}).restore()",
}
"""How the engines of a format make an older snapshot the current one."""
_NOTHING = "nothing to repair; data files were not opened, as audit --deep does"


def repair(
    target: TableName,
    commit: Annotated[bool, typer.Option("--commit", help="Do it, in one commit; by default nothing is written.")] = (
        False
    ),
    accept_restored_rows: Annotated[
        bool,
        typer.Option(
            "--accept-restored-rows", help="Also commit repairs that make rows live again which are deleted now."
        ),
    ] = False,
    kind: Kind = None,
    catalog: Catalog = None,
    reference: Reference = None,
    only_writer: OnlyWriter = False,
    allow: Allow = None,
    orphans: Orphans = True,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Show how the findings of an audit can be repaired; with --commit, do it.

    Repairs that need only new vectors are committed, all in one commit. Data files are never rewritten. Exit code 1 if
    the table has errors, or with --commit still has some.
    """
    table = opened(target, kind, allow, catalog, only_writer, reference)

    def audited(source: Table) -> Audit:
        with counter("auditing") as progress:
            return audit_table(source, orphans=orphans, threads=threads, progress=progress)

    found = audited(table)
    plan = repair_plan(found, table)
    done = None
    if commit:
        done = commit_repair(plan, table, accept_restored_rows=accept_restored_rows)
        if done.committed:
            found = audited(opened(target, kind, allow, catalog, only_writer, reference))
    if as_json:
        print_json(plan.to_dict() | ({} if done is None else {"commit": done.to_dict(), "audit": found.summary()}))
    elif done is None:
        _show_plan(plan, table, accept_restored_rows=accept_restored_rows)
        _show_going_back(plan, found.older)
    else:
        _show_done(plan, done, found)
        _show_going_back(plan, None if done.committed else found.older)
    raise typer.Exit(0 if found.ok else 1)


def _show_plan(plan: RepairPlan, table: Table, *, accept_restored_rows: bool) -> None:
    for action in plan.actions:
        say("  ", (action.action, "bold"), f" ({', '.join(action.fixes)})  {action.message}")
    _show_unfixed(plan)
    if not plan.actions:
        print("nothing can be repaired here" if plan.unfixed else _NOTHING)
        return
    try:
        judged = judge_repair(plan, table, accept_restored_rows=accept_restored_rows)
    except (UsageError, Unsupported) as refusal:
        complain(f"nothing can be committed: {refusal}")
        return
    waiting = sum(action.restores_rows for action in plan.actions) * (not accept_restored_rows)
    able = sum(reason is None for _, reason in judged)
    if able:
        print(f"{counted(able, 'repair')} can be committed, nothing was written yet: add --commit")
    if waiting:
        rows = "makes deleted rows live again, and needs" if waiting == 1 else "make deleted rows live again, and need"
        print(f"{counted(waiting, 'repair')} {rows} --accept-restored-rows with --commit")
    if not able and not waiting:
        print("nothing can be repaired here")
    for action, reason in judged:
        if reason is not None and (accept_restored_rows or not action.restores_rows):
            _show_left(action, reason)


def _show_left(action: RepairAction, reason: str) -> None:
    of = action.data_file or action.path
    complain(f"not committed: {action.action}{f' of {of}' if of else ''}: {reason}")


def _show_done(plan: RepairPlan, done: Repaired, found: Audit) -> None:
    for action in done.actions:
        say("  ", ("done", "bold green"), f"  {action.action}: committed{action.message.removeprefix('commit')}")
    _show_unfixed(plan)
    for action, reason in done.left:
        _show_left(action, reason)
    if not done.committed:
        print("nothing was committed" if plan.actions or plan.unfixed else _NOTHING)
        return
    left = sum(finding.severity is Severity.ERROR for finding in found.findings)
    print(
        f"{len(done.actions)} repaired, snapshot {done.snapshot}; the audit afterwards: "
        f"{counted(left, 'error') if left else 'no errors'}"
    )


def _show_unfixed(plan: RepairPlan) -> None:
    for finding in plan.unfixed:
        say("  ", ("no repair", "bold yellow"), f"  {finding.check}: {finding.message}")


def _show_going_back(plan: RepairPlan, older: int | None) -> None:
    """Name the engine's own way back, where deletes are lost otherwise, or nothing is repaired."""
    lossy = plan.unfixed or any(action.restores_rows for action in plan.actions)
    if older is None or plan.kind not in _GOING_BACK or not lossy:
        return
    how = _GOING_BACK[plan.kind].format(id=older, location=plain(plan.table))
    print(f"snapshot {older} has none of these errors; to go back to it, and lose what was committed since: {how}")
