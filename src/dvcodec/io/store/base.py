"""The interface of all stores, local files behind it, and requests: counted, logged, and retried if they may succeed.

object_store retries silently. Its retries are switched off, and those made here are counted and logged. Logger
``dvcodec.store`` logs each retry at INFO and each request at DEBUG.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from dvcodec.io.sink import open_local_sink
from dvcodec.io.store.errors import Reason, StoreError
from dvcodec.io.store.options import RetryPolicy
from dvcodec.io.target import with_slashes


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object or file in a store.

    Attributes:
        key: its name in the store, without the bucket.
        size: bytes; None if the store does not report it.
        etag: changes whenever the object does; None if the store has none.
        modified_ms: last modification, milliseconds since 1970 UTC; None if the store does not report it.
    """

    key: str
    size: int | None
    etag: str | None = None
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to one read.

    Attributes:
        data: the bytes.
        start: offset of the first byte in the object.
        found: the object.
    """

    data: memoryview
    start: int
    found: StoredObject


class Store(ABC):
    """A bucket, a container, a web server or a file system. Safe to use from several threads.

    Every method except the listings makes one request. All raise `StoreError`.

    Attributes:
        root: the prefix of keys in URLs: ``s3://lake``.
        reports_size: whether a response to `get` has the size of the whole object.
        excludes: whether `put_if_absent` is supported.
        lists_by_page: whether `list_all` is lazy, with one request per thousand names.
    """

    root: str
    reports_size: bool = False
    excludes: bool = True
    lists_by_page: bool = False

    @abstractmethod
    def url(self, key: str) -> str:
        """Return the URL of a key, as users spell it."""

    @abstractmethod
    def get(self, key: str, start: int | None = None, stop: int | None = None, *, etag: str | None = None) -> Fetched:
        """Read an object, or a byte range clipped to its end.

        Args:
            key: key of the object.
            start: first byte; None for the whole object.
            stop: byte after the last.
            etag: the expected version; None for any.

        Raises:
            ObjectChanged: the object has another ETag than `etag`.
            StoreError: the object or range does not exist or cannot be read.
        """

    @abstractmethod
    def head(self, key: str) -> StoredObject:
        """Return size and ETag of an object.

        Raises:
            StoreError: the object does not exist or cannot be reached.
        """

    @abstractmethod
    def list_all(self, folder: str = "") -> Iterator[StoredObject]:
        """Yield all objects below a folder, recursively and unordered; none if it does not exist.

        Raises:
            StoreError: it cannot be listed.
        """

    @abstractmethod
    def list_folder(self, folder: str = "") -> tuple[list[str], list[StoredObject]]:
        """Return the bare names of the folders in a folder, and the objects in it; none if it does not exist.

        Raises:
            StoreError: it cannot be listed.
        """

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write an object atomically; an existing one is replaced.

        Raises:
            StoreError: it cannot be written.
        """

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object that must not exist yet: only one of several concurrent writers succeeds.

        Raises:
            ObjectExists: it exists.
            StoreError: it cannot be written.
            UsageError: the store does not support this.
        """

    def check_exclusive(self, key: str) -> None:
        """Check that `put_if_absent` replaces no object, if that is uncertain: once, by an object next to `key`.

        Raises:
            UsageError: it does, or the store does not have it.
            StoreError: the store cannot be written.
        """
        if not self.excludes:
            self.put_if_absent(key, b"")  # which raises UsageError

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete an object; whether a missing one is an error depends on the store.

        Raises:
            StoreError: it cannot be removed.
        """


