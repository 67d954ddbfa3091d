from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec import CommitConflict, NotCanonical, RowSet, Unsupported, UsageError, paimon
from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.tables.deleting.run import Written
from dvcodec.tables.folder import Folder
from dvcodec.tables.paimon import PaimonTable, commit
from samples.paimon_table import (
    PaimonFile,
    Value,
    build_paimon,
    convert_manifests,
    manifest_schema,
    rewrite_avro,
    rewrite_json,
)
from tables.paimon.deleting import assert_clean, delete, deletes, live, open_committer

COLUMNS = [(0, "id", "BIGINT"), (1, "part", "STRING")]
ROWS = 100


def rows(start: int, count: int = ROWS, part: str | None = "x") -> pa.Table:
    return pa.table({"id": range(start, start + count), "part": [part] * count})


def file(number: int, deleted: Sequence[int] | None = None, **more: Any) -> PaimonFile:
    return PaimonFile(f"f{number}.parquet", rows(number * ROWS), deleted, **more)


def in_part(number: int, part: str | None, deleted: Sequence[int] | None = None, **more: Any) -> PaimonFile:
    values: tuple[Value, ...] = (part,)
    folder = f"part={part or '__DEFAULT_PARTITION__'}"
    name = f"f{number}.parquet"
    return PaimonFile(name, rows(number * ROWS, part=part), deleted, partition=values, folder=folder, **more)


def craft(root: Path, *states: Sequence[PaimonFile], **options: str) -> Path:
    return build_paimon(root / "t", COLUMNS, states, options={name.replace("_", "-"): v for name, v in options.items()})


def left(*gone: int, files: int) -> list[int]:
    return sorted(set(range(files * ROWS)) - set(gone))


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def snapshot_of(root: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / f"snapshot/snapshot-{number}").read_text())
    return found


def index_entries(root: Path, number: int) -> list[paimon.IndexManifestEntry]:
    name = snapshot_of(root, number).get("indexManifest")
    return [] if name is None else paimon.read_index_manifest(root / "manifest" / name)


def change_lists(root: Path, number: int, lists: Sequence[str], field: str, kind: Any, value: Any) -> None:
    """Give the manifest lists of a snapshot a field of a type, in place of one of that name; none without a type."""
    for which in lists:
        path = root / "manifest" / snapshot_of(root, number)[f"{which}ManifestList"]
        schema: dict[str, Any] = dict(avro.decode(Cursor(path.read_bytes())).schema)
        others = [one for one in schema["fields"] if one["name"] != field]
        schema["fields"] = others + ([] if kind is None else [{"name": field, "type": kind}])
        rewrite_avro(path, lambda record: record.update({field: value}), schema)


def records(path: Path) -> list[dict[str, Any]]:
    return list(avro.decode(Cursor(path.read_bytes())).records())


# ---------------------------------------------------------------------- what is deleted


@pytest.mark.parametrize("bits", [32, 64])
def test_rows_are_deleted_and_older_snapshots_stay(tmp_path: Path, bits: int) -> None:
    wide = {"deletion-vectors.bitmap64": str(bits == 64).lower()}
    root = craft(tmp_path, [file(0), file(1)], **wide)
    before = files_of(root)
    assert delete(root, {"f0.parquet": [3, 5]}) == 2
    assert delete(root, {"f0.parquet": [7], "f1.parquet": [0]}) == 3
    assert live(root) == left(3, 5, 7, 100, files=2)
    assert (live(root, 1), live(root, 2)) == (left(files=2), left(3, 5, files=2))
    assert {vector.format for vector in PaimonTable(str(root)).snapshot().vectors} == {f"paimon{bits}"}
    assert (root / "snapshot/LATEST").read_text() == "3"
    after = files_of(root)
    assert {name: after[name] for name in before if name != "snapshot/LATEST"} == {
        name: data for name, data in before.items() if name != "snapshot/LATEST"
    }
    assert_clean(root)


