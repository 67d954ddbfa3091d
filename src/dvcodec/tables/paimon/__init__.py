"""Paimon tables: snapshots, manifests, deletion vectors and rows, read from the files in the table's folder.

Specification: Paimon's "Concepts" (snapshot, schema, manifest, data file, table index), and the Java classes that each
module names. `metadata` reads snapshots and schemas, `manifests` the data files, `vectors` the deletion vectors;
`files` and `partition` locate them, `visible` decides which records are rows, `rows` reads them.
"""

from dvcodec.tables.paimon.manifests import DataFileMeta
from dvcodec.tables.paimon.table import PaimonTable, open  # noqa: A004  (what every kind of table calls it)
from dvcodec.tables.paimon.vectors import IndexedVector

__all__ = ["DataFileMeta", "IndexedVector", "PaimonTable", "open"]
