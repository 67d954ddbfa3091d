"""Keys that rows are joined with: in memory, or on disk if they are too many."""

from __future__ import annotations

import bisect
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import DvcodecError, UsageError
from dvcodec.core.extras import pa, pc
from dvcodec.tables.bounds import ColumnBounds
from dvcodec.tables.deleting.engine import Engine

__all__ = ["KeyStore", "store_keys"]

POSITION = "position"
"""Column of the batches that are joined; keys are c0, c1 ..."""
IN_MEMORY = 128 << 20
"""Most bytes of keys in memory; more are kept on disk."""
_DISK_MEMORY = "1GB"
"""Memory that DuckDB uses for keys before it spills."""


def store_keys(batches: Iterator[pa.RecordBatch], kinds: Sequence[pa.DataType]) -> KeyStore:
    """Store keys; those with a null are left out.

    Args:
        batches: of keys, in order of `kinds`.
        kinds: types of their columns.

    Raises:
        UsageError: there are too many for memory, and a column of durations.
        MissingExtra: there are too many for memory, and DuckDB is not installed.
        OSError: the disk is full.
    """
    schema = pa.schema([pa.field(f"c{i}", kind) for i, kind in enumerate(kinds)])
    keys = (pa.RecordBatch.from_arrays(batch.columns, schema=schema).drop_null() for batch in batches)
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in keys:
        kept.append(batch)
        size += batch.nbytes
        if size > IN_MEMORY:
            if any(map(pa.types.is_duration, kinds)):  # DuckDB's intervals are of microseconds
                raise UsageError("keys: too many for memory, and durations are not kept on disk: delete some at a time")
            return DiskKeys(schema, chain(kept, keys))
    return MemoryKeys(pa.Table.from_batches(kept, schema))


class KeyStore(ABC):
    """Keys of one type each column.

    Attributes:
        schema: of the keys.
        count: how many there are at most.
    """

    schema: pa.Schema
    count: int

    @abstractmethod
    def may_match(self, known: Sequence[ColumnBounds]) -> bool:
        """Whether rows of a data file may have one of the keys, by the bounds of each column."""

    @abstractmethod
    def positions(self, rows: pa.RecordBatch, known: Sequence[ColumnBounds]) -> NDArray[np.int64]:
        """Return the positions of the rows that have one of the keys, in any order.

        Args:
            rows: `POSITION`, and columns of `schema`.
            known: bounds of the columns in the data file.
        """


class MemoryKeys(KeyStore):
    """Keys in memory, sorted by the first column."""

    def __init__(self, keys: pa.Table) -> None:
        self.schema, self.count = keys.schema, keys.num_rows
        self._keys = keys.sort_by(keys.column_names[0]).combine_chunks()
        others = [_sorted(keys.column(name)) for name in keys.column_names[1:]]
        self._columns = [_Ordered(values) for values in (self._keys.column(0), *others)]

    def may_match(self, known: Sequence[ColumnBounds]) -> bool:
        for column, bounds in zip(self._columns, known, strict=True):
            start, stop = column.between(bounds)
            if start == stop:
                return False
        return True

    def positions(self, rows: pa.RecordBatch, known: Sequence[ColumnBounds]) -> NDArray[np.int64]:
        start, stop = self._columns[0].between(known[0])
        keys = self._keys.slice(start, stop - start)
        found = pa.Table.from_batches([rows]).join(keys, self.schema.names, join_type="left semi")
        return np.asarray(found.column(POSITION), np.int64)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the keys."""
        return iter(self._keys.to_batches())


class _Ordered:
    """Sorted values; NaN come last."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self._count = len(values)
        if pa.types.is_floating(values.type):
            self._count -= pc.sum(pc.is_nan(values), min_count=0).as_py()

    def between(self, known: ColumnBounds) -> tuple[int, int]:
        """Return the range of the values that a column of these bounds may have."""
        if not known.values:
            return 0, 0
        start, stop = 0, len(self._values)
        kind = self._values.type
        if known.lower is not None:
            lower = known.lower.cast(kind)
            start = self._first(lambda value: pc.greater_equal(value, lower))
        if known.upper is not None:
            upper = known.upper.cast(kind)
            stop = self._first(lambda value: pc.greater(value, upper))
        return start, max(start, stop)

    def _first(self, beyond: Any) -> int:
        """Return the first place of which that is true, of those before NaN: bounds are those of files without."""
        return bisect.bisect_left(range(self._count), True, key=lambda i: bool(beyond(self._values[i]).as_py()))


def _sorted(values: Any) -> Any:
    distinct = pc.unique(values)
    return distinct.take(pc.sort_indices(distinct))


class DiskKeys(KeyStore):
    """Keys in a database of DuckDB's in a temporary folder, sorted by the first column; removed with this object."""

    def __init__(self, schema: pa.Schema, keys: Iterator[pa.RecordBatch]) -> None:
        self.schema = schema
        folder = Path(tempfile.mkdtemp(prefix="dvcodec-keys-"))
        config = {"memory_limit": _DISK_MEMORY, "temp_directory": str(folder / "spilled")}
        try:
            self._engine = engine = Engine(config, str(folder / "keys.duckdb"))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finalizer = weakref.finalize(self, _remove, engine, folder)
        failed: list[Exception] = []
        names = ", ".join(schema.names)
        reader = pa.RecordBatchReader.from_batches(schema, _noting(keys, failed))
        try:
            given = engine.query(f"SELECT DISTINCT {names} FROM given ORDER BY c0", "given", reader)  # noqa: S608
            given.create("keys")
        except engine.error as err:
            finalizer()
            raise failed[0] if failed else OSError(f"keys on disk: {err!s:.300}") from None
        ends = ", ".join(f"min({name}), max({name})" for name in schema.names)
        row = engine.query(f"SELECT count(*), {ends} FROM keys").to_arrow_table()  # noqa: S608
        self.count = row.column(0)[0].as_py()
        self._ends = [
            (row.column(1 + 2 * i)[0].cast(field.type), row.column(2 + 2 * i)[0].cast(field.type))
            for i, field in enumerate(schema)
        ]

    def may_match(self, known: Sequence[ColumnBounds]) -> bool:
        for (least, most), bounds in zip(self._ends, known, strict=True):
            if not bounds.values or not self.count:
                return False
            if bounds.upper is not None and pc.greater(least, bounds.upper.cast(least.type)).as_py():
                return False
            if bounds.lower is not None and pc.less(most, bounds.lower.cast(most.type)).as_py():
                return False
        return True

    def positions(self, rows: pa.RecordBatch, known: Sequence[ColumnBounds]) -> NDArray[np.int64]:  # noqa: ARG002
        query = f"SELECT {POSITION} FROM batch SEMI JOIN keys USING ({', '.join(self.schema.names)})"  # noqa: S608
        found = self._engine.query(query, "batch", rows).fetchnumpy()
        return np.asarray(found[POSITION], np.int64)


def _noting(keys: Iterator[pa.RecordBatch], failed: list[Exception]) -> Iterator[pa.RecordBatch]:
    """Yield keys, and note the error that ends them: on its way through DuckDB it becomes text."""
    try:
        yield from keys
    except (DvcodecError, OSError) as err:
        failed.append(err)
        raise


def _remove(engine: Engine, folder: Path) -> None:
    engine.close()
    shutil.rmtree(folder, ignore_errors=True)
