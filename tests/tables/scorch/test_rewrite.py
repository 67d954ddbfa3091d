"""Compaction and repair of indexes that bleve wrote; real bleve reads the results in tests/interop."""

from __future__ import annotations

import fcntl
import os
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec import CommitConflict, RowSet, Unsupported, UsageError
from dvcodec.io import open_source
from dvcodec.tables.scorch import open as open_index
from dvcodec.tables.scorch import rewrite
from dvcodec.tables.scorch.bolt import encode_file, read_bolt, read_metas, write_transaction
from dvcodec.tables.scorch.rewrite import IndexPlan, commit_rewrite, plan_compaction, plan_repair
from dvcodec.tables.scorch.table import SegmentEntry
from dvcodec.zap import Segment, merge_segments
from samples.bolt import Bolt, plain
from tables.scorch.test_bolt import KEYS

INDEXES = Path(__file__).parents[2] / "vectors" / "tables" / "scorch" / "bleve-2.6.1"
LIVE = {b"d0", b"d10", b"d11", b"d2", b"d3", b"d5", b"d6"}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return Path(shutil.copytree(INDEXES / "small-v16", tmp_path / "index"))


def contents(index: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (index / "store").iterdir()}


def live(index: Path) -> set[bytes]:
    """The ids of the live documents, each once."""
    snapshot = open_index(str(index)).snapshot()
    found = []
    for file in snapshot.data_files:
        deleted = [
            one.rows for vector in snapshot.vectors if vector.data_file == file.path for one in snapshot.read(vector)
        ]
        ids = [id_ for rows in snapshot.rows(file, columns=["_id"]) for id_ in rows.batch["_id"].to_pylist()]
        found += [id_ for row, id_ in enumerate(ids) if row not in RowSet().union(*deleted)]
    assert len(set(found)) == len(found)
    return set(found)


def actions(plan: IndexPlan) -> list[str]:
    return [action.action for action in plan.actions]


# ---------------------------------------------------------------------- bbolt

TREES: st.SearchStrategy[Any] = st.recursive(
    st.dictionaries(KEYS, st.binary(max_size=1500), max_size=5),
    lambda inner: st.dictionaries(KEYS, inner | st.binary(max_size=1500), max_size=8),
    max_leaves=12,
)


@given(TREES, TREES)
def test_any_tree_is_read_as_it_was_written(tree: dict[bytes, Any], other: dict[bytes, Any]) -> None:
    with open_source(encode_file(tree)) as source:
        meta, root = read_bolt(source)
        assert (plain(root), meta.transaction, meta.pages * meta.page_size) == (tree, 1, source.size)
    # A transaction leaves what was there; bbolt's next one may take its pages.
    before = Bolt(tree).data(transaction=8)
    file = BytesIO(before)
    with open_source(before) as source:
        meta = read_metas(source)[0]
    write_at_once(file, meta, other)
    with open_source(file.getvalue()) as source:
        assert plain(read_bolt(source)[1]) == other
        assert plain(read_bolt(source, before=True)[1]) == tree
        found = read_metas(source)
    assert [one.transaction for one in found] == [9, 8]
    assert file.getvalue()[2 * 1024 : len(before)] == before[2 * 1024 :]
    assert set(free_pages(file.getvalue(), found[0].page_size)) == set(range(2, meta.pages))


def write_at_once(file: BytesIO, meta: Any, tree: dict[bytes, Any]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: None)
        patched.setattr(file, "fileno", lambda: 0, raising=False)
        write_transaction(file, meta, tree)


def free_pages(data: bytes, size: int) -> list[int]:
    """The list of free pages of the last transaction."""
    meta = max((data[at : at + 80] for at in (0, size)), key=lambda page: int.from_bytes(page[64:72], "little"))
    at = int.from_bytes(meta[48:56], "little") * size
    assert data[at + 8 : at + 10] == b"\x10\0"
    count = int.from_bytes(data[at + 10 : at + 12], "little")
    return [int.from_bytes(data[at + 16 + 8 * i : at + 24 + 8 * i], "little") for i in range(count)]


# ---------------------------------------------------------------------- compaction


@pytest.mark.parametrize("merge", [False, True])
def test_compaction(index: Path, merge: bool) -> None:
    before = contents(index)
    plan = plan_compaction(str(index), merge=merge)
    assert contents(index) == before
    assert actions(plan) == ["merge-segments" if merge else "rewrite-segment", "remove-snapshots"]
    done = commit_rewrite(plan)
    assert done.snapshot == 7
    assert set(contents(index)) == {"root.bolt", *done.written, *(() if merge else ("000000000004.zap",))}
    table = open_index(str(index))
    assert ([info.id for info in table.snapshots()], table.snapshot().vectors) == ([7], ())
    assert live(index) == LIVE
    assert plan_compaction(str(index), merge=merge).actions == ()
    with pytest.raises(CommitConflict, match="written since"):
        commit_rewrite(plan)


def test_a_segment_without_live_documents_is_removed(index: Path) -> None:
    first = open_index(str(index)).snapshot()
    rows = first.data_files[1].physical_rows or 0
    change_root(index, lambda segments: segments[b"\x8c"].update({b"d": b"".join(RowSet(range(rows)).serialized()[0])}))
    plan = plan_compaction(str(index))
    assert actions(plan) == ["rewrite-segment", "remove-segment", "remove-snapshots"]
    commit_rewrite(plan)
    assert live(index) == LIVE - {b"d10", b"d11", b"d2"}


def change_root(index: Path, change: Any) -> None:
    """Write a root whose newest snapshot is another."""
    path = index / "store" / "root.bolt"
    with open_source(path) as source:
        tree: dict[bytes, Any] = plain(read_bolt(source)[1])
    change(tree[b"s"][max(tree[b"s"])])
    path.write_bytes(encode_file(tree))


