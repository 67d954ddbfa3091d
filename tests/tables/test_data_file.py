"""Data files by format."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from cases import each
from dvcodec import Unsupported
from dvcodec.io import Storage
from dvcodec.tables.rows.data_file import open_data_file

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
