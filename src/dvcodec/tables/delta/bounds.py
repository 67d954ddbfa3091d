"""Bounds of the columns of data files, by which files are skipped.

Specification: Delta's PROTOCOL.md, "Per-file Statistics". JSON text in ``add.stats``, by physical names of columns.
Bounds may be wide: once rows are deleted, they and the counts of nulls are those of the file as it was written. Text is
cut off, times are cut down to milliseconds. What the specification leaves open counts as unknown:

- NaN: writers leave it out of bounds of floats, or not. So floats have none.
- delta-rs writes decimals as 64-bit floats: those that such a float may not hold are widened.
- Days and times before 1583 may be in another calendar than the data file's.
- Offsets of time zones had seconds once, the last until 1972. Delta Spark 3.2 and 3.3 leave them out (``+00:53`` for
  ``+00:53:28``), so that a time is up to 59 seconds off.

The ``stats`` of an ``add`` action, as a delete leaves them.

Specification: Delta's PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from dvcodec.core.errors import DecodeError, NotCanonical
from dvcodec.core.extras import pa
from dvcodec.core.json_text import parse_json
from dvcodec.tables.rows.bounds import ColumnBounds, ending_text, safe_text
from dvcodec.tables.rows.columns import Column

_FLOAT_DIGITS = 15
"""Decimals of up to this many digits survive the conversion to a 64-bit float and back."""
_FLOAT_ERROR = Decimal("1e-15")
_WIDE = Context(prec=100)
_MICROSECONDS = 999
"""How far a time may be beyond its recorded millisecond."""
_GREGORIAN_YEARS = 1583
_LEFT_OUT, _WHOLE_MINUTES = 59_000_000, 94_694_400_000_000
"""Microseconds that an offset may lack, and the time from which on offsets have no seconds: 1973."""
SHORT_OFFSET = re.compile(r'"1(?:[5-8]|9[0-6]|97[0-2])[^"]{2,24}T[0-9:.]+[+-][0-9]{2}:(?!00|15|30|45)[0-9]{2}"')
"""A time in statistics whose offset had seconds, most probably."""
_ENDS = "\ufffd\U0010ffff"
"""What writers append to truncated text, so that it stays an upper bound."""


def parse_statistics(text: Any) -> Mapping[str, Any]:
    """Return the statistics of a data file; unreadable ones count as unknown."""
    if not isinstance(text, str):
        return {}
    try:
        found = parse_json(text, None, "statistics", parse_float=Decimal)
    except (DecodeError, ArithmeticError):
        return {}
    return found if isinstance(found, dict) else {}


def bounds_of(column: Column, statistics: Mapping[str, Any]) -> ColumnBounds:
    """Return the bounds of a column, not of the partition, by the statistics."""
    if column.children:
        return ColumnBounds()
    name = column.stored_name
    lower, upper, count = (_member(statistics, member, name) for member in ("minValues", "maxValues", "nullCount"))
    rows = statistics.get("numRecords")
    whole = type(count) is int and type(rows) is int
    return ColumnBounds(
        _scalar(column, lower, up=False),
        _scalar(column, upper, up=True),
        nulls=not (whole and count == 0),
        values=not (whole and count == rows),
    )


def _member(statistics: Mapping[str, Any], member: str, name: str) -> Any:
    found = statistics.get(member)
    return found.get(name) if isinstance(found, dict) else None


def _scalar(column: Column, value: Any, *, up: bool) -> pa.Scalar[Any] | None:
    types, kind = pa.types, column.type
    try:
        if types.is_integer(kind) or types.is_boolean(kind):
            return pa.scalar(value, kind) if type(value) is (bool if types.is_boolean(kind) else int) else None
        if types.is_decimal(kind):
            return _decimal(value, kind, up=up) if type(value) in (int, Decimal) else None
        if not isinstance(value, str):
            return None
        if types.is_string(kind):
            text = ending_text(value.rstrip(_ENDS)) if up else value
            return pa.scalar(text, kind) if text is not None and safe_text(text) else None
        if types.is_date(kind) or types.is_timestamp(kind):
            return _moment(value, kind, up=up)
    except (pa.ArrowException, ValueError, OverflowError, ArithmeticError):
        pass
    return None


def _decimal(value: int | Decimal, kind: pa.DataType, *, up: bool) -> pa.Scalar[Any] | None:
    number = Decimal(value)
    if kind.precision > _FLOAT_DIGITS:
        more = _WIDE.multiply(abs(number), _FLOAT_ERROR)
        number = _WIDE.add(number, more if up else -more)
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return pa.scalar(number.quantize(Decimal(1).scaleb(-kind.scale), rounding, _WIDE), kind)


def _moment(text: str, kind: pa.DataType, *, up: bool) -> pa.Scalar[Any] | None:
    if not text[:4].isdigit() or text[4:5] != "-" or int(text[:4]) < _GREGORIAN_YEARS:
        return None
    value = pa.scalar(text).cast(kind)
    if not pa.types.is_timestamp(kind):
        return value
    off = _LEFT_OUT if kind.tz is not None and value.value < _WHOLE_MINUTES else 0
    return pa.scalar(value.value + off + _MICROSECONDS if up else value.value - off, kind)


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
