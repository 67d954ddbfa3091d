"""The name of the operation that made a version."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from dvcodec import LimitExceeded, Limits, NotCanonical, Truncated, lance
from samples.lance import message


def transaction(**values: Any) -> bytes:
    data: bytes = message("Transaction", read_version=4, uuid="u", **values).SerializeToString()
    return data


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
