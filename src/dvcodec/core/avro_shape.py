"""Avro schemas without annotations, whose records and items take bytes: so that bytes bound what is decoded of them.

The number of items in an array is stored before them. If they take no bytes, any number of them takes none.
"""

from __future__ import annotations

from typing import Any

__all__ = ["SchemaError", "check_shape", "without_annotations"]

_LEAST = {"null": 0, "float": 4, "double": 8}
"""Minimum bytes of values of a primitive type; 1 for others."""
_MOST_EMPTY, _MOST_EMPTY_OF_RECORD = 8, 4096
"""Members without bytes: for each byte of an item; of a record. Columns of type unknown are of Avro's type null."""


class SchemaError(ValueError):
    """A schema is invalid, in a way that fastavro does not notice."""


def without_annotations(kind: Any) -> Any:
    """Return a schema with nothing but what decoding needs.

    Logical types are removed: a decimal of 2 MB takes minutes. So is what fastavro puts into a schema that it parsed,
    because such a schema is not checked again.
    """
    if isinstance(kind, list):
        return [without_annotations(option) for option in kind]
    if not isinstance(kind, dict):
        return kind
    found = {name: kind[name] for name in _KEPT if name in kind}
    for name in _INNER:
        if name in found:
            found[name] = without_annotations(found[name])
    fields = kind.get("fields")
    if isinstance(fields, list):
        found["fields"] = [
            {name: without_annotations(value) for name, value in entry.items() if name in ("name", "type")}
            if isinstance(entry, dict)
            else entry
            for entry in fields
        ]
    return found


_INNER = ("type", "items", "values")
_KEPT = (*_INNER, "name", "namespace", "fields", "size", "symbols")


def check_shape(kind: Any) -> None:
    """Check that what a record is decoded to is not much larger than its bytes.

    Raises:
        SchemaError: items of an array take no bytes; or items or records have many members that take none.
    """
    if _empty(kind) > _MOST_EMPTY_OF_RECORD:
        raise SchemaError("too many members that take no bytes")
    _check_items(kind)


def _check_items(kind: Any) -> None:
    if isinstance(kind, list):
        for option in kind:
            _check_items(option)
        return
    name = _name(kind)
    if name in ("array", "map"):
        items = kind["items" if name == "array" else "values"]
        least = _least(items) + (name == "map")
        if not least or _empty(items) > _MOST_EMPTY * least:
            raise SchemaError("items of an array or a map that take too few bytes")
        _check_items(items)
    elif isinstance(name, (list, dict)):
        _check_items(name)
    for inner in _types(kind):
        _check_items(inner)


def _empty(kind: Any) -> int:
    """Return the maximum number of members without bytes in a value, not counting items."""
    if isinstance(kind, list):
        return max(map(_empty, kind), default=0)
    name = _name(kind)
    if isinstance(name, (list, dict)):
        return _empty(name)
    return sum(1 + _empty(inner) if not _least(inner) else _empty(inner) for inner in _types(kind))


def _name(kind: Any) -> Any:
    return kind.get("type") if isinstance(kind, dict) else kind


def _types(kind: Any) -> list[Any]:
    return [entry["type"] for entry in _fields(kind)] if _name(kind) == "record" else []


def _fields(kind: dict[str, Any]) -> list[dict[str, Any]]:
    fields = kind.get("fields")
    if not isinstance(fields, list):
        raise SchemaError("a record without fields")
    return fields


def _least(kind: Any) -> int:
    """Return the minimum bytes of a value."""
    if isinstance(kind, list):
        return 1
    name = _name(kind)
    if isinstance(name, (list, dict)):
        return _least(name)
    if name == "record":
        return sum(map(_least, _types(kind)))
    if name != "fixed":
        return _LEAST.get(str(name), 1)
    size = kind.get("size") if isinstance(kind, dict) else None
    if not isinstance(size, int) or size < 0:
        raise SchemaError("a fixed type without a size")
    return size
