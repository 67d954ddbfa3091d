"""The ``stats`` of an ``add`` action, as a delete leaves them.

Specification: Delta's PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import json
import re

from dvcodec.core.errors import NotCanonical

__all__ = ["loosened"]

_BLANK = re.compile(r"[ \t\r\n]*")


def loosened(stats: str | None, rows: int, source: str) -> str:
    """Return statistics that are valid for a data file with deleted rows.

    ``tightBounds`` becomes false and ``numRecords`` the physical rows; every other member keeps its text: bounds are
    still bounds, and decimals are not read as floats.

    Args:
        stats: JSON text; None for none.
        rows: physical rows of the data file.
        source: of the action, for errors.

    Raises:
        NotCanonical: it is not a JSON object.

    >>> loosened('{"numRecords":2,"minValues":{"d":1.10},"tightBounds":true}', 2, "log")
    '{"numRecords":2,"minValues":{"d":1.10},"tightBounds":false}'
    """
    members = _members(stats, source) if stats else {}
    members |= {"numRecords": str(rows), "tightBounds": "false"}
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items()) + "}"


def _members(text: str, source: str) -> dict[str, str]:
    """Return the members of a JSON object with the text of their values."""
    decoder = json.JSONDecoder()
    found: dict[str, str] = {}
    try:
        at = _after(text, 0, "{")
        while text[at] != "}":
            if found:
                at = _after(text, at, ",")
            name, at = decoder.raw_decode(text, at)
            at = _after(text, at, ":")
            _, stop = decoder.raw_decode(text, at)
            found[str(name)] = text[at:stop]
            at = _skip(text, stop)
    except (ValueError, IndexError, RecursionError):
        raise NotCanonical("add.stats", source=source, expected="a JSON object", actual=repr(text)[:80]) from None
    return found


def _after(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if text[at] != sign:
        raise ValueError
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()
