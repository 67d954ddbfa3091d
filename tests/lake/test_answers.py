"""Answers that none of the servers gives, from a server that says what it is told."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import pytest

from dvcodec.io.store import AccessDenied, Reason, Store, StoreError, open_store
from lake.web import Quiet, serving

obstore = pytest.importorskip("obstore")

STAMP = {"ETag": '"e"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "aws_region": "z"}
QUICK = {"allow_http": "true", "max_retries": "1", "init_backoff": "1ms", "max_backoff": "2ms"}

Said = tuple[int, dict[str, str], bytes]
"""Status, headers and body of an answer."""


def refusal(status: int, code: str) -> Said:
    return status, {}, f"<Error><Code>{code}</Code><Message>It said so.</Message></Error>".encode()


def listing(*names: str, more: bool = False) -> Said:
    """A page of S3's kind; `more`: there is another."""
    stamp = "2015-10-21T07:28:00.000Z"
    objects = "".join(
        f"<Contents><Key>{name}</Key><Size>1</Size><LastModified>{stamp}</LastModified></Contents>" for name in names
    )
    token = "<NextContinuationToken>t</NextContinuationToken>" if more else ""
    return 200, {}, f"<ListBucketResult>{objects}{token}</ListBucketResult>".encode()


class Teller(ThreadingHTTPServer):
    """Gives the answers of `said`, by method, in their order; the last one again and again."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.said: dict[str, list[Said]] = {}
        self.asked: list[str] = []


class _Answer(Quiet):
    def do_GET(self) -> None:
        assert isinstance(self.server, Teller)
        self.server.asked.append(self.command)
        left = self.server.said[self.command]
        self.say(*(left.pop(0) if len(left) > 1 else left[0]))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()


@pytest.fixture
def teller() -> Iterator[Teller]:
    made = Teller()
    with serving(made):
        yield made


def store_of(teller: Teller) -> Store:
    return open_store("s3://lake", KEYS | QUICK | {"aws_endpoint_url": teller.url})[0]


def test_an_empty_object_of_which_a_range_is_wanted(teller: Teller) -> None:
    """Some servers send all of it, which is nothing."""
    teller.said = {"GET": [(200, STAMP, b"")], "HEAD": [(200, STAMP, b"")]}
    found = store_of(teller).get("a", 0, 5)
    assert (bytes(found.data), found.start, found.found.size, found.found.etag) == (b"", 0, 0, '"e"')
    assert teller.asked == ["GET", "HEAD"]


def test_another_page_in_place_of_a_range(teller: Teller) -> None:
    """The object is not empty: the answer was not the store's, and the store is asked again."""
    teller.said = {"GET": [(200, {}, b"<html>")], "HEAD": [(200, STAMP, b"12345")]}
    with pytest.raises(StoreError, match=r"cannot read: store unavailable: .* not the requested byte range"):
        store_of(teller).get("a", 0, 5)
    assert teller.asked == ["GET", "HEAD"] * 2


def test_a_size_of_nobody(teller: Teller) -> None:
    """What has neither ETag nor time is not an answer of a store, and not an object of size 0."""
    teller.said = {"HEAD": [(200, {}, b"")]}
    with pytest.raises(StoreError, match="store unavailable: the response has neither ETag nor Last-Modified"):
        store_of(teller).head("a")
    teller.said = {"HEAD": [(200, {}, b""), (200, STAMP, b"123")]}
    assert store_of(teller).head("a").size == 3


