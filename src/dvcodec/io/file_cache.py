"""The cache of a `Storage`: contents of small remote files, sizes from listings, and recent listings."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial

from dvcodec.io.listing import Listing, is_below, location_key
from dvcodec.io.remote import StoreSource
from dvcodec.io.store import StoredObject, StoreOptions, open_store

__all__ = ["FileCache"]

_MAX_BYTES = 128 << 20
_MAX_FILES = 1 << 14


class FileCache:
    """A bounded LRU cache of remote files. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A key is a location and the number of writes to it, so a write makes earlier entries unreachable.
        self._sources: OrderedDict[tuple[str, int], StoreSource] = OrderedDict()
        self._objects: dict[tuple[str, int], StoredObject] = {}
        self._writes: dict[str, int] = {}
        self._bytes = 0
        self._listings: dict[str, Listing] = {}
        self._opened: set[str] = set()

    def __str__(self) -> str:
        with self._lock:
            return f"{len(self._sources)} files open, {len(self._objects)} listed, {self._bytes} bytes kept"

    def _key(self, location: str) -> tuple[str, int]:
        """Return the key of a location. The caller holds the lock."""
        return location, self._writes.get(location_key(location), 0) if self._writes else 0

    def source(self, location: str, options: StoreOptions, size: int | None) -> StoreSource:
        """Return the source of a remote file, opened once.

        Args:
            location: URL.
            options: options of its store.
            size: bytes according to metadata; None if unknown.
        """
        with self._lock:
            key = self._key(location)
            source = self._sources.get(key)
            if source is None:
                store, name = open_store(location, options)
                listed, grown = self._objects.get(key), partial(self._grown, key)
                source = StoreSource(store, name, location, listed=listed, expected=size, eager=True, grown=grown)
                self._sources[key] = source
            self._sources.move_to_end(key)
            return source

    def _grown(self, key: tuple[str, int], by: int) -> None:
        """Count bytes that a source keeps, and evict the least recently used sources."""
        with self._lock:
            if key not in self._sources:  # evicted, but still in use
                return
            self._bytes += by
            while len(self._sources) > 1 and (self._bytes > _MAX_BYTES or len(self._sources) > _MAX_FILES):
                _, evicted = self._sources.popitem(last=False)
                self._bytes -= evicted.kept

    def add_object(self, location: str, found: StoredObject) -> None:
        """Keep the size and ETag that a listing reports for a file."""
        with self._lock:
            if len(self._objects) < _MAX_FILES:
                self._objects[self._key(location)] = found

    def listed(self, location: str) -> StoredObject | None:
        """Return the size and ETag of a file as listed, if they are kept."""
        with self._lock:
            return self._objects.get(self._key(location))

    def add_listing(self, listing: Listing) -> Listing:
        """Keep a listing; return it."""
        with self._lock:
            self._listings[listing.root] = listing
        return listing

    def listing(self, folder: str) -> Listing | None:
        """Return a fresh listing of a folder or of one above it, if there is one."""
        root = folder.rstrip("/")
        with self._lock:
            found = [one for one in self._listings.values() if root == one.root or root.startswith(f"{one.root}/")]
        return next((one for one in found if one.is_fresh), None)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._sources.clear()
            self._objects.clear()
            self._listings.clear()
            self._bytes = 0

    def drop_file(self, location: str) -> None:
        """Drop a file under all spellings of its location, and the listings that include it."""
        key = location_key(location)
        with self._lock:
            self._writes[key] = self._writes.get(key, 0) + 1
            for root in [root for root, one in self._listings.items() if is_below(key, one.key)]:
                del self._listings[root]

    def open_folder(self, folder: str) -> None:
        """Drop everything below a folder, unless this is the first call for it."""
        key = location_key(folder)
        with self._lock:
            if key not in self._opened:
                self._opened.add(key)
                return
            for known in [one for one in self._sources if is_below(location_key(one[0]), key)]:
                self._bytes -= self._sources.pop(known).kept
            for known in [one for one in self._objects if is_below(location_key(one[0]), key)]:
                del self._objects[known]
            for root, one in list(self._listings.items()):
                if is_below(one.key, key) or is_below(key, one.key):
                    del self._listings[root]
