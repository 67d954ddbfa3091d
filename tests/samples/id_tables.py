"""Tables of one column, ``id``, in the formats that deletes are committed to: ids from 0 on, in files of equal size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from samples import delta_log
from samples.iceberg_table import FIELDS, Commit, IcebergFiles, build_iceberg, field_ids
from samples.paimon_table import PaimonFile, build_paimon

__all__ = ["MAKERS", "make_iceberg"]


def make_delta(folder: Path, rows: int, size: int) -> None:
    delta_log.empty_table(folder)
    adds = [{"add": delta_log.data_file(folder, f"{start}.parquet", start, size)} for start in range(0, rows, size)]
    delta_log.commit(folder, 1, "WRITE", *adds)


def make_iceberg(folder: Path, rows: int, size: int, location: str | None = None, *, version: int = 3) -> IcebergFiles:
    """Make a table; `location` is where it is uploaded to."""
    schema = field_ids(pa.schema([pa.field("id", pa.int64(), nullable=False)]), [1])
    data = {
        f"{start}.parquet": pa.table({"id": range(start, start + size)}, schema=schema)
        for start in range(0, rows, size)
    }
    return build_iceberg(folder, Commit(data=data), location=location, fields=FIELDS[:1], version=version)


def make_lance(folder: Path, rows: int, size: int) -> None:
    import pytest

    lance = pytest.importorskip("lance.dataset")
    lance.write_dataset(pa.table({"id": range(rows)}), str(folder), max_rows_per_file=size)


def make_paimon(folder: Path, rows: int, size: int) -> None:
    files = [
        PaimonFile(f"{start}.parquet", pa.table({"id": range(start, start + size)})) for start in range(0, rows, size)
    ]
    build_paimon(folder, [(0, "id", "BIGINT")], [files])


MAKERS: dict[str, Callable[[Path, int, int], object]] = {
    "delta": make_delta,
    "iceberg": make_iceberg,
    "iceberg 2": partial(make_iceberg, version=2),
    "lance": make_lance,
    "paimon": make_paimon,
}
"""How a table of a format is made: in which folder, of how many rows, and how many of them in a data file."""