def test_vectors_that_share_an_index_file_are_copied_unchanged(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0, [1]), file(1, [2], bits=64), file(2, [3])])
    (old,) = index_entries(root, 1)
    delete(root, {"f0.parquet": [9]})
    copied, new = index_entries(root, 2)
    assert [meta.data_file for meta in copied.vectors or ()] == ["f1.parquet", "f2.parquet"]
    assert [meta.data_file for meta in new.vectors or ()] == ["f0.parquet"]
    assert old.file_name not in (copied.file_name, new.file_name)
    formats = {vector.data_file: vector.format for vector in PaimonTable(str(root)).snapshot().vectors}
    assert formats == {
        "bucket-0/f0.parquet": "paimon32",
        "bucket-0/f1.parquet": "paimon64",
        "bucket-0/f2.parquet": "paimon32",
    }
    assert live(root) == left(1, 9, 102, 203, files=3)
    delete(root, {"f0.parquet": [10]})
    assert index_entries(root, 3)[0] == copied  # not touched again
    assert_clean(root)


@pytest.mark.parametrize(("file_format", "magic"), [("orc", b"ORC"), ("parquet", b"PAR1")])
def test_metadata_keep_their_format(tmp_path: Path, file_format: str, magic: bytes) -> None:
    states = [[in_part(0, "a", [1]), in_part(1, "b")], [in_part(0, "a", [1]), in_part(1, "b"), in_part(2, None)]]
    options = {"manifest.format": file_format}
    root = build_paimon(tmp_path / "t", COLUMNS, states, partition_keys=["part"], options=options)
    convert_manifests(root, file_format)
    delete(root, {"f0.parquet": [5], "f2.parquet": range(ROWS)})
    delete(root, {"f1.parquet": range(ROWS)})
    assert live(root) == left(1, 5, files=1)
    assert live(root, 3) == left(1, 5, files=2)
    assert {path.read_bytes()[: len(magic)] for path in (root / "manifest").iterdir()} == {magic}
    assert_clean(root)


def test_partitions_have_index_files_of_their_own(tmp_path: Path) -> None:
    states = [[in_part(0, "a", [1]), in_part(1, "b", [2]), in_part(2, None, [3])]]
    root = build_paimon(tmp_path / "t", COLUMNS, states, partition_keys=["part"])
    a, b, none = index_entries(root, 1)
    delete(root, {"f1.parquet": [5], "f2.parquet": [6]})
    first, *others = index_entries(root, 2)
    assert first == a
    assert [(one.partition, len(one.vectors or ())) for one in others] == [(b.partition, 1), (none.partition, 1)]
    assert live(root) == left(1, 102, 105, 203, 206, files=3)
    assert_clean(root)


def test_a_bucket_has_one_index_file(tmp_path: Path) -> None:
    state = [file(0, [1], bucket=0), file(1, [2], bucket=1), file(2, [3], bucket=1), file(3, bucket=1)]
    root = craft(tmp_path, state, bucket="2")
    first, _ = index_entries(root, 1)
    delete(root, {"f1.parquet": [8], "f3.parquet": [9]})
    kept, new = index_entries(root, 2)
    assert kept == first
    assert sorted(meta.data_file for meta in new.vectors or ()) == ["f1.parquet", "f2.parquet", "f3.parquet"]
    assert live(root) == left(1, 102, 108, 203, 309, files=4)
    delete(root, {"f2.parquet": range(ROWS)})
    kept, new = index_entries(root, 3)
    assert sorted(meta.data_file for meta in new.vectors or ()) == ["f1.parquet", "f3.parquet"]
    assert live(root) == left(1, 102, 108, 309, *range(200, 300), files=4)
    assert_clean(root)


def test_index_files_are_rolled_at_the_target_size(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0), file(1), file(2)], **{"deletion-vector.index-file.target-size": "1 b"})
    delete(root, {f"f{i}.parquet": [i] for i in range(3)})
    assert [len(one.vectors or ()) for one in index_entries(root, 2)] == [1, 1, 1]
    assert_clean(root)


