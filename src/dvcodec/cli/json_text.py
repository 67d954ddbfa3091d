"""JSON as output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any

__all__ = ["print_json"]

_AT_ONCE = 1000
"""Values of an array that are encoded at once."""


def _float(value: float) -> str:
    return float.__repr__(value) if isfinite(value) else json.dumps(value)


_SCALARS: Mapping[type, Callable[[Any], str]] = {
    str: encode_basestring_ascii,
    int: int.__repr__,
    float: _float,
    bool: json.dumps,
    bytes: lambda value: f'"{value.hex()}"',
    type(None): json.dumps,
}
"""What encodes a value of each type: json takes most of its time to choose between them."""


def print_json(value: Any) -> None:
    """Print a value as JSON, in ASCII: valid in every encoding, whatever a path contains.

    Bytes are printed as hex, iterators as arrays: their values need not be in memory together.
    """
    _write(value, "\n", sys.stdout.write)
    sys.stdout.write("\n")


def _write(value: Any, margin: str, write: Callable[[str], object]) -> None:
    """Write what ``json.dumps(value, indent=2)`` returns, in pieces.

    Args:
        value: an object, an array or a scalar.
        margin: a line break and the indentation of the value.
        write: called with each piece.
    """
    encode = _SCALARS.get(type(value))
    if encode is not None:
        write(encode(value))
    elif isinstance(value, dict):
        _write_object(value, margin, write)
    elif isinstance(value, list | tuple):
        if not value:
            write("[]")
        elif _are_scalars(value):
            text = _encoder("," + (inner := margin + "  ")).encode(value)
            write(f"[{inner}{text[1:-1]}{margin}]")
        else:
            _write_array(iter(value), margin, write)
    elif isinstance(value, Iterator):
        _write_array(value, margin, write)
    else:
        write(_encoder(", ").encode(value))


def _write_object(value: dict[Any, Any], margin: str, write: Callable[[str], object]) -> None:
    before = "{" + (inner := margin + "  ")
    for name, member in value.items():
        key = encode_basestring_ascii(name if isinstance(name, str) else json.dumps(name))
        encode = _SCALARS.get(type(member))
        if encode is not None:
            write(f"{before}{key}: {encode(member)}")
        else:
            write(f"{before}{key}: ")
            _write(member, inner, write)
        before = "," + inner
    write(margin + "}" if value else "{}")


def _write_array(values: Iterator[Any], margin: str, write: Callable[[str], object]) -> None:
    before = "[" + (inner := margin + "  ")
    while some := list(islice(values, _AT_ONCE)):
        if _are_records(some):
            write(before + _records(some, inner))
            before = "," + inner
        elif _are_scalars(some):
            write(before + _encoder("," + inner).encode(some)[1:-1])
            before = "," + inner
        else:
            for value in some:
                write(before)
                _write(value, inner, write)
                before = "," + inner
    write("[]" if before[0] == "[" else margin + "]")


def _are_scalars(values: Iterable[Any]) -> bool:
    return _SCALARS.keys() >= set(map(type, values))


def _are_records(values: Sequence[Any]) -> bool:
    """Whether values are objects of scalars and of empty arrays and objects, and none is empty itself."""
    if set(map(type, values)) != {dict} or not all(values):
        return False
    members = [member for value in values for member in value.values() if type(member) not in _SCALARS]
    return not any(members) and set(map(type, members)) <= {dict, list, tuple}


def _records(values: Sequence[dict[str, Any]], margin: str) -> str:
    """Return records as members of an array, encoded in C.

    json indents in Python, four times as slowly. The separator has a line break, which no text in JSON has.
    """
    inner = margin + "  "
    text = _encoder("," + inner).encode(values)[2:-2]
    return "{" + inner + text.replace("}," + inner + "{", f"{margin}}},{margin}{{{inner}") + margin + "}"


@lru_cache
def _encoder(separator: str) -> json.JSONEncoder:
    return json.JSONEncoder(separators=(separator, ": "), default=bytes.hex)
