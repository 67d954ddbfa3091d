"""Deletes that are committed to another table of the same data files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cli_runner import run
from dvcodec import NotCanonical, RowSet, Unsupported, UsageError
from dvcodec.tables import TableKind, audit, copy_deletes, open_table
from dvcodec.tables.iceberg import open as open_iceberg
from samples.delta_table import delta_of_files as delta_table
from samples.iceberg_table import STEP, Commit, IcebergFiles, build_iceberg

ROWS = 20


def iceberg_table(folder: Path, *more: Commit) -> IcebergFiles:
    vectors = {"a": RowSet([1, 2])}
    return build_iceberg(folder, Commit(data={"a": ROWS, "b": ROWS}, vectors=vectors), *more)


def left(*gone: int) -> list[int]:
    return [file * STEP + row for file in range(2) for row in range(ROWS) if file * STEP + row not in gone]


def test_from_iceberg_to_delta(tmp_path: Path) -> None:
    """Vectors, and position deletes of one data file; the table is both, and deltalake reads it."""
    made = iceberg_table(tmp_path / "t", Commit(deletes=[{"b": RowSet([3])}]))
    delta_table(made.folder, made.folder)
    command = ("convert-table", made.folder, "--kind", "iceberg", "--to", "delta", "--root", made.folder, "--commit")
    planned = run(*command, "--dry-run")
    assert (planned.code, planned.err) == (0, "")
    assert planned.out.splitlines()[-1] == "dry run: 3 rows of 2 data files would be deleted"
    assert len(list((made.folder / "_delta_log").iterdir())) == 1
    done = run(*command)
    assert done.out.splitlines()[-1] == f"snapshot 1 of {made.folder}: 3 rows of 2 data files deleted"
    assert run(*command).out == "all of these rows are deleted already: nothing was committed\n"
    assert run(*command, "--json").json["committed"] is False
    assert audit(open_table(made.folder, kind=TableKind.DELTA)).ok
    deltalake = pytest.importorskip("deltalake")
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(made.folder)).execute("SELECT id FROM t")
    assert sorted(pa.table(found)["id"].to_pylist()) == left(1, 2, STEP + 3)


def test_from_delta_to_iceberg(tmp_path: Path) -> None:
    """What each has deleted by itself is deleted in the target; pyiceberg reads it."""
    made = iceberg_table(tmp_path / "t")
    source = delta_table(tmp_path / "d", made.folder)
    open_table(source).delete(pc.field("id").isin([2, 5, STEP]))
    target = open_table(made.folder)
    done = copy_deletes(open_table(source), target)
    assert (done.rows, done.files, done.committed) == (2, 2, True)
    assert audit(target).info.id == done.snapshot
    assert audit(target).ok
    table = pytest.importorskip("pyiceberg.table").StaticTable
    found = table.from_metadata(open_iceberg(made.folder).metadata.source).scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == left(1, 2, 5, STEP)


def test_what_is_refused(tmp_path: Path) -> None:
    made = iceberg_table(tmp_path / "t")
    source = open_table(made.folder)
    with pytest.raises(UsageError, match=r"expected another table.*upgrade-deletes"):
        copy_deletes(source, open_table(made.folder))
    with pytest.raises(UsageError, match=r"does not have .*/data/a, which has deleted rows"):
        copy_deletes(source, open_table(delta_table(tmp_path / "without", made.folder, "b")))
    with pytest.raises(UsageError, match="19 rows, and 20 in"):
        copy_deletes(source, open_table(delta_table(tmp_path / "fewer", made.folder, rows=19)))
    equality = iceberg_table(tmp_path / "e", Commit(equality=True))
    with pytest.raises(Unsupported, match="equality"):
        copy_deletes(open_table(equality.folder), open_table(delta_table(tmp_path / "d", equality.folder)))
    ghost = build_iceberg(tmp_path / "g", Commit(data={"a": ROWS}, vectors={"ghost": RowSet([1])}))
    with pytest.raises(NotCanonical, match="not in the snapshot"):
        copy_deletes(open_table(ghost.folder), open_table(delta_table(tmp_path / "h", ghost.folder, "a")))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--commit"], "--commit goes with --root"),
        (["--commit", "--root", "r", "-o", "x"], "--commit goes with --root"),
        (["--commit", "--root", "r", "--in-place"], "--commit goes with --root"),
        (["-o", "x", "--dry-run"], "--dry-run needs --commit"),
        ([], "expected --output"),
    ],
    ids=" ".join,
)
def test_options_go_together(arguments: list[str], line: str) -> None:
    assert line in run("convert-table", "t", "--to", "delta", *arguments).complaint


def test_from_delta_to_iceberg_of_version_2(tmp_path: Path) -> None:
    """A commit has position deletes, as the version of the target needs."""
    made = build_iceberg(tmp_path / "t", Commit(data={"a": ROWS, "b": ROWS}), version=2)
    source = delta_table(tmp_path / "d", made.folder)
    open_table(source).delete(pc.field("id").isin([2, STEP + 5]))
    command = ("convert-table", source, "--to", "iceberg", "--root", made.folder, "--commit")
    assert run(*command, "--version", "2").complaint.endswith(
        "--commit writes what the version of the table at --root needs"
    )
    assert run(*command).code == 0
    assert {vector.format for vector in open_table(made.folder).snapshot().vectors} == {"position-deletes"}
    assert audit(open_table(made.folder)).ok
