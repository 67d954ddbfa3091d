"""Iceberg tables of format versions 1 to 3: metadata JSON, manifests, deletion vectors and position deletes.

Specification: Apache Iceberg, "Table spec". `metadata` finds the JSON and reads it, `entries` reads what the snapshots
list, `plan` decides which deletes apply to which data file; `deletes` reads these, and compares Puffin files with the
manifests; `schema` and `rows` read data files in the columns of a snapshot.
"""

from __future__ import annotations

from typing import Any

from dvcodec.tables.adapters import ADAPTERS, Adapter
from dvcodec.tables.deleting.run import Committer
from dvcodec.tables.iceberg.entries import ManifestEntry
from dvcodec.tables.iceberg.table import IcebergTable, open  # noqa: A004  (what every kind of table calls it)
from dvcodec.tables.model import Enabled, TableKind

__all__ = ["IcebergTable", "ManifestEntry", "open"]


def _committer(table: IcebergTable) -> Committer[Any]:
    from dvcodec.tables.iceberg.commit import committer  # noqa: PLC0415  (for what writes)

    return committer(table)


def _enable(table: IcebergTable, dry_run: bool) -> Enabled:
    from dvcodec.tables.iceberg.commit import enable  # noqa: PLC0415

    return enable(table, dry_run=dry_run)


ADAPTERS[TableKind.ICEBERG] = Adapter(open, _committer, _enable)
