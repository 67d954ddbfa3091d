"""All exceptions: `DecodeError` for corrupt bytes, `UsageError` for bad arguments.

Each class also inherits the matching builtin, so `except ValueError` and `except EOFError` work as expected.
"""

from __future__ import annotations

from functools import partial
from typing import Any


class DvcodecError(Exception):
    """Root of every exception that dvcodec raises on purpose."""

    __module__ = "dvcodec"

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:  # tracebacks name them as users import them
            cls.__module__ = "dvcodec"


class UsageError(DvcodecError, ValueError):
    """The caller's argument is wrong: a negative position, a row set that does not fit the format."""


class MissingExtra(UsageError, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""

    def __init__(self, package: str, extra: str, advice: str = "") -> None:
        self.package = package
        self.extra = extra
        self.advice = advice or f"pip install 'dvcodec[{extra}]'"
        super().__init__(f"{package} is needed here and is not installed: {self.advice}")

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.package, self.extra, self.advice))


class CommitConflict(DvcodecError):
    """Another writer committed first, in a way that this commit cannot be combined with; nothing was committed."""


class CommitUnknown(DvcodecError):
    """The store did not answer a commit, and reading back did not show whether it took effect. No file was removed."""


class DecodeError(DvcodecError, ValueError):
    """The bytes are corrupt, or not supported.

    Attributes:
        what: the check that failed, in a few words.
        source: where the bytes came from (a path, a URL, ``<bytes>``).
        offset: byte offset in `source`, 0-based, or None if the error has no single position.
        expected: what a valid file has there.
        actual: what was found. CRCs are given in hex.

    NumPy scalars are stored as Python values.
    """

    def __init__(
        self,
        what: str,
        *,
        source: str | None = None,
        offset: int | None = None,
        expected: object = None,
        actual: object = None,
    ) -> None:
        self.what = what
        self.source = source
        self.offset = None if offset is None else int(offset)
        self.expected = _plain(expected)
        self.actual = _plain(actual)
        super().__init__(what)

    def __str__(self) -> str:
        place = self.source or ""
        if self.offset is not None:
            place += f"{' ' if place else ''}at byte {self.offset}"
        text = f"{place}: {self.what}" if place else self.what
        parts = []
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        if self.actual is not None:
            parts.append(f"found {self.actual}")
        return f"{text}: {', '.join(parts)}" if parts else text

    def hide(self, actual: str) -> None:
        """Remove the values, those of its cause and its context included; `actual` says why they are not there."""
        self.expected, self.actual = None, actual
        self.__cause__ = self.__context__ = None

    def __reduce__(self) -> tuple[object, ...]:
        """Keep every field when pickled: Spark workers send errors to the driver that way."""
        fields = {name: getattr(self, name) for name in ("source", "offset", "expected", "actual")}
        return (partial(type(self), self.what, **fields), ())


def _plain(value: Any) -> object:
    """Return a NumPy scalar as a Python value, without importing NumPy."""
    if value is None or type(value) is str:
        return value
    return value.item() if getattr(value, "shape", None) == () else value


class Truncated(DecodeError, EOFError):
    """The bytes end before the structure does, or a stored size points past their end."""


class BadMagic(DecodeError):
    """The magic bytes are not those of the format."""


class ChecksumMismatch(DecodeError):
    """The stored CRC differs from the CRC of the bytes; both are given in hex."""


class NotCanonical(DecodeError):
    """The structure breaks a rule of its format: order, duplicates, counts that disagree, trailing bytes."""


class CardinalityMismatch(DecodeError):
    """The number of rows in the vector differs from its metadata."""


class LimitExceeded(DecodeError):
    """The bytes require more than a limit allows; the message names it, and says how to raise it."""

    @property
    def limit(self) -> str | None:
        """The field of `Limits`; None if another limit was met, such as the memory."""
        return self.what.removeprefix("Limits.") if self.what.startswith("Limits.") else None


class Unsupported(DecodeError, NotImplementedError):
    """Apparently valid, but a variant that dvcodec does not read."""
