"""Indexes that dvcodec compacts or repairs: bbolt checks their root, bleve searches them, and goes on writing them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cli_runner import run
from interop.driver import GoBleve
from interop.scorch_indexes import drop, make, put, truth

pytestmark = pytest.mark.interop

ACCEPTED = "--accept-restored-rows", "--accept-lost-documents"
UNMERGED = {"scorchMergePlanOptions": {"maxSegmentSize": 2}}
"""Only segments without live documents are small enough to be merged."""
Live = dict[str, list[dict[str, Any]]]


def index(bleve: GoBleve, tmp_path: Path, version: int = 15, keep: int = 1) -> tuple[Path, Live]:
    """Three segments, and the live documents."""
    batches = [put(range(9)), put(range(4), 1), put([1, 20], 2) + drop([5]), put([30]), drop([30, 7])]
    path = make(bleve, tmp_path / "index", version, batches, tmp_path, numSnapshotsToKeep=keep, **UNMERGED)
    return path, live(bleve, path, tmp_path)


def live(bleve: GoBleve, path: Path, tmp_path: Path) -> Live:
    found: Live = truth(bleve, path, tmp_path)[-1]["live"]
    for values in found.values():
        values.sort(key=lambda value: (value["field"], value["value"]))
    return found


def check(bleve: GoBleve, path: Path, tmp_path: Path, expected: Live, version: int = 15) -> None:
    """The root is whole, the documents are these, and bleve goes on: one more, one less, and an update."""
    assert bleve.ask("check", path=path / "store" / "root.bolt")["problems"] == []
    assert live(bleve, path, tmp_path) == expected
    found = bleve.search(path, {"match": "document", "field": "title"}, fields=["*"])
    assert found["ids"] == sorted(expected)
    audit = run("audit", path, "--deep", "--json")
    assert (audit.code, audit.json["findings"]) == (0, [])
    old = next(iter(expected))
    make(bleve, path, version, [put([50], 76) + drop([int(old[1:])]), put([50], 77)], tmp_path, numSnapshotsToKeep=1)
    after = live(bleve, path, tmp_path)
    assert set(after) == {*expected, "d50"} - {old}
    assert bleve.search(path, {"match": "77", "field": "title"})["ids"] == ["d50"]
    assert bleve.ask("check", path=path / "store" / "root.bolt")["problems"] == []
    assert run("audit", path, "--deep").code == 0


@pytest.mark.parametrize(("version", "merge"), [(11, ()), (15, ["--merge"]), (16, ["--merge"]), (17, ())])
def test_compaction(bleve: GoBleve, tmp_path: Path, version: int, merge: Sequence[str]) -> None:
    path, expected = index(bleve, tmp_path, version)
    before = {file.name: file.read_bytes() for file in (path / "store").iterdir()}
    assert run("zap", "compact", path, *merge).code == 0
    assert {file.name: file.read_bytes() for file in (path / "store").iterdir()} == before
    assert run("zap", "compact", path, "--commit", *merge, "--json").json["commit"]["set_aside"] == []
    assert run("table", path, "--json").json["totals"]["deleted"] == 0
    assert len(list((path / "store").glob("*.zap"))) == (1 if merge else 3)
    assert run("zap", "compact", path).out == "nothing to do\n"
    check(bleve, path, tmp_path, expected, version)


def lost(path: Path) -> None:
    path.unlink()


def overwritten(path: Path) -> None:
    """As the footer of bleve#2310."""
    path.write_bytes(path.read_bytes()[:-8] + b"IEND\xaeB\\`\x82")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(("damage", "keep"), [(lost, 1), (overwritten, 1), (half, 100)])
def test_a_segment_that_is_lost(bleve: GoBleve, tmp_path: Path, keep: int, damage: Callable[[Path], None]) -> None:
    path, expected = index(bleve, tmp_path, keep=keep)
    segment = min((path / "store").glob("*.zap"))
    kept = {value["value"] for one in run("zap", "stored", path, "--json").json["documents"] for value in one["values"]}
    assert {"d2", "d8"} <= kept
    damage(segment)
    planned = run("zap", "repair", path, "--json")
    assert (planned.code, [action["action"] for action in planned.json["actions"]][:1]) == (1, ["drop-segment"])
    assert run("zap", "repair", path, "--commit").code == 2
    assert run("zap", "repair", path, "--commit", *ACCEPTED).code == 0
    assert (segment.with_name(segment.name + ".damaged").exists(), segment.exists()) == (damage is not lost, False)
    check(bleve, path, tmp_path, {name: expected[name] for name in ("d0", "d1", "d2", "d3", "d20")})


def test_a_root_whose_last_transaction_is_damaged(bleve: GoBleve, tmp_path: Path) -> None:
    path, expected = index(bleve, tmp_path)
    root = path / "store" / "root.bolt"
    data = bytearray(root.read_bytes())
    newest = max((0, 4096), key=lambda at: int.from_bytes(data[at + 64 : at + 72], "little"))
    page = int.from_bytes(data[newest + 32 : newest + 40], "little")
    data[4096 * page : 4096 * page + 4096] = bytes(4096)
    root.write_bytes(data)
    planned = run("zap", "repair", path, "--json")
    assert [action["action"] for action in planned.json["actions"]] == ["go-back"]
    assert run("zap", "repair", path, "--commit", *ACCEPTED).code == 0
    assert root.with_name("root.bolt.damaged").read_bytes() == data
    check(bleve, path, tmp_path, expected)


@pytest.mark.parametrize(("part", "version"), [("meta pages", 15), ("all but the mapping", 17), ("file", 16)])
def test_a_root_that_is_lost(bleve: GoBleve, tmp_path: Path, version: int, part: str) -> None:
    path, expected = index(bleve, tmp_path, version)
    root = path / "store" / "root.bolt"
    data = root.read_bytes()
    at = data.index(b"_mapping{")
    mapping = data[at + 8 : data.index(b"}}", at)]
    options: list[Any] = []
    if part == "file":
        root.unlink()
        (tmp_path / "mapping.json").write_text(
            '{"default_mapping": {"enabled": true, "dynamic": true}, "store_dynamic": true, "index_dynamic": true}'
        )
        assert "--mapping FILE" in run("zap", "repair", path).err
        options = ["--mapping", tmp_path / "mapping.json"]
    else:
        stays = 8192 if part == "meta pages" else at
        root.write_bytes(bytes(stays) + data[stays:])
        assert mapping in root.read_bytes()
    planned = run("zap", "repair", path, *options, "--json")
    assert [action["action"] for action in planned.json["actions"]] == ["rebuild-root"]
    assert run("zap", "repair", path, "--commit", *options).code == 2
    assert run("zap", "repair", path, "--commit", *options, *ACCEPTED).code == 0
    assert root.with_name("root.bolt.damaged").exists() == (part != "file")
    found = live(bleve, path, tmp_path)
    # Nothing says that these were deleted.
    assert set(found) - {"d30"} == {*expected, "d5", "d7"}
    assert {name: found[name] for name in expected} == expected
    check(bleve, path, tmp_path, found, version)


def test_a_new_index(bleve: GoBleve, tmp_path: Path) -> None:
    """Without documents and without segments, there is nothing to do."""
    path = make(bleve, tmp_path / "index", 16, [], tmp_path)
    assert (run("zap", "compact", path).code, run("zap", "repair", path).out) == (0, "nothing to do\n")
    shutil.rmtree(path / "store")
    assert run("zap", "repair", path).code == 2
