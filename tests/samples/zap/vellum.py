"""Dictionaries of vellum: put together from states by hand, or what dvcodec writes of drawn keys."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from dvcodec.core.cursor import Cursor
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.zap.vellum import Fst, build

TOP = 2**64 - 1
CODES = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
VALUES = (0, 1, 255, 256, 2**31, 2**62 - 1, 2**63, 2**63 + 1, TOP - 1, TOP)


def opened(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Fst:
    return Fst.open(Cursor(data, source="x.zap", base=1000), limits)


# ---------------------------------------------------------------------- blobs


def little(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def many(
    edges: Sequence[tuple[int, int, int]] = (),
    *,
    final: int | None = None,
    sizes: tuple[int, int] = (1, 1),
    count: int | None = None,
) -> bytes:
    """A state of any number of transitions: (input byte, delta, output), ascending. `final`: the final output."""
    size, output_size = sizes
    out = little(final, output_size) if final is not None and output_size else b""
    out += b"".join(little(output, output_size) for _, _, output in reversed(edges))
    out += b"".join(little(delta, size) for _, delta, _ in reversed(edges))
    out += bytes(key for key, _, _ in reversed(edges))
    out += bytes((size << 4 | output_size,))
    n = len(edges) if count is None else count
    flag = 64 if final is not None else 0
    return out + (bytes((flag | n,)) if 0 < n < 64 else bytes((1 if n == 256 else n, flag)))


def one(key: int, delta: int, output: int = 0, *, sizes: tuple[int, int] = (1, 1)) -> bytes:
    size, output_size = sizes
    code = CODES.find(key) + 1
    raw = b"" if code else bytes((key,))
    return (
        little(output, output_size)
        + little(delta, size)
        + bytes((size << 4 | output_size,))
        + raw
        + bytes((128 | code,))
    )


def follow(key: int) -> bytes:
    """The "next" form: to the state just below."""
    code = CODES.find(key) + 1
    return bytes((192 | code,)) if code else bytes((key, 192))


def blob(states: bytes, count: int, root: int | None = None, *, version: int = 1, kind: int = 0) -> bytes:
    """Header, states and footer. The root is the last state unless it is given."""
    at = 15 + len(states) if root is None else root
    return struct.pack("<QQ", version, kind) + states + struct.pack("<QQ", count, at)


def doubling(levels: int, key: bytes = b"ab", count: int | None = None) -> bytes:
    """Each state leads to the one below over several bytes: len(key) ** levels keys."""
    first = many([(byte, 0, i) for i, byte in enumerate(key)])
    rest = many([(byte, 1, i) for i, byte in enumerate(key)])
    return blob(first + rest * (levels - 1), len(key) ** levels if count is None else count)


def built(items: Mapping[bytes, int]) -> bytes:
    """The dictionary that dvcodec writes."""
    keys = sorted(items)
    return build(keys, np.array([items[key] for key in keys], np.uint64))


# ---------------------------------------------------------------------- what to build

keys_of = {
    "few bytes": st.lists(st.sampled_from(b"ab"), max_size=8).map(bytes),
    "any bytes": st.binary(max_size=6),
    "words": st.lists(st.sampled_from([b"th", b"e", b"ing", b"\xff", b"\0", b"G"]), max_size=4).map(b"".join),
    "long": st.binary(max_size=3).map(lambda tail: b"x" * 300 + tail),
}
values = st.one_of(st.sampled_from(VALUES), st.integers(0, TOP), st.integers(0, 300))
dictionaries = st.one_of([st.dictionaries(keys, values, max_size=40) for keys in keys_of.values()])
