"""Equality deletes: which rows of data files they delete.

Specification: Iceberg table spec, "Equality Delete Files" and "Scan Planning": a row is deleted if it
equals a row of the delete file in the columns ``equality_ids`` (null equals null), and its data file is older. Deletes
of an unpartitioned spec apply to all data files, others to those of their partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa, pc
from dvcodec.core.rowset import RowSet
from dvcodec.io import Storage
from dvcodec.tables.columns import Column
from dvcodec.tables.iceberg.manifests import EqualityDeletes, ManifestEntry
from dvcodec.tables.iceberg.metadata import TableMetadata
from dvcodec.tables.iceberg.partitions import Partition, identity_values
from dvcodec.tables.iceberg.plan import Plan
from dvcodec.tables.iceberg.rows import read_name_mapping, read_rows
from dvcodec.tables.iceberg.schema import read_fields
from dvcodec.tables.iceberg.vectors import refuse_encrypted
from dvcodec.tables.model import DataFile, PhysicalRows

__all__ = ["EqualityMatcher"]

_BATCH_ROWS = 1 << 16


_Group: TypeAlias = "tuple[Partition | None, tuple[int, ...]]"
"""Partition, None for all data files; and the columns that are compared."""


class EqualityMatcher:
    """Finds the rows that the equality deletes of a snapshot delete.

    Their keys are kept in memory, once for each partition and set of columns. Safe to use from several threads.

    Args:
        plan: of the snapshot.
        metadata: of its table.
        storage: opens the files.
    """

    def __init__(self, plan: Plan, metadata: TableMetadata, storage: Storage) -> None:
        self._metadata = metadata
        self._storage = storage
        self._groups: dict[_Group, list[EqualityDeletes]] = {}
        self._keys: dict[_Group, _Keys] = {}
        for partition, deletes in plan.equality.items():
            for one in deletes:
                self._groups.setdefault((partition, one.equality_ids), []).append(one)

    def find(self, data: DataFile) -> RowSet:
        """Return the rows of a data file that they delete: 0-based physical positions.

        Raises:
            NotCanonical: there are no columns to compare.
            Unsupported: columns that no schema has at its top level, or of nested types or floating-point numbers; or
                files that are encrypted, or not Parquet, ORC or Avro.
            DecodeError, OSError: a file is corrupt or cannot be read.
        """
        found = RowSet()
        for group in self._groups:
            partition, ids = group
            newest = max(one.sequence_number for one in self._groups[group])
            if partition in (None, data.partition_key) and (data.sequence_number or 0) < newest:
                found = found | self._find(group, self._fields(ids), data)
        return found

    def _find(self, group: _Group, fields: Sequence[Column], data: DataFile) -> RowSet:
        if group not in self._keys:
            files = ((self._read(one, fields), one.sequence_number) for one in self._groups[group])
            self._keys[group] = _Keys.of(files, [field.name for field in fields])
        keys, number = self._keys[group], data.sequence_number or 0
        parts = [rows.start + np.flatnonzero(keys.newest(rows.batch) > number) for rows in self._read(data, fields)]
        return RowSet.from_positions(np.concatenate(parts)) if parts else RowSet()

    def _read(self, file: DataFile | EqualityDeletes, fields: Sequence[Column]) -> Iterator[PhysicalRows]:
        metadata = self._metadata
        entry = file.record if isinstance(file, EqualityDeletes) else ManifestEntry.of(file)
        refuse_encrypted(entry, file.path)
        return read_rows(
            file.location,
            self._storage,
            fields,
            file_format=entry.file_format,
            partition=identity_values(entry.partition, metadata.specs),
            names=read_name_mapping(metadata.name_mapping, metadata.source),
            rows=file.rows if isinstance(file, EqualityDeletes) else file.physical_rows,
            batch_rows=_BATCH_ROWS,
        )

    def _fields(self, ids: Sequence[int]) -> list[Column]:
        """Return the columns of field ids, by the newest schema that has each."""
        metadata = self._metadata
        current = metadata.schemas[metadata.current_schema_id]
        others = [schema for _, schema in sorted(metadata.schemas.items(), reverse=True)]
        if not ids:
            raise NotCanonical("equality_ids", source=metadata.source, expected="at least one column", actual="none")
        found = []
        for number in ids:
            for schema in (current, *others):
                names = {field.integer("id"): field.column_name("name") for field in schema.objects("fields")}
                if number in names:
                    (column,) = read_fields(schema, [names[number]], metadata.source)
                    break
            else:
                actual = f"field {number}, which is not a column, or inside of one"
                raise Unsupported("equality deletes", source=metadata.source, expected="columns", actual=actual)
            if pa.types.is_floating(column.field.type) or pa.types.is_nested(column.field.type):
                actual = f"{column.name} of type {column.field.type}"
                raise Unsupported("equality deletes", source=metadata.source, expected="exact keys", actual=actual)
            found.append(column)
        return found


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
