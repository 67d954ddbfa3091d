"""Delta tables, by their log.

Specification: Delta's PROTOCOL.md. `log` is what lies in ``_delta_log``, `actions` what its lines say, `checkpoint` the
same in Parquet, `replay` the state of a version; `protocol` says which features are known, `schema` and `conform` bring
data files into the table's columns, and `table` is the model.
"""

from dvcodec.tables.delta.table import DeltaTable, open  # noqa: A004  (what every kind of table calls it)

__all__ = ["DeltaTable", "open"]
