"""convert-table: what it writes and tells, of a small Delta table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_runner import run
from dvcodec import iceberg, paimon
from dvcodec.tables.convert import ENTRIES
from samples import delta_log
from samples.delta_log import FIRST, NEW, SECOND


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return delta_log.restored_table(tmp_path / "orders")


def test_vectors_stay_in_place_for_iceberg(lake: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("convert-table", lake, "--to", "iceberg", "-o", out)
    assert (result.code, result.err) == (0, "")
    title, row, *rest = result.out.splitlines()
    assert title.split() == ["data", "file", "how", "in", "offset", "size", "rows"]
    assert row.split()[:4] == [str(lake / "a.parquet"), "in-place", NEW, "1"]
    assert rest == ["snapshot 2: 1 vector, 68 deleted rows, 1 in-place", f"wrote {out / ENTRIES}"]
    (line,) = (out / ENTRIES).read_text().splitlines()
    assert json.loads(line)["manifest_entry"]["file_path"] == str(lake / NEW)


def test_copy_of_an_older_version(lake: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("convert-table", lake, "--to", "iceberg", "-o", out, "--copy", "--snapshot", "1", "--json")
    assert result.json == {
        "to": "iceberg",
        "snapshot": 1,
        "vectors": 1,
        "rows": FIRST.cardinality,
        "in_place": 0,
        "copied": 1,
        "encoded": 0,
        "empty": 0,
        "files": [str(path) for path in out.glob("*.puffin")],
        "entries": str(out / ENTRIES),
    }
    (puffin,) = result.json["files"]
    assert iceberg.read_deletion_vectors(puffin) == {str(lake / "a.parquet"): FIRST}


def test_index_files(lake: Path, tmp_path: Path) -> None:
    result = run("convert-table", lake, "--to", "paimon32", "-o", tmp_path / "out", "--limit", "0")
    first, written, entries = result.out.splitlines()[1:]
    assert first == "snapshot 2: 1 vector, 68 deleted rows, 1 encoded"
    assert entries == f"wrote {tmp_path / 'out' / ENTRIES}"
    assert list(paimon.load_frames(written.removeprefix("wrote ")).values()) == [SECOND]
    assert result.out.startswith("... 1 more vector\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "puffin"], "--to puffin: not one of iceberg, delta, paimon32, paimon64; did you mean 'iceberg'?"),
        (["--to", "delta"], "Delta's already"),
        (["--to", "paimon64", "--in-place"], "cannot be referenced in place"),
        (["--to", "iceberg", "--kind", "paimon"], "there is no schema"),
        (["--to", "iceberg", "--snapshot", "9"], "9"),
    ],
)
def test_wrong_use(lake: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run("convert-table", lake, "-o", tmp_path / "out", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.complaint
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected --output, the folder to write to"),
        (["--dry-run"], "expected --output, the folder to write to"),
        (["-o", "out", "--dry-run"], "--dry-run needs --commit"),
    ],
)
def test_a_copy_needs_a_folder_and_a_dry_run_a_commit(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("convert-table", lake, "--to", "iceberg", *arguments)
    assert (result.code, result.out, result.complaint) == (2, "", message)
    assert not (tmp_path / "out").exists()
