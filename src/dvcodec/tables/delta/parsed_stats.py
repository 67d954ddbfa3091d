"""Statistics that a checkpoint has as columns only (``stats_parsed``), as the JSON text of ``add.stats``.

Specification: Delta's PROTOCOL.md, "Per-file Statistics" and "Checkpoint Schema". Tables with the properties
``delta.checkpoint.writeStatsAsJson=false`` and ``delta.checkpoint.writeStatsAsStruct=true`` have such checkpoints. The
text is what Delta Spark makes of them, by Spark's ``to_json``: nulls are left out, times are cut down to milliseconds.
"""

from __future__ import annotations

import json
from typing import Any

from dvcodec.core.extras import pa, pc

__all__ = ["json_text", "name_bytes"]

_ESCAPED = r'["\\\x00-\x1f]'
_YEARS = ("0001-01-01", "9999-12-31")
"""Years that JSON writes in four digits; dates and times beyond are left out, as unknown."""


def json_text(values: pa.Array) -> pa.Array:
    r"""Return values as JSON text, a column at a time; null for nulls, and for types that have no statistics.

    >>> import pyarrow as pa
    >>> json_text(pa.array([{"minValues": {"a": 'x"', "b": None}}]))[0].as_py()
    '{"minValues":{"a":"x\\""}}'
    """
    types, kind = pa.types, values.type
    if types.is_struct(kind):
        return _object(values)
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return values.cast(pa.string())
    if types.is_floating(kind):
        text = values.cast(pa.string())
        for found, name in (("nan", '"NaN"'), ("-nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
            text = pc.if_else(pc.equal(text, found), name, text)
        return text
    if types.is_string(kind) or types.is_large_string(kind):
        return _quoted(_escaped(values.cast(pa.string())))
    if types.is_date(kind):
        return _quoted(_in_years(values.cast(pa.date32())).cast(pa.string()))
    if types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        moments = pc.floor_temporal(_in_years(values.cast(pa.timestamp(kind.unit))), unit="millisecond")
        text = moments.cast(pa.timestamp("ms")).cast(pa.string())
        return _quoted(pc.replace_substring(text, " ", "T"), zone)
    return pa.nulls(len(values), pa.string())


def name_bytes(kind: pa.DataType) -> int:
    r"""Return how many bytes the names of members are in the text of a value that has them all.

    >>> import pyarrow as pa
    >>> name_bytes(pa.struct([("minValues", pa.struct([("a", pa.int32()), ("\u00e9", pa.int32())]))]))
    24
    """
    if not pa.types.is_struct(kind):
        return 0
    return sum(len(_name(field)) + name_bytes(field.type) for field in kind)


def _name(field: pa.Field) -> bytes:
    """Return what is in front of the value of a member, in UTF-8."""
    return f",{json.dumps(field.name, ensure_ascii=False)}:".encode()


def _object(values: pa.StructArray) -> pa.Array:
    members = [
        pc.binary_join_element_wise(_name(field).decode(), json_text(child), "")
        for field, child in zip(values.type, values.flatten(), strict=True)
    ]
    opening = pa.repeat(pa.scalar("{"), len(values))
    # Not joined by commas: where all members are null, pyarrow 26 then leaves out the row.
    text = pc.binary_join_element_wise(opening, *members, "}", "", null_handling="replace", null_replacement="")
    text = pc.replace_substring(text, "{,", "{", max_replacements=1)
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))


def _quoted(text: Any, end: str = "") -> Any:
    return pc.binary_join_element_wise('"', text, f'{end}"', "")


def _escaped(text: Any) -> Any:
    if not pc.any(pc.match_substring_regex(text, _ESCAPED)).as_py():
        return text
    for sign in ("\\", '"', *map(chr, range(0x20))):
        text = pc.replace_substring(text, sign, json.dumps(sign)[1:-1])
    return text


def _in_years(values: Any) -> Any:
    days = values.cast(pa.date32(), safe=False)
    first, last = (pa.scalar(text).cast(pa.date32()) for text in _YEARS)
    there = pc.and_(pc.greater_equal(days, first), pc.less_equal(days, last))
    return pc.if_else(there, values, pa.scalar(None, values.type))
