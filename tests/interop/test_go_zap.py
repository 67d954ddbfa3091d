"""What zapx, vellum and bleve make of segments, and the other way round."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.driver import Go, GoBleve, GoError, GoVellum

pytestmark = pytest.mark.interop

VERSIONS = ["11", "12", "13", "14", "15", "16", "17", "17_1"]
Programs = Callable[[int | str], Go]


@pytest.fixture
def shared(vectors: Path) -> Path:
    """Segments of zapx with what Go reads of them."""
    if not (vectors / "zap").is_dir():
        pytest.skip("the real files have no segments")
    return vectors / "zap"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_programs_reproduce_the_real_files(go: Programs, shared: Path, tmp_path: Path, version: str) -> None:
    program = go(version)
    folder = f"v{version[:2]}/"
    files = json.loads((shared / "MANIFEST.json").read_text())["files"]
    checked = 0
    for name, entry in files.items():
        if not name.startswith(folder):
            continue
        again = tmp_path / "again.zap"
        if "fresh_from" in entry:
            program.write(json.loads((shared / entry["fresh_from"]).read_text()), again)
        else:
            program.merge([(shared / f"{source}.zap", None) for source in entry["merge_of"]], again)
        expected = json.loads((shared / entry["dump"]).read_text())
        assert program.dump(shared / name) == expected
        assert program.dump(again) == expected
        if int(version[:2]) < 16:  # later ones have parts in random order
            assert again.read_bytes() == (shared / name).read_bytes()
        checked += 1
    assert checked >= 6


@pytest.mark.parametrize("version", VERSIONS)
def test_the_committed_files_are_what_go_reads(go: Programs, own_vectors: Path, version: str) -> None:
    program = go(version)
    module = f"github.com/blevesearch/zapx/v{version[:2]}"
    folder = own_vectors / "zap" / f"zapx-{program.versions()[module].removeprefix('v')}"
    entries = json.loads((folder / "manifest.json").read_text())
    for entry in entries:
        expected = json.loads((folder / entry["dump"]).read_text())
        assert program.dump(folder / entry["file"], true_counts=True) == expected
    assert len(entries) > 10


def test_17_1_cannot_read_the_list_of_sections_of_17_2(go: Programs, tmp_path: Path) -> None:
    file = go("17").write([{"id": "a", "fields": []}], tmp_path / "a.zap")
    with pytest.raises(GoError, match="index out of range"):
        go("17_1").dump(file)


@pytest.mark.parametrize("version", range(11, 18))
def test_analysed_documents_make_the_segment_of_bleve(
    go: Programs, bleve: GoBleve, tmp_path: Path, version: int
) -> None:
    documents: dict[str, dict[str, Any]] = {
        f"d{i}": {"title": f"the fox {i % 7}", "tag": f"t {i % 3}", "n": i - 20, "flag": i % 2 == 0, "l": ["a", "b"]}
        for i in range(50)
    }
    segment = bleve.index(documents, tmp_path / "index", version=version)
    program = go(version)
    expected = program.dump(segment)
    order = [stored[0][2] for stored in expected["stored"]]
    mine = program.write(bleve.analyse({name: documents[name] for name in order}), tmp_path / "mine.zap")
    assert program.dump(mine) == expected
    if version < 16:
        assert mine.read_bytes() == segment.read_bytes()


@pytest.mark.parametrize("version", [15, 16, 17])
def test_bleve_takes_a_segment_in_the_place_of_its_own(
    go: Programs, bleve: GoBleve, tmp_path: Path, version: int
) -> None:
    index = tmp_path / "index"
    segment = bleve.index({f"d{i}": {"title": f"old {i}"} for i in range(20)}, index, version=version)
    documents: dict[str, dict[str, Any]] = {f"d{i}": {"title": f"new {i}", "n": i} for i in range(20)}
    go(version).write(bleve.analyse(documents), segment)
    before = segment.read_bytes()
    found = bleve.search(index, {"term": "new", "field": "title"})
    assert (found["total"], found["ids"]) == (20, sorted(documents))
    assert found["segments"] == [str(segment)]
    assert bleve.search(index, {"term": "old", "field": "title"})["total"] == 0
    assert bleve.search(index, {"match_phrase": "new 7", "field": "title"})["ids"] == ["d7"]
    assert bleve.search(index, {"min": 3, "max": 6, "field": "n"}, sort=["-n"])["ids"] == ["d5", "d4", "d3"]
    assert segment.read_bytes() == before


def test_vellum_keeps_what_it_is_given(vellum: GoVellum) -> None:
    pairs = sorted({bytes([i % 256, i % 7, 255 - i % 251]): i * 2**53 for i in range(2000)}.items())
    pairs = [(b"", 5), *pairs]
    data = vellum.write(pairs)
    assert vellum.read(data) == pairs
    assert vellum.read(data, limit=3) == pairs[:3]
