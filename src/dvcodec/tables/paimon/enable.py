"""Enable deletion vectors in a Paimon append table: a new schema, with the option ``deletion-vectors.enabled``.

Java class ``SchemaManager``, whose ``ALTER TABLE`` wants ``deletion-vectors.modifiable`` too. That is for tables with a
primary key, whose readers find rows twice until they are compacted; the data files of an append table stay as they are.
"""

from __future__ import annotations

import json
import re
import time

from dvcodec.core.errors import Unsupported
from dvcodec.tables.enabling import Enabled
from dvcodec.tables.json_fields import JsonFields, parse_json
from dvcodec.tables.paimon.metadata import TableSchema, numbered, read_schema
from dvcodec.tables.paimon.snapshot import ENABLED
from dvcodec.tables.paimon.table import PaimonTable
from dvcodec.tables.put import put_once

__all__ = ["enable"]

_USUAL = {"type": "table", "data-evolution.enabled": "false", "chain-table.enabled": "false"}
"""Options that make another kind of table, and their usual values."""


def enable(table: PaimonTable, *, dry_run: bool = False) -> Enabled:
    """Enable deletion vectors in the newest schema; see `dvcodec.tables.enable`."""
    folder = table.folder
    folder.storage.reopen(folder.location)
    number = max(numbered(folder.names("schema"), "schema"), default=0)
    schema = read_schema(folder, number)
    source = folder.join(schema.name)
    _check(schema, folder.location, source)
    if schema.is_true(ENABLED):
        return Enabled(())
    changes = (f"{ENABLED}: {schema.options.get(ENABLED, 'not set')} -> true",)
    if dry_run:
        return Enabled(changes)
    members = JsonFields.of(parse_json(folder.read(schema.name), source, "metadata"), source).values
    new = {
        **members,
        "id": number + 1,
        "options": {**(members.get("options") or {}), ENABLED: "true"},
        "timeMillis": int(time.time() * 1000),
    }
    location = folder.join(f"schema/schema-{number + 1}")
    put_once(folder.storage, location, json.dumps(new, indent=2, ensure_ascii=False).encode())
    return Enabled(changes, location)


def _check(schema: TableSchema, location: str, source: str) -> None:
    """Check that it is an append table.

    Raises:
        Unsupported: it is not.
    """
    if re.search(r"/branch/branch-[^/]*$", location):
        raise Unsupported("branch", source=location, expected="the table's own folder", actual="a branch of it")
    if schema.primary_keys:
        actual = f"the primary key {', '.join(schema.primary_keys)}"
        raise Unsupported("kind of table", source=source, expected="an append table", actual=actual)
    for option, usual in _USUAL.items():
        actual = schema.options.get(option, usual).strip().lower()
        if actual != usual:
            raise Unsupported(f"table option {option}", source=source, expected=usual, actual=actual)
