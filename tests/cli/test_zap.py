"""dvcodec zap: footer, fields, terms, postings, stored, docvalues, merge; and segments in inspect and verify."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pyroaring
import pytest

from cases import each
from cli_runner import flipped, puffin_file, run
from dvcodec import RowSet
from dvcodec.cli.zap import shared
from dvcodec.core.text import NOTHING
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
    assert result.code == 0, result.err
    assert result.raw.isascii()
    return result.json


# ---------------------------------------------------------------------------------------------------- what is shown


@pytest.fixture
def here(segment: Path, odd: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a.zap, odd.zap, tiny.zap of zapx, and version 17 of a.zap."""
    monkeypatch.chdir(segment.parent)
    shutil.copy(vectors / "zap/v15/tiny.zap", "tiny.zap")
    write_segment("new.zap", documents(2), 17)
    write_segment("many.zap", documents(150), 15)
    return segment.parent


SHOWN: dict[str, list[str]] = {
    "terms a.zap title": ["bitmaps 8", "of 4", "roaring 4", "rows 4", "search 4", "segments 8"],
    "terms a.zap title --limit 2": ["bitmaps 8", "of 4", "... 4 more terms"],
    "terms a.zap title --prefix ro": ["roaring 4", "rows 4"],
    "terms a.zap title --prefix zz": ["no terms"],
    "terms a.zap title --start of --stop search": ["of 4", "roaring 4", "rows 4"],
    "terms a.zap title --top 3": ["bitmaps 8", "segments 8", "of 4", "... 3 more terms"],
    "terms a.zap title --hex --prefix 726f": ["726f6172696e67 4", "726f7773 4"],
    "terms odd.zap f": [
        "(empty) 1",
        "[bold]x[/y] 1",
        "a\\x1b[31mred\\nline 1",
        f"{'x' * 100}... 4.88 KiB 1",
        "\\xff\\x00 1",
    ],
    "terms tiny.zap storedonly": ["no terms"],
    "postings a.zap title bitmaps --limit 3": [
        "bitmaps 0 1 0.707 1",
        "bitmaps 2 2 0.408 2",
        "bitmaps 3 1 0.707 1",
        "... 5 more postings",
    ],
    "postings a.zap _all bitmaps --locations --limit 2": [
        "bitmaps 0 1 0.707 title 2 8 15 -",
        "bitmaps 2 2 0.408 title 1 0 7 -",
        "... 1 more location",
        "... 6 more postings",
    ],
    "postings a.zap tag delta --locations --limit 1": ["delta 0 1 1 - - - - -", "... 2 more postings"],
    "postings odd.zap f ff00 --hex": ["ff00 0 1 0.447 0"],
    "postings tiny.zap nofreq beta": ["beta 2 0 - 0"],
    "postings tiny.zap storedonly": ["no postings"],
    "search a.zap title bitmaps --limit 2": [
        "0 doc-000 1 Roaring bitmaps",
        "2 doc-002 2 Bitmaps of segments, bitmaps of rows",
        "... 6 more documents",
    ],
    "stored a.zap 1": [
        "1 _id t 7 doc-001 -",
        "1 price n 11 1.0 -",
        "1 tag t 7 iceberg -",
        "1 title t 15 Search segments -",
    ],
    "stored odd.zap 0": ["0 _id t 2 \\xfe\\xfd -", "0 f t 7 \\xffvalue\\x00 -"],
    "docvalues a.zap title --limit 2": ["0 2 bitmaps roaring", "1 2 search segments", "... 10 more documents"],
    "docvalues a.zap _id": ["the field has no doc values"],
    "docvalues tiny.zap kw --doc 0": ["no documents"],
    "fields a.zap": ["_id 0 12", "_all 1 6", "price 2", "tag 3 5", "title 4 6"],
    "footer tiny.zap": ["tiny.zap 15 3"],
}
"""Command -> its lines behind the titles, with one space between columns; those of footer and fields begin so."""


