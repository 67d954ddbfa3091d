"""What obstore (Rust's object_store) does against real servers: facts that the reading of object stores rests on.

No dvcodec here. A fact that changes with a release of obstore or of a server is found here first; README.md has them in
a table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lake.buckets import Bucket
from lake.proxy import Fault
from lake.servers import NOWHERE

if TYPE_CHECKING:
    import obstore
    from obstore import exceptions as refused
else:
    obstore = pytest.importorskip("obstore")
    refused = pytest.importorskip("obstore.exceptions")

DATA = bytes(range(256)) * 4
BIG = bytes(range(251)) * 12_000
RANGE_ERROR = r"416 Range Not Satisfiable.*<Code>InvalidRange</Code>"


@pytest.fixture
def big(proxied: Bucket) -> Bucket:
    """A bucket behind a proxy that has one large object."""
    proxied.put({"big.bin": BIG})
    return proxied


def ranged(store: Any, path: str, wanted: Any, **options: Any) -> Any:
    asked: Any = {"range": wanted, **options}
    return obstore.get(store, path, options=asked)


class TestRanges:
    def test_a_range_brings_size_and_etag_of_the_object(self, bucket: Bucket) -> None:
        bucket.put({"a.bin": DATA})
        store = bucket.store()
        answer = ranged(store, "a.bin", (10, 20))
        assert answer.meta["size"] == len(DATA)
        assert answer.meta["e_tag"] == obstore.head(store, "a.bin")["e_tag"]
        assert answer.range == (10, 20)
        assert bytes(answer.bytes()) == DATA[10:20]

    def test_a_range_past_the_end_is_cut(self, bucket: Bucket) -> None:
        bucket.put({"a.bin": DATA})
        assert bytes(obstore.get_range(bucket.store(), "a.bin", start=1000, end=5000)) == DATA[1000:]

    def test_a_range_from_the_end_on_is_refused(self, bucket: Bucket) -> None:
        bucket.put({"a.bin": DATA})
        store = bucket.store()
        for start in (len(DATA), 5000):
            with pytest.raises(
                refused.GenericError, match=r"416 Range Not Satisfiable|object was only 1024 bytes long"
            ):
                obstore.get_range(store, "a.bin", start=start, end=6000)
        with pytest.raises(ValueError, match="Invalid range requested, start: 5 end: 5"):
            obstore.get_range(store, "a.bin", start=5, end=5)

    def test_suffixes(self, bucket: Bucket) -> None:
        bucket.put({"a.bin": DATA})
        store = bucket.store()
        if bucket.scheme == "az":
            with pytest.raises(refused.NotSupportedError, match="Azure does not support suffix range requests"):
                ranged(store, "a.bin", {"suffix": 7})
            return
        answer = ranged(store, "a.bin", {"suffix": 7})
        assert (bytes(answer.bytes()), answer.range, answer.meta["size"]) == (DATA[-7:], (1017, 1024), 1024)
        answer = ranged(store, "a.bin", {"suffix": 5000})
        assert (bytes(answer.bytes()), answer.range) == (DATA, (0, 1024))

    def test_an_empty_object(self, bucket: Bucket) -> None:
        bucket.put({"empty.bin": b""})
        store = bucket.store()
        assert bytes(obstore.get(store, "empty.bin").bytes()) == b""
        assert obstore.head(store, "empty.bin")["size"] == 0
        with pytest.raises(refused.GenericError):
            obstore.get_range(store, "empty.bin", start=0, end=10)
        if bucket.scheme == "s3":
            with pytest.raises(refused.GenericError, match="Received non-partial response when range requested"):
                ranged(store, "empty.bin", {"suffix": 10})

    def test_ranges_are_joined_over_gaps_of_a_mebibyte(self, big: Bucket) -> None:
        store, proxy = big.store(), big.watched
        near = [20_000 * i for i in range(100)]
        found = obstore.get_ranges(store, "big.bin", starts=near, ends=[start + 100 for start in near])
        assert [bytes(one) for one in found] == [BIG[start : start + 100] for start in near]
        assert [one.range for one in proxy.traffic()] == ["bytes=0-1980099"]
        proxy.clear()
        obstore.get_ranges(store, "big.bin", starts=[0, 1_500_000], ends=[10, 1_500_010])
        assert {one.range for one in proxy.traffic()} == {"bytes=0-9", "bytes=1500000-1500009"}

    def test_ten_ranges_are_asked_at_once(self, big: Bucket) -> None:
        store, proxy = big.store(), big.watched
        proxy.delay(0.05)
        starts = [50_000 * i for i in range(30)]
        obstore.get_ranges(store, "big.bin", starts=starts, ends=[start + 10 for start in starts], coalesce=0)
        assert len(proxy.traffic()) == 30
        assert proxy.traffic().most_at_once == 10


class TestConditions:
    def test_a_range_of_a_replaced_object_is_refused(self, bucket: Bucket) -> None:
        bucket.put({"a.bin": DATA})
        store = bucket.store()
        etag = obstore.head(store, "a.bin")["e_tag"]
        assert bytes(ranged(store, "a.bin", (0, 4), if_match=etag).bytes()) == DATA[:4]
        bucket.put({"a.bin": DATA[::-1]})
        if bucket.server.name == "fake-gcs-server":
            # It looks at generations alone; Google itself answers 412.
            assert bytes(ranged(store, "a.bin", (0, 4), if_match=etag).bytes()) == DATA[::-1][:4]
            return
        with pytest.raises(refused.PreconditionError, match="412 Precondition Failed"):
            ranged(store, "a.bin", (0, 4), if_match=etag)

    def test_put_if_absent(self, writable: Bucket) -> None:
        bucket = writable
        store = bucket.store()
        obstore.put(store, "new.bin", b"first", mode="create")
        with pytest.raises(refused.AlreadyExistsError, match=r"Object at location new\.bin already exists"):
            obstore.put(store, "new.bin", b"second", mode="create")
        assert bytes(obstore.get(store, "new.bin").bytes()) == b"first"

    def test_of_many_that_put_if_absent_one_does(self, writable: Bucket) -> None:
        bucket = writable
        store = bucket.store()

        async def race() -> list[object]:
            attempts = [obstore.put_async(store, "one.bin", b"%d" % i, mode="create") for i in range(16)]
            return await asyncio.gather(*attempts, return_exceptions=True)

        results = asyncio.run(race())
        won = [i for i, result in enumerate(results) if not isinstance(result, BaseException)]
        lost = [result for result in results if isinstance(result, BaseException)]
        assert len(won) == 1
        # S3 and versitygw may also answer 409 ConditionalRequestConflict while another is at it.
        assert all(isinstance(one, refused.AlreadyExistsError) or "409" in str(one) for one in lost)
        assert bytes(obstore.get(store, "one.bin").bytes()) == b"%d" % won[0]

    def test_large_puts(self, proxied_s3: Bucket) -> None:
        """In parts; with a condition in one request, and tried again where nothing was done."""
        store, proxy = proxied_s3.store(), proxied_s3.watched
        large = bytes(11 << 20)
        obstore.put(store, "parts.bin", large)
        assert proxy.traffic().kinds == {"POST": 2, "PUT": 3}
        proxy.clear()
        proxy.fail(Fault("error"))
        obstore.put(store, "whole.bin", large, mode="create")
        assert [(one.method, one.status, one.received) for one in proxy.traffic()] == [
            ("PUT", 503, len(large)),
            ("PUT", 200, len(large)),
        ]

    def test_a_put_whose_answer_is_lost(self, proxied_writable: Bucket) -> None:
        """A plain one is tried again; of one with a condition nobody knows, and the object is there."""
        bucket = proxied_writable
        store, proxy = bucket.store(), bucket.watched
        proxy.fail(Fault("lost"))
        obstore.put(store, "plain.bin", b"x")
        assert [one.fault for one in proxy.traffic()] == ["lost", None]
        proxy.clear()
        proxy.fail(Fault("lost"))
        with pytest.raises(refused.GenericError, match="error sending request"):
            obstore.put(store, "create.bin", b"x", mode="create")
        assert [one.fault for one in proxy.traffic()] == ["lost"]
        assert bytes(obstore.get(store, "create.bin").bytes()) == b"x"


class TestListing:
    def test_pages(self, proxied_writable: Bucket) -> None:
        page = 5000 if proxied_writable.scheme == "az" else 1000
        store, proxy = proxied_writable.store(), proxied_writable.watched
        names = [f"many/{number:05}" for number in range(1010)]

        async def put_all() -> None:
            for start in range(0, len(names), 100):
                await asyncio.gather(*(obstore.put_async(store, name, b"x") for name in names[start : start + 100]))

        asyncio.run(put_all())
        with proxy.watch() as seen:
            assert [one["path"] for one in obstore.list(store, "many").collect()] == names
        assert seen[0].kinds == {"LIST": -(-1010 // page)}
        # What is handed out at once has nothing to do with what a page holds.
        assert [len(batch) for batch in obstore.list(store, "many", chunk_size=400)] == [400, 400, 210]

    def test_prefixes_are_whole_segments(self, bucket: Bucket) -> None:
        bucket.put({"t/ab": b"", "t/a.b": b"", "t/a/x": b"", "t/a/y/z": b""})
        store = bucket.store()
        assert sorted(one["path"] for one in obstore.list(store, "t/a").collect()) == ["t/a/x", "t/a/y/z"]
        found = obstore.list_with_delimiter(store, "t/a")
        assert (list(found["common_prefixes"]), [one["path"] for one in found["objects"]]) == (["t/a/y"], ["t/a/x"])
        assert obstore.list(store, "nothing").collect() == []


class TestKeys:
    @pytest.mark.parametrize(
        "key",
        ["with space", "with%20percent", "é", "a+b", "a#b", "a?b", "a&b", "a=b", "a:b", "~", "*", "...", "c=1%3A2"],
    )
    def test_a_key_is_taken_as_it_is(self, bucket: Bucket, key: str) -> None:
        """Nothing is percent-decoded: what a table's metadata has encoded has to be decoded before."""
        bucket.put({f"k/{key}": b"x"})
        store = bucket.store()
        assert bytes(obstore.get(store, f"k/{key}").bytes()) == b"x"
        assert [one["path"] for one in obstore.list(store, "k").collect()] == [f"k/{key}"]

    @pytest.mark.parametrize(
        ("key", "why"), [("a//b", "contained empty path segment"), ("a/../b", 'illegal character sequence ".."')]
    )
    def test_keys_that_cannot_be_named(self, proxied_s3: Bucket, key: str, why: str) -> None:
        with pytest.raises(ValueError, match=why):
            obstore.get(proxied_s3.store(), key)
        assert not len(proxied_s3.watched.traffic())

    def test_a_trailing_slash_is_dropped(self, writable: Bucket) -> None:
        bucket = writable
        store = bucket.store()
        obstore.put(store, "a/b/", b"x")
        assert [one["path"] for one in obstore.list(store, "a").collect()] == ["a/b"]


