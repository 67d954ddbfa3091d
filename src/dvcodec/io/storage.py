"""The storage of one reader: its options, and a cache of listings and small files.

A table, or a command, opens many files. One `Storage` serves all of them, so that nothing is requested twice: small
files are kept, and sizes known from a listing are not requested again. A new `Storage` is empty: to see a
table's current state, open it again. Writing, moving or removing a file through a `Storage` drops it from the cache.

An object in a store is a source of few requests: each byte is read once, two versions of an object are never mixed.

Many files are read in a few threads (`run_bounded`).
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TypeAlias, TypeVar, overload
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import BytesLike
from dvcodec.core.errors import DvcodecError, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory, too_little_memory
from dvcodec.core.usage import as_count
from dvcodec.io.source import ReadAhead, Source, beyond_end, held_source, hold_source, open_local, read_small
from dvcodec.io.store import (
    Fetched,
    LocalStore,
    ObjectChanged,
    Reason,
    Store,
    StoredObject,
    StoreError,
    StoreOptions,
    open_store,
)
from dvcodec.io.target import (
    ask_once,
    file_key,
    hide_values,
    is_local,
    is_url,
    join,
    local_name,
    local_path,
    path_below,
)

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_bounded(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yield ``work(item)`` for each item, in order. At most two tasks per thread are pending.

    Raises:
        UsageError: fewer than one thread.
    """
    if threads < 1:
        raise UsageError(f"threads must be 1 or more, not {threads}")
    if threads == 1:
        yield from map(work, items)
        return
    left = iter(items)
    pool = ThreadPoolExecutor(threads)
    interrupted = False
    try:
        running: deque[Future[Result]] = deque(pool.submit(work, item) for item in islice(left, 2 * threads))
        while running:
            result = running.popleft().result()
            running.extend(pool.submit(work, item) for item in islice(left, 1))
            yield result
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        pool.shutdown(wait=not interrupted, cancel_futures=True)


HEAD_BYTES = 1 << 16
"""First read of an object of unknown size; the response includes the size, which saves a request."""
WHOLE_BYTES = 4 << 20
"""Objects up to this size are read whole rather than range by range."""