# ---------------------------------------------------------------------- data files that are removed


def test_a_data_file_without_live_rows_is_removed(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0, [1])], [file(0, [1]), file(1, [2])])
    delete(root, {"f0.parquet": range(ROWS), "f1.parquet": [3]})
    assert live(root) == left(*range(ROWS), 102, 103, files=2)
    assert [file.path for file in PaimonTable(str(root)).snapshot().data_files] == ["bucket-0/f1.parquet"]
    assert live(root, 2) == left(1, 102, files=2)
    new = snapshot_of(root, 3)
    assert (new["totalRecordCount"], new["deltaRecordCount"]) == (ROWS, -ROWS)
    assert [meta.data_file for entry in index_entries(root, 3) for meta in entry.vectors or ()] == ["f1.parquet"]
    assert_clean(root)


def test_the_last_vector_goes_with_its_data_file(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0, [1]), file(1)])
    delete(root, {"f0.parquet": range(ROWS)})
    assert "indexManifest" not in snapshot_of(root, 2)
    delete(root, {"f1.parquet": range(ROWS)})
    assert live(root) == []
    assert snapshot_of(root, 3)["totalRecordCount"] == 0
    assert_clean(root)


def test_entries_of_removed_files_have_all_fields_of_those_that_added_them(tmp_path: Path) -> None:
    state = [in_part(0, "a", more={"_EXTRA_FILES": ["f0.index"]}), in_part(1, None), in_part(2, None), in_part(3, "b")]
    root = build_paimon(tmp_path / "t", COLUMNS, [state[:2], state], partition_keys=["part"])
    added: dict[str, dict[str, Any]] = {}

    def change(record: dict[str, Any]) -> None:
        record["_FILE"] |= {"_MIN_KEY": b"key", "_CREATION_TIME": 1_700_000_000_123, "_NEW": "new"}
        added[record["_FILE"]["_FILE_NAME"]] = record

    newer = manifest_schema({"name": "_NEW", "type": ["null", "string"], "default": None})
    for name in ("manifest-1-0", "manifest-2-0"):
        rewrite_avro(root / "manifest" / name, change, newer)
    # The added field makes rows unknown to readers; a commit is made nevertheless, to see that it stays.
    to = open_committer(root)
    base = to.current()
    gone = deletes(base, {f"f{i}.parquet": range(ROWS) for i in range(3)})
    to.commit(base, gone, Written({}, 0), [])
    delta = records(root / "manifest" / snapshot_of(root, 3)["deltaManifestList"])
    assert [(one["_NUM_ADDED_FILES"], one["_NUM_DELETED_FILES"]) for one in delta] == [(0, 2), (0, 1)]
    assert [one["_PARTITION_STATS"]["_NULL_COUNTS"] for one in delta] == [[1], [1]]
    for listed in delta:
        path = root / "manifest" / listed["_FILE_NAME"]
        assert listed["_FILE_SIZE"] == path.stat().st_size
        for record in records(path):
            expected = added[record["_FILE"]["_FILE_NAME"]]
            record["_FILE"]["_CREATION_TIME"] = expected["_FILE"]["_CREATION_TIME"]
            assert record == expected | {"_KIND": 1}
    assert [file.path for file in PaimonTable(str(root)).snapshot().data_files] == ["part=b/bucket-0/f3.parquet"]


def test_a_data_file_that_no_manifest_has_is_not_removed(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0), file(1)])
    to = open_committer(root)
    base = to.current()
    rewrite_avro(root / "manifest/manifest-1-0", lambda record: record["_FILE"].update(_FILE_NAME="other.parquet"))
    with pytest.raises(NotCanonical, match=r"t: manifests: expected 1 data files, found 0 entries"):
        to.commit(base, deletes(base, {"f0.parquet": range(ROWS)}), Written({}, 0), [])
    assert not (root / "snapshot/snapshot-2").exists()