@each("command", SHOWN)
def test_text(command: str, here: Path) -> None:
    shown = [" ".join(line.replace(NOTHING, "-").split()) for line in lines(*command.split())]
    wanted = SHOWN[command]
    if len(shown) > 1:
        shown = shown[2 if command.startswith("fields") else 1 :]
    cut = command.split(maxsplit=1)[0] in ("fields", "footer")
    assert [line[: len(one)] if cut else line for line, one in zip(shown, wanted, strict=True)] == wanted


JSON: dict[str, Any] = {
    "terms many.zap _id --limit 2": {
        "source": "many.zap",
        "field": "_id",
        "total": 150,
        "terms": [{"term": "doc-000", "docs": 1}, {"term": "doc-001", "docs": 1}],
    },
    "postings a.zap _all roaring --locations --limit 1": {
        "term": "roaring",
        "doc": 0,
        "freq": 1,
        "norm": pytest.approx(2**-0.5),
        "location_count": 1,
        "locations": [{"field": "title", "position": 1, "start": 0, "end": 7, "array_positions": []}],
    },
    "postings tiny.zap nofreq beta": {"term": "beta", "doc": 2, "freq": 0, "norm": None, "location_count": 0},
    "search a.zap title bitmaps --limit 1": {
        "doc": 0,
        "id": "doc-000",
        "freq": 1,
        "values": ["Roaring bitmaps"],
    },
    "stored odd.zap --hex --id fefd": {
        "doc": 0,
        "values": [
            {"field": "_id", "type": "t", "value": {"hex": "fefd"}, "array_positions": []},
            {"field": "f", "type": "t", "value": {"hex": b"\xffvalue\0".hex()}, "array_positions": []},
        ],
    },
    "docvalues a.zap title --doc 2": {"doc": 2, "values": ["bitmaps", "of", "rows", "segments"]},
}
"""Command -> its result, or the only item of it."""


@each("command", JSON)
def test_json(command: str, here: Path) -> None:
    found = answer(*command.split())
    if "total" not in JSON[command]:
        (found,) = found.get("postings") or found["documents"]
    assert found == JSON[command]


def test_more_than_is_shown(here: Path) -> None:
    """People are shown a hundred rows; JSON has all, and bytes that are no text as hexadecimal digits."""
    assert (len(shown := lines("terms", "many.zap", "_id")), shown[-1]) == (102, "... 50 more terms")
    assert len(lines("terms", "many.zap", "_id", "--limit", "1000")) == 151
    assert len(answer("terms", "many.zap", "_id")["terms"]) == 150
    assert [item["doc"] for item in answer("stored", "a.zap", "3-4,7", "0")["documents"]] == [3, 4, 7, 0]
    assert [one["doc"] for one in answer("stored", "a.zap", "5", "--id", "doc-003")["documents"]] == [5, 3]
    assert [one["doc"] for one in answer("docvalues", "a.zap", "title", "--doc", "2,4-5")["documents"]] == [2, 4, 5]
    assert answer("terms", "odd.zap", "f")["terms"][-1] == {"term": {"hex": "ff00"}, "docs": 1}
    assert lines("stored", "tiny.zap", "1")[-1].split()[-2:] == ["1", "300"], "array positions"
    none = run("zap", "search", "a.zap", "title", "Bitmaps")
    assert (none.code, none.out, none.err) == (1, "no documents\n", "")


def test_fields_json(here: Path) -> None:
    found = answer("fields", "a.zap")
    with Segment.open("a.zap") as this:
        tag = this.field("tag")
    start, stop = tag.doc_values or (0, 0)
    sections = dict.fromkeys(("vectors", "synonyms", "shapes"))
    about = {"dictionary": tag.dictionary, "doc_values": {"offset": start, "size": stop - start}, "options": None}
    assert found["fields"][3] == {"id": 3, "name": "tag", "terms": 5} | about | sections
    options = {item["name"]: item["options"] for item in answer("fields", "new.zap")["fields"]}
    assert options["title"] == ["indexed", "stored", "term-vectors", "doc-values"]


