"""dvcodec zap: footer, fields, terms, postings, stored, docvalues, merge; and segments in inspect and verify."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pyroaring
import pytest

from cases import each
from cli_runner import flipped, in_terminal, puffin_file, run
from dvcodec import RowSet
from dvcodec.cli.zap import shared
from dvcodec.zap import (
    Document,
    Field,
    Segment,
    Term,
    composite_field,
    keyword_field,
    merge_segments,
    number_field,
    text_field,
    verify_segment,
    write_segment,
)

WORDS = ("Delta", "iceberg", "puffin", "roaring", "segment")
TITLES = ("Roaring bitmaps", "Search segments", "Bitmaps of segments, bitmaps of rows")


def documents(count: int, first: int = 0) -> list[Document]:
    found = []
    for i in range(first, first + count):
        title = text_field("title", TITLES[i % 3])
        tag = keyword_field("tag", WORDS[i % 5].lower())
        found.append(
            Document(f"doc-{i:03}".encode(), (title, tag, number_field("price", i)), (composite_field([title]),))
        )
    return found


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Twelve documents, version 15."""
    path = tmp_path / "a.zap"
    write_segment(path, documents(12), 15)
    return path


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Terms and values that are no text, empty, long, or no good for a terminal."""
    path = tmp_path / "odd.zap"
    terms = (b"", b"\xff\x00", b"a\x1b[31mred\nline", b"[bold]x[/y]", b"x" * 5000)
    field = Field("f", b"\xffvalue\x00", "t", keyword_field("f", "x").options, tuple(map(Term, terms)), len(terms))
    write_segment(path, [Document(b"\xfe\xfd", (field,)), Document(b"plain")], 15)
    return path


def lines(*arguments: str | Path) -> list[str]:
    result = run("zap", *arguments)
    assert (result.code, result.err) == (0, "")
    return [line.rstrip() for line in result.out.splitlines()]


def answer(*arguments: str | Path) -> Any:
    result = run("zap", *arguments, "--json")
    assert (result.code, result.err) == (0, "")
    assert result.raw.isascii()
    return result.json


# ---------------------------------------------------------------------------------------------------- footer


def test_footer(segment: Path, vectors: Path) -> None:
    tiny = vectors / "zap/v11/tiny.zap"
    shown = lines("footer", segment, tiny)
    assert " ".join(shown[0].split()) == (
        "segment version documents size stored index fields index doc value table CRC chunks"
    )
    with Segment.open(segment) as this:
        footer = this.footer
        size = f"{segment.stat().st_size:,}"
        addresses = (f"{at:,}" for at in (footer.stored_index, footer.fields_index, footer.doc_value_table))
        crc = f"0x{footer.crc:08x}"
    words = [str(segment), "15", "12", size, *addresses, crc, "matches", "about", "1,024", "postings"]
    assert shown[1].split() == words
    assert shown[2].split()[:3] == [str(tiny), "11", "3"]
    assert shown[2].endswith("matches  1,024 documents")


@each(
    ("version", "mode", "words"),
    [
        (11, 2000, "2,000 documents"),
        (12, 1025, "1,024 documents, one chunk up to 1,024 postings"),
        (15, 1026, "about 1,024 postings"),
        (17, 2, "2 documents"),
    ],
)
def test_chunk_mode_in_words(version: int, mode: int, words: str, tmp_path: Path) -> None:
    write_segment(tmp_path / "x.zap", documents(3), version, chunk_mode=mode)
    (found,) = answer("footer", tmp_path / "x.zap")
    assert (found["chunk_mode"], found["chunks"]) == (mode, words)


def test_footer_reports_a_wrong_crc(segment: Path, tmp_path: Path) -> None:
    bad = flipped(segment, 50, to=tmp_path / "bad.zap")
    result = run("zap", "footer", segment, bad)
    assert (result.code, result.err) == (1, "")
    assert [" matches " in line for line in result.out.splitlines()[1:]] == [True, False]
    assert " does not match " in result.out
    assert [item["crc_ok"] for item in run("zap", "footer", segment, bad, "--json").json] == [True, False]
    unchecked = run("zap", "footer", bad, "--no-checksum")
    assert unchecked.code == 0
    assert "hold" not in unchecked.out
    assert run("zap", "footer", bad, "--no-checksum", "--json").json[0]["crc_ok"] is None


def test_contents_of_another_writer_are_named(segment: Path, tmp_path: Path) -> None:
    write_segment(tmp_path / "x.zap", documents(1), 17)
    data = (tmp_path / "x.zap").read_bytes()
    (tmp_path / "x.zap").write_bytes(data[:-40] + b"secret" + (6).to_bytes(4, "big") + data[-36:])
    (found,) = run("zap", "footer", tmp_path / "x.zap", "--json").json
    assert found["writer_id"] == "secret"
    assert "about 1,024 postings, by secret" in run("zap", "footer", tmp_path / "x.zap").out
    refused = run("zap", "terms", tmp_path / "x.zap", "_id", "--no-checksum")
    assert refused.code == 2
    assert "contents transformed by a custom writer" in refused.complaint
    assert run("inspect", tmp_path / "x.zap").code == 2


# ---------------------------------------------------------------------------------------------------- fields


def test_fields(segment: Path) -> None:
    shown = lines("fields", segment)
    assert shown[0] == f"{segment}  zap segment, version 15, 12 documents, 5 fields"
    columns = "field id terms dictionary at doc values at doc value bytes options sections"
    assert " ".join(shown[1].split()) == columns
    assert [line.split()[:3] for line in shown[2:]] == [
        ["_id", "0", "12"],
        ["_all", "1", "6"],
        ["price", "2", shown[4].split()[2]],
        ["tag", "3", "5"],
        ["title", "4", "6"],
    ]


def test_fields_json(segment: Path, tmp_path: Path) -> None:
    found = answer("fields", segment)
    assert (found["source"], found["version"]) == (str(segment), 15)
    with Segment.open(segment) as this:
        tag = this.field("tag")
    assert tag.doc_values is not None
    assert found["fields"][3] == {
        "id": 3,
        "name": "tag",
        "terms": 5,
        "dictionary": tag.dictionary,
        "doc_values": {"offset": tag.doc_values[0], "size": tag.doc_values[1] - tag.doc_values[0]},
        "options": None,
        "vectors": None,
        "synonyms": None,
        "shapes": None,
    }
    assert found["fields"][0]["doc_values"] is None
    write_segment(tmp_path / "x.zap", documents(2), 17)
    options = {item["name"]: item["options"] for item in answer("fields", tmp_path / "x.zap")["fields"]}
    assert options["title"] == ["indexed", "stored", "term-vectors", "doc-values"]
    assert options["_all"] == ["indexed", "term-vectors"]


def test_damaged_dictionary_leaves_the_other_fields_their_turn(segment: Path, tmp_path: Path) -> None:
    with Segment.open(segment) as this:
        at = this.field("tag").dictionary
    assert at is not None
    bad = flipped(segment, at + 1, 7, to=tmp_path / "bad.zap")
    result = run("zap", "fields", bad, "--no-checksum")
    assert result.code == 2
    assert "vellum version" in result.complaint
    rows = {line.split()[0]: line.split()[2] for line in result.out.splitlines()[2:]}
    assert (rows["tag"], rows["title"]) == ("damaged", "6")
    found = run("zap", "fields", bad, "--no-checksum", "--json").json["fields"]
    assert found[3]["terms"] is None
    assert found[3]["error"] == result.complaint
    assert found[4]["terms"] == 6


# ---------------------------------------------------------------------------------------------------- terms


@each(
    ("options", "total", "found"),
    [
        ([], 6, ["bitmaps", "of", "roaring", "rows", "search", "segments"]),
        (["--limit", "2"], 6, ["bitmaps", "of"]),
        (["--limit", "0"], 6, []),
        (["--prefix", "ro"], 2, ["roaring", "rows"]),
        (["--prefix", "ro", "--limit", "1"], 2, ["roaring"]),
        (["--prefix", "zz"], 0, []),
        (["--start", "of", "--stop", "search"], 3, ["of", "roaring", "rows"]),
        (["--start", "s"], 2, ["search", "segments"]),
        (["--stop", "of"], 1, ["bitmaps"]),
        (["--top", "3"], 6, ["bitmaps", "segments", "of"]),
        (["--top", "1", "--prefix", "s"], 2, ["segments"]),
        (["--hex", "--prefix", "726f"], 2, [{"hex": b"roaring".hex()}, {"hex": b"rows".hex()}]),
    ],
)
def test_terms_chosen(options: list[str], total: int, found: list[Any], segment: Path) -> None:
    shown = answer("terms", segment, "title", *options)
    assert (shown["source"], shown["field"], shown["total"]) == (str(segment), "title", total)
    assert [item["term"] for item in shown["terms"]] == found
    with Segment.open(segment) as this:
        docs = dict(this.terms("title"))
    texts = [bytes.fromhex(term["hex"]) if isinstance(term, dict) else term.encode() for term in found]
    assert [item["docs"] for item in shown["terms"]] == [docs[term] for term in texts]
    text = run("zap", "terms", segment, "title", *options).out.splitlines()
    left = total - len(found)
    more = f"... {left} more term{'s' * (left > 1)}" if left else None
    assert (text[-1] if left or not total else None) == (more if total else "no terms")
    assert len(text) == (1 + len(found) if found else 0) + (left > 0 or not total)


def test_people_are_shown_a_hundred_terms(tmp_path: Path) -> None:
    write_segment(tmp_path / "many.zap", documents(150), 15)
    shown = lines("terms", tmp_path / "many.zap", "_id")
    assert len(shown) == 102
    assert shown[-1] == "... 50 more terms"
    assert len(answer("terms", tmp_path / "many.zap", "_id")["terms"]) == 150
    assert len(lines("terms", tmp_path / "many.zap", "_id", "--limit", "1000")) == 151


def test_terms_that_are_no_text(odd: Path) -> None:
    shown = run("zap", "terms", odd, "f")
    assert "\x1b" not in shown.out
    rows = [line.split("  ")[0].rstrip() for line in shown.out.splitlines()[1:]]
    assert rows == ["(empty)", "[bold]x[/y]", "a\\x1b[31mred\\nline", f"{'x' * 100}... 4.88 KiB", "\\xff\\x00"]
    assert [item["term"] for item in answer("terms", odd, "f")["terms"]] == [
        "",
        "[bold]x[/y]",
        "a\x1b[31mred\nline",
        "x" * 5000,
        {"hex": "ff00"},
    ]
    assert "ff00  " in run("zap", "terms", odd, "f", "--hex").out
    assert run("zap", "postings", odd, "f", "ff00", "--hex").out.splitlines()[1].split()[:2] == ["ff00", "0"]


@pytest.mark.skipif(sys.platform != "linux", reason="arguments are bytes on Linux alone")
def test_terms_may_be_given_as_bytes(odd: Path) -> None:
    assert answer("terms", odd, "f", "--prefix", os.fsdecode(b"\xff"))["terms"] == [
        {"term": {"hex": "ff00"}, "docs": 1}
    ]


def test_field_without_terms(vectors: Path) -> None:
    assert lines("terms", vectors / "zap/v15/tiny.zap", "storedonly") == ["no terms"]
    assert lines("postings", vectors / "zap/v15/tiny.zap", "storedonly") == ["no postings"]
    assert answer("postings", vectors / "zap/v15/tiny.zap", "storedonly")["postings"] == []


# ---------------------------------------------------------------------------------------------------- postings


def test_search(segment: Path) -> None:
    assert lines("search", segment, "title", "bitmaps", "--limit", "2") == [
        "doc  id       freq  title",
        "  0  doc-000     1  Roaring bitmaps",
        "  2  doc-002     2  Bitmaps of segments, bitmaps of rows",
        "... 6 more documents",
    ]
    found = answer("search", segment, "title", "bitmaps")
    assert (found["total"], len(found["documents"])) == (8, 8)
    assert found["documents"][1] == {"doc": 2, "id": "doc-002", "freq": 2, "values": [TITLES[2]]}
    assert lines("search", segment, "tag", "delta", "--limit", "1")[1].split() == ["0", "doc-000", "1", "delta"]
    none = run("zap", "search", segment, "title", "Bitmaps")
    assert (none.code, none.out, none.err) == (1, "no documents\n", "")


def test_postings(segment: Path) -> None:
    assert [line.split() for line in lines("postings", segment, "title", "bitmaps", "--limit", "3")] == [
        ["term", "doc", "freq", "norm", "locations"],
        ["bitmaps", "0", "1", "0.707", "1"],
        ["bitmaps", "2", "2", "0.408", "2"],
        ["bitmaps", "3", "1", "0.707", "1"],
        ["...", "5", "more", "postings"],
    ]


def test_locations(segment: Path) -> None:
    shown = lines("postings", segment, "_all", "bitmaps", "--locations", "--limit", "3")
    assert " ".join(shown[0].split()) == "term doc freq norm in field position start end in arrays"
    assert [line.split() for line in shown[1:]] == [
        ["bitmaps", "0", "1", "0.707", "title", "2", "8", "15", "–"],  # noqa: RUF001
        ["bitmaps", "2", "2", "0.408", "title", "1", "0", "7", "–"],  # noqa: RUF001
        ["bitmaps", "2", "2", "0.408", "title", "4", "21", "28", "–"],  # noqa: RUF001
        ["...", "6", "more", "postings"],
    ]
    shown = lines("postings", segment, "_all", "bitmaps", "--locations", "--limit", "2")
    assert shown[-2:] == ["... 1 more location", "... 6 more postings"]
    assert len(shown) == 5
    (one,) = answer("postings", segment, "_all", "roaring", "--locations", "--limit", "1")["postings"]
    assert one == {
        "term": "roaring",
        "doc": 0,
        "freq": 1,
        "norm": pytest.approx(2**-0.5),
        "location_count": 1,
        "locations": [{"field": "title", "position": 1, "start": 0, "end": 7, "array_positions": []}],
    }
    shown = lines("postings", segment, "tag", "delta", "--locations", "--limit", "1")
    assert shown[1].split() == ["delta", "0", "1", "1", *"–––––"]  # noqa: RUF001


def test_array_positions(vectors: Path) -> None:
    path = vectors / "zap/v15/tiny.zap"
    assert lines("postings", path, "tag", "dark", "--locations")[2].split()[-2:] == ["1", "300"]
    assert lines("stored", path, "1")[-1].split()[-2:] == ["1", "300"]


def test_field_that_does_not_count(vectors: Path) -> None:
    path = vectors / "zap/v15/tiny.zap"
    assert lines("postings", path, "nofreq", "beta")[1].split() == ["beta", "2", "0", "–", "0"]  # noqa: RUF001
    assert answer("postings", path, "nofreq", "beta")["postings"][0]["norm"] is None


# ---------------------------------------------------------------------------------------------------- documents


def test_stored(segment: Path) -> None:
    assert [line.split() for line in lines("stored", segment, "1", "--limit", "5")] == [
        ["doc", "field", "type", "bytes", "value", "in", "arrays"],
        ["1", "_id", "t", "7", "doc-001", "–"],  # noqa: RUF001
        ["1", "price", "n", "11", "1.0", "–"],  # noqa: RUF001
        ["1", "tag", "t", "7", "iceberg", "–"],  # noqa: RUF001
        ["1", "title", "t", "15", "Search", "segments", "–"],  # noqa: RUF001
    ]
    assert answer("stored", segment, "3-4,7", "0")["total"] == 4
    assert [item["doc"] for item in answer("stored", segment, "3-4,7", "0")["documents"]] == [3, 4, 7, 0]
    assert lines("stored", segment, "--limit", "2")[-1] == "... 10 more documents"
    assert len(answer("stored", segment)["documents"]) == 12


def test_stored_by_id(segment: Path, odd: Path) -> None:
    (found,) = answer("stored", segment, "--id", "doc-003")["documents"]
    assert (found["doc"], found["values"][0]["value"]) == (3, "doc-003")
    found = answer("stored", segment, "5", "--id", "doc-003", "--id", "doc-001")
    assert [item["doc"] for item in found["documents"]] == [5, 3, 1]
    (found,) = answer("stored", odd, "--hex", "--id", "fefd")["documents"]
    assert found["values"] == [
        {"field": "_id", "type": "t", "value": {"hex": "fefd"}, "array_positions": []},
        {"field": "f", "type": "t", "value": {"hex": b"\xffvalue\0".hex()}, "array_positions": []},
    ]
    assert r"\xffvalue\x00" in run("zap", "stored", odd, "0").out


def test_docvalues(segment: Path) -> None:
    assert [line.split() for line in lines("docvalues", segment, "title", "--limit", "2")] == [
        ["doc", "terms", "values"],
        ["0", "2", "bitmaps", "roaring"],
        ["1", "2", "search", "segments"],
        ["...", "10", "more", "documents"],
    ]
    found = answer("docvalues", segment, "title", "--doc", "2,4-5")
    assert (found["total"], [item["doc"] for item in found["documents"]]) == (3, [2, 4, 5])
    assert found["documents"][0]["values"] == ["bitmaps", "of", "rows", "segments"]


def test_field_without_doc_values(segment: Path, vectors: Path) -> None:
    assert lines("docvalues", segment, "_id") == ["the field has no doc values"]
    assert answer("docvalues", segment, "_id")["documents"] == []
    assert lines("docvalues", vectors / "zap/v15/tiny.zap", "kw", "--doc", "0") == ["no documents"]


# ---------------------------------------------------------------------------------------------------- merge


@pytest.fixture
def two(segment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two segments, a.zap and b=1.zap, in the working folder."""
    monkeypatch.chdir(tmp_path)
    write_segment("b=1.zap", documents(5, first=12), 17)
    return Path("a.zap"), Path("b=1.zap")


