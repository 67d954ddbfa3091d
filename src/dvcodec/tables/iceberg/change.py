"""What a commit changes in a table's metadata, and the metadata JSON with it.

Specification: Iceberg table spec, "Table Metadata Fields", "Snapshots"; bounds and order of the logs are those of
Iceberg Java's ``TableMetadata.Builder``. All other members are kept, including unknown ones.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dvcodec.core.errors import NotCanonical
from dvcodec.core.json_text import encode_json
from dvcodec.tables.iceberg.metadata import MAIN
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import NO_SNAPSHOT

_PREVIOUS_MAX = "write.metadata.previous-versions-max"
_DELETE_AFTER = "write.metadata.delete-after-commit.enabled"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Change:
    """A commit.

    Attributes:
        timestamp_ms: of the commit.
        snapshot: the new snapshot, as the metadata has it; None = no new snapshot.
        upgrade: the new format version; None = unchanged.
        branch: whose snapshot it is.
    """

    timestamp_ms: int
    snapshot: Mapping[str, Any] | None = None
    upgrade: int | None = None
    branch: str = MAIN

    @property
    def snapshot_id(self) -> int:
        """Id of the new snapshot, or `NO_SNAPSHOT`."""
        return NO_SNAPSHOT if self.snapshot is None else int(self.snapshot["snapshot-id"])


def properties_of(members: JsonFields) -> dict[str, str]:
    """Return the table's properties.

    Raises:
        NotCanonical: one is not text.
    """
    found = members.object_if_any("properties")
    return {name: found.text(name) for name in found.values}


def number_of(text: str | None, default: int) -> int:
    """Return the number that a property has as text; the default if it is missing, not a number, or a huge one.

    >>> number_of("-3", 100), number_of("few", 100), number_of("9" * 5000, 100)
    (-3, 100, 100)
    """
    return int(text) if text is not None and _INTEGER.fullmatch(text) else default


def changed(members: JsonFields, change: Change, source: str) -> dict[str, Any]:
    """Return the new metadata.

    Args:
        members: the metadata of the base snapshot.
        change: the commit.
        source: path of that metadata file, to be recorded in the log of the new one.

    Raises:
        NotCanonical: a member has another type.
    """
    new = dict(members.values)
    if change.upgrade is not None:
        new["format-version"] = change.upgrade
        new["next-row-id"] = members.integer("next-row-id", least=0) if "next-row-id" in members else 0
    snapshot = change.snapshot
    if snapshot is not None:
        number = snapshot["snapshot-id"]
        entry = {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": number}
        refs = members.object_if_any("refs")
        branch = refs.object_if_any(change.branch).values
        new["snapshots"] = [*_array(members, "snapshots"), dict(snapshot)]
        new["refs"] = {**refs.values, change.branch: {"type": "branch", **branch, "snapshot-id": number}}
        if change.branch == MAIN:
            new["snapshot-log"] = [*_array(members, "snapshot-log"), entry]
            new["current-snapshot-id"] = number
        new["last-sequence-number"] = snapshot["sequence-number"]
        if "first-row-id" in snapshot:  # from version 3 on
            new["next-row-id"] = _next_row_id(members, snapshot)
    log = _array(members, "metadata-log")
    most = max(1, number_of(properties_of(members).get(_PREVIOUS_MAX), 100))
    kept = log[len(log) - most + 1 :] if len(log) >= most else log
    new["metadata-log"] = [*kept, {"timestamp-ms": members.integer("last-updated-ms"), "metadata-file": source}]
    new["last-updated-ms"] = change.timestamp_ms
    return new


def forgotten(members: JsonFields, new: Mapping[str, Any]) -> list[str]:
    """Return the paths of metadata files to remove after the commit, by the table's properties."""
    if properties_of(members).get(_DELETE_AFTER, "").lower() != "true":
        return []
    kept = {entry["metadata-file"] for entry in new["metadata-log"]}
    before = (entry.path("metadata-file") for entry in members.objects_if_any("metadata-log"))
    return [path for path in before if path not in kept]


def metadata_bytes(new: Mapping[str, Any], name: str, base: str) -> bytes:
    """Return the content of a metadata file.

    Args:
        new: the metadata.
        name: of the file; it says whether it is compressed.
        base: the metadata file before, for errors.

    Raises:
        NotCanonical: JSON cannot represent the metadata, see `encode_json`.
    """
    data = encode_json(new, base, "table metadata")
    return gzip.compress(data) if name.endswith((".gz.metadata.json", ".gz")) else data


def _next_row_id(members: JsonFields, snapshot: Mapping[str, Any]) -> int:
    number = int(snapshot["first-row-id"]) + int(snapshot["added-rows"])
    if number >= 1 << 63:
        raise NotCanonical("next-row-id", source=members.source, expected="a 64-bit number", actual=number)
    return number


def _array(members: JsonFields, name: str) -> list[Any]:
    return members.array(name) if name in members else []
