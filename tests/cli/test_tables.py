"""audit, table, log, report, export-live: on a small Delta table, and with what is wrong with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_runner import flipped, run
from dvcodec.cli.tables.shared import moment, snapshot_text
from dvcodec.core.text import NOTHING
from dvcodec.tables import SnapshotInfo, TableKind
from samples import delta_log
from samples.delta_log import FIRST, NEW, ROWS, SECOND


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return delta_log.restored_table(tmp_path / "orders")


@pytest.fixture
def damaged(lake: Path) -> Path:
    flipped(lake / NEW, 20, to=lake / NEW)
    return lake


# ---------------------------------------------------------------------------------------------------- audit


def test_audit_of_a_valid_table(lake: Path) -> None:
    result = run("audit", lake)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        f"{lake}  Delta table, snapshot 2, RESTORE, 2023-11-14 22:13:22",
        "2 data files, 1 vector in 1 file, 7 files in the folder: no findings",
    ]


def test_audit_names_what_is_damaged_and_where(damaged: Path) -> None:
    result = run("audit", damaged)
    assert (result.code, result.err) == (1, "")
    _, line, last, bounds, older = result.out.splitlines()
    assert line.startswith(f"  ERROR crc {NEW}@1, for a.parquet: CRC-32 of magic and bitmap: expected 0x")
    assert last.endswith(": 1 error")
    assert bounds == "1 vector could not be read: 256 rows: unknown how many are deleted, at most 256 live"
    assert older == "snapshot 1 has no vector or data file with these errors (--snapshot 1)"


def test_audit_json(damaged: Path) -> None:
    found = run("audit", damaged, "--json", "--no-orphans").json
    (finding,) = found["findings"]
    assert (finding["check"], finding["severity"], finding["data_file"]) == ("crc", "error", "a.parquet")
    assert found["ok"] is False
    assert found["counts"]["stored_files"] is None
    assert found["totals"]["data_files"] == 2


def test_notes_are_no_failure_and_are_cut(lake: Path) -> None:
    for i in range(25):
        (lake / f"nobody-{i}.parquet").write_bytes(b"PAR1")
    result = run("audit", lake)
    assert result.code == 0
    lines = result.out.splitlines()
    assert sum(line.startswith("  note  orphan-data-file ") for line in lines) == 20
    assert lines[-2] == "  note  orphan-data-file: 5 more notes (--all)"
    assert lines[-1].endswith("32 files in the folder: 25 notes")
    assert run("audit", lake, "--all").out.count("orphan-data-file") == 25
    assert "no findings" in run("audit", lake, "--no-orphans").out


def test_repair_plan(damaged: Path) -> None:
    result = run("audit", damaged, "--repair-plan")
    assert result.code == 1
    (action,) = result.json["actions"]
    assert (action["action"], action["snapshot"]) == ("take-from-snapshot", 1)


# ---------------------------------------------------------------------------------------------------- table


def test_table_text(lake: Path) -> None:
    result = run("table", lake)
    assert (result.code, result.err) == (0, "")
    lines = [line.rstrip() for line in result.out.splitlines()]
    assert lines[1:4] == [
        "  2 data files: 1 with deleted rows, 0 fully deleted, 1 worth rewriting",
        "  256 rows: 68 deleted, 26.6 %",
        "  1 vector: 43 B, 0.632 B for each deleted row",
    ]
    assert lines[4].split() == ["data", "file", "rows", "deleted", "share", "stored", "where"]
    assert lines[5].split()[:7] == ["a.parquet", "128", "68", "53.1", "%", "43", "B"]
    assert lines[5].endswith("▅▅" + "·" * 14 + "█" * 16)
    for title, number in {"rows": "128", "deleted": "68", "share": "53.1 %", "stored": "43 B"}.items():
        assert lines[4].index(title) + len(title) == lines[5].index(number) + len(number), "numbers are at the right"
    assert len(lines) == 6


def test_table_json(lake: Path) -> None:
    found = run("table", lake, "--json").json
    assert found["totals"]["deleted"] == 68
    a, b = sorted(found["data_files"], key=lambda file: str(file["path"]))
    assert (a["path"], a["deleted"], b["deleted"]) == ("a.parquet", 68, 0)
    assert a["density"] == [0.0, 1.0, 1.0, *[0.0] * 29, *[1.0] * 32]
    assert a["vectors"][0]["path"] == NEW
    assert [one["data_file"] for one in found["rewrite"]] == ["a.parquet"]


def test_table_limits_and_thresholds(lake: Path) -> None:
    assert run("table", lake, "--limit", "0").out.splitlines()[-1] == "... 1 more data file"
    assert "0 worth rewriting" in run("table", lake, "--min-ratio", "0.9").out
    assert "a.parquet" not in run("table", lake, "--rewrite", "--min-ratio", "0.9").out
    assert "b.parquet" in run("table", lake, "--rewrite", "--small-file", "1000000").out


def test_a_vector_that_contradicts_the_metadata(lake: Path, tmp_path: Path) -> None:
    """Its positions are beyond the rows that are recorded: what is counted are bounds."""
    for commit in (lake / "_delta_log").glob("*.json"):
        commit.write_text(commit.read_text().replace('numRecords\\": 128', 'numRecords\\": 9'))
    result = run("table", lake)
    assert (result.code, result.complaint) == (1, f"{lake}: 1 data file in doubt: see dvcodec audit")
    assert "18 rows: at least " in result.out
    assert "live" not in result.out, "the files have more rows than are recorded"
    assert run("report", lake, "-o", tmp_path / "r.html").code == 1
    assert "recorded wrongly" in (tmp_path / "r.html").read_text()
    result = run("log", lake)
    assert (result.code, "contradicts the metadata" in result.complaint) == (1, True)


def test_table_of_damaged_vectors(damaged: Path) -> None:
    result = run("table", damaged)
    assert result.code == 1
    assert result.complaint == f"{damaged}: 1 vector could not be counted: see dvcodec audit"
    lines = result.out.splitlines()
    assert lines[-1].split() == ["a.parquet", "128", NOTHING, NOTHING, "0", "B", "damaged"]
    assert lines[1:4] == [
        "  2 data files: 0 with deleted rows, 0 fully deleted, 1 in doubt, 0 worth rewriting",
        "  256 rows: unknown how many are deleted, at most 256 live",
        "  1 vector: 1 could not be read",
    ]
    found = run("table", damaged, "--json")
    assert found.code == 1
    totals = found.json["totals"]
    assert (totals["deleted"], totals["min_deleted"], totals["max_live"], totals["exact"]) == (None, 0, 256, False)


# ---------------------------------------------------------------------------------------------------- log


def test_log_text(lake: Path) -> None:
    result = run("log", lake)
    assert (result.code, result.err) == (0, "")
    assert [line.split() for line in result.out.splitlines()] == [
        ["snapshot", "committed", "operation", "added", "removed", "deleted", "restored"],
        ["0", "2023-11-14", "22:13:20", "WRITE", "2", "0", "0", "0"],
        ["1", "2023-11-14", "22:13:21", "DELETE", "0", "0", "68", "0"],
        ["2", "2023-11-14", "22:13:22", "RESTORE", "0", "0", "2", "2"],
    ]


def test_log_of_files(lake: Path) -> None:
    assert run("log", lake, "--files", "--since", "2").out.splitlines() == [
        "snapshot 2, RESTORE, 2023-11-14 22:13:22  2 deleted, 2 restored",
        "    a.parquet  2 deleted, 2 restored",
    ]
    assert "  + b.parquet  128 rows" in run("log", lake, "--files", "--until", "0").out.splitlines()


def test_log_of_damaged_vectors(damaged: Path) -> None:
    result = run("log", damaged)
    assert result.code == 1
    assert "CRC-32" in result.complaint
    assert result.out.splitlines()[-1].split()[-2:] == ["unknown", "unknown"]
    assert "a.parquet  unknown deleted, unknown restored" in run("log", damaged, "--files").out
    assert [one["exact"] for one in run("log", damaged, "--json").json] == [True, True, False]


# ---------------------------------------------------------------------------------------------------- report


def test_report(lake: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("report", lake, "-o", page)
    assert (result.code, result.err) == (0, "")
    assert result.out == f"wrote {page}, 2 data files, no findings\n"
    assert page.read_text().startswith("<!doctype html>")


def test_report_of_a_damaged_table_is_written_too(damaged: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("report", damaged, "-o", page)
    assert result.out == f"wrote {page}, 2 data files, 1 finding, 1 vector could not be read\n"
    assert result.code == 1
    html = page.read_text()
    for text in ("Not valid.", "no vectors read and checked, 1 could not be read: ", "at most 256 live", ">unknown<"):
        assert text in html


def test_report_to_standard_output(lake: Path) -> None:
    result = run("report", lake, "-o", "-")
    assert result.out.endswith("</html>\n")
    assert result.err == "wrote -, 2 data files, no findings\n"


def test_a_report_that_cannot_be_written_leaves_nothing(lake: Path, tmp_path: Path) -> None:
    assert run("report", lake, "-o", tmp_path / "none" / "report.html").code == 2
    page = tmp_path / "report.html"
    page.write_text("old")
    assert run("report", lake, "--snapshot", "9", "-o", page).code == 2
    assert page.read_text() == "old"


# ---------------------------------------------------------------------------------------------------- export-live


def exported(*arguments: str | Path, to: Path) -> list[int]:
    result = run("export-live", *arguments, "-o", to)
    assert (result.code, result.err) == (0, "")
    found: list[int] = pq.read_table(to)["id"].to_pylist()
    assert result.out == f"wrote {to}, {len(found)} rows\n"
    return found


def test_export_live(lake: Path, tmp_path: Path) -> None:
    live = [row for row in range(ROWS) if row not in SECOND]
    file = tmp_path / "out.parquet"
    assert sorted(exported(lake, to=file)) == [*live, *range(ROWS, 2 * ROWS)]
    assert exported(lake, "--data-file", "a.parquet", to=file) == live
    assert exported(lake, "--deleted", "--column", "id", to=file) == list(SECOND)
    assert exported(lake, "--snapshot", "1", "--deleted", to=file) == list(FIRST)


def test_export_live_to_standard_output(lake: Path) -> None:
    result = run("export-live", lake, "-o", "-")
    assert pq.read_table(pa.BufferReader(result.raw)).num_rows == 2 * ROWS - 68
    assert result.err == "wrote -, 188 rows\n"


def test_export_of_damaged_vectors_leaves_nothing(damaged: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    result = run("export-live", damaged, "-o", file)
    assert result.code == 2
    assert "CRC-32" in result.complaint
    assert not file.exists()


# ---------------------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("command", ["audit", "table", "log"])
def test_a_folder_without_a_table(tmp_path: Path, command: str) -> None:
    result = run(command, tmp_path)
    assert result.code == 2
    assert result.complaint == f"{tmp_path}: no table: the folder is empty"
    (tmp_path / "x").touch()
    assert run(command, tmp_path).complaint.startswith(f"{tmp_path}: no table (")
    assert run(command, tmp_path / "gone").complaint == f"{tmp_path / 'gone'}: no such folder"


@pytest.mark.parametrize("command", ["audit", "table", "log"])
def test_a_folder_of_two_kinds(lake: Path, command: str) -> None:
    (lake / "metadata").mkdir()
    assert run(command, lake).complaint.endswith("tables of several kinds (delta, iceberg): choose one with kind")
    assert run(command, lake, "--kind", "delta").code == 0


def test_the_commands_load_without_what_reads_tables() -> None:
    code = "import sys; sys.modules.update(pyarrow=None, fastavro=None); from dvcodec.cli import main; main()"
    for arguments in (["--help"], ["inspect", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_snapshot_text() -> None:
    assert snapshot_text(TableKind.LANCE, SnapshotInfo(3)) == "Lance dataset, snapshot 3"
    assert moment(SnapshotInfo(3, 1 << 80)) is None
