"""Scorch indexes that bleve makes anew: what dvcodec tells of every epoch equals what scorch says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli_runner import run
from dvcodec.tables import open_table
from dvcodec.tables.scorch import ScorchTable, SegmentRecord
from interop.driver import GoBleve
from interop.scorch_indexes import NO_MERGES, Batch, drop, life, make, truth
from tables.scorch.truth import check

pytestmark = pytest.mark.interop

VERSIONS = range(11, 18)


def opened(path: Path) -> ScorchTable:
    table = open_table(path)
    assert isinstance(table, ScorchTable)
    return table


@pytest.mark.parametrize("version", VERSIONS)
def test_a_life_in_every_version(bleve: GoBleve, tmp_path: Path, version: int) -> None:
    path = make(bleve, tmp_path / "index", version, life(), tmp_path)
    expected = truth(bleve, path, tmp_path)
    assert len(expected) > 5
    assert any(segment["deleted"] for epoch in expected for segment in epoch["segments"])
    check(opened(path), expected)


@pytest.mark.parametrize("version", [12, 15, 17])
def test_commands_on_an_index_answer_like_bleve(bleve: GoBleve, tmp_path: Path, version: int) -> None:
    """Terms with their live documents, the documents themselves, and those of the merged index."""
    path = make(bleve, tmp_path / "index", version, [*life(), drop([2])], tmp_path, **NO_MERGES)
    live = set(truth(bleve, path, tmp_path)[-1]["live"])
    out = tmp_path / "merged.zap"
    assert run("zap", "merge", path, "-o", out).code == 0
    for name in (path, out):
        documents = run("zap", "stored", name, "--json").json["documents"]
        ids = {(one.get("segment"), one["doc"]): one["values"][0]["value"] for one in documents}
        assert (set(ids.values()), len(ids)) == (live, len(live))
        for field in ("title", "_all", "list"):
            every = [one["term"] for one in run("zap", "terms", path, field, "--with-deleted", "--json").json["terms"]]
            found = {one["term"]: one["docs"] for one in run("zap", "terms", name, field, "--json").json["terms"]}
            assert ("2" in every, "2" in found) == (field != "list", False)
            queries = [{"op": "search", "path": str(path), "query": {"term": term, "field": field}} for term in every]
            answers = dict(zip(every, bleve.answers(queries), strict=True))
            assert {term: answer["total"] for term, answer in answers.items() if answer["total"]} == found
            hits: dict[str, list[str]] = {}
            for one in run("zap", "postings", name, field, "--json").json["postings"]:
                hits.setdefault(one["term"], []).append(ids[one.get("segment"), one["doc"]])
            assert {term: sorted(of) for term, of in hits.items()} == {term: answers[term]["ids"] for term in found}


def mapping(**properties: Any) -> dict[str, Any]:
    """A mapping in bleve's JSON."""
    return {"default_mapping": {"enabled": True, "dynamic": True, "properties": properties}}


def text(**options: Any) -> dict[str, Any]:
    field = {"type": "text", "store": True, "index": True} | options
    return {"enabled": True, "dynamic": False, "fields": [field]}


def test_fields_that_a_new_mapping_dropped(bleve: GoBleve, tmp_path: Path) -> None:
    first = mapping(title=text(), note=text(), other=text())
    still = {"index_dynamic": False, "store_dynamic": False, "docvalues_dynamic": False}
    first |= still
    first["default_mapping"]["dynamic"] = False
    batches: list[Batch] = [
        [
            {"id": f"d{number}", "doc": {"title": f"t {number}", "note": f"n {number}", "other": "o"}}
            for number in range(6)
        ],
        drop([2]),
    ]
    path = make(bleve, tmp_path / "index", 16, batches, tmp_path, mapping=first)
    second = mapping(title=text(), note=text(store=False))
    second |= still
    second["default_mapping"]["dynamic"] = False
    make(bleve, path, 16, [], tmp_path, mapping=second)
    table = opened(path)
    assert SegmentRecord.of(table.snapshot().data_files[0]).dropped_fields == ("note", "other")
    check(table, truth(bleve, path, tmp_path))
    # The next batch forgets them: bleve then shows the values again.
    make(bleve, path, 16, [drop([3])], tmp_path)
    assert SegmentRecord.of(table.snapshot().data_files[0]).dropped_fields == ()
    check(table, truth(bleve, path, tmp_path))


def test_nested_documents(bleve: GoBleve, tmp_path: Path) -> None:
    parts = {"enabled": True, "dynamic": True, "nested": True}
    batches: list[Batch] = [
        [
            {"id": f"d{number}", "doc": {"title": "t", "parts": [{"name": f"p{part}"} for part in range(number % 4)]}}
            for number in range(9)
        ],
        drop([3, 5]),
    ]
    path = make(bleve, tmp_path / "index", 17, batches, tmp_path, mapping=mapping(parts=parts))
    expected = truth(bleve, path, tmp_path)
    table = opened(path)
    snapshot = table.snapshot()
    (file,) = snapshot.data_files
    assert (file.physical_rows, expected[-1]["count"]) == (9 + 0 + 1 + 2 + 3 + 0 + 1 + 2 + 3 + 0, 7)
    check(table, expected)
    (vector,) = snapshot.vectors
    (found,) = snapshot.read(vector)
    (rows,) = snapshot.rows(file)
    parents = rows.batch["_parent"].to_pylist()
    assert len(found.rows) == 2 + 3 + 1
    assert all(
        (parent in found.rows) == (row in found.rows) for row, parent in enumerate(parents) if parent is not None
    )
