"""The command that repairs the findings of an audit."""

from __future__ import annotations

from typing import Annotated

import typer

from dvcodec.cli.common import complain
from dvcodec.cli.render import counter, print_json, say
from dvcodec.cli.tables.shared import Allow, Catalog, Kind, OnlyWriter, Orphans, Reference, TableName, Threads, opened
from dvcodec.cli.targets import Json
from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.core.text import counted, plain
from dvcodec.tables import Table, TableKind
from dvcodec.tables.auditing import Audit
from dvcodec.tables.auditing import audit as audit_table
from dvcodec.tables.repair import RepairAction, Repaired, RepairPlan, commit_repair, judge_repair, repair_plan
from dvcodec.tables.snapshots.findings import Severity

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
