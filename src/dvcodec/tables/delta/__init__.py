"""Delta tables, by their log.

Specification: Delta's PROTOCOL.md. `log` finds the files in ``_delta_log``, `actions` parses their lines, `checkpoint`
the same in Parquet, `replay` rebuilds the state of a version; `protocol` checks features, `schema` and `rows` read data
files in the columns of the table.
"""

from __future__ import annotations

from typing import Any

from dvcodec.tables.adapters import ADAPTERS, Adapter
from dvcodec.tables.deleting.committer import Committer
from dvcodec.tables.delta.actions import AddFile
from dvcodec.tables.delta.table import DeltaTable, open  # noqa: A004  (what every kind of table calls it)
from dvcodec.tables.model import Enabled, TableKind

__all__ = ["AddFile", "DeltaTable", "open"]


def _committer(table: DeltaTable) -> Committer[Any]:
    from dvcodec.tables.delta.commit import committer  # noqa: PLC0415  (for what writes)

    return committer(table)


def _enable(table: DeltaTable, dry_run: bool) -> Enabled:
    from dvcodec.tables.delta.commit import enable  # noqa: PLC0415

    return enable(table, dry_run=dry_run)


ADAPTERS[TableKind.DELTA] = Adapter(open, _committer, _enable)
