"""Which records of a data file are rows of the table, if the file itself determines it.

Source: Java classes ``AbstractBatchTableScan``, ``MergeTreeSplitGenerator`` and ``DataEvolutionSplitRead``, for a batch
read. Files of tables without a primary key hold only rows. With one, files hold records (``_VALUE_KIND``: 0 insert, 1
update before, 2 update after, 3 delete) that readers merge by key, unless each key has only one record left:

- deletion vectors (``deletion-vectors.enabled``) delete superseded records. Level 0 records have not been looked up
  yet: a batch read does not see them until compaction moves them up, and neither does this library. With
  ``deletion-vectors.merge-on-read`` they are merged instead;
- merge engine ``first-row`` is the same, without vectors;
- a bucket's only file, or files of one level above 0, hold each key once;
- records in a postponed bucket are not visible at all.

If columns are spread over files (``data-evolution.enabled``), rows are put together from several files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from dvcodec.tables.model import DataFile
from dvcodec.tables.paimon.metadata import TableSchema

__all__ = ["Visible", "visible_records"]

_KNOWN = frozenset(
    [
        "_PARTITION",
        "_BUCKET",
        "_FILE_NAME",
        "_FILE_SIZE",
        "_ROW_COUNT",
        "_MIN_SEQUENCE_NUMBER",
        "_MAX_SEQUENCE_NUMBER",
        "_SCHEMA_ID",
        "_LEVEL",
        "_EXTRA_FILES",
        "_CREATION_TIME",
        "_DELETE_ROW_COUNT",
        "_FILE_SOURCE",
        "_VALUE_STATS_COLS",
        "_EXTERNAL_PATH",
        "_FIRST_ROW_ID",
        "_WRITE_COLS",
        "_WRITE_COLS_SEQUENCES",
        "partition",
        "partition_values",
    ]
)
"""What is known of a data file. A field more may change what its rows are."""


class Visible(Enum):
    """Which records of a data file are rows."""

    ALL = "all"
    KINDS = "inserted and updated"
    """Those whose ``_VALUE_KIND`` is 0 or 2."""
    NONE = "none"


def visible_records(schema: TableSchema, data_files: Sequence[DataFile]) -> dict[str, Visible | str]:
    """Return for each data file of a snapshot, by path, which records are rows, or why that is unknown."""
    found: dict[str, Visible | str] = {}
    for file in data_files:
        strange = [name for name, value in file.record.items() if name not in _KNOWN and value is not None]
        if strange:
            found[file.path] = f"its metadata has {', '.join(strange)}, which is not known here"
    for option in ("chain-table.enabled", "scan.fallback-branch"):
        if schema.options.get(option, "false") != "false":
            why = f"the table's rows also come from elsewhere (table option {option})"
            found.update((file.path, why) for file in data_files)
    buckets: dict[object, list[DataFile]] = {}
    for file in data_files:
        buckets.setdefault((file.record["_PARTITION"], file.record["_BUCKET"]), []).append(file)
    decide = _keyed if schema.primary_keys else _append
    for bucket in buckets.values():
        for path, visible in decide(schema, bucket):
            found.setdefault(path, visible)
    return found


def _append(schema: TableSchema, bucket: Sequence[DataFile]) -> Iterator[tuple[str, Visible | str]]:
    if not schema.is_true("data-evolution.enabled"):
        yield from ((file.path, Visible.ALL) for file in bucket)
        return
    placed = sorted((file for file in bucket if file.record.get("_FIRST_ROW_ID") is not None), key=_first_row)
    shared: set[str] = set()
    end, last = -1, ""
    for file in placed:
        if _first_row(file) < end:
            shared |= {file.path, last}
        if _first_row(file) + (file.physical_rows or 0) > end:
            end, last = _first_row(file) + (file.physical_rows or 0), file.path
    for file in bucket:
        if file.record.get("_FIRST_ROW_ID") is None:
            yield file.path, "it has no row ids (_FIRST_ROW_ID), in a table whose columns are spread over files"
        elif file.path in shared:
            yield file.path, "its rows are put together from the columns of several files (data-evolution.enabled)"
        else:
            yield file.path, Visible.ALL


def _first_row(file: DataFile) -> int:
    return int(file.record["_FIRST_ROW_ID"])


def _keyed(schema: TableSchema, bucket: Sequence[DataFile]) -> Iterator[tuple[str, Visible | str]]:
    engine = schema.options.get("merge-engine", "deduplicate")
    if schema.is_true("deletion-vectors.enabled"):
        skips_level_0 = not schema.is_true("deletion-vectors.merge-on-read")
    else:
        skips_level_0 = engine == "first-row"
    levels = {file.record["_LEVEL"] for file in bucket}
    once = skips_level_0 or len(bucket) == 1 or (len(levels) == 1 and 0 not in levels)
    for file in bucket:
        if file.record["_BUCKET"] < 0 or (skips_level_0 and file.record["_LEVEL"] == 0):
            yield file.path, Visible.NONE
        elif once:
            yield file.path, Visible.KINDS
        else:
            more = f"{len(bucket) - 1} more files of bucket {file.record['_BUCKET']} (merge engine {engine})"
            yield file.path, f"its records have to be merged by key with those of {more}"
