"""Equality deletes: which rows of data files they delete.

Specification: Iceberg table spec, "Equality Delete Files" and "Scan Planning": a row is deleted if it
equals a row of the delete file in the columns ``equality_ids`` (null equals null), and its data file is older. Deletes
of an unpartitioned spec apply to all data files, others to those of their partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa, pc
from dvcodec.core.rowset import RowSet
from dvcodec.io import Storage
from dvcodec.tables.columns import Column
from dvcodec.tables.iceberg.manifests import EqualityDeletes, ManifestEntry
from dvcodec.tables.iceberg.metadata import TableMetadata
from dvcodec.tables.iceberg.partitions import identity_values
from dvcodec.tables.iceberg.plan import Plan
from dvcodec.tables.iceberg.rows import NameMapping, read_rows
from dvcodec.tables.iceberg.schema import read_column
from dvcodec.tables.iceberg.vectors import refuse_encrypted
from dvcodec.tables.json_fields import JsonFields
from dvcodec.tables.model import DataFile, PhysicalRows

__all__ = ["EqualityMatcher"]

_BATCH_ROWS = 1 << 16
_BATCH_VALUES = 1 << 22
"""Of all columns of a batch; fewer rows are read at a time if there are many columns."""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Equality deletes of one partition that compare the same columns.

    Attributes:
        ids: field ids of those columns, sorted: their order in the metadata means nothing.
        deletes: each file once.
        newest: their highest sequence number.
    """

    ids: tuple[int, ...]
    deletes: tuple[EqualityDeletes, ...]
    newest: int