def test_footer(here: Path, tmp_path: Path) -> None:
    bad = flipped(Path("a.zap"), 50, to=tmp_path / "bad.zap")
    result = run("zap", "footer", "a.zap", bad)
    assert (result.code, result.err) == (1, "")
    with Segment.open("a.zap") as this:
        footer = this.footer
    addresses = (f"{at:,}" for at in (footer.stored_index, footer.fields_index, footer.doc_value_table))
    size = f"{Path('a.zap').stat().st_size:,}"
    words = ["a.zap", "15", "12", size, *addresses, f"0x{footer.crc:08x}", "matches", "about", "1,024", "postings"]
    assert result.out.splitlines()[1].split() == words
    assert " does not match " in result.out.splitlines()[2]
    assert [item["crc_ok"] for item in run("zap", "footer", "a.zap", bad, "--json").json] == [True, False]
    assert run("zap", "footer", bad, "--no-checksum", "--json").json[0]["crc_ok"] is None
    for version, mode, text in (
        (11, 2000, "2,000 documents"),
        (12, 1025, "1,024 documents, one chunk up to 1,024 postings"),
        (17, 2, "2 documents"),
    ):
        write_segment("x.zap", documents(3), version, chunk_mode=mode)
        (found,) = answer("footer", "x.zap")
        assert (found["chunk_mode"], found["chunks"]) == (mode, text)


def test_contents_of_another_writer_are_named(here: Path) -> None:
    data = Path("new.zap").read_bytes()
    Path("x.zap").write_bytes(data[:-40] + b"secret" + (6).to_bytes(4, "big") + data[-36:])
    assert run("zap", "footer", "x.zap", "--json").json[0]["writer_id"] == "secret"
    assert "about 1,024 postings, by secret" in run("zap", "footer", "x.zap").out
    refused = run("zap", "terms", "x.zap", "_id", "--no-checksum")
    assert (refused.code, run("inspect", "x.zap").code) == (2, 2)
    assert "contents transformed by a custom writer" in refused.complaint


def test_a_damaged_dictionary_leaves_the_other_fields_their_turn(here: Path) -> None:
    with Segment.open("a.zap") as this:
        at = this.field("tag").dictionary or 0
    flipped(Path("a.zap"), at + 1, 7, to=here / "bad.zap")
    result = run("zap", "fields", "bad.zap", "--no-checksum")
    assert result.code == 2
    assert "vellum version" in result.complaint
    rows = {line.split()[0]: line.split()[2] for line in result.out.splitlines()[2:]}
    assert (rows["tag"], rows["title"]) == ("damaged", "6")
    found = run("zap", "fields", "bad.zap", "--no-checksum", "--json").json["fields"]
    assert (found[3]["terms"], found[3]["error"], found[4]["terms"]) == (None, result.complaint, 6)
    result = run("inspect", "bad.zap")
    assert result.code == 2
    crc, dictionary = result.err.splitlines()
    assert "CRC-32 of the segment" in crc
    assert "vellum version" in dictionary
    assert " does not match\n" in result.out
    assert any(line.split()[:2] == ["tag", "damaged"] for line in result.out.splitlines())
    found = run("inspect", "bad.zap", "--json").json[0]
    assert (found["crc_ok"], found["fields"][3]["terms"]) == (False, None)


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


def test_numbers_replace_no_segment(two: tuple[Path, Path], tmp_path: Path) -> None:
    Path("link").symlink_to("out.zap")
    before = {path: path.read_bytes() for path in sorted(tmp_path.iterdir()) if path.exists()}
    for segments, name, what in (
        (two, "./out.zap", "output"),
        (two, "link", "output"),
        (two, f"file:{tmp_path}/out.zap", "output"),
        (two, "./b=1.zap", "input"),
        ((tmp_path,), "./b=1.zap", "input"),
    ):
        result = run("zap", "merge", *segments, "-o", "out.zap", "--numbers", name)
        article = "the" if what == "output" else "an"
        assert (result.code, result.complaint) == (2, f"--numbers {name} is {article} {what}: write them elsewhere")
    assert {path: path.read_bytes() for path in sorted(tmp_path.iterdir()) if path.exists()} == before


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


