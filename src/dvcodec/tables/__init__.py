"""Whole tables: find, read, audit and show their deletion vectors (Iceberg, Delta, Paimon, Lance, scorch indexes).

No catalog and no JVM: a table is opened by its folder, through the metadata in it (extra ``tables``). The verbs are
here too: `audit`, `scan`, `totals` and `rewrite_candidates`, `history`, `live_batches`, `export_live`,
`deleted_rows`, `convert_table`, `repair_plan`, `enable`. These are imported when first used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import UsageError
from dvcodec.io import StorageOptions, storage_of
from dvcodec.io.allowed_locations import protocols
from dvcodec.tables.folder import Folder, StoredFile
from dvcodec.tables.model import (
    DataFile,
    DeletedRows,
    DeletionVector,
    PhysicalRows,
    Record,
    SnapshotInfo,
    TableKind,
)
from dvcodec.tables.table import Snapshot, Table

if TYPE_CHECKING:
    from dvcodec.tables.auditing import Audit, audit
    from dvcodec.tables.changes import history
    from dvcodec.tables.convert import Conversion, convert_table
    from dvcodec.tables.deleting import Deletion, delete
    from dvcodec.tables.enabling import Enabled, enable
    from dvcodec.tables.findings import Finding, Severity
    from dvcodec.tables.live import deleted_rows, export_live, live_batches
    from dvcodec.tables.repair import RepairPlan, repair_plan
    from dvcodec.tables.scanning import Scan, scan
    from dvcodec.tables.stats import rewrite_candidates, totals

__all__ = [
    "Audit",
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
    "Scan",
    "Severity",
    "Snapshot",
    "SnapshotInfo",
    "StoredFile",
    "Table",
    "TableKind",
    "audit",
    "convert_table",
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
]

_HOMES = {
    "auditing": ("Audit", "audit"),
    "changes": ("history",),
    "convert": ("Conversion", "convert_table"),
    "deleting": ("Deletion", "delete"),
    "enabling": ("Enabled", "enable"),
    "findings": ("Finding", "Severity"),
    "live": ("deleted_rows", "export_live", "live_batches"),
    "repair": ("RepairPlan", "repair_plan"),
    "scanning": ("Scan", "scan"),
    "stats": ("rewrite_candidates", "totals"),
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


_SIGNS: tuple[tuple[TableKind, frozenset[str]], ...] = (
    (TableKind.DELTA, frozenset({"_delta_log"})),
    (TableKind.LANCE, frozenset({"_versions"})),
    (TableKind.PAIMON, frozenset({"snapshot", "schema"})),
    (TableKind.ICEBERG, frozenset({"metadata"})),
    (TableKind.SCORCH, frozenset({"store"})),
    (TableKind.SCORCH, frozenset({"root.bolt"})),
)
"""Names in a table's folder by kind, the most specific first."""


def open_table(
    target: str | os.PathLike[str],
    *,
    kind: TableKind | None = None,
    allow: Iterable[str] = (),
    storage_options: StorageOptions = None,
) -> Table:
    """Open a table by its folder; the names in it show its kind.

    Args:
        target: the table's folder (path or URL); of Iceberg also one of its ``*.metadata.json`` files, to open
            the table as of that file.
        kind: required if a folder has the metadata of several kinds (a Delta table that Iceberg reads too).
        allow: protocols (``http``, ``sftp``) of locations that the metadata may name besides those of the table's own
            storage and of object stores; ``file`` for local files that a remote table names. Others are refused.
        storage_options: how to reach the store of a URL, as deltalake and polars spell it; see the guide on object
            stores. Opening a table again with the same `Storage` clears its cache of the table.

    Raises:
        UsageError: the folder has no table metadata, or that of several kinds.
        DecodeError: the metadata is corrupt.
        MissingExtra: a package that reads the metadata is not installed.
        OSError: it cannot be read.
    """
    location = os.fspath(target).rstrip("/") or "/"
    storage = storage_of(storage_options)
    storage.reopen(location.rpartition("/metadata/")[0] if location.endswith(".metadata.json") else location)
    folder = Folder(location, allow=protocols(allow), storage=storage)
    if location.endswith(".metadata.json"):
        found = [TableKind.ICEBERG]
    else:
        names = frozenset(folder.names())
        found = list(dict.fromkeys(sign for sign, wanted in _SIGNS if wanted <= names))
        if not found and "schema" in names and "schema-0" in folder.names("schema"):
            found = [TableKind.PAIMON]  # nothing has been committed to it yet
    if kind is not None:
        found = [kind]
    if not found:
        raise UsageError(
            f"{location}: no table (there is no _delta_log, metadata, snapshot and schema, _versions, or root.bolt)"
        )
    if len(found) > 1:
        raise UsageError(f"{location}: tables of several kinds ({', '.join(found)}): choose one with kind")
    module = import_module(f"dvcodec.tables.{found[0].value}")
    opened: Table = module.open(folder)
    return opened
