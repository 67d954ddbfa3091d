"""Paimon tables: snapshots, manifests, deletion vectors and rows, read from the files in the table's folder.

Specification: Paimon's "Concepts" (snapshot, schema, manifest, data file, table index), and the Java classes that each
module names. `metadata` has snapshots and schemas, `manifests` the data files, `vectors` the deletion vectors, `files`
and `partition` where they all are, `visible` which records are rows, `rows` reads them.
"""

from __future__ import annotations

import os

from dvcodec.tables.folder import Folder
from dvcodec.tables.paimon.table import PaimonTable

__all__ = ["PaimonTable", "open"]


def open(location: Folder | str | os.PathLike[str]) -> PaimonTable:  # noqa: A001  (what `open_table` calls)
    """Open a Paimon table by its folder. Nothing is read yet."""
    return PaimonTable(Folder.of(location))
