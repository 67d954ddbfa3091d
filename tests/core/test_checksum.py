from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest

from dvcodec.core import checksum
from samples.bitmaps import crc_oracle

Crc = Callable[..., int]


def without_isal(monkeypatch: pytest.MonkeyPatch) -> Crc:
    monkeypatch.setitem(sys.modules, "isal", None)
    return checksum._fastest()


def with_isal(monkeypatch: pytest.MonkeyPatch) -> Crc:
    pytest.importorskip("isal")
    return checksum._fastest()


@pytest.fixture(params=[without_isal, with_isal])
def crc32(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Crc:
    found: Crc = request.param(monkeypatch)
    return found


def test_every_size_agrees_with_crcmod(crc32: Crc) -> None:
    for size in [0, 1, 3, 4, 7, 8, 15, 16, 31, 63, 64, 65, 255, 256, 1023, 4097, 100_003]:
        data = random.Random(size).randbytes(size)
        assert crc32(data) == crc_oracle(data)
        assert crc32(memoryview(data)) == crc_oracle(data)
