"""What pypaimon makes of vectors, index files and index manifests written here, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amounts
from dvcodec import RowSet, paimon
from interop.cases import Positions, row_sets
from interop.driver import PyPaimon

pytestmark = pytest.mark.interop

ROW_SETS = amounts.of(1_000, 10_000)
MOST = 600
"""Positions of most cases: pypaimon adds them one by one."""
FILES = [4000, 1500, 10]
DELETES = [[3, 4, 500, 777], [100, 101, 102, 4003, 5499], list(range(1000, 2000))]


@pytest.fixture(scope="module")
def cases() -> list[Positions]:
    """Row sets below 2**31; one in twenty is large enough for bitsets."""
    found = []
    for i, rows in enumerate(row_sets(ROW_SETS, seed=4)):
        low = rows[rows < 2**31]
        start = (i * 7919) % max(len(low) - MOST, 1)
        found.append(low if i % 20 == 0 else low[start : start + MOST])
    return found


def test_vectors_equal_pypaimons(pypaimon: PyPaimon, cases: list[Positions]) -> None:
    theirs = pypaimon.encode("", cases)
    ours = [paimon.encode(RowSet(case), run_optimize=False) for case in cases]
    assert [i for i in range(ROW_SETS) if theirs[i] != ours[i]] == []
    assert sum(len(case) > 4096 for case in cases) > ROW_SETS // 100
    for case, data in zip(cases[::10], theirs[::10], strict=True):
        assert paimon.decode(data) == RowSet(case)


@pytest.mark.parametrize("run_optimize", [True, False])
def test_pypaimon_reads_our_vectors(pypaimon: PyPaimon, cases: list[Positions], run_optimize: bool) -> None:
    some = cases[::5]
    ours = [paimon.encode(RowSet(case), run_optimize=run_optimize) for case in some]
    for case, read in zip(some, pypaimon.decode("", ours), strict=True):
        assert read.error is None
        assert read.cardinality == len(case)
        assert np.array_equal(read.positions, case)  # type: ignore[arg-type]


@pytest.fixture
def table(pypaimon: PyPaimon, tmp_path: Path) -> dict[str, Any]:
    """A table by pypaimon with deleted rows; what it says of the vectors."""
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"files": FILES, "deletes": DELETES}))
    found: dict[str, Any] = json.loads(pypaimon.run("table-write", tmp_path / "warehouse", spec))
    return found


def scan(pypaimon: PyPaimon, table: dict[str, Any]) -> list[int]:
    found: list[int] = json.loads(pypaimon.run("table-scan", Path(table["table"]).parents[1]))
    return found


def test_we_read_pypaimons_table(pypaimon: PyPaimon, table: dict[str, Any]) -> None:
    entries = paimon.read_index_manifest(f"{table['table']}/manifest/{table['manifest']}")
    assert [
        [[meta.data_file, meta.offset, meta.length, meta.cardinality] for meta in entry.vectors or ()]
        for entry in entries
    ] == [entry["vectors"] for entry in table["entries"]]
    deleted = {
        path: rows
        for entry in entries
        for path, rows in paimon.read_deletion_vectors(entry.path(table["table"]), entry.vectors or ()).items()
    }
    expected = sorted({row for batch in DELETES for row in batch})
    assert sum(map(len, deleted.values())) == len(expected)
    assert scan(pypaimon, table) == sorted(set(range(sum(FILES))) - set(expected))


def test_pypaimon_scans_a_table_whose_vectors_and_index_manifest_are_ours(
    pypaimon: PyPaimon, table: dict[str, Any]
) -> None:
    manifest = f"{table['table']}/manifest/{table['manifest']}"
    entries = paimon.read_index_manifest(manifest)
    files = {meta.data_file: meta for entry in entries for meta in entry.vectors or ()}
    # The data files of pypaimon are known by their vectors: only the first has rows from 1000 on deleted.
    before = {
        path: rows
        for entry in entries
        for path, rows in paimon.read_deletion_vectors(entry.path(table["table"]), entry.vectors or ()).items()
    }
    first = next(path for path, rows in before.items() if len(rows) > 100)
    second = next(path for path in before if path != first)
    assert set(files) == {first, second}

    ours = {first: RowSet.from_ranges([(0, 3990)]), second: RowSet(range(0, 1500, 2))}
    written = paimon.write_index_files(f"{table['table']}/index", ours, target_size=1)
    assert len(written) == 2
    partition, bucket = entries[0].partition, entries[0].bucket
    new = [paimon.IndexManifestEntry.from_index_file(file, partition=partition, bucket=bucket) for file in written]
    paimon.write_index_manifest(manifest, new)

    assert scan(pypaimon, table) == [*range(3990, 4000), *range(4001, 5500, 2), *range(5500, 5510)]
    seen = json.loads(pypaimon.run("manifest-read", Path(table["table"]).parents[1]))["entries"]
    assert [entry["file_name"] for entry in seen] == [entry.file_name for entry in new]
    assert [entry["vectors"][0][3] for entry in seen] == [3990, 750]
