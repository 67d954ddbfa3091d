"""An object in a store as a source: few requests, each byte read once, two versions of an object never mixed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from dvcodec.core.errors import DvcodecError
from dvcodec.io.source import beyond_end
from dvcodec.io.store import Fetched, ObjectChanged, Reason, Store, StoredObject, StoreError

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
        assert self._known is not None  # noqa: S101
        return self._known.size or 0

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
