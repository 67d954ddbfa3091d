"""Whole dictionaries: keys, ranges, prefixes; and everything that can be wrong with one."""

from __future__ import annotations

import dataclasses
import random
import re
import struct
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amounts
from battery import outcome
from cases import each
from dvcodec.core.errors import (
    CardinalityMismatch,
    DecodeError,
    NotCanonical,
)
from dvcodec.zap import vellum
from dvcodec.zap.vellum import Fst
from samples.zap.vellum import TOP, blob, dictionaries, follow, keys_of, many, naive_build, one, opened

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


# ---------------------------------------------------------------------- valid ones


@given(dictionaries)
def test_all_ways_to_read_agree(items: dict[bytes, int]) -> None:
    fst = opened(naive_build(items))
    assert fst.num_keys == len(items)
    assert list(fst.range()) == by_block(fst) == sorted(items.items())
    assert {key: fst.get(key) for key in items} == items


@given(dictionaries, st.lists(st.one_of(list(keys_of.values()))))
def test_get(items: dict[bytes, int], keys: list[bytes]) -> None:
    fst = opened(naive_build(items))
    for key in (*keys, *(key[:-1] for key in items), *(key + b"a" for key in items)):
        assert fst.get(key) == items.get(key)


@given(dictionaries, st.data())
def test_range(items: dict[bytes, int], data: st.DataObject) -> None:
    fst = opened(naive_build(items))
    bound = st.one_of(list(keys_of.values()))
    start, stop = data.draw(bound), data.draw(st.none() | bound)
    found = list(fst.range(start, stop))
    assert found == [(k, v) for k, v in sorted(items.items()) if start <= k and (stop is None or k < stop)]


@given(dictionaries, st.one_of(list(keys_of.values())))
def test_prefix(items: dict[bytes, int], prefix: bytes) -> None:
    fst = opened(naive_build(items))
    for stem in (prefix, prefix[:1], prefix + b"\xff"):
        assert list(fst.prefix(stem)) == [(k, v) for k, v in sorted(items.items()) if k.startswith(stem)]


def test_the_worked_example() -> None:
    fst = opened(blob(bytes.fromhex("001900301141 320000013231 1102 2f0111a7"), 3, 33))
    assert by_block(fst) == [(b"k1", 0x2F), (b"k10", 0x48), (b"k2", 0x61)]
    assert (fst.num_keys, fst.root) == (3, 33)
    assert repr(fst) == "Fst(num_keys=3, root=33)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        fst.num_keys = 4  # type: ignore[misc]  # that is the point


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
    data = naive_build(WORDS)
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


@pytest.mark.parametrize("few", [0, 256])
def test_truncations(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vellum, "_FEW", few)
    data = naive_build(WORDS | {b"%d" % i: i for i in range(40)})
    whole = by_block(opened(data))
    for size in range(len(data)):
        assert what_of(by_block, data[:size]) != whole  # zeros among the states can look like a footer
    for size in range(1, len(data) - 32):
        what_of(by_block, data[:16] + data[16 + size :])


@each("seed", range(10))
def test_flipped_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value or a `DecodeError`; all ways to read agree if the value is valid."""
    rng = random.Random(seed)
    monkeypatch.setattr(vellum, "_ROOM", 300)
    letters = [b"ab", b"the cat", bytes(range(256))][seed % 3]
    items = {bytes(rng.choices(letters, k=rng.randint(0, 6))): rng.getrandbits(20) for _ in range(1 + seed * 4)}
    data = naive_build(items)
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
