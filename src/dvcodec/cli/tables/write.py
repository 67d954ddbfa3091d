"""The commands report and export-live."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

import typer

from dvcodec import report as html
from dvcodec.cli.render import counter
from dvcodec.cli.shared import MinRatio, Output, messages_of, sink_of
from dvcodec.cli.storage import storage
from dvcodec.cli.tables.shared import Allow, Catalog, Kind, Orphans, Reference, SnapshotId, TableName, Threads, opened
from dvcodec.core.text import counted, plain
from dvcodec.ops.convert import WORTH_REWRITING
from dvcodec.tables.auditing import audit as audit_table
from dvcodec.tables.snapshots.live import export_live as export
from dvcodec.tables.writing import check_outside


def report(
    target: TableName,
    output: Output,
    snapshot: SnapshotId = None,
    kind: Kind = None,
    catalog: Catalog = None,
    reference: Reference = None,
    allow: Allow = None,
    orphans: Orphans = True,
    min_ratio: MinRatio = WORTH_REWRITING,
    threads: Threads = None,
) -> None:
    """Audit a table and write the results as one self-contained HTML page.

    Exit code 1 if a vector could not be read, or contradicts the metadata: the page is written, with bounds as numbers.
    """
    table = opened(target, kind, allow, catalog, reference=reference)
    check_outside(sink_of(output), table.location)  # an audit can take long
    with counter("auditing") as progress:
        found = audit_table(table, snapshot, orphans=orphans, threads=threads, progress=progress)
    html.write(sink_of(output), found, made=datetime.now(timezone.utc), min_ratio=min_ratio, storage_options=storage())
    summary = f"{counted(len(found.scan.files), 'data file')}, {counted(len(found.findings), 'finding')}"
    if found.counts.unreadable:
        summary += f", {counted(found.counts.unreadable, 'vector')} could not be read"
    _report(output, summary)
    raise typer.Exit(1 if found.counts.unreadable or any(file.errors for file in found.scan.files) else 0)


def export_live(
    target: TableName,
    output: Output,
    snapshot: SnapshotId = None,
    kind: Kind = None,
    catalog: Catalog = None,
    reference: Reference = None,
    allow: Allow = None,
    data_file: Annotated[
        str | None, typer.Option("--data-file", help="Only the rows of this data file, by path or name.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="Only this column; repeat for more, in their order.")
    ] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Write the deleted rows instead.")] = False,
) -> None:
    """Write the live rows of a table, or of one data file, to one Parquet file."""
    table = opened(target, kind, allow, catalog, reference=reference)
    with counter("exporting") as progress:
        rows = export(
            table,
            sink_of(output),
            snapshot_id=snapshot,
            data_file=data_file,
            columns=columns or None,
            deleted=deleted,
            progress=progress,
            storage_options=storage(),
        )
    _report(output, counted(rows, "row"))


def _report(output: str, what: str) -> None:
    with messages_of(output):
        print(f"wrote {plain(output)}, {what}")
