"""diff, merge, convert, correct, rewrite-paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases import each
from cli_runner import VECTORS, A, B, Result, flipped, puffin_file, run
from dvcodec import RowSet, delta, iceberg, mumbling
from dvcodec.puffin import open_puffin


@pytest.fixture
def puffin(tmp_path: Path) -> Path:
    return puffin_file(tmp_path / "deletes.puffin")


# ---------------------------------------------------------------------------------------------------- diff


def test_difference(puffin: Path, tmp_path: Path) -> None:
    newer = {A: RowSet([0, 1, 7, 100, 101, 102]), "c": RowSet([5])}
    other = puffin_file(tmp_path / "newer.puffin", newer)
    as_json = run("diff", "--json", puffin, other)
    assert as_json.code == 1
    assert as_json.json == [
        {"data_file": A, "added": [[100, 103]], "restored": [[2, 3]]},
        {"data_file": B, "added": [], "restored": [[42, 43]]},
        {"data_file": "c", "added": [[5, 6]], "restored": []},
    ]


def test_difference_shows_so_many_ranges(tmp_path: Path) -> None:
    none, many = (
        puffin_file(tmp_path / name, {A: RowSet(range(0, stop, 2))}) for name, stop in (("none", 0), ("many", 26))
    )
    assert run("diff", none, many).out.splitlines()[-2:] == ["  + 18", "  + ... 3 more ranges"]
    assert run("diff", "--limit", "12", none, many).out.splitlines()[-1] == "  + ... 1 more range"
    assert run("diff", "--limit", "13", none, many).out.splitlines()[-1] == "  + 24"
    assert len(run("diff", "--json", none, many).json[0]["added"]) == 13, "JSON holds all"


def test_bare_vector_against_a_named_one(puffin: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_bytes(iceberg.encode(RowSet([42, 43])))
    named = puffin_file(tmp_path / "named", {B: VECTORS[B]})
    assert run("diff", named, bare).out.splitlines()[0] == f"{B}  1 deleted, 0 restored"
    assert run("diff", f"{puffin}@52", bare).code == 1
    assert run("diff", f"{puffin}@52", named).code == 0


# ---------------------------------------------------------------------------------------------------- merge


def test_spellings_of_one_data_file(tmp_path: Path) -> None:
    old = puffin_file(tmp_path / "old.puffin", {"/t/a": RowSet([1]), "s3://b/x": RowSet([2])})
    new = puffin_file(tmp_path / "new.puffin", {"file:/t/a": RowSet([1]), "s3a://b//x": RowSet([2, 3])})
    changes = run("diff", "--json", old, new)
    assert (changes.code, changes.json) == (1, [{"data_file": "s3://b/x", "added": [[3, 4]], "restored": []}])
    out = tmp_path / "all.puffin"
    assert run("merge", old, new, "-o", out).code == 0
    assert iceberg.read_deletion_vectors(out) == {"/t/a": RowSet([1]), "s3://b/x": RowSet([2, 3])}
    assert run("ranges", "--data-file", "s3n://b/x", new).code == 0
    for name in ("/t/a b", "/t/a%20b"):
        puffin_file(tmp_path / f"{len(name)}.puffin", {name: RowSet([1])})
    for command in (["diff"], ["merge", "-o", tmp_path / "none.puffin"]):
        result = run(*command, tmp_path / "6.puffin", tmp_path / "8.puffin")
        assert result.code == 2
        assert "'/t/a%20b' and '/t/a b' may be one data file" in result.err


def test_rewrite_paths_in_another_spelling(tmp_path: Path) -> None:
    old = puffin_file(tmp_path / "old.puffin", {"s3://b/t/p=1/x": RowSet([1]), "s3://b/t2/y": RowSet([2])})
    out = tmp_path / "new.puffin"
    assert run("rewrite-paths", old, "-o", out, "--from", "s3a://b//t/", "--to", "/copy/t/").code == 0
    assert set(iceberg.read_deletion_vectors(out)) == {"/copy/t/p=1/x", "s3://b/t2/y"}
    assert run("rewrite-paths", old, "-o", out, "--map", "s3a://b/t/p=1/x=/copy/p=1/x").code == 0
    assert set(iceberg.read_deletion_vectors(out)) == {"/copy/p=1/x", "s3://b/t2/y"}


@each(
    ("old", "new", "expected"),
    [
        ("s3://lake", "gs://z", "gs://z/t/b"),
        ("s3://lake/t/", "gs://z", "gs://z/b"),
        ("s3://lake/t", "gs://z/", "gs://z/b"),
        ("s3://lake/t/b", "gs://z/c", "gs://z/c"),
        ("s3://", "s3a://", "s3a://lake/t/b"),
        ("s3://lake/t/", "", "b"),
        ("", "x", "x/s3://lake/t/b"),
        ("s3a://lake", "/z", "/z/t/b"),
    ],
)
def test_rewrite_paths_by_whole_steps(old: str, new: str, expected: str, tmp_path: Path) -> None:
    file, out = puffin_file(tmp_path / "old.puffin", {"s3://lake/t/b": RowSet([1])}), tmp_path / "new.puffin"
    assert run("rewrite-paths", file, "-o", out, "--from", old, "--to", new).code == 0
    assert set(iceberg.read_deletion_vectors(out)) == {expected}


def test_parts_of_puffin_files_need_a_name(puffin: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.puffin"
    for command in (["convert", "--to", "iceberg"], ["merge"]):
        result = run(*command, f"{puffin}@4", "-o", out)
        assert result.code == 2
        assert "name the whole file, if it is a Puffin file, or give --data-file" in result.complaint
        assert run(*command, f"{puffin}@4", "-o", out, "--data-file", A).code == 0


def test_merge_of_bare_vectors(tmp_path: Path) -> None:
    for name, rows in (("one", [1]), ("two", [2])):
        (tmp_path / name).write_bytes(iceberg.encode(RowSet(rows)))
    out = tmp_path / "out"
    assert run("merge", tmp_path / "one", tmp_path / "two", "-o", out, "--to", "blob").code == 0
    assert iceberg.decode(out.read_bytes()) == RowSet([1, 2])
    assert run("merge", tmp_path / "one", tmp_path / "two", "-o", out, "--data-file", A).code == 0
    assert iceberg.read_deletion_vectors(out) == {A: RowSet([1, 2])}


def test_merge_refuses_a_name_for_named_vectors(puffin: Path, tmp_path: Path) -> None:
    result = run("merge", puffin, "-o", tmp_path / "out", "--data-file", "x")
    assert result.code == 2
    assert result.complaint == "--data-file names the data file of vectors that name none: one file for all of them"


def test_merge_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "nothing").write_bytes(b"\x01")
    result = run("merge", tmp_path / "nothing", "-o", tmp_path / "out")
    assert (result.code, result.out) == (0, "no vectors, nothing written\n")
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------------------------------------------- convert


def test_convert_one_vector(puffin: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.dv"
    assert run("convert", f"{puffin}@52:42", "--to", "blob", "-o", out).code == 0
    assert out.read_bytes() == puffin.read_bytes()[52:94]
    assert run("convert", out, "--to", "iceberg", "-o", out, "--data-file", B).code == 0, "onto itself"
    assert iceberg.read_deletion_vectors(out) == {B: VECTORS[B]}


def test_convert_names_the_values_to_commit(puffin: Path, tmp_path: Path) -> None:
    out = tmp_path / "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    (first, second) = run("convert", puffin, "--to", "delta", "-o", out, "--json").json
    assert (first["descriptor"]["storageType"], first["descriptor"]["cardinality"]) == ("u", 4)
    descriptor = delta.Descriptor.from_json(json.dumps(second["descriptor"]))
    assert delta.load(descriptor, str(tmp_path)) == VECTORS[B]
    back = tmp_path / "back.puffin"
    named = run("convert", out, "--to", "iceberg", "-o", back, "--json", "--data-file", A, "--data-file", B).json
    entry = named[1]["manifest_entry"]
    assert (entry["file_path"], entry["referenced_data_file"], entry["content_offset"]) == (str(back), B, 52)


def test_convert_to_a_file_of_another_name_gives_an_absolute_descriptor(
    puffin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "with space").mkdir()
    (first, _) = run("convert", puffin, "--to", "delta", "-o", "with space/x.bin", "--json").json
    assert first["descriptor"]["storageType"] == "p"
    assert first["descriptor"]["pathOrInlineDv"] == (tmp_path / "with space" / "x.bin").as_uri()
    descriptor = delta.Descriptor.from_json(json.dumps(first["descriptor"]))
    assert delta.load(descriptor) == VECTORS[A]


def test_convert_to_standard_output(puffin: Path) -> None:
    result = run("convert", puffin, "--to", "delta", "-o", "-")
    assert result.code == 0
    assert result.raw == b"\x01" + puffin.read_bytes()[4:94], "nothing but the file"
    assert result.err.endswith("\nwrote -, 91 B\n")
    as_json = run("convert", puffin, "--to", "delta", "-o", "-", "--json")
    assert as_json.raw == result.raw
    first, second = Result(0, as_json.err.encode(), "").json
    assert (first["path"], first["offset"], second["offset"]) == ("-", 1, 49)
    assert "descriptor" not in first, "nobody knows where it will be"


# ---------------------------------------------------------------------------------------------------- rewrite-paths


def paths(file: Path) -> list[str]:
    with open_puffin(file) as reader:
        return [blob.properties["referenced-data-file"] for blob in reader.blobs]


def test_rewrite_paths_with_equals_signs(tmp_path: Path) -> None:
    old = "s3://lake/t/day=3/hour=4/a.parquet"
    file = puffin_file(tmp_path / "f", {old: RowSet([1]), "s3://lake/t/day": RowSet([2])})
    new = "s3://pond/t/day=3/hour=4/a.parquet"
    assert run("rewrite-paths", file, "-o", file, "--map", f"{old}={new}").code == 0
    assert paths(file) == [new, "s3://lake/t/day"]


# ---------------------------------------------------------------------------------------------------- correct


def test_a_flipped_bit_is_corrected_in_its_file(puffin: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    damaged = flipped(puffin, 30, 3, to=tmp_path / "damaged")
    result = run("correct", damaged, "-o", out)
    assert (result.code, result.err) == (0, "")
    assert result.out == f"vector {A}: one flipped bit (byte 30, bit 3)\nwrote {out}\n"
    assert out.read_bytes() == puffin.read_bytes()
    (found,) = run("correct", damaged, "-o", out, "--json").json
    assert found == {
        "offset": 4,
        "data_file": A,
        "correction": "one flipped bit (byte 30, bit 3)",
        "doubt": 8 * len(iceberg.encode(VECTORS[A])) / 2**32,
        "rows": len(VECTORS[A]),
    }


def test_a_part_of_a_file_is_corrected_in_the_whole(tmp_path: Path) -> None:
    """A damaged length hides the vectors of a file of frames; the log has their places."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    first, _ = delta.write_deletion_vectors(whole, VECTORS)
    damaged = flipped(whole, first.offset + 2, 3, to=tmp_path / "damaged")
    assert run("correct", damaged, "-o", out).code == 2
    part = f"{damaged}@{first.offset}:{first.size}"
    (finding,) = (line for line in run("verify", part).out.splitlines() if "explains" in line)
    assert "one flipped bit (byte 3, bit 3) explains it" in finding
    assert run("correct", part, "-o", out, "--cardinality", str(first.cardinality + 1)).code == 2
    assert not out.exists()
    result = run("correct", part, "-o", out, "--cardinality", str(first.cardinality))
    assert result.out == f"vector at byte 1: one flipped bit (byte 3, bit 3)\nwrote {out}\n"
    assert out.read_bytes() == whole.read_bytes()
    assert "choose it by path@offset" in run("correct", whole, "-o", out, "--cardinality", "1").err


def test_only_damage_is_written_anew(puffin: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("correct", puffin, "-o", out).out == "no damage: nothing written\n"
    twice = flipped(flipped(puffin, 20, 3, to=tmp_path / "damaged"), 30, 3, to=tmp_path / "damaged")
    result = run("correct", twice, "-o", out)
    assert result.code == 2
    assert result.complaint.startswith(
        f"{twice} at byte 48: CRC-32 of magic and bitmap; no single flipped bit or wrong byte"
    )
    bare = tmp_path / "bare"
    bare.write_bytes(mumbling.encode(VECTORS[A]))
    complaint = (
        "only vectors in a frame with a checksum are corrected, not a Mumbling bitmap, as in manifests of Iceberg v4"
    )
    assert run("correct", bare, "-o", out).complaint == f"{bare}: {complaint}"
    assert not out.exists()
