"""Compares the writer's schema of an Avro file with a known one.

A container file contains its schema. A hostile one can have records without bytes, or without end: a schema that passes
bounds what reading the records takes, and has the expected type for every known field.
"""

from __future__ import annotations

from typing import Any

__all__ = ["differs", "unwrapped"]

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
