"""audit, table, log, report, export-live, convert-table, delete: on a small Delta table, and on one that is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import each
from cli_runner import flipped, run
from dvcodec import iceberg, paimon
from dvcodec.core.text import NOTHING
from dvcodec.tables.convert import ENTRIES
from samples import delta_log
from samples.delta_log import FIRST, NEW, ROWS, SECOND, restored_table


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return delta_log.restored_table(tmp_path / "orders")


@pytest.fixture
def damaged(lake: Path) -> Path:
    flipped(lake / NEW, 20, to=lake / NEW)
    return lake


# ---------------------------------------------------------------------------------------------------- audit


def test_audit_names_what_is_damaged_and_where(damaged: Path) -> None:
    result = run("audit", damaged)
    assert (result.code, result.err) == (1, "")
    _, line, last, bounds, older, following = result.out.splitlines()
    assert line.startswith(f"  ERROR crc {NEW}@1, for a.parquet: CRC-32 of magic and bitmap: expected 0x")
    assert last.endswith(": 1 error")
    assert bounds == "1 vector could not be read: 256 rows: unknown how many are deleted, at most 256 live"
    assert older == "snapshot 1 has no vector or data file with these errors (--snapshot 1)"
    assert following == f"what can be repaired, and how: dvcodec repair {damaged}"


def test_notes_are_not_a_failure_and_are_cut(lake: Path) -> None:
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


def test_repair(damaged: Path, lake: Path) -> None:
    """The plan is words, or JSON; the engine's own way back is named where deletes would be lost."""
    (action,) = run("repair", damaged, "--json").json["actions"]
    assert (action["action"], action["snapshot"]) == ("correct-bits", 2)
    shown = run("repair", damaged)
    assert (shown.code, shown.err) == (1, "")
    first, last = shown.out.splitlines()
    assert (
        first
        == "  correct-bits (crc)  commit the vector of a.parquet without one flipped bit (byte 20, bit 0), of 68 rows"
    )
    assert last == "1 repair can be committed, nothing was written yet: add --commit"
    flipped(lake / NEW, 27, to=lake / NEW)
    shown = run("repair", damaged)
    first, waiting, back = shown.out.splitlines()
    assert first.startswith("  take-from-snapshot (crc)  commit the vector of snapshot 1, ")
    assert waiting == "1 repair makes deleted rows live again, and needs --accept-restored-rows with --commit"
    assert back.startswith("snapshot 1 has none of these errors; to go back to it, ")
    assert f"RESTORE TABLE delta.`{lake}` TO VERSION AS OF 1 in Spark" in back
    lines = run("repair", damaged, "--accept-restored-rows").out.splitlines()
    assert lines[1:] == [last, back]


def test_nothing_to_repair(lake: Path) -> None:
    for flags in ((), ("--commit",)):
        done = run("repair", lake, *flags)
        assert done.code == 0
        assert done.out.splitlines()[-1] == "nothing to repair; data files were not opened, as audit --deep does"


# ---------------------------------------------------------------------------------------------------- table


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


def test_report_of_a_damaged_table_is_written_too(damaged: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("report", damaged, "-o", page)
    assert result.out == f"wrote {page}, 2 data files, 1 finding, 1 vector could not be read\n"
    assert result.code == 1
    html = page.read_text()
    for text in ("Not valid.", "no vectors read and checked, 1 could not be read: ", "at most 256 live", ">unknown<"):
        assert text in html


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


# ---------------------------------------------------------------------------------------------------- all of them


def test_a_folder_without_a_table(tmp_path: Path) -> None:
    result = run("audit", tmp_path)
    assert result.code == 2
    assert result.complaint == f"{tmp_path}: no table: the folder is empty"
    (tmp_path / "x").touch()
    assert run("table", tmp_path).complaint.startswith(f"{tmp_path}: no table (")
    assert run("log", tmp_path / "gone").complaint == f"{tmp_path / 'gone'}: no such folder"
    assert run("audit", "shop.orders").complaint.endswith(
        "no such folder; a table of a catalog is opened with the catalog (--catalog)"
    )


def test_a_folder_of_two_kinds(lake: Path) -> None:
    (lake / "metadata").mkdir()
    assert run("audit", lake).complaint.endswith("tables of several kinds (delta, iceberg): choose one with kind")
    assert all(run(command, lake, "--kind", "delta").code == 0 for command in ("audit", "table", "log"))


# ---------------------------------------------------- convert-table: what it writes and tells, of a small Delta table


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
    assert (result.json["snapshot"], result.json["copied"], result.json["rows"]) == (1, 1, FIRST.cardinality)
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
    ],
)
def test_wrong_use(lake: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run("convert-table", lake, "-o", tmp_path / "out", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.complaint
    assert not (tmp_path / "out").exists()


# --------------------------------- the command delete: what it prints, and what it refuses before the table is opened


def test_a_dry_run_prints_what_a_delete_then_does(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    folder = restored_table(tmp_path / "orders")
    asked = ("delete", folder, "--where", "id < 3 OR id >= 128")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    planned = run(*asked, "--dry-run", "--json").json
    shown = run(*asked, "--dry-run").out.splitlines()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert sorted(line.split() for line in shown[1:3]) == [
        ["a.parquet", "2", "68", "128", "vector", "replaced"],
        ["b.parquet", "128", "0", "128", "removed"],
    ]
    assert shown[3].startswith("dry run: 130 rows of 2 data files would be deleted")
    done = run(*asked, "--json").json
    assert planned == done | {"committed": False, "snapshot": 2, "bytes_written": 0}
    assert (done["committed"], done["snapshot"], done["rows"], done["retries"]) == (True, 3, 130, 0)
    again = run(*asked)
    assert (again.code, again.out.splitlines()[-1].partition(" (")[0]) == (
        0,
        "no live row matches: nothing was committed",
    )


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "expected one of --where, --keys and --positions, found none"),
        (
            ("--where", "id = 1", "--keys", "k"),
            "expected one of --where, --keys and --positions, found --where and --keys",
        ),
        (("--keys", "k"), "--keys and --on go together: --on names the columns of the key"),
    ],
)
def test_options_are_checked_first(options: tuple[str, ...], complaint: str) -> None:
    refused = run("delete", "nowhere", *options)
    assert (refused.code, refused.complaint) == (2, complaint)


def test_another_isolation_is_not_taken_for_the_default(tmp_path: Path) -> None:
    folder = restored_table(tmp_path / "orders")
    refused = run("delete", folder, "--where", "id = 1", "--isolation", "serialisable")
    assert (refused.code, refused.complaint) == (2, "isolation must be snapshot or serializable, not 'serialisable'")


@each(
    ("names", "target", "said"),
    [
        pytest.param(
            ["x.puffin"], "x.puffin", "a file, not the folder of a table; dvcodec verify checks files", id="file"
        ),
        pytest.param([".hoodie/x"], "", "no table (a Hudi table,", id="Hudi"),
        pytest.param(["_delta_log/x"], "_delta_log", "no table (a folder of a table's metadata", id="log"),
    ],
)
def test_what_was_given_instead_of_a_table(names: list[str], target: str, said: str, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    given = tmp_path / target
    assert run("audit", given).complaint.startswith(f"{given}: {said}")


def test_a_path_of_databricks() -> None:
    assert "on a cluster of Databricks it is /dbfs/lake/t" in run("audit", "dbfs:/lake/t").complaint
