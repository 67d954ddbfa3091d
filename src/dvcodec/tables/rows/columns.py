"""Columns of tables and data files: their types, how to find a table's column in a file, and errors that name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
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