def ids(path: Path | str) -> list[str]:
    return [item["values"][0]["value"] for item in answer("stored", path)["documents"]]


def test_merge(two: tuple[Path, Path], tmp_path: Path) -> None:
    dropped = ["--drop", "a.zap=1,3-4", "--drop", "b=1.zap=0", "--drop", "a.zap=11"]
    result = run("zap", "merge", *two, "-o", "out.zap", *dropped)
    assert (result.code, result.err) == (0, "")
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[:3] == [
        ["segment", "version", "documents", "kept", "dropped"],
        ["a.zap", "15", "12", "8", "4"],
        ["b=1.zap", "17", "5", "4", "1"],
    ]
    assert result.out.splitlines()[3].startswith("wrote out.zap, ")
    assert result.out.endswith(" KiB, version 17, 12 documents, 5 dropped\n")
    left = [f"doc-{i:03}" for i in range(17) if i not in (1, 3, 4, 11, 12)]
    assert ids("out.zap") == left
    assert verify_segment("out.zap").ok
    with Segment.open(two[0]) as a, Segment.open(two[1]) as b:
        merge_segments(tmp_path / "same.zap", [a, b], [RowSet([1, 3, 4, 11]), RowSet([0])])
    assert Path("out.zap").read_bytes() == Path("same.zap").read_bytes()


