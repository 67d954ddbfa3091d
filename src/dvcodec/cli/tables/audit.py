"""The command audit."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dvcodec.cli.json_text import print_json
from dvcodec.cli.render import counter, say
from dvcodec.cli.shared import Json
from dvcodec.cli.streams import complain
from dvcodec.cli.tables.shared import (
    Allow,
    Catalog,
    Kind,
    OnlyWriter,
    Orphans,
    Reference,
    SnapshotId,
    TableName,
    Threads,
    opened,
    rows_text,
    snapshot_text,
)
from dvcodec.core.errors import UsageError
from dvcodec.core.text import counted, number, plain
from dvcodec.tables.auditing import Audit
from dvcodec.tables.auditing import audit as audit_table
from dvcodec.tables.repair import commit_repair, repair_plan
from dvcodec.tables.snapshots.findings import Finding, Severity
from dvcodec.tables.snapshots.scanning import totals

_SIGNS = {
    Severity.ERROR: ("ERROR", "bold red", "error"),
    Severity.WARNING: ("WARN ", "yellow", "warning"),
    Severity.INFO: ("note ", "dim", "note"),
}
_SHOWN = 20


def audit(
    target: TableName,
    snapshot: SnapshotId = None,
    kind: Kind = None,
    catalog: Catalog = None,
    reference: Reference = None,
    only_writer: OnlyWriter = False,
    allow: Allow = None,
    orphans: Orphans = True,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also open every data file: read the row count in its footer, verify search segments."
        ),
    ] = False,
    threads: Threads = None,
    every: Annotated[
        bool, typer.Option("--all", help=f"Show all findings, not only the first {_SHOWN} of each kind.")
    ] = False,
    as_json: Json = False,
    plan: Annotated[
        bool,
        typer.Option("--repair-plan", help="Print a plan that repairs the findings, as JSON, instead of the findings."),
    ] = False,
    commit: Annotated[
        bool,
        typer.Option("--commit", help="With --repair-plan: commit its actions that need nothing but new vectors."),
    ] = False,
) -> None:
    """Check all vectors of a table's snapshot, and compare them with its metadata, data files and folder.

    Exit code 1 if there is an error: some engine reads wrong rows, or cannot read the table. Only --commit changes the
    table; it audits the table again afterwards, and the exit code is that of the second audit.
    """
    if commit and not plan:
        raise UsageError("--commit needs --repair-plan")
    table = opened(target, kind, allow, catalog, only_writer, reference)

    def check(number: int | None) -> Audit:
        with counter("auditing") as progress:
            return audit_table(table, number, orphans=orphans, deep=deep, threads=threads, progress=progress)

    found = check(snapshot)
    if plan:
        repair = repair_plan(found, table)
        summary: dict[str, Any] = repair.to_dict()
        if commit:
            done = commit_repair(repair, table)
            summary["commit"] = done.to_dict()
            for action, reason in done.left:
                complain(f"not committed: {action.action}: {reason}")
            if done.committed:
                table = opened(target, kind, allow, catalog, only_writer, reference)
                found = check(None)
        print_json(summary)
    elif as_json:
        findings = {"findings": map(Finding.to_dict, found.findings), "notes": map(Finding.to_dict, found.notes)}
        print_json(found.summary() | findings | {"totals": totals(found.scan).to_dict()})
    else:
        _show(found, every)
    raise typer.Exit(0 if found.ok else 1)


def _show(found: Audit, every: bool) -> None:
    say((found.table, "bold"), f"  {snapshot_text(found.kind, found.info)}")
    groups = {
        severity: [finding for finding in found.findings if finding.severity is severity] for severity in Severity
    }
    for severity, group in groups.items():
        sign, style, word = _SIGNS[severity]
        seen: dict[str, int] = {}
        for finding in group:
            seen[finding.check] = seen.get(finding.check, 0) + 1
            if every or seen[finding.check] <= _SHOWN:
                say("  ", (sign, style), " ", (finding.check, "bold"), f" {finding.message}")
        for check, count in seen.items():
            if not every and count > _SHOWN:
                say("  ", (sign, style), f" {check}: {counted(count - _SHOWN, f'more {word}')} (--all)")
    counts = found.counts
    stored = "" if counts.stored_files is None else f", {counted(counts.stored_files, 'file')} in the folder"
    footers = "" if counts.counted_files is None else f" ({number(counts.counted_files)} opened)"
    looked = f"{counted(counts.data_files, 'data file')}{footers}, {counted(counts.vectors, 'vector')}"
    looked += f" in {counted(counts.containers, 'file')}{stored}"
    summary = [counted(len(group), _SIGNS[severity][2]) for severity, group in groups.items() if group]
    print(f"{looked}: {', '.join(summary) or 'no findings'}")
    if counts.unreadable:
        print(f"{counted(counts.unreadable, 'vector')} could not be read: {rows_text(totals(found.scan))}")
    if found.older is not None:
        print(f"snapshot {found.older} has no vector or data file with these errors (--snapshot {found.older})")
    for note in found.notes:
        print(f"not checked: {note.check}: {plain(note.message)}")
