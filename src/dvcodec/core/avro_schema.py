"""Avro schemas: compared with a known one, without annotations, and bounded.

A container file contains its schema. A hostile one can have records without bytes, or without end: the number of items
in an array is stored before them, and if they take no bytes, any number of them takes none. A schema that passes bounds
what reading the records takes, and has the expected type for every known field.
"""

from __future__ import annotations

from typing import Any

_NUMBERS = ("int", "long")
_PRIMITIVES = (*_NUMBERS, "float", "double", "boolean", "string", "bytes")


def differs(found: Any, known: Any, *, required: int | None = None) -> str | None:
    """Describe the first difference between a type and the known one; None if there is none.

    Numbers may be int or long, nullable types may be found without null, and fields may be in any order. Unknown fields
    are allowed if reading them is bounded.

    Args:
        found: the type in the file.
        known: a record of primitives, records and arrays; fields with a default may be missing.
        required: number of leading fields of the outermost record that are required.
    """
    found, nullable = unwrapped(found)
    known, may_be_null = unwrapped(known)
    if nullable and not may_be_null:
        return "nullable"
    if isinstance(known, str):
        same = found == known or (known in _NUMBERS and found in _NUMBERS)
        return None if same else f"{found!r:.60} in place of {known}"
    if not isinstance(found, dict) or found.get("type") != known["type"]:
        return f"{found!r:.60} in place of a {known['type']}"
    if known["type"] == "array":
        return differs(found.get("items"), known["items"])
    fields = _fields(found)
    if fields is None:
        return "a record without fields"
    if len(set(fields)) < len(found["fields"]):
        return "fields without names, or two of one name"
    types = dict(fields)
    for i, entry in enumerate(known["fields"]):
        if entry["name"] not in types:
            if "default" in entry or (required is not None and i >= required):
                continue
            return f"no field {entry['name']}"
        problem = differs(types.pop(entry["name"]), entry["type"])
        if problem:
            return f"field {entry['name']}: {problem}"
    unbounded = next((name for name, kind in types.items() if not _bounded(kind)), None)
    return None if unbounded is None else f"field {unbounded} of type {types[unbounded]!r:.60}"


def unwrapped(kind: Any) -> tuple[Any, bool]:
    """Return the non-null type of a nullable union, and whether it was one; primitives as plain names."""
    nullable = isinstance(kind, list) and len(kind) == 2 and "null" in kind
    if nullable:
        kind = next((option for option in kind if option != "null"), "null")
    if isinstance(kind, dict) and kind.get("type") in _PRIMITIVES and "logicalType" not in kind:
        kind = kind["type"]
    return kind, nullable


def _fields(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a record, name -> type; None if they are missing or invalid."""
    fields = record.get("fields")
    if not isinstance(fields, list) or not all(isinstance(entry, dict) for entry in fields):
        return None
    return {entry["name"]: entry.get("type") for entry in fields if isinstance(entry.get("name"), str)}


def _bounded(kind: Any, depth: int = 8) -> bool:
    """Whether each value takes at least one byte, so that the file size bounds their number."""
    kind, _ = unwrapped(kind)
    if not isinstance(kind, dict):
        return kind in _PRIMITIVES
    if kind.get("type") in _PRIMITIVES:  # with a logical type
        return True
    if not depth:
        return False
    if kind.get("type") == "array":
        return _bounded(kind.get("items"), depth - 1)
    fields = _fields(kind) if kind.get("type") == "record" else None
    return bool(fields) and all(_bounded(field, depth - 1) for field in (fields or {}).values())


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
    return [entry["type"] for entry in _record_fields(kind)] if _name(kind) == "record" else []


def _record_fields(kind: dict[str, Any]) -> list[dict[str, Any]]:
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
