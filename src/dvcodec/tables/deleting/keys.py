"""Rows whose key is one of given keys, which may be more than memory holds.

Keys that fit in memory are joined by pyarrow's Acero (a left semi join of each batch), others by DuckDB (extra ``sql``)
with a database on disk. A null in a key matches nothing; NaN matches NaN, and zero its negative. Data files are skipped
if no key is between their bounds.

Types of keys: which are cast to the type of a column, and how NaN and zero are made comparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa, pc, types
from dvcodec.core.usage import check_type
from dvcodec.tables.bounds import ColumnBounds
from dvcodec.tables.deleting.arrow_input import ArrowInput, open_batches
from dvcodec.tables.deleting.finder import Finder
from dvcodec.tables.deleting.key_store import POSITION, KeyStore, MemoryKeys, store_keys
from dvcodec.tables.deleting.matching import BATCH_ROWS, Condition, ConditionFinder
from dvcodec.tables.partition_value import MAX_DIGITS
from dvcodec.tables.schema_evolution import plain_array
from dvcodec.tables.table import Snapshot

__all__ = ["cast_keys", "joinable", "keys_finder", "plain_values"]


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
            Parquet file, or a local folder of them. A reader is read once, by the first `Finder.prepare`.
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
    return _KeysFinder(keys, names)


class _KeysFinder(ConditionFinder):
    def __init__(self, keys: ArrowInput, on: Sequence[str]) -> None:
        self._keys, self._on = keys, on
        self._stored: KeyStore | None = None

    def bind(self, snapshot: Snapshot) -> Condition:
        schema = snapshot.schema(self._on)
        kinds = [joinable(field.type, field.name) for field in schema]
        stored = self._stored
        if stored is None:
            with open_batches(self._keys, self._on, "keys") as batches:
                stored = store_keys((_cast(batch, kinds, self._on) for batch in batches), kinds)
            self._keys = None  # a reader cannot be read again, and the others need not be
        elif stored.schema.types != kinds:
            if not isinstance(stored, MemoryKeys):
                raise UsageError(f"keys: the type of a column changed meanwhile ({', '.join(self._on)}): delete again")
            stored = store_keys((_cast(batch, kinds, self._on) for batch in stored.batches()), kinds)
        self._stored = stored
        return _KeysCondition(stored, self._on)


def _cast(batch: pa.RecordBatch, kinds: Sequence[pa.DataType], names: Sequence[str]) -> pa.RecordBatch:
    columns = [cast_keys(*one) for one in zip(batch.columns, kinds, names, strict=True)]
    return pa.RecordBatch.from_arrays(columns, list(names))


class _KeysCondition(Condition):
    position = POSITION

    def __init__(self, keys: KeyStore, on: Sequence[str]) -> None:
        self._keys = keys
        self.columns = tuple(on)
        self.batch_rows = min(max(BATCH_ROWS, keys.count), _MOST_ROWS)

    def may_match(self, known: Mapping[str, ColumnBounds]) -> bool:
        return self._keys.may_match(self._known(known))

    def positions(self, batch: pa.RecordBatch, known: Mapping[str, ColumnBounds]) -> NDArray[np.int64]:
        schema = self._keys.schema
        columns = [plain_values(*one) for one in zip(batch.columns[1:], schema.types, strict=True)]
        rows = pa.RecordBatch.from_arrays([batch.column(0), *columns], [POSITION, *schema.names])
        return self._keys.positions(rows, self._known(known))

    def _known(self, known: Mapping[str, ColumnBounds]) -> list[ColumnBounds]:
        return [known.get(name, ColumnBounds()) for name in self.columns]
