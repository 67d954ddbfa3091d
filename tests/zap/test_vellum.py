"""Dictionaries: the bytes of Go's builder; keys, ranges, prefixes; and everything that can be wrong with one."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import amounts
from battery import outcome
from cases import each
from dvcodec.core.errors import CardinalityMismatch, DecodeError, NotCanonical, UsageError
from dvcodec.zap import vellum
from dvcodec.zap.vellum import Fst, build
from samples.zap.vellum import TOP, blob, built, dictionaries, follow, keys_of, many, one, opened

WORDS = {b"k1": 47, b"k10": 72, b"k2": 97, b"the": TOP, b"there": 2**63, b"\xff": 5, b"\xff\xff": 6, b"": 9}
T = TypeVar("T")
Items = list[tuple[bytes, int]]
Read = Callable[[Fst], object]


def by_block(fst: Fst) -> Items:
    block = fst.to_block()
    return list(zip(block.keys.to_list(), block.values.tolist(), strict=True))


def by_key(fst: Fst) -> Items:
    return list(fst.range())


def between(fst: Fst, start: bytes, stop: bytes) -> Items:
    return list(fst.range(start, stop))


def what_of(read: Callable[[Fst], T], data: bytes) -> T | DecodeError:
    return outcome(lambda given: read(opened(given)), data)


# ---------------------------------------------------------------------- written


FORGOTTEN = {b"%04d-%d-tail" % (i, j): i * j % 7 for i in range(6000) for j in range(5)}
"""Many states that are equal but for their outputs, so that the registry forgets some."""
SETS = {
    "numbers": ({b"%d" % i: i * i for i in range(15_000)}, 0xA582AD8B),
    "falling values": ({b"%d" % (i * i): TOP - i for i in range(15_000)}, 0x806677D4),
    "forgotten states": (FORGOTTEN, 0x5A7D936C),
    "shared suffixes": ({b"%x" % (i * 7919 % 65_521): len(b"%x" % i) for i in range(15_000)}, 0xC8BC5DF9),
    "states of any width": ({bytes([i % 256]) * (1 + i // 256): 2 ** (i % 64) for i in range(1024)}, 0xC5F18AFA),
    "extremes": ({b"": TOP, b"a": TOP, b"ab": 2**63, b"abc": 1, b"b": 2**63 + 1, b"b\0": 0}, 0xC65B39DA),
}
"""Keys with values, and the CRC-32 of what Go's algorithm makes of them; see also tests/interop/test_go_vellum.py."""


@each("name", SETS)
def test_the_bytes_are_those_of_go(name: str) -> None:
    items, crc = SETS[name]
    data = built(items)
    assert zlib.crc32(data) == crc
    assert dict(opened(data).range()) == items


@each(
    "keys",
    [[b"b", b"a"], [b"", b""], [b"ab", b"a"], [b"\x80", b"\x7f"], [b"1", b"2", b"3", b"2", b"4"]],
)
def test_keys_that_do_not_ascend(keys: Sequence[bytes]) -> None:
    i = next(i for i in range(len(keys) - 1) if keys[i] >= keys[i + 1])
    with pytest.raises(UsageError) as caught:
        build(keys, np.zeros(len(keys), np.uint64))
    assert str(caught.value) == f"keys must be strictly ascending, but {keys[i + 1]!r} comes after {keys[i]!r}"


# ---------------------------------------------------------------------- read


@given(dictionaries, st.data())
def test_all_ways_to_read_agree(items: dict[bytes, int], data: st.DataObject) -> None:
    fst, pairs = opened(built(items)), sorted(items.items())
    assert fst.num_keys == len(items)
    assert by_key(fst) == by_block(fst) == pairs
    bound = st.one_of(list(keys_of.values()))
    start, stop = data.draw(bound), data.draw(st.none() | bound)
    assert list(fst.range(start, stop)) == [(k, v) for k, v in pairs if start <= k and (stop is None or k < stop)]
    for stem in (start, start[:1], start + b"\xff"):
        assert list(fst.prefix(stem)) == [(k, v) for k, v in pairs if k.startswith(stem)]
    for key in (start, *items, *(key[:-1] for key in items), *(key + b"a" for key in items)):
        assert fst.get(key) == items.get(key)


def test_no_key_and_the_empty_key() -> None:
    empty = opened(blob(bytes(3), 0))
    assert (empty.get(b""), empty.get(b"a"), list(empty.range()), by_block(empty)) == (None, None, [], [])
    assert list(empty.blocks()) == []
    for data, value in ((blob(b"", 1, 0), 0), (blob(many(final=5, sizes=(0, 1)), 1), 5)):
        fst = opened(data)
        assert (fst.get(b""), fst.get(b"a"), by_block(fst)) == (value, None, [(b"", value)])
        assert list(fst.range(b"", b"")) == list(fst.range(b"\0")) == []
    written_out = opened(blob(many(final=0, sizes=(0, 0)) + one(97, 1), 1))
    assert by_block(written_out) == [(b"a", 0)]


