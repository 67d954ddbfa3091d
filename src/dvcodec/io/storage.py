"""The storage of one reader: its options, and a cache of listings and small objects.

A table, or a command, opens many files. One `Storage` serves all of them, so that nothing is requested twice: small
objects are kept, and sizes known from a listing are not requested again. A new `Storage` knows nothing: opening a
table anew reads its present state. A `Storage` forgets what is written, moved or removed through it.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from typing import TypeAlias
from urllib.parse import unquote

from dvcodec.core.errors import DvcodecError, LimitExceeded, UsageError
from dvcodec.io.file_key import file_key
from dvcodec.io.parallel import run_bounded
from dvcodec.io.paths import join
from dvcodec.io.remote import StoreSource
from dvcodec.io.source import ReadAhead, Source, held_source, hold_source, open_local
from dvcodec.io.store import LocalStore, Store, StoredObject, StoreOptions, open_store
from dvcodec.io.target import local_path

__all__ = ["Listed", "Storage", "StorageOptions", "open_remote", "storage_of"]

_KEPT_BYTES = 128 << 20
_KEPT_SOURCES = 1 << 14
_LOCAL_THREADS = 8
_FRESH_SECONDS = 30.0
"""How long the listing made to open a table is reused for files below its folder."""
_PAGE = 1000
_ACCOUNT = re.compile(r"@[^/]*")


@dataclass(frozen=True, slots=True)
class Listed:
    """A file below a folder.

    Attributes:
        location: where it can be opened, spelled as the folder is.
        size: bytes.
        modified_ms: when it was written, milliseconds since 1970 UTC; None where the storage does not say.
    """

    location: str
    size: int
    modified_ms: int | None = None


class _Listing:
    """All that is below a folder, as it was listed.

    Args:
        root: the folder.
        files: in it, however deep.
    """

    def __init__(self, root: str, files: list[Listed]) -> None:
        self.root, self._files = root, files
        self.key = _identity(root)
        self._made = time.monotonic()

    @property
    def is_fresh(self) -> bool:
        """Whether it was made just now."""
        return time.monotonic() - self._made < _FRESH_SECONDS

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        """Names in each folder below the root."""
        found: dict[str, dict[str, None]] = {}
        for file in self._files:
            folder, _, name = file.location.rpartition("/")
            while name not in (names := found.setdefault(folder, {})):
                names[name] = None
                if folder == self.root:
                    break
                folder, _, name = folder.rpartition("/")
        return {folder: list(names) for folder, names in found.items()}

    def names(self, folder: str) -> list[str]:
        """Return the names in the root, or in a folder below it."""
        return self._children.get(folder.rstrip("/"), [])

    def below(self, folder: str) -> list[Listed]:
        """Return the files below the root, or below a folder in it."""
        root = folder.rstrip("/")
        return self._files if root == self.root else [one for one in self._files if one.location.startswith(f"{root}/")]


class Storage:
    """Where a reader's files are. Safe to use from several threads.

    Args:
        storage_options: see `dvcodec.io.store.options`.
    """

    def __init__(self, storage_options: Mapping[str, object] | StoreOptions | None = None) -> None:
        self.options = (
            storage_options if isinstance(storage_options, StoreOptions) else StoreOptions.of(storage_options)
        )
        self._lock = threading.Lock()
        # By location, and how often it was written when this became known: what was known before counts no more.
        self._sources: OrderedDict[tuple[str, int], StoreSource] = OrderedDict()
        self._listed: dict[tuple[str, int], StoredObject] = {}
        self._written: dict[str, int] = {}
        self._bytes = 0
        self._folders: dict[str, _Listing] = {}
        self._opened: set[str] = set()

    def __repr__(self) -> str:
        with self._lock:
            return f"<Storage: {len(self._sources)} files open, {len(self._listed)} listed, {self._bytes} bytes kept>"

    def __reduce__(self) -> tuple[type[Storage], tuple[StoreOptions]]:
        """Another process is given the options, secrets among them, and nothing that is known."""
        return Storage, (self.options,)

    @contextmanager
    def open(self, location: str, *, size: int | None = None) -> Iterator[Source]:
        """Open a file for reading.

        Args:
            location: path or URL.
            size: bytes that metadata says it has. A remote file is read accordingly, and no request made for its size;
                what it has in truth is the source's `size`.

        Raises:
            UsageError, MissingExtra: see `dvcodec.io.open_source`.
            OSError: it cannot be opened.
        """
        held = held_source(location)
        local = local_path(location)
        if held is not None:
            yield held
        elif local is None:
            yield self.remote(location, size)
        else:
            with open_local(local) as source:
                yield source

    @contextmanager
    def hold(self, location: str, ahead: tuple[int, int] | None = None) -> Iterator[Source]:
        """Open a file once for all who `open` it within the block, in this thread.

        For many ranges of one file, each read by code that knows nothing of the others.

        Args:
            location: path or URL, spelled as it will be opened.
            ahead: offset and size (bytes) of a range to be read at once; ranges in it are then cut out of that.

        Raises:
            Truncated: `ahead` is not in the file.
            UsageError, OSError: see `open`.
        """
        with self.open(location) as source:
            one = source if ahead is None else ReadAhead(source, *ahead)
            with hold_source(location, one):
                yield one

    def read(self, location: str, most: int, limit: str) -> bytes:
        """Read a whole file.

        Args:
            location: path or URL.
            most: bytes that it may have.
            limit: what to call that in the error.

        Raises:
            LimitExceeded: it has more.
            OSError: it cannot be read.
        """
        with self.open(location) as source:
            if isinstance(source, StoreSource):  # one that was replaced since it was listed is read as it is now
                source.prefetch()
            if source.size > most:
                expected = f"at most {most} bytes"
                raise LimitExceeded(limit, source=source.name, expected=expected, actual=source.size)
            return bytes(source.read(0, source.size))

    def names(self, folder: str) -> list[str]:
        """Return the bare names of the files and folders in a folder, in no order.

        A folder in an object store that is not there is empty: there are no folders there.

        Raises:
            OSError: it cannot be listed, or is not there.
        """
        store, key = self._store(folder)
        if isinstance(store, LocalStore):
            return store.names(key)
        known = self._listing(folder) or self._page(folder, store, key)
        if known is not None:
            return known.names(folder)
        folders, files = store.list_folder(key)
        found = self._note(folder, key, files)
        return [*folders, *(file.location.rpartition("/")[2] for file in found)]

    def walk(self, folder: str) -> Iterator[Listed]:
        """List all files below a folder, in no order; links to folders are not followed.

        Raises:
            OSError: a folder cannot be listed.
        """
        store, key = self._store(folder)
        if isinstance(store, LocalStore):
            for one in store.list_all(key):
                yield from self._note(folder, key, [one])
            return
        known = self._listing(folder)
        if known is None:
            known = _Listing(folder.rstrip("/"), self._note(folder, key, store.list_all(key)))
            with self._lock:
                self._folders[known.root] = known
        yield from known.below(folder)

    def prefetch(self, locations: Iterable[str]) -> Iterator[str]:
        """Yield locations in order, and read the small files that come next meanwhile, as many as the store takes.

        Local files are yielded as they are.
        """

        def fetch(location: str) -> str:
            with suppress(OSError, DvcodecError):
                if local_path(location) is None:
                    self.remote(location).prefetch()
            return location

        first = next(found := iter(locations), None)
        if first is not None:
            threads = 1 if local_path(first) is not None else self.options.max_concurrency
            yield from run_bounded(fetch, chain([first], found), threads)

    def remove(self, location: str) -> None:
        """Remove a file.

        Raises:
            OSError: it cannot be removed.
        """
        store, key = self._store(location)
        with self.changes(location):
            store.delete(key)

    def forget(self) -> None:
        """Drop what was read and listed: the next use requests it again."""
        with self._lock:
            self._sources.clear()
            self._listed.clear()
            self._folders.clear()
            self._bytes = 0

    @contextmanager
    def changes(self, *locations: str) -> Iterator[None]:
        """Forget files that the block writes, moves or removes, in all spellings, and the lists that have them."""
        try:
            yield
        finally:  # also where the answer alone was lost
            for location in locations:
                if local_path(location) is None:
                    self._forget_file(location)

    def reopen(self, folder: str) -> None:
        """Forget all below the folder of a table, unless this is the first time that it is opened."""
        if local_path(folder) is not None:
            return
        key = _identity(folder)
        with self._lock:
            if key not in self._opened:
                self._opened.add(key)
                return
            for known in [one for one in self._sources if _is_below(_identity(one[0]), key)]:
                self._bytes -= self._sources.pop(known).kept
            for known in [one for one in self._listed if _is_below(_identity(one[0]), key)]:
                del self._listed[known]
            for root, one in list(self._folders.items()):
                if _is_below(one.key, key) or _is_below(key, one.key):
                    del self._folders[root]

    def _forget_file(self, location: str) -> None:
        key = _identity(location)
        with self._lock:
            self._written[key] = self._written.get(key, 0) + 1
            for root in [root for root, one in self._folders.items() if _is_below(key, one.key)]:
                del self._folders[root]

    def _known_as(self, location: str) -> tuple[str, int]:
        """Return what is known of a location is kept by. Called with the lock held."""
        return location, self._written.get(_identity(location), 0) if self._written else 0

    def threads(self, location: str, wanted: int | None = None) -> int:
        """Return how many files to read at once: few where the processor is what limits, many where waiting is."""
        if wanted is not None:
            return wanted
        return _LOCAL_THREADS if local_path(location) is not None else self.options.max_concurrency

    def readers(self, location: str) -> int:
        """Return how many files of metadata to read at once: decoding is Python's work, so locally one."""
        return 1 if local_path(location) is not None else self.options.max_concurrency

    def _store(self, location: str) -> tuple[Store, str]:
        local = local_path(location)
        return (LocalStore(), str(local)) if local is not None else open_store(location, self.options)

    def remote(self, location: str, size: int | None = None) -> StoreSource:
        """Return a remote file as a source; see `open`."""
        with self._lock:
            known = self._known_as(location)
            source = self._sources.get(known)
            if source is None:
                store, key = open_store(location, self.options)
                listed = self._listed.get(known)
                source = StoreSource(
                    store, key, location, listed=listed, expected=size, eager=True, grown=partial(self._grown, known)
                )
                self._sources[known] = source
            self._sources.move_to_end(known)
            return source

    def _grown(self, known: tuple[str, int], by: int) -> None:
        """Count bytes that a source keeps, and let go of those used longest ago. Called with no lock held here."""
        with self._lock:
            if known not in self._sources:  # it was let go of, and whoever has it goes on by itself
                return
            self._bytes += by
            while len(self._sources) > 1 and (self._bytes > _KEPT_BYTES or len(self._sources) > _KEPT_SOURCES):
                _, gone = self._sources.popitem(last=False)
                self._bytes -= gone.kept

    def _listing(self, folder: str) -> _Listing | None:
        """Return a list of all that is below a folder, or one that it is in, if one was made just now."""
        root = folder.rstrip("/")
        with self._lock:
            found = [one for one in self._folders.values() if root == one.root or root.startswith(f"{one.root}/")]
        return next((one for one in found if one.is_fresh), None)

    def _page(self, folder: str, store: Store, key: str) -> _Listing | None:
        """Return all that is below a folder if it is no more than a page of a list; None if it is more.

        That costs the one request that its own names would cost, and answers for the folders in it, their sizes too.
        """
        if not store.lists_by_page:
            return None
        found = list(islice(store.list_all(key), _PAGE))
        if len(found) == _PAGE:
            return None
        known = _Listing(folder.rstrip("/"), self._note(folder, key, found))
        with self._lock:
            self._folders[known.root] = known
        return known

    def _note(self, folder: str, key: str, found: Iterable[StoredObject]) -> list[Listed]:
        files = []
        for one in found:
            location = join(folder, one.key[len(key) :].strip("/"))
            files.append(Listed(location, one.size or 0, one.modified_ms))
            with self._lock:
                if len(self._listed) < _KEPT_SOURCES:
                    self._listed[self._known_as(location)] = one
        return files


