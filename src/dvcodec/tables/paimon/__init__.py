"""Paimon tables: snapshots, manifests, deletion vectors and rows, read from the files in the table's folder.

Specification: Paimon's "Concepts" (snapshot, schema, manifest, data file, table index), and the Java classes that each
module names. `metadata` has snapshots and schemas, `manifests` the data files, `vectors` the deletion vectors, `files`
and `partition` where they all are, `visible` which records are rows, `rows` reads them.
"""

from dvcodec.tables.paimon.table import PaimonTable

__all__ = ["PaimonTable", "open"]


def open(location: str, allow: frozenset[str] = frozenset()) -> PaimonTable:  # noqa: A001  (what `open_table` calls)
    """Open a Paimon table by its folder: a path or a URL; `allow` as in `Folder`. Nothing is read yet."""
    return PaimonTable(location, allow)
