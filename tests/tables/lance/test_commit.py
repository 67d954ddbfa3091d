"""Deletes committed to Lance datasets, which pylance reads, and writes on."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from cases import each
from dvcodec import CommitConflict, MissingExtra, NotCanonical, Unsupported
from dvcodec.lance import read_manifest
from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.deleting.run import run
from dvcodec.tables.folder import Folder
from dvcodec.tables.lance import commit as module
from dvcodec.tables.lance.commit import LanceCommitter
from dvcodec.tables.lance.table import LanceSnapshot, LanceTable
from interop.driver import need
from tables.deleting.finders import Where

if TYPE_CHECKING:
    from lance import LanceDataset

pytestmark = pytest.mark.interop

ROWS, FRAGMENT = 400, 100
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stable": {"enable_stable_row_ids": True},
    "v1": {"enable_v2_manifest_paths": False},
    "2.0": {"data_storage_version": "2.0"},
    "legacy": {"data_storage_version": "legacy"},
}


@pytest.fixture(scope="module", autouse=True)
def _pylance() -> None:
    need(importlib.util.find_spec("lance.fragment") is not None, "pylance")


def rows(keys: Iterable[int]) -> pa.Table:
    keys = np.fromiter(keys, np.int64)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(keys, 4).astype(np.float32)), 4)
    return pa.table({"key": keys, "text": [f"row {key}" for key in keys.tolist()], "vector": vectors})


def make(path: Path, keys: Iterable[int] = range(ROWS), **options: Any) -> LanceDataset:
    import lance as pylance

    return pylance.write_dataset(rows(keys), str(path), max_rows_per_file=FRAGMENT, **options)


def dataset(path: Path | str, version: int | None = None) -> LanceDataset:
    import lance as pylance

    return pylance.dataset(str(path), version=version)


def keys_of(found: LanceDataset) -> set[int]:
    """Return the keys that pylance reads, which all its ways to count confirm."""
    keys = found.to_table(columns=["key"])["key"].to_pylist()
    assert len(keys) == len(set(keys)) == found.count_rows() == sum(one.count_rows() for one in found.get_fragments())
    return set(keys)


class Late(LanceCommitter):
    """Lets something happen after the files are written."""

    between: Callable[[], object]

    def commit(self, *given: Any) -> int:
        self.between()
        return super().commit(*given)


def delete(path: Path | str, gone: Callable[[int], bool], between: Callable[[], object] = lambda: None) -> int:
    """Delete keys in one attempt, with `between` after the files are written."""
    committer = Late(open_table(path))  # type: ignore[arg-type]
    committer.between = between
    return run(committer, Where("key", gone), retries=0).snapshot


def assert_clean(path: Path | str) -> None:
    """Check that the audit finds nothing, no orphan either."""
    assert audit(open_table(path)).findings == ()


def stored(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


# ---------------------------------------------------------------------- read back, and written on


@pytest.mark.parametrize("name", VARIANTS)
def test_pylance_reads_what_is_left_and_the_versions_before(name: str, tmp_path: Path) -> None:
    from interop.lance_tables import truth
    from tables.lance.truth import check_metadata, check_rows

    path = tmp_path / "t"
    make(path, **VARIANTS[name])
    steps: list[Callable[[int], bool]] = [
        lambda key: key % 7 == 3,
        lambda key: 100 <= key < 200,
        lambda key: key in (0, 99, 399) or key % 7 == 3,
    ]
    left, states = set(range(ROWS)), [set(range(ROWS))]
    for version, gone in enumerate(steps, 2):
        assert delete(path, gone) == version
        left = {key for key in left if not gone(key)}
        states.append(left)
        assert keys_of(dataset(path)) == left
        assert_clean(path)
    assert len(dataset(path).get_fragments()) == 3
    assert [keys_of(dataset(path, version)) for version in range(1, 5)] == states
    recorded = truth(str(path))
    assert [one["operation"] for one in recorded[1:]] == ["Delete"] * 3
    check_metadata(open_table(path), recorded)  # type: ignore[arg-type]
    check_rows(open_table(path), recorded)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", VARIANTS)
def test_pylance_writes_on_after_each_of_our_deletes(name: str, tmp_path: Path) -> None:
    import lance as pylance

    path = tmp_path / "t"
    make(path, **VARIANTS[name])
    left = set(range(ROWS))

    def ours(gone: Callable[[int], bool]) -> None:
        delete(path, gone)
        left.difference_update([key for key in left if gone(key)])
        check()

    def check() -> None:
        assert keys_of(dataset(path)) == left
        assert_clean(path)

    ours(lambda key: key % 5 == 0)
    dataset(path).delete("key % 5 = 1")
    left -= {key for key in left if key % 5 == 1}
    check()
    ours(lambda key: key % 10 == 2)
    dataset(path).update({"text": "'new'"}, where="key % 10 = 3")
    check()
    ours(lambda key: key % 20 == 3)
    assert dataset(path).count_rows("text = 'new'") == len([key for key in left if key % 10 == 3])
    merge = dataset(path).merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows([7, 5, 1000]))
    left |= {7, 5, 1000}
    check()
    ours(lambda key: key in (5, 8))
    if name != "legacy":
        dataset(path).add_columns({"twice": "key * 2"})
        check()
        ours(lambda key: key == 9)
        assert dataset(path).to_table(columns=["key", "twice"]).filter(pa.compute.field("twice") == 18).num_rows == 0
        dataset(path).drop_columns(["twice"])
    dataset(path).optimize.compact_files(target_rows_per_fragment=1000)
    check()
    ours(lambda key: key % 30 == 17)
    pylance.write_dataset(rows(range(2000, 2010)), str(path), mode="append")
    left.update(range(2000, 2010))
    ours(lambda key: key in (2001, 2002, 19))
    dataset(path).tags.create("kept", dataset(path).version)
    ours(lambda key: key >= 2000)
    assert 2003 in keys_of(pylance.dataset(str(path), version="kept"))
    dataset(path).tags.delete("kept")
    before = dataset(path).version
    dataset(path).cleanup_old_versions(older_than=timedelta(0))
    check()
    assert len(dataset(path).versions()) == 1
    dataset(path, before).restore()
    check()


@pytest.mark.parametrize("name", ["plain", "stable"])
@pytest.mark.parametrize("compact", [False, True])
def test_indices_do_not_find_deleted_rows(name: str, compact: bool, tmp_path: Path) -> None:
    path = tmp_path / "t"
    found = make(path, range(1000), **VARIANTS[name])
    for column, kind in (("key", "BTREE"), ("text", "INVERTED")):
        found.create_scalar_index(column, kind)
    found.create_index("vector", "IVF_FLAT", num_partitions=2)
    delete(path, lambda key: key % 2 == 1 or 200 <= key < 300)
    if compact:
        dataset(path).optimize.compact_files(target_rows_per_fragment=10_000)
        delete(path, lambda key: key == 12)
    found = dataset(path)
    assert len(found.describe_indices()) == 3
    filtered = found.scanner(filter="key >= 190 AND key < 310", columns=["key"])
    assert "ScalarIndexQuery" in filtered.explain_plan()
    left = [key for key in range(190, 310, 2) if not 200 <= key < 300]
    assert sorted(filtered.to_table()["key"].to_pylist()) == left
    for key, hits in ((11, 0), (12, 0 if compact else 1), (14, 1), (250, 0)):
        assert found.count_rows(f"key = {key}") == hits
        text = found.to_table(columns=["key"], full_text_query={"query": str(key), "columns": ["text"]})
        assert text.num_rows == hits
        nearest = {"column": "vector", "q": np.full(4, key, np.float32), "k": 5, "nprobes": 2}
        close = found.scanner(columns=["key"], nearest=nearest)
        assert "ANN" in close.explain_plan()
        keys = close.to_table()["key"].to_pylist()
        assert len(keys) == 5
        assert (key in keys) == bool(hits)
        assert not any(one % 2 or 200 <= one < 300 for one in keys)
    found.optimize.optimize_indices()
    assert dataset(path).count_rows("key = 250 OR key = 14") == 1
    assert_clean(path)


def test_a_branch_and_a_shallow_clone_change_alone(tmp_path: Path) -> None:
    path, clone = tmp_path / "t", tmp_path / "clone"
    delete_first = lambda key: key == 5  # noqa: E731
    make(path)
    delete(path, delete_first)
    dataset(path).shallow_clone(str(clone), 2)
    dataset(path).create_branch("my/branch", 2)
    branch = path / "tree" / "my" / "branch"
    for folder in (clone, branch):
        delete(folder, lambda key: key in (6, 150) or key >= 300)
        delete(folder, lambda key: key == 7)
        assert keys_of(dataset(folder)) == set(range(300)) - {5, 6, 7, 150}
        assert_clean(folder)
    assert keys_of(dataset(path)) == set(range(ROWS)) - {5}
    seen = dataset(path).checkout_version(("my/branch", None))
    assert keys_of(seen) == set(range(300)) - {5, 6, 7, 150}
    delete(path, lambda key: key == 8)
    assert keys_of(dataset(clone)) == set(range(300)) - {5, 6, 7, 150}
    assert_clean(path)


def test_row_ids_config_blobs_and_schema_metadata_stay(tmp_path: Path) -> None:
    import lance as pylance

    path = str(tmp_path / "t")
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("key", pa.int64()), field], {"made": "by hand"})
    data = pa.table({"key": range(60), "blob": [bytes([key]) * 3 for key in range(60)]}, schema)
    pylance.write_dataset(data, path, max_rows_per_file=20, enable_stable_row_ids=True, data_storage_version="2.0")
    dataset(path).update_config({"mine": "kept"})
    columns = ["key", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    before = dataset(path).to_table(columns=columns)
    delete(path, lambda key: key % 3 == 0 or key >= 40)
    found = dataset(path)
    keep = pa.array([bool(key % 3) and key < 40 for key in range(60)])
    assert found.to_table(columns=columns).equals(before.filter(keep))
    assert found.config()["mine"] == "kept"
    assert found.schema.equals(schema, check_metadata=True)
    assert found.take_blobs("blob", indices=[2])[0].read() == bytes([4]) * 3
    assert_clean(path)


def test_row_ids_in_data_files_stay(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, enable_stable_row_ids=True)
    dataset(path).update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1"})
    dataset(path).delete("key % 3 = 0")
    dataset(path).optimize.compact_files(target_rows_per_fragment=1000)
    (fragment,) = dataset(path).get_fragments()
    assert open_table(path).snapshot().info.operation == "Rewrite"
    columns = ["key", "_rowid"]
    before = dataset(path).to_table(columns=columns).to_pylist()
    delete(path, lambda key: key % 2 == 0)
    assert dataset(path).to_table(columns=columns).to_pylist() == [one for one in before if one["key"] % 2]
    (after,) = dataset(path).get_fragments()
    assert after.metadata.files == fragment.metadata.files
    assert_clean(path)


# ---------------------------------------------------------------------- conflicts

RIVALS: dict[str, Callable[[Path], object]] = {
    "the same row": lambda path: dataset(path).delete("key = 6"),
    "the same fragment": lambda path: dataset(path).delete("key = 50"),
    "another fragment": lambda path: dataset(path).delete("key = 350"),
    "an update elsewhere": lambda path: dataset(path).update({"text": "'new'"}, where="key = 350"),
    "an append": lambda path: make(path, [1000], mode="append"),
    "a column": lambda path: dataset(path).drop_columns(["text"]),
    "a compaction": lambda path: dataset(path).optimize.compact_files(target_rows_per_fragment=1000),
    "an index": lambda path: dataset(path).create_scalar_index("key", "BTREE"),
    "config": lambda path: dataset(path).update_config({"a": "b"}),
    "an overwrite": lambda path: make(path, range(10), mode="overwrite"),
    "one of ours": lambda path: delete(path, lambda key: key == 350),
}


@each("late", [False, True])
@each("rival", RIVALS)
def test_whatever_is_committed_meanwhile_is_a_conflict(
    rival: str, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    make(path)
    after: list[set[str]] = []

    def between() -> None:
        monkeypatch.undo()
        RIVALS[rival](path)
        after.append(stored(path))

    def changes(*given: Any) -> Any:
        found = original(*given)
        between()
        return found

    original = module._changes
    if late:
        monkeypatch.setattr(module, "_changes", changes)
    with pytest.raises(CommitConflict, match=r"another writer|[Cc]onflict|ncompatible"):
        delete(path, lambda key: key == 6 or 100 <= key < 200, (lambda: None) if late else between)
    ours = {name for name in after[0] if name.startswith("_deletions/0-1-")} - stored(path)
    assert len(ours) == 1
    assert stored(path) == after[0] - ours
    assert 100 in keys_of(dataset(path)) or rival == "an overwrite"
    assert_clean(path)
    delete(path, lambda key: key == 6)
    assert 6 not in keys_of(dataset(path))


# ---------------------------------------------------------------------- answers that are lost, and failures


@each("done", [False, True])
@each("error", [KeyError("x"), type("PanicException", (BaseException,), {})("boom"), RuntimeError("y")])
def test_a_failure_of_the_library_is_an_error_unless_the_version_is_there(
    error: BaseException, done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lance as pylance

    path = tmp_path / "t"
    make(path)
    commit = pylance.LanceDataset.commit

    def broken(*given: Any, **named: Any) -> Any:
        if done:
            commit(*given, **named)
        raise error

    monkeypatch.setattr(pylance.LanceDataset, "commit", broken)
    if done:
        assert delete(path, lambda key: key == 6) == 2
    else:
        with pytest.raises(NotCanonical, match="what Lance's library can write"):
            delete(path, lambda key: key == 6)
    assert (6 in keys_of(dataset(path))) is not done
    assert_clean(path)


def test_a_library_that_does_not_ask_for_the_version_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lance as pylance

    make(tmp_path / "t")
    monkeypatch.setattr(pylance.LanceDataset, "commit", lambda *_, **__: None)
    with pytest.raises(NotCanonical, match="a new version"):
        delete(tmp_path / "t", lambda key: key == 6)


def test_a_remote_dataset_is_read_anew(tmp_path: Path) -> None:
    """Also before the first commit, and if it was not opened by `open_table`: another may have taken its place."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    root, found = f"memory://{uuid.uuid4()}", []
    table = LanceTable(Folder.of(root))
    for name in ("old", "new"):
        make(tmp_path / name)
        (manifest,) = (tmp_path / name / "_versions").glob("*.manifest")
        memory.pipe(f"{root}/_versions/1.manifest", manifest.read_bytes())
        found.append((table.snapshot if name == "old" else LanceCommitter(table).current)().data_files[0].path)
    assert len(set(found)) == 2


