"""Delta tables, by their log.

Specification: Delta's PROTOCOL.md. `log` finds the files in ``_delta_log``, `actions` parses their lines, `checkpoint`
the same in Parquet, `replay` rebuilds the state of a version; `protocol` checks features, `schema` and `rows` read data
files in the columns of the table.
"""

from dvcodec.tables.delta.actions import AddFile
from dvcodec.tables.delta.table import DeltaTable, open  # noqa: A004  (what every kind of table calls it)

__all__ = ["AddFile", "DeltaTable", "open"]
