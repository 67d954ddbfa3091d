"""Commands on files, given the folder of a whole table: what is superseded, what is missing, what checks the table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli_runner import run
from dvcodec import RowSet
from dvcodec.cli.targets import TableFolders, Target, expand
from samples import delta_log
from samples.delta_log import NEW, OLD
from samples.iceberg_table import VECTOR, Commit, build_iceberg

COMMANDS = ("verify", "inspect", "stats", "positions", "ranges")
SCORCH = Path(__file__).parents[1] / "vectors" / "tables" / "scorch"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return delta_log.restored_table(tmp_path / "orders")


def note(name: object, text: str, what: str = "Delta table, snapshot 2") -> str:
    return f"dvcodec: {name}: this folder is a table ({what}): {text}; to check the table: dvcodec audit {name}"


@pytest.mark.parametrize("command", COMMANDS)
def test_superseded_vectors(lake: Path, command: str) -> None:
    result = run(command, lake)
    assert result.code == 0
    text = note(lake, "1 of 2 vectors superseded, not in this snapshot")
    assert result.err.splitlines() == [text, "dvcodec: 5 other files without deletion vectors"]
    assert run(command, lake.parent).err == result.err
    single = run(command, lake / NEW)
    assert (single.code, single.err) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_json(lake: Path, command: str) -> None:
    found = run(command, lake, "--json").json
    items = found["vectors"] if command == "stats" else found
    if command == "inspect":
        items = [{"source": one["source"]} | vector for one in items for vector in one["vectors"]]
    wanted: list[object] = [0, 1] if command == "verify" else [False, True]
    assert [(item["source"], item["superseded"]) for item in items] == list(
        zip([str(lake / NEW), str(lake / OLD)], wanted, strict=True)
    )
    single = run(command, lake / NEW, "--json")
    assert "superseded" not in single.out


def test_the_folder_that_one_is_in(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lake)
    text = note(".", "1 of 2 vectors superseded, not in this snapshot")
    assert run("stats", ".").err.splitlines()[0] == text
    (lake / NEW).unlink()
    assert run("verify", ".").code == 1
    monkeypatch.chdir(lake.parent)
    assert "dvcodec: orders: this folder is a table" in run("stats", "orders/").err


def test_files_that_are_gone(lake: Path) -> None:
    """Not a clean bill for a table whose rows nobody can read."""
    (lake / NEW).unlink()
    result = run("verify", lake)
    assert result.code == 1
    assert result.out.splitlines()[1:] == [
        f"FAIL  {lake / NEW}  unknown container, 1 of 1 check failed",
        "  FAIL  missing-file: file: file of 1 vector of the table's current snapshot: expected a file, found none",
        "2 files, 1 with findings",
    ]
    (lake / OLD).unlink()
    result = run("verify", lake)
    assert (result.code, result.out.splitlines()[-1]) == (1, "1 file, 1 with findings")
    assert result.err.splitlines() == [note(lake, "no vector in these files")]
    (report,) = run("verify", lake, "--json").json
    assert (report["source"], report["ok"]) == (str(lake / NEW), False)
    assert [check["name"] for check in report["checks"]] == ["missing-file"]
    result = run("stats", lake)
    assert result.code == 2
    assert result.err.splitlines()[1] == "dvcodec: no deletion vectors in 5 files"


def test_a_table_in_a_store(lake: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.put(f"{lake}/", "/lake/orders/", recursive=True)
    try:
        url = "memory://lake/orders"
        text = note(url, "1 of 2 vectors superseded, not in this snapshot")
        assert run("verify", url).err.splitlines()[0] == text
        store.rm(f"/lake/orders/{NEW}")
        result = run("verify", url)
        assert result.code == 1
        assert f"FAIL  {url}/{NEW}" in result.out
    finally:
        store.rm("/lake", recursive=True)


def test_a_table_that_cannot_be_read(lake: Path) -> None:
    log = sorted((lake / "_delta_log").iterdir())
    whole = log[0].read_text()
    log[0].write_text("{")
    result = run("verify", lake)
    assert result.code == 2
    assert "unknown which of its vectors are superseded (" in result.err
    assert run("stats", lake).code == 0
    assert {item["superseded"] for item in run("stats", lake, "--json").json["vectors"]} == {None}
    features = '"readerFeatures":["sorcery"],"writerFeatures":["sorcery"]'
    protocol = f'{{"protocol":{{"minReaderVersion":3,"minWriterVersion":7,{features}}}}}\n'
    log[0].write_text(protocol + "".join(line for line in whole.splitlines(True) if '"protocol"' not in line))
    result = run("verify", lake)
    assert result.code == 0
    assert "sorcery" in result.err


def test_iceberg(tmp_path: Path) -> None:
    build_iceberg(tmp_path / "t", VECTOR, Commit(vectors={"a": RowSet([1, 2, 3])}))
    result = run("positions", tmp_path / "t")
    what = "Iceberg table, snapshot 102"
    assert result.err.splitlines()[0] == note(tmp_path / "t", "1 of 2 vectors superseded, not in this snapshot", what)
    next((tmp_path / "t" / "data").glob("vectors-2-*")).unlink()
    assert run("verify", tmp_path / "t").code == 1
    build_iceberg(tmp_path / "none")
    result = run("verify", tmp_path / "none")
    assert result.code == 2
    assert result.err.splitlines()[0] == note(tmp_path / "none", "no vector in these files", "Iceberg table")


def test_scorch(tmp_path: Path) -> None:
    index = next(SCORCH.rglob("root.bolt")).parent
    shutil.copytree(index, tmp_path / "store")
    result = run("verify", tmp_path / "store")
    assert "its deleted documents are in root.bolt, not in these files" in result.err


def test_many_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(12):
        build_iceberg(tmp_path / f"{number:02}")
    TableFolders(expand([str(tmp_path)])).report()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "dvcodec: 2 more tables: dvcodec audit checks them"
    TableFolders([Target(str(tmp_path / "00" / "metadata" / "v1.metadata.json"))]).report()
    assert capsys.readouterr().err == ""