class TestFaults:
    @pytest.mark.parametrize("status", [503, 500, 429])
    def test_one_failure_is_tried_again(self, big: Bucket, status: int) -> None:
        big.watched.fail(Fault("error", status=status))
        assert bytes(obstore.get(big.store(), "big.bin").bytes()) == BIG
        assert [one.status for one in big.watched.traffic()] == [status, 200]

    @pytest.mark.parametrize("call", ["get", "head", "list"])
    def test_throttled_for_good(self, big: Bucket, call: str) -> None:
        big.watched.fail(Fault("error", times=None))
        with pytest.raises(refused.GenericError) as failed:
            CALLS[call](big.store())
        said = words(failed.value)
        assert "after 2 retries, max_retries: 2, retry_timeout: 600s" in said
        assert "503 Service Unavailable" in said
        assert ("<Code>SlowDown</Code>" in said) == (call != "head")
        assert len(big.watched.traffic()) == 3

    @pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
    @pytest.mark.parametrize("call", ["get", "head", "list"])
    def test_denied(self, big: Bucket, call: str, code: str) -> None:
        """A list that is denied has no type of its own, a HEAD no words of the server."""
        big.watched.fail(Fault("error", status=403, code=code, message="No.", times=None))
        expected = refused.GenericError if call == "list" else refused.PermissionDeniedError
        with pytest.raises(expected) as failed:
            CALLS[call](big.store())
        assert "403 Forbidden" in words(failed.value)
        assert (f"<Code>{code}</Code>" in words(failed.value)) == (call != "head")
        assert len(big.watched.traffic()) == 1

    def test_an_expired_token(self, big: Bucket) -> None:
        """S3 answers 400, which has no type of its own."""
        big.watched.fail(Fault("error", status=400, code="ExpiredToken", message="It has expired.", times=None))
        with pytest.raises(refused.GenericError, match=r"(?s)400 Bad Request: .*<Code>ExpiredToken</Code>"):
            obstore.get(big.store(), "big.bin")
        assert len(big.watched.traffic()) == 1

    def test_credentials_that_are_not_valid(self, big: Bucket) -> None:
        big.watched.fail(Fault("error", status=401, code="Unauthorized"))
        with pytest.raises(refused.UnauthenticatedError, match="401 Unauthorized"):
            obstore.get(big.store(), "big.bin")

    def test_another_region(self, big: Bucket) -> None:
        big.watched.fail(Fault("error", status=301, code="PermanentRedirect"))
        with pytest.raises(refused.GenericError, match="Received redirect without LOCATION"):
            obstore.get(big.store(), "big.bin")

    def test_a_reset_before_the_answer_is_tried_again(self, big: Bucket) -> None:
        big.watched.fail(Fault("reset"))
        assert bytes(obstore.get(big.store(), "big.bin").bytes()) == BIG
        assert [one.fault for one in big.watched.traffic()] == ["reset", None]

    @pytest.mark.parametrize("kind", ["reset", "truncate"])
    def test_a_body_that_breaks_off_is_resumed(self, big: Bucket, kind: Any) -> None:
        big.watched.fail(Fault(kind, after=1_000_000))
        assert bytes(obstore.get(big.store(), "big.bin").bytes()) == BIG
        first, second = big.watched.traffic()
        assert (first.range, first.fault, second.status) == (None, kind, 206)
        assert second.range == f"bytes={first.sent}-{len(BIG) - 1}" or kind == "reset"

    def test_a_range_that_breaks_off_is_resumed(self, big: Bucket) -> None:
        big.watched.fail(Fault("truncate"))
        assert bytes(obstore.get_range(big.store(), "big.bin", start=10, end=1_000_010)) == BIG[10:1_000_010]
        assert [one.range for one in big.watched.traffic()] == ["bytes=10-1000009", "bytes=500010-1000009"]

    def test_a_body_that_always_breaks_off(self, big: Bucket) -> None:
        """The error comes from the body, and names neither the object nor the request."""
        big.watched.fail(Fault("truncate", times=None))
        answer = obstore.get(big.store(), "big.bin")
        with pytest.raises(refused.GenericError) as failed:
            answer.bytes()
        assert words(failed.value).endswith("HTTP error: request or response body error")
        assert "big.bin" not in str(failed.value)

    def test_a_wrong_answer_to_a_range_is_refused(self, big: Bucket) -> None:
        missed = "Received non-partial response when range requested"
        if big.scheme != "s3":
            missed = "Last-Modified Header missing from response"
        big.watched.fail(Fault("garbage"))
        with pytest.raises(refused.GenericError, match=missed):
            obstore.get_range(big.store(), "big.bin", start=10, end=20)

    def test_a_wrong_answer_for_a_whole_object_passes(self, proxied_s3: Bucket) -> None:
        """Nothing but the size and the bytes is left to see that by."""
        proxied_s3.put({"a.bin": DATA})
        proxied_s3.watched.fail(Fault("garbage", body="a page of some gateway"))
        answer = obstore.get(proxied_s3.store(), "a.bin")
        assert (answer.meta["e_tag"], bytes(answer.bytes())) == (None, b"a page of some gateway")

    def test_a_wrong_answer_to_a_list_is_refused(self, proxied: Bucket) -> None:
        proxied.watched.fail(Fault("garbage"))
        with pytest.raises(refused.GenericError, match="Got invalid list response"):
            obstore.list(proxied.store(), "x").collect()

    def test_a_server_that_never_answers(self, proxied_s3: Bucket) -> None:
        """The client's own limit ends it; it is tried again like other failures."""
        from obstore.store import S3Store

        proxied_s3.put({"a.bin": DATA})
        proxied_s3.watched.fail(Fault("stall"))
        limits: Any = {"timeout": timedelta(milliseconds=300)}
        store = S3Store(proxied_s3.name, config=proxied_s3.options, client_options=limits)  # type: ignore[arg-type]
        assert bytes(obstore.get(store, "a.bin").bytes()) == DATA


