"""Enable deletion vectors: a new schema of an append table, with the option that readers and writers go by.

Java class ``SchemaManager``: ``schema/schema-N+1`` is created only if it does not exist. No snapshot is made. For
tables with a primary key, Paimon requires a full compaction besides; they are refused.
"""

from __future__ import annotations

import json
import time
from typing import Any

from dvcodec.core.errors import CommitConflict
from dvcodec.tables.json_fields import parse_json
from dvcodec.tables.paimon.snapshot import ENABLED
from dvcodec.tables.paimon.table import PaimonTable
from dvcodec.tables.paimon.writable import check_kind

__all__ = ["enable"]


def enable(table: PaimonTable) -> int | None:
    """Enable deletion vectors; other options and members of the schema stay.

    Returns:
        The id of the new schema; None if they are enabled already.

    Raises:
        Unsupported: a kind of table, or a feature, under which deletes are refused.
        CommitConflict: another writer changed the schema; nothing was changed.
        DecodeError, OSError: the metadata is corrupt, cannot be read or written.
    """
    folder = table.folder
    folder.storage.reopen(folder.location)
    base = PaimonTable(folder).snapshot()
    check_kind(base)
    schema = base.schemas(base.schema_id or 0)
    if schema.is_true(ENABLED):
        return None
    before: dict[str, Any] = parse_json(folder.read(schema.name), folder.join(schema.name), "metadata")
    after = before | {
        "id": schema.id + 1,
        "options": {**(before.get("options") or {}), ENABLED: "true"},
        "timeMillis": time.time_ns() // 1_000_000,
    }
    location = folder.join(f"schema/schema-{schema.id + 1}")
    try:
        folder.storage.put_if_absent(location, json.dumps(after, indent=2).encode())
    except FileExistsError:
        raise CommitConflict(f"{location} was committed by another writer") from None
    return schema.id + 1
