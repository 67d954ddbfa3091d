"""Key by key: seeking, stopping, chains; and counting without enumerating."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.zap import vellum
from dvcodec.zap.vellum import States, Walker, count_keys
from samples.zap.vellum import blob, dictionaries, doubling, follow, many, naive_build, one


def walker_of(data: bytes) -> tuple[States, int]:
    return States(Cursor(data, source="x.zap")), int.from_bytes(data[-8:], "little")


def full(data: bytes, start: bytes = b"", stop: bytes | None = None) -> list[tuple[bytes, int]]:
    states, root = walker_of(data)
    return list(Walker(states).seek(root, start, stop))


def watched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the chains that are read from now on."""
    read: list[int] = []
    original = States.chain

    def chain(self: States, addr: int) -> tuple[bytes, int, int]:
        piece = original(self, addr)
        read.append(len(piece[0]))
        return piece

    monkeypatch.setattr(States, "chain", chain)
    return read


@given(dictionaries.filter(bool), st.integers(-3, 3))
def test_count(items: dict[bytes, int], more: int) -> None:
    states, root = walker_of(naive_build(items))
    enough = max(0, len(items) + more)
    found = count_keys(states, root, enough)
    assert found == len(items) if enough >= len(items) else found > enough


def test_count_of_more_than_can_be_enumerated() -> None:
    states, root = walker_of(doubling(60))
    assert count_keys(states, root, 2**60) == 2**60
    assert 2**40 < count_keys(states, root, 2**40) < 2**42
    states, root = walker_of(doubling(20, bytes(range(256)), count=1))
    assert count_keys(states, root, 2**200) == 2**160


def test_a_stop_before_a_long_way_is_seen_without_going_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = blob(one(97, 0) + follow(97) * 10_000 + many([(98, 0, 0), (99, 1, 0)]), 2)
    states, root = walker_of(data)
    read = watched(monkeypatch)
    assert list(Walker(states).seek(root, b"", b"c")) == [(b"b", 0)]
    assert list(Walker(states).seek(root, b"d", None)) == []
    assert not read
    assert [len(key) for key, _ in Walker(states).seek(root, b"bb", None)] == [10_002]


def addresses(base: bytes) -> list[int]:
    """Addresses of the states in `base`: the first and then "next" forms."""
    found, at = [], 16 + 3
    for i in range(20_000):
        at += len(follow(97 + i % 26))
        found.append(at)
    assert found[-1] == 15 + len(base)
    return found


@pytest.mark.parametrize("kept", [1, 3, 1 << 14])
def test_a_long_end_is_read_once(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many ways lead into one chain, each at another of its states."""
    monkeypatch.setattr(vellum, "_MOST", kept)
    base = one(97, 0, 1) + b"".join(follow(97 + i % 26) for i in range(20_000))
    at = 16 + len(base)
    entries = addresses(base)[::397][:50]
    data = blob(base + many([(i, at - entry, i) for i, entry in enumerate(entries)], sizes=(4, 1)), 50)
    states, root = walker_of(data)
    read = watched(monkeypatch)
    found = list(Walker(states).seek(root, b"", None))
    longest = found[-1][0][1:]
    assert len(found) == 50
    assert all(longest.endswith(key[1:]) for key, _ in found)
    assert [value for _, value in found] == [i + 1 for i in range(50)]
    if kept > 100:
        assert sum(read) < 4 * len(base)


def test_a_chain_leads_to_something_wrong() -> None:
    data = blob(many() + follow(97) * 5000, 1)
    with pytest.raises(NotCanonical, match=r"number of transitions of a state: .* at least 1, .* found 0") as caught:
        full(data)
    assert caught.value.offset == 18


def test_a_walk_can_begin_anywhere() -> None:
    states, root = walker_of(naive_build({b"abc": 5, b"abd": 6}))
    assert list(Walker(states).walk(bytearray(b"x"), root, 2**64 - 5)) == [(b"xabc", 0), (b"xabd", 1)]
    assert list(Walker(states).walk(bytearray(b"x"), 0, 7)) == [(b"x", 7)]