class LocalStore:
    """The local file system, as far as a `Storage` uses it like a store. Keys are paths.

    Its errors are the operating system's, not `StoreError`.
    """

    def head(self, key: str) -> StoredObject:
        """Return the size of a file; see `Store.head`."""
        state = Path(key).stat()
        return StoredObject(with_slashes(key), state.st_size, None, state.st_mtime_ns // 1_000_000)

    def list_columns(self, folder: str) -> tuple[list[str], list[int], list[int]]:
        """Return paths, bytes and times of modification (nanoseconds since 1970 UTC) of all files below a folder.

        They are unordered; links to folders are not followed.
        """
        paths, sizes, times = list[str](), list[int](), list[int]()
        left = [folder]
        while left:
            here = left.pop()
            try:
                entries = os.scandir(here)
            except FileNotFoundError:
                if here == folder:
                    raise
                continue  # removed since it was listed
            with entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    elif entry.is_file():
                        try:
                            state = entry.stat()
                        except FileNotFoundError:
                            continue
                        paths.append(entry.path)
                        sizes.append(state.st_size)
                        times.append(state.st_mtime_ns)
        return paths if os.sep == "/" else list(map(with_slashes, paths)), sizes, times

    def names(self, folder: str) -> list[str]:
        """Return all bare names in a folder, including dangling links."""
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write a file that must not exist; see `Store.put_if_absent`.

        Raises:
            FileExistsError: it exists.
            OSError: the file system has no hard links: readers could see an empty file.
        """
        with open_local_sink(Path(key), exclusive=True, whole=True) as sink:
            sink.write(data)

    def check_exclusive(self, key: str) -> None:
        """Check nothing: `put_if_absent` replaces no file."""

    def delete(self, key: str) -> None:
        """Delete a file; see `Store.delete`."""
        Path(key).unlink()


# ------------------------------------------------------------------ requests

LOGGER = logging.getLogger("dvcodec.store")
Result = TypeVar("Result")

_AGAIN = (Reason.THROTTLED, Reason.TIMEOUT, Reason.UNAVAILABLE, Reason.UNREACHABLE, Reason.CONFLICT)
_UNREACHABLE_RETRIES = 3
"""An endpoint where nothing listens is usually wrong: fail early, not after three minutes."""


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests of this process to stores; the difference of two is what happened in between.

    Attributes:
        get: reads of objects or byte ranges.
        head: requests for a size.
        list: listings, by page if the client reports pages.
        put: writes.
        delete: deletions.
        retries: number of these that were retries.
        bytes_read: bytes of objects read.
        bytes_written: bytes of objects written.
    """

    get: int = 0
    head: int = 0
    list: int = 0
    put: int = 0
    delete: int = 0
    retries: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def requests(self) -> int:
        """Requests of all kinds."""
        return self.get + self.head + self.list + self.put + self.delete

    def __sub__(self, other: RequestCounts) -> RequestCounts:
        return RequestCounts(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))

    def __str__(self) -> str:
        kinds = ("get", "head", "list", "put", "delete")
        made = ", ".join(f"{getattr(self, kind):,} {kind.upper()}" for kind in kinds if getattr(self, kind))
        return (
            f"{self.requests:,} request{'s' * (self.requests != 1)}{f' ({made})' if made else ''}, "
            f"{self.bytes_read:,} bytes read, "
            f"{self.bytes_written:,} written, {self.retries:,} retried"
        )


_LOCK = threading.Lock()
_COUNTS = {one.name: 0 for one in fields(RequestCounts)}


def request_counts() -> RequestCounts:
    """Return the requests of this process so far, in all threads.

    >>> before = request_counts()
    >>> (request_counts() - before).requests
    0
    """
    with _LOCK:
        return RequestCounts(**_COUNTS)


def _count(kind: str, by: int = 1) -> None:
    with _LOCK:
        _COUNTS[kind] += by


class Requests:
    """Makes the requests of one client.

    Args:
        policy: how to retry.
        most: requests at once.
    """

    def __init__(self, policy: RetryPolicy, most: int) -> None:
        self._policy = policy
        self._slots = threading.BoundedSemaphore(most)

    def make(
        self, kind: str, url: str, work: Callable[[int], Result], size: Callable[[Result], int] | None = None
    ) -> Result:
        """Make a request; retry transient failures.

        Args:
            kind: ``get``, ``head``, ``list``, ``put`` or ``delete``.
            url: for the log.
            work: makes one attempt, given the number of earlier ones; raises `StoreError`.
            size: returns the bytes of a result; None if it is not the content of an object.

        Raises:
            StoreError: the last attempt failed.
        """
        begun = time.monotonic()
        attempt = 0
        while True:
            started = time.monotonic()
            _count(kind)
            try:
                with self._slots:
                    result = work(attempt)
            except StoreError as err:
                attempt += 1
                wait = self._wait(err, attempt, time.monotonic() - begun)
                if wait is None:
                    LOGGER.debug("%s %s: %s", kind.upper(), url, err.reason.value)
                    raise
                _count("retries")
                LOGGER.info(
                    "%s %s: %s (%s): retry in %.1f s, %d of %d",
                    *(kind.upper(), url, err.reason.value, err.words, wait, attempt, self._policy.max_retries),
                )
                time.sleep(wait)
            else:
                count = 0 if size is None else size(result)
                _count("bytes_written" if kind == "put" else "bytes_read", count)
                LOGGER.debug("%s %s: %d bytes, %.0f ms", kind.upper(), url, count, 1000 * (time.monotonic() - started))
                return result

    def _wait(self, err: StoreError, attempt: int, elapsed: float) -> float | None:
        """Return the seconds to wait before the next attempt; None for no further attempt."""
        policy = self._policy
        most = policy.max_retries
        if err.reason is Reason.UNREACHABLE:
            most = min(most, _UNREACHABLE_RETRIES)
        if err.reason not in _AGAIN or attempt > most or elapsed > policy.timeout:
            return None
        longest: float = min(policy.init_backoff * 2 ** (attempt - 1), policy.max_backoff)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)