def test_merge_json_and_numbers(two: tuple[Path, Path]) -> None:
    options = ["--drop", "a.zap=0-10", "--version", "16", "--numbers", "numbers.json"]
    found = answer("merge", *two, "-o", "out.zap", *options)
    assert found == {
        "path": "out.zap",
        "version": 16,
        "num_docs": 6,
        "dropped": 11,
        "file_size": Path("out.zap").stat().st_size,
        "segments": [
            {"source": "a.zap", "version": 15, "num_docs": 12, "kept": 1, "dropped": 11},
            {"source": "b=1.zap", "version": 17, "num_docs": 5, "kept": 5, "dropped": 0},
        ],
    }
    assert json.loads(Path("numbers.json").read_text()) == [
        {"source": "a.zap", "numbers": [*[None] * 11, 0]},
        {"source": "b=1.zap", "numbers": [1, 2, 3, 4, 5]},
    ]
    assert answer("footer", "out.zap")[0]["version"] == 16


def test_merge_drops_what_a_vector_names(two: tuple[Path, Path]) -> None:
    Path("deleted").write_bytes(pyroaring.BitMap([0, 2]).serialize())
    puffin_file(Path("puffin"), {"x": RowSet([4]), "y": RowSet([9])})
    run("zap", "merge", *two, "-o", "out.zap", "--drop-file", "b=1.zap=deleted", "--drop-file", "a.zap=puffin@4")
    assert ids("out.zap") == [f"doc-{i:03}" for i in range(17) if i not in (4, 12, 14)]
    several = run("zap", "merge", *two, "-o", "x", "--drop-file", "a.zap=puffin")
    assert (several.code, several.complaint) == (2, "puffin holds 2 vectors: choose one by its offset, path@offset")


