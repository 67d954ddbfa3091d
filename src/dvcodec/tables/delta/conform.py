"""Columns of a data file in the types of the table: fields found by name or id, wider types, nulls for what is missing.

Specification: Delta's PROTOCOL.md, "Reader Requirements for Column Mapping", "Type Widening" and "Delta Data Type to
Parquet Type Mappings".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.tables.delta.schema import Column, StoredName

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["conform", "find_field"]

FIELD_ID = b"PARQUET:field_id"
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits that a decimal needs before its point to take integers of so many bits; of bytes and shorts the specification
says 10, the reference implementation goes by their own."""


def find_field(fields: Sequence[pa.Field], column: Column | StoredName, source: str) -> int | None:
    """Find a column among the fields of a data file, or of a struct in it; None if it is not there.

    By field id where the column has one, else by its physical name, as it is spelled or else in any case.

    Raises:
        NotCanonical: several are it.
    """
    if column.id is not None:
        number = str(column.id).encode()
        found = [at for at, field in enumerate(fields) if (field.metadata or {}).get(FIELD_ID) == number]
    else:
        name = column.physical_name
        found = [at for at, field in enumerate(fields) if field.name == name]
        found = found or [at for at, field in enumerate(fields) if field.name.lower() == name.lower()]
    if len(found) > 1:
        what = f"column {column.name}"
        raise NotCanonical(what, source=source, expected="one column of a name or id", actual=len(found))
    return found[0] if found else None


def conform(array: pa.Array, column: Column, source: str) -> pa.Array:
    """Return an array in the type of a column.

    Raises:
        Unsupported: its type does not widen to the column's.
        NotCanonical: a value does not fit, or is null where the column is not.
    """
    import pyarrow as pa  # noqa: PLC0415

    # Equal types say nothing of what is in them: a field's name may be another's in the file.
    if column.children or array.type != column.type:
        try:
            array = _convert(array, column, source)
        except pa.ArrowInvalid as err:
            told = str(err).partition("\n")[0]
            what, wanted = f"column {column.name}", f"values of {column.type}"
            raise NotCanonical(what, source=source, expected=wanted, actual=told) from None
    return array


def _convert(array: pa.Array, column: Column, source: str) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415

    types, found, wanted = pa.types, array.type, column.type
    if types.is_dictionary(found):
        return conform(array.dictionary_decode(), column, source)
    if types.is_null(found):
        return pa.nulls(len(array), wanted)
    if types.is_struct(wanted) and types.is_struct(found):
        children = [_child(array, child, source) for child in column.children]
        return pa.StructArray.from_arrays(
            children, fields=list(wanted), mask=array.is_null() if array.null_count else None
        )
    if types.is_list(wanted) and _is_list(found):
        if not types.is_list(found):
            array = array.cast(pa.list_(found.value_field))
        return _rebuild(array, wanted, conform(array.values, column.children[0], source))
    if types.is_map(wanted) and types.is_map(found):
        parts = [
            conform(part, child, source) for part, child in zip((array.keys, array.items), column.children, strict=True)
        ]
        entries = pa.StructArray.from_arrays(parts, fields=[wanted.key_field, wanted.item_field])
        return _rebuild(array, wanted, entries)
    if not widens(found, wanted):
        raise Unsupported(f"column {column.name}", source=source, expected=wanted, actual=found)
    return array.cast(wanted)


def _child(array: pa.StructArray, column: Column, source: str) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415

    at = find_field(list(array.type), column, source)
    return pa.nulls(len(array), column.type) if at is None else conform(array.field(at), column, source)


def _rebuild(array: pa.Array, wanted: pa.DataType, values: pa.Array) -> pa.Array:
    """Put other values into a list or map, whose own buffers are validity and offsets."""
    return type(array).from_buffers(
        wanted, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
    )


def _is_list(found: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found))


def widens(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type are values of another: as Delta's types widen, or as Parquet may store them."""
    import pyarrow as pa  # noqa: PLC0415

    types = pa.types
    text = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if types.is_string(wanted) or types.is_binary(wanted):
        return any(is_text(found) for is_text in text)
    if types.is_signed_integer(wanted):
        # Not every writer says of its INT32 that it holds bytes or shorts; the cast tells whether it does.
        return types.is_signed_integer(found) and bool(found.bit_width <= max(wanted.bit_width, 32))
    if types.is_float64(wanted):
        return types.is_float32(found) or (types.is_signed_integer(found) and bool(found.bit_width <= 32))
    if types.is_decimal(wanted):
        before = wanted.precision - wanted.scale
        if types.is_signed_integer(found):
            return bool(before >= _DIGITS[found.bit_width])
        return types.is_decimal(found) and bool(wanted.scale >= found.scale and before >= found.precision - found.scale)
    if types.is_timestamp(wanted):
        return types.is_timestamp(found) or (types.is_date(found) and wanted.tz is None)
    return False
