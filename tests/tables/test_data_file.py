"""Data files: rows by their position, in Parquet and ORC."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from cases import each
from dvcodec import Unsupported
from dvcodec.core.errors import NotCanonical
from dvcodec.io import Storage
from dvcodec.tables.rows.data_file import open_data_file, open_parquet, physical_batches

ROWS = pa.table({"a": range(1000), "b": [f"row {i}" for i in range(1000)]})


@each("extension", ["parquet", "orc"])
@each("names", [["a", "b"], ["b"], []])
def test_batches_have_the_position_of_their_first_row(tmp_path: Path, extension: str, names: list[str]) -> None:
    path = str(tmp_path / f"f.{extension}")
    if extension == "orc":
        orc.write_table(ROWS, path, stripe_size=1024, batch_size=128)
    else:
        pq.write_table(ROWS, path, row_group_size=300)
    with open_data_file(path, Storage(), extension) as file:
        assert (file.rows, file.schema.names, file.has_int96) == (1000, ["a", "b"], False)
        at = 0
        for start, batch in file.read(names, 128, ()):
            assert start == at
            assert batch.num_rows <= 128
            for name in names:
                assert batch.column(name).to_pylist() == ROWS[name][at : at + batch.num_rows].to_pylist()
            at += batch.num_rows
    assert at == 1000


EARLY = -1 if int(pa.__version__.partition(".")[0]) >= 23 else 1
"""Before version 23, pyarrow takes what is before 1970 for times far away: they are refused, as those are."""


def test_times_of_96_bits_keep_their_nanoseconds(tmp_path: Path) -> None:
    path = str(tmp_path / "f.parquet")
    times = pa.array([1_700_000_000_123_456_789, EARLY, None, 0], pa.timestamp("ns"))
    rows = pa.table({"a": range(4), "t": times, "n": pa.array([[t] for t in times.to_pylist()], pa.list_(times.type))})
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
    with open_data_file(path, Storage(), "parquet", int96_unit="ns") as file:
        assert file.has_int96
        ((start, batch),) = file.read(["t", "n", "a"], 10, ())
    assert (start, batch.column("t"), batch.column("a").to_pylist()) == (0, times, [0, 1, 2, 3])


@pytest.mark.parametrize("nested", [False, True])
def test_time_that_nanoseconds_do_not_hold_is_refused(tmp_path: Path, nested: bool) -> None:
    path = str(tmp_path / "f.parquet")
    times = pa.array([datetime(9999, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001
    column = pa.StructArray.from_arrays([times], ["x"]) if nested else times
    pq.write_table(pa.table({"a": [1], "t": column}), path, use_deprecated_int96_timestamps=True)
    with open_data_file(path, Storage(), "parquet", int96_unit="ns") as file:
        assert len(list(file.read(["a"], 10, ()))) == 1
        with pytest.raises(Unsupported, match="column t: expected times of the years 1678 to 2261"):
            list(file.read(["t"], 10, ()))


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
