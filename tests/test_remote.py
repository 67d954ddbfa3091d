"""Sources of a store: which ranges are asked for, and what an object that is replaced meanwhile becomes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import amounts
from cases import each
from dvcodec import Truncated
from dvcodec.io.storage import HEAD_BYTES, WHOLE_BYTES, StoreSource, _is_same
from dvcodec.io.store import Fetched, Reason, StoredObject, StoreError
from samples.memory_store import MemoryStore

SMALL = bytes(range(256)) * 4
LARGE = b"a" * (WHOLE_BYTES + 1000)
ETAGS = pytest.mark.parametrize("etags", ['"{}"', 'W/"{}"', ""], ids=["strong", "weak", "none"])


def source_of(store: MemoryStore, **how: Any) -> StoreSource:
    return StoreSource(store, "k", "name", **how)


class TestFirstRequest:
    @each(
        ("how", "offset", "size", "asked"),
        [
            ({}, 10, 5, (10, 15)),
            ({"eager": True}, 10, 5, (0, HEAD_BYTES)),
            ({"eager": True}, 100, HEAD_BYTES, (0, HEAD_BYTES + 100)),
            ({"eager": True}, 10, WHOLE_BYTES, (10, WHOLE_BYTES + 10)),
            ({"expected": 1024}, 10, 5, (0, 1024)),
            ({"expected": 7}, 10, 5, (0, 15)),
            ({"expected": WHOLE_BYTES + 1}, 10, 5, (10, 15)),
        ],
    )
    def test_of_a_read(self, how: dict[str, Any], offset: int, size: int, asked: tuple[int, int]) -> None:
        """The size that metadata name is a hint alone."""
        store = MemoryStore({"k": SMALL})
        source = source_of(store, **how)
        assert bytes(source.read_up_to(offset, size)) == SMALL[offset : offset + size]
        assert store.asked == [("get", "k", *asked)]
        assert source.size == len(SMALL)
        assert len(store.asked) == 1, "the answer said it"


@pytest.mark.parametrize("size", [len(SMALL), len(LARGE)])
def test_a_server_without_ranges(size: int) -> None:
    """What it sends is kept: it sends all of it, whatever it is asked for."""
    data = (SMALL if size == len(SMALL) else LARGE)[:-4] + b"tail"
    store = MemoryStore({"k": data}, has_ranges=False)
    grown: list[int] = []
    source = source_of(store, listed=StoredObject("k", size), grown=grown.append)
    assert bytes(source.read(size - 300, 10)) == data[-300:-290]
    assert (source.kept, sum(grown), len(store.asked)) == (size, size, 1)
    assert bytes(source.read(0, size)) == data
    assert bytes(source.read(size - 4, 4)) == b"tail"
    assert len(store.asked) == 1


def test_versions() -> None:
    """By ETags, if both are strong; else by size and time."""

    def version(etag: str | None, modified_ms: int = 1, size: int = 9) -> StoredObject:
        return StoredObject("k", size, etag, modified_ms)

    assert not _is_same(version('"a"'), version('"b"'))
    assert not _is_same(version('"a"'), version('"a"', size=8))
    assert _is_same(version('"a"'), version('"a"', 2))
    for one, other in (('W/"a"', '"b"'), ('"b"', 'W/"a"'), (None, '"a"'), ('"a"', None)):
        assert _is_same(version(one), version(other))
        assert not _is_same(version(one), version(other, 2))


class TestRequests:
    """No more than are needed."""

    def test_where_nothing_has_a_size(self) -> None:
        store = Sizeless({"k": SMALL}, reports_size=False, heads=False)
        source = source_of(store)
        assert bytes(source.read(10, 5)) == SMALL[10:15]
        assert (source.size, source.kept) == (len(SMALL), len(SMALL))
        assert store.asked == [("head", "k"), ("get", "k", None, None)]


@dataclass
class Sizeless(MemoryStore):
    """Its answers do not state the size of the object, as some servers' do not."""

    heads: bool = True

    def get(self, key: str, start: int | None = None, stop: int | None = None, *, etag: str | None = None) -> Fetched:
        found = super().get(key, start, stop, etag=etag)
        return Fetched(found.data, found.start, StoredObject(key, None))

    def head(self, key: str) -> StoredObject:
        found = super().head(key)
        return found if self.heads else StoredObject(key, None)


@dataclass
class ReplacedBetween(MemoryStore):
    """Its object is replaced after a number of reads."""

    after: int = 1
    by: bytes = b""

    def get(self, key: str, start: int | None = None, stop: int | None = None, *, etag: str | None = None) -> Fetched:
        if sum(asked[0] == "get" for asked in self.asked) == self.after:
            self.put(key, self.by)
            self.after = -1
        return super().get(key, start, stop, etag=etag)


