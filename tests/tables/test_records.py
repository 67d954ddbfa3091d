"""What a snapshot reads is its own: data files and vectors of other tables are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dvcodec import RowSet, UsageError
from dvcodec.tables import DataFile, Snapshot, open_table
from dvcodec.tables.delta import AddFile
from dvcodec.tables.iceberg import ManifestEntry
from samples.delta_table import build_delta
from samples.iceberg_table import Commit, build_iceberg
from samples.paimon_table import PaimonFile, build_paimon


def snapshots(folder: Path) -> Iterator[Snapshot]:
    for name in ("one", "two"):
        deletes = {f"{name}.parquet": RowSet([1])}
        yield open_table(build_iceberg(folder / f"i{name}", Commit({f"{name}.parquet": 9}, deletes)).folder).snapshot()
    yield open_table(build_delta(folder / "d").root).snapshot()
    files = [[PaimonFile("p.parquet", pa.table({"a": pa.array([1, 2], pa.int32())}), RowSet([1]))]]
    yield open_table(build_paimon(folder / "p", [(0, "a", "INT")], files)).snapshot()


def test_vectors_and_data_files_of_other_tables(tmp_path: Path) -> None:
    made = list(snapshots(tmp_path))
    for own in made:
        assert own.read(own.vectors[0])
        for other in made:
            if other is not own:
                with pytest.raises(UsageError, match=f"no vector of snapshot {own.info.id} of "):
                    own.read(other.vectors[0])
                with pytest.raises(UsageError, match=f"no data file of snapshot {own.info.id} of "):
                    list(own.rows(other.data_files[0]))


def test_records_are_of_one_format(tmp_path: Path) -> None:
    file = open_table(build_delta(tmp_path / "d").root).snapshot().data_files[0]
    assert AddFile.of(file).path == file.path
    with pytest.raises(UsageError, match=r"its record is AddFile\(.*, not ManifestEntry"):
        ManifestEntry.of(file)
    with pytest.raises(UsageError, match="its record is None, not AddFile"):
        AddFile.of(DataFile("a", "/t/a", 1))
