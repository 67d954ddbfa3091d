"""Delta tables, by their log.

Specification: Delta's PROTOCOL.md. `log` is the files in ``_delta_log``, `actions` what its lines say, `checkpoint` the
same in Parquet, `replay` the state of a version; `protocol` says which features are known, `schema` and `rows` read
data files in the columns of the table.
"""

from dvcodec.tables.delta.actions import AddFile
from dvcodec.tables.delta.table import DeltaTable, open  # noqa: A004  (what every kind of table calls it)

__all__ = ["AddFile", "DeltaTable", "open"]
