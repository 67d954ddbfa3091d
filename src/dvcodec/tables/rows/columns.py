"""Columns of tables and data files: their types, how to find a table's column in a file, and errors that name them.

`Evolution` makes the columns of a file those of the table: matched by field id or name, promoted, and filled if
missing. A format passes the file's columns with their ids, and subclasses it for the promotions that it allows.

Columns and fields that are never null: nulls where the value that they are in is not null are refused. Below a null,
Arrow has nulls in them too, which its Parquet writer refuses: there they become arbitrary values, which no reader sees.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import pa, types

EXTENSION = b"ARROW:extension:name"
"""Key of the metadata of Arrow fields."""
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """How to find a column in data files.

    Attributes:
        name: in the schema.
        id: field id; None if it is found by name.
        physical_name: name in data files (Delta); empty if that is `name`.
    """

    name: str
    id: int | None = None
    physical_name: str = ""

    @property
    def stored_name(self) -> str:
        """Name in data files."""
        return self.physical_name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(ColumnKey):
    """A column of a table or a data file, a field of a struct, or the element, key or value of a list or map.

    Attributes:
        type: Arrow's.
        nullable: whether it may be null.
        children: fields of a struct, element of a list, key and value of a map.
        kind: the format's own type: Iceberg's name of it without parameters, Paimon's `DataType`.
        default: Iceberg's ``initial-default`` as JSON; None = null.
        extension: name of the Arrow extension type that `type` is the storage of; empty if it says all.
    """

    type: pa.DataType
    nullable: bool = True
    children: tuple[Column, ...] = ()
    kind: Any = None
    default: Any = None
    extension: str = ""

    @property
    def field(self) -> pa.Field:
        """The column as an Arrow field; libraries that know the extension type make it of the field's metadata."""
        metadata = {EXTENSION: self.extension, b"ARROW:extension:metadata": ""} if self.extension else None
        return pa.field(self.name, self.type, self.nullable, metadata)


class ColumnIndex:
    """Finds columns among those of a data file, or of a struct in it, of which there may be thousands.

    Args:
        stored: those columns.
    """

    def __init__(self, stored: Sequence[Column]) -> None:
        self.stored = stored
        self._ids: dict[int, list[int]] = {}
        self._names: dict[str, list[int]] = {}
        self._lower: dict[str, list[int]] = {}
        for place, column in enumerate(stored):
            if column.id is not None:
                self._ids.setdefault(column.id, []).append(place)
            self._names.setdefault(column.name, []).append(place)
            self._lower.setdefault(column.name.lower(), []).append(place)

    def find(self, key: ColumnKey, source: str) -> int | None:
        """Return the place of a column; None if it is missing.

        By field id if the column has one, else by its exact name, else by its name in any case.

        Raises:
            NotCanonical: several match.
        """
        if key.id is not None:
            found = self._ids.get(key.id)
        else:
            name = key.stored_name
            found = self._names.get(name) or self._lower.get(name.lower())
        if not found:
            return None
        if len(found) > 1:
            expected = "one column with this name or id"
            raise NotCanonical(f"column {key.name:.80}", source=source, expected=expected, actual=len(found))
        return found[0]

    def is_alone(self, place: int) -> bool:
        """Whether no other column has the same name."""
        return len(self._names[self.stored[place].name]) == 1


