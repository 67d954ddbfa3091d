"""Parquet by physical position: positions follow row groups; errors of corrupt files name the file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import NotCanonical
from dvcodec.io import Storage
from dvcodec.tables.rows.data_file import open_parquet, physical_batches


def test_positions_follow_row_groups(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(10), "b": range(10)}), tmp_path / "f", row_group_size=4)
    with open_parquet(str(tmp_path / "f"), Storage()) as file:
        parts = list(physical_batches(file, ["b"], batch_rows=3))
        assert [(start, batch.column("b").to_pylist()) for start, batch in parts] == [
            (0, [0, 1, 2]),
            (3, [3]),
            (4, [4, 5, 6]),
            (7, [7]),
            (8, [8, 9]),
        ]
        assert [(start, batch.num_rows) for start, batch in physical_batches(file, [], batch_rows=9)] == [
            (0, 4),
            (4, 4),
            (8, 2),
        ]
        assert [batch.schema.names for _, batch in physical_batches(file, None)] == [["a", "b"]] * 3


def test_rows_are_proven_by_pages(tmp_path: Path) -> None:
    """A footer may claim any number of rows: without columns nothing would be read that denies it."""
    path = tmp_path / "f"
    pq.write_table(pa.table({"a": [{"x": 1, "y": [1, 2]}] * 10, "b": ["wide" * 9] * 10}), path)
    with open_parquet(str(path), Storage()) as file:
        assert [(at, part.num_rows, part.num_columns) for at, part in physical_batches(file, [])] == [(0, 10, 0)]
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    varint = b"\x80" * 8 + b"\x20"  # 2**60, zigzag
    footer = data[-8 - size : -8].replace(b"\x16\x14", b"\x16" + varint)
    path.write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with open_parquet(str(path), Storage()) as file:
        assert file.metadata.num_rows == 2**60
        with pytest.raises(NotCanonical, match=f"row group 0: expected {2**60} rows, found 10 rows"):
            list(physical_batches(file, []))


def test_a_footer_whose_row_groups_have_fewer_rows(tmp_path: Path) -> None:
    path = tmp_path / "f"
    pq.write_table(pa.table({"a": range(10)}), path)
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8].replace(b"\x16\x14", b"\x16\x16", 1)  # 11 rows, zigzag, before the row groups
    path.write_bytes(data[: -8 - size] + footer + data[-8:])
    with open_parquet(str(path), Storage()) as file:
        assert (file.metadata.num_rows, file.metadata.row_group(0).num_rows) == (11, 10)
        for columns in (["a"], []):
            with pytest.raises(NotCanonical, match=r"row groups: expected 11 rows \(footer\), found 10 rows"):
                list(physical_batches(file, columns))


def test_no_columns_at_all_prove_no_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(10)}).select([]), tmp_path / "f")
    with open_parquet(str(tmp_path / "f"), Storage()) as file:
        assert list(physical_batches(file, [])) == []
