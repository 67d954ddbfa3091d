"""Vectors read by the byte range that a manifest records: valid ones, wrong records, damage, foreign files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec import RowSet, iceberg
from dvcodec.core.errors import (
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    NotCanonical,
    Truncated,
    Unsupported,
)
from dvcodec.tables.iceberg import open as open_iceberg
from samples.iceberg_table import VECTOR, altered, build_iceberg


@each(
    ("change", "error", "match"),
    [
        ({"record_count": 3}, CardinalityMismatch, "cardinality: expected 3"),
        ({"content_offset": 5}, DecodeError, "vectors-1-0.puffin at byte"),
        ({"content_offset": -1}, Truncated, "byte range"),
        ({"content_offset": 2**62}, Truncated, "byte range"),
        ({"content_size_in_bytes": 2**62}, Truncated, "byte range"),
        ({"content_size_in_bytes": -4}, Truncated, "byte range"),
        ({"content_size_in_bytes": None}, NotCanonical, "found no content_size_in_bytes"),
        ({"content_offset": None}, NotCanonical, "found no content_offset"),
        ({"referenced_data_file": None}, NotCanonical, "found no referenced_data_file"),
        ({"key_metadata": b"key"}, Unsupported, "expected no encryption"),
        ({"sequence_number": 0}, NotCanonical, "at least 1, that of the data file, found 0"),
    ],
)
def test_a_wrong_record_of_a_vector(
    tmp_path: Path, change: dict[str, Any], error: type[DecodeError], match: str
) -> None:
    table = open_iceberg(build_iceberg(tmp_path, VECTOR, tweak_entry=altered(change, content=1)).folder)
    snapshot = table.snapshot()
    (vector,) = snapshot.vectors
    with pytest.raises(error, match=match):
        snapshot.read(vector)


def test_a_damaged_vector_is_named(tmp_path: Path) -> None:
    made = build_iceberg(tmp_path, VECTOR)
    table = open_iceberg(made.folder)
    (vector,) = table.snapshot().vectors
    data = bytearray(Path(vector.location).read_bytes())
    assert vector.offset is not None
    data[vector.offset + 30] ^= 1
    Path(vector.location).write_bytes(data)
    with pytest.raises(ChecksumMismatch, match=r"vectors-1-0.puffin at byte \d+: CRC-32"):
        table.snapshot().read(vector)


def test_a_vector_in_a_file_that_is_not_puffin(tmp_path: Path) -> None:
    """Bare blobs, and files of Delta, stand under the format name of Puffin."""
    rows = RowSet([1, 2, 17])
    blob = iceberg.encode(rows)
    for name, head in (("bare", b""), ("delta", b"\x01")):
        change = {"content_offset": len(head), "content_size_in_bytes": len(blob), "record_count": 3}
        change["file_size_in_bytes"] = len(head + blob)
        made = build_iceberg(tmp_path / name, VECTOR, tweak_entry=altered(change, content=1))
        table = open_iceberg(made.folder)
        snapshot = table.snapshot()
        (vector,) = snapshot.vectors
        Path(vector.location).write_bytes(head + blob)
        (found,) = snapshot.read(vector)
        assert found.rows == rows
        assert list(snapshot.check_container(vector.location, [vector])) == []