# ---------------------------------------------------------------------- refused


def prepared(path: Path) -> tuple[LanceCommitter, LanceSnapshot]:
    found = LanceCommitter(open_table(path))  # type: ignore[arg-type]
    return found, found.current()


def test_what_is_not_known_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    make(path)
    found, base = prepared(path)
    manifest = read_manifest(found._table.manifests()[1])
    monkeypatch.setattr(module, "read_manifest", lambda *_, **__: replace(manifest, writer_flags=1 << 20))
    with pytest.raises(Unsupported, match="0x100000"):
        found.check(base)
    monkeypatch.undo()
    uncounted = replace(base, data_files=(replace(base.data_files[0], physical_rows=None),))
    with pytest.raises(Unsupported, match="rows of fragment 0"):
        found.check(uncounted)
    (path / "_mem_wal").mkdir()
    with pytest.raises(Unsupported, match="write-ahead log"):
        found.check(base)
    monkeypatch.setitem(__import__("sys").modules, "lance.dataset", None)
    with pytest.raises(MissingExtra, match="lance"):
        found.check(base)


def test_a_delete_by_keys_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Arrow's joins complain on stderr about buffers that are not aligned."""
    make(tmp_path / "table")
    done = open_table(tmp_path / "table").delete(
        keys=pa.table({"key": [3, 150], "text": ["row 3", "row 150"]}), on=["key", "text"]
    )
    assert (done.rows, capfd.readouterr()) == (2, ("", ""))
