"""Limits on what untrusted bytes may make a decoder allocate."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dvcodec.core.errors import LimitExceeded, UsageError
from dvcodec.core.usage import as_count, check_type

if TYPE_CHECKING:
    from dvcodec.core.cursor import Cursor

__all__ = [
    "DEFAULT_LIMITS",
    "Budget",
    "Limits",
    "SharedWork",
    "check_limits",
    "enough_memory",
    "too_little_memory",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that every decoder enforces; raise one for a file that legitimately needs more.

    Attributes:
        max_vector_bytes: bytes of one framed vector; the formats allow at most 2**31 - 1.
        max_bitmaps: non-empty 32-bit bitmaps in one 64-bit vector. Each covers 2**32 row positions,
            so vectors of real data files have one. Empty gap bitmaps (as Java writes them) do not count.
        max_cardinality: rows in one vector.
        max_footer_bytes: bytes of a Puffin footer payload, after decompression.
        max_blobs: blobs in one Puffin footer, or vectors in one Delta or Paimon file.
        max_blob_bytes: bytes of one Puffin blob after decompression, or of all keys of one dictionary together.
        max_manifest_bytes: bytes of one manifest (Paimon's index manifest, Lance's manifest), after decompression.
        max_keys: keys of one dictionary (vellum); with shared suffixes, a few hundred bytes encode any number of keys.
        max_base_work: work on one metadata file, whatever its size; see `Budget`.
        max_work_per_byte: further work for each stored byte of the file.
        max_record_bytes: bytes of one record of an Avro file, after decompression; fewer if its schema makes more than
            16 units of work (see `Budget`) of a byte.

    Raises:
        UsageError: one of them is negative, or not an integer.
    """

    max_vector_bytes: int = 2**31 - 1
    max_bitmaps: int = 2**14
    max_cardinality: int = 2**40
    max_footer_bytes: int = 2**24
    max_blobs: int = 2**20
    max_blob_bytes: int = 2**30
    max_manifest_bytes: int = 2**28
    max_keys: int = 2**28
    max_base_work: int = 2**24
    max_work_per_byte: int = 2**8
    max_record_bytes: int = 2**21

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if type(value) is not int:  # an integer of NumPy becomes one of Python
                object.__setattr__(self, name, as_count(value, f"Limits.{name}"))
            elif value < 0:
                raise UsageError(f"Limits.{name} must not be negative")

    def check(self, name: str, value: int, cursor: Cursor, at: int | None = None) -> None:
        """Check a value from the bytes against the limit `name`.

        Args:
            name: attribute of this class.
            value: the value found.
            cursor: reads those bytes, for errors.
            at: offset of the value in the cursor's window; None: the cursor's position.

        Raises:
            LimitExceeded: the value is above the limit.
        """
        bound = getattr(self, name)
        if value > bound:
            raise cursor.error(LimitExceeded, f"Limits.{name}", at=at, expected=f"at most {bound}", actual=value)


DEFAULT_LIMITS = Limits()


def check_limits(limits: object) -> None:
    """Refuse an argument that is not `Limits`.

    Raises:
        UsageError: it has another type.
    """
    check_type(limits, Limits, "limits", "a dvcodec.Limits")