class EqualityMatcher:
    """Finds the rows that the equality deletes of a snapshot delete.

    Their keys are kept in memory, once for each partition and set of columns. Safe to use from several threads.

    Args:
        plan: of the snapshot.
        metadata: of its table.
        storage: opens the files.
        names: returns the name mapping of the table, as for the rows of the snapshot; called if a file is read.
    """

    def __init__(
        self,
        plan: Plan,
        metadata: TableMetadata,
        storage: Storage,
        names: Callable[[], Mapping[str, NameMapping] | None],
    ) -> None:
        self._metadata = metadata
        self._storage = storage
        self._names = names
        self._groups = {partition: tuple(_grouped(deletes)) for partition, deletes in plan.equality.items()}
        self._keys: dict[_Group, _Keys] = {}
        self._columns: dict[int, Column] = {}

    def _applying(self, data: DataFile) -> list[_Group]:
        """Return the groups that may delete rows of a data file."""
        number = data.sequence_number or 0
        own = ManifestEntry.of(data).partition
        return [group for key in (None, own) for group in self._groups.get(key, ()) if number < group.newest]

    def find(self, data: DataFile) -> RowSet:
        """Return the rows of a data file that they delete: 0-based physical positions.

        Raises:
            NotCanonical: there are no columns to compare.
            Unsupported: columns that no schema has at its top level, or of nested types or floating-point numbers; or
                files that are encrypted, or not Parquet, ORC or Avro.
            DecodeError, OSError: a file is corrupt or cannot be read.
        """
        groups = self._applying(data)
        if not groups:
            return RowSet()
        fields = {number: self._column(number) for group in groups for number in group.ids}
        keys = [self._keys_of(group) for group in groups]
        number = data.sequence_number or 0
        parts = []
        for rows in self._read(data, list(fields.values())):
            gone = np.zeros(rows.batch.num_rows, np.bool_)
            for one in keys:
                gone |= one.newest(rows.batch) > number
            parts.append(rows.start + np.flatnonzero(gone))
        return RowSet.from_positions(np.concatenate(parts)) if parts else RowSet()

    def _keys_of(self, group: _Group) -> _Keys:
        if group not in self._keys:
            if not group.ids:
                raise NotCanonical(
                    "equality_ids", source=self._metadata.source, expected="at least one column", actual="none"
                )
            fields = [self._column(number) for number in group.ids]
            files = ((self._read(one, fields), one.sequence_number) for one in group.deletes)
            self._keys[group] = _Keys.of(files, [field.name for field in fields])
        return self._keys[group]

    def _read(self, file: DataFile | EqualityDeletes, fields: Sequence[Column]) -> Iterator[PhysicalRows]:
        metadata = self._metadata
        entry = file.record if isinstance(file, EqualityDeletes) else ManifestEntry.of(file)
        refuse_encrypted(entry, file.path)
        rows = file.rows if isinstance(file, EqualityDeletes) else file.physical_rows
        return read_rows(
            file.location,
            self._storage,
            fields,
            file_format=entry.file_format,
            partition=identity_values(entry.partition, metadata.specs),
            names=self._names(),
            rows=rows,
            batch_rows=max(min(_BATCH_ROWS, _BATCH_VALUES // max(len(fields), 1)), 1),
        )

    def _column(self, number: int) -> Column:
        """Return the column of a field id, by the newest schema that has it; its name has the id, so it is unique."""
        if number not in self._columns:
            place = self._places.get(number)
            source = self._metadata.source
            if place is None:
                actual = f"field {number}, which is not a column, or inside of one"
                raise Unsupported("equality deletes", source=source, expected="columns", actual=actual)
            column = read_column(place)
            if pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
                actual = f"{column.name} of type {column.type}"
                raise Unsupported("equality deletes", source=source, expected="exact keys", actual=actual)
            self._columns[number] = replace(column, name=f"{column.name} (field {number})")
        return self._columns[number]

    @cached_property
    def _places(self) -> dict[int, JsonFields]:
        """The columns of all schemas by field id, as the newest schema with each has them."""
        metadata = self._metadata
        current = metadata.schemas[metadata.current_schema_id]
        others = [schema for _, schema in sorted(metadata.schemas.items())]
        fields = (field for schema in (*others, current) for field in schema.objects("fields"))
        return {field.integer("id"): field for field in fields}


def _grouped(deletes: Iterable[EqualityDeletes]) -> list[_Group]:
    """Group deletes of a partition, oldest first. A file that is listed twice deletes what its newer entry does."""
    found: dict[tuple[int, ...], dict[str, EqualityDeletes]] = {}
    for one in deletes:
        found.setdefault(tuple(sorted(set(one.equality_ids))), {})[one.location] = one
    return [
        _Group(ids, tuple(files.values()), max(one.sequence_number for one in files.values()))
        for ids, files in found.items()
    ]


class _Keys:
    """Keys, each with the highest sequence number that deletes it.

    The columns of a key are turned into one number, column by column: `index_in` finds values and nulls alike.
    """

    def __init__(self, levels: list[tuple[str, pa.Array, pa.Array]], newest: NDArray[np.int64]) -> None:
        self._levels = levels
        self._newest = newest

    @classmethod
    def of(cls, files: Iterable[tuple[Iterator[PhysicalRows], int]], names: list[str]) -> _Keys:
        """Read files of keys, each with its sequence number."""
        batches, numbers = [], []
        for found, number in files:
            for rows in found:
                batches.append(rows.batch)
                numbers.append(np.full(rows.batch.num_rows, number, np.int64))
        if not batches:
            return cls([], np.zeros(0, np.int64))
        table = pa.Table.from_batches(batches)
        levels = []
        codes = np.zeros(table.num_rows, np.int64)
        for name in names:
            values = pc.unique(table[name].combine_chunks())
            codes = codes * (len(values) + 1) + _codes(table[name].combine_chunks(), values)
            known = pc.unique(pa.array(codes))
            levels.append((name, values, known))
            codes = _codes(pa.array(codes), known)
        newest = np.full(len(known), -1, np.int64)
        np.maximum.at(newest, codes, np.concatenate(numbers))
        return cls(levels, newest)

    def newest(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the highest sequence number that deletes each row, -1 if none does."""
        found = np.full(batch.num_rows, -1, np.int64)
        if not self._levels:
            return found
        codes = np.zeros(batch.num_rows, np.int64)
        alive = np.ones(batch.num_rows, np.bool_)
        for name, values, known in self._levels:
            code = _codes(batch[name], values)
            alive &= code >= 0
            codes = _codes(pa.array(codes * (len(values) + 1) + code), known)
            alive &= codes >= 0
        found[alive] = self._newest[codes[alive]]
        return found


def _codes(array: pa.Array, values: pa.Array) -> NDArray[np.int64]:
    """Return the index of each value in others, -1 if it is missing; null is a value like any other."""
    found: NDArray[np.int64] = pc.fill_null(pc.index_in(array, value_set=values), -1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)
