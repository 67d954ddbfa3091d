"""Rows of a data file in the columns of the table, by physical position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dvcodec.core.errors import NotCanonical
from dvcodec.io import Storage
from dvcodec.tables.delta.conform import FIELD_ID, conform, find_field
from dvcodec.tables.delta.partition import partition_scalar
from dvcodec.tables.delta.schema import Column
from dvcodec.tables.model import PhysicalRows
from dvcodec.tables.parquet import open_parquet, physical_batches

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_rows"]


def read_rows(
    location: str,
    storage: Storage,
    columns: Sequence[Column],
    partition_values: Mapping[str, str | None],
    partition_columns: frozenset[str],
    batch_rows: int,
) -> Iterator[PhysicalRows]:
    """Read a data file; see `Table.physical_rows`.

    Args:
        location: of the file.
        storage: by which it is opened.
        columns: of the table, those to read.
        partition_values: of the file, by physical name.
        partition_columns: names of the columns whose values are those, whatever the file holds.
        batch_rows: at most so many rows in a batch.

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
    schema = pa.schema([column.field for column in columns])
    with open_parquet(location, storage) as file:
        fields = list(file.schema_arrow)
        stored = [column for column in columns if column.name not in constants]
        if stored and stored[0].id is not None and not any(FIELD_ID in (field.metadata or {}) for field in fields):
            raise NotCanonical("field ids of columns", source=location, expected="some", actual="none")
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
            yield PhysicalRows(start, _batch(arrays, schema, batch.num_rows))


def _batch(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415

    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["none"]).select([])
