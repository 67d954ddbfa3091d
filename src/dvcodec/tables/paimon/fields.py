"""Fields of JSON metadata, which is hostile input: each is taken with the type that it must have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported

__all__ = ["Fields", "bare_name", "parse_json"]

Kind = TypeVar("Kind")
MAX_LONG = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object and where it stands, for errors.

    Attributes:
        values: by name.
        source: the file.
        path: of the object in it, ending in a dot; empty for the whole.
    """

    values: Mapping[str, Any]
    source: str
    path: str = ""

    def get(self, name: str, kind: type[Kind]) -> Kind:
        """Return a field. Integers are those of 64 bits, 0 or more.

        Raises:
            NotCanonical: it is missing, or not of that kind.
        """
        value = self.values.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.wrong(name, {str: "text", int: "an integer", list: "a list", dict: "an object"}[kind], value)
        if isinstance(value, int) and not 0 <= value <= MAX_LONG:
            raise self.wrong(name, f"0 to {MAX_LONG}", value)
        return value

    def find(self, name: str, kind: type[Kind]) -> Kind | None:
        """Return a field, or None if it is missing or null.

        Raises:
            NotCanonical: it is not of that kind.
        """
        return None if self.values.get(name) is None else self.get(name, kind)

    def names(self, name: str) -> tuple[str, ...]:
        """Return a field that is a list of texts; missing is empty.

        Raises:
            NotCanonical: it is something else.
        """
        found = self.find(name, list) or []
        if not all(isinstance(item, str) for item in found):
            raise self.wrong(name, "a list of texts", found)
        return tuple(found)

    def objects(self, name: str) -> list[Fields]:
        """Return a field that is a list of objects.

        Raises:
            NotCanonical: it is something else.
        """
        found = self.get(name, list)
        for item in found:
            if not isinstance(item, dict):
                raise self.wrong(name, "a list of objects", item)
        return [Fields(item, self.source, f"{self.path}{name}[{i}].") for i, item in enumerate(found)]

    def wrong(self, name: str, expected: object, actual: object) -> DecodeError:
        """Return the error that a field is not what it must be."""
        return NotCanonical(f"{self.path}{name}", source=self.source, expected=expected, actual=f"{actual!r:.80}")

    def unsupported(self, name: str, expected: object, actual: object) -> DecodeError:
        """Return the error that a field is not what is known here."""
        return Unsupported(f"{self.path}{name}", source=self.source, expected=expected, actual=f"{actual!r:.80}")


def parse_json(data: bytes, source: str) -> Fields:
    """Parse a file that is a JSON object.

    Raises:
        NotCanonical: it is none.
    """
    try:
        found = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as err:
        told = f"{type(err).__name__}: {err}"[:120]
        raise NotCanonical("metadata", source=source, expected="JSON", actual=told) from None
    if not isinstance(found, dict):
        raise NotCanonical("metadata", source=source, expected="a JSON object", actual=f"{found!r:.60}")
    return Fields(found, source)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def bare_name(name: str, what: str, source: str) -> str:
    """Return a recorded file name, which must name a file of its folder and nothing else.

    Raises:
        NotCanonical: it has a slash, or leads elsewhere.
    """
    if not name or name in (".", "..") or any(sign in name for sign in "/\\\0"):
        raise NotCanonical(what, source=source, expected="a bare file name", actual=f"{name!r:.80}")
    return name
