"""A store in memory that counts what it is asked, and behaves as it is told: no ranges, weak ETags, errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dvcodec.io.store import Fetched, Reason, Store, StoredObject
from dvcodec.io.store.errors import store_error

ROOT = "s3://lake"


@dataclass
class MemoryStore(Store):
    """A bucket of these objects, with every put a new ETag and a second later than the one before."""

    objects: dict[str, bytes] = field(default_factory=dict)
    has_ranges: bool = True
    etags: str = '"{}"'
    """Of a number; empty: none are given out."""
    reports_size: bool = True
    lists_by_page: bool = True
    excludes: bool = True
    refused: dict[str, Reason] = field(default_factory=dict)
    """What fails, by action: ``get``, ``head`` or ``list``."""
    asked: list[tuple[object, ...]] = field(default_factory=list)
    """Actions, keys, and ranges of those that are read."""

    root = ROOT

    def __post_init__(self) -> None:
        self._puts = dict.fromkeys(self.objects, 1)

    def opened(self, url: str, _: object = None) -> tuple[MemoryStore, str]:
        """In place of `open_store`: the store of every URL."""
        return self, url.removeprefix(f"{self.root}/").strip("/")

    def url(self, key: str) -> str:
        return f"{self.root}/{key}"

    def get(self, key: str, start: int | None = None, stop: int | None = None, *, etag: str | None = None) -> Fetched:
        self._ask("get", key, start, stop)
        found = self._object(key)
        if etag is not None and not etag.startswith("W/") and etag != found.etag:
            raise store_error(self.url(key), "read", "another ETag", Reason.CHANGED)
        data = memoryview(self.objects[key])
        if start is None or not self.has_ranges:
            return Fetched(data, 0, found)
        if start >= len(data):
            raise store_error(self.url(key), "read", "416", Reason.RANGE)
        return Fetched(data[start:stop], start, found)

    def head(self, key: str) -> StoredObject:
        self._ask("head", key)
        return self._object(key)

    def list_all(self, folder: str = "") -> Iterator[StoredObject]:
        self._ask("list", folder)
        yield from (self._object(key) for key in list(self.objects) if key.startswith(f"{folder}/" if folder else ""))

    def list_folder(self, folder: str = "") -> tuple[list[str], list[StoredObject]]:
        start = len(folder) + 1 if folder else 0
        found = list(self.list_all(folder))
        folders = {one.key[start:].partition("/")[0] for one in found if "/" in one.key[start:]}
        return sorted(folders), [one for one in found if "/" not in one.key[start:]]

    def put(self, key: str, data: bytes) -> None:
        self.objects[key] = data
        self._puts[key] = self._puts.get(key, 0) + 1

    def put_if_absent(self, key: str, data: bytes) -> None:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        del self.objects[key]

    def _ask(self, action: str, key: str, *more: object) -> None:
        self.asked.append((action, key, *more))
        if action in self.refused:
            raise store_error(self.url(key), action, "so it was told", self.refused[action])

    def _object(self, key: str) -> StoredObject:
        if key not in self.objects:
            raise store_error(self.url(key), "read", "", Reason.NO_OBJECT)
        puts = self._puts[key]
        return StoredObject(key, len(self.objects[key]), self.etags.format(puts) or None, 1000 * puts)
