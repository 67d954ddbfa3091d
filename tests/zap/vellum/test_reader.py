"""Whole dictionaries: keys, ranges, prefixes; and everything that can be wrong with one."""

from __future__ import annotations

import dataclasses
import mmap
import random
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import amounts
from battery import outcome
from cases import each
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import (
    CardinalityMismatch,
    DecodeError,
    LimitExceeded,
    NotCanonical,
    Truncated,
    Unsupported,
)
from dvcodec.core.limits import Limits
from dvcodec.zap.vellum import Fst, reader
from samples.zap.vellum import TOP, blob, dictionaries, doubling, follow, keys_of, many, naive_build, one, opened

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


def test_prefix_of_the_last_keys() -> None:
    fst = opened(naive_build(WORDS))
    assert list(fst.prefix(b"\xff")) == [(b"\xff", 5), (b"\xff\xff", 6)]
    assert list(fst.prefix(b"\xff\xff")) == [(b"\xff\xff", 6)]
    assert list(fst.prefix(b"")) == sorted(WORDS.items())


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


def test_the_type_is_ignored() -> None:
    assert opened(blob(b"", 1, 0, kind=TOP)).get(b"") == 0


def test_values_wrap() -> None:
    data = blob(many([(97, 0, TOP)], final=TOP, sizes=(1, 8)) + one(98, 1, TOP, sizes=(1, 8)), 2)
    fst = opened(data)
    assert list(fst.range()) == by_block(fst) == [(b"b", TOP - 1), (b"ba", TOP - 1)]
    assert fst.get(b"b") == fst.get(b"ba") == TOP - 1


def test_the_cursor_may_be_narrowed_and_is_moved() -> None:
    data = naive_build(WORDS)
    cursor = Cursor(b"head" + data + b"tail", source="x.zap", base=10)
    cursor.take(4, "head")
    with cursor.restrict_to(len(data), "vellum") as inner:
        fst = Fst.open(inner)
    assert (cursor.pos, cursor.remaining) == (4 + len(data), 4)
    assert by_block(fst) == sorted(WORDS.items())
    broken = bytearray(b"head" + data)
    broken[-8:] = struct.pack("<Q", len(data) - 16)
    cursor = Cursor(broken, base=10)
    cursor.take(4, "head")
    with pytest.raises(NotCanonical) as caught:
        Fst.open(cursor)
    assert caught.value.offset == 10 + len(broken) - 8


def test_every_kind_of_buffer(tmp_path: Path) -> None:
    data = naive_build(WORDS)
    (tmp_path / "x").write_bytes(data)
    with (tmp_path / "x").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for buffer in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
            fst = Fst.open(Cursor(buffer))
            assert by_block(fst) == list(fst.range()) == sorted(WORDS.items())
            assert fst.get(b"there") == 2**63
        fst = Fst.open(Cursor(mapped))
        assert by_block(fst) == sorted(WORDS.items())
        del fst


# ---------------------------------------------------------------------- wrong ones


def test_no_room_for_header_and_footer() -> None:
    for size in range(32):
        with pytest.raises(Truncated, match="vellum: expected at least 32 bytes") as caught:
            opened(blob(b"", 1, 0)[:size])
        assert caught.value.offset == 1000


@pytest.mark.parametrize("version", [0, 2, 256, 2**63])
def test_other_versions(version: int) -> None:
    with pytest.raises(Unsupported, match=f"vellum version: expected 1, found {version}") as caught:
        opened(blob(b"", 1, 0, version=version))
    assert caught.value.offset == 1000


@each("root", [1, 2, 15, 20, 34, 35, 2**31, 2**63, TOP])
def test_roots_that_are_no_address(root: int) -> None:
    with pytest.raises(NotCanonical, match="root address: expected 0 or an offset from 16 to 19") as caught:
        opened(blob(one(97, 0), 1, root))
    assert (caught.value.offset, caught.value.actual) == (1000 + 16 + 4 + 8, root)
    with pytest.raises(NotCanonical, match="root address"):
        opened(blob(b"", 1, 16))


