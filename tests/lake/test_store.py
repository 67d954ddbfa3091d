"""The interface of a store, on every server: nothing is lost or listed twice, one of several writers succeeds."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dvcodec.io import Storage
from dvcodec.io.store import (
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    Store,
    open_store,
    request_counts,
)
from dvcodec.tables.deleting.positions import list_parquet
from lake.buckets import Bucket, bucket_of
from lake.proxy import Fault, Proxy
from lake.servers import Server

pytest.importorskip("obstore")

QUICK = {"init_backoff": "5ms", "max_backoff": "20ms"}
DATA = bytes(range(256)) * 8
NAMES = ["with space", "with%20percent", "é", "a+b", "a#b", "a?b", "*", "c=1%3A2", "a~b", "a:b"]
BROKEN_PAGES = (
    (),
    (Fault("error"),),
    (Fault("error", skip=1),),
    (Fault("reset", skip=1),),
    (Fault("truncate", skip=1), Fault("reset", skip=2)),
    (Fault("garbage", skip=2),),
    (Fault("error", skip=1, times=4, status=500),),
)


def store_of(bucket: Bucket, **options: object) -> Store:
    return open_store(bucket.url, bucket.options | QUICK | options)[0]


class TestReading:
    def test_get_and_head(self, bucket: Bucket) -> None:
        bucket.put({"k/a.bin": DATA})
        store = store_of(bucket)
        found = store.head("k/a.bin")
        assert (found.key, found.size) == ("k/a.bin", len(DATA))
        assert found.etag
        assert found.modified_ms
        part = store.get("k/a.bin", 10, 20)
        assert (bytes(part.data), part.start, part.found.size, part.found.etag) == (
            DATA[10:20],
            10,
            len(DATA),
            found.etag,
        )
        assert bytes(store.get("k/a.bin").data) == DATA
        assert bytes(store.get("k/a.bin", 2000, 10_000).data) == DATA[2000:], "cut at the end"
        assert bytes(store.get("k/a.bin", 2000).data) == DATA[2000:]

    def test_what_is_not_there(self, bucket: Bucket) -> None:
        store = store_of(bucket)
        for call in (store.head, store.get, lambda key: store.get(key, 0, 5)):
            with pytest.raises(ObjectNotFound, match=f"{bucket.url}/no/such: cannot read: no such object"):
                call("no/such")
        assert list(store.list_all("no")) == []
        assert store.list_folder("no") == ([], [])

    def test_another_state_than_the_one_that_is_wanted(self, bucket: Bucket) -> None:
        bucket.put({"a.bin": DATA})
        store = store_of(bucket)
        etag = store.head("a.bin").etag
        assert bytes(store.get("a.bin", 0, 5, etag=etag).data) == DATA[:5]
        bucket.put({"a.bin": DATA[::-1]})
        if bucket.scheme == "gs":
            return  # this server ignores ETags
        with pytest.raises(ObjectChanged, match="changed since"):
            store.get("a.bin", 0, 5, etag=etag)

    @pytest.mark.parametrize("name", NAMES)
    def test_names_are_plain_text(self, bucket: Bucket, name: str) -> None:
        bucket.put({f"k/{name}/{name}": DATA})
        store, key = open_store(f"{bucket.url}/k/{name}/{name}", bucket.options)
        assert key == f"k/{name}/{name}"
        assert bytes(store.get(key, 1, 4).data) == DATA[1:4]
        assert [(one.key, one.size) for one in store.list_all("k")] == [(key, len(DATA))]
        assert store.list_folder("k") == ([name], [])
        assert [one.key for one in store.list_folder(f"k/{name}")[1]] == [key]


class TestLists:
    def test_markers_of_folders_are_no_parquet_files(self, bucket: Bucket) -> None:
        """A marker is an empty object: named as its folder, or with Hadoop's suffix. obstore puts no last slash."""
        markers = {"t/k=1_$folder$"}
        if bucket.server.name != "versitygw":  # where an object is a file, and a folder of its name another
            markers |= {"t/k=1", "t/k=1/"}
        bucket.put({"t/k=1/a": b"PAR1"} | dict.fromkeys(markers, b""))
        url = f"{bucket.url}/t"
        assert [file.location for file in list_parquet(url, Storage(bucket.options))] == [f"{url}/k=1/a"]

    @pytest.mark.parametrize(
        ("server", "count"),
        [("versitygw", 2100), pytest.param("moto", 1010, marks=pytest.mark.interop), ("azurite", 300)],
    )
    def test_pages(
        self, server_named: Callable[[str], Server], proxy_before: Callable[[Server], Proxy], server: str, count: int
    ) -> None:
        """Nothing is lost and nothing comes twice, whichever page fails, and however."""
        server_named(server).make_bucket(name := f"pages-{uuid.uuid4().hex[:12]}")
        bucket = bucket_of(server_named(server), name)
        # A dash and a dot sort before the slash: folders of a file system do not come in the keys' order.
        folders = ("many/a", "many/a-b", "many/a.b")
        keys = sorted(f"{folders[number % 3]}/{number:05} é+#" for number in range(count))
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda key: store_of(bucket).put(key, b"x"), keys))
        proxy = proxy_before(bucket.server)
        store = store_of(bucket_of(bucket.server, bucket.name, proxy))
        for faults in BROKEN_PAGES:
            proxy.clear()
            proxy.fail(*faults)
            before = request_counts().retries
            found = [one.key for one in store.list_all("many")]
            assert (len(found), sorted(found)) == (count, keys), faults
            broken = sum(one.fault is not None for one in proxy.traffic())
            assert request_counts().retries - before == broken
            assert broken or not faults or server != "versitygw", "the others have fewer pages"
        folder = [one.key for one in store.list_folder("many/a")[1]]
        assert sorted(folder) == [key for key in keys if key.startswith("many/a/")]


