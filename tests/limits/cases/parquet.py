"""Parquet files: footers."""

from __future__ import annotations

import io
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec.io import Storage
from dvcodec.tables.rows.data_file import open_parquet, physical_batches
from limits.making import cases, drained, large, large_file, limit, saved
from samples.bombs import MEGA


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def with_footer(data: bytes, size: int) -> bytes:
    return data[:-8] + struct.pack("<I", size) + b"PAR1"


def rows_of(data: bytes) -> None:
    rows_at(saved(data, "a.parquet"))


def rows_at(path: str) -> None:
    with open_parquet(path, Storage()) as file:
        drained(physical_batches(file, None))


LARGE_FOOTER = struct.pack("<I", 290 * MEGA) + b"PAR1"
"""How a file ends whose footer is nearly all of a `large` file."""
ROWS = pa.table({"a": pa.array(range(1000))})

CASES = [
    *cases(
        "parquet",
        rows_of,
        {
            "footer of four gigabytes": lambda: with_footer(parquet(ROWS), 2**32 - 1),
            "deep structs": lambda: b"PAR1" + b"\x1c" * 100_000 + struct.pack("<I", 100_000) + b"PAR1",
        },
    ),
    large_file(
        "parquet footer",
        rows_at,
        lambda: large(b"PAR1", "a.parquet", tail=LARGE_FOOTER),
        limit("max_metadata_bytes"),
    ),
]