def test_a_wrong_root_is_seen_at_once() -> None:
    with pytest.raises(NotCanonical, match="lowest address of a state"):
        opened(blob(one(97, 0)[1:], 1))


def test_limit_of_keys() -> None:
    data = naive_build(WORDS)
    assert opened(data, Limits(max_keys=8)).num_keys == 8
    with pytest.raises(LimitExceeded, match=r"Limits\.max_keys: expected at most 7 .*, found 8") as caught:
        opened(data, Limits(max_keys=7))
    assert caught.value.offset == 1000 + len(data) - 16
    with pytest.raises(LimitExceeded, match="max_keys"):
        opened(doubling(300, count=TOP))


@pytest.mark.parametrize("read", [by_block, by_key])
@pytest.mark.parametrize("few", [0, 256])
def test_another_number_of_keys(read: Read, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_FEW", few)
    data = naive_build(WORDS)
    for count in (1, 7, 9, 60):
        fst = opened(data[:-16] + struct.pack("<Q", count) + data[-8:])
        found = 8 if count > 8 else "more"
        with pytest.raises(CardinalityMismatch, match=f"number of keys: expected {count}, found {found}") as caught:
            read(fst)
        assert caught.value.offset == 1000 + len(data) - 16


@pytest.mark.parametrize("count", [0, 1000, 2**24])
def test_numbers_of_keys_that_are_seen_at_once(count: int) -> None:
    data = naive_build(WORDS)
    found = 8 if count else "more"
    with pytest.raises(CardinalityMismatch, match=f"number of keys: expected {count}, found {found}"):
        opened(data[:-16] + struct.pack("<Q", count) + data[-8:])
    with pytest.raises(CardinalityMismatch, match="number of keys: expected 5, found 0"):
        opened(blob(bytes(3), 5))
    with pytest.raises(CardinalityMismatch, match="number of keys: expected 0, found more"):
        opened(blob(b"", 0, 0))
    with pytest.raises(CardinalityMismatch, match="number of keys: expected 2, found 1"):
        list(opened(blob(b"", 2, 0)).blocks())


@pytest.mark.parametrize("count", [3, 300, 1500, 2**20, 2**24])
def test_more_keys_than_anyone_can_count(count: int) -> None:
    """200 states of 8 bytes spell 2**200 keys."""
    for read in (by_block, by_key):
        with pytest.raises(CardinalityMismatch, match=f"number of keys: expected {count}, found more"):
            read(opened(doubling(200, count=count)))


def test_as_many_keys_as_there_are_in_a_few_bytes() -> None:
    data = doubling(12)
    assert len(data) < 4096
    assert len(opened(data).to_block()) == sum(1 for _ in opened(data).range()) == 4096
    with pytest.raises(CardinalityMismatch, match="number of keys: expected 4097, found 4096"):
        opened(doubling(12, count=4097))


CHAIN = amounts.of(100_000, 1_000_000)


@pytest.mark.parametrize("key", [b"t", b"\0"])
@pytest.mark.parametrize("few", [0, 256])
def test_a_long_chain_of_states(key: bytes, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_FEW", few)
    fst = opened(blob(one(key[0], 0, 7) + follow(key[0]) * (CHAIN - 1), 1))
    whole = [(key * CHAIN, 7)]
    assert by_block(fst) == list(fst.range()) == list(fst.range(key * 1000)) == whole
    assert fst.get(whole[0][0]) == 7
    assert fst.get(whole[0][0][1:]) is None


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
    monkeypatch.setattr(reader, "_FEW", few)
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
    monkeypatch.setattr(reader, "_ROOM", 300)
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
            monkeypatch.setattr(reader, "_FEW", few)
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


@given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 40))
def test_noise(states: bytes, count: int, below: int) -> None:
    data = blob(states, count, max(0, 15 + len(states) - below))
    what_of(by_block, data)
    what_of(by_key, data)
    what_of(partial(Fst.get, key=b"abc"), data)
