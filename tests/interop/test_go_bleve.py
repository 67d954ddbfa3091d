"""bleve: searches segments that dvcodec put in the place of its own, and finds the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dvcodec import RowSet
from dvcodec.zap import Segment, merge_segments, write_segment
from interop.driver import Go, GoBleve
from samples.zap.golden import documents, dump

pytestmark = pytest.mark.interop

VERSIONS = range(11, 18)
CHANCE_FROM = 16
"""From this version on Go writes some parts in random order."""
Programs = Callable[[int | str], Go]
Sources = dict[str, dict[str, Any]]

COLOURS = ("red", "green", "blue", "grey")
WOODS = ("oak", "elm", "ash", "larch")


def sources(count: int = 60) -> Sources:
    """Text, single terms, numbers, times, booleans, lists, objects; words that are in many, in some and in one.

    No word is in two fields: bleve walks the fields in random order, and so locations in the field of all would be.
    """
    found: Sources = {}
    for i in range(count):
        words = ["the quick"] * (i % 2) + ["brown fox jumps", COLOURS[i % 4]] + ["fox"] * (i % 5) + [f"only{i}"]
        found[f"doc-{i:02}"] = {
            "title": " ".join(words),
            "tag": f"shelf {i % 6}",
            "n": i * 1.5 - 20,
            "when": f"2024-{i % 12 + 1:02}-03T04:05:06Z",
            "flag": i % 3 == 0,
            "list": [f"{WOODS[(i + k) % 4]} box" for k in range(i % 4)],
            "deep": {"name": f"part {i % 7}", "numbers": [i, i // 2]},
        }
    return found


REQUESTS: dict[str, dict[str, Any]] = {
    "a term": {"query": {"term": "fox", "field": "title"}},
    "a phrase": {"query": {"match_phrase": "quick brown fox", "field": "title"}},
    "a phrase of all fields": {"query": {"match_phrase": "brown fox"}},
    "a number's range": {"query": {"min": 3, "max": 40, "field": "n"}, "sort": ["-n"]},
    "a time's range": {
        "query": {"start": "2024-02-01T00:00:00Z", "end": "2024-05-01T00:00:00Z", "field": "when"},
        "sort": ["when", "-_id"],
    },
    "a flag": {"query": {"bool": True, "field": "flag"}},
    "a prefix": {"query": {"prefix": "only1", "field": "title"}},
    "a pattern": {"query": {"wildcard": "*a*", "field": "list"}},
    "a misspelt word": {"query": {"term": "bruwn", "field": "title", "fuzziness": 1}},
    "some and not others": {
        "query": {
            "must": {"conjuncts": [{"match": "quick", "field": "title"}]},
            "should": {"disjuncts": [{"match": "red", "field": "title"}], "min": 0},
            "must_not": {"disjuncts": [{"term": "shelf 1", "field": "tag"}]},
        }
    },
    "facets": {
        "query": {"match": "fox", "field": "title"},
        "facets": {
            "tags": {"field": "tag", "size": 10},
            "sizes": {
                "field": "n",
                "size": 3,
                "numeric_ranges": [{"name": "low", "max": 10}, {"name": "high", "min": 10}],
            },
        },
        "sort": ["tag", "-deep.numbers", "_id"],
    },
    "everything that is stored": {"query": {"match_all": {}}, "fields": ["*"], "sort": ["-title", "_id"]},
}


def search(bleve: GoBleve, index: Path) -> dict[str, dict[str, Any]]:
    """What bleve answers to all requests, and that each finds something."""
    answers = bleve.answers([{"op": "search", "path": str(index)} | request for request in REQUESTS.values()])
    found = dict(zip(REQUESTS, answers, strict=True))
    assert {name: answer["error"] for name, answer in found.items() if "error" in answer} == {}
    assert [name for name, answer in found.items() if not answer["total"]] == []
    return found


def search_instead(bleve: GoBleve, index: Path, segment: Path, ours: Path) -> dict[str, dict[str, Any]]:
    """Put our segment in the place of the index's only one, and search that."""
    shutil.copyfile(ours, segment)
    found = search(bleve, index)
    assert all(answer["segments"] == [str(segment)] for answer in found.values())
    assert segment.read_bytes() == ours.read_bytes()
    return found


def merge(segments: Sequence[Path], drops: Sequence[RowSet | None] | None, out: Path, version: int) -> Path:
    opened = [Segment.open(path) for path in segments]
    merge_segments(out, opened, drops, version)
    for segment in opened:
        segment.close()
    return out


def ids(path: Path) -> list[str]:
    """Ids in the order of the segment."""
    with Segment.open(path) as segment:
        return [segment.stored(doc)[0].value.decode() for doc in range(segment.num_docs)]


def has_single_hits(path: Path) -> bool:
    with Segment.open(path) as segment:
        return any(True in batch.column("one_hit").to_pylist() for batch in segment.to_arrow("terms"))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rewritten_segment_gives_the_same_hits(bleve: GoBleve, tmp_path: Path, version: int) -> None:
    index = tmp_path / "index"
    segment = bleve.index(sources(), index, version=version)
    before = search(bleve, index)
    ours = merge([segment], None, tmp_path / "ours", version)
    # Only merges make these, so that is not bleve's own file.
    assert (has_single_hits(segment), has_single_hits(ours)) == (False, True)
    assert search_instead(bleve, index, segment, ours) == before


@pytest.mark.parametrize("version", VERSIONS)
def test_a_segment_of_analysed_documents_gives_the_same_hits(
    go: Programs, bleve: GoBleve, tmp_path: Path, version: int
) -> None:
    index, ours = tmp_path / "index", tmp_path / "ours"
    segment = bleve.index(sources(), index, version=version)
    before = search(bleve, index)
    analysed = bleve.analyse({name: sources()[name] for name in ids(segment)})
    write_segment(ours, documents(analysed), version)
    program = go(version)
    expected = program.dump(segment)
    assert program.dump(ours) == expected
    with Segment.open(ours) as opened:
        assert dump(opened) == expected
    if version < CHANCE_FROM:
        assert ours.read_bytes() == segment.read_bytes()
    segment.unlink()
    assert search_instead(bleve, index, segment, ours) == before


@pytest.mark.parametrize("version", VERSIONS)
def test_documents_that_a_merge_drops_are_not_found(bleve: GoBleve, tmp_path: Path, version: int) -> None:
    """The index that takes the merge has to have as many documents, so it is one of those that are kept."""
    dropped = {f"doc-{i:02}" for i in range(0, 60, 4)} - {"doc-31"}
    whole = bleve.index(sources(), tmp_path / "whole", version=version)
    index = tmp_path / "index"
    kept = {name: source for name, source in sources().items() if name not in dropped}
    segment = bleve.index(kept, index, version=version)
    before = search(bleve, index)
    drops = RowSet([doc for doc, name in enumerate(ids(whole)) if name in dropped])
    ours = merge([whole], [drops], tmp_path / "ours", version)
    assert search_instead(bleve, index, segment, ours) == before
