"""Iceberg tables of format versions 1 to 3: metadata JSON, manifests, deletion vectors and position deletes.

Specification: Apache Iceberg, "Table spec". `metadata` finds and reads the JSON, `manifests` what the snapshots list,
`plan` which deletes hold for which data file; `deletes` reads v2 position deletes, `container` holds Puffin files
against the manifests, `schema` and `rows` give data files in the columns of a snapshot.
"""

from dvcodec.tables.iceberg.manifests import ManifestEntry
from dvcodec.tables.iceberg.table import IcebergTable, open  # noqa: A004  (what every kind of table calls it)

__all__ = ["IcebergTable", "ManifestEntry", "open"]
