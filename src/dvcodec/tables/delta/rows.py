"""Rows of a data file in the columns of the table, by physical position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dvcodec.core.errors import NotCanonical
from dvcodec.core.extras import pa, types
from dvcodec.io import Storage
from dvcodec.tables.delta.partition import partition_scalar
from dvcodec.tables.delta.schema import TableSchema
from dvcodec.tables.model import WHOLE, Part, PhysicalRows
from dvcodec.tables.rows.bounds import RowGroupFilter
from dvcodec.tables.rows.columns import Column
from dvcodec.tables.rows.data_file import open_parquet, physical_batches, skipped_groups
from dvcodec.tables.rows.schema_evolution import Evolution, check_related, file_columns

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits before the point that a decimal needs to hold integers of that many bits. For bytes and shorts the
specification says 10; Delta Spark accepts these."""


def read_rows(
    location: str,
    storage: Storage,
    columns: Sequence[Column],
    partition_values: Mapping[str, str | None],
    partition_columns: frozenset[str],
    batch_rows: int,
    schema: TableSchema | None = None,
    part: Part = WHOLE,
    wanted: RowGroupFilter | None = None,
) -> Iterator[PhysicalRows]:
    """Read a data file; see `Table.physical_rows`.

    Missing columns are null. A file with rows but without any column of the table is refused, whatever columns are
    requested: its names or ids are not those of the schema. It is read as nulls, as in Delta Spark, if its field ids
    show that all its columns were dropped.

    Args:
        location: location of the file.
        storage: opens it.
        columns: columns of the table to read.
        partition_values: partition values of the file, by physical name.
        partition_columns: columns that take their values from `partition_values`, even if the file has them.
        batch_rows: maximum rows in a batch.
        schema: schema of the table; None skips the check that the file has one of its columns.
        part: of the file.
        wanted: see `Snapshot.rows`.

    Raises:
        DecodeError: the file is corrupt, or does not match the table's schema.
        OSError: it cannot be read.
    """
    constants = {
        column.name: partition_scalar(partition_values, column, location)
        for column in columns
        if column.name in partition_columns
    }
    with open_parquet(location, storage) as file:
        stored = file_columns(file.schema_arrow, location)
        read = [column for column in columns if column.name not in constants]
        if read and read[0].id is not None and all(column.id is None for column in stored):
            raise NotCanonical("field ids of columns", source=location, expected="some", actual="none")
        if schema is not None and file.metadata.num_rows:
            keys = [key for key in schema.stored_among(stored) if key.name not in partition_columns]
            if not keys and not (stored and all(map(schema.was_dropped, stored))):
                keys = [key for key in schema.stored if key.name not in partition_columns]  # for the error
            check_related(stored, keys, location, schema.was_dropped)
        evolution = DeltaEvolution(location, columns, stored, constants)
        skip = skipped_groups(file, evolution, wanted, part)
        for start, batch in physical_batches(file, evolution.names, batch_rows=batch_rows, skip=skip):
            yield PhysicalRows(start, evolution.apply(batch, start))


class DeltaEvolution(Evolution):
    """Reads types that Delta widens, and other ways to store a type in Parquet."""

    def promotes(self, found: pa.DataType, column: Column) -> bool:
        """Whether a type is read as another: one that Delta widens, or another way to store it in Parquet.

        Specification: Delta's PROTOCOL.md, "Type Widening" and "Delta Data Type to Parquet Type Mappings".
        """
        wanted = column.type
        text = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
        if types.is_string(wanted) or types.is_binary(wanted):
            return any(is_text(found) for is_text in text)
        if types.is_signed_integer(wanted):
            # Not every writer annotates the INT32 of bytes and shorts; the cast checks the values.
            return types.is_signed_integer(found) and bool(found.bit_width <= max(wanted.bit_width, 32))
        if types.is_float64(wanted):
            return types.is_float32(found) or (types.is_signed_integer(found) and bool(found.bit_width <= 32))
        if types.is_decimal(wanted):
            before = wanted.precision - wanted.scale
            if types.is_signed_integer(found):
                return bool(before >= _DIGITS[found.bit_width])
            return types.is_decimal(found) and bool(
                wanted.scale >= found.scale and before >= found.precision - found.scale
            )
        if types.is_timestamp(wanted):
            return types.is_timestamp(found) or (types.is_date(found) and wanted.tz is None)
        return False