def parts_of(kind: Any) -> list[pa.Field]:
    """Return the fields of a nested type; those of lists and maps have Iceberg's names, whatever those in the file."""
    kind = getattr(kind, "storage_type", kind)
    if types.is_map(kind):
        return [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    if types.is_struct(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    return [kind.value_field.with_name("element")] if hasattr(kind, "value_field") else []


def storage_field(field: pa.Field) -> pa.Field:
    """Return a field of an extension type as one of its storage, with the name of the extension in its metadata."""
    storage = getattr(field.type, "storage_type", None)
    if storage is None:
        return field
    return pa.field(field.name, storage, field.nullable, {EXTENSION: field.type.extension_name})


def extensions(field: pa.Field) -> Iterator[str]:
    """Yield the names of the extension types in a field, its own first."""
    field = storage_field(field)
    name = (field.metadata or {}).get(EXTENSION)
    if name is not None:
        yield name.decode(errors="replace")
    for part in parts_of(field.type):
        yield from extensions(part)


def chosen(names: Iterable[str], columns: Sequence[str] | None, location: str) -> list[str]:
    """Return the columns to read, in this order.

    Args:
        names: names of all columns; a mapping or its keys are not copied, as there may be thousands for each file.
        columns: requested; None = all.
        location: location of the table, for errors.

    Raises:
        UsageError: no such column.
    """
    known = names if isinstance(names, (Mapping, KeysView)) else dict.fromkeys(names)
    if columns is not None and (isinstance(columns, str) or not isinstance(columns, Iterable)):
        raise UsageError(f"columns must be a sequence of names, not {type(columns).__name__}")
    for name in columns or ():
        if name not in known:
            raise UsageError(f"{location} has no column {name!r}: it has {_some(list(known))}")
    return list(known if columns is None else columns)


def select(schema: pa.Schema, columns: Sequence[str] | None, location: str) -> pa.Schema:
    """Return columns of an Arrow schema in this order; None = all.

    Raises:
        UsageError: no such column.
    """
    if columns is None:
        return schema
    return pa.schema([schema.field(name) for name in chosen(schema.names, columns, location)], schema.metadata)


@contextmanager
def column_errors(name: str) -> Iterator[None]:
    """Add the column to the error for its type, and the hint to leave it out.

    Raises:
        Unsupported: the block raised one.
    """
    try:
        yield
    except Unsupported as err:
        column = f"column {name:.80}"
        what = err.what if column in err.what else f"{column} ({err.what})"
        expected = f"{err.expected}; name the other columns (--column, columns=) to leave this one out"
        raise Unsupported(what, source=err.source, offset=err.offset, expected=expected, actual=err.actual) from None


def unrelated(location: str, wanted: Iterable[str], found: Iterable[str]) -> NotCanonical:
    """Return the error for a data file that holds no column of the table: all its rows would be null.

    Args:
        location: location of the data file.
        wanted: columns of the table, under their names in data files; it should have at least one.
        found: its columns.
    """
    expected = f"at least one of {_some(list(wanted))}"
    return NotCanonical("columns of the data file", source=location, expected=expected, actual=_some(list(found)))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"{name:.80}" for name in names[:_SHOWN]) + more or "none"


class Required:
    """Checks the arrays of columns.

    Args:
        schema: of the columns.
        source: the data file, for errors.
    """

    def __init__(self, schema: pa.Schema, source: str) -> None:
        self._source = source
        self._fields = [field if _has_required(field) else None for field in schema]

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
        found = list(arrays)
        for i, field in enumerate(self._fields):
            if field is not None:
                shown = found[i] if rows is None else found[i].filter(rows)
                self._check(shown, field, 0, f"column {field.name:.80}", start)
                found[i] = _without_nulls(found[i], field)
        return found

    def _check(self, array: Any, field: pa.Field, above: int, what: str, start: int) -> None:
        """Check an array that has `above` nulls because what it is in is null, and its parts."""
        count = array.null_count - above
        if count and not field.nullable:
            actual = f"{count} from row {start} on"
            raise NotCanonical(f"{what:.200}", source=self._source, expected="no nulls", actual=actual)
        for i, part in enumerate(parts_of(field.type)):
            if _has_required(part):
                nulls = array.null_count if types.is_struct(field.type) else 0  # null lists have no elements
                self._check(_flat(array, i), part, nulls, f"{what}.{part.name:.80}", start)


def _has_required(field: pa.Field) -> bool:
    """Whether a field, or one in it, is never null."""
    return not field.nullable or any(map(_has_required, parts_of(field.type)))


def _flat(array: Any, i: int) -> Any:
    """Return a field of a struct, null where that is; or the parts of lists and maps that are not null."""
    if types.is_struct(array.type):
        return array.flatten()[i]
    if types.is_map(array.type):
        values = _parts(array)[i]
        array = _rebuild(array, pa.list_(values.type), values)
    return array.flatten()


def _without_nulls(array: Any, field: pa.Field) -> pa.Array:
    """Return an array without nulls where its field has none: those below nulls become arbitrary values."""
    bare = not field.nullable and array.null_count > 0
    parts = _parts(array)
    new = [_without_nulls(*pair) for pair in zip(parts, parts_of(field.type), strict=True)]
    changed = any(one is not other for one, other in zip(new, parts, strict=True))
    return _rebuilt(array, new, bare=bare) if bare or changed else array


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
    """

    misfit: ClassVar[type[DecodeError]] = NotCanonical

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
        self._nulls: dict[pa.DataType, pa.Array] = {}
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
        """Return nulls. Thousands of columns of one type share an array."""
        made = self._nulls.get(kind)
        if made is None or len(made) != rows:
            made = self._nulls[kind] = pa.nulls(rows, kind)
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


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is text or bytes, not of a fixed size."""
    return kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is a list with offsets of any width, or of a fixed size."""
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _rebuild(array: pa.Array, wanted: pa.DataType, values: pa.Array) -> pa.Array:
    """Replace the values of a list or map; its own buffers are validity and offsets."""
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], array.null_count, array.offset, [values])
