"""Paimon tables: snapshots, manifests, deletion vectors and rows, read from the files in the table's folder.

Specification: Paimon's "Concepts" (snapshot, schema, manifest, data file, table index), and the Java classes that each
module names. `metadata` reads snapshots, schemas and types, `manifests` the data files and deletion vectors;
`partition` locates them, `rows` decides which records are rows, and reads them.
"""

from __future__ import annotations

from dvcodec.tables.adapters import ADAPTERS, Adapter
from dvcodec.tables.model import TableKind
from dvcodec.tables.paimon.commit import PaimonCommitter, enable
from dvcodec.tables.paimon.manifests import DataFileMeta, IndexedVector
from dvcodec.tables.paimon.table import PaimonTable, open  # noqa: A004  (what every kind of table calls it)

__all__ = ["DataFileMeta", "IndexedVector", "PaimonTable", "open"]


ADAPTERS[TableKind.PAIMON] = Adapter(open, PaimonCommitter, enable)
