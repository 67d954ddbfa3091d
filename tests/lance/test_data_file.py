"""Row counts from the footers of Lance data files: any bytes end in a number, None or a DecodeError."""

from __future__ import annotations

import pytest

from dvcodec.core.errors import BadMagic, LimitExceeded, NotCanonical, Truncated
from dvcodec.core.limits import Limits
from dvcodec.lance.manifest import read_row_count


def footer(table: int, buffers: int = 1, version: tuple[int, int] = (2, 2)) -> bytes:
    numbers = b"".join(number.to_bytes(8, "little") for number in (0, 0, table))
    counts = buffers.to_bytes(4, "little") + (1).to_bytes(4, "little")
    return numbers + counts + b"".join(part.to_bytes(2, "little") for part in version) + b"LANC"


def made(descriptor: bytes, buffers: int = 1) -> bytes:
    entry = (0).to_bytes(8, "little") + len(descriptor).to_bytes(8, "little")
    return descriptor + entry + footer(len(descriptor), buffers)


def test_rows() -> None:
    assert read_row_count(made(b"\x0a\x00\x10\xac\x02")) == 300
    assert read_row_count(made(b"")) == 0  # protobuf leaves a zero out
    assert read_row_count(made(b"", buffers=2)) == 0


@pytest.mark.parametrize("version", [(0, 1), (0, 2), (3, 0)])
def test_other_formats(version: tuple[int, int]) -> None:
    assert read_row_count(footer(0, version=version)) is None


def test_damage() -> None:
    good = made(b"\x10\x64")
    with pytest.raises(BadMagic, match="magic"):
        read_row_count(good[:-1] + b"X")
    with pytest.raises(NotCanonical, match="number of global buffers: expected 1 or more, found 0"):
        read_row_count(made(b"\x10\x64", buffers=0))
    with pytest.raises(Truncated):
        read_row_count(footer(10**9))
    with pytest.raises(Truncated):
        read_row_count(good[-20:])
    with pytest.raises(NotCanonical, match="rows of the file"):
        read_row_count(made(b"\x12\x00"))
    with pytest.raises(LimitExceeded, match="max_metadata_bytes"):
        read_row_count(good, limits=Limits(max_metadata_bytes=1))
