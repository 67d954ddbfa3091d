"""Rows of a data file in the columns of the table, by physical position."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dvcodec.core.errors import NotCanonical
from dvcodec.io import Storage
from dvcodec.tables.columns import unrelated
from dvcodec.tables.delta.conform import FIELD_ID, conform, find_field
from dvcodec.tables.delta.partition import partition_scalar
from dvcodec.tables.delta.schema import Column, TableSchema
from dvcodec.tables.model import PhysicalRows
from dvcodec.tables.parquet import open_parquet, physical_batches

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_rows"]

_ID = re.compile(rb"[1-9][0-9]{0,17}")


def read_rows(
    location: str,
    storage: Storage,
    columns: Sequence[Column],
    partition_values: Mapping[str, str | None],
    partition_columns: frozenset[str],
    batch_rows: int,
    schema: TableSchema | None = None,
) -> Iterator[PhysicalRows]:
    """Read a data file; see `Table.physical_rows`.

    What a file lacks is null. But a file with rows and without a single column of the table is refused, whatever is
    asked for: its names or ids are not those of the schema. Unless its field ids show that all its columns were
    dropped since: then null is what they are, as Delta Spark has it.

    Args:
        location: of the file.
        storage: by which it is opened.
        columns: of the table, those to read.
        partition_values: of the file, by physical name.
        partition_columns: names of the columns whose values are those, whatever the file holds.
        batch_rows: at most so many rows in a batch.
        schema: of the table; None leaves unchecked whether the file holds one of its columns.

    Raises:
        DecodeError: the file is not sound, or not what the table's schema says.
        OSError: it cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415

    constants = {
        column.name: partition_scalar(partition_values, column, location)
        for column in columns
        if column.name in partition_columns
    }
    result = pa.schema([column.field for column in columns])
    with open_parquet(location, storage) as file:
        fields = list(file.schema_arrow)
        stored = [column for column in columns if column.name not in constants]
        if stored and stored[0].id is not None and not any(FIELD_ID in (field.metadata or {}) for field in fields):
            raise NotCanonical("field ids of columns", source=location, expected="some", actual="none")
        if schema is not None and file.metadata.num_rows:
            _check_related(fields, schema, partition_columns, location)
        places = {column.name: find_field(fields, column, location) for column in stored}
        names = {name: fields[at].name for name, at in places.items() if at is not None}
        for start, batch in physical_batches(file, list(names.values()), batch_rows=batch_rows):
            arrays = []
            for column in columns:
                if column.name in constants:
                    array = pa.repeat(constants[column.name], batch.num_rows)
                elif column.name in names:
                    array = conform(batch.column(names[column.name]), column, location)
                else:
                    array = pa.nulls(batch.num_rows, column.type)
                if array.null_count and not column.nullable:
                    what, actual = f"column {column.name}", f"{array.null_count} from row {start} on"
                    raise NotCanonical(what, source=location, expected="no nulls", actual=actual)
                arrays.append(array)
            yield PhysicalRows(start, _batch(arrays, result, batch.num_rows))


def _check_related(fields: list[pa.Field], schema: TableSchema, partition_columns: frozenset[str], source: str) -> None:
    """Refuse a file whose rows would all be null because nothing of the schema is in it."""
    stored = [column for column in schema.stored if column.name not in partition_columns]
    if not stored or any(find_field(fields, column, source) is not None for column in stored):
        return
    if not (schema.mode != "none" and fields and all(_was_dropped(field, schema) for field in fields)):
        wanted = [column.physical_name if column.id is None else f"field id {column.id}" for column in stored]
        raise unrelated(source, wanted, [field.name for field in fields])


def _was_dropped(field: pa.Field, schema: TableSchema) -> bool:
    """Whether a field of a file has an id of the table that no column has any more: ids are never used again."""
    number = (field.metadata or {}).get(FIELD_ID, b"")
    return bool(_ID.fullmatch(number)) and int(number) <= schema.max_id and int(number) not in schema.ids


def _batch(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415

    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["none"]).select([])
