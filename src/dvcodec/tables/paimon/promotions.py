"""Types of an older schema that can be read as those of a newer one, because a cast does not change values.

Java class ``SchemaEvolutionUtil``. A file's columns have the names and types of the schema it was written with;
fields added since are null, renamed ones keep their id.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dvcodec.core.errors import Unsupported
from dvcodec.core.extras import pa
from dvcodec.core.extras import types as kinds
from dvcodec.tables.columns import Column
from dvcodec.tables.paimon.schema import DataType
from dvcodec.tables.schema_evolution import Evolution, is_list, plain_array

__all__ = ["PaimonEvolution"]

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
_TIMES = ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


class PaimonEvolution(Evolution):
    """Reads arrays in the types of the schema that a file was written with, then promotes those."""

    misfit = Unsupported

    def promotes(self, found: pa.DataType, column: Column) -> bool:  # noqa: ARG002
        """Return True: `convert` has already compared Paimon's types, which are more specific than Arrow's."""
        return True

    def convert(self, array: pa.Array, stored: Column, column: Column, what: str) -> pa.Array:
        """Convert an array; see `Evolution.convert`."""
        old, new = stored.kind, column.kind
        nested = old.root == new.root and new.root in ("ROW", "ARRAY")
        if not (nested or _plain(old) == _plain(new) or _widens(old, new)):
            raise Unsupported(
                what, source=self.source, expected=f"a type that {new.text} holds unchanged", actual=old.text
            )
        return super().convert(self._as_stored(plain_array(array), stored, what), stored, column, what)

    def _as_stored(self, array: pa.Array, stored: Column, what: str) -> pa.Array:
        """Return values in the Arrow type of the schema they were written with: the unit or width may differ."""
        if array.type == stored.type:
            return array
        if _kin(array.type, stored.type):
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return array if stored.children else array.cast(stored.type)
        expected = f"values of {stored.kind.text}"
        raise Unsupported(what, source=self.source, expected=expected, actual=str(array.type))


def _kin(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two Arrow types have the same kind, so that a cast between them changes no meaning."""
    if kinds.is_struct(wanted):
        return kinds.is_struct(found) and [field.name for field in found] == [field.name for field in wanted]
    if kinds.is_fixed_size_list(wanted):
        return is_list(found) and (found.value_type == wanted.value_type or _kin(found.value_type, wanted.value_type))
    if kinds.is_int32(found) and kinds.is_time32(wanted):  # as ORC stores it
        return True
    same = (
        is_list,
        kinds.is_map,
        kinds.is_signed_integer,
        kinds.is_timestamp,
        kinds.is_decimal,
        kinds.is_time,
        lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind),
        lambda kind: kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind),
    )
    return any(is_kind(found) and is_kind(wanted) for is_kind in same)


def _plain(kind: DataType) -> tuple[Any, ...]:
    """Return a type without its nullability, for comparison."""
    children = tuple((child.id, child.name, _plain(child.type)) for child in kind.children)
    return (kind.root, kind.precision, kind.scale, kind.length, children)


def _widens(old: DataType, new: DataType) -> bool:
    """Whether every value of one type is a value of the other, and Paimon's cast preserves it."""
    if old.root in _INTEGERS:
        if new.root in _INTEGERS:
            return _INTEGERS.index(old.root) <= _INTEGERS.index(new.root)
        if new.root == "DECIMAL":
            return (new.precision or 0) - (new.scale or 0) >= _DIGITS[old.root]
        whole = {"FLOAT": ("TINYINT", "SMALLINT"), "DOUBLE": ("TINYINT", "SMALLINT", "INT")}.get(new.root, ())
        return old.root in whole or (new.root == "VARCHAR" and (new.length or 0) >= _DIGITS[old.root] + 1)
    if old.root == new.root == "DECIMAL":
        scales = (old.scale or 0, new.scale or 0)
        return scales[0] <= scales[1] and (old.precision or 0) - scales[0] <= (new.precision or 0) - scales[1]
    if old.root in _TIMES and new.root == old.root:
        return (old.precision or 0) <= (new.precision or 0)
    texts = (old.root in _TEXTS and new.root == "VARCHAR") or (old.root in _BYTES and new.root == "VARBINARY")
    return (old.root, new.root) == ("FLOAT", "DOUBLE") or (texts and (old.length or 0) <= (new.length or 0))
