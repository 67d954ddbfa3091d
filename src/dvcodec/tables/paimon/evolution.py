"""Values of a data file in a later schema: fields are matched by id, and cast where nothing is lost.

Java class ``SchemaEvolutionUtil``. What a file stores is named and typed by the schema it was written with; fields
added since are null, renamed ones keep their id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import Unsupported
from dvcodec.tables.paimon.types import DataType, Field, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["evolve", "stored_as"]

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
_TIMES = ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


def stored_as(array: pa.Array, kind: DataType, *, source: str, what: str) -> pa.Array:
    """Return values as a file stores them in the Arrow type of their own schema: another unit, another width.

    Raises:
        Unsupported: the file stores something else.
    """
    import pyarrow as pa  # noqa: PLC0415

    wanted = arrow_type(kind)
    if array.type == wanted:
        return array
    if _kin(array.type, wanted):
        try:
            return array.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    raise Unsupported(what, source=source, expected=f"values of {kind.text}", actual=str(array.type))


def _kin(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two Arrow types are of one kind, so that a cast between them changes no meaning."""
    import pyarrow.types as kinds  # noqa: PLC0415

    if kinds.is_nested(found) or kinds.is_nested(wanted):
        lists = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)
        if any(is_list(found) for is_list in lists) and any(is_list(wanted) for is_list in lists):
            return _kin(found.value_type, wanted.value_type)
        if kinds.is_map(found) and kinds.is_map(wanted):
            return _kin(found.key_type, wanted.key_type) and _kin(found.item_type, wanted.item_type)
        if not (kinds.is_struct(found) and kinds.is_struct(wanted)):
            return False
        names = [field.name for field in wanted]
        return [field.name for field in found] == names and all(
            _kin(found.field(name).type, wanted.field(name).type) for name in names
        )
    if kinds.is_int32(found) and kinds.is_time32(wanted):  # as ORC stores it
        return True
    same = (
        kinds.is_signed_integer,
        kinds.is_timestamp,
        kinds.is_decimal,
        kinds.is_time,
        lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind),
        lambda kind: kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind),
    )
    return bool(found == wanted or any(is_kind(found) and is_kind(wanted) for is_kind in same))


def evolve(array: pa.Array, old: DataType, new: DataType, *, source: str, what: str) -> pa.Array:
    """Return values of one type as those of another.

    Args:
        array: in the Arrow type of `old`.
        old: the type in the schema that the file was written with.
        new: the type in the schema that is read.
        source: the data file, for errors.
        what: the column, for errors.

    Raises:
        Unsupported: the types do not allow it without loss, or some value does not.
    """
    if _plain(old) == _plain(new) or _widens(old, new):
        return _cast(array, old, new, source, what)
    if old.root == new.root == "ROW":
        return _evolve_row(array, old, new, source, what)
    if old.root == new.root == "ARRAY":
        return _evolve_list(array, old, new, source, what)
    raise Unsupported(what, source=source, expected=f"a type that {new.text} holds unchanged", actual=old.text)


def _cast(array: pa.Array, old: DataType, new: DataType, source: str, what: str) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415

    wanted = arrow_type(new)
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as err:
        told = f"{old.text} ({str(err).partition(chr(10))[0]:.120})"
        raise Unsupported(what, source=source, expected=f"values of {new.text}", actual=told) from None


def _plain(kind: DataType) -> tuple[Any, ...]:
    """Return a type without its nullability, for comparison."""
    children = tuple((child.id, child.name, _plain(child.type)) for child in kind.children)
    return (kind.root, kind.precision, kind.scale, kind.length, children)


def _evolve_row(array: pa.Array, old: DataType, new: DataType, source: str, what: str) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415

    places = {child.id: i for i, child in enumerate(old.children)}

    def child_array(child: Field) -> pa.Array:
        place = places.get(child.id)
        if place is None:
            return pa.nulls(len(array), arrow_type(child.type))
        inner = f"{what}.{child.name}"
        return evolve(array.field(place), old.children[place].type, child.type, source=source, what=inner)

    arrays = [child_array(child) for child in new.children]
    return pa.StructArray.from_arrays(arrays, fields=list(arrow_type(new)), mask=array.is_null())


def _evolve_list(array: pa.Array, old: DataType, new: DataType, source: str, what: str) -> pa.Array:
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    inner = evolve(array.flatten(), old.children[0].type, new.children[0].type, source=source, what=f"{what}.element")
    lengths = pc.fill_null(array.value_lengths(), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, inner, type=arrow_type(new), mask=array.is_null())


def _widens(old: DataType, new: DataType) -> bool:
    """Whether every value of one type is one of the other, and Paimon's cast gives just that."""
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
