"""JSON of untrusted files.

Metadata that is written again with changes remains valid JSON for every reader, and hardly grows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from dvcodec.core.errors import NotCanonical
from dvcodec.core.limits import enough_memory


def parse_json(
    data: bytes | str,
    source: str | None,
    what: str,
    *,
    offset: int | None = None,
    parse_constant: Callable[[str], NoReturn] | None = None,
    parse_float: Callable[[str], Any] | None = None,
) -> Any:
    """Parse JSON in UTF-8.

    Args:
        data: the text.
        source: the file, for errors.
        what: what the text is, for errors.
        offset: where the text begins in the file, for errors.
        parse_constant: called for NaN and infinities; None accepts them.
        parse_float: called for numbers with a fraction or an exponent; None makes them floats.

    Raises:
        NotCanonical: it is not JSON.
        LimitExceeded: its values do not fit in memory.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        return json.loads(text, parse_constant=parse_constant, parse_float=parse_float)
    except (ValueError, RecursionError) as err:
        actual = f"{type(err).__name__}: {' '.join(str(err).split())}"[:120]
        raise NotCanonical(what, source=source, offset=offset, expected="JSON", actual=actual) from None
    except MemoryError:
        with enough_memory(f"the values of the {what}", source):
            raise


def encode_json(members: Mapping[str, Any], source: str, what: str, *, lines: bool = False) -> bytes:
    """Encode an object as JSON in UTF-8, in which lone surrogates remain escapes.

    Args:
        members: the object.
        source: the file that its members are from, for errors.
        what: what the JSON is, for errors.
        lines: with a line for each member, and for each object in an array of them; deeper levels are not indented,
            because an indentation for each value may be a thousand times as long as the value.

    Raises:
        NotCanonical: a number that JSON does not have, such as the infinity that 1e999 is read as; or too many levels.
    """
    try:
        text = _in_lines(members) if lines else _compact(members)
    except (ValueError, RecursionError) as err:
        actual = f"{type(err).__name__}: {err}"[:120]
        raise NotCanonical(what, source=source, expected="what JSON can represent", actual=actual) from None
    return text.encode("utf-8", "backslashreplace")


def _in_lines(members: Mapping[str, Any]) -> str:
    """Return an object with a line for each member."""
    texts = []
    for name, value in members.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            text = "[\n    " + ",\n    ".join(map(_compact, value)) + "\n  ]"
        else:
            text = _compact(value)
        texts.append(f"  {_compact(name)}: {text}")
    return "{\n" + ",\n".join(texts) + "\n}"


_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
