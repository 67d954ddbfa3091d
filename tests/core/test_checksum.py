from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.core import checksum
from samples.bitmaps import crc_oracle

Crc = Callable[..., int]

CHECK_VALUE = 0xCBF43926
"""CRC-32 of ``123456789``: the check value of every catalogue of CRCs."""


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


def test_zlib_serves_where_isal_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert without_isal(monkeypatch) is zlib.crc32


def test_isal_serves_where_it_is_installed() -> None:
    isal_zlib = pytest.importorskip("isal.isal_zlib")
    assert checksum.crc32 is isal_zlib.crc32


@pytest.mark.parametrize(("data", "crc"), [(b"", 0), (b"123456789", CHECK_VALUE), (b"\x00", 0xD202EF8D)])
def test_known_values(crc32: Crc, data: bytes, crc: int) -> None:
    assert crc32(data) == crc
    assert crc_oracle(data) == crc


def test_every_size_agrees_with_crcmod(crc32: Crc) -> None:
    for size in [0, 1, 3, 4, 7, 8, 15, 16, 31, 63, 64, 65, 255, 256, 1023, 4097, 100_003]:
        data = random.Random(size).randbytes(size)
        assert crc32(data) == crc_oracle(data)
        assert crc32(memoryview(data)) == crc_oracle(data)


def test_views_at_odd_addresses_agree_with_crcmod(crc32: Crc) -> None:
    for start in range(9):
        data = random.Random(1).randbytes(1000)
        assert crc32(memoryview(data)[start:]) == crc_oracle(data[start:])


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_chained_values_agree_with_crcmod(first: bytes, second: bytes) -> None:
    whole = crc_oracle(first + second)
    assert crc_oracle(second, crc_oracle(first)) == whole
    assert checksum.crc32(second, checksum.crc32(first)) == whole
    assert zlib.crc32(second, zlib.crc32(first)) == whole


@pytest.mark.parametrize(("value", "text"), [(0, "0x00000000"), (0x1A2B3C, "0x001a2b3c"), (0xFFFFFFFF, "0xffffffff")])
def test_a_crc_is_spelled_with_eight_digits(value: int, text: str) -> None:
    assert checksum.crc_hex(value) == text
