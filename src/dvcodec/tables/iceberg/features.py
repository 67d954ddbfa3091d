"""The features of an Iceberg table that a writer has to support."""

from __future__ import annotations

from itertools import chain

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.tables.iceberg.change import MAIN, properties_of
from dvcodec.tables.iceberg.plan import VECTORS_VERSION
from dvcodec.tables.iceberg.snapshot import IcebergSnapshot
from dvcodec.tables.iceberg.table import IcebergTable
from dvcodec.tables.json_fields import JsonFields
from dvcodec.tables.model import NO_SNAPSHOT

__all__ = ["refuse_unknown", "refuse_without_vectors"]

_DELETE_MODE = "write.delete.mode"
_REFUSED = {
    "encryption.key-id": "tables without encryption",
    "write.location-provider.impl": "files in the table's own folders",
    "delta-version": "a table that Iceberg writers commit to, not one that Delta makes",
}
"""Table properties that dvcodec cannot obey, and what it supports instead."""
_TOP = 2**63 - 1


def refuse_unknown(table: IcebergTable, members: JsonFields) -> None:
    """Refuse a table with a feature that a commit would have to support, and does not.

    Raises:
        UsageError: the table was moved.
        Unsupported: an unknown feature; the message names it.
    """
    source = table.metadata.source
    if table.folder.moved:
        raise UsageError(
            f"{source}: the table was moved: its metadata names {table.folder.recorded}, so that engines would not "
            f"find new files at {table.location}"
        )
    properties = properties_of(members)
    for name, known in _REFUSED.items():
        if name in properties:
            raise Unsupported(f"property {name}", source=source, expected=known, actual=properties[name])
    if members.values.get("encryption-keys"):
        raise Unsupported("encryption-keys", source=source, expected="tables without encryption", actual="keys")
    branch = members.object_if_any("refs").object_if_any(MAIN)
    if branch.values.get("type", "branch") != "branch":
        raise Unsupported(f"refs.{MAIN}", source=source, expected="a branch", actual=branch.values["type"])


def refuse_without_vectors(base: IcebergSnapshot, members: JsonFields) -> None:
    """Refuse a table whose format version or properties do not have deletion vectors.

    Raises:
        UsageError: the message says how they are enabled.
        NotCanonical: numbers that the next snapshot would have are in use, or out of range.
    """
    source, version = base.metadata.source, base.metadata.format_version
    if version < VECTORS_VERSION:
        raise UsageError(
            f"{source}: format version {version}, and deletion vectors need {VECTORS_VERSION}: upgrade the table first "
            "(dvcodec enable, or ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '3')); readers of version 2 "
            "cannot read it afterwards"
        )
    if base.info.id != NO_SNAPSHOT and members.integer_or_none("next-row-id", least=0) is None:
        members.fail("next-row-id", "a number, in format version 3")
    _refuse_numbers_in_use(base, members)
    mode = properties_of(members).get(_DELETE_MODE, "merge-on-read")
    if mode.lower() != "merge-on-read":
        raise UsageError(
            f"{source}: property {_DELETE_MODE} is {mode}: deletes are to rewrite data files, not to write deletion "
            "vectors; set it to merge-on-read, or remove it"
        )


def _refuse_numbers_in_use(base: IcebergSnapshot, members: JsonFields) -> None:
    """Refuse a table whose next sequence number is not above all others: its deletes would apply to no data file."""
    numbers = chain(
        (one.sequence_number for one in base.metadata.snapshots.values()),
        (file.sequence_number or 0 for file in base.data_files),
        (vector.sequence_number or 0 for vector in base.vectors),
        (one.sequence_number for deletes in base.plan.equality.values() for one in deletes),
    )
    highest = max(numbers, default=0)
    last = members.integer("last-sequence-number", least=0)
    if not highest <= last < _TOP:
        members.fail("last-sequence-number", f"{highest}, the highest in use, to {_TOP - 1}", str(last))