def test_merge_of_one_changes_its_version_in_place(two: tuple[Path, Path]) -> None:
    before = ids(two[0])
    assert run("zap", "merge", two[0], "-o", two[0], "--version", "12").code == 0
    assert answer("footer", two[0])[0]["version"] == 12
    assert ids(two[0]) == before


def test_merge_of_a_folder(two: tuple[Path, Path], tmp_path: Path) -> None:
    Path("other.txt").write_bytes(bytes(4096))
    result = run("zap", "merge", tmp_path, "-o", tmp_path.parent / "out.zap")
    assert (result.code, result.complaint) == (0, "1 other file without search segments")
    assert len(ids(tmp_path.parent / "out.zap")) == 17
    again = run("zap", "merge", tmp_path, "-o", tmp_path / "a.zap")
    assert again.code == 2
    assert again.err.endswith("a.zap is an input too: name the segments, or write elsewhere\n")


@pytest.mark.parametrize("spelled", ["./out.zap", "link", "file:{}/out.zap"])
def test_numbers_do_not_replace_the_segment(two: tuple[Path, Path], tmp_path: Path, spelled: str) -> None:
    Path("link").symlink_to("out.zap")
    name = spelled.format(tmp_path)
    before = sorted(tmp_path.iterdir())
    result = run("zap", "merge", *two, "-o", "out.zap", "--numbers", name)
    message = f"--numbers {name} is the output: write them elsewhere"
    assert (result.code, result.complaint) == (2, message)
    assert sorted(tmp_path.iterdir()) == before