StorageOptions: TypeAlias = "Mapping[str, object] | Storage | None"
"""How stores are reached: options as deltalake and polars spell them, see `dvcodec.io.store.options`."""


def options_of(storage_options: StorageOptions) -> Mapping[str, object] | StoreOptions | None:
    """Return the options themselves."""
    if isinstance(storage_options, Storage):
        return storage_options.options
    if storage_options is None or isinstance(storage_options, Mapping):
        return storage_options
    raise UsageError(f"storage_options must be a mapping of options or a Storage, not {storage_options!r:.40}")


def _identity(location: str) -> str:
    """Return what all spellings of a location have in common; two locations that share it may still be two.

    Web addresses are percent-encoded or not, and Azure's name the account or not.
    """
    return _ACCOUNT.sub("", file_key(unquote(location)))


def _is_below(key: str, folder: str) -> bool:
    return key == folder or key.startswith(f"{folder.rstrip('/')}/")


def storage_of(storage_options: StorageOptions) -> Storage:
    """Return the storage that a caller means: the one that is given, or a new one with these options."""
    return storage_options if isinstance(storage_options, Storage) else Storage(storage_options)


def open_remote(url: str, storage_options: StorageOptions, *, name: str | None = None) -> StoreSource:
    """Return a remote file as a source: one that a storage keeps, or one of its own.

    Raises:
        UsageError: an unknown protocol or option.
        MissingExtra: what serves the protocol is not installed.
    """
    if isinstance(storage_options, Storage):
        return storage_options.remote(url)
    return StoreSource(*open_store(url, storage_options), name or url)
