"""Bounds of the columns of data files, by which Paimon's readers skip files.

Specification: Java classes ``SimpleStats`` and ``SimpleStatsEvolution``. An entry of a manifest has the least and the
greatest value of each column of the file's schema, or of those in ``_VALUE_STATS_COLS``, as serialized rows, and the
counts of nulls. A null is an unknown bound. Text is cut off; greatest values are then increased. Entries do not keep
their statistics, which would be most of a snapshot: the manifests are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.folder import Folder
from dvcodec.tables.paimon.manifests import ENTRIES, DataFileMeta, read_entry, read_stored
from dvcodec.tables.paimon.partition import Value, decode_some
from dvcodec.tables.paimon.rows import partition_scalar
from dvcodec.tables.rows.bounds import ColumnBounds, safe_text
from dvcodec.tables.rows.columns import Column

_ORDERED = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "DECIMAL")
_NO_FIELDS = bytes(4)
_TEXT = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """What a manifest records of the columns of a data file.

    Attributes:
        lower: serialized.
        upper: serialized.
        nulls: by column, None if not recorded.
        columns: names; None for all of the file's schema.
    """

    lower: bytes
    upper: bytes
    nulls: tuple[int | None, ...]
    columns: tuple[str, ...] | None


def read_statistics(folder: Folder, manifests: Iterable[str]) -> Mapping[DataFileMeta, FileStatistics]:
    """Read the statistics of all data files in manifests.

    Raises:
        DecodeError: a manifest is corrupt.
        OSError: it cannot be read.
    """
    found: dict[DataFileMeta, FileStatistics] = {}
    for name in manifests:
        stored = read_stored(folder, name, ENTRIES)
        for record in stored.records:
            meta, file = read_entry(record, stored.source).file, record["_FILE"]
            statistics = _statistics(file.get("_VALUE_STATS"), file.get("_VALUE_STATS_COLS"))
            if statistics is not None and meta.write_cols is None:
                found[meta] = statistics
    return found


def _statistics(stored: Any, columns: Any) -> FileStatistics | None:
    if not isinstance(stored, dict):
        return None
    lower, upper, nulls = (stored.get(name) for name in ("_MIN_VALUES", "_MAX_VALUES", "_NULL_COUNTS"))
    if not isinstance(lower, bytes) or not isinstance(upper, bytes) or lower[:4] == _NO_FIELDS:
        return None
    names = None if columns is None else tuple(columns)
    return FileStatistics(lower, upper, tuple(nulls or ()), names)


def bounds_of(
    columns: Sequence[Column], written: Sequence[Column], statistics: FileStatistics, meta: DataFileMeta, source: str
) -> dict[str, ColumnBounds]:
    """Return the bounds of columns by name; those whose type was changed are left out.

    Args:
        columns: of the snapshot.
        written: all columns of the file's schema.
        statistics: of the file.
        meta: the file.
        source: its location, for errors.

    Raises:
        DecodeError: the statistics are corrupt.
    """
    if statistics.columns is not None:
        named = {column.name: column for column in written}
        if not named.keys() >= set(statistics.columns):
            raise NotCanonical("_VALUE_STATS_COLS", source=source, expected="columns of the file", actual="others")
        written = [named[name] for name in statistics.columns]
    places = {column.id: i for i, column in enumerate(written)}
    known = {
        places[column.id]: column
        for column in columns
        if column.id in places
        and column.kind == written[places[column.id]].kind
        and column.kind.root in _ORDERED + _TEXT
    }
    kinds = {i: column.kind for i, column in known.items()}
    ends = [
        decode_some(data, len(written), kinds, source=source, what="_VALUE_STATS")
        for data in (statistics.lower, statistics.upper)
    ]
    found = {}
    for i, column in known.items():
        lower, upper = (_scalar(values[i], column, source) for values in ends)
        nulls = statistics.nulls[i] if i < len(statistics.nulls) else None
        found[column.name] = ColumnBounds(
            lower, upper, nulls=nulls != 0, values=nulls is None or nulls < meta.row_count
        )
    return found


def _scalar(value: Value, column: Column, source: str) -> Any:
    if value is None or (isinstance(value, str) and not safe_text(value)):
        return None
    return partition_scalar(value, column, source)
