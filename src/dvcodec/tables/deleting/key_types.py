"""Types of keys: which are cast to the type of a column, and how NaN and zero are made comparable."""

from __future__ import annotations

from typing import Any

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa, pc, types
from dvcodec.tables.decimals import MAX_DIGITS
from dvcodec.tables.schema_evolution import plain_array

__all__ = ["cast_keys", "joinable", "plain_values"]


def joinable(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type in which a column is joined.

    Raises:
        UsageError: lists, structs and the like are not keys.
    """
    kind = getattr(kind, "storage_type", kind)
    if types.is_dictionary(kind):
        return joinable(kind.value_type, name)
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary(), pa.float16(): pa.float32()}
    if kind in plain:
        return plain[kind]
    if _family(kind) is None:
        raise UsageError(f"column {name:.80} of type {kind!s:.80} cannot be a key")
    return kind


def plain_values(array: Any, kind: pa.DataType) -> pa.Array:
    """Return a column of the table in the type of `joinable`, with one NaN and one zero."""
    array = plain_array(array)
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
    array = plain_array(array)
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


def _cast(array: Any, kind: pa.DataType) -> Any:
    if pa.types.is_integer(array.type) and pa.types.is_decimal(kind):  # pyarrow wants room for all integers first
        scale = 0 if kind.scale > MAX_DIGITS // 2 else kind.scale
        array = array.cast(pa.decimal128(MAX_DIGITS, scale))
    return array.cast(kind)


def _family(kind: pa.DataType) -> str | None:
    """Return the family of a type: values of one family are cast to each other if nothing is lost."""
    if types.is_timestamp(kind) and kind.tz is not None:
        return "moment with a zone"
    families = {
        "number": (types.is_integer, types.is_floating, types.is_decimal),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "binary": (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view),
        "moment": (types.is_timestamp, types.is_date),
        "time": (types.is_time,),
        "duration": (types.is_duration,),
        "boolean": (types.is_boolean,),
    }
    return next((family for family, tests in families.items() if any(is_one(kind) for is_one in tests)), None)
