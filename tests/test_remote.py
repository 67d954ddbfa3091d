"""Sources of a store: which ranges are asked for, and what an object that is replaced meanwhile becomes."""

from __future__ import annotations

from typing import Any

import pytest

from dvcodec import Truncated
from dvcodec.io.remote import HEAD_BYTES, WHOLE_BYTES, StoreSource
from dvcodec.io.store import ObjectChanged, ObjectNotFound, Reason, StoredObject, StoreError
from samples.memory_store import MemoryStore

SMALL = bytes(range(256)) * 4
LARGE = b"a" * (WHOLE_BYTES + 1000)
ETAGS = pytest.mark.parametrize("etags", ['"{}"', 'W/"{}"', ""], ids=["strong", "weak", "none"])


def source_of(store: MemoryStore, **how: Any) -> StoreSource:
    return StoreSource(store, "k", "name", **how)


class TestFirstRequest:
    @pytest.mark.parametrize(
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

    @pytest.mark.parametrize("how", [{}, {"eager": True}, {"expected": 100}], ids=["lazy", "eager", "expected"])
    def test_of_an_empty_object(self, how: dict[str, Any]) -> None:
        """It has no range: its size is asked for."""
        store = MemoryStore({"k": b""})
        source = source_of(store, **how)
        assert bytes(source.read_up_to(0, 10)) == b""
        assert [asked[0] for asked in store.asked] == ["get", "head"]
        with pytest.raises(Truncated, match="0 left of 0"):
            source.read(0, 1)

    def test_of_a_range_beyond_the_end(self) -> None:
        source = source_of(MemoryStore({"k": SMALL}))
        with pytest.raises(Truncated, match="name at byte 5000: byte range: expected 5 bytes, found 0 left of 1024"):
            source.read(5000, 5)

    @pytest.mark.parametrize(("reason", "error"), [(Reason.NO_OBJECT, ObjectNotFound), (Reason.OTHER, StoreError)])
    def test_other_errors(self, reason: Reason, error: type[StoreError]) -> None:
        """Reading ahead keeps quiet about them."""
        store = MemoryStore({"k": SMALL}, refused={"get": reason})
        source = source_of(store, eager=True)
        source.prefetch()
        with pytest.raises(error, match=reason.value):
            source.read(0, 1)
        assert len(store.asked) == 2


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


class TestReplaced:
    @pytest.mark.parametrize("by", [-60, -2000])
    def test_by_a_shorter_one_before_its_end_is_read(self, by: int) -> None:
        """A listing without an ETag: the answer shows it. What is left of the range is given out."""
        store = MemoryStore({"k": LARGE})
        source = source_of(store, listed=StoredObject("k", len(LARGE)))
        store.put("k", b"b" * (len(LARGE) + by))
        assert bytes(source.read_up_to(len(LARGE) - 100, 100)) == b"b" * max(100 + by, 0)
        assert source.size == len(LARGE) + by
        assert bytes(source.read(source.size - 100, 100)) == b"b" * 100

    def test_by_one_that_ends_before_the_range(self) -> None:
        store = MemoryStore({"k": LARGE})
        source = source_of(store, listed=store.head("k"))
        store.put("k", SMALL)
        with pytest.raises(ObjectChanged, match="s3://lake/k: cannot read: changed since"):
            source.read(1 << 20, 10)
        assert bytes(source.read(0, 1024)) == SMALL

    @ETAGS
    def test_after_its_beginning_was_read_ahead(self, etags: str) -> None:
        """Nobody has seen it: it is dropped, and what is read is of the new one."""
        store = MemoryStore({"k": LARGE}, etags=etags)
        grown: list[int] = []
        source = source_of(store, eager=True, grown=grown.append)
        source.prefetch()
        assert source.kept == sum(grown) == HEAD_BYTES
        store.put("k", b"b" * len(LARGE))
        assert bytes(source.read(1 << 20, 10)) == b"b" * 10
        assert source.kept == sum(grown) == 0
        assert bytes(source.read(0, 10)) == b"b" * 10

    @ETAGS
    def test_after_bytes_were_given_out(self, etags: str) -> None:
        store = MemoryStore({"k": LARGE}, etags=etags)
        source = source_of(store)
        assert bytes(source.read(0, 10)) == b"a" * 10
        store.put("k", b"b" * len(LARGE))
        with pytest.raises(ObjectChanged, match=f"ETag .*; now {len(LARGE)} bytes, ETag "):
            source.read(1 << 20, 10)

    @pytest.mark.parametrize("etag", ['W/"1"', None])
    def test_not_at_all(self, etag: str | None) -> None:
        """Servers behind one address may give it other weak ETags; its size and time are the same."""
        store = MemoryStore({"k": LARGE}, etags='W/"{}"')
        source = source_of(store)
        source.read(0, 10)
        store.etags = 'W/"other"' if etag else ""
        assert bytes(source.read(1 << 20, 10)) == b"a" * 10