@pytest.mark.parametrize(
    ("get", "error", "said"),
    [
        (refusal(400, "ExpiredToken"), AccessDenied, "expired credentials: 400 Bad Request ExpiredToken"),
        (refusal(403, "AccessDenied"), AccessDenied, r"denied: 403 Forbidden AccessDenied \(It said so.\)"),
        ((206, STAMP | {"Content-Range": "bytes 0-0/9"}, b"x"), AccessDenied, "cannot read: denied: 403 Forbidden$"),
    ],
    ids=["expired", "denied", "readable"],
)
def test_a_size_that_is_denied(teller: Teller, get: Said, error: type[StoreError], said: str) -> None:
    """The answer to a HEAD has no words, so those of a GET are shown, if it has any."""
    teller.said = {"HEAD": [(403, {}, b"")], "GET": [get]}
    with pytest.raises(error, match=said):
        store_of(teller).head("a")
    assert teller.asked == ["HEAD", "GET"]


class TestLists:
    def test_an_error_after_names_without_order(self, teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
        """It cannot be gone on with after the last name: names would be lost, so that the list fails."""
        monkeypatch.setattr("dvcodec.io.store.objects.PAGE", 2)
        teller.said = {"GET": [listing("b", "a", more=True), refusal(500, "InternalError")]}
        found = store_of(teller).list_all()
        assert [next(found).key, next(found).key] == ["b", "a"]
        with pytest.raises(StoreError, match=r"cannot list: failed: .*interrupted, and its names are not in order"):
            next(found)

    def test_an_error_after_names_in_order(self, teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
        """It goes on after the last one, also where the server begins from the start."""
        monkeypatch.setattr("dvcodec.io.store.objects.PAGE", 2)
        teller.said = {
            "GET": [
                listing("a", "b", more=True),
                refusal(500, "InternalError"),
                listing("a", "b", "c"),
            ]
        }
        assert [one.key for one in store_of(teller).list_all()] == ["a", "b", "c"]

    def test_a_page_that_is_repeated_for_ever(self, teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dvcodec.io.store.objects.PAGE", 2)
        teller.said = {"GET": [listing("a", "b", more=True), listing("c", "d", more=True)]}
        with pytest.raises(StoreError, match="cannot list: failed: the server repeats the listing: c for the second"):
            list(store_of(teller).list_all())
        assert len(teller.asked) < 10

    @pytest.mark.parametrize("key", ["t//x", "t/../x", "t/&#1;"])
    def test_an_object_whose_key_cannot_be_named(self, teller: Teller, key: str) -> None:
        """The caller did not name this key, so it is not a UsageError."""
        teller.said = {"GET": [listing("t/a", key)]}
        for call in (lambda: list(store_of(teller).list_all("t")), lambda: store_of(teller).list_folder("t")):
            with pytest.raises(StoreError, match="lake/t: cannot list: failed: an object has a key that cannot be nam"):
                call()


class TestClients:
    """Errors that are not the store's."""

    def test_a_panic(self, teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
        class PanicException(BaseException):
            """As pyo3 has it."""

        def fail(*_: object, **__: object) -> None:
            raise PanicException("it\nbroke")

        monkeypatch.setattr(obstore, "get", fail)
        with pytest.raises(StoreError, match=r"^s3://lake/a: cannot read: failed: the client panicked: it broke$"):
            store_of(teller).get("a")

    def test_fewer_bytes_than_the_answer_says(self, teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
        """They are asked for again."""
        body = 206, STAMP | {"Content-Range": "bytes 0-4/9"}, b"12345"
        teller.said = {"GET": [body]}
        get, cut = obstore.get, [True]

        class Cut:
            def __init__(self, answer: Any) -> None:
                self.range, self.meta, self._answer = answer.range, answer.meta, answer

            def bytes(self) -> bytes:
                found = bytes(self._answer.bytes())
                return found[:2] if cut.pop(0) else found

        monkeypatch.setattr(obstore, "get", lambda *given, **more: Cut(get(*given, **more)))
        cut[:] = [True, False]
        assert bytes(store_of(teller).get("a", 0, 5).data) == b"12345"
        cut[:] = [True, True]
        with pytest.raises(StoreError, match="store unavailable: expected 5 bytes, got 2") as failed:
            store_of(teller).get("a", 0, 5)
        assert failed.value.reason is Reason.UNAVAILABLE
