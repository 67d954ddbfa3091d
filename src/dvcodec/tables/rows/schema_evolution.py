"""Columns of a data file as columns of the table: matched by field id or name, promoted, and filled if missing.

A format passes the file's columns with their ids, and subclasses `Evolution` for the promotions that it allows.

Columns and fields that are never null: nulls where the value that they are in is not null are refused.

Below a null, Arrow has nulls in them too, which its Parquet writer refuses: there they become arbitrary values, which
no reader sees.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.core.extras import pa, pc, types
from dvcodec.tables.rows.columns import Column, ColumnIndex, ColumnKey, parts_of, unrelated


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


FIELD_ID, ORC_FIELD_ID = b"PARQUET:field_id", b"iceberg.id"
_DIGITS = re.compile(rb"[0-9]{1,18}")


def file_columns(fields: Iterable[pa.Field], source: str) -> tuple[Column, ...]:
    """Return the columns of a Parquet or ORC file, with their field ids.

    Raises:
        NotCanonical: a field id is not a number.
    """
    return tuple(
        Column(
            field.name, _field_id(field, source), type=field.type, children=file_columns(parts_of(field.type), source)
        )
        for field in fields
    )


def _field_id(field: pa.Field, source: str) -> int | None:
    metadata = field.metadata or {}
    number = metadata.get(FIELD_ID, metadata.get(ORC_FIELD_ID))
    if number is not None and not _DIGITS.fullmatch(number):
        what, actual = f"field id of column {field.name:.80}", f"{number!r:.60}"
        raise NotCanonical(what, source=source, expected="decimal digits", actual=actual)
    return None if number is None else int(number)


def check_related(
    stored: Sequence[Column], wanted: Sequence[ColumnKey], source: str, was_dropped: Callable[[Column], bool]
) -> None:
    """Refuse a file without any of the wanted columns, unless all its columns were dropped from the table.

    Raises:
        NotCanonical: its rows would all be null because its names or ids are not those of the table.
    """
    index = ColumnIndex(stored)
    if not wanted or any(index.find(key, source) is not None for key in wanted):
        return
    if not (stored and all(map(was_dropped, stored))):
        names = [key.stored_name if key.id is None else f"{key.name} (field id {key.id})" for key in wanted]
        raise unrelated(source, names, [column.name for column in stored])


class Evolution(ABC):
    """Converts the columns of one data file to columns of the table.

    Attributes:
        misfit: error for a value that the promoted type does not hold.
        checks_nulls: whether nulls in columns and fields that have none are refused.
    """

    misfit: ClassVar[type[DecodeError]] = NotCanonical
    checks_nulls: ClassVar[bool] = True

    def __init__(
        self,
        source: str,
        columns: Sequence[Column],
        stored: Sequence[Column],
        constants: Mapping[str, pa.Scalar[Any]] | None = None,
    ) -> None:
        """Match columns.

        Args:
            source: the data file, for errors.
            columns: columns of the table, in the order of the result.
            stored: columns of the file.
            constants: values of columns that are not read from the file, by name.

        Raises:
            NotCanonical: a column matches several of the file.
        """
        self.source = source
        self._columns = columns
        self._schema = pa.schema([column.field for column in columns])
        self._constants = constants or {}
        self._stored: dict[str, Column] = {}
        self._required: Required | None = None
        # Columns of the table and the file live as long as this, so their ids are theirs.
        self._places: dict[tuple[int, int], list[int | None]] = {}
        self._types: dict[pa.DataType, int] = {}
        self._type_of: dict[int, int] = {}
        self._nulls: dict[int, pa.Array] = {}
        index = ColumnIndex(stored)
        for column in columns:
            place = None if column.name in self._constants else index.find(column, source)
            if place is None:
                continue
            if not index.is_alone(place):
                what, expected = f"column {column.name:.80}", "one column with this name or id"
                raise NotCanonical(
                    what, source=source, expected=expected, actual=f"several named {stored[place].name:.80}"
                )
            self._stored[column.name] = stored[place]

    @property
    def names(self) -> list[str]:
        """Columns to read from the file."""
        return list(dict.fromkeys(stored.name for stored in self._stored.values()))

    @property
    def stored(self) -> list[tuple[Column, Column]]:
        """Columns of the table that are read from the file, each with its column there."""
        return [(column, self._stored[column.name]) for column in self._columns if column.name in self._stored]

    @abstractmethod
    def promotes(self, found: pa.DataType, column: Column) -> bool:
        """Whether values of another type are read as those of a column. Called for types without children."""

    def missing(self, column: Column, rows: int) -> pa.Array:
        """Return the values of a column that the file, or a struct in it, does not have."""
        return self._null_array(column.type, rows)

    def _null_array(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Return nulls. Thousands of columns of one type share an array, although each may have an object for it."""
        key = self._type_of.get(id(kind))
        if key is None:  # types are compared as text: too long for structs, and once for each object
            key = self._type_of[id(kind)] = (
                id(kind) if types.is_nested(kind) else self._types.setdefault(kind, id(kind))
            )
        made = self._nulls.get(key)
        if made is None or len(made) != rows:
            made = self._nulls[key] = pa.nulls(rows, kind)
        return made

    def apply(self, batch: pa.RecordBatch, start: int = 0, rows: pa.BooleanArray | None = None) -> pa.RecordBatch:
        """Return a batch of the file in the columns of the table.

        Args:
            batch: as read.
            start: its first row in the file, for errors.
            rows: which of its records are rows; None = all. The others may have nulls anywhere.

        Raises:
            Unsupported: a type is not promoted to that of its column.
            NotCanonical: a value is not one of its column's type, or null where that has no nulls.
        """
        if not self._columns:
            return batch.select([])
        arrays = [self._column(column, batch) for column in self._columns]
        if self.checks_nulls:
            if self._required is None:
                self._required = Required(self._schema, self.source)
            arrays = self._required.checked(arrays, start, rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, column: Column, batch: pa.RecordBatch) -> pa.Array:
        if column.name in self._constants:
            return pa.repeat(self._constants[column.name], batch.num_rows)
        stored = self._stored.get(column.name)
        if stored is None:
            return self.missing(column, batch.num_rows)
        return self.convert(batch.column(stored.name), stored, column, f"column {column.name:.80}")

    def convert(self, array: pa.Array, stored: Column, column: Column, what: str) -> pa.Array:
        """Return an array of the file, or a part of one, in the type of a column; nulls stay where they are.

        Args:
            array: as read.
            stored: its column in the file.
            column: a column of the table.
            what: the column's path, for errors.

        Raises:
            DecodeError: see `apply`.
        """
        array = plain_array(array)
        types, found, wanted = pa.types, array.type, column.type
        # Structs of equal types may still differ: a name can be that of another field in the file.
        if found == wanted and not column.children:
            return array
        if types.is_null(found):
            return self._null_array(wanted, len(array))
        if types.is_struct(wanted) and types.is_struct(found):
            return self._struct(array, stored, column, what)
        if types.is_list(wanted) and is_list(found):
            if not types.is_list(found):
                array = array.cast(pa.list_(found.value_field))
            return _rebuild(array, wanted, self._parts((array.values,), stored, column, what)[0])
        if types.is_map(wanted) and types.is_map(found):
            parts = self._parts((array.keys, array.items), stored, column, what)
            if parts[0].null_count:  # pyarrow ends the process
                actual = f"{parts[0].null_count}"
                raise NotCanonical(f"{what}.key", source=self.source, expected="no nulls", actual=actual)
            entries = pa.StructArray.from_arrays(parts, fields=[wanted.key_field, wanted.item_field])
            return _rebuild(array, wanted, entries)
        return self._cast(array, column, what)

    def _parts(self, arrays: Sequence[pa.Array], stored: Column, column: Column, what: str) -> list[pa.Array]:
        return [
            self.convert(array, old, new, f"{what}.{new.name:.80}")
            for array, old, new in zip(arrays, stored.children, column.children, strict=True)
        ]

    def _struct(self, array: pa.StructArray, stored: Column, column: Column, what: str) -> pa.Array:
        parts = []
        key = id(column), id(stored)
        if key not in self._places:
            index = ColumnIndex(stored.children)
            self._places[key] = [index.find(child, self.source) for child in column.children]
        for child, place in zip(column.children, self._places[key], strict=True):
            if place is None:
                parts.append(self.missing(child, len(array)))
            else:
                path = f"{what}.{child.name:.80}"
                parts.append(self.convert(array.field(place), stored.children[place], child, path))
        if not parts:
            buffers = array.buffers()[:1]
            return pa.Array.from_buffers(column.type, len(array), buffers, array.null_count, array.offset)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=mask)

    def _cast(self, array: pa.Array, column: Column, what: str) -> pa.Array:
        wanted = column.type
        if not self.promotes(array.type, column):
            raise Unsupported(what, source=self.source, expected=f"{wanted!s:.200}", actual=f"{array.type!s:.200}")
        if pa.types.is_null(wanted):
            return pa.nulls(len(array))
        try:
            return array.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as err:
            actual = f"{array.type} ({str(err).partition(chr(10))[0]:.120})"
            raise self.misfit(what, source=self.source, expected=f"values of {wanted}", actual=actual) from None


def plain_array(array: Any) -> pa.Array:
    """Return an array without extension type or dictionary, and text and bytes without views.

    That is how a writer held values in memory; its Parquet files repeat it beside their own types.
    """
    if hasattr(array, "storage"):
        array = array.storage
    if hasattr(array, "dictionary"):
        array = array.dictionary_decode()
    for view, plain in ((pa.string_view(), pa.string()), (pa.binary_view(), pa.binary())):
        if array.type == view:
            return array.cast(plain)
    return array


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is a list with offsets of any width, or of a fixed size."""
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _rebuild(array: pa.Array, wanted: pa.DataType, values: pa.Array) -> pa.Array:
    """Replace the values of a list or map; its own buffers are validity and offsets."""
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], array.null_count, array.offset, [values])