# ---------------------------------------------------------------------------------------------------- errors

WRONG = {
    "no such term": (["postings", "a.zap", "tag", "x\ty"], "a.zap: no term x\\ty in the field tag"),
    "no such id": (["stored", "a.zap", "--id", "zz"], "a.zap: no document with id zz"),
    "no such document": (["stored", "a.zap", "12"], "a.zap: expected document numbers from 0 to 11, found 12"),
    "prefix and range": (["terms", "a.zap", "tag", "--prefix", "a", "--stop", "b"], "--prefix excludes --start and"),
    "top and limit": (["terms", "a.zap", "tag", "--top", "3", "--limit", "2"], "--top excludes --limit"),
    "no segment": (["terms", "vector", "_id"], "vector at byte 22: zap version: expected 11 to 17, found "),
    "damaged": (["fields", "bad.zap"], "CRC-32 of the segment (--no-checksum ignores it): expected 0x"),
    "folder without segments": (["footer", "others"], "no search segments in 1 file"),
    "drop of another": (
        ["merge", "a.zap", "-o", "x", "--drop", "b.zap=1"],
        "--drop b.zap=1: expected SEGMENT=VALUE, with one of the segments a.zap",
    ),
    "drop of one of two": (
        ["merge", "a.zap", "a.zap", "-o", "x", "--drop", "a.zap=1"],
        "--drop a.zap=1: 2 segments have the name a.zap",
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


def ids_of(found: dict[str, Any]) -> list[str]:
    return sorted(document["values"][0]["value"] for document in found["documents"])


def docs_of_terms(*arguments: str | Path) -> dict[str, int]:
    found = answer("terms", *arguments)
    assert found["total"] == len(found["terms"])
    return {item["term"]: item["docs"] for item in found["terms"]}


@pytest.mark.parametrize("below", ["", "store"])
def test_an_index_shows_its_live_documents(index: Path, below: str) -> None:
    live = newest(index)["live"]
    stored = answer("stored", index / below)
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
    found = answer("postings", index / below, "title", "document")
    assert (found["total"], [(Path(one["segment"]).name, one["doc"]) for one in found["postings"]]) == (7, shown)
    hits = answer("search", index / below, "title", "document")
    assert [(Path(one["segment"]).name, one["doc"]) for one in hits["documents"]] == shown
    assert sorted(one["id"] for one in hits["documents"]) == sorted(live)
    values = answer("docvalues", index / below, "flag")
    assert [(Path(one["segment"]).name, one["doc"]) for one in values["documents"]] == shown


def test_a_merged_index_has_its_live_documents(index: Path, tmp_path: Path) -> None:
    out, all_of_it = tmp_path / "out.zap", tmp_path / "all.zap"
    found = answer("merge", index, "-o", out)
    assert (found["num_docs"], found["dropped"]) == (7, 5)
    assert ids_of(answer("stored", out)) == sorted(newest(index)["live"])
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
    assert answer("postings", index, "title")["total"] == answer("postings", out, "title")["total"]
    assert answer("merge", index, "-o", all_of_it, "--with-deleted")["num_docs"] == 12


def test_a_segment_that_is_named_has_the_same_rule(index: Path, tmp_path: Path) -> None:
    (old, deleted), (new, none) = [(index / "store" / one["file"], one["deleted"]) for one in newest(index)["segments"]]
    assert (len(deleted), none) == (5, [])
    live = [doc for doc in range(9) if doc not in deleted]
    shown = run("zap", "stored", old, "--json")
    assert [one["doc"] for one in shown.json["documents"]] == live
    assert "segment" not in shown.json["documents"][0]
    assert shown.complaint == f"{old}: 5 deleted documents left out (--with-deleted includes them)"
    assert run("zap", "stored", new).err == ""
    assert [one["doc"] for one in answer("postings", old, "title", "document")["postings"]] == live
    assert docs_of_terms(old, "title")["document"] == 4
    everything = [one["doc"] for one in answer("stored", old, "--with-deleted")["documents"]]
    assert everything == list(range(9))
    assert docs_of_terms(old, "title", "--with-deleted")["document"] == 9
    assert answer("merge", old, new, "-o", tmp_path / "out.zap")["num_docs"] == 7
    assert (
        answer("merge", index / "store" / "*.zap", "-o", tmp_path / "out.zap", "--drop", f"{old}={live[0]}")["num_docs"]
        == 6
    )
    # Elsewhere there is nothing that marks any document.
    assert len(answer("stored", shutil.copy(old, tmp_path))["documents"]) == 9
    assert run("zap", "stored", "-", stdin=old.read_bytes()).err == ""


def test_documents_by_number_and_by_id(index: Path) -> None:
    (old, deleted), _ = [(index / "store" / one["file"], one["deleted"]) for one in newest(index)["segments"]]
    live = [doc for doc in range(9) if doc not in deleted]
    assert [one["doc"] for one in answer("stored", old, "0-8", str(live[0]))["documents"]] == [*live, live[0]]
    refused = run("zap", "stored", old, str(deleted[0]))
    assert (refused.code, refused.complaint) == (2, f"{old}: deleted: {deleted[0]} (--with-deleted shows it)")
    gone = run("zap", "stored", index, "--id", "d1")
    message = f"{index}: no document with id d1; a deleted one has it (--with-deleted shows it)"
    assert (gone.code, gone.complaint) == (2, message)
    assert run("zap", "stored", index, "--id", "d99").complaint == f"{index}: no document with id d99"
    # A replaced document is in two segments.
    assert len(answer("stored", index, "--id", "d2")["documents"]) == 1
    assert len(answer("stored", index, "--id", "d2", "--with-deleted")["documents"]) == 2
    numbered = run("zap", "stored", index, "3")
    message = f"{index}: a document number counts within its segment: name the segment, or use --id"
    assert (numbered.code, numbered.complaint) == (2, message)
    unknown = run("zap", "terms", index, "nothing")
    assert unknown.code == 2
    assert "has no field 'nothing'" in unknown.complaint


def test_segments_that_the_newest_snapshot_does_not_have(index: Path, tmp_path: Path) -> None:
    first, second = (one["file"] for one in newest(index)["segments"])
    epochs = json.loads(index.with_name("truth.json").read_bytes())
    older = sorted({one["file"] for epoch in epochs for one in epoch["segments"]} - {first, second})[:1]
    store = index / "store"
    stray = store / "ffffffffffff.zap"
    for name in [*older, stray.name]:
        shutil.copy(store / first, store / name)
    result = run("zap", "merge", index, "-o", tmp_path / "out.zap")
    left_out = ["1 segment of older snapshots left out"] * len(older)
    said = ["1 other file without search segments", *left_out]
    assert (result.code, [line.removeprefix("dvcodec: ") for line in result.err.splitlines()]) == (0, said)
    assert len(answer("stored", tmp_path / "out.zap")["documents"]) == 7
    named = run("zap", "terms", stray, "_id", "--json")
    assert named.json["total"] == 9
    assert named.complaint == f"{stray}: the newest snapshot of root.bolt does not have this segment"
    (store / second).unlink()
    lost = run("zap", "merge", index, "-o", tmp_path / "out.zap")
    assert lost.code == 2
    assert lost.complaint.startswith(f"{store / second}: no such file, but the newest snapshot has it")


def test_a_root_bolt_that_says_nothing(index: Path, tmp_path: Path) -> None:
    root, segment = index / "store" / "root.bolt", index / "store" / newest(index)["segments"][0]["file"]
    root.write_bytes(bytes(16384))
    for target in (segment, index):
        refused = run("zap", "terms", target, "_id")
        assert refused.code == 2
        assert str(root) in refused.complaint
        assert "name segments and add --with-deleted to read them without it" in refused.complaint
    assert answer("terms", segment, "_id", "--with-deleted")["total"] == 9


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
    assert ids_of(answer("stored", index, "--with-deleted")) == live
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