class SharedWork:
    """The base work that all metadata files of a table have together. Safe to use from several threads.

    A small file may cost `Limits.max_base_work`, and a table may have a hundred of them in the bytes of one real
    manifest. What their own bytes do not allow is drawn from here. The entries of real tables have names and sizes that
    do not compress to two bytes each, so their files draw nothing, however many there are.

    Args:
        most: work that the files may draw together.
    """

    def __init__(self, most: int = DEFAULT_LIMITS.max_base_work) -> None:
        self.most = most
        self._drawn: dict[str, int] = {}
        self._total = 0
        self._stored: dict[str, int] = {}
        self._allowed = 0
        self._further: dict[str, int] = {}
        self._further_total = 0
        self._lock = threading.Lock()

    @property
    def allowed(self) -> int:
        """Work that the bytes of all noted files allow."""
        return self._allowed

    def note(self, file: str, stored: int, limits: Limits | None = None) -> None:
        """Note the bytes of a file, for work on what all files of the table have; noting it again adds nothing.

        Args:
            file: path or URL.
            stored: its bytes.
            limits: `Limits.max_work_per_byte`.
        """
        with self._lock:
            more = stored - self._stored.get(file, 0)
            if more > 0:
                self._stored[file] = stored
                self._allowed += more * (limits or DEFAULT_LIMITS).max_work_per_byte

    def charge(self, file: str, work: int, what: str) -> None:
        """Charge further work on a file: it draws what all such work is beyond what the bytes of all files allow.

        Args:
            file: path or URL.
            work: all such work on this file so far, in this pass over it.
            what: what it is for, see `Budget.charge`.

        Raises:
            LimitExceeded: see `draw`.
        """
        with self._lock:
            more = work - self._further.get(file, 0)
            if more <= 0:
                return
            self._further[file] = work
            self._further_total += more
            beyond = self._further_total - self._allowed
        if beyond > 0:
            self.draw(file, beyond, what, key="")

    def draw_beyond(self, key: str, work: int, what: str) -> None:
        """Draw what some work is beyond what the bytes of all noted files allow.

        Args:
            key: what the work is on, for errors.
            work: all of it so far.
            what: what it is for, see `Budget.charge`.

        Raises:
            LimitExceeded: see `draw`.
        """
        beyond = work - self._allowed
        if beyond > 0:
            self.draw(key, beyond, what)

    def draw(self, file: str, work: int, what: str, *, key: str | None = None) -> None:
        """Draw work for a file; reading it again draws nothing more.

        Args:
            file: path or URL.
            work: all that this file has drawn, so far, in this pass over it.
            what: what it is for, see `Budget.charge`.
            key: what the work belongs to, if not to the file.

        Raises:
            LimitExceeded: the files draw more than they may.
        """
        key = file if key is None else key
        with self._lock:
            more = work - self._drawn.get(key, 0)
            if more <= 0:
                return
            self._drawn[key] = work
            self._total += more
            total = self._total
        if total > self.most:
            expected = f"at most {self.most} beyond what their sizes allow (Limits.max_work_per_byte)"
            what = f"work for {what} in all metadata files of the table"
            raise LimitExceeded(what, source=file, expected=expected, actual=total)


class Budget:
    """The work that one metadata file may cost; charged by block or batch, before anything is built.

    The limits on bytes do not bound the time and memory that a file costs: a record of ten bytes becomes objects of a
    kilobyte, and compression repeats it a thousand times. So work is counted: one unit for each byte of content after
    decompression, and `RECORD`, `ROW` or `VALUE` for what is built from it. A unit takes at most about 40 ns and 4
    bytes of memory. The allowed work grows with the stored bytes, which an attacker has to send anyway.

    Args:
        stored: bytes of the file.
        source: the file, for errors.
        limits: `Limits.max_base_work` and `Limits.max_work_per_byte`.
        shared: the base work of all files of the table, for one of its metadata files.

    Attributes:
        most: work that is allowed.
    """

    RECORD = 1024
    """Work of an entry of a manifest, an action of a log: objects with a dozen members, which an audit looks up."""
    ROW = 16
    """Work of a row or a key that goes to an array."""
    VALUE = 32
    """Work of a number, a string, an array or an object of JSON."""

    __slots__ = ("_own", "_shared", "_source", "_work", "most")

    def __init__(
        self, stored: int, source: str | None, limits: Limits = DEFAULT_LIMITS, shared: SharedWork | None = None
    ) -> None:
        self._source = source
        self._work = 0
        self._own = limits.max_work_per_byte * stored
        self._shared = shared
        if shared is not None and source is not None:
            shared.note(source, stored, limits)
        self.most = limits.max_base_work + self._own

    def charge(self, work: int, what: str, offset: int | None = None) -> None:
        """Add work before it is done.

        Args:
            work: units.
            what: what it is for: ``records``, ``rows``, ``values``.
            offset: byte offset of the block in the file.

        Raises:
            LimitExceeded: the file needs more work than its size allows, or all files of the table do.
        """
        self._work += work
        if self._shared is not None and self._own < self._work <= self.most:
            self._shared.draw(self._source or "", self._work - self._own, what)
        if self._work > self.most:
            limit = "Limits.max_base_work and max_work_per_byte"
            raise LimitExceeded(
                f"work for {what} ({limit})",
                source=self._source,
                offset=offset,
                expected=f"at most {self.most} for a file of this size",
                actual=self._work,
            )


class enough_memory(ContextDecorator):  # noqa: N801  (used like a function)
    """Turn a MemoryError in the block into `LimitExceeded`: within the limits, but more than this process has.

    A class, because a generator takes several times as long to enter and leave, and tables have many small vectors.

    Raises:
        LimitExceeded: an allocation in the block failed.
    """

    def __init__(self, what: str, source: str | None) -> None:
        self._what, self._source = what, source

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Raise the error."""
        if isinstance(error, MemoryError):
            raise too_little_memory(self._what, self._source, error) from None


def too_little_memory(what: str, source: str | None, reason: Exception) -> LimitExceeded:
    """Return the error for a failed allocation."""
    actual = " ".join(str(reason).split())[:120] or "a failed allocation"
    return LimitExceeded("memory", source=source, expected=f"enough for {what}", actual=actual)
