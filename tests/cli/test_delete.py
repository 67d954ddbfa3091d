"""The command delete: what it prints, and what it refuses before the table is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_runner import run
from dvcodec import UsageError
from dvcodec.tables import delete, open_table
from samples.delta_log import restored_table


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
        (("--where", "id = 1", "--on", "id"), "--keys and --on go together: --on names the columns of the key"),
    ],
)
def test_options_are_checked_first(options: tuple[str, ...], complaint: str) -> None:
    refused = run("delete", "nowhere", *options)
    assert (refused.code, refused.complaint) == (2, complaint)


def test_another_isolation_is_not_taken_for_the_default(tmp_path: Path) -> None:
    folder = restored_table(tmp_path / "orders")
    refused = run("delete", folder, "--where", "id = 1", "--isolation", "serialisable")
    assert (refused.code, refused.complaint) == (2, "isolation must be snapshot or serializable, not 'serialisable'")
    with pytest.raises(UsageError, match=r"^isolation must be snapshot or serializable"):
        delete(open_table(folder), "id = 1", isolation="none")  # type: ignore[arg-type]


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    folder = restored_table(tmp_path / "orders")
    assert run("delete", folder, "--where", "idd = 1").complaint == f"{folder} has no column 'idd': it has id"
