"""An object that is replaced while it is read: an error, never bytes of both."""

from __future__ import annotations

import pytest

from dvcodec.io import Storage
from dvcodec.io.store import ObjectChanged, open_store
from lake.buckets import Bucket

SIZE = 5 << 20  # more than is read at once


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("listed", [False, True])
def test_replaced_at_once(s3: Bucket, by: int, listed: bool) -> None:
    # At once: the time of an answer has whole seconds, so that size and time may be those of the old one.
    store, _ = open_store(s3.url, s3.options)
    store.put("t/a", b"x" * SIZE)
    storage = Storage(s3.options)
    if listed:
        assert storage.names(f"{s3.url}/t") == ["a"]
    with storage.open(f"{s3.url}/t/a") as source:
        assert bytes(source.read(0, 4)) == b"xxxx"
        store.put("t/a", b"y" * (SIZE + by))
        with pytest.raises(ObjectChanged, match="changed since it was listed or opened"):
            source.read(SIZE // 2, 4)


def test_replaced_after_it_was_listed(s3: Bucket) -> None:
    store, _ = open_store(s3.url, s3.options)
    store.put("t/a", b"x" * SIZE)
    storage = Storage(s3.options)
    assert storage.names(f"{s3.url}/t") == ["a"]
    store.put("t/a", b"y" * SIZE)
    with storage.open(f"{s3.url}/t/a") as source:
        assert bytes(source.read(0, 4)) == b"yyyy"
