"""Manifest lists: generations of their fields, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables.iceberg.manifests import DATA, DELETES, Manifest, read_list
from samples.iceberg_table import list_schema, moved, write_avro

LISTED = {
    "manifest_path": "s3://t/m.avro",
    "manifest_length": 7,
    "partition_spec_id": 2,
    "content": 1,
    "sequence_number": 4,
    "min_sequence_number": 1,
    "added_snapshot_id": 6,
    **{f"{word}_{what}_count": 0 for word in ("added", "existing", "deleted") for what in ("files", "rows")},
}


def listed(folder: Path, version: int, *records: dict[str, Any]) -> list[Manifest]:
    write_avro(folder / "l.avro", list_schema(version), records, "null")
    return read_list(str(folder / "l.avro"), moved, Storage())


def test_manifest_lists(tmp_path: Path) -> None:
    wanted = Manifest("s3://t/m.avro", "/here/m.avro", 2, DELETES, 4, 6, encrypted=False)
    assert listed(tmp_path, 2, LISTED) == [wanted]
    assert listed(tmp_path, 1, LISTED) == [replace(wanted, content=DATA, sequence_number=0)]
    assert listed(tmp_path, 2, LISTED | {"key_metadata": b""}) == [replace(wanted, encrypted=True)]
    assert listed(tmp_path, 2) == []


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"content": 2}, Unsupported, r"content of manifest 0: expected 0 \(data\), 1 \(deletes\), found 2"),
        ({"manifest_path": ""}, NotCanonical, "manifest_path of manifest 0: expected a path"),
        ({"manifest_path": "\0"}, NotCanonical, "manifest_path of manifest 0: expected a path"),
    ],
)
def test_wrong_lists(tmp_path: Path, change: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=rf"l.avro at byte 0: {match}"):
        listed(tmp_path, 2, LISTED | change)


def test_a_spec_id_that_is_null(tmp_path: Path) -> None:
    schema = list_schema(2)
    schema["fields"][2]["type"] = ["null", "int"]
    write_avro(tmp_path / "l.avro", schema, [LISTED | {"partition_spec_id": None}], "null")
    with pytest.raises(NotCanonical, match="partition_spec_id of manifest 0: expected a number, found nothing"):
        read_list(str(tmp_path / "l.avro"), moved, Storage())
