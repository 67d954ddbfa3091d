"""Types of keys: which are cast to the type of a column, and how values are made equal that engines take for one."""

from __future__ import annotations

from typing import Any

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa, pc

__all__ = ["cast_keys", "joinable", "plain_values"]

_MAX_DIGITS = 38


def joinable(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type in which a column is joined.

    Raises:
        UsageError: lists, structs and the like are not keys.
    """
    types = pa.types
    kind = getattr(kind, "storage_type", kind)
    if types.is_dictionary(kind):
        return joinable(kind.value_type, name)
    for found, wanted in (
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.float16(), pa.float32()),
    ):
        if kind == found:
            return wanted
    if _family(kind) is None:
        raise UsageError(f"column {name} of type {kind} cannot be a key")
    return kind


def plain_values(array: Any, kind: pa.DataType) -> pa.Array:
    """Return a column of the table in the type of `joinable`, with one NaN and one zero."""
    array = _storage(array)
    array = array if array.type == kind else array.cast(kind)
    if pa.types.is_floating(kind):
        array = pc.add(array, pa.scalar(0.0, kind))  # -0.0 becomes 0.0
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), kind), array)
    return array


def cast_keys(array: Any, kind: pa.DataType, name: str) -> pa.Array:
    """Return keys in the type of their column; nothing is rounded, and text is not parsed.

    Args:
        array: of any type.
        kind: of `joinable`.
        name: of the column.

    Raises:
        UsageError: the types do not go together, or a value is not one of the column's type.
    """
    array = _storage(array)
    if array.type == kind or pa.types.is_null(array.type):
        return plain_values(array, kind)
    array = plain_values(array, joinable(array.type, name))
    if _family(array.type) != _family(kind):
        raise UsageError(f"keys: column {name} has type {array.type}, and the table's has type {kind}: cast the keys")
    try:
        cast = _cast(array, kind)
        back = plain_values(_cast(cast, array.type), array.type)
    except pa.ArrowException as err:
        message = str(err).partition("\n")[0]
        raise UsageError(
            f"keys: column {name} of type {array.type} is not {kind} without loss: {message:.200}"
        ) from None
    same = pc.equal(back, array)
    if pa.types.is_floating(array.type):
        same = pc.or_(same, pc.and_(pc.is_nan(back), pc.is_nan(array)))
    if not pc.all(same, min_count=0).as_py():
        lost = array.filter(pc.invert(same))[0]
        raise UsageError(f"keys: column {name} of type {array.type} is not {kind} without loss: {lost!s:.80}")
    return plain_values(cast, kind)


def _storage(array: Any) -> Any:
    array = getattr(array, "storage", array)
    return array.dictionary_decode() if hasattr(array, "dictionary") else array


def _cast(array: Any, kind: pa.DataType) -> Any:
    if pa.types.is_integer(array.type) and pa.types.is_decimal(kind):  # pyarrow wants room for all integers first
        array = array.cast(
            pa.decimal128(_MAX_DIGITS, 0) if kind.scale > _MAX_DIGITS // 2 else pa.decimal128(38, kind.scale)
        )
    return array.cast(kind)


def _family(kind: pa.DataType) -> str | None:
    """Return the family of a type: values of one family are cast to each other if nothing is lost."""
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view():
        return "text"
    if (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    ):
        return "binary"
    if types.is_timestamp(kind):
        return "moment" if kind.tz is None else "moment with a zone"
    if types.is_date(kind):
        return "moment"
    if types.is_time(kind):
        return "time"
    if types.is_duration(kind):
        return "duration"
    return "boolean" if types.is_boolean(kind) else None