class StoreSource:
    """An object of a store, see `dvcodec.io.Source`. Safe to use from several threads.

    Requests are lazy. The first response fixes size and version (ETag); later requests are for the same version.

    Args:
        store: store of the object.
        key: key of the object.
        name: for errors.
        listed: the object as a listing reported it.
        expected: bytes according to metadata; only a hint.
        eager: whether the first read starts at the beginning of a small object, expecting further reads; False reads
            only the requested range.
        grown: called with the change in the number of kept bytes.
    """

    remote = True

    def __init__(
        self,
        store: Store,
        key: str,
        name: str,
        *,
        listed: StoredObject | None = None,
        expected: int | None = None,
        eager: bool = False,
        grown: Callable[[int], object] | None = None,
    ) -> None:
        self.name = name
        self._store, self._key, self._eager = store, key, eager
        self._count = grown or (lambda _by: None)
        self._known = listed if listed is not None and listed.size is not None else None
        self._expected = expected
        self._trusted = False  # whether a caller has received bytes, or the size, of `_known`
        self._answered = False  # whether `_known` is from a response, whose ETag is reliable, not from a listing
        self._head = self._tail = memoryview(b"")
        self._has_read = False
        self._lock = threading.RLock()

    @property
    def size(self) -> int:
        """Bytes of the object.

        Raises:
            OSError: the object does not exist or cannot be read.
        """
        with self._lock:
            if self._known is None:
                self._begin(0, 0)
            self._trusted = True
            return self._size

    @property
    def kept(self) -> int:
        """Bytes kept in memory."""
        return len(self._head) + len(self._tail)

    def prefetch(self) -> None:
        """Read a small object whole, or the beginning of a large one, ahead of use.

        Errors are ignored here; the actual read raises them.
        """
        with suppress(OSError, DvcodecError), self._lock:
            if self._known is None:
                self._begin(0, 0)
            if len(self._head) < self._size <= WHOLE_BYTES:
                self._keep(len(self._head), self._size)

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`.

        Raises:
            Truncated: the range is not in the object.
            ObjectChanged: the object was replaced since its size or other bytes were returned.
            OSError: it cannot be read.
        """
        data = self.read_up_to(offset, size) if offset >= 0 and size >= 0 else memoryview(b"")
        if offset < 0 or size < 0 or len(data) != size or (not size and offset and offset > self.size):
            raise beyond_end(self, offset, size)
        return data

    def read_up_to(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`, or as many as there are.

        Raises:
            OSError: see `read`.
        """
        stop = offset + size
        with self._lock:
            if self._known is None and size:
                found = self._begin(offset, stop)
                if found is not None:
                    return found
            if not size:
                return memoryview(b"")
            end = min(stop, self._size)
            if end <= offset:
                self._trusted = True  # an empty result counts as received bytes
                return memoryview(b"")
            again, self._has_read = self._has_read, True
            if end > len(self._head) and self._size <= WHOLE_BYTES and (self._eager or again or self._head):
                self._keep(len(self._head), self._size)
                end = min(stop, self._size)
            if end <= len(self._head):
                self._trusted = True
                return self._head[offset:end]
            # A reader of the last bytes will next read the footer, which precedes them.
            near = max(self._size - HEAD_BYTES, 0)
            if end == self._size and offset >= near and not self._tail:
                tail = self._get(near, end)
                if self._size != end:
                    return self.read_up_to(offset, size)
                self._tail = tail
                self._count(len(tail))
            if self._tail and offset >= self._size - len(self._tail):
                start = offset - (self._size - len(self._tail))
                return self._tail[start : start + end - offset]
        data = self._get(offset, end)
        # The size in a listing was that of an older, shorter version. This happens once: from now on the size is fixed.
        return self.read_up_to(offset, size) if end < stop and end < self.size else data

    @property
    def _size(self) -> int:
        return 0 if self._known is None else self._known.size or 0

    def _begin(self, offset: int, stop: int) -> memoryview | None:
        """Make the first request; return the bytes if only the range was requested."""
        self._answered = True
        if not self._store.reports_size:
            self._known = self._store.head(self._key)
            if self._known.size is None:  # some web servers do not report it
                self._set_head(self._store.get(self._key).data)
                self._known = StoredObject(self._key, len(self._head))
            return None
        hint = self._expected
        if hint is not None and max(hint, stop) <= WHOLE_BYTES:
            first, last = 0, max(hint, stop, 1)
        elif (self._eager and stop <= WHOLE_BYTES) or not stop:
            first, last = 0, max(HEAD_BYTES, stop)
        else:
            first, last = offset, stop
        try:
            found = self._store.get(self._key, first, last)
        except StoreError as err:
            if err.reason is not Reason.RANGE:
                raise
            self._known = self._store.head(self._key)  # the object is empty or shorter than expected
            return None
        self._known = found.found
        if found.start == 0:
            self._set_head(found.data)
            return None
        self._trusted = True
        return found.data

    def _keep(self, start: int, stop: int) -> None:
        """Read the rest of a small object, and keep all of it."""
        more = self._get(start, stop)
        if (start and not self._head) or len(more) < self._size - start:  # the object was replaced
            start, more = 0, self._get(0, self._size)
        self._set_head(memoryview(bytes(self._head) + bytes(more)) if start else more)

    def _set_head(self, data: memoryview) -> None:
        with self._lock:
            self._count(len(data) - len(self._head))
            self._head = data

    def _get(self, start: int, stop: int) -> memoryview:
        """Read a range of the known version; a version known only from a listing is updated if it was replaced."""
        with self._lock:
            known = self._known
        try:
            found = self._store.get(self._key, start, stop, etag=None if known is None else known.etag)
        except StoreError as err:
            if err.reason not in (Reason.CHANGED, Reason.RANGE) or known is None:
                raise
            found = self._get_current(start, err)
        self._settle(found.found)
        if found.start < start:  # a server without byte ranges sends everything
            self._set_head(found.data)
        return found.data[start - found.start : stop - found.start]

    def _get_current(self, start: int, err: StoreError) -> Fetched:
        """Read an object that was replaced since it was listed."""
        now = self._store.head(self._key)
        self._settle(now)
        if start >= (now.size or 0):
            raise err
        # Some stores report another ETag in listings than in responses: the latter counts.
        return self._store.get(self._key, start, now.size, etag=now.etag)

    def _settle(self, now: StoredObject) -> None:
        """Compare the version in a response with the known one, which is updated if it comes from a listing.

        Raises:
            ObjectChanged: they differ, and a caller has received bytes or the size of the known one.
        """
        with self._lock:
            known = self._known
            if known is not None and known.size is not None and now.size is not None:
                changed = not _is_same(known, now) if self._answered else known.size != now.size
                if changed and self._trusted:
                    words = f"{known.size} bytes, ETag {known.etag}; now {now.size} bytes, ETag {now.etag}"
                    raise ObjectChanged(self._store.url(self._key), "read", Reason.CHANGED, words) from None
                if changed and self._head:  # kept, but not returned to a caller yet
                    self._set_head(memoryview(b""))
                self._known = now
            self._answered = self._trusted = True


def _is_same(one: StoredObject, other: StoredObject) -> bool:
    """Whether two responses are for the same version. Weak ETags may differ between servers."""
    if one.etag is None or other.etag is None or "W/" in (one.etag[:2], other.etag[:2]):
        return (one.size, one.modified_ms) == (other.size, other.modified_ms)
    return (one.size, one.etag) == (other.size, other.etag)


_FRESH_SECONDS = 30.0
"""How long the listing made to open a table is reused for files below its folder."""
_ACCOUNT = re.compile(r"@[^/]*")


@dataclass(frozen=True, slots=True)
class Listed:
    """A file below a folder.

    Attributes:
        location: path or URL, spelled as the folder is.
        size: bytes.
        modified_ms: last modification, milliseconds since 1970 UTC; None if the storage does not report it.
    """

    location: str
    size: int
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ListedFiles(Sequence[Listed]):
    """Files below a folder, by column: there may be millions.

    Attributes:
        locations: see `Listed`.
        sizes: int64, bytes.
        modified_ms: int64; see `Listed`. -1 if the storage does not report it.
    """

    locations: Sequence[str]
    sizes: NDArray[np.int64]
    modified_ms: NDArray[np.int64]

    @classmethod
    def of(cls, files: Sequence[Listed]) -> ListedFiles:
        """Return files by column."""
        sizes = np.array([file.size for file in files], np.int64)
        times = np.array([-1 if file.modified_ms is None else file.modified_ms for file in files], np.int64)
        return cls([file.location for file in files], sizes, times)

    def __len__(self) -> int:
        return len(self.locations)

    @overload
    def __getitem__(self, number: int) -> Listed: ...

    @overload
    def __getitem__(self, number: slice) -> list[Listed]: ...

    def __getitem__(self, number: int | slice) -> Listed | list[Listed]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        modified = int(self.modified_ms[number])
        return Listed(self.locations[number], int(self.sizes[number]), None if modified < 0 else modified)


class Listing:
    """A recursive listing of a folder.

    Args:
        root: the folder.
        files: all files below it.
    """

    def __init__(self, root: str, files: list[Listed]) -> None:
        self.root, self._files = root, files
        self.key = location_key(root)
        self._made = time.monotonic()

    @property
    def is_fresh(self) -> bool:
        """Whether it is recent enough to reuse."""
        return time.monotonic() - self._made < _FRESH_SECONDS

    def names(self, folder: str) -> list[str]:
        """Return the names in the root, or in a folder below it."""
        inner, chain, outer = folder.partition("::")
        inner = f"{inner.rstrip('/')}/"
        below = (file.location.removesuffix(chain + outer) for file in self._files if file.location.startswith(inner))
        return list(dict.fromkeys(one[len(inner) :].lstrip("/").partition("/")[0] for one in below))

    def below(self, folder: str) -> list[Listed]:
        """Return the files below the root, or below one of its folders."""
        root = folder.rstrip("/")
        return self._files if root == self.root else [one for one in self._files if one.location.startswith(f"{root}/")]


def location_key(location: str) -> str:
    """Return a key that all spellings of a location share; two different locations may share it too.

    It ignores percent-encoding, which web addresses may have, and the account in URLs of Azure.
    """
    return _ACCOUNT.sub("", file_key(unquote(location)))


def is_below(key: str, folder: str) -> bool:
    """Whether a location is a folder or below it; both are `location_key`s."""
    return key == folder or key.startswith(f"{folder.rstrip('/')}/")


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


_LOCAL_THREADS = 8
_PAGE = 1000


class Storage:
    """Opens and lists the files of one reader. Safe to use from several threads.

    Args:
        storage_options: see `dvcodec.io.store.options`.

    Attributes:
        options: those options.
        home: folder of the table whose files these are, or None; see `of_table`.
        limits: for decoding the files.
    """

    def __init__(
        self, storage_options: Mapping[str, object] | StoreOptions | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.options = (
            storage_options if isinstance(storage_options, StoreOptions) else StoreOptions.of(storage_options)
        )
        self._cache = FileCache()
        self.limits = limits
        self.home: str | None = None

    def __repr__(self) -> str:
        return f"<Storage: {self._cache}>"

    def __reduce__(self) -> tuple[Callable[..., Storage], tuple[StoreOptions, str | None, Limits]]:
        """Pickle the options, which include secrets, but not the cache."""
        return _rebuild, (self.options, self.home, self.limits)

    def limited(self, limits: Limits) -> Storage:
        """Return a storage with the same options and cache, and other limits."""
        made = Storage(self.options, limits)
        made._cache, made.home = self._cache, self.home
        return made

    def of_table(self, folder: str) -> Storage:
        """Return a storage with the same options and cache, for the files of a table.

        Errors about files outside the table's folder do not show what is in them; see `dvcodec.io.target`.

        Args:
            folder: path or URL of the table's folder, or of one below it.
        """
        if self.home is not None and path_below(folder, self.home) is not None:
            return self
        made = self.limited(self.limits)
        made.home = folder
        return made

    def open(self, location: str, *, size: int | None = None) -> AbstractContextManager[Source]:
        """Open a file for reading.

        Args:
            location: path or URL.
            size: bytes according to metadata, which saves a request for the size of a remote file. The source's own
                `size` is always the actual one.

        Raises:
            UsageError, MissingExtra, LimitExceeded: see `dvcodec.io.open_source`.
            OSError: it cannot be opened.
        """
        held = held_source(location)
        return self._open(location, size) if held is None else _Held(held, location, self.home)

    @contextmanager
    def _open(self, location: str, size: int | None) -> Iterator[Source]:
        with hide_values(location, self.home), enough_memory("what is read", location):
            if (local := local_path(location)) is None:
                yield self.remote(location, size)
            else:
                with open_local(local) as source:
                    yield source

    @contextmanager
    def hold(self, location: str, ahead: tuple[int, int] | None = None) -> Iterator[Source]:
        """Open a file once for every `open` of it within the block, in this thread.

        Use it to read many ranges of a file by separate calls.

        Args:
            location: path or URL, spelled as it will be opened.
            ahead: offset and size (bytes) of a range that is read at once, as far as the file has it, when the first
                of its bytes are asked for.

        Raises:
            UsageError, OSError: see `open`.
        """
        with self.open(location) as source:
            one = source if ahead is None else ReadAhead(source, (ahead[0], sum(ahead)))
            with hold_source(location, one), ask_once():
                yield one

    def read(self, location: str) -> bytes:
        """Read a whole file of metadata.

        Raises:
            LimitExceeded: it is larger than `Limits.max_metadata_bytes`.
            OSError: it cannot be read.
        """
        with self.open(location) as source:
            if isinstance(source, StoreSource):  # the file may have been replaced since it was listed
                source.prefetch()
            self.limits.check("max_metadata_bytes", source.size, source.name)
            return bytes(source.read(0, source.size))

    def read_small(self, location: str, most: int) -> BytesLike | None:
        """Read a file at once; None if it has more than `most` bytes, or is local and not a regular file.

        Raises:
            OSError: it cannot be read.
        """
        if (local := local_name(location)) is not None:
            return read_small(local, most)
        source = self.remote(location)
        return source.read(0, source.size) if source.size <= most else None

    def names(self, folder: str) -> list[str]:
        """Return the bare names of the files and folders in a folder, unordered.

        In an object store, a folder that does not exist is empty.

        Raises:
            OSError: it cannot be listed, or does not exist.
        """
        store, key = self._store(folder)
        if isinstance(store, LocalStore):
            return store.names(key)
        known = self._cache.listing(folder) or self._list_page(folder, store, key)
        if known is not None:
            return known.names(folder)
        folders, files = store.list_folder(key)
        self._listed(folder, key, files)
        return [*folders, *(one.key.rpartition("/")[2] for one in files)]

    def stat(self, location: str) -> Listed:
        """Return the size of a file: as listed, if its folder was, else by a request.

        Raises:
            OSError: it does not exist, or cannot be reached.
        """
        store, key = self._store(location)
        found = self._cache.listed(location) or store.head(key)
        return Listed(location, found.size or 0, found.modified_ms)

    def list_ahead(self, locations: Iterable[str]) -> None:
        """List one page of each folder with several of these files: `stat` needs no request for files on that page."""
        folders = Counter(location.rpartition("/")[0] for location in locations if not is_local(location))
        for folder in [folder for folder, files in folders.items() if files > 1]:
            with suppress(OSError):  # servers of the web do not list
                self._list_page(folder, *open_store(folder, self.options))

    def walk(self, folder: str) -> ListedFiles:
        """List all files below a folder, unordered; links to folders are not followed.

        Raises:
            OSError: a folder cannot be listed.
        """
        store, key = self._store(folder)
        if isinstance(store, LocalStore):
            paths, sizes, times = store.list_columns(key)
            if is_url(folder) or key.endswith(os.sep):
                locations = [join(folder, path[len(key) :].strip("/")) for path in paths]
            else:
                root = folder.rstrip("/")
                locations = paths if root == key else [root + path[len(key) :] for path in paths]
            return ListedFiles(locations, np.array(sizes, np.int64), np.array(times, np.int64) // 1_000_000)
        known = self._cache.listing(folder) or self._keep(folder, key, store.list_all(key))
        return ListedFiles.of(known.below(folder))

    def prefetch(self, locations: Iterable[str]) -> Iterator[str]:
        """Yield locations in order, and read small remote files ahead, as many at once as the store allows."""

        def fetch(location: str) -> str:
            with suppress(OSError, DvcodecError):
                if not is_local(location):
                    self.remote(location).prefetch()
            return location

        first = next(found := iter(locations), None)
        if first is not None:
            yield from run_bounded(fetch, chain([first], found), self.readers(first))

    def remove(self, location: str) -> None:
        """Remove a file.

        Raises:
            OSError: it cannot be removed.
        """
        store, key = self._store(location)
        with self.changes(location):
            store.delete(key)

    def put_if_absent(self, location: str, data: bytes) -> None:
        """Write a file that must not exist yet, whole: of several concurrent writers, one succeeds.

        Raises:
            FileExistsError: it exists.
            UsageError: the store cannot do this.
            OSError: it cannot be written.
        """
        store, key = self._store(location)
        with self.changes(location):
            store.put_if_absent(key, data)

    def check_exclusive(self, location: str) -> None:
        """Check that `put_if_absent` is reliable: some servers ignore its condition.

        Raises:
            UsageError: it cannot: an object that exists is replaced.
            OSError: the store cannot be written.
        """
        store, key = self._store(location)
        store.check_exclusive(key)

    def forget(self) -> None:
        """Empty the cache: the next use requests everything again."""
        self._cache.clear()

    @contextmanager
    def changes(self, *locations: str) -> Iterator[None]:
        """Drop files that the block writes, moves or removes from the cache, under all spellings of their locations."""
        try:
            yield
        finally:  # a failed request may still have changed the file
            for location in locations:
                if not is_local(location):
                    self._cache.drop_file(location)

    def reopen(self, folder: str) -> None:
        """Drop everything below a table's folder from the cache, unless the table is opened for the first time."""
        if not is_local(folder):
            self._cache.open_folder(folder)

    def threads(self, location: str, wanted: int | None = None) -> int:
        """Return the number of files to read at once: few locally (CPU-bound), many remotely (latency-bound).

        Raises:
            UsageError: `wanted` is less than 1, or not an integer.
        """
        if wanted is not None:
            return as_count(wanted, "threads", 1)
        return _LOCAL_THREADS if is_local(location) else self.options.max_concurrency

    def readers(self, location: str) -> int:
        """Return how many metadata files to read at once: one locally, because Python decodes them."""
        return 1 if is_local(location) else self.options.max_concurrency

    def remote(self, location: str, size: int | None = None) -> StoreSource:
        """Return a remote file as a source; see `open`."""
        return self._cache.source(location, self.options, size)

    def _store(self, location: str) -> tuple[Store | LocalStore, str]:
        local = local_path(location)
        return (LocalStore(), str(local)) if local is not None else open_store(location, self.options)

    def _list_page(self, folder: str, store: Store, key: str) -> Listing | None:
        """List everything below a folder if it fits in one page, else return None.

        This takes one request, as listing the folder's own names does, and also gives sizes and the folders below.
        """
        if not store.lists_by_page:
            return None
        found = list(islice(store.list_all(key), _PAGE))
        if len(found) < _PAGE:
            return self._keep(folder, key, found)
        self._listed(folder, key, found)
        return None

    def _keep(self, folder: str, key: str, found: Iterable[StoredObject]) -> Listing:
        return self._cache.add_listing(Listing(folder.rstrip("/"), self._listed(folder, key, found)))

    def _listed(self, folder: str, key: str, found: Iterable[StoredObject]) -> list[Listed]:
        """Convert objects below `folder`, whose key is `key`, and keep their sizes."""
        files = []
        for one in found:
            files.append(_listed(folder, key, one))
            self._cache.add_object(files[-1].location, one)
        return files


