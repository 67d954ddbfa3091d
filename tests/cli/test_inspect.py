"""inspect, stats, positions, ranges, verify."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path

import pytest

from cases import each
from cli_runner import A, B, delta_file, flipped, puffin_file, run
from dvcodec import RowSet, iceberg
from dvcodec.puffin import PuffinWriter

LONG = RowSet.from_ranges([(5, 6), (100, 70_000), (2**33, 2**33 + 2)])


@pytest.fixture
def puffin(tmp_path: Path) -> Path:
    return puffin_file(tmp_path / "deletes.puffin")


# ---------------------------------------------------------------------------------------------------- inspect


def test_inspect_json(puffin: Path) -> None:
    (found,) = run("inspect", "--rows", "100", "--json", puffin).json
    assert (found["source"], found["kind"], found["size"]) == (str(puffin), "puffin", puffin.stat().st_size)
    assert found["properties"] == {"created-by": "tests"}
    assert (found["blobs"][1]["offset"], found["blobs"][1]["length"]) == (52, 42)
    assert found["blobs"][1]["properties"] == {"referenced-data-file": B, "cardinality": "1"}
    vector = found["vectors"][0]
    assert (vector["data_file"], vector["offset"], vector["size"], vector["stored_cardinality"]) == (A, 4, 48, 4)
    assert (vector["row_count"], vector["deleted_share"], vector["containers"]["arrays"]) == (100, 0.04, 1)


def test_inspect_of_other_blobs(tmp_path: Path) -> None:
    file = tmp_path / "stats.puffin"
    with PuffinWriter(file) as writer:
        writer.add("theta-[sketch]", b"12345", fields=[1], snapshot_id=1, sequence_number=1)
    result = run("inspect", file)
    assert result.code == 0
    assert "  theta-[sketch] at 4, 5 B, not a deletion vector\n" in result.out
    assert f"{file.stat().st_size} B, no vectors" in result.out
    assert run("inspect", "--json", file).json[0]["vectors"] == []


def test_inspect_shows_the_valid_vectors_of_a_damaged_file(puffin: Path, tmp_path: Path) -> None:
    bad = flipped(puffin, 30, to=tmp_path / "bad")
    result = run("inspect", bad)
    assert result.code == 2
    assert result.complaint.startswith(f"{bad} at byte 48: CRC-32")
    assert result.out.splitlines()[3].split() == [A, "4", "48", *"–––––", "damaged"]  # noqa: RUF001
    assert result.out.splitlines()[4].split()[:6] == [B, "52", "42", "1", "42", "42"]
    vectors = run("inspect", "--json", bad).json[0]["vectors"]
    assert vectors[0]["error"] == result.complaint
    assert vectors[1]["cardinality"] == 1
    assert "error" not in vectors[1]


# ---------------------------------------------------------------------------------------------------- stats


# ---------------------------------------------------------------------------------------------------- positions


def test_positions_of_several_vectors_name_them(puffin: Path, tmp_path: Path) -> None:
    assert run("positions", puffin).out == f"{A}\t0\n{A}\t1\n{A}\t2\n{A}\t7\n{B}\t42\n"
    bin_ = delta_file(tmp_path / "x.bin")
    rows = list(csv.reader(run("positions", bin_).out.splitlines(), delimiter="\t"))
    assert rows == [[f"{bin_}@1", row] for row in ("0", "1", "2", "7")] + [[f"{bin_}@49", "42"]]


def test_vectors_of_one_data_file_in_several_files(puffin: Path, tmp_path: Path) -> None:
    other = puffin_file(tmp_path / "other", {A: RowSet([1])})
    lines = run("stats", puffin, other).out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [[f"{puffin}:", A], [f"{puffin}:", B], [f"{other}:", A]]
    assert run("ranges", "--data-file", A, other, puffin).out.startswith(f"{other}: {A}\t1\t2\n{puffin}: {A}\t0\t")


@each("limit", [0, 1, 2, 69_902, 69_903, 69_904])
def test_positions_limit(limit: int, tmp_path: Path) -> None:
    file = tmp_path / "dv"
    file.write_bytes(iceberg.encode(LONG))
    expected = LONG.to_numpy().tolist()[:limit]
    assert [int(line) for line in run("positions", "--limit", str(limit), file).out.splitlines()] == expected
    assert run("positions", "--limit", str(limit), "--json", file).json[0]["positions"] == expected


def test_data_file_chooses_a_vector(puffin: Path, tmp_path: Path) -> None:
    assert run("positions", "--data-file", B, puffin).out == "42\n"
    assert run("ranges", "--data-file", A, puffin).out == "0\t3\n7\t8\n"
    other = puffin_file(tmp_path / "other", {"s3://other": RowSet([1])})
    several = run("positions", "--data-file", B, other, puffin)
    assert (several.code, several.out) == (0, f"{puffin}: {B}\t42\n"), "one of the files has it"


@pytest.mark.parametrize("command", ["positions", "ranges"])
def test_empty_vector_lists_nothing(command: str, tmp_path: Path) -> None:
    file = tmp_path / "dv"
    file.write_bytes(iceberg.encode(RowSet()))
    assert run(command, file).out == ""
    assert run(command, "--json", file).json == [{"source": str(file), "data_file": None, "offset": 0, command: []}]


# ---------------------------------------------------------------------------------------------------- ranges


# ---------------------------------------------------------------------- verify


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
        (["--data-file", A, "--cardinality", "4"], 0, None),
        (["--data-file", A, "--cardinality", "5"], 1, f"cardinality: vector of {A} at byte 4: cardinality stated by"),
        (["--data-file", "x"], 1, "data-file: file: referenced-data-file: expected x, found no such vector"),
    ],
)
def test_what_the_table_promises(options: list[str], code: int, finding: str | None, puffin: Path) -> None:
    result = run("verify", *options, puffin)
    assert result.code == code
    assert ("FAIL" in result.out) == (finding is not None)
    assert finding is None or f"  FAIL  {finding}" in result.out


def test_failed_shows_files_with_findings_alone(puffin: Path, tmp_path: Path) -> None:
    bad = flipped(puffin, 46, to=tmp_path / "bad")
    result = run("verify", "--failed", puffin, bad)
    assert result.code == 1
    assert str(puffin) not in result.out
    assert result.out.splitlines()[-1] == "2 files, 1 with findings"
    assert [report["source"] for report in run("verify", "--failed", "--json", puffin, bad).json] == [str(bad)]


def test_unreadable_outweighs_findings(puffin: Path, tmp_path: Path) -> None:
    bad = flipped(puffin, 46, to=tmp_path / "bad")
    result = run("verify", tmp_path / "missing", bad, puffin)
    assert result.code == 2
    assert result.complaint == f"{tmp_path / 'missing'}: No such file or directory"
    assert result.out.splitlines()[-1] == "2 files, 1 with findings"
