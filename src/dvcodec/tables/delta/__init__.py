"""Delta tables, by their log.

Specification: Delta's PROTOCOL.md. `log` finds the files in ``_delta_log``, `actions` reads commits and checkpoints,
`replay` rebuilds the state of a version; `protocol` has the columns of the table and checks features, `rows` reads data
files in these columns.
"""

from __future__ import annotations

from dvcodec.tables.adapters import ADAPTERS, Adapter
from dvcodec.tables.delta.commit import DeltaCommitter, enable
from dvcodec.tables.delta.log import AddFile
from dvcodec.tables.delta.table import DeltaTable, open  # noqa: A004  (what every kind of table calls it)
from dvcodec.tables.model import TableKind

__all__ = ["AddFile", "DeltaTable", "open"]


ADAPTERS[TableKind.DELTA] = Adapter(open, DeltaCommitter, enable)
