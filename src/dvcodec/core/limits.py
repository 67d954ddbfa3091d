"""Limits on what untrusted bytes may make a decoder allocate."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ContextDecorator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

from dvcodec.core.errors import LimitExceeded, UsageError
from dvcodec.core.usage import as_count, check_type

if TYPE_CHECKING:
    from dvcodec.core.cursor import Cursor

L = TypeVar("L", bound="Limits")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that every decoder enforces on a file; raise one for a file that legitimately needs more.

    Attributes:
        max_vector_bytes: bytes of one vector with its frame; the formats allow at most 2**31 - 1.
        max_cardinality: rows of one vector.
        max_metadata_bytes: bytes of one metadata file, before and after decompression: a manifest, a commit of a log,
            the footer of a Puffin file.
        max_records: records of one metadata file (entries, actions, blobs), or vectors of one file.
        max_record_bytes: bytes of one record of a metadata file in Avro, after decompression.
        max_blob_bytes: bytes of one Puffin blob after decompression, or of what is read of a search segment at once.
        max_keys: keys of the dictionaries of one search segment, besides one for each of its bytes: with shared
            prefixes and suffixes, a few hundred bytes encode any number of keys.

    Raises:
        UsageError: one of them is negative, or not an integer.
    """

    max_vector_bytes: int = 2**31 - 1
    max_cardinality: int = 2**40
    max_metadata_bytes: int = 2**30
    max_records: int = 2**25
    max_record_bytes: int = 2**24
    max_blob_bytes: int = 2**30
    max_keys: int = 2**24

    how_to_raise: ClassVar[str] = "Limits({}=...)"
    """How a field is raised, in messages; front ends have their own."""

    def __post_init__(self) -> None:
        for name in LIMITS:
            value = getattr(self, name)
            if type(value) is not int:  # an integer of NumPy becomes one of Python
                object.__setattr__(self, name, as_count(value, f"Limits.{name}"))
            elif value < 0:
                raise UsageError(f"Limits.{name} must not be negative")

    def check(self, name: str, value: int, where: Cursor | str | None, at: int | None = None) -> None:
        """Check a value from the bytes against the limit `name`.

        Args:
            name: attribute of this class.
            value: the value found.
            where: the cursor that reads those bytes, or the name of the file, for errors.
            at: offset of the value in the cursor's window; None: the cursor's position.

        Raises:
            LimitExceeded: the value is above the limit.
        """
        if value > getattr(self, name):
            raise self.exceeded(name, value, where, at)

    def exceeded(self, name: str, value: object, where: Cursor | str | None, at: int | None = None) -> LimitExceeded:
        """Return the error for a value above a limit.

        Args:
            name: see `check`.
            value: what was found.
            where: see `check`.
            at: see `check`.
        """
        expected = f"at most {getattr(self, name)} ({self.how_to_raise.format(name)} raises it)"
        if where is None or isinstance(where, str):
            return LimitExceeded(f"Limits.{name}", source=where, offset=at, expected=expected, actual=value)
        return where.error(LimitExceeded, f"Limits.{name}", at=at, expected=expected, actual=value)


LIMITS = tuple(field.name for field in fields(Limits))
"""Names of all limits."""
DEFAULT_LIMITS = Limits()


def parse_limits(given: Iterable[str], limits: L, option: str) -> L:
    """Return limits with others in place of some.

    Args:
        given: texts NAME=VALUE; of one name, the last counts.
        limits: those that are not given.
        option: what the texts are given with, for errors.

    Raises:
        UsageError: another text, an unknown name, or a value that is not a count.
    """
    changed: dict[str, int] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name.strip() not in LIMITS or not value.strip().isascii() or not value.strip().isdigit():
            names = ", ".join(LIMITS)
            raise UsageError(f"{option} {text:.80}: expected NAME=VALUE with a name of {names}, and a number")
        changed[name.strip()] = int(value)
    return replace(limits, **changed)


def check_limits(limits: object) -> None:
    """Refuse an argument that is not `Limits`.

    Raises:
        UsageError: it has another type.
    """
    check_type(limits, Limits, "limits", "a dvcodec.Limits")


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
