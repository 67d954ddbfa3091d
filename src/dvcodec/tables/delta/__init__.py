"""Delta tables, by their log.

Specification: Delta's PROTOCOL.md. `log` finds the files in ``_delta_log`` and has their actions, `replay` reads
checkpoints and rebuilds the state of a version; `protocol` checks features, `schema` and `rows` read data files in the
columns of the table.
"""

from __future__ import annotations

from dvcodec.tables.adapters import ADAPTERS, Adapter
from dvcodec.tables.delta.commit import DeltaCommitter, enable
from dvcodec.tables.delta.log import AddFile
from dvcodec.tables.delta.table import DeltaTable, open  # noqa: A004  (what every kind of table calls it)
from dvcodec.tables.model import TableKind

__all__ = ["AddFile", "DeltaTable", "open"]


ADAPTERS[TableKind.DELTA] = Adapter(open, DeltaCommitter, enable)
