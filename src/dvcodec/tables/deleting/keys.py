"""Rows whose key is one of given keys, which may be more than memory holds.

Keys that fit in memory are joined by pyarrow's Acero (a left semi join of each batch), others by DuckDB (extra ``sql``)
with a database on disk. A null in a key matches nothing; NaN matches NaN, and zero its negative. Data files are skipped
if no key is between their bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa
from dvcodec.core.usage import check_type
from dvcodec.tables.bounds import ColumnBounds
from dvcodec.tables.deleting.arrow_input import ArrowInput, open_batches
from dvcodec.tables.deleting.finder import Finder
from dvcodec.tables.deleting.key_store import POSITION, KeyStore, MemoryKeys, store_keys
from dvcodec.tables.deleting.key_types import cast_keys, joinable, plain_values
from dvcodec.tables.deleting.matching import BATCH_ROWS, Condition, ConditionFinder
from dvcodec.tables.table import Snapshot

__all__ = ["keys_finder"]

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
