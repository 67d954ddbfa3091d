"""Manifest lists: the manifests of a snapshot.

Specification: Iceberg table spec, "Snapshots" (manifest lists), of versions 1 to 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import Unsupported
from dvcodec.io import Storage
from dvcodec.io.target import place_keys
from dvcodec.tables.iceberg.manifest_schemas import DATA, DELETES, LIST_COLUMNS, chosen
from dvcodec.tables.metadata.avro_fields import fail, open_avro, select
from dvcodec.tables.metadata.json_fields import is_path

_COLUMNS = (
    *chosen(LIST_COLUMNS, "manifest_path", "partition_spec_id", "content"),
    *chosen(LIST_COLUMNS, "sequence_number", "added_snapshot_id", "key_metadata"),
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest, as a manifest list records it.

    Attributes:
        path: as recorded.
        location: where it can be opened.
        spec_id: partition spec of its files.
        content: `DATA` or `DELETES`.
        sequence_number: inherited by its added entries; 0 in version 1.
        snapshot_id: inherited by its entries; None if the list does not record it.
        encrypted: whether a key is needed.
    """

    path: str
    location: str
    spec_id: int
    content: int
    sequence_number: int
    snapshot_id: int | None
    encrypted: bool


def read_list(location: str, locate: Callable[[str], str], storage: Storage) -> list[Manifest]:
    """Read a manifest list.

    Args:
        location: where it can be opened.
        locate: returns where a recorded path can be opened.
        storage: opens it.

    Raises:
        DecodeError: the file is corrupt, or names a manifest twice.
        OSError: it cannot be read.
    """
    manifests: dict[str, Manifest] = {}
    with open_avro(location, storage) as (file, cursor):
        names = {name: field.name for name, field in select(file.schema, _COLUMNS, "manifest list", cursor).items()}
        for i, record in enumerate(file.records()):
            manifest = _manifest(record, names, f"manifest {i}", locate, cursor)
            if manifest.path in manifests:
                fail(cursor, f"manifest_path of manifest {i}", "each manifest once", f"{manifest.path} twice")
            manifests[manifest.path] = manifest
        found = list(manifests.values())
        keys = place_keys([manifest.location for manifest in found])
        if len(set(keys)) < len(keys):
            twice = next(path for path, count in Counter(keys).items() if count > 1)
            fail(cursor, "manifest_path", "each manifest once", f"{twice} in several spellings")
    return found


def _manifest(
    record: Mapping[Any, Any], names: Mapping[str, str], where: str, locate: Callable[[str], str], cursor: Cursor
) -> Manifest:
    found = {name: record[spelled] for name, spelled in names.items()}
    path = found["manifest_path"]
    if path is None or not is_path(path):
        fail(cursor, f"manifest_path of {where}", "a path", repr(path)[:80])
    if found["partition_spec_id"] is None:
        fail(cursor, f"partition_spec_id of {where}", "a number", "nothing")
    content = found.get("content") or DATA
    if content not in (DATA, DELETES):
        raise cursor.error(Unsupported, f"content of {where}", at=0, expected="0 (data), 1 (deletes)", actual=content)
    return Manifest(
        path,
        locate(path),
        found["partition_spec_id"],
        content,
        found.get("sequence_number") or 0,
        found.get("added_snapshot_id"),
        found.get("key_metadata") is not None,
    )
