"""An object of a store as a source: few requests, each byte once, and never two versions of an object mixed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from dvcodec.core.errors import DvcodecError, Truncated
from dvcodec.io.store import Fetched, ObjectChanged, Reason, Store, StoredObject, StoreError

__all__ = ["HEAD_BYTES", "WHOLE_BYTES", "StoreSource"]

HEAD_BYTES = 1 << 16
"""What is read first of an object of unknown size: the answer has the size too, so no request is made for it."""
WHOLE_BYTES = 4 << 20
"""Objects of up to so many bytes are read as a whole rather than range by range."""


class StoreSource:
    """An object of a store, see `dvcodec.io.Source`. Safe to use from several threads.

    Nothing is requested before it is needed. The first answer says how large the object is, and which: every later
    request is for that very one.

    Args:
        store: where it is.
        key: its name there.
        name: for errors.
        listed: what a listing has said of it.
        expected: bytes that metadata says it has. A hint: what is true is known from the first answer.
        eager: True reads from the beginning of a small object, for others will ask for the rest; False reads just the
            range that is wanted, where that is the first to be read.
        grown: called with the number of bytes that are kept in addition.
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
        self._store, self._key, self._eager, self._grown = store, key, eager, grown
        self._known = listed if listed is not None and listed.size is not None else None
        self._expected = expected
        self._trusted = False  # whether bytes, or the size, were given out as those of `_known`
        self._answered = False  # whether `_known` is of an answer, not of a list: its ETag then is the object's
        self._head = self._tail = memoryview(b"")
        self._has_read = False
        self._lock = threading.RLock()

    @property
    def size(self) -> int:
        """Bytes of the object.

        Raises:
            OSError: there is none, or it cannot be read.
        """
        with self._lock:
            if self._known is None:
                self._begin(0, 0)
            self._trusted = True
            return self._size

    @property
    def kept(self) -> int:
        """Bytes that are held in memory."""
        return len(self._head) + len(self._tail)

    def prefetch(self) -> None:
        """Read a small object as a whole, or the beginning of a large one, for those who will want it.

        What goes wrong is raised when it is read.
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
            OSError: it cannot be read; or the object was replaced since its size or other bytes of it were given out.
        """
        data = self.read_up_to(offset, size) if offset >= 0 and size >= 0 else memoryview(b"")
        if offset < 0 or size < 0 or len(data) != size or (not size and offset and offset > self.size):
            raise Truncated(
                "byte range",
                source=self.name,
                offset=offset,
                expected=f"{size} bytes",
                actual=f"{max(self.size - offset, 0)} left of {self.size}",
            )
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
                self._trusted = True  # an empty answer is reported
                return memoryview(b"")
            again, self._has_read = self._has_read, True
            if end > len(self._head) and self._size <= WHOLE_BYTES and (self._eager or again or self._head):
                self._keep(len(self._head), self._size)
                end = min(stop, self._size)
            if end <= len(self._head):
                self._trusted = True
                return self._head[offset:end]
            # Footers are found by a few bytes at the very end, and are there as well.
            near = max(self._size - HEAD_BYTES, 0)
            if end == self._size and offset >= near and not self._tail:
                tail = self._get(near, end)
                if len(tail) < end - near:  # another object by now, and a shorter one
                    return tail[offset - near :]
                self._tail = tail
                self._count(len(tail))
            if self._tail and offset >= self._size - len(self._tail):
                start = offset - (self._size - len(self._tail))
                return self._tail[start : start + end - offset]
        return self._get(offset, end)

    @property
    def _size(self) -> int:
        assert self._known is not None  # noqa: S101
        return self._known.size or 0

    def _begin(self, offset: int, stop: int) -> memoryview | None:
        """Make the first request; return the wanted bytes if only they were requested."""
        self._answered = True
        if not self._store.tells_size:
            self._known = self._store.head(self._key)
            if self._known.size is None:  # some web servers do not say
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
            self._known = self._store.head(self._key)  # it is empty, or shorter than was thought
            return None
        self._known = found.found
        if found.start == 0:
            self._set_head(found.data)
            return None
        self._trusted = True
        return found.data

    def _keep(self, start: int, stop: int) -> None:
        """Read on to the end of a small object, and hold all of it."""
        more = self._get(start, stop)
        if (start and not self._head) or len(more) < self._size - start:  # another object by now than was known
            start, more = 0, self._get(0, self._size)
        self._set_head(memoryview(bytes(self._head) + bytes(more)) if start else more)

    def _set_head(self, data: memoryview) -> None:
        self._count(len(data) - len(self._head))
        self._head = data

    def _count(self, by: int) -> None:
        if self._grown is not None:
            self._grown(by)

    def _get(self, start: int, stop: int) -> memoryview:
        """Read a range of the very object that is known; what was listed alone, and replaced, becomes known anew."""
        with self._lock:
            known = self._known
        try:
            found = self._store.get(self._key, start, stop, etag=None if known is None else known.etag)
        except StoreError as err:
            if err.reason not in (Reason.CHANGED, Reason.RANGE) or known is None:
                raise
            found = self._again(start, err)
        self._settle(found.found)
        if found.start < start:  # a server without ranges sends the whole
            self._set_head(found.data)
        return found.data[start - found.start : stop - found.start]

    def _again(self, start: int, err: StoreError) -> Fetched:
        """Read an object that is not what was listed."""
        now = self._store.head(self._key)
        self._settle(now)
        if start >= (now.size or 0):
            raise err
        # Some stores list other ETags than they answer with: then the one of the answer counts.
        return self._store.get(self._key, start, now.size, etag=now.etag)

    def _settle(self, now: StoredObject) -> None:
        """Hold what an answer is of against what is known; what was listed alone gives way to it.

        Raises:
            ObjectChanged: bytes or a size that is not this one's were given out.
        """
        with self._lock:
            known = self._known
            if known is not None and known.size is not None and now.size is not None:
                changed = not _is_same(known, now) if self._answered else known.size != now.size
                if changed and self._trusted:
                    words = f"{known.size} bytes, ETag {known.etag}; now {now.size} bytes, ETag {now.etag}"
                    raise ObjectChanged(self._store.url(self._key), "read", Reason.CHANGED, words) from None
                if changed and self._head:  # held, and given to nobody
                    self._set_head(memoryview(b""))
                self._known = now
            self._answered = self._trusted = True


def _is_same(one: StoredObject, other: StoredObject) -> bool:
    """Whether two answers are of one object. Weak ETags may differ from one server to the next."""
    if one.etag is None or other.etag is None or "W/" in (one.etag[:2], other.etag[:2]):
        return (one.size, one.modified_ms) == (other.size, other.modified_ms)
    return (one.size, one.etag) == (other.size, other.etag)
