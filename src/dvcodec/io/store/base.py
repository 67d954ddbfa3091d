"""The interface that every store has, whatever is behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dvcodec.io.store.options import DEFAULT_CONCURRENCY

__all__ = ["Fetched", "Store", "StoredObject"]


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object, or a file, as a store lists it.

    Attributes:
        key: its name in the store, without the bucket.
        size: bytes; None where the store does not say.
        etag: changes whenever the object does; None where the store has none.
        modified_ms: when it was written, milliseconds since 1970 UTC; None where the store does not say.
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
        start: offset of the first in the object.
        found: the object that they are of.
    """

    data: memoryview
    start: int
    found: StoredObject


class Store(ABC):
    """A bucket, a container, a web server or a file system. Safe to use from several threads.

    Every method makes one request, `get_many` and the lists as many as it takes. All raise `StoreError`.

    Attributes:
        root: the prefix of keys in URLs: ``s3://lake``.
        max_concurrency: requests under way at once.
        tells_size: whether the answer to `get` has the size of the whole object.
        excludes: whether `put_if_absent` is to be had.
        lists_by_page: whether `list_all` is lazy, and costs one request for a thousand names.
    """

    root: str
    max_concurrency: int = DEFAULT_CONCURRENCY
    tells_size: bool = False
    excludes: bool = True
    lists_by_page: bool = False

    def url(self, key: str) -> str:
        """Return how users spell a key."""
        return f"{self.root}/{key}"

    @abstractmethod
    def get(self, key: str, start: int | None = None, stop: int | None = None, *, etag: str | None = None) -> Fetched:
        """Read an object, or a byte range of it, which is cut at the object's end.

        Args:
            key: of the object.
            start: first byte; None for the whole object.
            stop: byte after the last.
            etag: the expected version, else `ObjectChanged`; None for any.

        Raises:
            StoreError: the object or range does not exist or cannot be read.
        """

    def get_many(self, key: str, ranges: Sequence[tuple[int, int]], *, etag: str | None = None) -> list[memoryview]:
        """Read many byte ranges (start, stop) of an object, several at a time.

        Raises:
            StoreError: see `get`.
        """
        if len(ranges) < 2:
            return [self.get(key, *one, etag=etag).data for one in ranges]
        with ThreadPoolExecutor(min(len(ranges), self.max_concurrency)) as pool:
            return [found.data for found in pool.map(lambda one: self.get(key, *one, etag=etag), ranges)]

    @abstractmethod
    def head(self, key: str) -> StoredObject:
        """Return size and ETag of an object.

        Raises:
            StoreError: the object does not exist or cannot be reached.
        """

    @abstractmethod
    def list_all(self, folder: str = "") -> Iterator[StoredObject]:
        """Yield everything below a folder, however deep, in no order; nothing if there is none.

        Raises:
            StoreError: it cannot be listed.
        """

    @abstractmethod
    def list_folder(self, folder: str = "") -> tuple[list[str], list[StoredObject]]:
        """Return the bare names of the folders, and the objects, that are in a folder; nothing if there is none.

        Raises:
            StoreError: it cannot be listed.
        """

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write an object, whole; what was there is replaced.

        Raises:
            StoreError: it cannot be written.
        """

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object that must not be there yet: of several writers at once, one succeeds.

        Raises:
            ObjectExists: it is there.
            StoreError: it cannot be written.
            UsageError: the store cannot guarantee that.
        """

    @abstractmethod
    def move(self, key: str, to: str) -> None:
        """Give an object another name; what was there is replaced. Object stores copy it and remove the first.

        Raises:
            StoreError: it cannot be moved; then it may be at both places.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; that there is none may or may not be an error.

        Raises:
            StoreError: it cannot be removed.
        """
