"""pypaimon: its vectors have the same bytes, and what is found in the folders of its tables is what it scans."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import amounts
from dvcodec import RowSet, paimon
from dvcodec.tables import Table, open_table
from interop.cases import Positions, row_sets
from interop.driver import INTEROP, PyPaimon
from tables.deleting.random_tables import make_paimon
from tables.deleting.test_random_deletes import assert_same_rows
from test_docs import BLOCK, DOCS, run_console, run_python

pytestmark = pytest.mark.interop

ROW_SETS = amounts.of(1_000, 10_000)
MOST = 600
"""Positions of most cases: pypaimon adds them one by one."""


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


FILES = [4000, 1500, 10]
DELETES = [[3, 4, 500, 777], [100, 101, 102, 4003, 5499], list(range(1000, 2000))]


def live_ids(table: Table, number: int | None) -> list[int]:
    snapshot = table.snapshot(number)
    deleted = {found.data_file: found.rows for vector in snapshot.vectors for found in snapshot.read(vector)}
    ids: list[int] = []
    for file in snapshot.data_files:
        for part in snapshot.rows(file, columns=["id"]):
            end = part.start + part.batch.num_rows
            ids += part.batch.filter(deleted.get(file.path, RowSet()).arrow_mask(part.start, end, keep=True))[
                "id"
            ].to_pylist()
    return sorted(ids)


def test_live_rows_are_what_pypaimon_scans(pypaimon: PyPaimon, tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"files": FILES, "deletes": DELETES}))
    made = json.loads(pypaimon.run("table-write", tmp_path / "warehouse", spec))
    table = open_table(made["table"])
    assert live_ids(table, None) == json.loads(pypaimon.run("table-scan", tmp_path / "warehouse"))
    assert table.referenced() == {file.location for file in table.stored_files()}
    expected = set(range(sum(FILES)))
    for info, gone in zip(table.snapshots()[len(FILES) :], DELETES, strict=True):
        expected -= set(gone)
        assert live_ids(table, info.id) == sorted(expected)


def test_rows_after_random_deletes(pypaimon: PyPaimon, tmp_path: Path) -> None:
    def read(folder: Path) -> pa.Table:
        pypaimon.run("table-rows", folder.parent.parent, tmp_path / "rows.arrow")
        return pa.ipc.open_file(tmp_path / "rows.arrow").read_all()

    assert_same_rows(tmp_path / "db.db" / "t", make_paimon, read, skips=True)


def test_the_guide_from_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pypaimon makes the table as the page says; the rest of the page runs on it as printed."""
    pytest.importorskip("duckdb")
    text = (DOCS / "guides" / "paimon.md").read_text()
    made, *others = BLOCK.finditer(text)
    assert "pypaimon" in made[2]
    lines = [line[4:] for line in made[2].splitlines() if line.startswith((">>> ", "... "))]
    python = INTEROP / "pypaimon" / ".venv" / "bin" / "python"
    subprocess.run([python, "-c", "\n".join(lines)], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    names: dict[str, object] = {}
    for block in others:
        if block[1] == "python":
            run_python(block[2], names, DOCS / "guides" / "paimon.md")
        else:
            run_console(block[2])
