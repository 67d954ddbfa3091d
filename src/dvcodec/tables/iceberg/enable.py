"""Deletion vectors in an Iceberg table: they are part of format version 3."""

from __future__ import annotations

from dvcodec.core.errors import Unsupported
from dvcodec.tables.enabling import Enabled
from dvcodec.tables.iceberg.contradictions import VECTORS_VERSION
from dvcodec.tables.iceberg.table import IcebergTable

__all__ = ["enable"]


def enable(table: IcebergTable, *, dry_run: bool = False) -> Enabled:  # noqa: ARG001
    """Return that there is nothing to do for a table of version 3; see `dvcodec.tables.enable`.

    Raises:
        Unsupported: an older version, which is not upgraded here.
    """
    version = table.metadata.format_version
    if version < VECTORS_VERSION:
        source, expected = table.metadata.source, f"{VECTORS_VERSION}: upgrade the table with an engine"
        raise Unsupported("format-version", source=source, expected=expected, actual=version)
    return Enabled(())
