"""What can go wrong, on two sides: the bytes (`DecodeError`) or the caller (`UsageError`).

Every leaf also inherits the builtin that a caller would reach for, so `except ValueError` and
`except EOFError` work as one expects.
"""

from __future__ import annotations

__all__ = [
    "BadMagic",
    "CardinalityMismatch",
    "ChecksumMismatch",
    "DecodeError",
    "DvcodecError",
    "LimitExceeded",
    "MissingExtra",
    "NotCanonical",
    "Truncated",
    "Unsupported",
    "UsageError",
]


class DvcodecError(Exception):
    """Root of every exception that dvcodec raises on purpose."""


class UsageError(DvcodecError, ValueError):
    """The caller's argument is wrong: a negative position, a row set that the format cannot hold."""


class MissingExtra(UsageError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{package} is needed here and is not installed: pip install 'dvcodec[{extra}]'")

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.package, self.extra))


class DecodeError(DvcodecError, ValueError):
    """The bytes are wrong.

    Attributes:
        what: the check that failed, in a few words.
        source: name of the place the bytes came from (a path, a URL, ``<bytes>``).
        offset: byte offset in `source`, 0-based, or None where no single byte is to blame.
        expected: what a sound file holds there.
        actual: what was found. CRCs are given in hex.
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
        self.offset = offset
        self.expected = expected
        self.actual = actual
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

    def __reduce__(self) -> tuple[object, ...]:
        """Keep every field across processes: Spark workers send errors home pickled."""
        return (_rebuild, (type(self), self.what, self.source, self.offset, self.expected, self.actual))


def _rebuild(
    kind: type[DecodeError], what: str, source: str | None, offset: int | None, expected: object, actual: object
) -> DecodeError:
    return kind(what, source=source, offset=offset, expected=expected, actual=actual)


class Truncated(DecodeError, EOFError):
    """The bytes end before the structure does, or a stored size points past their end."""


class BadMagic(DecodeError):
    """The bytes that name the format are not the ones expected."""


class ChecksumMismatch(DecodeError):
    """The stored CRC differs from the CRC of the bytes; both are given in hex."""


class NotCanonical(DecodeError):
    """The structure breaks a rule of its format: order, duplicates, counts that disagree, trailing bytes."""


class CardinalityMismatch(DecodeError):
    """The vector holds another number of rows than its metadata says."""


class LimitExceeded(DecodeError):
    """The bytes ask for more than a `Limits` allows; the message names the limit."""


class Unsupported(DecodeError, NotImplementedError):
    """Well-formed as far as can be seen, but of a kind that dvcodec does not read."""
