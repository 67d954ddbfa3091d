"""Lance datasets made by pylance, each with a life of its own, and what pylance reads of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import lance as pylance

FEW = 200
"""Rows up to which the truth has them all."""


def table(keys: Any, value: int = 0) -> pa.Table:
    """Rows with these keys, in columns of several types."""
    keys = np.asarray(keys, np.int64)
    texts = [f"row {key}" if key % 5 else None for key in keys.tolist()]
    lists = [[key] * (key % 3) for key in keys.tolist()]
    return pa.table({"key": keys, "value": np.full(len(keys), value, np.int32), "text": texts, "list": lists})


def upsert(path: str, keys: Any) -> None:
    """Update the rows that are there, insert the others."""
    merge = pylance.dataset(path).merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(table(keys, 9))


def life(path: str, **options: Any) -> None:
    """Deletes, updates, a column, a merge, a fragment that goes, compaction, appending, restoring, overwriting."""
    pylance.write_dataset(table(range(60)), path, max_rows_per_file=20, **options)
    pylance.dataset(path).delete("key % 7 = 3")
    pylance.dataset(path).delete("key IN (0, 19, 20, 59)")
    pylance.dataset(path).update({"value": "5"}, where="key % 10 = 8")
    pylance.dataset(path).add_columns({"double": "key * 2"})
    pylance.dataset(path).drop_columns(["double"])
    upsert(path, [61, 4, 40, 62, 12, 11])
    pylance.dataset(path).delete("key >= 20 AND key < 40")
    pylance.dataset(path).optimize.compact_files(target_rows_per_fragment=1000)
    pylance.write_dataset(table(range(100, 130)), path, mode="append", max_rows_per_file=20)
    pylance.dataset(path).delete("key > 110 OR key % 2 = 0")
    pylance.dataset(path, version=3).restore()
    pylance.dataset(path).delete("key = 5")
    pylance.dataset(path).drop_columns(["list"])
    pylance.write_dataset(table(range(200, 240)).select(["key", "text"]), path, mode="overwrite")
    pylance.dataset(path).delete("key = 239")


def kinds(path: str, **options: Any) -> None:
    """Deletion files of both kinds: Arrow, a bitmap at once, and one that grows to a bitmap."""
    keys = np.arange(26_000, dtype=np.int16)
    pylance.write_dataset(pa.table({"key": keys}), path, max_rows_per_file=13_000, **options)
    pylance.dataset(path).delete("key < 2500 OR key = 25999")
    pylance.dataset(path).delete("key >= 15000 AND key < 25003 AND key % 500 < 270")
    pylance.dataset(path).delete("(key % 900 > 400 AND key < 13000) OR key >= 17000")
    pylance.dataset(path).delete("key >= 13000")


LIVES: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "life": (life, {}),
    "life-v1": (life, {"enable_v2_manifest_paths": False}),
    "life-stable": (life, {"enable_stable_row_ids": True}),
    "life-2.0": (life, {"data_storage_version": "2.0"}),
    "kinds": (kinds, {}),
    "kinds-stable": (kinds, {"enable_stable_row_ids": True}),
}
COMMITTED = ("life", "life-v1", "life-stable", "kinds")


def make(name: str, path: str) -> None:
    """Make the dataset of this name."""
    steps, options = LIVES[name]
    steps(path, **options)


def ranges(values: list[int]) -> list[list[int]]:
    """Ascending numbers as ranges [start, stop)."""
    found: list[list[int]] = []
    for value in values:
        if found and found[-1][1] == value:
            found[-1][1] += 1
        else:
            found.append([value, value + 1])
    return found


def truth(path: str) -> list[dict[str, Any]]:
    """What pylance says of every version: fragments, live rows by their addresses, and their values if they are few."""
    found = []
    for entry in pylance.dataset(path).versions():
        dataset = pylance.dataset(path, version=entry["version"])
        rows = dataset.scanner(columns=dataset.schema.names, with_row_address=True).to_table()
        operation = type(dataset.read_transaction(entry["version"]).operation).__name__
        fragments = []
        for fragment in dataset.get_fragments():
            meta = fragment.metadata
            fragments.append(
                {
                    "id": fragment.fragment_id,
                    "files": [f"data/{file.path}" for file in meta.files],
                    "physical_rows": fragment.physical_rows,
                    "deleted": fragment.num_deletions,
                    "deletion_file": None
                    if meta.deletion_file is None
                    else meta.deletion_file.path(fragment.fragment_id),
                }
            )
        found.append(
            {
                "version": entry["version"],
                "operation": None if operation == "BaseOperation" else operation,  # one that Python does not know
                "live": ranges(rows["_rowaddr"].to_pylist()),
                "rows": rows.drop_columns(["_rowaddr"]).to_pydict() if rows.num_rows <= FEW else None,
                "fragments": fragments,
            }
        )
    return found
