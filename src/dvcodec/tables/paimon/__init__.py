"""Paimon tables: snapshots, manifests, deletion vectors and rows, read from the files in the table's folder.

Specification: Paimon's "Concepts" (snapshot, schema, manifest, data file, table index), and the Java classes that each
module names. `metadata` reads snapshots and schemas, `manifests` the data files, `vectors` the deletion vectors;
`files` and `partition` locate them, `visible` decides which records are rows, `rows` reads them.
"""

from __future__ import annotations

from typing import Any

from dvcodec.tables.adapters import ADAPTERS, Adapter
from dvcodec.tables.deleting.committer import Committer
from dvcodec.tables.model import Enabled, TableKind
from dvcodec.tables.paimon.manifests import DataFileMeta
from dvcodec.tables.paimon.table import PaimonTable, open  # noqa: A004  (what every kind of table calls it)
from dvcodec.tables.paimon.vectors import IndexedVector

__all__ = ["DataFileMeta", "IndexedVector", "PaimonTable", "open"]


def _committer(table: PaimonTable) -> Committer[Any]:
    from dvcodec.tables.paimon.commit import committer  # noqa: PLC0415  (for what writes)

    return committer(table)


def _enable(table: PaimonTable, dry_run: bool) -> Enabled:
    from dvcodec.tables.paimon.commit import enable  # noqa: PLC0415

    return enable(table, dry_run=dry_run)


ADAPTERS[TableKind.PAIMON] = Adapter(open, _committer, _enable)
