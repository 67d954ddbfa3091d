"""Enable deletion vectors in an Iceberg table: its format version becomes 3.

Specification: Iceberg table spec, "Version 3". Position deletes of the table stay valid; rows get ids from now on.
"""

from __future__ import annotations

import time

from dvcodec.core.errors import Unsupported
from dvcodec.core.interrupts import uninterrupted
from dvcodec.tables.iceberg.change import Change
from dvcodec.tables.iceberg.contradictions import VECTORS_VERSION
from dvcodec.tables.iceberg.features import refuse_unknown
from dvcodec.tables.iceberg.folder_place import place_of
from dvcodec.tables.iceberg.metadata import read_members
from dvcodec.tables.iceberg.table import IcebergTable
from dvcodec.tables.model import Enabled

__all__ = ["enable"]


def enable(table: IcebergTable, *, dry_run: bool = False) -> Enabled:
    """Upgrade the newest metadata of a table of version 2; see `dvcodec.tables.enable`.

    Raises:
        UsageError: the table cannot be committed to where it was opened from.
        Unsupported: format version 1, or an unknown feature.
    """
    place = place_of(table)
    newest = place.load()
    source, version = newest.metadata.source, newest.metadata.format_version
    if version >= VECTORS_VERSION:
        return Enabled(())
    if version < VECTORS_VERSION - 1:
        raise Unsupported("format-version", source=source, expected=f"from {VECTORS_VERSION - 1} on", actual=version)
    members = read_members(source, newest.folder.storage)
    refuse_unknown(newest, members)
    place.check(newest, members)
    changes = (f"format-version: {version} -> {VECTORS_VERSION}",)
    if dry_run:
        return Enabled(changes)
    now = max(int(time.time() * 1000), members.integer("last-updated-ms"))
    with uninterrupted():
        place.put(newest, members, Change(now, upgrade=VECTORS_VERSION))
    return Enabled(changes, place.load().metadata.source)
