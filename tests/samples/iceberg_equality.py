"""Iceberg tables with equality deletes, and position deletes beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import RowSet
from samples.iceberg_table import Commit, IcebergFiles, build_iceberg, field_ids

__all__ = ["by_id", "craft_equality"]


def craft_equality(
    folder: Path,
    keys: Mapping[int, pa.Table],
    *,
    ids: tuple[int, ...] = (1,),
    key_metadata: bytes | None = None,
    **options: Any,
) -> IcebergFiles:
    """A table of three data files; the commit of each number has equality deletes of some keys, and a new data file.

    Position deletes for ``b`` alone, and of a partition, come first.
    """

    def tweak(entry: dict[str, Any]) -> dict[str, Any]:
        file = entry["data_file"]
        if file.get("content") == 2:
            number = int(file["file_path"].rpartition("-")[2].partition(".")[0])
            path = folder / "data" / f"equality-{number}.parquet"
            pq.write_table(keys[number], path)
            file |= {"record_count": keys[number].num_rows, "file_size_in_bytes": path.stat().st_size}
            file |= {"equality_ids": list(ids), "key_metadata": key_metadata}
        return entry

    commits = [
        Commit(data={"a": 20, "b": 20}, vectors={"a": RowSet([1, 2])}),
        Commit(deletes=[{"b": RowSet([3])}]),
        Commit(data={"c": 5}, deletes=[{"b": RowSet([5])}, {"a": RowSet([9]), "b": RowSet([4])}], scope=None),
    ]
    commits += [Commit(data={f"d{number}": 10}, equality=True) for number in keys]
    return build_iceberg(folder, *commits, tweak_entry=tweak, **options)


def by_id(*ids: int | None) -> pa.Table:
    return pa.table([pa.array(ids, pa.int64())], schema=field_ids(pa.schema([pa.field("id", pa.int64())]), (1,)))
