"""Object stores (S3, GCS, Azure) and web servers, on obstore: Rust's object_store (extra ``remote``)."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import LazyModule
from dvcodec.io.store.base import Fetched, Store, StoredObject
from dvcodec.io.store.errors import ObjectExists, Reason, StoreError, error_text, store_error
from dvcodec.io.store.options import StoreOptions
from dvcodec.io.store.requests import Requests

if TYPE_CHECKING:
    import obstore
else:
    obstore = LazyModule("obstore", "remote")

Result = TypeVar("Result")
PAGE = 1000
"""Objects per page of a listing."""
_INSTANCE_METADATA = "/latest/api/token"
"""object_store requests this from AWS's instance metadata service if it has no credentials."""
_PART_BYTES = 5 << 20
"""obstore uploads larger objects in parts of this size."""
_MOST_WITHOUT_RANGES = 1 << 30
"""Maximum size of a file read whole because its web server does not support byte ranges."""
_PERHAPS_DONE = (Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.THROTTLED)
"""Answers to a write that the store may have done all the same."""
_NO_KEY = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f]").search
"""What object_store's paths do not have: an empty segment, ``.``, ``..`` or a control character."""
_PROCESS: dict[str, int] = {}
"""``id``: the process that made the first request."""


class ObjectStore(Store):
    """A bucket, a container or a web server.

    Args:
        client: an obstore client.
        root: see `Store`.
        options: options of the store.
        query: query of a web address; never shown, since it may be a signature.
        is_compatible: whether it is a server of S3's protocol, but not known to be S3.
        in_parts: makes a client with its own retries, for multipart uploads: only the client can retry a part.
    """

    reports_size = True
    lists_by_page = True

    def __init__(
        self,
        client: Any,
        root: str,
        options: StoreOptions,
        *,
        in_parts: Callable[[], Any],
        query: str = "",
        is_compatible: bool = False,
    ) -> None:
        self.root = root
        self._in_parts = lru_cache(maxsize=1)(in_parts)
        self._client = client
        self._requests = Requests(options.retry, options.max_concurrency)
        self._query = query
        self._is_unproven = is_compatible
        self._is_web = root.lower().startswith("http")

    def get(self, key: str, start: int | None = None, stop: int | None = None, *, etag: str | None = None) -> Fetched:
        """Read an object or a byte range; see `Store.get`. A server without byte ranges sends the whole object."""
        options: dict[str, Any] = {}
        if start is not None:
            options["range"] = {"offset": start} if stop is None else (start, stop)
        if etag is not None and not etag.startswith("W/"):  # a weak ETag never matches
            options["if_match"] = etag

        def fetch() -> Fetched:
            answer = obstore.get(self._client, key, options=cast("Any", options))
            data = memoryview(cast("Any", answer.bytes()))
            first, end = answer.range
            if len(data) != end - first:
                words = f"expected {end - first} bytes, got {len(data)}"
                raise store_error(self.url(key), "read", words, Reason.UNAVAILABLE)
            return Fetched(data, first, _object(answer.meta))

        def work(_attempt: int) -> Fetched:
            try:
                return fetch()
            except Exception as err:  # noqa: BLE001  (`_error` re-raises errors that are not the client's)
                error = err if isinstance(err, StoreError) else self._error(key, "read", err)
                if error.reason is not Reason.NOT_PARTIAL or self._is_web:
                    raise error from None
            # Object stores support byte ranges: the object is empty, or the response is not the store's.
            found = _object(obstore.head(self._client, key))
            if found.size:
                words = "the response is not the requested byte range"
                raise store_error(self.url(key), "read", words, Reason.UNAVAILABLE)
            return Fetched(memoryview(b""), 0, found)

        try:
            return self._make("get", key, "read", work, lambda found: len(found.data))
        except StoreError as err:
            if err.reason is not Reason.NOT_PARTIAL or start is None:
                raise
        options.pop("range")

        def whole(_attempt: int) -> Fetched:
            answer = obstore.get(self._client, key, options=cast("Any", options))
            data = bytearray()
            for piece in answer.stream():
                data += memoryview(cast("Any", piece))
                if len(data) > _MOST_WITHOUT_RANGES:
                    words = f"the server has no byte ranges, and the file is larger than {_MOST_WITHOUT_RANGES} bytes"
                    raise store_error(self.url(key), "read", words, Reason.NOT_PARTIAL)
            return Fetched(memoryview(bytes(data)), 0, _object(answer.meta))

        return self._make("get", key, "read", whole, lambda found: len(found.data))

    def head(self, key: str) -> StoredObject:
        """Return size and ETag of an object; see `Store.head`."""

        def work(_attempt: int) -> StoredObject:
            found = _object(obstore.head(self._client, key))
            if not self._is_web and found.etag is None and not found.modified_ms:
                words = "the response has neither ETag nor Last-Modified"
                raise store_error(self.url(key), "read", words, Reason.UNAVAILABLE)
            return found

        try:
            return self._make("head", key, "read", work)
        except StoreError as err:
            if err.reason not in (Reason.DENIED, Reason.OTHER):
                raise
            error = err
        # The response to a HEAD has no body; the one to a GET shows whether credentials have expired. And a signed web
        # address is valid for one method only.
        found = self.get(key, 0, 1).found
        if self._is_web:
            return found
        raise error

    def list_all(self, folder: str = "") -> Iterator[StoredObject]:
        """Yield all objects below a folder; see `Store.list_all`. An interrupted listing resumes after its last name.

        Raises:
            StoreError: it cannot be listed, was interrupted and its names are not in order, or the server repeats it.
        """
        last, ordered, resumed = "", True, False
        mark, pages = "", 0
        stream: Any = None

        def work(attempt: int) -> list[Any]:
            nonlocal stream, resumed
            if attempt and last and not ordered:
                words = "the listing was interrupted, and its names are not in order"
                raise store_error(self.url(folder), "list", words, Reason.OTHER)
            if stream is None or attempt:
                resumed = bool(last)
                stream = iter(obstore.list(self._client, folder or None, offset=last or None, chunk_size=PAGE))
            return list(next(stream, ()))

        while True:
            try:
                page = self._make("list", folder, "list", work)
            except StoreError as err:
                if err.reason is Reason.NO_OBJECT:  # so some servers report a missing folder
                    return
                raise
            # Azure cannot start a listing after a name: it lists from the beginning again.
            found = [meta for meta in page if not resumed or meta["path"] > last]
            names = [last, *(meta["path"] for meta in found)]
            if mark and mark in names[1:]:
                words = f"the server repeats the listing: {mark} for the second time"
                raise store_error(self.url(folder), "list", words, Reason.OTHER)
            pages += 1
            if found and not pages & (pages - 1):  # after 1, 2, 4, .. pages: so a loop of any length is found
                mark = names[1]
            ordered = ordered and all(one < other for one, other in pairwise(names))
            last = names[-1]
            yield from map(_object, found)
            if len(page) < PAGE:
                return

    def list_folder(self, folder: str = "") -> tuple[list[str], list[StoredObject]]:
        """Return what is in a folder; see `Store.list_folder`."""
        try:
            found = self._make(
                "list", folder, "list", lambda _: obstore.list_with_delimiter(self._client, folder or None)
            )
        except StoreError as err:
            if err.reason is Reason.NO_OBJECT:
                return [], []
            raise
        folders = [str(name).rstrip("/").rpartition("/")[2] for name in found["common_prefixes"]]
        return folders, [_object(meta) for meta in found["objects"]]

    def put(self, key: str, data: bytes) -> None:
        """Write an object; see `Store.put`."""
        client = self._client if len(data) <= _PART_BYTES else self._in_parts()
        self._make("put", key, "write", lambda _: obstore.put(client, key, data), lambda _: len(data))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object that must not exist; see `Store.put_if_absent`.

        If an attempt failed although the store may have done it, an existing object with the same bytes counts as
        written by it.
        """
        lost: StoreError | None = None

        def work(_attempt: int) -> None:
            nonlocal lost
            try:
                obstore.put(self._client, key, data, mode="create")
            except NotImplementedError as err:
                raise UsageError(f"{self.url(key)}: {error_text(err)}") from None
            except Exception as err:  # noqa: BLE001  (`_error` re-raises errors that are not the client's)
                error = self._error(key, "write", err)
                # Not `self.get`, which would wait for a second request slot.
                if error.reason is Reason.EXISTS and lost and obstore.get(self._client, key).bytes() == data:
                    return
                if error.reason in _PERHAPS_DONE:
                    lost = error
                raise error from None

        try:
            self._make("put", key, "write", work, lambda _: len(data))
        except StoreError as error:
            if lost is None or error.reason is Reason.EXISTS:
                raise
            raise lost from error  # the store may refuse the last attempt, and have done the lost one

    def check_exclusive(self, key: str) -> None:
        """Check that a server does not ignore ``If-None-Match``, as older ones do; see `Store.check_exclusive`."""
        if not self._is_unproven:
            return
        folder, slash, _ = key.rpartition("/")
        probe = f"{folder}{slash}.exclusive.{secrets.token_hex(8)}.partial"
        self.put_if_absent(probe, b"1")
        try:
            self.put_if_absent(probe, b"2")
        except ObjectExists:
            self._is_unproven = False
        finally:
            with suppress(StoreError):
                self.delete(probe)
        if self._is_unproven:
            raise UsageError(
                f"{self.root}: the server ignores If-None-Match: an object that exists is replaced, so a commit could "
                "replace that of another writer"
            )

    def delete(self, key: str) -> None:
        """Delete an object; see `Store.delete`."""

        def work(attempt: int) -> None:
            try:
                obstore.delete(self._client, key)
            except FileNotFoundError:
                if not attempt:  # on a retry: the attempt whose response was lost succeeded
                    raise
            except TypeError:  # obstore's for a path that it cannot parse
                raise UsageError(f"{self.url(key)}: not a valid key") from None

        self._make("delete", key, "delete", work)

    def url(self, key: str) -> str:
        """Return the URL of a key, as users spell it."""
        return f"{self.root}/{key}{'?..' if self._query else ''}"

    def _make(
        self,
        kind: str,
        key: str,
        action: str,
        work: Callable[[int], Result],
        size: Callable[[Result], int] | None = None,
    ) -> Result:
        _refuse_fork(self.url(key))

        def checked(attempt: int) -> Result:
            try:
                return work(attempt)
            except (StoreError, UsageError):
                raise
            except Exception as err:  # noqa: BLE001  (`_error` re-raises errors that are not the client's)
                raise self._error(key, action, err) from None
            except BaseException as err:
                if type(err).__name__ != "PanicException":  # a panic in Rust; Python has no class for it
                    raise
                words = f"the client panicked: {error_text(err)}"
                raise store_error(self.url(key), action, words, Reason.OTHER) from None

        return self._requests.make(kind, self.url(key), checked, size)

    def _error(self, key: str, action: str, err: Exception) -> StoreError:
        from obstore import exceptions  # noqa: PLC0415

        if isinstance(err, exceptions.InvalidPathError) and action == "list" and not _NO_KEY(key.strip("/") or "x"):
            words = f"an object has a key that cannot be named: {error_text(err)}"
            return store_error(self.url(key), action, words, Reason.OTHER)
        if isinstance(err, (ValueError, exceptions.InvalidPathError)):
            raise UsageError(f"{self.url(key)}: {error_text(err)}") from None
        if not isinstance(err, (exceptions.BaseError, OSError)):
            raise err
        if self.root.lower().startswith("s3") and _INSTANCE_METADATA in str(err):
            what = "no credentials in storage_options, the environment or AWS's files, and no instance metadata service"
            return store_error(self.url(key), action, what, Reason.BAD_CREDENTIALS)
        kinds = (
            (exceptions.AlreadyExistsError, Reason.EXISTS),
            (exceptions.PreconditionError, Reason.CHANGED),
            (exceptions.PermissionDeniedError, Reason.DENIED),
            (exceptions.UnauthenticatedError, Reason.BAD_CREDENTIALS),
            (FileNotFoundError, Reason.NO_OBJECT),
        )
        reason = next((why for kind, why in kinds if isinstance(err, kind)), None)
        return store_error(self.url(key), action, str(err), reason)


def _refuse_fork(url: str) -> None:
    """Raise `UsageError` in a forked process whose parent has made requests: it lacks the client's threads."""
    if _PROCESS.setdefault("id", os.getpid()) != os.getpid():
        raise UsageError(
            f"{url}: a forked process cannot use object stores if its parent has used them: start processes by "
            "'spawn' or 'forkserver' (multiprocessing.set_start_method)"
        )


def _object(meta: Any) -> StoredObject:
    modified = meta.get("last_modified")
    return StoredObject(
        meta["path"],
        int(meta["size"]),
        meta.get("e_tag"),
        None if modified is None else int(modified.timestamp() * 1000),
    )
