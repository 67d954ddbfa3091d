"""Which records of a data file are rows of the table, if the file itself determines it.

Source: Java classes ``AbstractBatchTableScan``, ``MergeTreeSplitGenerator`` and ``DataEvolutionSplitRead``, for a batch
read. Files of tables without a primary key hold only rows. With one, files hold records (``_VALUE_KIND``: 0 insert, 1
update before, 2 update after, 3 delete) that readers merge by key, unless each key has only one record left:

- deletion vectors (``deletion-vectors.enabled``) delete superseded records. Level 0 records have not been looked up
  yet: a batch read does not see them until compaction moves them up, and neither does this library. With
  ``deletion-vectors.merge-on-read`` they are merged instead;
- merge engine ``first-row`` is the same, without vectors;
- a bucket's only file, or files of one level above 0, hold each key once;
- records in a postponed bucket are not visible at all, except with ``postpone.merge-on-read``.

If columns are spread over files (``data-evolution.enabled``), rows are put together from several files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from operator import itemgetter
from typing import TypeAlias

from dvcodec.tables.model import DataFile
from dvcodec.tables.paimon.manifests import DataFileMeta
from dvcodec.tables.paimon.metadata import TableSchema

__all__ = ["Visible", "visible_records"]

_Bucket: TypeAlias = dict[str, DataFileMeta]
"""The data files of a bucket by path."""


class Visible(Enum):
    """Which records of a data file are rows."""

    ALL = "all"
    KINDS = "inserted and updated"
    """Those whose ``_VALUE_KIND`` is 0 or 2."""
    NONE = "none"


def visible_records(schema: TableSchema, data_files: Sequence[DataFile]) -> dict[str, Visible | str]:
    """Return for each data file of a snapshot, by path, which records are rows, or why that is unknown."""
    found: dict[str, Visible | str] = {}
    metas = {file.path: DataFileMeta.of(file) for file in data_files}
    for path, meta in metas.items():
        if meta.unknown:
            found[path] = f"its metadata has {', '.join(meta.unknown):.200}, which is not known here"
    for option in ("chain-table.enabled", "scan.fallback-branch"):
        if schema.options.get(option, "false") != "false":
            why = f"the table's rows also come from elsewhere (table option {option})"
            found.update(dict.fromkeys(metas, why))
    if schema.is_true("postpone.merge-on-read"):
        waiting = {meta.partition for meta in metas.values() if meta.bucket < 0}
        why = "records of its partition have to be merged by key with postponed ones (postpone.merge-on-read)"
        found.update((path, why) for path, meta in metas.items() if meta.partition in waiting)
    buckets: dict[object, _Bucket] = {}
    for path, meta in metas.items():
        buckets.setdefault((meta.partition, meta.bucket), {})[path] = meta
    decide = _keyed if schema.primary_keys else _append
    for bucket in buckets.values():
        for path, visible in decide(schema, bucket):
            found.setdefault(path, visible)
    return found


def _append(schema: TableSchema, bucket: _Bucket) -> Iterator[tuple[str, Visible | str]]:
    if not schema.is_true("data-evolution.enabled"):
        yield from ((path, Visible.ALL) for path in bucket)
        return
    starts = {path: meta.first_row_id for path, meta in bucket.items() if meta.first_row_id is not None}
    shared: set[str] = set()
    reach, last = -1, ""
    for path, start in sorted(starts.items(), key=itemgetter(1)):
        if start < reach:
            shared |= {path, last}
        if start + bucket[path].row_count > reach:
            reach, last = start + bucket[path].row_count, path
    for path in bucket:
        if path not in starts:
            yield path, "it has no row ids (_FIRST_ROW_ID), in a table whose columns are spread over files"
        elif path in shared:
            yield path, "its rows are put together from the columns of several files (data-evolution.enabled)"
        else:
            yield path, Visible.ALL


def _keyed(schema: TableSchema, bucket: _Bucket) -> Iterator[tuple[str, Visible | str]]:
    engine = schema.options.get("merge-engine", "deduplicate")
    if schema.is_true("deletion-vectors.enabled"):
        skips_level_0 = not schema.is_true("deletion-vectors.merge-on-read")
    else:
        skips_level_0 = engine == "first-row"
    levels = {meta.level for meta in bucket.values()}
    once = skips_level_0 or len(bucket) == 1 or (len(levels) == 1 and 0 not in levels)
    for path, meta in bucket.items():
        if meta.bucket < 0 or (skips_level_0 and meta.level == 0):
            yield path, Visible.NONE
        elif once:
            yield path, Visible.KINDS
        else:
            more = f"{len(bucket) - 1} more files of bucket {meta.bucket} (merge engine {engine:.40})"
            yield path, f"its records have to be merged by key with those of {more}"
