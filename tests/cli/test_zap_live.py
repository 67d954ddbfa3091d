"""zap terms, postings, stored, docvalues and merge leave out the documents that root.bolt marks as deleted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli_runner import run
from dvcodec.zap import Segment

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


def answer(*arguments: str | Path) -> Any:
    result = run("zap", *arguments, "--json")
    assert result.code == 0, result.err
    return result.json


def ids(found: dict[str, Any]) -> list[str]:
    return sorted(document["values"][0]["value"] for document in found["documents"])


def terms(*arguments: str | Path) -> dict[str, int]:
    found = answer("terms", *arguments)
    assert found["total"] == len(found["terms"])
    return {item["term"]: item["docs"] for item in found["terms"]}


@pytest.mark.parametrize("below", ["", "store"])
def test_an_index_shows_its_live_documents(index: Path, below: str) -> None:
    live = newest(index)["live"]
    stored = answer("stored", index / below)
    assert (stored["source"], stored["total"], ids(stored)) == (str(index / below), 7, sorted(live))
    segments = {segment["file"]: segment for segment in newest(index)["segments"]}
    shown = [(Path(document["segment"]).name, document["doc"]) for document in stored["documents"]]
    assert shown == [
        (name, doc)
        for name, segment in segments.items()
        for doc in range(len(segment["documents"]))
        if doc not in segment["deleted"]
    ]
    assert terms(index / below, "_id") == dict.fromkeys(sorted(live), 1)
    found = answer("postings", index / below, "title", "document")
    assert (found["total"], [(Path(one["segment"]).name, one["doc"]) for one in found["postings"]]) == (7, shown)
    values = answer("docvalues", index / below, "flag")
    assert [(Path(one["segment"]).name, one["doc"]) for one in values["documents"]] == shown


def test_a_merged_index_has_its_live_documents(index: Path, tmp_path: Path) -> None:
    out, all_of_it = tmp_path / "out.zap", tmp_path / "all.zap"
    found = answer("merge", index, "-o", out)
    assert (found["num_docs"], found["dropped"]) == (7, 5)
    assert ids(answer("stored", out)) == sorted(newest(index)["live"])
    for field in ("_id", "title", "list", "flag", "n", "_all"):
        assert terms(index, field) == terms(out, field), field
        shown = run("zap", "terms", index, field, "--limit", "2").out
        assert shown == run("zap", "terms", out, field, "--limit", "2").out
    assert terms(index, "title", "--prefix", "1") == terms(out, "title", "--prefix", "1") == {"1": 3, "10": 1, "11": 1}
    assert terms(index, "title", "--start", "10", "--stop", "2") == {"10": 1, "11": 1}
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
    assert terms(old, "title")["document"] == 4
    everything = [one["doc"] for one in answer("stored", old, "--with-deleted")["documents"]]
    assert everything == list(range(9))
    assert terms(old, "title", "--with-deleted")["document"] == 9
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
    (found,) = answer("stored", index, "--id", "d2")["documents"]
    assert {one["value"] for one in found["values"]} >= {"document 2 of 1"}
    assert len(answer("stored", index, "--id", "d2", "--with-deleted")["documents"]) == 2
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
    assert len(answer("stored", tmp_path / "out.zap")["documents"]) == 7
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
