"""What commands on tables share: options, and how a snapshot is named."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

import typer

from dvcodec.tables import SnapshotInfo, TableKind
from dvcodec.tables.model import NO_SNAPSHOT

__all__ = ["KINDS", "Allow", "Kind", "Orphans", "SnapshotId", "TableName", "Threads", "moment", "snapshot_text"]

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="Folder or URL of a table, or its *.metadata.json.")]
SnapshotId = Annotated[
    int | None,
    typer.Option("--snapshot", help="Snapshot id, or version; by default the current one.", show_default=False),
]
Kind = Annotated[
    TableKind | None,
    typer.Option("--kind", help="What the table is, where its folder holds several kinds.", show_default=False),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-protocol",
        metavar="NAME",
        help="Open locations of this protocol (http, sftp, file) too, where the metadata names them; repeat for more.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        help="How many files are read at a time; by default 8, of an object store 32.",
        show_default=False,
    ),
]
Orphans = Annotated[
    bool, typer.Option("--orphans/--no-orphans", help="List the folder, for files that are missing or nobody's.")
]

KINDS = {
    TableKind.ICEBERG: "Iceberg table",
    TableKind.DELTA: "Delta table",
    TableKind.PAIMON: "Paimon table",
    TableKind.LANCE: "Lance dataset",
    TableKind.SCORCH: "scorch index",
}


def moment(info: SnapshotInfo) -> str | None:
    """Return when a snapshot was committed, in UTC to the second; None if unknown or out of range."""
    if info.timestamp_ms is None:
        return None
    try:
        return f"{datetime.fromtimestamp(info.timestamp_ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):  # metadata may say any number
        return None


def snapshot_text(kind: TableKind, info: SnapshotInfo) -> str:
    """Name a snapshot in a line: what of, which, what made it, when."""
    which = f"snapshot {info.id}" if info.id != NO_SNAPSHOT else "no snapshot yet"
    parts = (KINDS[kind], which, info.operation, moment(info))
    return ", ".join(part for part in parts if part)