def test_numbers_do_not_replace_a_segment_that_is_read(two: tuple[Path, Path], tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    for segments in (two, (tmp_path,)):
        result = run("zap", "merge", *segments, "-o", "out.zap", "--numbers", "./b=1.zap")
        message = "--numbers ./b=1.zap is an input: write them elsewhere"
        assert (result.code, result.complaint) == (2, message)
    assert {path: path.read_bytes() for path in sorted(tmp_path.iterdir())} == before


def test_merge_salvages_what_zapx_misplaced(vectors: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "middle.zap", tmp_path / "out.zap"
    source.write_bytes(gzip.decompress((vectors / "zap/misplaced/middle.zap.gz").read_bytes()))
    refused = run("zap", "merge", source, "-o", out)
    assert refused.code == 2
    assert "zapx 17.0.9 to 17.1.3 misplaced (Go misreads them; zap merge --salvage repairs them)" in refused.complaint
    assert run("zap", "merge", source, "-o", out, "--salvage").code == 0
    assert answer("postings", out, "f", "--limit", "0")["total"] == 2056
    assert verify_segment(out).ok


def test_merge_to_standard_output(two: tuple[Path, Path]) -> None:
    result = run("zap", "merge", *two, "-o", "-")
    assert result.code == 0
    assert result.err.splitlines()[-1].startswith("wrote -, ")
    run("zap", "merge", *two, "-o", "out.zap")
    assert result.raw == Path("out.zap").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_merge_shows_its_progress_by_fields(two: tuple[Path, Path], tmp_path: Path) -> None:
    code, shown = in_terminal("zap", "merge", *two, "-o", "out.zap", columns=100, to=tmp_path / "said")
    assert code == 0
    assert "merging" in shown
    assert "5/5" in shown
    assert (tmp_path / "said").read_text().count("\n") == 4


# ---------------------------------------------------------------------------------------------------- errors

WRONG = {
    "no such term": (["postings", "a.zap", "tag", "x\ty"], "a.zap: no term x\\ty in the field tag"),
    "no such id": (["stored", "a.zap", "--id", "zz"], "a.zap: no document with id zz"),
    "no such document": (["stored", "a.zap", "12"], "a.zap: expected document numbers from 0 to 11, found 12"),
    "a range backwards": (["stored", "a.zap", "5-3"], "5-3: expected numbers and ranges"),
    "prefix and range": (["terms", "a.zap", "tag", "--prefix", "a", "--stop", "b"], "--prefix excludes --start and"),
    "top and limit": (["terms", "a.zap", "tag", "--top", "3", "--limit", "2"], "--top excludes --limit"),
    "not hexadecimal": (
        ["terms", "a.zap", "tag", "--hex", "--prefix", "xy"],
        "expected hexadecimal digits, found 'xy'",
    ),
    "no segment": (["terms", "vector", "_id"], "vector at byte 22: zap version: expected 11 to 17, found "),
    "several": (
        ["terms", "*.zap", "_id"],
        "*.zap: expected one file or one index (its root.bolt and segments), found 2 files",
    ),
    "damaged": (["fields", "bad.zap"], "CRC-32 of the segment (--no-checksum ignores it): expected 0x"),
    "folder without segments": (["footer", "others"], "no search segments in 1 file"),
    "drop of another": (
        ["merge", "a.zap", "-o", "x", "--drop", "b.zap=1"],
        "--drop b.zap=1: expected SEGMENT=VALUE, with one of the segments a.zap",
    ),
    "digits of another script": (["stored", "a.zap", "\u0661"], "expected numbers and ranges, such as 1,2,5-9"),
    "drop of one of two": (
        ["merge", "a.zap", "a.zap", "-o", "x", "--drop", "a.zap=1"],
        "--drop a.zap=1: 2 segments have the name a.zap",
    ),
    "drop of no document": (
        ["merge", "a.zap", "-o", "x", "--drop", "a.zap=12"],
        "a.zap has 12 documents: cannot drop 12",
    ),
    "drop file is a segment": (
        ["merge", "a.zap", "-o", "x", "--drop-file", "a.zap=bad.zap"],
        "bad.zap: a search segment has no deletion vectors: see dvcodec inspect, or dvcodec zap",
    ),
}


@each(("arguments", "said"), WRONG.values(), WRONG)
def test_errors_are_reported_on_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_segment("a.zap", documents(12), 15)
    flipped(Path("a.zap"), 40, to=tmp_path / "bad.zap")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "x.txt").write_text("rows are rows")
    (tmp_path / "vector").write_bytes(pyroaring.BitMap([1, 2, 3, 4, 9, 77, 78]).serialize())
    before = sorted(tmp_path.rglob("*"))
    result = run("zap", *arguments)
    assert said in result.complaint
    assert (result.code, result.out) == (2, "")
    assert sorted(tmp_path.rglob("*")) == before, "a failed command writes nothing"


@each("arguments", [["terms", "title"], ["postings", "title"], ["stored"], ["docvalues", "title"]])
def test_json_without_a_limit_has_no_more_than_the_size_of_the_segment_explains(
    arguments: list[str], segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_JSON_ROWS", -segment.stat().st_size)
    command, *rest = arguments
    result = run("zap", command, segment, *rest, "--json")
    assert result.code == 2
    assert result.complaint.endswith("s are too many for JSON: use --limit")
    assert run("zap", command, segment, *rest, "--json", "--limit", "6").code == 0


# ---------------------------------------------------------------------------------------------------- other commands


def test_commands_on_vectors_pass_over_the_segments_of_a_folder(segment: Path, tmp_path: Path) -> None:
    puffin_file(tmp_path / "x.puffin")
    result = run("stats", tmp_path, "--json")
    assert (result.code, result.complaint) == (0, "1 other file without deletion vectors")
    assert {item["source"] for item in result.json["vectors"]} == {str(tmp_path / "x.puffin")}
    assert run("verify", tmp_path).out.splitlines()[-1] == "2 files, none with findings"
    assert {item["kind"] for item in run("inspect", tmp_path, "--json").json} == {"zap", "puffin"}


def test_inspect(segment: Path) -> None:
    result = run("inspect", segment)
    assert (result.code, result.err) == (0, "")
    shown = [line.rstrip() for line in result.out.splitlines()]
    assert shown[0] == (
        f"{segment}  zap segment, {segment.stat().st_size / 1024:.3g} KiB, version 15, 12 documents, 5 fields"
    )
    assert re.fullmatch("  CRC 0x[0-9a-f]{8} matches", shown[1])
    assert shown[2] == "  chunks of about 1,024 postings"
    assert shown[3].split() == ["field", "terms", "postings", "dictionary", "doc", "values", "bytes", "share"]
    assert [line.split()[0] for line in shown[4:9]] == ["_id", "_all", "price", "tag", "title"]
    bar = shown[10].strip()
    assert len(bar) == 64
    assert bar.startswith("s")
    assert set(bar) <= set("spdvf")
    parts = {line[0]: int(line.split()[-3].replace(",", "")) for line in shown[12:-1]}
    assert list(parts) == ["s", "p", "d", "v", "f"]
    assert sum(parts.values()) == segment.stat().st_size


def test_inspect_of_a_damaged_segment_shows_what_it_can(segment: Path, tmp_path: Path) -> None:
    with Segment.open(segment) as this:
        at = this.field("tag").dictionary
    assert at is not None
    bad = flipped(segment, at + 1, 7, to=tmp_path / "bad.zap")
    result = run("inspect", bad)
    assert result.code == 2
    said = result.err.splitlines()
    assert "CRC-32 of the segment" in said[0]
    assert "vellum version" in said[1]
    assert " does not match\n" in result.out
    assert any(line.split()[:2] == ["tag", "damaged"] for line in result.out.splitlines())
    found = run("inspect", bad, "--json").json[0]
    assert (found["crc_ok"], found["fields"][3]["terms"]) == (False, None)


def test_verify(segment: Path) -> None:
    result = run("verify", segment)
    made = len([check for check in verify_segment(segment).checks if check.status.value == "pass"]) + 1
    assert (result.code, result.out) == (
        0,
        f"ok    {segment}  zap v15, {made} checks passed\n1 file, none with findings\n",
    )
    names = [line.split(": ")[0].split()[-1] for line in run("verify", segment, "--all").out.splitlines()[1:-1]]
    assert names[:7] == ["container", "footer", "crc", "fields", "stored", "nested", "ids"]
    assert names.count("postings") == 5


def test_verify_names_what_is_damaged(segment: Path, tmp_path: Path) -> None:
    with Segment.open(segment) as this:
        at = this.field("tag").dictionary
    assert at is not None
    result = run("verify", flipped(segment, at + 1, 7, to=tmp_path / "bad.zap"))
    assert (result.code, result.err) == (1, "")
    assert "  FAIL  crc: file at byte " in result.out
    assert "  FAIL  dictionary: field 'tag' at byte " in result.out
    assert "expected 0x" in result.out


# ----------- zap terms, postings, stored, docvalues and merge leave out the documents that root.bolt marks as deleted


VERSIONS = [15, 17]


@pytest.fixture(params=VERSIONS)
def index(request: pytest.FixtureRequest, own_vectors: Path, tmp_path: Path) -> Path:
    """An index of bleve: nine documents of which five were deleted or replaced, then three more."""
    source = own_vectors / f"tables/scorch/bleve-2.6.1/small-v{request.param}"
    shutil.copy(source.with_suffix(".json"), tmp_path / "truth.json")
    return Path(shutil.copytree(source, tmp_path / "index"))


def newest(index: Path) -> dict[str, Any]:
    """What bleve says of the newest snapshot."""
    found: dict[str, Any] = json.loads(index.with_name("truth.json").read_bytes())[-1]
    return found


def answer_of_index(*arguments: str | Path) -> Any:
    result = run("zap", *arguments, "--json")
    assert result.code == 0, result.err
    return result.json


def ids_of(found: dict[str, Any]) -> list[str]:
    return sorted(document["values"][0]["value"] for document in found["documents"])


def docs_of_terms(*arguments: str | Path) -> dict[str, int]:
    found = answer_of_index("terms", *arguments)
    assert found["total"] == len(found["terms"])
    return {item["term"]: item["docs"] for item in found["terms"]}


@pytest.mark.parametrize("below", ["", "store"])
def test_an_index_shows_its_live_documents(index: Path, below: str) -> None:
    live = newest(index)["live"]
    stored = answer_of_index("stored", index / below)
    assert (stored["source"], stored["total"], ids_of(stored)) == (str(index / below), 7, sorted(live))
    segments = {segment["file"]: segment for segment in newest(index)["segments"]}
    shown = [(Path(document["segment"]).name, document["doc"]) for document in stored["documents"]]
    assert shown == [
        (name, doc)
        for name, segment in segments.items()
        for doc in range(len(segment["documents"]))
        if doc not in segment["deleted"]
    ]
    assert docs_of_terms(index / below, "_id") == dict.fromkeys(sorted(live), 1)
    found = answer_of_index("postings", index / below, "title", "document")
    assert (found["total"], [(Path(one["segment"]).name, one["doc"]) for one in found["postings"]]) == (7, shown)
    hits = answer_of_index("search", index / below, "title", "document")
    assert [(Path(one["segment"]).name, one["doc"]) for one in hits["documents"]] == shown
    assert sorted(one["id"] for one in hits["documents"]) == sorted(live)
    values = answer_of_index("docvalues", index / below, "flag")
    assert [(Path(one["segment"]).name, one["doc"]) for one in values["documents"]] == shown


def test_a_merged_index_has_its_live_documents(index: Path, tmp_path: Path) -> None:
    out, all_of_it = tmp_path / "out.zap", tmp_path / "all.zap"
    found = answer_of_index("merge", index, "-o", out)
    assert (found["num_docs"], found["dropped"]) == (7, 5)
    assert ids_of(answer_of_index("stored", out)) == sorted(newest(index)["live"])
    for field in ("_id", "title", "list", "flag", "n", "_all"):
        assert docs_of_terms(index, field) == docs_of_terms(out, field), field
        shown = run("zap", "terms", index, field, "--limit", "2").out
        assert shown == run("zap", "terms", out, field, "--limit", "2").out
    assert (
        docs_of_terms(index, "title", "--prefix", "1")
        == docs_of_terms(out, "title", "--prefix", "1")
        == {"1": 3, "10": 1, "11": 1}
    )
    assert docs_of_terms(index, "title", "--start", "10", "--stop", "2") == {"10": 1, "11": 1}
    assert answer_of_index("postings", index, "title")["total"] == answer_of_index("postings", out, "title")["total"]
    assert answer_of_index("merge", index, "-o", all_of_it, "--with-deleted")["num_docs"] == 12


def test_a_segment_that_is_named_has_the_same_rule(index: Path, tmp_path: Path) -> None:
    (old, deleted), (new, none) = [(index / "store" / one["file"], one["deleted"]) for one in newest(index)["segments"]]
    assert (len(deleted), none) == (5, [])
    live = [doc for doc in range(9) if doc not in deleted]
    shown = run("zap", "stored", old, "--json")
    assert [one["doc"] for one in shown.json["documents"]] == live
    assert "segment" not in shown.json["documents"][0]
    assert shown.complaint == f"{old}: 5 deleted documents left out (--with-deleted includes them)"
    assert run("zap", "stored", new).err == ""
    assert [one["doc"] for one in answer_of_index("postings", old, "title", "document")["postings"]] == live
    assert docs_of_terms(old, "title")["document"] == 4
    everything = [one["doc"] for one in answer_of_index("stored", old, "--with-deleted")["documents"]]
    assert everything == list(range(9))
    assert docs_of_terms(old, "title", "--with-deleted")["document"] == 9
    assert answer_of_index("merge", old, new, "-o", tmp_path / "out.zap")["num_docs"] == 7
    assert (
        answer_of_index("merge", index / "store" / "*.zap", "-o", tmp_path / "out.zap", "--drop", f"{old}={live[0]}")[
            "num_docs"
        ]
        == 6
    )
    # Elsewhere there is nothing that marks any document.
    assert len(answer_of_index("stored", shutil.copy(old, tmp_path))["documents"]) == 9
    assert run("zap", "stored", "-", stdin=old.read_bytes()).err == ""


def test_documents_by_number_and_by_id(index: Path) -> None:
    (old, deleted), _ = [(index / "store" / one["file"], one["deleted"]) for one in newest(index)["segments"]]
    live = [doc for doc in range(9) if doc not in deleted]
    assert [one["doc"] for one in answer_of_index("stored", old, "0-8", str(live[0]))["documents"]] == [*live, live[0]]
    refused = run("zap", "stored", old, str(deleted[0]))
    assert (refused.code, refused.complaint) == (2, f"{old}: deleted: {deleted[0]} (--with-deleted shows it)")
    gone = run("zap", "stored", index, "--id", "d1")
    message = f"{index}: no document with id d1; a deleted one has it (--with-deleted shows it)"
    assert (gone.code, gone.complaint) == (2, message)
    assert run("zap", "stored", index, "--id", "d99").complaint == f"{index}: no document with id d99"
    # A replaced document is in two segments.
    (found,) = answer_of_index("stored", index, "--id", "d2")["documents"]
    assert {one["value"] for one in found["values"]} >= {"document 2 of 1"}
    assert len(answer_of_index("stored", index, "--id", "d2", "--with-deleted")["documents"]) == 2
    numbered = run("zap", "stored", index, "3")
    message = f"{index}: a document number counts within its segment: name the segment, or use --id"
    assert (numbered.code, numbered.complaint) == (2, message)
    unknown = run("zap", "terms", index, "nothing")
    assert unknown.code == 2
    assert "has no field 'nothing'" in unknown.complaint


def test_segments_that_the_newest_snapshot_does_not_have(index: Path, tmp_path: Path) -> None:
    segments = newest(index)["segments"]
    known = {
        one["file"] for epoch in json.loads(index.with_name("truth.json").read_bytes()) for one in epoch["segments"]
    }
    older = sorted(known - {one["file"] for one in segments})
    store = index / "store"
    stray = store / "ffffffffffff.zap"
    for name in [*older[:1], stray.name]:
        shutil.copy(store / segments[0]["file"], store / name)
    (store / "._000000000002.zap").write_bytes(b"\0\5\x16\7" + bytes(60))
    result = run("zap", "merge", index, "-o", tmp_path / "out.zap")
    assert result.code == 0
    left_out = [*["1 segment of older snapshots left out"] * len(older[:1])]
    assert [line.removeprefix("dvcodec: ") for line in result.err.splitlines()] == [
        "2 other files without search segments",
        *left_out,
    ]
    assert len(answer_of_index("stored", tmp_path / "out.zap")["documents"]) == 7
    named = run("zap", "terms", stray, "_id", "--json")
    assert named.json["total"] == 9
    assert named.complaint == f"{stray}: the newest snapshot of root.bolt does not have this segment"
    (store / segments[1]["file"]).unlink()
    lost = run("zap", "merge", index, "-o", tmp_path / "out.zap")
    assert lost.code == 2
    assert lost.complaint.startswith(f"{store / segments[1]['file']}: no such file, but the newest snapshot has it")
    for other in set(store.iterdir()) - {store / "root.bolt"}:
        other.unlink()
    assert "no such file, but the newest snapshot has it" in run("zap", "merge", store, "-o", tmp_path / "out.zap").err


def test_a_root_bolt_that_says_nothing(index: Path, tmp_path: Path) -> None:
    root, segment = index / "store" / "root.bolt", index / "store" / newest(index)["segments"][0]["file"]
    root.write_bytes(bytes(16384))
    for target in (segment, index):
        refused = run("zap", "terms", target, "_id")
        assert refused.code == 2
        assert str(root) in refused.complaint
        assert "name segments and add --with-deleted to read them without it" in refused.complaint
    assert answer_of_index("terms", segment, "_id", "--with-deleted")["total"] == 9


def test_deleted_documents_that_the_segment_does_not_have(index: Path) -> None:
    first, second = (index / "store" / one["file"] for one in newest(index)["segments"])
    shutil.copy(second, first)
    refused = run("zap", "terms", index, "_id")
    assert refused.code == 2
    assert "deleted documents of root.bolt: expected documents below 3" in refused.complaint


def test_a_segment_with_deleted_documents_is_not_replaced(index: Path, tmp_path: Path) -> None:
    old, new = (index / "store" / one["file"] for one in newest(index)["segments"])
    before = old.read_bytes()
    refused = run("zap", "merge", old, "-o", old)
    assert refused.code == 2
    assert refused.complaint.startswith(f"{old}: root.bolt marks deleted documents by the numbers that they have now")
    assert old.read_bytes() == before
    assert run("zap", "merge", new, "-o", new).code == 0
    with Segment.open(new) as segment:
        assert segment.num_docs == 3


def test_an_index_is_compacted(index: Path) -> None:
    live = sorted(newest(index)["live"])
    shown = run("zap", "compact", index)
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "nothing was written yet: add --commit")
    assert "written again with 4 documents, without 5 deleted" in shown.out
    done = run("zap", "compact", index, "--commit", "--merge")
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        f"done, snapshot {newest(index)['epoch'] + 1}: 1 segment written, 2 removed",
    )
    assert ids_of(answer_of_index("stored", index, "--with-deleted")) == live
    assert run("zap", "compact", index).out == "nothing to do\n"


def test_an_index_is_repaired(index: Path) -> None:
    segment = index / "store" / "000000000004.zap"
    segment.write_bytes(segment.read_bytes()[:-8])
    audited = run("audit", index)
    assert audited.out.splitlines()[-1] == f"what can be repaired, and how: dvcodec zap repair {index}"
    shown = run("zap", "repair", index)
    assert (shown.code, shown.out.splitlines()[-1]) == (
        1,
        "nothing was written yet: add --commit --accept-lost-documents",
    )
    refused = run("zap", "repair", index, "--commit")
    assert (refused.code, "--accept-lost-documents" in refused.err) == (2, True)
    done = run("zap", "repair", index, "--commit", "--accept-lost-documents", "--json").json
    assert done["commit"] == {
        "snapshot": newest(index)["epoch"] + 1,
        "written": [],
        "removed": [],
        "set_aside": [segment.name],
    }
    assert (run("zap", "repair", index).out, run("audit", index, "--deep").code) == ("nothing to do\n", 0)