def varied(size: int) -> bytes:
    """Bytes of which no eight are the same as eight others."""
    return np.arange(size // 4 + 1, dtype="<u4").tobytes()[:size]


@ETAGS
@pytest.mark.parametrize("size", [300, 100_000, WHOLE_BYTES + 1000])
def test_whenever_an_object_is_replaced_versions_are_never_mixed(etags: str, size: int) -> None:
    """All bytes and sizes that a caller gets are of one version, or an error reports that the object was replaced."""
    old = varied(size)
    for seed in range(200 if size < WHOLE_BYTES else 100):
        chance = random.Random(seed)
        new = varied(max(size + chance.choice([-size, -70_000, -100, -1, 0, 1, 70_000]), 0))[::-1]
        store = ReplacedBetween({"k": old}, etags=etags, by=new, after=chance.choice([0, 0, 1, 2, 3]))
        how: dict[str, Any] = chance.choice([{}, {"eager": True}, {"expected": size}, {"expected": 7}])
        if chance.random() < 0.5:
            how["listed"] = chance.choice([store.head("k"), StoredObject("k", size)])
        grown: list[int] = []
        source = source_of(store, grown=grown.append, **how)
        possible = [old, new]
        for _ in range(6):
            edge, length = (
                chance.choice([0, size // 2, size - 50, size - 50, size]),
                chance.choice([0, 1, 50, HEAD_BYTES, size]),
            )
            try:
                what = chance.choice(["read", "size", "prefetch"])
                if what == "prefetch":
                    source.prefetch()
                elif what == "size":
                    found = source.size
                    possible = [data for data in possible if len(data) == found]
                else:
                    got = source.read_up_to(edge, length)
                    if length:
                        possible = [data for data in possible if data[edge : edge + length] == got]
            except StoreError as err:
                assert store.objects["k"] is new, seed
                assert err.reason in (Reason.CHANGED, Reason.RANGE), seed
                break
            assert possible, (seed, what, edge, length)
            assert source.kept == sum(grown), seed


class TestWhatIsRead:
    @each("how", [{}, {"eager": True}, {"expected": 100}, {"expected": WHOLE_BYTES}])
    @each("size", [5, 1024, HEAD_BYTES, WHOLE_BYTES, WHOLE_BYTES + 1, WHOLE_BYTES + 1000])
    def test_any_ranges_in_any_order(self, size: int, how: dict[str, Any]) -> None:
        data = varied(size)
        for seed in range(amounts.of(6, 20)):
            chance = random.Random(seed)
            source = source_of(MemoryStore({"k": data}), **how)
            for _ in range(8):
                edge = chance.choice([0, HEAD_BYTES, size - HEAD_BYTES, WHOLE_BYTES, size])
                offset = min(max(edge + chance.randint(-50, 50), 0), size)
                count = chance.choice([0, 1, 30, size - offset, HEAD_BYTES])
                assert source.read_up_to(offset, count) == data[offset : offset + count], seed
                if offset + count <= size:
                    assert source.read(offset, count) == data[offset : offset + count], seed
                else:
                    with pytest.raises(Truncated):
                        source.read(offset, count)

    def test_the_last_bytes_are_kept(self) -> None:
        size = WHOLE_BYTES + 1000
        store = MemoryStore({"k": varied(size)})
        source = source_of(store, listed=store.head("k"))
        near = size - HEAD_BYTES
        source.read(near - 1, HEAD_BYTES + 1)
        assert source.kept == 0, "the range begins before"
        source.read(near, HEAD_BYTES)
        assert source.kept == HEAD_BYTES
        source.read(near, 10)
        source.read(size - 1, 1)
        source.read(near - 1, 2)
        assert store.asked[1:] == [
            ("get", "k", near - 1, size),
            ("get", "k", near, size),
            ("get", "k", near - 1, near + 1),
        ]

    @pytest.mark.parametrize("size", [WHOLE_BYTES, WHOLE_BYTES + 1])
    def test_a_small_object_is_read_whole_the_second_time(self, size: int) -> None:
        store = MemoryStore({"k": varied(size)})
        source = source_of(store, listed=store.head("k"))
        source.read(10, 5)
        source.read(100, 5)
        source.read(0, 1)
        whole = [("get", "k", 0, size)] if size == WHOLE_BYTES else [("get", "k", 100, 105), ("get", "k", 0, 1)]
        assert store.asked[1:] == [("get", "k", 10, 15), *whole]
        source.prefetch()
        assert source.kept == (size if size == WHOLE_BYTES else 0)
