"""Enable deletion vectors in a Paimon append table: a new schema, with the option ``deletion-vectors.enabled``.

Java class ``SchemaManager``, whose ``ALTER TABLE`` wants ``deletion-vectors.modifiable`` too. That is for tables with a
primary key, whose readers find rows twice until they are compacted; the data files of an append table stay as they are.
"""

from __future__ import annotations

import time
from dataclasses import replace

from dvcodec.core.interrupts import uninterrupted
from dvcodec.core.json_text import encode_json, parse_json
from dvcodec.tables.json_fields import JsonFields
from dvcodec.tables.model import Enabled
from dvcodec.tables.paimon.metadata import TableSchema
from dvcodec.tables.paimon.snapshot import ENABLED
from dvcodec.tables.paimon.table import PaimonTable
from dvcodec.tables.paimon.writable import check_next, check_writable
from dvcodec.tables.put import put_once

__all__ = ["enable"]


def enable(table: PaimonTable, *, dry_run: bool = False) -> Enabled:
    """Enable deletion vectors in the newest schema; see `dvcodec.tables.enable`.

    Raises:
        Unsupported: a table that deletes could not be committed to afterwards either, see `check_writable`; or no id is
            left for another schema.
    """
    folder = table.folder
    folder.storage.reopen(folder.location)
    base = PaimonTable(folder).snapshot()
    schema = base.schemas(base.schema_id or 0)

    def enabled(number: int) -> TableSchema:
        found = base.schemas(number)
        return replace(found, options={**found.options, ENABLED: "true"}) if number == schema.id else found

    check_writable(replace(base, schemas=enabled))
    if schema.is_true(ENABLED):
        return Enabled(())
    source = folder.join(schema.name)
    check_next(schema.id, source)
    changes = (f"{ENABLED}: {schema.options.get(ENABLED, 'not set')} -> true",)
    if dry_run:
        return Enabled(changes)
    members = JsonFields.of(parse_json(folder.read(schema.name), source, "metadata"), source).values
    new = {
        **members,
        "id": schema.id + 1,
        "options": {**(members.get("options") or {}), ENABLED: "true"},
        "timeMillis": int(time.time() * 1000),
    }
    data = encode_json(new, source, "metadata", lines=True)
    location = folder.join(f"schema/schema-{schema.id + 1}")
    with uninterrupted():
        put_once(folder.storage, location, data)
    return Enabled(changes, location)