class _Held(hide_values):
    """`Storage.open` of a file that `Storage.hold` has open: no generator, for the reason of `enough_memory`."""

    __slots__ = ("_source",)

    def __init__(self, source: Source, location: str, home: str | None) -> None:
        super().__init__(location, home)
        self._source = source

    def __enter__(self) -> Source:  # type: ignore[override]
        """Return the source."""
        return self._source

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Raise the error as `Storage.open` does."""
        if isinstance(error, MemoryError):
            refused = too_little_memory("what is read", self._location, error)
            super().__exit__(type(refused), refused, None)
            raise refused from None
        super().__exit__(kind, error, traceback)


def _rebuild(options: StoreOptions, home: str | None, limits: Limits) -> Storage:
    storage = Storage(options, limits)
    return storage if home is None else storage.of_table(home)


def _listed(folder: str, key: str, found: StoredObject) -> Listed:
    return Listed(join(folder, found.key[len(key) :].strip("/")), found.size or 0, found.modified_ms)


StorageOptions: TypeAlias = "Mapping[str, object] | Storage | None"
"""How to reach stores: options as deltalake and polars spell them (see `dvcodec.io.store.options`), or a `Storage`."""


def storage_of(storage_options: StorageOptions, limits: Limits | None = None) -> Storage:
    """Return the given storage, or a new one with the given options; with other limits if there are any."""
    storage = storage_options if isinstance(storage_options, Storage) else Storage(storage_options)
    return storage if limits is None else storage.limited(limits)


def open_remote(url: str, storage_options: StorageOptions, *, name: str | None = None) -> StoreSource:
    """Return a remote file as a source, cached if `storage_options` is a `Storage`.

    Raises:
        UsageError: an unknown protocol or option.
        MissingExtra: the package for the protocol is not installed.
    """
    if isinstance(storage_options, Storage):
        return storage_options.remote(url)
    return StoreSource(*open_store(url, storage_options), name or url)
