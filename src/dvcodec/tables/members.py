"""Members of the JSON objects in table metadata, each with its type checked; errors name the file and the member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from dvcodec.core.errors import NotCanonical

__all__ = ["Members", "is_path"]

_MISSING = object()


def is_path(text: str) -> bool:
    """Whether text can name a file at all: not empty, no NUL, and no lone surrogate."""
    return bool(text) and "\0" not in text and (text.isascii() or text.encode("utf-8", "replace").decode() == text)


@dataclass(frozen=True, slots=True)
class Members:
    """A JSON object of a metadata file.

    Attributes:
        values: its members.
        source: the file, for errors.
        where: the object's place in the file: ``snapshots[3]``; empty for the whole.
    """

    values: Mapping[str, Any]
    source: str
    where: str = ""

    @classmethod
    def of(cls, value: Any, source: str, where: str = "") -> Members:
        """Return a value that must be an object.

        Raises:
            NotCanonical: it is not an object.
        """
        if not isinstance(value, dict):
            raise NotCanonical(where or "table metadata", source=source, expected="an object", actual=_kind(value))
        return cls(value, source, where)

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def path_to(self, name: str) -> str:
        """Return a member's place in the file."""
        return f"{self.where}.{name}" if self.where else name

    def fail(self, name: str, expected: object, actual: object = _MISSING) -> NoReturn:
        """Refuse a member.

        Raises:
            NotCanonical: always.
        """
        found = _kind(self.values.get(name)) if actual is _MISSING else actual
        raise NotCanonical(self.path_to(name), source=self.source, expected=expected, actual=found)

    def integer(self, name: str, *, least: int = -(2**63)) -> int:
        """Return a 64-bit integer that is required.

        Raises:
            NotCanonical: it is not an integer, missing, or out of range.
        """
        value = self.values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(name, "an integer")
        if not least <= value < 2**63:
            self.fail(name, f"{least} to {2**63 - 1}", str(value)[:40])
        return value

    def integer_or_none(self, name: str, *, least: int = -(2**63)) -> int | None:
        """Return a 64-bit integer; None if it is missing or null.

        Raises:
            NotCanonical: it is of another type, or out of range.
        """
        return self.integer(name, least=least) if name in self else None

    def text(self, name: str) -> str:
        """Return a string that is required.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        value = self.values.get(name)
        if not isinstance(value, str):
            self.fail(name, "a string")
        return value

    def text_or_none(self, name: str) -> str | None:
        """Return a string; None if it is missing or null.

        Raises:
            NotCanonical: it is of another type.
        """
        return self.text(name) if name in self else None

    def path(self, name: str) -> str:
        """Return the path of a file or folder that is required.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        text = self.text(name)
        if not is_path(text):
            self.fail(name, "a path", repr(text)[:80])
        return text

    def object(self, name: str) -> Members:
        """Return an object that is required.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        return Members.of(self.values.get(name), self.source, self.path_to(name))

    def array(self, name: str) -> list[Any]:
        """Return an array that is required.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        value = self.values.get(name)
        if not isinstance(value, list):
            self.fail(name, "an array")
        return value

    def objects(self, name: str) -> list[Members]:
        """Return an array of objects that is required.

        Raises:
            NotCanonical: it is missing or of another type.
        """
        path = self.path_to(name)
        return [Members.of(item, self.source, f"{path}[{i}]") for i, item in enumerate(self.array(name))]

    def objects_if_any(self, name: str) -> list[Members]:
        """Return an array of objects; an empty one if it is missing or null.

        Raises:
            NotCanonical: it is of another type.
        """
        return self.objects(name) if name in self else []


def _kind(value: object) -> str:
    """Say what a JSON value is, without repeating a large one."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return repr(value)[:60]