def test_a_remote_table_is_read_anew(tmp_path: Path) -> None:
    """Also before the first commit, and if it was not opened by `open_table`: another may have taken its place."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    root = f"memory://{uuid.uuid4()}"
    tables = [craft(tmp_path / name, [one]) for name, one in (("old", file(0)), ("new", file(1)))]
    memory.pipe({f"{root}/{name}": data for name, data in files_of(tables[0]).items()})
    table = PaimonTable(Folder.of(root))
    assert [one.path for one in table.snapshot().data_files] == ["bucket-0/f0.parquet"]
    memory.pipe({f"{root}/{name}": data for name, data in files_of(tables[1]).items()})
    assert [one.path for one in commit.PaimonCommitter(table).current().data_files] == ["bucket-0/f1.parquet"]


@pytest.mark.parametrize("more", [("base",), ("delta",), ("base", "delta")])
def test_lists_of_manifests_by_writers_of_several_versions(tmp_path: Path, more: tuple[str, ...]) -> None:
    """The new lists have all fields of both; where neither has those of the other, which ones is not known."""
    root = craft(tmp_path, [file(0)], [file(0), file(1)])
    for kind in more:
        change_lists(root, 2, [kind], f"_OF_{kind}", ["null", "int"], 7)
    if len(more) == 2:
        with pytest.raises(Unsupported, match=r"fields of both lists in one of them, found \._OF_base, \._OF_delta"):
            delete(root, {"f0.parquet": [1]})
        return
    assert delete(root, {"f0.parquet": [1]}) == 3
    listed = records(root / "manifest" / snapshot_of(root, 3)["baseManifestList"])
    assert sorted(record[f"_OF_{more[0]}"] or 0 for record in listed) == [0, 7]


@pytest.mark.parametrize("kind", [None, ["null", "long"], "long"])
def test_lists_without_statistics_of_partitions(tmp_path: Path, kind: Any) -> None:
    root = craft(tmp_path, [file(0), file(1)])
    change_lists(root, 1, ["base", "delta"], "_PARTITION_STATS", kind, 7 if kind == "long" else None)
    assert delete(root, {"f0.parquet": range(ROWS)}) == 2
    assert [one.path for one in PaimonTable(str(root)).snapshot().data_files] == ["bucket-0/f1.parquet"]


def test_counts_that_a_list_has_as_text_are_refused_by_its_name(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0), file(1)])
    change_lists(root, 1, ["base", "delta"], "_NUM_DELETED_FILES", "string", "0")
    before = files_of(root)
    with pytest.raises(Unsupported, match=r"manifest-list\S*: schema: expected one for new records, found one that"):
        delete(root, {"f0.parquet": range(ROWS)})
    assert files_of(root) == before


# ---------------------------------------------------------------------- the snapshot


def test_members_of_the_snapshot_before_are_carried_over(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0)])
    carried = {"watermark": -(2**63), "statistics": "stat-1", "nextRowId": 300, "logOffsets": {"0": 7}, "new": [1]}
    rewrite_json(
        root / "snapshot/snapshot-1",
        **carried,
        uuid="u",
        baseManifestListSize=1,
        deltaManifestListSize=2,
        changelogRecordCount=5,
        changelogManifestList="manifest-list-1-0",
        properties={"a": "b"},
        operation="WRITE",
        writerVersion="2.1",
    )
    (root / "statistics").mkdir()
    (root / "statistics/stat-1").write_text("{}")
    before = snapshot_of(root, 1)
    delete(root, {"f0.parquet": [1]})
    after = snapshot_of(root, 2)
    assert {name: after[name] for name in carried} == carried
    assert set(after) == (set(before) | {"indexManifest"}) - {
        "changelogRecordCount",
        "changelogManifestList",
        "properties",
        "operation",
        "writerVersion",
    }
    assert after["uuid"] != "u"
    assert (after["commitKind"], after["commitIdentifier"], after["id"]) == ("OVERWRITE", 2**63 - 1, 2)
    for which in ("base", "delta"):
        size = (root / "manifest" / after[f"{which}ManifestList"]).stat().st_size
        assert after[f"{which}ManifestListSize"] == size


def test_a_newer_schema_is_that_of_the_commit(tmp_path: Path) -> None:
    """Its options count, and statistics of the older one are left out, as by Paimon's writers."""
    root = craft(tmp_path, [file(0)])
    future = 4_000_000_000_000
    rewrite_json(root / "snapshot/snapshot-1", statistics="stat-1", timeMillis=future)
    alter(root, **{"deletion-vectors.bitmap64": "true"})
    delete(root, {"f0.parquet": [1]})
    after = snapshot_of(root, 2)
    assert (after["schemaId"], after["timeMillis"]) == (1, future)
    assert "statistics" not in after
    assert [vector.format for vector in PaimonTable(str(root)).snapshot().vectors] == ["paimon64"]


