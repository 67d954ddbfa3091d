"""Commit index files of deletion vectors to Paimon's append tables, by Paimon's own classes."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from commit_rows import ids, listed
from common import Place, rows
from paimon_library import BASE, COLUMNS
from paimon_tables import scan


def create(
    place: Place,
    root: str,
    stop: int,
    bits: int,
    partition: str | None = None,
    options: dict[str, str] | None = None,
) -> str:
    """Make an append table, with a file of rows for each partition (and bucket)."""
    every = BASE | {"deletion-vectors.bitmap64": str(bits == 64).lower()} | (options or {})
    library = place.jvm.dvcodec.interop.PaimonTables
    library.create(root, json.dumps(COLUMNS), partition, "[]", json.dumps(every))
    insert(place, root, 0, stop)
    return root


def insert(place: Place, root: str, start: int, stop: int) -> None:
    """Add rows, a file for each partition (and bucket)."""
    lines = place.folder / "rows.jsonl"
    lines.write_text("\n".join(place.spark.sql(rows(start, stop, 1)).toJSON().collect()))
    place.jvm.dvcodec.interop.PaimonTables.write(root, str(lines), False)


def compact(place: Place, root: str) -> None:
    """Rewrite the files that Paimon's compaction finds."""
    place.jvm.dvcodec.interop.PaimonTables.compact(root)


def expire(place: Place, root: str, retain: int) -> None:
    """Forget all snapshots but the newest, with the files that only they need."""
    place.jvm.dvcodec.interop.PaimonTables.expire(root, retain)


def sql(place: Place, text: str) -> list[list[str]]:
    """Run a statement of Spark's connector, which there is for Spark 3.5; return its rows as text."""
    return [[str(value) for value in row] for row in place.spark.sql(text).collect()]


def delete(place: Place, root: str, where: str) -> None:
    """Let Paimon's classes delete rows, by the positions that Spark finds."""
    files, _ = scan(place.jvm, root, None, cardinalities=True)
    stored = place.spark.read.parquet(*(file.path for file in files)).where(where)
    positions = defaultdict(list)
    for row in stored.select("_metadata.file_name", "_metadata.row_index").collect():
        positions[row.file_name].append(row.row_index)
    place.jvm.dvcodec.interop.PaimonTables.delete(root, json.dumps(positions))


def read(place: Place, root: str, version: int | None = None) -> list[list[Any]]:
    """Return what Paimon's scan returns, of the newest snapshot or another."""
    lines = place.folder / "rows.jsonl"
    columns = place.jvm.dvcodec.interop.PaimonTables.read(root, version, str(lines))
    return listed(place.spark.read.schema(columns).json(str(lines)))


def scan_ids(place: Place, root: str) -> list[int]:
    """Return the ids that Paimon's scan returns of a table of any columns."""
    lines = place.folder / "rows.jsonl"
    columns = place.jvm.dvcodec.interop.PaimonTables.read(root, None, str(lines))
    return ids(place.spark.read.schema(columns).json(str(lines)))


def change(place: Place, root: str, entries: list[dict[str, Any]]) -> list[str]:
    """Commit index files, in place of all that their partitions have; return the names of those.

    Args:
        place: where.
        root: the table's folder; the index files lie in its folder ``index`` already.
        entries: of vectors: ``index_file`` and ``deletion_vector_meta``.
    """
    jvm, paimon = place.jvm, place.jvm.org.apache.paimon
    table = paimon.table.FileStoreTableFactory.create(paimon.fs.local.LocalFileIO(), paimon.fs.Path(root))
    snapshot, handler = table.snapshotManager().latestSnapshot(), table.store().newIndexFileHandler()
    partitions = {
        file.fileName(): split.partition()
        for split in table.newSnapshotReader().read().dataSplits()
        for file in split.dataFiles()
    }
    vectors: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        vectors[entry["index_file"]["file_name"]].append(entry)
    messages, replaced = [], []
    for name, found in vectors.items():
        file = found[0]["index_file"]
        ranges = jvm.java.util.LinkedHashMap()
        for entry in found:
            meta = entry["deletion_vector_meta"]
            values = (meta["data_file"], meta["offset"], meta["length"], meta["cardinality"])
            ranges.put(meta["data_file"], paimon.index.DeletionVectorMeta(*values))
        about = (file["index_type"], name, file["file_size"], file["row_count"])
        added = paimon.index.IndexFileMeta(*about, ranges, None, None)
        partition, bucket = partitions[found[0]["deletion_vector_meta"]["data_file"]], file["bucket"]
        removed = handler.scan(snapshot, file["index_type"], partition, bucket)
        replaced += [meta.fileName() for meta in removed]
        increment = paimon.io.DataIncrement(
            _list(jvm, []), _list(jvm, []), _list(jvm, []), _list(jvm, [added]), _list(jvm, removed)
        )
        none = paimon.io.CompactIncrement.emptyIncrement()
        messages.append(paimon.table.sink.CommitMessageImpl(partition, bucket, None, increment, none))
    commit = paimon.table.sink.BatchWriteBuilderImpl(table).newCommit()
    commit.commit(_list(jvm, messages))
    commit.close()
    return replaced


def _list(jvm: Any, items: Any) -> Any:
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return found


COMMANDS = {
    "create": create,
    "insert": insert,
    "delete": delete,
    "compact": compact,
    "expire": expire,
    "sql": sql,
    "read": read,
    "scan": scan_ids,
    "change": change,
}
