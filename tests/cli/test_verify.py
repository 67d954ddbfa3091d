"""verify."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest

from cli_runner import A, B, flipped, puffin_file, run
from dvcodec import RowSet, iceberg
from dvcodec.puffin import REFERENCED_DATA_FILE, BlobMetadata, PuffinWriter


@pytest.fixture
def puffin(tmp_path: Path) -> Path:
    return puffin_file(tmp_path / "deletes.puffin")


def test_valid_file(puffin: Path) -> None:
    result = run("verify", puffin)
    assert (result.code, result.err) == (0, "")
    assert result.out == f"ok    {puffin}  puffin, 21 checks passed\n1 file, none with findings\n"


def test_one_flipped_bit(puffin: Path, tmp_path: Path) -> None:
    bad = flipped(puffin, 46, 3, to=tmp_path / "bad")
    blob = bad.read_bytes()[4:52]
    stored, computed = int.from_bytes(blob[-4:], "big"), zlib.crc32(blob[4:-4])
    assert stored != computed
    result = run("verify", bad)
    assert (result.code, result.err) == (1, "")
    crcs = f"expected 0x{stored:08x} (stored), found 0x{computed:08x} (computed)"
    flip = "one flipped bit (byte 46, bit 3)"
    assert result.out.splitlines() == [
        f"FAIL  {bad}  puffin, 1 of 21 checks failed",
        f"  FAIL  crc: vector of {A} at byte 48: CRC-32 of magic and bitmap; {flip} explains it: {crcs}",
        "1 file, 1 with findings",
    ]


def test_bad_crc_does_not_hide_bad_structure(puffin: Path, tmp_path: Path) -> None:
    bad = flipped(puffin, 42, 7, to=tmp_path / "bad")  # the second of ascending values
    names = re.findall(r"  FAIL  (\w+):", run("verify", bad).out)
    assert names == ["crc", "structure"]


def test_all_shows_what_passed_and_what_does_not_apply(puffin: Path) -> None:
    lines = run("verify", "--all", puffin).out.splitlines()[1:-1]
    assert len(lines) == 21 + 2
    assert "  pass  container: file at byte 0" in lines
    assert f"  pass  crc: vector of {A} at byte 4" in lines
    assert f"  n/a  rows: vector of {B} at byte 52" in lines
    counted = run("verify", "--all", "--rows", "100", puffin).out
    assert f"  pass  rows: vector of {B} at byte 52" in counted
    assert "23 checks" in counted


@pytest.mark.parametrize(
    ("options", "code", "finding"),
    [
        (["--rows", "43"], 0, None),
        (["--rows", "42"], 1, f"rows: vector of {B} at byte 52: highest position: expected below 42"),
        (["--rows", "0"], 1, f"rows: vector of {A} at byte 4: highest position: expected below 0"),
        (["--data-file", A, "--cardinality", "4"], 0, None),
        (["--data-file", A, "--cardinality", "5"], 1, f"cardinality: vector of {A} at byte 4: cardinality stated by"),
        (["--data-file", A, "--rows", "8"], 0, None),
        (["--data-file", "x"], 1, "data-file: file: referenced-data-file: expected x, found no such vector"),
    ],
)
def test_what_the_table_promises(options: list[str], code: int, finding: str | None, puffin: Path) -> None:
    result = run("verify", *options, puffin)
    assert result.code == code
    assert ("FAIL" in result.out) == (finding is not None)
    assert finding is None or f"  FAIL  {finding}" in result.out


def test_json(puffin: Path, tmp_path: Path) -> None:
    bad = flipped(puffin, 46, to=tmp_path / "bad")
    result = run("verify", "--json", puffin, bad)
    assert result.code == 1
    first, second = result.json
    assert (first["source"], first["kind"], first["ok"]) == (str(puffin), "puffin", True)
    assert {check["status"] for check in first["checks"]} == {"pass", "n/a"}
    assert not second["ok"]
    (finding,) = (check for check in second["checks"] if check["status"] == "fail")
    assert (finding["name"], finding["offset"], finding["subject"]) == ("crc", 48, f"vector of {A}")
    assert re.fullmatch(r"0x[0-9a-f]{8} \(stored\)", finding["expected"])
    assert re.fullmatch(r"0x[0-9a-f]{8} \(computed\)", finding["actual"])


def test_rules_of_puffin_metadata(tmp_path: Path) -> None:
    file = tmp_path / "odd.puffin"
    data = iceberg.encode(RowSet([1]))
    with PuffinWriter(file) as writer:
        for properties in ({REFERENCED_DATA_FILE: "x", "cardinality": "7"}, {REFERENCED_DATA_FILE: "x"}):
            writer.add_stored(BlobMetadata("deletion-vector-v1", (1,), 5, 6, 0, 0, None, properties), data)
    result = run("verify", file)
    assert result.code == 1
    names = set(re.findall(r"  FAIL  ([\w-]+):", result.out))
    assert names == {"blob-ids", "blob-properties", "one-vector-per-file", "cardinality"}


def test_unreadable_outweighs_findings(puffin: Path, tmp_path: Path) -> None:
    bad = flipped(puffin, 46, to=tmp_path / "bad")
    result = run("verify", tmp_path / "missing", bad, puffin)
    assert result.code == 2
    assert result.complaint == f"{tmp_path / 'missing'}: No such file or directory"
    assert result.out.splitlines()[-1] == "2 files, 1 with findings"
