"""What decoding a record by its Avro schema costs, beyond its bytes.

An item of an array or a map takes a byte or two, and becomes a dict with its members. How many there are is known only
after a record is decoded, so what a schema can make of the bytes of one record bounds how many bytes it may have, and
the items found are charged to the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "MAX_DENSITY",
    "ItemCounter",
    "SchemaError",
    "density",
    "item_counter",
    "item_work",
    "record_work",
    "without_annotations",
]

_VALUE, _MEMBER = 16, 8
"""Units of `Budget`: a value, and its place in a dict."""
_LEAST = {"null": 0, "float": 4, "double": 8}
"""Minimum bytes of values of a primitive type; 1 for others."""
MAX_DENSITY = 64
"""Maximum work for each byte of an item: about six members without bytes."""


class SchemaError(ValueError):
    """A schema is invalid, in a way that fastavro does not notice."""


ItemCounter = Callable[[Any], int]
"""Returns the work of the items in a value."""


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


def record_work(kind: Any) -> int:
    """Return the work of a value, without the items of arrays and maps."""
    if isinstance(kind, list):
        return max(map(record_work, kind), default=0)
    name = _name(kind)
    if name == "record":
        return _VALUE + sum(_MEMBER + _inner_work(inner) for inner in _types(kind))
    return record_work(name) if isinstance(name, (list, dict)) else _VALUE


def _inner_work(kind: Any) -> int:
    """Return the work of a member: its place is counted already, and small values are shared."""
    return record_work(kind) if _has_record(kind) else 0


def _has_record(kind: Any) -> bool:
    options = kind if isinstance(kind, list) else [kind]
    return any(_name(option) == "record" or isinstance(_name(option), (list, dict)) for option in options)


def item_work(kind: Any) -> int:
    """Return the work of an item of an array or a map."""
    items = _items(kind)
    return record_work(items) + (_VALUE if _name(kind) == "map" else 0)


def density(kind: Any) -> int:
    """Return the maximum work of the items in a value for each of its bytes; more than `MAX_DENSITY` without bound."""
    if isinstance(kind, list):
        return max(map(density, kind), default=0)
    name = _name(kind)
    if name in ("array", "map"):
        items, key = _items(kind), int(name == "map")
        options = items if isinstance(items, list) else [items]
        sizes = [_least(option) + key + isinstance(items, list) for option in options]
        if not all(sizes):
            return MAX_DENSITY + 1
        own = (-(-(record_work(option) + key * _VALUE) // size) for option, size in zip(options, sizes, strict=True))
        return max([density(items), *own])
    if isinstance(name, (list, dict)):
        return density(name)
    return max(map(density, _types(kind)), default=0)


def item_counter(kind: Any) -> ItemCounter | None:
    """Return what counts the work of the items in a value of a type; None for a type that has none."""
    if isinstance(kind, list):
        counters = [counter for counter in map(item_counter, kind) if counter is not None]
        if not counters:
            return None
        return _unless_null(counters[0]) if _only(kind) is not kind else _all_items
    name = _name(kind)
    if name in ("array", "map"):
        return _of_items(kind, item_counter(_items(kind)))
    if isinstance(name, (list, dict)):
        return item_counter(name)
    if name != "record":
        return None
    flat, nested = [], []
    for entry in _fields(kind):
        name, only = entry["name"], _only(entry["type"])
        if _name(only) not in ("array", "map"):
            counter = item_counter(entry["type"])
        elif (inner := item_counter(_items(only))) is not None:
            counter = _unless_null(_of_items(only, inner))
        else:
            flat.append((name, item_work(only)))
            continue
        if counter is not None:
            nested.append((name, counter))
    return _of_record(flat, nested) if flat or nested else None


def _of_items(kind: Any, inner: ItemCounter | None) -> ItemCounter:
    work, is_map = item_work(kind), _name(kind) == "map"
    if inner is None:
        return lambda value: work * len(value)
    return lambda value: work * len(value) + sum(map(inner, value.values() if is_map else value))


def _of_record(flat: list[tuple[str, int]], nested: list[tuple[str, ItemCounter]]) -> ItemCounter:
    def count(value: Any) -> int:
        total = 0
        for name, work in flat:  # most of a manifest's records, so without a call for each
            if items := value[name]:
                total += work * len(items)
        for name, counter in nested:
            total += counter(value[name])
        return total

    return count


def _only(kind: Any) -> Any:
    """Return the type of a nullable union; another type unchanged."""
    options = [option for option in kind if _name(option) != "null"] if isinstance(kind, list) else []
    return options[0] if len(options) == 1 else kind


def _unless_null(counter: ItemCounter) -> ItemCounter:
    return lambda value: 0 if value is None else counter(value)


def _all_items(value: Any) -> int:
    """Count the items of a value of unknown type: every member counts as one."""
    if not isinstance(value, (list, dict)):
        return 0
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
    return 2 * _VALUE * len(value) + sum(map(_all_items, inner))


def _name(kind: Any) -> Any:
    return kind.get("type") if isinstance(kind, dict) else kind


def _items(kind: Any) -> Any:
    return kind["items" if _name(kind) == "array" else "values"]


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
