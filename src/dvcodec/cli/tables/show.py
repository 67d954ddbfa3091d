"""The commands that read a table: table, log, audit, report, export-live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from shlex import quote
from typing import Annotated, Any

import typer

from dvcodec import report as html
from dvcodec.cli.common import complain, storage
from dvcodec.cli.render import Table, counter, print_json, say, shares_strip
from dvcodec.cli.tables import Orphans, Reading, SnapshotId, TableName, Threads, rows_text, snapshot_text
from dvcodec.cli.targets import Json, MinRatio, Output, messages_of, sink_of
from dvcodec.core.text import NOTHING, bytes_text, counted, folder_of, number, plain, share_text
from dvcodec.ops.convert import WORTH_REWRITING
from dvcodec.tables.auditing import Audit
from dvcodec.tables.auditing import audit as audit_table
from dvcodec.tables.model import TableKind, moment
from dvcodec.tables.repair import MENDED
from dvcodec.tables.snapshots.changes import FileChange, SnapshotChange, history
from dvcodec.tables.snapshots.findings import Finding, Severity, place
from dvcodec.tables.snapshots.live import export_live as export
from dvcodec.tables.snapshots.scanning import FileDeletes, Scan, ScanColumns, Totals, rewrite_candidates, totals
from dvcodec.tables.snapshots.scanning import scan as scan_table
from dvcodec.tables.writing import check_outside

_SLICE = 2
"""Parts of a file's density per slice of its strip."""


def table(
    target: TableName,
    *,
    snapshot: SnapshotId = None,
    how: Reading,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Data files to show; JSON has all.")] = 20,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Show only data files worth rewriting.")] = False,
    min_ratio: MinRatio = WORTH_REWRITING,
    min_deleted: Annotated[
        int, typer.Option("--min-deleted", min=0, help="Rewrite files only with at least this many deleted rows.")
    ] = 1,
    small_file: Annotated[
        int | None, typer.Option("--small-file", min=0, help="Also rewrite files smaller than this, in bytes.")
    ] = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Show how many rows of a table are deleted, in which data files and where, and which to rewrite.

    Exit code 1 if a vector could not be read, or contradicts the metadata: the numbers are then bounds.
    """
    source = how.open(target)
    with counter("reading") as progress:
        scan = scan_table(source, snapshot, threads=threads, progress=progress)
    sums = totals(scan)
    candidates = rewrite_candidates(scan, min_ratio=min_ratio, min_deleted=min_deleted, small_file=small_file)
    if as_json:
        print_json(
            {
                "table": scan.table,
                "kind": scan.kind.value,
                "snapshot": scan.info.id,
                "totals": sums.to_dict(),
                "data_files": map(_file_json, scan.files),
                "rewrite": (candidate.to_dict() for candidate in candidates),
            }
        )
    else:
        _show_totals(scan, sums, len(candidates))
        if rewrite:
            files = [candidate.file for candidate in candidates]
            _show_files(files[:limit], [file.data_file.path for file in files])
        else:
            columns = ScanColumns.of(scan)
            numbers = columns.most_deleted.tolist()
            paths = [columns.files.paths[number] for number in numbers]
            _show_files([scan.files[number] for number in numbers[:limit]], paths)
    if scan.lost:
        complain(f"{scan.table}: {counted(len(scan.lost), 'vector')} could not be counted: see dvcodec audit")
    elif sums.in_doubt:
        complain(f"{scan.table}: {counted(sums.in_doubt, 'data file')} in doubt: see dvcodec audit")
    if scan.lost or sums.in_doubt:
        raise typer.Exit(1)


def _file_json(file: FileDeletes) -> dict[str, Any]:
    data_file = file.data_file
    return {
        "path": data_file.path,
        "partition": data_file.partition,
        "rows": data_file.physical_rows,
        "size": data_file.size,
        "deleted": file.deleted,
        "min_deleted": file.min_deleted,
        "unreadable": file.unreadable,
        "other_deletes": file.other_deletes,
        "hidden": file.hidden,
        "deleted_share": file.deleted_share,
        "stored_bytes": file.stored_bytes,
        "containers": file.containers._asdict(),
        "density": file.density.round(6).tolist(),
        "vectors": [place(vector) for vector in file.vectors],
        "errors": list(file.errors),
    }


def _show_totals(scan: Scan, sums: Totals, worth: int) -> None:
    say((scan.table, "bold"), f"  {snapshot_text(scan.kind, scan.info)}")
    print(
        f"  {counted(sums.data_files, 'data file')}: {number(sums.with_deletes)} with deleted rows, "
        f"{number(sums.fully_deleted)} fully deleted, {f'{number(sums.in_doubt)} in doubt, ' if sums.in_doubt else ''}"
        f"{number(worth)} worth rewriting"
    )
    print(f"  {rows_text(sums)}")
    parts = [bytes_text(sums.stored_bytes)]
    if sums.unreadable:
        parts = [f"at least {bytes_text(sums.stored_bytes)}"] if sums.stored_bytes else []
        parts.append(f"{number(sums.unreadable)} could not be read")
    if sums.bytes_per_row is not None:
        parts.append(f"{sums.bytes_per_row:.3g} B for each deleted row")
    print(f"  {counted(sums.vectors, 'vector')}: {', '.join(parts)}")
    if sums.hidden:
        print(f"  {counted(sums.hidden, 'data file')} not counted: no records are visible before they are compacted")
    if sums.other_deletes:
        first = int(ScanColumns.of(scan).other_deletes.argmax())
        why = scan.files[first].other_deletes or ""
        print(f"  {counted(sums.other_deletes, 'data file')} with other deletes, not counted: {plain(why)}")


def _show_files(files: list[FileDeletes], paths: list[str]) -> None:
    """Show data files, the first of those with the paths."""
    columns = ("data file", "rows", "deleted", "share", "stored", "where")
    shown = Table(*columns, right=columns[1:-1])
    folder = folder_of(paths)
    if folder and files:
        say(f"  data files in {folder}")
    for file in files:
        parts = file.density.reshape(-1, _SLICE).mean(axis=1).tolist() if file.density.size else []
        shown.add(
            file.data_file.path[len(folder) :],
            number(file.data_file.physical_rows),
            _least(file, number(file.min_deleted)),
            _least(file, share_text(file.deleted_share)),
            bytes_text(file.stored_bytes),
            "damaged" if file.errors else shares_strip(parts),
        )
    shown.show()
    if len(paths) > len(files):
        print(f"... {counted(len(paths) - len(files), 'more data file')}")


def _least(file: FileDeletes, text: str) -> str:
    """Return a number of a file's deleted rows; as a lower bound, or nothing, if it is in doubt."""
    if file.deleted is not None or text == NOTHING:
        return text
    return f"at least {text}" if file.min_deleted else NOTHING