class TestWriting:
    def test_a_removal_whose_answer_is_lost(self, proxied_writable: Bucket) -> None:
        proxied_writable.put({"a.bin": DATA})
        proxied_writable.watched.fail(Fault("lost", path="a.bin" if proxied_writable.scheme == "s3" else ""))
        store = store_of(proxied_writable)
        store.delete("a.bin")
        assert list(store.list_all()) == []


class TestPutIfAbsent:
    def test_of_many_one_succeeds(self, writable: Bucket) -> None:
        store = store_of(writable)

        def write(number: int) -> bool:
            try:
                store.put_if_absent("one", b"%d" % number)
            except ObjectExists:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            won = [number for number, is_mine in enumerate(pool.map(write, range(16))) if is_mine]
        assert len(won) == 1
        assert bytes(store.get("one").data) == b"%d" % won[0]

    @pytest.mark.parametrize(("kind", "times"), [("lost", 1), ("lost", 2), ("late", 1)])
    def test_the_answer_is_lost(self, proxied_writable: Bucket, kind: Any, times: int) -> None:
        """A 503 may follow a request that was done; that it was done is success, once."""
        store = store_of(proxied_writable)
        proxied_writable.watched.fail(Fault(kind, method="PUT", times=times))
        store.put_if_absent("one", b"mine")
        assert [one.fault for one in proxied_writable.watched.traffic() if one.method == "PUT"] == [
            *[kind] * times,
            None,
        ]
        with pytest.raises(ObjectExists):
            store.put_if_absent("one", b"mine")

    @pytest.mark.parametrize(
        "fault", [Fault("lost", method="PUT"), Fault("reset", method="PUT"), Fault("error", method="PUT", status=500)]
    )
    def test_what_is_in_the_way_is_of_another(self, proxied_writable: Bucket, fault: Fault) -> None:
        proxied_writable.put({"one": b"of another"})
        proxied_writable.watched.fail(fault)
        with pytest.raises(ObjectExists):
            store_of(proxied_writable).put_if_absent("one", b"mine")
        assert bytes(store_of(proxied_writable).get("one").data) == b"of another"

    def test_the_store_says_that_nothing_was_done(self, proxied_writable: Bucket) -> None:
        """Then an object of the same bytes is that of another writer."""
        conflict = Fault("error", method="PUT", status=409, code="ConditionalRequestConflict")
        proxied_writable.watched.fail(conflict)
        store = store_of(proxied_writable)
        store.put_if_absent("one", b"mine")
        proxied_writable.watched.fail(conflict)
        with pytest.raises(ObjectExists):
            store.put_if_absent("one", b"mine")


@pytest.mark.parametrize("fault", [Fault("error", "PUT", "partNumber=3"), Fault("reset", "PUT", "partNumber=3")])
def test_a_part_that_fails_is_put_again_by_itself(counted_s3: Bucket, fault: Fault) -> None:
    store, _ = open_store(counted_s3.url, counted_s3.options | {"init_backoff": "5ms"})
    counted_s3.watched.fail(fault)
    store.put("large", bytes(21 << 20))
    parts = [one.query.partition("&")[0] for one in counted_s3.watched.traffic() if one.method == "PUT"]
    assert sorted(parts) == [f"partNumber={number}" for number in (1, 2, 3, 3, 4, 5)]
