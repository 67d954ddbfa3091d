"""Checks that every decoder has to pass: a new format gets them in a few lines.

The invariant: any bytes whatever end in a value or a `DecodeError`, never in another exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from dvcodec import DecodeError

T = TypeVar("T")
Decode = Callable[[bytes], T]


def outcome(decode: Decode[T], data: bytes) -> T | DecodeError:
    """Decode; a `DecodeError` is an outcome too. Any other exception breaks the invariant and escapes."""
    try:
        return decode(data)
    except DecodeError as error:
        assert str(error), "an error says what is wrong"
        return error


def check_truncations(decode: Decode[T], data: bytes, *, allowed: Callable[[T, int], bool] | None = None) -> None:
    """Every proper prefix is refused, unless `allowed` says that the value is right for that length."""
    for size in range(len(data)):
        found = outcome(decode, data[:size])
        if not isinstance(found, DecodeError):
            assert allowed is not None, f"{size} of {len(data)} bytes were accepted"
            assert allowed(found, size), f"{size} of {len(data)} bytes were accepted"


def check_bit_flips(decode: Decode[T], data: bytes, *, harmless: bool = False) -> int:
    """Flip every single bit. With `harmless` a flip may give the same value; it never gives another one.

    Returns:
        How many flips were refused.
    """
    value = decode(data)
    refused = 0
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        found = outcome(decode, bytes(damaged))
        if isinstance(found, DecodeError):
            refused += 1
        else:
            assert harmless, f"bit {bit & 7} of byte {bit >> 3} flipped and nobody noticed"
            assert found == value, f"bit {bit & 7} of byte {bit >> 3} flipped gives another value"
    return refused


def check_trailing(decode: Decode[T], data: bytes) -> None:
    """Bytes after the end are refused."""
    for extra in (b"\x00", b"\xff", bytes(1000), data):
        assert isinstance(outcome(decode, data + extra), DecodeError), f"{len(extra)} bytes more were accepted"


def check_buffers(decode: Callable[..., T], data: bytes) -> None:
    """Every kind of buffer gives the same value."""
    value = decode(data)
    assert decode(bytearray(data)) == value
    assert decode(memoryview(data)) == value
    assert decode(np.frombuffer(data, np.uint8)) == value


def check_all(decode: Callable[..., T], data: bytes) -> None:
    """The whole battery for a self-contained format with a checksum."""
    check_truncations(decode, data)
    assert check_bit_flips(decode, data) == 8 * len(data)
    check_trailing(decode, data)
    check_buffers(decode, data)


def name_of(value: object) -> str:
    """A short name of a parameter that is the same in every process: no addresses of objects."""
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(value).split()))[:60]
