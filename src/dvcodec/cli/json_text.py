"""JSON as output."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from json.encoder import encode_basestring_ascii
from typing import Any

_AT_ONCE = 1000
"""Values of an array that are encoded at once."""
_MOST_INNER = 1 << 17
"""Values of arrays within these."""


_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


def print_json(value: Any) -> None:
    """Print a value as JSON, in ASCII: valid in every encoding, whatever a path contains.

    Bytes are printed as hex, iterators as arrays: their values need not be in memory together.
    """
    _write(value, "\n", sys.stdout.write)
    sys.stdout.write("\n")


@contextmanager
def _no_collections() -> Iterator[None]:
    """Text has no cycles, and the collector would go through a million objects of a value again and again.

    It is only for encoding: iterators, which are read between, may make cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _write(value: Any, margin: str, write: Callable[[str], object]) -> None:
    """Write what ``json.dumps(value, indent=2)`` returns, in pieces.

    Args:
        value: an object, an array or a scalar.
        margin: a line break and the indentation of the value.
        write: called with each piece.
    """
    if isinstance(value, dict) and value:
        before = "{" + (inner := margin + "  ")
        for name, member in value.items():
            write(f"{before}{_key(name)}: ")
            _write(member, inner, write)
            before = "," + inner
        write(margin + "}")
    elif isinstance(value, list | tuple | Iterator):
        _write_array(iter(value), margin, write)
    else:
        with _no_collections():
            text = _texts([value], margin)[0]
        write(text)


def _write_array(values: Iterator[Any], margin: str, write: Callable[[str], object]) -> None:
    before = "[" + (inner := margin + "  ")
    while some := list(islice(values, _AT_ONCE)):
        try:
            with _no_collections():
                text = ("," + inner).join(_texts(some, inner))
            write(before + text)
            before = "," + inner
        except _LargeError:
            for value in some:
                write(before)
                _write(value, inner, write)
                before = "," + inner
    write("[]" if before[0] == "[" else margin + "]")


class _LargeError(Exception):
    """There are iterators or long arrays: they are written in pieces."""


def _texts(values: Sequence[Any], margin: str) -> list[str]:
    """Encode values, column by column: json encodes scalars in C, but indents in Python.

    Raises:
        _LargeError: see there.
    """
    kinds = set(map(type, values))
    if kinds <= _SCALARS:
        return _ENCODER.encode(values)[1:-1].split(_BREAK)
    inner = margin + "  "
    if kinds == {dict} and len(names := set(map(tuple, values))) == 1:
        (keys,) = names
        columns = [_texts(column, inner) for column in zip(*(value.values() for value in values), strict=True)]
        members = ",".join(f"{inner}{_key(name).replace('%', '%%')}: %s" for name in keys)
        form = "{" + members + margin + "}" if keys else "{}"
        return list(map(form.__mod__, zip(*columns, strict=True))) if keys else [form] * len(values)
    if kinds <= {list, tuple}:
        if sum(map(len, values)) > _MOST_INNER:
            raise _LargeError
        parts = iter(_texts(flat, inner) if (flat := list(chain.from_iterable(values))) else ())
        between = "," + inner
        return [f"[{inner}{between.join(islice(parts, len(one)))}{margin}]" if one else "[]" for one in values]
    if len(values) > 1:
        return [_texts([value], margin)[0] for value in values]
    (value,) = values
    if isinstance(value, Iterator):
        raise _LargeError
    for plain in (dict, list, tuple):
        if isinstance(value, plain):
            return _texts([plain(value)], margin)
    return [_ENCODER.encode(values)[1:-1]]


@lru_cache
def _key(name: Any) -> str:
    return encode_basestring_ascii(name if isinstance(name, str) else json.dumps(name))


_BREAK = ",\n"
"""Between values: no text in JSON has a line break."""
_ENCODER = json.JSONEncoder(separators=(_BREAK, ": "), default=bytes.hex)
