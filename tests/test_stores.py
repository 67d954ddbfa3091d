"""fsspec's file systems behind the interface of stores, and local files; errors of stores, and their options."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec import UsageError
from dvcodec.io.store import (
    AccessDenied,
    BucketNotFound,
    LocalStore,
    ObjectChanged,
    ObjectNotFound,
    Reason,
    Store,
    StoreError,
    StoreOptions,
    open_store,
)
from dvcodec.io.store.base import Requests
from dvcodec.io.store.errors import store_error
from dvcodec.io.store.options import RetryPolicy

DATA = bytes(range(100))


@pytest.fixture
def held() -> Iterator[tuple[Store, str]]:
    """A store of fsspec, and the key of an empty folder in it."""
    files = pytest.importorskip("fsspec").filesystem("memory")
    files.makedirs("/dvcodec-stores")
    yield open_store("memory://dvcodec-stores")
    files.rm("/dvcodec-stores", recursive=True)


class TestMemory:
    @pytest.mark.parametrize(
        ("start", "stop", "found"),
        [(None, None, DATA), (10, 20, DATA[10:20]), (10, None, DATA[10:]), (90, 200, DATA[90:]), (0, 0, b"")],
    )
    def test_get(self, held: tuple[Store, str], start: int | None, stop: int | None, found: bytes) -> None:
        store, folder = held
        store.put(f"{folder}/a", DATA)
        got = store.get(f"{folder}/a", start, stop, etag="any")
        assert (bytes(got.data), got.start, got.found.key) == (found, start or 0, f"{folder}/a")
        assert got.found.size == (len(DATA) if start is None or store.reports_size else None)

    def test_lists(self, held: tuple[Store, str]) -> None:
        store, folder = held
        for name in ("a", "b", "x/c", "x/y/d", "z/e"):
            store.put(f"{folder}/{name}", name.encode())
        folders, files = store.list_folder(folder)
        assert sorted(folders) == ["x", "z"]
        assert sorted((one.key, one.size) for one in files) == [(f"{folder}/a", 1), (f"{folder}/b", 1)]
        assert all(one.modified_ms for one in files)
        below = sorted(one.key.removeprefix(f"{folder}/") for one in store.list_all(folder))
        assert below == ["a", "b", "x/c", "x/y/d", "z/e"]


class TestLocalFiles:
    @pytest.mark.skipif(sys.platform == "win32", reason="links")
    def test_links(self, tmp_path: Path) -> None:
        """Those that lead nowhere are names alone, and those to folders are not followed."""
        (tmp_path / "t" / "real").mkdir(parents=True)
        (tmp_path / "t" / "real" / "a").write_bytes(DATA)
        (tmp_path / "t" / "again").symlink_to("real")
        (tmp_path / "t" / "nowhere").symlink_to("none")
        store, folder = LocalStore(), str(tmp_path / "t")
        assert sorted(store.names(folder)) == ["again", "nowhere", "real"]
        paths, sizes, _ = store.list_columns(folder)
        assert (paths, sizes, store.head(paths[0]).size) == ([f"{folder}/real/a"], [len(DATA)], len(DATA))


class TestFileSystems:
    """Of fsspec, whose answers differ."""

    @pytest.fixture(autouse=True)
    def _needs_fsspec(self) -> None:
        pytest.importorskip("fsspec")

    def test_a_file_that_must_not_exist(self) -> None:
        """Refused, also where nothing has to be written yet."""
        store, key = open_store("memory://dvcodec-stores/a")
        for call in (store.check_exclusive, lambda key: store.put_if_absent(key, b"")):
            with pytest.raises(UsageError, match=r"^memory://dvcodec-stores/a: this store does not support writing"):
                call(key)
        with pytest.raises(ObjectNotFound):
            store.head(key)

    def test_hdfs_without_hadoop_says_what_it_needs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError("Unable to load libjvm")

        monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
        with pytest.raises(UsageError, match=r"hdfs://host/t: HDFS needs a Hadoop client, .* webhdfs://host:9870/"):
            open_store("hdfs://host/t")

    @pytest.mark.parametrize(
        ("info", "etag", "modified"),
        [
            ({"LastModified": datetime(2020, 1, 1, tzinfo=timezone.utc), "ETag": '"e"'}, '"e"', 1_577_836_800_000),
            ({"mtime": 12.5, "created": 1}, None, 12_500),
            ({"mtime": "yesterday", "created": 3}, None, 3_000),
            ({"last_modified": "yesterday", "etag": 5}, "5", None),
        ],
    )
    def test_what_they_say_of_a_file(
        self, info: dict[str, Any], etag: str | None, modified: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from fsspec.implementations.memory import MemoryFileSystem

        monkeypatch.setattr(MemoryFileSystem, "info", lambda *_: {"name": "/a", "size": "7", "type": "file"} | info)
        store, key = open_store("memory://a")
        found = store.head(key)
        assert (found.size, found.etag, found.modified_ms) == (7, etag, modified)


@each(
    ("status", "code", "kind", "reason"),
    [
        (403, "AccessDenied", AccessDenied, Reason.DENIED),
        (400, "ExpiredToken", AccessDenied, Reason.EXPIRED),
        (403, "SignatureDoesNotMatch", AccessDenied, Reason.BAD_CREDENTIALS),
        (404, "XAdminUserNotFound", AccessDenied, Reason.BAD_CREDENTIALS),
        (404, "NoSuchBucket", BucketNotFound, Reason.NO_BUCKET),
        (404, "NobodyKnows", StoreError, Reason.OTHER),
        (404, "", ObjectNotFound, Reason.NO_OBJECT),
        (412, "", ObjectChanged, Reason.CHANGED),
        (503, "SlowDown", StoreError, Reason.THROTTLED),
        (503, "", StoreError, Reason.THROTTLED),
        (500, "InternalError", StoreError, Reason.UNAVAILABLE),
        (599, "", StoreError, Reason.UNAVAILABLE),
        (499, "", StoreError, Reason.OTHER),
        (400, "AuthorizationHeaderMalformed", StoreError, Reason.REGION),
    ],
)
def test_what_a_store_refuses(status: int, code: str, kind: type[StoreError], reason: Reason) -> None:
    """As obstore quotes an answer; the code in it goes before the status."""
    body = f"<Error><Code>{code}</Code><Message>It said so.</Message></Error>" if code else ""
    text = f"Generic S3 error: Error performing GET http://x in 1ms - status code: {status} Words: {body}\n\nDebug"
    error = store_error("s3://lake/k", "read", text)
    assert (type(error), error.reason, error.action) == (kind, reason, "read")
    said = f"{status} Words {code} (It said so.)" if code else f"{status} Words"
    assert str(error).startswith(f"s3://lake/k: cannot read: {reason.value}: {said}")


class TestRetries:
    @pytest.mark.parametrize(
        ("share", "waits"), [(1.0, [0.1, 0.2, 0.4, 0.5, 0.5]), (0.5, [0.05, 0.1, 0.2, 0.25, 0.25])]
    )
    def test_each_waits_twice_as_long(self, share: float, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
        slept: list[float] = []
        monkeypatch.setattr("dvcodec.io.store.base.time.sleep", slept.append)
        monkeypatch.setattr("dvcodec.io.store.base.random.uniform", lambda *ends: ends[share == 1.0])

        def fail(_: int) -> bytes:
            raise store_error("s3://lake/k", "read", "500", Reason.UNAVAILABLE)

        requests = Requests(RetryPolicy(max_retries=5, init_backoff=0.1, max_backoff=0.5), 1)
        with pytest.raises(StoreError):
            requests.make("get", "s3://lake/k", fail)
        assert slept == pytest.approx(waits)

    @each(
        ("reason", "seconds", "attempts"),
        [
            (Reason.UNAVAILABLE, 0, 6),
            (Reason.UNAVAILABLE, 60, 3),
            (Reason.UNAVAILABLE, 60.1, 2),
            (Reason.UNREACHABLE, 0, 4),
            (Reason.NO_OBJECT, 0, 1),
        ],
    )
    def test_how_often_and_how_long(
        self, reason: Reason, seconds: float, attempts: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A request of so many seconds is made again until two minutes are over."""
        now, made = [1000.0], []
        monkeypatch.setattr("dvcodec.io.store.base.time.sleep", lambda _: None)
        monkeypatch.setattr("dvcodec.io.store.base.time.monotonic", lambda: now[0])

        def fail(attempt: int) -> bytes:
            made.append(attempt)
            now[0] += seconds
            raise store_error("s3://lake/k", "read", "500", reason)

        with pytest.raises(StoreError):
            Requests(RetryPolicy(max_retries=5, timeout=120), 1).make("get", "s3://lake/k", fail)
        assert made == list(range(attempts))


class TestOptions:
    @each(
        ("given", "options"),
        [
            ({"aws_region": None, "AWS_Region": "x"}, {"aws_region": "x"}),
            ({"aws_s3_allow_unsafe_rename": "true", "delta_dynamo_table_name": "t"}, {}),
            ({"allow_http": True}, {"allow_http": "true"}),
            ({"timeout": "2 min", "connect_timeout": 1.5}, {"timeout": "120000ms", "connect_timeout": "1500ms"}),
            (
                {"anon": "YES", "aws_endpoint": "http://e", "max_retries": 3},
                {"endpoint": "http://e", "skip_signature": "true"},
            ),
            ({"anonymous": "no", "azure_storage_endpoint": "http://e"}, {"endpoint": "http://e"}),
        ],
    )
    def test_those_for_another_library(self, given: dict[str, object], options: dict[str, str]) -> None:
        """In Rust's spelling; retries are dvcodec's own."""
        assert StoreOptions.of(given).for_rust() == options
