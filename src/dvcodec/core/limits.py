"""How much the bytes may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dvcodec.core.errors import LimitExceeded, UsageError

if TYPE_CHECKING:
    from dvcodec.core.cursor import Cursor

__all__ = ["DEFAULT_LIMITS", "Limits", "enough_memory"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that every decoder keeps; pass a larger one where a file legitimately needs it.

    Attributes:
        max_vector_bytes: bytes of one framed vector. The formats' own ceiling is 2**31 - 1.
        max_bitmaps: non-empty 32-bit bitmaps in one 64-bit vector. Each stands for 2**32 row positions,
            so real data files have one. Empty gap bitmaps (as Java writes them) do not count.
        max_cardinality: rows in one vector.
        max_footer_bytes: bytes of a Puffin footer payload, after decompression.
        max_blobs: blobs named by one Puffin footer, or vectors in one Delta or Paimon file.
        max_blob_bytes: bytes of one Puffin blob after decompression, or of all keys of one dictionary taken at once.
        max_manifest_bytes: bytes of one manifest (Paimon's index manifest, Lance's manifest), after decompression.
        max_keys: keys of one dictionary (vellum); shared suffixes let a few hundred bytes spell any number.

    Raises:
        UsageError: one of them is negative.
    """

    max_vector_bytes: int = 2**31 - 1
    max_bitmaps: int = 2**12
    max_cardinality: int = 2**40
    max_footer_bytes: int = 2**24
    max_blobs: int = 2**20
    max_blob_bytes: int = 2**30
    max_manifest_bytes: int = 2**28
    max_keys: int = 2**28

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise UsageError(f"Limits.{name} must not be negative")

    def check(self, name: str, value: int, cursor: Cursor, at: int | None = None) -> None:
        """Hold a value that the bytes ask for against the limit called `name`; errors point at `at` of the cursor.

        Args:
            name: attribute of this class.
            value: what they ask for.
            cursor: on the bytes that ask, for errors.
            at: byte offset in the cursor's window; None = where the cursor is.

        Raises:
            LimitExceeded: it is over the limit.
        """
        bound = getattr(self, name)
        if value > bound:
            raise cursor.error(LimitExceeded, f"Limits.{name}", at=at, expected=f"at most {bound}", actual=value)


DEFAULT_LIMITS = Limits()


@contextmanager
def enough_memory(what: str, source: str | None) -> Iterator[None]:
    """Let bytes that ask for what the limits allow, and this process does not have, be told as over a limit.

    Raises:
        LimitExceeded: something in the block could not be allocated.
    """
    try:
        yield
    except MemoryError as err:
        told = " ".join(str(err).split())[:120] or "an allocation that failed"
        raise LimitExceeded("memory", source=source, expected=f"enough for {what}", actual=told) from None