class TestRefusals:
    def test_a_missing_object(self, bucket: Bucket) -> None:
        """The only error that is an OSError; it has no errno."""
        store = bucket.store()
        for call in (
            lambda: obstore.get(store, "no/such.bin"),
            lambda: obstore.get_range(store, "no/such.bin", start=0, end=5),
            lambda: obstore.head(store, "no/such.bin"),
        ):
            with pytest.raises(FileNotFoundError, match=r"Object at location no/such\.bin not found") as failed:
                call()
            assert failed.value.errno is None
            assert not isinstance(failed.value, refused.BaseError)

    def test_a_missing_bucket(self, writable: Bucket) -> None:
        """A GET says which of both is missing, a HEAD does not; a list of it has no type of its own."""
        code = "ContainerNotFound" if writable.scheme == "az" else "NoSuchBucket"
        store = writable.store(bucket="no-such-bucket")
        with pytest.raises(FileNotFoundError, match=code):
            obstore.get(store, "a.bin")
        with pytest.raises(FileNotFoundError) as failed:
            obstore.head(store, "a.bin")
        assert code not in str(failed.value)
        with pytest.raises(refused.GenericError, match=rf"(?s)404 Not Found: .*{code}"):
            obstore.list(store, "a").collect()

    def test_wrong_keys(self, s3: Bucket) -> None:
        """moto looks at no key; versitygw answers 404 for one that it does not know, where S3 answers 403."""
        s3.put({"a.bin": DATA})
        secret, key = s3.store(aws_secret_access_key="other"), s3.store(aws_access_key_id="other")
        if s3.server.name == "moto":
            assert bytes(obstore.get(secret, "a.bin").bytes()) == DATA
            return
        with pytest.raises(refused.PermissionDeniedError, match="<Code>SignatureDoesNotMatch</Code>"):
            obstore.get(secret, "a.bin")
        with pytest.raises(FileNotFoundError, match="<Code>XAdminUserNotFound</Code>"):
            obstore.get(key, "a.bin")
        with pytest.raises(
            refused.GenericError, match=r"AuthorizationHeaderMalformed.*expecting &#34;eu-central-1&#34;"
        ):
            obstore.get(s3.store(aws_region="us-west-2"), "a.bin")

    def test_anonymous(self, s3: Bucket) -> None:
        s3.put({"a.bin": DATA})
        # moto has no words for it.
        said = "403 Forbidden" if s3.server.name == "moto" else "<Code>AccessDenied</Code>"
        with pytest.raises(refused.PermissionDeniedError, match=said):
            obstore.get(s3.store(aws_skip_signature="true"), "a.bin")

    def test_a_wrong_key_of_azure(self, azure: Bucket) -> None:
        azure.put({"a.bin": DATA})
        with pytest.raises(refused.PermissionDeniedError, match=r"(?s)403 Forbidden: .*<Code>AuthorizationFailure"):
            obstore.get(azure.store(azure_storage_account_key="AAAA"), "a.bin")

    def test_connection_refused(self, s3: Bucket) -> None:
        with pytest.raises(refused.GenericError) as failed:
            obstore.get(s3.store(aws_endpoint_url=NOWHERE), "a.bin")
        assert words(failed.value).endswith("HTTP error: error sending request")
        assert "tcp connect error" in str(failed.value), "the reason stands only behind the words"

    def test_no_credentials(self, s3: Bucket) -> None:
        """Without any, the machine's metadata service is asked for some: here an address where nothing listens."""
        from obstore.store import S3Store

        assert s3.options["aws_metadata_endpoint"] == NOWHERE
        without = {name: value for name, value in s3.options.items() if "key" not in name}
        config: Any = without
        store = S3Store(s3.name, config=config, retry_config={"max_retries": 0})
        with pytest.raises(refused.GenericError, match=f"Error performing PUT {NOWHERE}/latest/api/token"):
            obstore.get(store, "a.bin")

    def test_plain_http_has_to_be_allowed(self, s3: Bucket) -> None:
        with pytest.raises(refused.GenericError) as failed:
            obstore.get(s3.store(aws_allow_http="false"), "a.bin")
        assert words(failed.value).endswith("HTTP error: builder error")

    def test_unknown_options(self, s3: Bucket) -> None:
        with pytest.raises(refused.UnknownConfigurationKeyError, match="'aws_nonsense' is not valid for store 'S3'"):
            s3.store(aws_nonsense="1")


CALLS: dict[str, Callable[[Any], object]] = {
    "get": lambda store: obstore.get(store, "big.bin"),
    "head": lambda store: obstore.head(store, "big.bin"),
    "list": lambda store: obstore.list(store, "big").collect(),
}


def words(error: BaseException) -> str:
    """What an error says, without the dump of Rust values behind it."""
    said, dump, _ = str(error).partition("\n\nDebug source:\n")
    assert dump
    return said.strip()
