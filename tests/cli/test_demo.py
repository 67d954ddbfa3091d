"""demo."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cli_runner import run
from dvcodec import RowSet, delta, iceberg, verify
from dvcodec.cli import demo
from dvcodec.core.frame import Magic

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ROWS", 20_000)
    monkeypatch.setattr(demo, "ROW_GROUP", 3_000)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("command", ["demo", "spark-demo"])
def test_demos_write_to_local_folders_only(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(command, "--folder", "s3://lake/demo")
    assert (result.code, result.out) == (2, "")
    assert result.complaint == "--folder s3://lake/demo: expected a local folder, found a URL"
    assert not list(tmp_path.iterdir())


def test_demo(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "demo[1]"
    result = run("demo", "--folder", folder)
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n* ") + result.out.startswith("* ") == 10
    assert "    FAIL crc at byte " in result.out
    assert re.search(r"^[\d,]+ of 60,000 rows live\.$", result.out, re.MULTILINE)
    assert f"dvcodec inspect {folder}\n" in result.out
    assert sorted(path.suffix for path in folder.iterdir()) == [
        *["", ""],  # Paimon's index files
        ".bin",
        *[".parquet"] * 3,
        *[".puffin"] * 4,
    ]


def test_demo_files_are_valid(tmp_path: Path) -> None:
    text = run("demo", "--folder", tmp_path).out
    for name in ("deletes.puffin", "back.puffin", demo.DELTA_FILE, "index-32", "index-64", "back-32.puffin"):
        assert verify(tmp_path / name, row_count=20_000).ok
    found = iceberg.read_deletion_vectors(tmp_path / "deletes.puffin")
    assert set(found) == {str(tmp_path / f"orders-{i}.parquet") for i in range(3)}
    magics = [Magic.find((tmp_path / f"index-{bits}").read_bytes()[5:9]) for bits in (32, 64)]
    assert magics == [Magic.PAIMON32, Magic.PORTABLE64]
    logs = re.findall(r"log: (.*)", text)
    rows = [delta.load(delta.Descriptor.from_json(log), str(tmp_path)) for log in logs]
    assert sorted(map(len, rows)) == sorted(map(len, found.values()))


def test_demo_deletes_what_it_says(tmp_path: Path) -> None:
    run("demo", "--folder", tmp_path)
    found = iceberg.read_deletion_vectors(tmp_path / "deletes.puffin")
    for i in range(3):
        data = pq.read_table(tmp_path / f"orders-{i}.parquet")
        customer, country, day = (data[name].to_numpy() for name in ("customer", "country", "day"))
        chosen = {1: country == demo.COUNTRIES.index("ES"), 2: day >= 83}.get(i, False)
        wanted = np.isin(customer, [7, 77, 512, 900]) | chosen
        assert found[str(tmp_path / f"orders-{i}.parquet")] == RowSet.from_mask(wanted)


def test_second_demo_leaves_the_same_files(tmp_path: Path) -> None:
    assert run("demo", "--folder", tmp_path).code == 0
    before = contents(tmp_path)
    assert run("demo", "--folder", tmp_path).code == 0
    assert contents(tmp_path) == before


def test_demo_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("demo", "--folder", ".").code == 0
    assert (tmp_path / "deletes.puffin").exists()
    assert run("demo").code == 0
    assert (tmp_path / "demo-out" / "deletes.puffin").exists()


def test_demo_folder_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("demo", "--folder", tmp_path / "file")
    assert result.code == 2
    assert result.complaint == f"{tmp_path / 'file'}: File exists"


def test_demo_does_not_claim_what_is_not_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dvcodec.arrow.live_rows", lambda data, *_, **__: data)
    with pytest.raises(AssertionError, match="does not hold: the live rows of"):
        run("demo", "--folder", tmp_path)