def test_a_commit_that_ends_early_leaves_the_index(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(index)
    plan = plan_compaction(str(index))
    with monkeypatch.context() as patched:
        patched.setattr(rewrite, "write_transaction", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(OSError, match="No space"):
            commit_rewrite(plan)
    assert contents(index) == before
    # A killed process has written pages that no meta page knows yet.
    root = index / "store" / "root.bolt"
    with root.open("r+b") as file:
        file.seek(13 * 4096)
        file.write(b"\xff" * 4096)
    assert live(index) == LIVE
    commit_rewrite(plan)
    assert live(index) == LIVE


def test_an_index_that_is_open_elsewhere(index: Path) -> None:
    plan = plan_compaction(str(index))
    with (index / "store" / "root.bolt").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        with pytest.raises(UsageError, match="another process has the index open"):
            commit_rewrite(plan)
    commit_rewrite(plan)


def test_what_is_not_written(index: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only an index on this machine"):
        plan_compaction("s3://bucket/index")
    with pytest.raises(UsageError, match="not a scorch index"):
        plan_repair(str(tmp_path))
    change_root(index, lambda segments: segments[b"m"].update({b"fileWriterID": b"mine"}))
    for plan in (plan_compaction, plan_repair):
        with pytest.raises(Unsupported, match="transformed"):
            plan(str(index))


# ---------------------------------------------------------------------- repair


def test_nothing_to_repair(index: Path) -> None:
    plan = plan_repair(str(index))
    assert (plan.actions, plan.unfixed) == ((), ())
    with pytest.raises(UsageError, match="nothing to do"):
        commit_rewrite(plan)


def test_a_segment_that_cannot_be_read(index: Path) -> None:
    path = index / "store" / "000000000004.zap"
    path.write_bytes(path.read_bytes()[:-20])
    plan = plan_repair(str(index))
    assert actions(plan) == ["drop-segment", "remove-snapshots"]
    with pytest.raises(UsageError, match="--accept-lost-documents"):
        commit_rewrite(plan, accept_restored_documents=True)
    done = commit_rewrite(plan, accept_lost_documents=True)
    assert (done.removed, done.set_aside) == ((), ("000000000004.zap",))
    assert live(index) == LIVE - {b"d10", b"d11", b"d2"}
    # Snapshots that do not need the segment stay.
    assert [info.id for info in open_index(str(index)).snapshots()] == [1, 2, 4, 7]
    assert plan_repair(str(index)).actions == ()


def test_files_that_older_snapshots_need_stay(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a segment that is written again."""

    def judge(_: object, entry: SegmentEntry, version: int) -> rewrite.IndexAction | None:
        is_first = (entry.file_name, version) == ("000000000002.zap", 16)
        return rewrite.IndexAction("rewrite-segment", "", (entry.file_name,), 0) if is_first else None

    monkeypatch.setattr(rewrite._Store, "judge", judge)
    done = commit_rewrite(plan_repair(str(index)))
    assert (done.removed, len(done.written)) == ((), 1)
    table = open_index(str(index))
    assert [info.id for info in table.snapshots()][-1] == done.snapshot
    assert [dict(table.snapshot(info.id).damaged_files()) for info in table.snapshots()] == [{}] * len(
        table.snapshots()
    )
    assert live(index) == LIVE


def test_a_wrong_value_under_a_wrong_checksum_stays(index: Path) -> None:
    path = index / "store" / "000000000004.zap"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    plan = plan_repair(str(index))
    assert (plan.actions, len(plan.unfixed)) == ((), 1)
    assert "its checksum does not match" in plan.unfixed[0]


def test_a_root_made_new(index: Path) -> None:
    """Of two segments with an id, the later one counts; of a segment that no longer counts, nothing."""
    store = index / "store"
    with Segment.open(store / "000000000002.zap") as old, Segment.open(store / "000000000004.zap") as new:
        merge_segments(store / "000000000001.zap", [new])
        merge_segments(store / "000000000003.zap", [old], [RowSet([0])])
    data = (store / "root.bolt").read_bytes()
    (store / "root.bolt").write_bytes(b"\0" * 8192 + data[8192:])
    plan = plan_repair(str(index))
    assert (actions(plan), plan.snapshot) == (["rebuild-root"], None)
    with pytest.raises(UsageError, match="--accept-restored-rows"):
        commit_rewrite(plan, accept_lost_documents=True)
    commit_rewrite(plan, accept_restored_documents=True)
    snapshot = open_index(str(index)).snapshot()
    assert [file.path for file in snapshot.data_files] == ["000000000002.zap", "000000000003.zap", "000000000004.zap"]
    assert live(index) == {b"d%d" % number for number in (*range(9), 10, 11)}
    assert (store / "root.bolt.damaged").stat().st_size == len(data)


def test_mappings(index: Path) -> None:
    root = index / "store" / "root.bolt"
    root.write_bytes(b"\0" * 8192)
    with pytest.raises(UsageError, match="no index mapping in it"):
        plan_repair(str(index))
    root.write_bytes(b'..._mapping{"default_mapping":{}}..._mapping{"default_mapping":{"enabled":true}}')
    with pytest.raises(UsageError, match="2 different index mappings"):
        plan_repair(str(index))
    with pytest.raises(UsageError, match="default_mapping"):
        plan_repair(str(index), mapping=b"[]")
    plan = plan_repair(str(index), mapping=b'{"default_mapping": {}}')
    commit_rewrite(plan, accept_restored_documents=True)
    with open_source(root) as source:
        (snapshot,) = plain(read_bolt(source)[1])[b"s"].values()
    assert snapshot[b"i"] == {b"_mapping": b'{"default_mapping": {}}'}