def log(
    target: TableName,
    *,
    how: Reading,
    since: Annotated[int | None, typer.Option("--since", help="First snapshot or version.")] = None,
    until: Annotated[int | None, typer.Option("--until", help="Last snapshot or version.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Show the data files too.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Show what each snapshot of a table deleted and restored, oldest first.

    Exit code 1 if a vector could not be read, or contradicts the metadata: the changes of its snapshot are then lower
    bounds.
    """
    source = how.open(target)
    lost: dict[str, str] = {}
    changes = _noting_lost(history(source, since=since, until=until, threads=threads), lost)
    if as_json:
        print_json([change.to_dict() for change in changes])
    elif files:
        for change in changes:
            _show_change(change)
    else:
        columns = ("snapshot", "committed", "operation", "added", "removed", "deleted", "restored")
        shown = Table(*columns, right=("snapshot", *columns[3:]))
        for change in changes:
            shown.add(
                str(change.info.id),
                moment(change.info) or NOTHING,
                change.info.operation or NOTHING,
                number(len(change.added)),
                number(len(change.removed)),
                _at_least(change, change.deleted),
                _at_least(change, change.restored),
            )
        shown.show(empty=True)

    for where, why in lost.items():
        complain(why if where in why else f"{where}: {why}")
    if lost:
        raise typer.Exit(1)


def _noting_lost(changes: Iterable[SnapshotChange], lost: dict[str, str]) -> Iterator[SnapshotChange]:
    """Yield changes, and add the vectors and data files that make them inexact to `lost`, with the reason."""
    for change in changes:
        lost.update((vector.where, why) for vector, why in change.unreadable)
        if not change.unreadable and not change.exact:
            why = "a vector contradicts the metadata or another vector: see dvcodec audit"
            lost.update((file.data_file.path, why) for file in change.files if not file.exact)
        yield change


def _at_least(change: SnapshotChange | FileChange, count: int) -> str:
    if change.exact:
        return number(count)
    return f"at least {number(count)}" if count else "unknown"


def _show_change(change: SnapshotChange) -> None:
    parts = (f"snapshot {change.info.id}", change.info.operation, moment(change.info))
    counts = f"{_at_least(change, change.deleted)} deleted, {_at_least(change, change.restored)} restored"
    say((", ".join(filter(None, parts)), "bold"), f"  {counts}")
    for sign, paths in (("+", change.added), ("-", change.removed)):
        for file in paths:
            say(f"  {sign} {file.path}  {counted(file.physical_rows, 'row') if file.physical_rows is not None else ''}")
    for changed in change.files:
        counts = f"{_at_least(changed, changed.deleted)} deleted, {_at_least(changed, changed.restored)} restored"
        say(f"    {changed.data_file.path}  {counts}")


_SIGNS = {
    Severity.ERROR: ("ERROR", "bold red", "error"),
    Severity.WARNING: ("WARN ", "yellow", "warning"),
    Severity.INFO: ("note ", "dim", "note"),
}
_SHOWN = 20


def audit(
    target: TableName,
    *,
    snapshot: SnapshotId = None,
    how: Reading,
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
) -> None:
    """Check all vectors of a table's snapshot, and compare them with its metadata, data files and folder.

    Exit code 1 if there is an error: some engine reads wrong rows, or cannot read the table.
    """
    table = how.open(target)
    with counter("auditing") as progress:
        found = audit_table(table, snapshot, orphans=orphans, deep=deep, threads=threads, progress=progress)
    if as_json:
        findings = {"findings": map(Finding.to_dict, found.findings), "notes": map(Finding.to_dict, found.notes)}
        print_json(found.summary() | findings | {"totals": totals(found.scan).to_dict()})
    else:
        _show_audit(found, every)
        if found.kind is TableKind.SCORCH and not found.ok:
            print(f"what can be repaired, and how: dvcodec zap repair {quote(plain(target))}")
        elif snapshot is None and not MENDED.isdisjoint(finding.check for finding in found.findings):
            named = "" if how.catalog is None else f" --catalog {quote(how.catalog)}"
            print(f"what can be repaired, and how: dvcodec repair {quote(plain(target))}{named}")
    raise typer.Exit(0 if found.ok else 1)


def _show_audit(found: Audit, every: bool) -> None:
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
    opened_files = f"{number(counts.counted_files)} opened" if counts.counted_files is not None else "not opened"
    footers = f" ({opened_files})" if found.kind is not TableKind.SCORCH or counts.counted_files is not None else ""
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


def report(
    target: TableName,
    output: Output,
    *,
    snapshot: SnapshotId = None,
    how: Reading,
    orphans: Orphans = True,
    min_ratio: MinRatio = WORTH_REWRITING,
    threads: Threads = None,
) -> None:
    """Audit a table and write the results as one self-contained HTML page.

    Exit code 1 if a vector could not be read, or contradicts the metadata: the page is written, with bounds as numbers.
    """
    table = how.open(target)
    check_outside(sink_of(output), table.location)  # an audit can take long
    with counter("auditing") as progress:
        found = audit_table(table, snapshot, orphans=orphans, threads=threads, progress=progress)
    html.write(sink_of(output), found, made=datetime.now(timezone.utc), min_ratio=min_ratio, storage_options=storage())
    summary = f"{counted(len(found.scan.files), 'data file')}, {counted(len(found.findings), 'finding')}"
    if found.counts.unreadable:
        summary += f", {counted(found.counts.unreadable, 'vector')} could not be read"
    _report(output, summary)
    raise typer.Exit(1 if found.counts.unreadable or ScanColumns.of(found.scan).in_doubt.any() else 0)


def export_live(
    target: TableName,
    output: Output,
    *,
    snapshot: SnapshotId = None,
    how: Reading,
    data_file: Annotated[
        str | None, typer.Option("--data-file", help="Only the rows of this data file, by path or name.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="Only this column; repeat for more, in their order.")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", help="Only the rows for which this SQL is true.")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Write the deleted rows instead.")] = False,
) -> None:
    """Write the live rows of a table, or of one data file, to one Parquet file."""
    table = how.open(target)
    with counter("exporting") as progress:
        rows = export(
            table,
            sink_of(output),
            snapshot_id=snapshot,
            data_file=data_file,
            columns=columns or None,
            where=where,
            deleted=deleted,
            progress=progress,
            storage_options=storage(),
        )
    _report(output, counted(rows, "row"))


def _report(output: str, what: str) -> None:
    with messages_of(output):
        print(f"wrote {plain(output)}, {what}")
