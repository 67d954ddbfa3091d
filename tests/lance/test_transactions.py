"""The name of the operation that made a version."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from battery import check_buffers
from cases import each
from dvcodec import LimitExceeded, Limits, NotCanonical, Truncated, lance
from samples.lance import message


def transaction(**values: Any) -> bytes:
    data: bytes = message("Transaction", read_version=4, uuid="u", **values).SerializeToString()
    return data


@each(
    ("values", "name"),
    [
        ({"append": message("Marker")}, "Append"),
        ({"delete": message("Marker")}, "Delete"),
        ({"update": message("Marker")}, "Update"),
        ({"fri": message("Marker")}, "AppendFragmentReuseTransitions"),
        ({"later": message("Marker")}, None),
        ({}, None),
    ],
)
def test_operations(values: dict[str, Any], name: str | None) -> None:
    data = transaction(**values)
    assert lance.read_operation(data) == name
    assert lance.read_operation(b"abc" + struct.pack("<I", len(data)) + data + b"\xff", 3) == name
    check_buffers(lance.read_operation, data)


def test_what_is_refused() -> None:
    data = transaction(delete=message("Marker"))
    with pytest.raises(NotCanonical, match="operation"):
        lance.read_operation(b"\xa0\x06\x01")
    with pytest.raises(Truncated):
        lance.read_operation(data[:-1])
    with pytest.raises(Truncated):
        lance.read_operation(struct.pack("<I", len(data) + 1) + data, 0)
    with pytest.raises(Truncated):
        lance.read_operation(data, 2**40)
    with pytest.raises(LimitExceeded, match="max_metadata_bytes"):
        lance.read_operation(data, limits=Limits(max_metadata_bytes=3))
