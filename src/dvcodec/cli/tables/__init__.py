"""Commands on tables; here is what they share: options, and names of snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dvcodec.cli.common import storage
from dvcodec.core.text import counted, number, share_text
from dvcodec.io import Storage
from dvcodec.io.store import StoreOptions
from dvcodec.tables import SnapshotInfo, Table, TableKind, open_table
from dvcodec.tables.model import NO_SNAPSHOT, moment
from dvcodec.tables.snapshots.scanning import Totals

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="Folder or URL of a table, or its *.metadata.json.")]
SnapshotId = Annotated[
    int | None,
    typer.Option("--snapshot", help="Snapshot id, or version; by default the current one.", show_default=False),
]
Kind = Annotated[
    TableKind | None,
    typer.Option("--kind", help="Format of the table, if the folder matches several.", show_default=False),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-protocol",
        metavar="NAME",
        help="Also open locations of this protocol (http, sftp, file) that the metadata names; repeat for more.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        help="Files to read at once; by default 8, in an object store 32.",
        show_default=False,
    ),
]
Orphans = Annotated[
    bool, typer.Option("--orphans/--no-orphans", help="List the folder, to find missing and unreferenced files.")
]
Catalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="NAME",
        help="Catalog of pyiceberg's configuration; TABLE is then the table's name in it, as in db.orders or "
        "'\"my.db\".orders'.",
        show_default=False,
    ),
]
Reference = Annotated[
    str | None,
    typer.Option("--ref", metavar="NAME", help="Branch or tag of an Iceberg table.", show_default=False),
]
OnlyWriter = Annotated[
    bool,
    typer.Option(
        "--only-writer",
        help="Commit to a folder whose Iceberg metadata files are named as catalogs name them: no catalog may have the "
        "table, and nothing but dvcodec may commit to it.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be changed; write nothing.")]

KINDS = {
    TableKind.ICEBERG: "Iceberg table",
    TableKind.DELTA: "Delta table",
    TableKind.PAIMON: "Paimon table",
    TableKind.LANCE: "Lance dataset",
    TableKind.SCORCH: "scorch index",
}


def opened(
    target: str,
    kind: TableKind | None,
    allow: list[str] | None,
    catalog: str | None = None,
    only_writer: bool = False,
    reference: str | None = None,
) -> Table:
    """Open the table of a command; with a catalog and no storage options, the catalog's own settings apply."""
    given: Storage | None = storage()
    if catalog is not None and storage().options == StoreOptions.of(None):
        given = None
    return open_table(
        target,
        kind=kind,
        catalog=catalog,
        reference=reference,
        only_writer=only_writer,
        allow=allow or (),
        storage_options=given,
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """The options of commands that read a table."""

    kind: Kind = None
    catalog: Catalog = None
    reference: Reference = None
    allow: Allow = None

    def open(self, target: str) -> Table:
        """Open the table of the command."""
        return opened(target, self.kind, self.allow, self.catalog, reference=self.reference)


def rows_text(sums: Totals) -> str:
    """Describe how many rows there are, and how many are deleted, as exactly as that is known."""
    if sums.rows is None:
        rows = f"row count not recorded for {counted(sums.uncounted, 'data file')}"
    else:
        rows = counted(sums.rows, "row")
    share, live = sums.deleted_share, sums.max_live
    if sums.exact:
        return f"{rows}: {number(sums.deleted)} deleted{'' if share is None else f', {share_text(share)}'}"
    most = "" if live is None else f", at most {number(live)} live"
    if not sums.min_deleted:
        return f"{rows}: unknown how many are deleted{most}"
    least = "" if share is None else f", at least {share_text(share)}"
    return f"{rows}: at least {number(sums.min_deleted)} deleted{least}{most}"


def snapshot_text(kind: TableKind, info: SnapshotInfo) -> str:
    """Describe a snapshot in one line: table format, id, operation, time."""
    which = f"snapshot {info.id}" if info.id != NO_SNAPSHOT else "no snapshot yet"
    parts = (KINDS[kind], which, info.operation, moment(info))
    return ", ".join(part for part in parts if part)