def test_values_wrap() -> None:
    data = blob(many([(97, 0, TOP)], final=TOP, sizes=(1, 8)) + one(98, 1, TOP, sizes=(1, 8)), 2)
    fst = opened(data)
    assert list(fst.range()) == by_block(fst) == [(b"b", TOP - 1), (b"ba", TOP - 1)]
    assert fst.get(b"b") == fst.get(b"ba") == TOP - 1


# ---------------------------------------------------------------------- wrong ones


WRONG_STATES = {
    "input bytes that descend": (many([(98, 0, 0), (97, 0, 0)]), 2, "input bytes of a state"),
    "an input byte twice": (many([(97, 0, 0), (97, 0, 0)]), 2, "input bytes of a state"),
    "input bytes that descend behind others": (
        many([(98, 0, 0), (97, 0, 0)]) + many([(1, 1, 0), (2, 0, 0)]),
        3,
        "input bytes of a state",
    ),
    "a target in front of all states": (
        many([(97, 0, 0), (98, 5, 0)]),
        2,
        "target of a state: expected 0 or an address",
    ),
    "a far target": (one(97, 2**40, sizes=(6, 0)), 1, "target of a state: expected 0 or an address"),
    "a next state where none is": (follow(116), 1, "target of a state: expected 0 or an address"),
    "a state that leads nowhere": (many() + follow(97), 1, "number of transitions of a state: .*, found 0"),
    "wide numbers": (one(97, 0, sizes=(9, 0)), 1, "pack sizes of a state: .*, found 9 and 0"),
}


@each("name", WRONG_STATES)
@each("few", [0, 256])
def test_hazard_wrong_states(name: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for all readers."""
    monkeypatch.setattr(vellum, "_FEW", few)
    states, count, what = WRONG_STATES[name]
    errors = [what_of(read, blob(states, count)) for read in (by_block, by_key)]
    assert all(isinstance(error, NotCanonical) for error in errors)
    assert re.search(what, str(errors[0]))
    assert str(errors[0]) == str(errors[1])


@pytest.mark.parametrize("read", [by_block, by_key])
@pytest.mark.parametrize("few", [0, 256])
def test_another_number_of_keys(read: Read, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vellum, "_FEW", few)
    data = built(WORDS)
    for count in (1, 7, 9, 60):
        fst = opened(data[:-16] + struct.pack("<Q", count) + data[-8:])
        found = 8 if count > 8 else "more"
        with pytest.raises(CardinalityMismatch, match=f"number of keys: expected {count}, found {found}") as caught:
            read(fst)
        assert caught.value.offset == 1000 + len(data) - 16


@pytest.mark.parametrize("count", [250, 300])
def test_ends_that_keys_share(count: int) -> None:
    """A chain of 30,000 states that every key leads into."""
    base = one(116, 0) + follow(116) * 30_000
    edges = [(i, len(base) - 3 - 100 * i, i) for i in range(200)]
    states = base + many(edges, sizes=(4, 1)) + many([(0, 1, 0), *((i, 0, 0) for i in range(1, count - 199))])
    keys = {bytes([0, i]) + b"t" * (1 + 100 * i): i for i in range(200)}
    keys |= {bytes([i]): 0 for i in range(1, count - 199)}
    assert by_block(opened(blob(states, count))) == by_key(opened(blob(states, count))) == sorted(keys.items())


@each("seed", range(10))
def test_flipped_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value or a `DecodeError`; all ways to read agree if the value is valid."""
    rng = random.Random(seed)
    monkeypatch.setattr(vellum, "_ROOM", 300)
    letters = [b"ab", b"the cat", bytes(range(256))][seed % 3]
    items = {bytes(rng.choices(letters, k=rng.randint(0, 6))): rng.getrandbits(20) for _ in range(1 + seed * 4)}
    data = built(items)
    valid = 0
    for _ in range(amounts.of(100, 300)):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 1, 2, 8])):
            bit = rng.randrange(8 * len(data))
            damaged[bit >> 3] ^= 1 << (bit & 7)
        found = []
        for few in (0, 256):
            monkeypatch.setattr(vellum, "_FEW", few)
            found.append(what_of(by_block, bytes(damaged)))
        found.append(what_of(by_key, bytes(damaged)))
        if any(isinstance(one_of, DecodeError) for one_of in found):
            assert all(isinstance(one_of, DecodeError) for one_of in found)
        else:
            assert found[0] == found[1] == found[2]
            valid += 1
        for key in (rng.choice(sorted(items)), b"", b"zz"):
            what_of(partial(Fst.get, key=key), bytes(damaged))
            what_of(partial(between, start=key, stop=key + b"z"), bytes(damaged))
    assert valid > 0
