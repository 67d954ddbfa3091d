"""demo."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_runner import run
from dvcodec.cli import demo
from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg.catalog.sql")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ROWS", 20_000)


@pytest.mark.parametrize("command", ["demo", "spark-demo"])
def test_demos_write_to_new_local_folders_only(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(command, "--folder", "s3://lake/demo")
    assert (result.code, result.out) == (2, "")
    assert result.complaint == "--folder s3://lake/demo: expected a local folder, found a URL"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "delta").touch()
    result = run(command, "--folder", "mine")
    assert (result.code, result.complaint) == (2, "mine: it is there already: remove it, or name another by --folder")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "delta"]


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("demo", "--folder", "new/demo")
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n* ") + result.out.startswith("* ") == 8
    assert "    ERROR crc deletion_vector_" in result.out
    assert "    done correct-bits: committed the vector of part-" in result.out
    made = ["catalog.db", "delta", "iceberg", "report.html"]
    assert sorted(path.name for path in Path("new/demo").iterdir()) == made
    *_, last = result.out.splitlines()
    command, *arguments = last.removeprefix("Next: dvcodec ").split()
    typed = run(command, *arguments)
    assert (typed.code, "3 with deleted rows" in typed.out) == (0, True), "its last line can be typed"
    for name in ("delta", "iceberg/shop/orders"):
        table = open_table(f"new/demo/{name}")
        assert audit(table).ok
        assert table.snapshot().vectors


def test_demo_does_not_claim_what_is_not_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "CUSTOMERS", (7,))
    monkeypatch.setattr(demo, "_same_orders", lambda *_: False)
    with pytest.raises(AssertionError, match="does not hold: deltalake's rows"):
        run("demo", "--folder", tmp_path / "demo")
