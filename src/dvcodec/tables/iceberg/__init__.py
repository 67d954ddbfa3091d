"""Iceberg tables of format versions 1 to 3: metadata JSON, manifests, deletion vectors and position deletes.

Specification: Apache Iceberg, "Table spec". `latest` finds the JSON and `metadata` reads it, `manifests` reads what the
snapshots list, `plan` decides which deletes apply to which data file; `deletes` reads v2 position deletes, `container`
compares Puffin files with the manifests, `schema` and `rows` read data files in the columns of a snapshot.
"""

from dvcodec.tables.iceberg.manifests import ManifestEntry
from dvcodec.tables.iceberg.table import IcebergTable, open  # noqa: A004  (what every kind of table calls it)

__all__ = ["IcebergTable", "ManifestEntry", "open"]
