"""Columns and fields that are never null: nulls where the value that they are in is not null are refused.

Below a null, Arrow has nulls in them too, which its Parquet writer refuses: there they become arbitrary values, which
no reader sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dvcodec.core.errors import NotCanonical
from dvcodec.core.extras import pa, pc, types
from dvcodec.tables.columns import parts_of

__all__ = ["Required"]


class Required:
    """Checks the arrays of columns.

    Args:
        schema: of the columns.
        source: the data file, for errors.
    """

    def __init__(self, schema: pa.Schema, source: str) -> None:
        self._source = source
        self._rules = [_rule_of(field) for field in schema]
        self._start = 0

    def checked(
        self, arrays: Sequence[pa.Array], start: int = 0, rows: pa.BooleanArray | None = None
    ) -> list[pa.Array]:
        """Return the arrays, without nulls where the schema has none. Without such nulls, they are returned as is.

        Args:
            arrays: one for each column.
            start: their first row in the data file, for errors.
            rows: those to check; None = all.

        Raises:
            NotCanonical: a value is null where the schema has no nulls.
        """
        self._start = start
        shown = _Shown(lambda: rows)
        return [
            array if rule is None else self._checked(array, rule, shown, f"column {rule.name:.80}")
            for array, rule in zip(arrays, self._rules, strict=True)
        ]

    def _checked(self, array: pa.Array, rule: _Rule, shown: _Shown, what: str) -> pa.Array:
        bare = not rule.nullable and array.null_count > 0
        if bare and (count := shown.nulls(array)):
            actual = f"{count} from row {self._start} on"
            raise NotCanonical(f"{what:.200}", source=self._source, expected="no nulls", actual=actual)
        if rule.parts and len(array):
            parts, below = _parts(array), _Shown(lambda: shown.below(array))
            changed = False
            for i, part in rule.parts.items():
                old, parts[i] = parts[i], self._checked(parts[i], part, below, f"{what}.{part.name:.80}")
                changed = changed or parts[i] is not old
            if changed:
                return _rebuilt(array, parts, bare=bare)
        return _rebuilt(array, _parts(array) if types.is_nested(array.type) else [], bare=True) if bare else array


class _Rule(NamedTuple):
    """What of a column or field must not be null: itself, or parts of it by their place, each with its own rule."""

    name: str
    nullable: bool
    parts: dict[int, _Rule]


def _rule_of(field: pa.Field) -> _Rule | None:
    kind = field.type
    rules = enumerate(map(_rule_of, parts_of(kind))) if types.is_nested(kind) else ()
    parts = {i: rule for i, rule in rules if rule is not None}
    return _Rule(field.name, field.nullable, parts) if parts or not field.nullable else None


class _Shown:
    """Which places of an array are those of values: a place below a null is not. Found if there are nulls.

    Args:
        find: returns the places, None for all.
    """

    def __init__(self, find: Callable[[], pa.BooleanArray | None]) -> None:
        self._find = find

    @cached_property
    def mask(self) -> pa.BooleanArray | None:
        """As booleans, None for all."""
        return self._find()

    @cached_property
    def none(self) -> bool:
        """Whether there are none."""
        return self.mask is not None and not self.mask.true_count

    def nulls(self, array: pa.Array) -> int:
        """Return how many values are null."""
        if self.none:
            return 0
        return int(array.null_count if self.mask is None else pc.and_(array.is_null(), self.mask).true_count)

    def below(self, array: pa.Array) -> pa.BooleanArray | None:
        """Return which places of an array's parts are shown: those of values that are shown and not null."""
        shown = self.mask
        if array.null_count:
            valid = array.is_valid()
            shown = valid if shown is None else pc.and_(valid, shown)
        kind = array.type
        if types.is_struct(kind):
            return shown
        if types.is_fixed_size_list(kind):
            first, counts = array.offset * kind.list_size, kind.list_size
        else:
            offsets = array.offsets.to_numpy()
            first, counts = int(offsets[0]), np.diff(offsets)
        own = np.ones(len(array), bool) if shown is None else shown.to_numpy(zero_copy_only=False)
        found = np.repeat(own, counts)
        places = np.zeros(len(_parts(array)[0]), bool)  # the array may be a slice, its parts are whole
        places[first : first + len(found)] = found
        return pa.array(places)


def _parts(array: Any) -> list[pa.Array]:
    """Return the fields of a struct, the keys and values of a map, or the elements of a list."""
    kind = array.type
    if types.is_struct(kind):
        return [array.field(i) for i in range(kind.num_fields)]
    if types.is_map(kind):
        return [array.keys, array.items]
    return [array.values] if hasattr(kind, "value_field") else []


def _rebuilt(array: pa.Array, parts: list[pa.Array], *, bare: bool) -> pa.Array:
    """Return an array with other parts and, if it is to be bare, without nulls; nothing is copied but bits."""
    kind, buffers = array.type, array.buffers()
    if types.is_null(kind):
        return array
    if types.is_struct(kind) and parts:
        mask = None if bare or not array.null_count else array.is_null()
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if types.is_struct(kind) or types.is_fixed_size_list(kind):
        buffers = buffers[:1]
    elif parts:  # those after the offsets are those of the parts
        buffers = buffers[:2]
    if types.is_map(kind):
        parts = [pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])]
    if bare:
        buffers[0] = None
    return pa.Array.from_buffers(kind, len(array), buffers, 0 if bare else array.null_count, array.offset, parts)
