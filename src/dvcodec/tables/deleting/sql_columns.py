"""Columns as DuckDB is given them: in types that hold the same values, or only whether they are null."""

from __future__ import annotations

from typing import Any

from dvcodec.core.extras import pa, pc, types
from dvcodec.tables.columns import extensions, storage_field

__all__ = ["GivenColumns"]

_KNOWN = frozenset({"arrow.bool8", "arrow.json", "arrow.uuid"})
"""Extension types that DuckDB has too. Others it would compare as they are stored, or decode in this process, where a
damaged variant takes all memory."""
_MAX_DIGITS = 38


class GivenColumns:
    """Columns of a table as DuckDB is given them.

    Attributes:
        opaque: columns that are given as true where they are not null, and the extension type that is in each.
        schema: the columns as DuckDB is given them.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.opaque = {field.name: name for field in schema for name in extensions(field) if name not in _KNOWN}
        self.schema = pa.schema(
            [pa.field(field.name, pa.bool_()) if field.name in self.opaque else _given(field) for field in schema]
        )

    def batch(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as DuckDB is given them.

        Raises:
            pyarrow.ArrowException: a value is none of its type's there.
        """
        pairs = zip(self.schema, columns.columns, strict=True)
        return pa.RecordBatch.from_arrays([self._array(*pair) for pair in pairs], schema=self.schema)

    def _array(self, field: pa.Field, array: Any) -> pa.Array:
        if field.name in self.opaque:
            return pc.if_else(array.is_null(), pa.scalar(None, pa.bool_()), True)
        array = getattr(array, "storage", array)
        return array if array.type == field.type else array.cast(field.type)


def _given(field: pa.Field) -> pa.Field:
    field = storage_field(field)
    return field.with_type(_given_type(field.type))


def _given_type(kind: Any) -> pa.DataType:
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal256(kind) and kind.precision <= _MAX_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_date64(kind):  # DuckDB drops what is not a whole day, and overflows
        return pa.date32()
    if kind == pa.duration("ns"):  # DuckDB cuts it down to microseconds
        return pa.duration("us")
    if types.is_struct(kind):
        return pa.struct([_given(kind.field(i)) for i in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(_given(kind.key_field), _given(kind.item_field))
    if types.is_list(kind):
        return pa.list_(_given(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(_given(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_given(kind.value_field), kind.list_size)
    return kind