# ---------------------------------------------------------------------- conflicts


def intervene(root: Path) -> None:
    delete(root, {"f1.parquet": [50]})


def alter(root: Path, **options: str) -> None:
    schema = json.loads((root / "schema/schema-0").read_text())
    schema |= {"id": 1, "options": schema["options"] | options}
    (root / "schema/schema-1").write_text(json.dumps(schema))


def roll_back(root: Path) -> None:
    (root / "snapshot/snapshot-2").unlink()


def roll_back_and_commit(root: Path) -> None:
    roll_back(root)
    delete(root, {"f0.parquet": [50]})


def commit_and_expire(root: Path) -> None:
    intervene(root)
    delete(root, {"f1.parquet": [51]})
    for number in (1, 2, 3):
        (root / f"snapshot/snapshot-{number}").unlink()
    for path in (root / "manifest").glob("manifest-list-2-*"):
        path.unlink()


@pytest.mark.parametrize("other", [intervene, alter, roll_back, roll_back_and_commit, commit_and_expire])
def test_any_other_commit_is_a_conflict(tmp_path: Path, other: Callable[[Path], None]) -> None:
    root = craft(tmp_path, [file(0)], [file(0), file(1, [4])])
    base = open_committer(root).current()
    other(root)
    before = files_of(root)
    with pytest.raises(CommitConflict):
        delete(root, {"f0.parquet": [1], "f1.parquet": range(ROWS)}, base)
    assert files_of(root) == before


def test_a_table_without_a_snapshot_has_nothing_to_delete(tmp_path: Path) -> None:
    root = craft(tmp_path)
    to = open_committer(root)
    base = to.current()
    to.check(base)
    with pytest.raises(UsageError, match="t: there is no snapshot to delete from"):
        to.commit(base, [], Written({}, 0), [])
    assert PaimonTable(str(root)).delete(positions={}).committed is False


def test_vectors_that_read_back_otherwise_are_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = craft(tmp_path, [file(0, [1])])
    before = files_of(root)
    encode = paimon.encode
    monkeypatch.setattr(paimon, "encode", lambda rows, **more: encode(RowSet([row + 1 for row in rows]), **more))
    with pytest.raises(NotCanonical, match=r"index-.*: vectors as read back: expected the rows that were written"):
        delete(root, {"f0.parquet": [5]})
    assert files_of(root) == before


def test_a_corrupt_vector_is_not_copied(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0, [1]), file(1, [2])])
    path = root / "index/index-1-0"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    before = files_of(root)
    with pytest.raises(ValueError, match="CRC"):
        delete(root, {"f0.parquet": [5]})
    assert files_of(root) == before


# ---------------------------------------------------------------------- tables that are refused


@each(
    ("option", "value"),
    [
        ("branch", "b1"),
        ("changelog-producer", "input"),
        ("data-evolution.enabled", "true"),
        ("scan.fallback-branch", "other"),
        ("commit.callbacks", "org.example.Callback"),
        ("bucket", "many"),
        ("deletion-vector.index-file.target-size", "2 fathoms"),
    ],
)
def test_options_are_refused_by_name(tmp_path: Path, option: str, value: str) -> None:
    root = craft(tmp_path, [file(0)], **{option: value})
    with pytest.raises(Unsupported, match=re.escape(option)):
        delete(root, {"f0.parquet": [1]})


