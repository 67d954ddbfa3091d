"""Whole tables: find, read, audit and show their deletion vectors (Iceberg, Delta, Paimon, Lance, scorch indexes).

No JVM: a table is opened by its folder, through the metadata in it (extra ``tables``), or from a catalog. The verbs are
here too: `audit`, `scan`, `totals` and `rewrite_candidates`, `history`, `live_batches`, `export_live`,
`deleted_rows`, `convert_table`, `repair_plan`; those that commit are `delete`, `enable`, `compact_deletes`,
`upgrade_deletes`, `commit_repair` and `copy_deletes`. All are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dvcodec.io import Listed as StoredFile
from dvcodec.tables.adapters import enable
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import (
    DataFile,
    DeletedRows,
    DeletionVector,
    PhysicalRows,
    Record,
    SnapshotInfo,
    TableKind,
)
from dvcodec.tables.opening import open_table
from dvcodec.tables.table import Snapshot, Table

if TYPE_CHECKING:
    from dvcodec.tables.auditing import Audit, audit
    from dvcodec.tables.convert import Conversion, convert_table, copy_deletes
    from dvcodec.tables.deleting import Deletion, delete
    from dvcodec.tables.iceberg.commit import (
        CompactedDeletes,
        UpgradedDeletes,
        compact_deletes,
        upgrade_deletes,
    )
    from dvcodec.tables.model import Consequence, Enabled
    from dvcodec.tables.repair import Repaired, RepairPlan, commit_repair, repair_plan
    from dvcodec.tables.snapshots.changes import history
    from dvcodec.tables.snapshots.findings import Finding, Severity
    from dvcodec.tables.snapshots.live import deleted_rows, export_live, live_batches
    from dvcodec.tables.snapshots.scanning import Scan, rewrite_candidates, scan, totals

__all__ = [
    "Audit",
    "CompactedDeletes",
    "Consequence",
    "Conversion",
    "DataFile",
    "DeletedRows",
    "Deletion",
    "DeletionVector",
    "Enabled",
    "Finding",
    "Folder",
    "PhysicalRows",
    "Record",
    "RepairPlan",
    "Repaired",
    "Scan",
    "Severity",
    "Snapshot",
    "SnapshotInfo",
    "StoredFile",
    "Table",
    "TableKind",
    "UpgradedDeletes",
    "audit",
    "commit_repair",
    "compact_deletes",
    "convert_table",
    "copy_deletes",
    "delete",
    "deleted_rows",
    "enable",
    "export_live",
    "history",
    "live_batches",
    "open_table",
    "repair_plan",
    "rewrite_candidates",
    "scan",
    "totals",
    "upgrade_deletes",
]

_HOMES = {
    "auditing": ("Audit", "audit"),
    "snapshots.changes": ("history",),
    "convert": ("Conversion", "convert_table", "copy_deletes"),
    "deleting": ("Deletion", "delete"),
    "model": ("Consequence", "Enabled"),
    "snapshots.findings": ("Finding", "Severity"),
    "iceberg.commit": ("CompactedDeletes", "UpgradedDeletes", "compact_deletes", "upgrade_deletes"),
    "snapshots.live": ("deleted_rows", "export_live", "live_batches"),
    "repair": ("RepairPlan", "Repaired", "commit_repair", "repair_plan"),
    "snapshots.scanning": ("Scan", "rewrite_candidates", "scan", "totals"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dvcodec.tables' has no attribute {name!r}")
    value = getattr(import_module(f"dvcodec.tables.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
