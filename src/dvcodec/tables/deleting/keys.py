"""Rows whose key is one of given keys, which may be more than memory holds.

Keys that fit in memory are joined by pyarrow's Acero (a left semi join of each batch), others by DuckDB (extra ``sql``)
with a database on disk. A null in a key matches nothing; NaN matches NaN, and zero its negative. Data files are skipped
if no key is between their bounds.
"""

from __future__ import annotations

import bisect
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import DvcodecError, UsageError
from dvcodec.core.extras import pa, pc, types
from dvcodec.core.usage import check_type
from dvcodec.tables.deleting.matching import BATCH_ROWS, Condition, ConditionFinder
from dvcodec.tables.deleting.positions import ArrowInput, open_batches
from dvcodec.tables.deleting.run import Finder
from dvcodec.tables.deleting.sql import Engine
from dvcodec.tables.metadata.json_fields import MAX_DIGITS
from dvcodec.tables.rows.bounds import ColumnBounds, Range
from dvcodec.tables.rows.columns import plain_array
from dvcodec.tables.table import Snapshot

POSITION = "position"
"""Column of the batches that are joined; keys are c0, c1 ..."""


def joinable(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type in which a column is joined.

    Raises:
        UsageError: lists, structs and the like are not keys.
    """
    kind = getattr(kind, "storage_type", kind)
    if types.is_dictionary(kind):
        return joinable(kind.value_type, name)
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary(), pa.float16(): pa.float32()}
    if kind in plain:
        return plain[kind]
    if _family(kind) is None:
        raise UsageError(f"column {name:.80} of type {kind!s:.80} cannot be a key")
    return kind


def plain_values(array: Any, kind: pa.DataType) -> pa.Array:
    """Return a column of the table in the type of `joinable`, with one NaN and one zero."""
    array = plain_array(array)
    array = array if array.type == kind else array.cast(kind)
    if pa.types.is_floating(kind):
        array = pc.add(array, pa.scalar(0.0, kind))  # -0.0 becomes 0.0
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), kind), array)
    return array


def cast_keys(array: Any, kind: pa.DataType, name: str) -> pa.Array:
    """Return keys in the type of their column; nothing is rounded, and text is not parsed.

    Args:
        array: of any type.
        kind: of `joinable`.
        name: of the column.

    Raises:
        UsageError: the types do not go together, or a value is not one of the column's type.
    """
    array = plain_array(array)
    if array.type == kind or pa.types.is_null(array.type):
        return plain_values(array, kind)
    array = plain_values(array, joinable(array.type, name))
    if _family(array.type) != _family(kind):
        raise UsageError(f"keys: column {name} has type {array.type}, and the table's has type {kind}: cast the keys")
    try:
        cast = _cast_array(array, kind)
        back = plain_values(_cast_array(cast, array.type), array.type)
    except pa.ArrowException as err:
        message = str(err).partition("\n")[0]
        raise UsageError(
            f"keys: column {name} of type {array.type} is not {kind} without loss: {message:.200}"
        ) from None
    same = pc.equal(back, array)
    if pa.types.is_floating(array.type):
        same = pc.or_(same, pc.and_(pc.is_nan(back), pc.is_nan(array)))
    if not pc.all(same, min_count=0).as_py():
        lost = array.filter(pc.invert(same))[0]
        raise UsageError(f"keys: column {name} of type {array.type} is not {kind} without loss: {lost!s:.80}")
    return plain_values(cast, kind)


def _cast_array(array: Any, kind: pa.DataType) -> Any:
    if pa.types.is_integer(array.type) and pa.types.is_decimal(kind):  # pyarrow wants room for all integers first
        scale = 0 if kind.scale > MAX_DIGITS // 2 else kind.scale
        array = array.cast(pa.decimal128(MAX_DIGITS, scale))
    return array.cast(kind)


def _family(kind: pa.DataType) -> str | None:
    """Return the family of a type: values of one family are cast to each other if nothing is lost."""
    if types.is_timestamp(kind) and kind.tz is not None:
        return "moment with a zone"
    families = {
        "number": (types.is_integer, types.is_floating, types.is_decimal),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "binary": (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view),
        "moment": (types.is_timestamp, types.is_date),
        "time": (types.is_time,),
        "duration": (types.is_duration,),
        "boolean": (types.is_boolean,),
    }
    return next((family for family, tests in families.items() if any(is_one(kind) for is_one in tests)), None)


_MOST_ROWS = 1 << 20
"""Most rows in a batch if there are many keys, which are hashed once for each batch."""


def keys_finder(keys: ArrowInput, on: Sequence[str]) -> Finder:
    """Find the rows whose values in some columns are those of a key.

    Args:
        keys: a table, batch, reader or dataset of pyarrow's; a data frame that exports Arrow; the path or URL of a
            Parquet or CSV file, or a local folder of Parquet files. A reader is read once, by the first
            `Finder.prepare`.
        on: names of the columns, which the keys have too; spelled as in the table.

    Raises:
        UsageError: no columns, or one twice.
    """
    check_type(on, Iterable, "on", "a sequence of column names")
    names = [on] if isinstance(on, str) else list(on)
    for name in names:
        check_type(name, str, "a name in on", "a str")
    if not names or len(set(names)) < len(names):
        raise UsageError(f"on: expected distinct columns, found {names}")
    return ConditionFinder(_Keys(keys, names).bind)


class _Keys:
    """Keys as they were given, then stored."""

    def __init__(self, keys: ArrowInput, on: Sequence[str]) -> None:
        self._keys, self._on = keys, on
        self._stored: KeyStore | None = None

    def bind(self, snapshot: Snapshot) -> Condition:
        kinds = [joinable(field.type, field.name) for field in snapshot.schema(self._on)]
        if self._stored is None:
            with open_batches(self._keys, self._on, kinds, "keys") as batches:
                self._stored = self._store(batches, kinds)
            self._keys = None  # a reader cannot be read again, and the others need not be
        elif self._stored.schema.types != kinds:
            if not isinstance(self._stored, MemoryKeys):
                raise UsageError(f"keys: the type of a column changed meanwhile ({', '.join(self._on)}): delete again")
            self._stored = self._store(self._stored.batches(), kinds)
        return self._stored

    def _store(self, batches: Iterable[pa.RecordBatch], kinds: Sequence[pa.DataType]) -> KeyStore:
        return store_keys((_cast(batch, kinds, self._on) for batch in batches), kinds, self._on)


def _cast(batch: pa.RecordBatch, kinds: Sequence[pa.DataType], names: Sequence[str]) -> pa.RecordBatch:
    columns = [cast_keys(*one) for one in zip(batch.columns, kinds, names, strict=True)]
    return pa.RecordBatch.from_arrays(columns, list(names))


IN_MEMORY = 128 << 20
"""Most bytes of keys in memory; more are kept on disk."""
_DISK_MEMORY = "1GB"
"""Memory that DuckDB uses for keys before it spills."""


def store_keys(batches: Iterator[pa.RecordBatch], kinds: Sequence[pa.DataType], on: Sequence[str]) -> KeyStore:
    """Store keys; those with a null are left out.

    Args:
        batches: of keys, in order of `kinds`.
        kinds: types of their columns.
        on: names of the table's columns.

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
            return DiskKeys(schema, chain(kept, keys), on)
    return MemoryKeys(pa.Table.from_batches(kept, schema), on)


class KeyStore(Condition):
    """Keys of one type each column; a row meets the condition if its key is one of them.

    Args:
        schema: of the keys.
        on: names of the table's columns.
        count: how many keys there are at most.
        ranges: of each column: no key is outside.
    """

    position = POSITION

    def __init__(self, schema: pa.Schema, on: Sequence[str], count: int, ranges: Sequence[Range]) -> None:
        self.schema, self.columns = schema, tuple(on)
        self.ranges = dict(zip(on, ranges, strict=True))
        self.batch_rows = min(max(BATCH_ROWS, count), _MOST_ROWS)

    def bounds_of(self, known: Mapping[str, ColumnBounds]) -> list[ColumnBounds]:
        """Return what is known of each column."""
        return [known.get(name, ColumnBounds()) for name in self.columns]

    def joinable_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the table as they are joined: `POSITION`, and columns of `schema`."""
        columns = [plain_values(*one) for one in zip(batch.columns[1:], self.schema.types, strict=True)]
        return pa.RecordBatch.from_arrays([batch.column(0), *columns], [POSITION, *self.schema.names])


class MemoryKeys(KeyStore):
    """Keys in memory, sorted by the first column."""

    def __init__(self, keys: pa.Table, on: Sequence[str]) -> None:
        self._keys = keys.sort_by(keys.column_names[0]).combine_chunks()
        others = [_sorted(keys.column(name)) for name in keys.column_names[1:]]
        self._columns = [_Ordered(values) for values in (self._keys.column(0), *others)]
        super().__init__(keys.schema, on, keys.num_rows, [column.range for column in self._columns])

    def may_match(self, known: Mapping[str, ColumnBounds]) -> bool:
        for column, bounds in zip(self._columns, self.bounds_of(known), strict=True):
            start, stop = column.between(bounds)
            if start == stop:
                return False
        return True

    def positions(self, batch: pa.RecordBatch, known: Mapping[str, ColumnBounds]) -> NDArray[np.int64]:
        start, stop = self._columns[0].between(self.bounds_of(known)[0])
        keys, rows = self._keys.slice(start, stop - start), pa.Table.from_batches([self.joinable_rows(batch)])
        found = rows.join(keys, self.schema.names, join_type="left semi")
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

    @property
    def range(self) -> Range:
        """The range that they are in."""
        return _range(self._values[0], self._values[-1]) if len(self._values) else Range()

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


def _range(least: pa.Scalar[Any], most: pa.Scalar[Any]) -> Range:
    """Return the range of values of a column, of any type."""
    return Range(least.as_py(), most.as_py()) if types.is_integer(least.type) and least.is_valid else Range()


def _sorted(values: Any) -> Any:
    distinct = pc.unique(values)
    return distinct.take(pc.sort_indices(distinct))


class DiskKeys(KeyStore):
    """Keys in a database of DuckDB's in a temporary folder, sorted by the first column; removed with this object."""

    def __init__(self, schema: pa.Schema, keys: Iterator[pa.RecordBatch], on: Sequence[str]) -> None:
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
        self._ends = [
            (row.column(1 + 2 * i)[0].cast(field.type), row.column(2 + 2 * i)[0].cast(field.type))
            for i, field in enumerate(schema)
        ]
        self._count = row.column(0)[0].as_py()
        super().__init__(schema, on, self._count, [_range(*ends) for ends in self._ends])

    def may_match(self, known: Mapping[str, ColumnBounds]) -> bool:
        for (least, most), bounds in zip(self._ends, self.bounds_of(known), strict=True):
            if not bounds.values or not self._count:
                return False
            if bounds.upper is not None and pc.greater(least, bounds.upper.cast(least.type)).as_py():
                return False
            if bounds.lower is not None and pc.less(most, bounds.lower.cast(most.type)).as_py():
                return False
        return True

    def positions(self, batch: pa.RecordBatch, known: Mapping[str, ColumnBounds]) -> NDArray[np.int64]:  # noqa: ARG002
        query = f"SELECT {POSITION} FROM batch SEMI JOIN keys USING ({', '.join(self.schema.names)})"  # noqa: S608
        found = self._engine.query(query, "batch", self.joinable_rows(batch)).fetchnumpy()
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