def test_sizes_have_units() -> None:
    units = {"": 0, "b": 0, "bytes": 0, "k": 10, "kb": 10, "KibiBytes": 10, "m": 20, "mb": 20, "mebibytes": 20, "g": 30}
    for unit, shift in {**units, "GB": 30}.items():
        for text in (f"3{unit}", f" 3  {unit} "):
            schema: Any = SimpleNamespace(options={"deletion-vector.index-file.target-size": text})
            assert commit.index_target_size(schema) == 3 << shift
    empty: Any = SimpleNamespace(options={})
    assert commit.index_target_size(empty) == 2 << 20


def test_without_deletion_vectors_it_is_said_how_to_enable_them(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0)], **{"deletion-vectors.enabled": "false"})
    with pytest.raises(
        UsageError, match=r"deletion vectors are not enabled \(deletion-vectors\.enabled: false\).*dvcodec enable"
    ):
        delete(root, {"f0.parquet": [1]})


def test_unknown_metadata_of_data_files_is_refused(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0)])
    newer = manifest_schema({"name": "_SHADOW", "type": ["null", "string"], "default": None})
    rewrite_avro(root / "manifest/manifest-1-0", lambda record: record["_FILE"].update(_SHADOW="s"), newer)
    with pytest.raises(Unsupported, match="_SHADOW"):
        delete(root, {"f0.parquet": [1]})


def test_other_indexes_are_refused(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0, [1])])
    manifest = root / "manifest/index-manifest-1-0"
    entries = paimon.read_index_manifest(manifest)
    paimon.write_index_manifest(manifest, [*entries, paimon.IndexManifestEntry("btree", "index-x", 1, 1)])
    with pytest.raises(Unsupported, match=r"_INDEX_TYPE.*btree"):
        delete(root, {"f0.parquet": [1]})


def test_a_schema_that_moves_files_is_refused(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0)])
    alter(root, **{"data-file.path-directory": "data"})
    with pytest.raises(Unsupported, match="options of file paths"):
        delete(root, {"f0.parquet": [1]})


# ---------------------------------------------------------------------- errors that nobody expects


@pytest.mark.parametrize("value", ["12", 2**63])
def test_a_count_of_records_that_is_no_integer_is_refused_before_anything_is_written(
    tmp_path: Path, value: object
) -> None:
    root = craft(tmp_path, [file(0)])
    rewrite_json(root / "snapshot/snapshot-1", totalRecordCount=value)
    before = files_of(root)
    with pytest.raises(NotCanonical, match="snapshot-1: totalRecordCount: expected"):
        delete(root, {"f0.parquet": [1]})
    assert files_of(root) == before


def test_the_last_id_has_no_next(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0)])
    last = 2**63 - 1
    rewrite_json(root / "snapshot/snapshot-1", id=last - 1)
    (root / "snapshot/snapshot-1").rename(root / f"snapshot/snapshot-{last - 1}")
    (root / "snapshot/LATEST").write_text(str(last - 1))
    assert delete(root, {"f0.parquet": [1]}) == last
    assert live(root) == left(1, files=1)
    before = files_of(root)
    with pytest.raises(Unsupported, match=f"snapshot-{last}: id: expected at most {last - 1}.*, found {last}"):
        delete(root, {"f0.parquet": [2]})
    assert files_of(root) == before


def test_a_snapshot_of_an_old_writer_has_no_count_of_records(tmp_path: Path) -> None:
    root = craft(tmp_path, [file(0)])
    rewrite_json(root / "snapshot/snapshot-1", totalRecordCount=None)
    delete(root, {"f0.parquet": [1]})
    assert snapshot_of(root, 2)["totalRecordCount"] == 0
