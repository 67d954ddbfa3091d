"""Fields of JSON metadata, which is untrusted: types are checked, and errors name the file and the field.

Typed partition values, which each format writes as text in its own way; decimals are parsed from the text of metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn, TypeVar

from dvcodec.core.errors import NotCanonical

T = TypeVar("T")
_MISSING = object()


def is_path(text: str) -> bool:
    """Whether text can name a file at all: not empty, no NUL, and no lone surrogate."""
    return bool(text) and "\0" not in text and is_utf8(text)


def is_utf8(text: str) -> bool:
    """Whether UTF-8 has the text; JSON may hold lone surrogates, as escapes."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text


def bare_name(name: str, what: str, source: str) -> str:
    """Return a recorded file name, which must be that of a file in its own folder.

    Raises:
        NotCanonical: it is empty, has a slash, or leads to another folder.
    """
    if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise NotCanonical(what, source=source, expected="a bare file name", actual=f"{name!r:.80}")
    return name


@dataclass(frozen=True, slots=True)
class JsonFields:
    """A JSON object of a metadata file. Its methods treat null as missing.

    Attributes:
        values: its fields.
        source: the file, for errors.
        where: path of the object in the file: ``snapshots[3]``; empty for the whole.
    """

    values: Mapping[str, Any]
    source: str
    where: str = ""

    @classmethod
    def of(cls, value: Any, source: str, where: str = "") -> JsonFields:
        """Check that a value is an object.

        Raises:
            NotCanonical: it is not.
        """
        if not isinstance(value, dict):
            raise NotCanonical(where or "table metadata", source=source, expected="an object", actual=_kind(value))
        return cls(value, source, where)

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def path_to(self, name: str) -> str:
        """Return the path of a field in the file."""
        return f"{self.where}.{name}" if self.where else name

    def fail(self, name: str, expected: object, actual: object = _MISSING) -> NoReturn:
        """Refuse a field.

        Raises:
            NotCanonical: always.
        """
        found = _kind(self.values.get(name)) if actual is _MISSING else actual
        raise NotCanonical(self.path_to(name), source=self.source, expected=expected, actual=found)

    def integer(self, name: str, *, least: int = -(2**63)) -> int:
        """Return a required 64-bit integer.

        Raises:
            NotCanonical: it is missing, of another type, or out of range.
        """
        value = self.values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(name, "an integer")
        if not least <= value < 2**63:
            self.fail(name, f"{least} to {2**63 - 1}", str(value)[:40])
        return value

    def integer_or_none(self, name: str, *, least: int = -(2**63)) -> int | None:
        """Return a 64-bit integer; None if it is missing.

        Raises:
            NotCanonical: it has another type, or out of range.
        """
        return self.integer(name, least=least) if name in self else None

    def _of(self, name: str, kind: type[T], expected: str) -> T:
        value = self.values.get(name)
        if not isinstance(value, kind):
            self.fail(name, expected)
        return value

    def flag(self, name: str) -> bool:
        """Return a required boolean.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        return self._of(name, bool, "true or false")

    def text(self, name: str) -> str:
        """Return a required string.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        return self._of(name, str, "a string")

    def text_or_none(self, name: str) -> str | None:
        """Return a string; None if it is missing.

        Raises:
            NotCanonical: it has another type.
        """
        return self.text(name) if name in self else None

    def path(self, name: str) -> str:
        """Return the required path of a file or folder.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        text = self.text(name)
        if not is_path(text):
            self.fail(name, "a path", repr(text)[:80])
        return text

    def column_name(self, name: str) -> str:
        """Return the required name of a column or a field, which data files and Arrow hold as UTF-8.

        Raises:
            NotCanonical: it is missing, of another type, or has a lone surrogate.
        """
        text = self.text(name)
        if not is_utf8(text):
            self.fail(name, "a name of Unicode characters", ascii(text)[:80])
        return text

    def object(self, name: str) -> JsonFields:
        """Return a required object.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        return JsonFields.of(self.values.get(name), self.source, self.path_to(name))

    def object_if_any(self, name: str) -> JsonFields:
        """Return an object; one without fields if it is missing.

        Raises:
            NotCanonical: it has another type.
        """
        return self.object(name) if name in self else JsonFields({}, self.source, self.path_to(name))

    def array(self, name: str) -> list[Any]:
        """Return a required array.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        return self._of(name, list, "an array")

    def array_if_any(self, name: str) -> list[Any]:
        """Return an array; empty if it is missing.

        Raises:
            NotCanonical: it has another type.
        """
        return self.array(name) if name in self else []

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a required array of strings.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        values = self.array(name)
        if not all(isinstance(value, str) for value in values):
            self.fail(name, "an array of strings", repr(values)[:80])
        return tuple(values)

    def objects(self, name: str) -> list[JsonFields]:
        """Return a required array of objects.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        path = self.path_to(name)
        return [JsonFields.of(item, self.source, f"{path}[{i}]") for i, item in enumerate(self.array(name))]

    def objects_if_any(self, name: str) -> list[JsonFields]:
        """Return an array of objects; empty if it is missing.

        Raises:
            NotCanonical: it has another type.
        """
        return self.objects(name) if name in self else []


def _kind(value: object) -> str:
    """Describe a JSON value, without repeating a large one."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return repr(value)[:60]


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """The value of a partition field.

    Attributes:
        column: source column of the values; the name of the field if they have none.
        kind: ``boolean``, ``int``, ``float``, ``double``, ``decimal``, ``date``, ``timestamp``, ``timestamptz``,
            ``string``; ``serialized`` is text as Delta's log has it. Any other word is a type, or a transform, that
            some formats lack.
        value: None = null; days or microseconds since 1970; a `decimal.Decimal`.
    """

    column: str
    kind: str
    value: Any


def is_nan(value: Any) -> bool:
    """Whether a value, of any type, is NaN: the only one that is not equal to itself."""
    return bool(value != value)  # noqa: PLR0124


MAX_DIGITS = 38
"""Maximum digits of a decimal, in any format."""
_DECIMAL = re.compile(r"[+-]?[0-9]{1,38}(?:\.[0-9]{1,38})?(?:[eE][+-]?[0-9]{1,2})?")


def parse_decimal(text: str) -> Decimal:
    """Return a number with all digits written out: an exponent could be of any size, so Arrow must not see it.

    Raises:
        ValueError: it is not a decimal number, or has more than `MAX_DIGITS` digits before or after its point.

    >>> parse_decimal("-1.50"), parse_decimal("2E+3")
    (Decimal('-1.50'), Decimal('2000'))
    """
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r:.60} is not a decimal number")
    number = Decimal(text)
    written = f"{number:f}"
    whole, _, fraction = written.lstrip("-").partition(".")
    if max(len(whole), len(fraction)) > MAX_DIGITS:
        raise ValueError(f"{text!r:.60} has more than {MAX_DIGITS} digits")
    return Decimal(written)
