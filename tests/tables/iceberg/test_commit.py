"""Commits to Iceberg tables without a catalog: what they carry over, what they refuse, and conflicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import fastavro
import pytest

from cases import each
from dvcodec import RowSet
from dvcodec.core.errors import CommitConflict, NotCanonical, Unsupported, UsageError
from dvcodec.tables import audit, open_table
from dvcodec.tables.deleting.run import Retries
from dvcodec.tables.iceberg import open as open_iceberg
from dvcodec.tables.iceberg.commit import IcebergCommitter, committer, upgrade_deletes
from dvcodec.tables.iceberg.snapshot_writer import SnapshotWriter
from samples.iceberg_table import Commit, IcebergFiles, altered, build_iceberg
from samples.rows import deleted
from tables.iceberg.deleting import delete, file_deletes

FIRST = Commit(data={"a": 20, "b": 20, "c": 5}, vectors={"a": RowSet([1, 2])})


@pytest.fixture
def crafted(tmp_path: Path) -> IcebergFiles:
    return three_commits(tmp_path)


def three_commits(tmp_path: Path) -> IcebergFiles:
    """Three data files; position deletes for ``b`` alone, and some of a partition."""
    file_scoped = Commit(deletes=[{"b": RowSet([3])}])
    partition_wide = Commit(deletes=[{"b": RowSet([4]), "c": RowSet([1])}], scope=None)
    return build_iceberg(tmp_path / "t", FIRST, file_scoped, partition_wide)


def writer_of(crafted: IcebergFiles) -> IcebergCommitter:
    return committer(open_iceberg(crafted.folder))


def metadata_of(crafted: IcebergFiles) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(open_iceberg(crafted.folder).metadata.source).read_bytes())
    return found


def tweaked(crafted: IcebergFiles, tweak: Callable[[dict[str, Any]], Any]) -> IcebergFiles:
    """Change the metadata file."""
    metadata = json.loads(crafted.metadata.read_bytes())
    tweak(metadata)
    crafted.metadata.write_text(json.dumps(metadata))
    return crafted


def records_of(path: str) -> list[Any]:
    """Records of an Avro file."""
    with Path(path).open("rb") as file:
        return list(fastavro.reader(file))


def rewrite(
    path: Path,
    *,
    schema: Callable[[dict[str, Any]], object] = lambda _: None,
    record: Callable[[dict[str, Any]], object] = lambda _: None,
) -> None:
    """Change schema and records of an Avro file."""
    with path.open("rb") as file:
        reader: Any = fastavro.reader(file)
        stored, header, records = reader.writer_schema, reader.metadata, list(reader)
    stored = {name: value for name, value in stored.items() if not name.startswith("__")}
    schema(stored)
    for one in records:
        record(one)
    with path.open("wb") as file:
        fastavro.writer(
            file, stored, records, metadata={name: text for name, text in header.items() if not name.startswith("avro")}
        )


def manifests_of(crafted: IcebergFiles) -> list[Any]:
    """The manifest list of the current snapshot."""
    return records_of(metadata_of(crafted)["snapshots"][-1]["manifest-list"])


def entries_of(crafted: IcebergFiles, content: int) -> list[dict[str, Any]]:
    """Entries of the manifests of the current snapshot, as they are stored."""
    found = []
    for manifest in manifests_of(crafted):
        found += records_of(manifest["manifest_path"]) if manifest["content"] == content else []
    return found


def test_the_new_vector_takes_in_all_that_was_deleted(crafted: IcebergFiles) -> None:
    totals = {"total-records": "45", "total-data-files": "3", "total-delete-files": "0", "total-files-size": "few"}
    tweaked(crafted, lambda metadata: metadata["snapshots"][-1]["summary"].update(totals))
    writer = writer_of(crafted)
    base = writer.current()
    number = delete(writer, {crafted.paths["a"]: RowSet([5]), crafted.paths["b"]: RowSet([7])})
    snapshot = writer.current()
    assert snapshot.info.id == number
    assert deleted(snapshot) == {"a": RowSet([1, 2, 5]), "b": RowSet([3, 4, 7]), "c": RowSet([1])}
    kinds = sorted((vector.format, vector.data_file is None) for vector in snapshot.vectors)
    assert kinds == [("iceberg", False), ("iceberg", False), ("position-deletes", True)]
    assert sum(one["status"] == 2 for one in entries_of(crafted, 1)) == 2
    files = set(crafted.folder.rglob("*"))
    with pytest.raises(CommitConflict, match="newest"):
        delete(writer, {crafted.paths["a"]: RowSet([6])}, base=base)
    assert set(crafted.folder.rglob("*")) == files
    delete(writer, {crafted.paths["a"]: RowSet.from_ranges([(0, 20)]), crafted.paths["c"]: RowSet([0])})
    snapshot = writer.current()
    assert {file.path for file in snapshot.data_files} == {crafted.paths["b"], crafted.paths["c"]}
    assert {vector.data_file for vector in snapshot.vectors if vector.data_file} == set(snapshot.files)
    summary = metadata_of(crafted)["snapshots"][-1]["summary"]
    assert (summary["deleted-data-files"], summary["deleted-records"]) == ("1", "20")
    assert (summary["added-dvs"], summary["removed-dvs"], summary["operation"]) == ("1", "1", "delete")
    found = {name: text for name, text in summary.items() if name.startswith("total-")}
    assert found == {"total-records": "25", "total-data-files": "2", "total-delete-files": "0"}
    assert audit(open_table(crafted.folder)).ok


def test_sequence_numbers_and_row_ids(crafted: IcebergFiles) -> None:
    before = metadata_of(crafted)
    writer = writer_of(crafted)
    delete(writer, {crafted.paths["a"]: RowSet([5])})
    first, after = metadata_of(crafted)["snapshots"][-1], metadata_of(crafted)
    assert first["sequence-number"] == after["last-sequence-number"] == before["last-sequence-number"] + 1
    assert first["first-row-id"] == before["next-row-id"]
    assert first["added-rows"] == 45  # the crafted manifest had no first row id yet
    assert {one["data_file"].get("first_row_id") for one in entries_of(crafted, 0)} == {None}
    delete(writer, {crafted.paths["b"]: RowSet.from_ranges([(0, 20)])})
    files = [one["data_file"] for one in entries_of(crafted, 0) if one["status"] != 2]
    ids = {file["file_path"].rpartition("/")[2]: file["first_row_id"] for file in files}
    start = before["next-row-id"]
    assert ids == {"a": start, "c": start + 40}  # written out, as the entry between them is gone
    assert metadata_of(crafted)["next-row-id"] == start + 45 + 25
    assert metadata_of(crafted)["snapshots"][-1]["added-rows"] == 25
    numbers = [one["sequence_number"] for one in entries_of(crafted, 0)]
    assert numbers == [1, 1, 1]
    (added,) = (one for one in entries_of(crafted, 1) if one["status"] != 2 and one["data_file"]["content_offset"])
    assert added["sequence_number"] == first["sequence-number"]


def test_other_members_of_the_metadata_stay(crafted: IcebergFiles) -> None:
    refs = {
        "main": {"type": "branch", "snapshot-id": 103, "min-snapshots-to-keep": 3},
        "v1": {"type": "tag", "snapshot-id": 101},
        "other": {"type": "branch", "snapshot-id": 102},
    }
    added = {"refs": refs, "vendor": {"x": [1, 2.5, None]}, "statistics": []}
    before = metadata_of(tweaked(crafted, lambda metadata: metadata.update(added)))
    number = delete(writer_of(crafted), {crafted.paths["a"]: RowSet([5])})
    after = metadata_of(crafted)
    assert after["refs"] == refs | {"main": refs["main"] | {"snapshot-id": number}}
    assert after["current-snapshot-id"] == number
    assert after["snapshots"][:-1] == before["snapshots"]
    assert after["snapshot-log"][:-1] == before["snapshot-log"]
    assert after["snapshot-log"][-1]["snapshot-id"] == number
    assert after["metadata-log"] == [
        {"metadata-file": str(crafted.metadata), "timestamp-ms": before["last-updated-ms"]}
    ]
    changed = {"refs", "current-snapshot-id", "snapshots", "snapshot-log", "metadata-log", "last-updated-ms"}
    changed |= {"last-sequence-number", "next-row-id"}
    assert after.keys() == before.keys()
    assert {name for name, value in after.items() if value != before[name]} == changed


def partitioned(folder: Path, kinds: dict[str, Any], values: list[Any]) -> IcebergFiles:
    """A table whose three data files have one of these values each, in all partition fields."""
    by_name = dict(zip("abc", values, strict=True))
    return build_iceberg(
        folder,
        FIRST,
        spec=[
            {"field-id": 1000 + i, "source-id": 2, "name": field, "transform": "identity"}
            for i, field in enumerate(kinds)
        ],
        partition_types=kinds,
        partition=lambda name: dict.fromkeys(kinds, by_name[name]),
    )


@each(
    ("kind", "values"),
    [
        ("string", ["x", None, "ż☃"]),
        ({"type": "int", "logicalType": "date"}, [19000, -1, None]),
        (
            {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
            [bytes(16), bytes([255] * 16), None],
        ),
        ("double", [float("nan"), -0.0, 1.5]),
    ],
)
def test_partitions_are_carried_over_as_stored(tmp_path: Path, kind: Any, values: list[Any]) -> None:
    crafted = partitioned(tmp_path / "t", {"p": kind}, values)
    writer = writer_of(crafted)
    delete(writer, {crafted.paths[name]: RowSet([4]) for name in "ab"})
    delete(writer, {crafted.paths["c"]: RowSet([4])})
    snapshot = writer.current()
    assert not list(snapshot.plan.mismatched_partitions())
    assert len(snapshot.vectors) == 3
    assert audit(open_table(crafted.folder)).ok


FIXED = {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}


@each(
    ("kinds", "values", "bounds"),
    [
        ([{"type": "int", **DECIMAL}], [2, -1], (b"\xff\xff\xff\xff", b"\x02\x00\x00\x00")),
        ([{"type": "string", **DECIMAL}], ["10", "9"], (b"10", b"9")),
        ([{"type": "bytes", **DECIMAL}], [b"\x00\x05", b"\xff\xfb"], (b"\xfb", b"\x05")),
        ([FIXED, "decimal_9_2"], [b"\0\0\0\x05", b"\xff\xff\xff\xfb"], (b"\xfb", b"\x05")),
        (
            [FIXED | {"namespace": "org.example"}, "org.example.decimal_9_2"],
            [b"\0\0\0\x05", b"\xff\xff\xff\xfb"],
            (b"\xfb", b"\x05"),
        ),
    ],
)
def test_bounds_of_decimals(tmp_path: Path, kinds: list[Any], values: list[Any], bounds: tuple[bytes, bytes]) -> None:
    """They are those of bytes alone; a fixed type that several fields have is named again, as Java writes it."""
    crafted = partitioned(tmp_path / "t", dict(zip("pq", kinds, strict=False)), [*values, values[0]])
    delete(writer_of(crafted), {crafted.paths[name]: RowSet([4]) for name in "ab"})
    (summaries,) = (one["partitions"] for one in manifests_of(crafted) if one["content"] == 1)
    assert [(one["lower_bound"], one["upper_bound"]) for one in summaries] == [bounds] * len(kinds)


def test_new_files_go_where_the_properties_say(crafted: IcebergFiles, tmp_path: Path) -> None:
    """Under random names, so that no file is replaced."""
    other = tmp_path / "other"
    tweaked(crafted, lambda metadata: metadata.update({"properties": {"write.data.path": f"{other}/"}}))
    writer = writer_of(crafted)
    base = writer.current()
    written: list[str] = []
    for _ in range(2):
        writer.write(base, file_deletes(base, {crafted.paths["a"]: RowSet([6])}), written)
    assert sorted(str(path) for path in other.iterdir()) == sorted(written)


TOP = 2**63 - 1


@each(
    ("tweak", "error", "match"),
    [
        ({"format-version": 2}, UsageError, "deletion vectors in a table of format version 2"),
        ({"properties": {"write.delete.mode": "copy-on-write"}}, UsageError, "write.delete.mode"),
        ({"properties": {"write.metadata.path": "/elsewhere"}}, UsageError, "write.metadata.path"),
        ({"properties": {"write.location-provider.impl": "x.Y"}}, Unsupported, "write.location-provider.impl"),
        ({"properties": {"encryption.key-id": "k"}}, Unsupported, "encryption.key-id"),
        ({"encryption-keys": [{"key-id": "k"}]}, Unsupported, "encryption-keys"),
        ({"location": "s3://lake/t"}, UsageError, "moved"),
        ({"next-row-id": None}, Exception, "next-row-id"),
        (
            {"refs": {"main": {"snapshot-id": 103, "type": "tag"}}},
            Unsupported,
            "refs.main: expected a branch, found tag",
        ),
        # deletes would apply to no data file, or the table could not be read
        ({"next-row-id": -5}, NotCanonical, "next-row-id: expected 0 to"),
        ({"last-sequence-number": -2}, NotCanonical, "last-sequence-number: expected 0 to"),
        ({"last-sequence-number": 2}, NotCanonical, "last-sequence-number: expected 3, the highest in use, to"),
        ({"last-sequence-number": TOP}, NotCanonical, f"expected 3, the highest in use, to {TOP - 1}, found {TOP}"),
    ],
)
def test_refused(tmp_path: Path, tweak: dict[str, Any], error: type[Exception], match: str) -> None:
    crafted = tweaked(three_commits(tmp_path), lambda metadata: metadata.update(tweak))
    writer = writer_of(crafted)
    with pytest.raises(error, match=match):
        writer.check(writer.current())


@each(
    ("name", "match"),
    [
        ("_delta_log/0.json", "Delta table"),
        ("metadata/vfinal.metadata.json", r"vfinal\.metadata\.json beside it may be newer: its name has no version"),
    ],
)
def test_files_beside_it_that_are_refused(tmp_path: Path, name: str, match: str) -> None:
    crafted = three_commits(tmp_path)
    (crafted.folder / name).parent.mkdir(exist_ok=True)
    (crafted.folder / name).write_bytes(crafted.metadata.read_bytes())
    writer = writer_of(crafted)
    with pytest.raises(UsageError, match=match):
        writer.check(writer.current())


def files_of(crafted: IcebergFiles) -> set[Path]:
    return {path for path in Path(crafted.folder).rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("tweak", "match"),
    [
        ({"x": [1e999]}, "v[0-9]+.metadata.json: table metadata: expected what JSON can represent"),
        ({"next-row-id": 2**63 - 1}, "next-row-id: expected a 64-bit number, found 92233"),
    ],
)
def test_what_cannot_be_written_leaves_nothing(crafted: IcebergFiles, tweak: dict[str, Any], match: str) -> None:
    tweaked(crafted, lambda metadata: metadata.update(tweak))
    before = files_of(crafted)
    with pytest.raises(NotCanonical, match=match):
        delete(writer_of(crafted), {crafted.paths["a"]: RowSet([5])})
    assert files_of(crafted) == before


def optional(schema: dict[str, Any]) -> None:
    """Let all fields be null."""
    for field in schema["fields"]:
        if not isinstance(field["type"], list):
            field.update(type=["null", field["type"]], default=None)


def test_manifests_without_what_all_have_are_refused(crafted: IcebergFiles) -> None:
    base, path = writer_of(crafted).current(), Path(metadata_of(crafted)["snapshots"][-1]["manifest-list"])
    rewrite(path, schema=optional, record=lambda manifest: manifest.update(manifest_length=None))
    before = files_of(crafted)
    with pytest.raises(NotCanonical, match="manifest_length of a manifest: expected a value, found null"):
        delete(writer_of(crafted), {crafted.paths["a"]: RowSet([5])}, base=base)
    assert files_of(crafted) == before


@pytest.mark.parametrize("form", ["v{}.metadata.json", "{}-aa.metadata.json"])
def test_versions_that_no_engine_reads_are_not_written(tmp_path: Path, form: str) -> None:
    crafted = build_iceberg(tmp_path / "t", FIRST)
    crafted.metadata.with_name("version-hint.text").unlink()
    last = crafted.metadata.rename(crafted.metadata.with_name(form.format(2**31 - 1)))
    before = files_of(crafted)
    table = open_table(crafted.folder, only_writer=not form.startswith("v"))
    for act in (lambda: delete(committer(table), {crafted.paths["a"]: RowSet([5])}), lambda: upgrade_deletes(table)):
        with pytest.raises(UsageError, match=f"{last.name}: the next metadata file needs a version above 2147483647"):
            act()
    assert files_of(crafted) == before


def test_metadata_that_is_removed_before_it_is_read(crafted: IcebergFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer committed meanwhile, and removed what it replaced."""
    writer = writer_of(crafted)
    seen = []

    def late(folder: Any) -> Any:
        monkeypatch.undo()
        seen.append(delete(writer_of(crafted), {crafted.paths["a"]: RowSet([5])}))
        raise FileNotFoundError(folder.location)

    monkeypatch.setattr("dvcodec.tables.iceberg.table.open", late)
    assert [writer.current().info.id] == seen


OTHER_TABLE = {
    "table-uuid": "0c12d441-03fe-4693-9a96-a0705ddf69c1",
    "snapshots": [],
    "current-snapshot-id": -1,
    "refs": {},
}


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("another", [True, False])
def test_a_table_that_was_dropped_gets_no_commit(
    another: bool, late: bool, crafted: IcebergFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one was created in its folder, or not yet: while rows were looked for, or at the very end."""
    write = SnapshotWriter.write

    def drop() -> None:
        if another:
            tweaked(crafted, lambda metadata: metadata.update(OTHER_TABLE))
        else:
            crafted.metadata.unlink()

    def write_then_drop(self: Any, replacement: Any) -> Any:
        change = write(self, replacement)
        drop()
        return change

    writer = writer_of(crafted)
    base = writer.current()
    writer.check(base)
    deletes = file_deletes(base, {crafted.paths["a"]: RowSet([5])})
    written = writer.write(base, deletes, [])
    monkeypatch.setattr(SnapshotWriter, "write", write_then_drop) if late else drop()
    with pytest.raises(CommitConflict if another or late else FileNotFoundError, match=r"dropped|v1\.metadata\.json"):
        writer.commit(base, deletes, written, [])
    assert [path.name for path in (crafted.folder / "metadata").glob("v*.json")] == ["v1.metadata.json"] * another


@each(
    ("before", "after", "why"),
    [("1\n", "2\n", ""), ("1", "2", ""), ("", "", "no older version"), (None, None, "No such file")],
)
def test_a_version_hint_on_a_full_disk(
    tmp_path: Path, before: str | None, after: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written in the place of the old one. If that cannot be either, there is a warning: the commit is done."""
    crafted = build_iceberg(tmp_path, FIRST)
    hint = crafted.folder / "metadata" / "version-hint.text"
    hint.unlink() if before is None else hint.write_text(before)
    warn = Mock()
    monkeypatch.setattr("dvcodec.tables.iceberg.folder_place._LOGGER.warning", warn)
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("dvcodec.tables.iceberg.folder_place.open_sink", full)
    number = delete(writer_of(crafted), {crafted.paths["a"]: RowSet([5])})
    assert (hint.read_text() if hint.exists() else None) == after
    assert open_table(crafted.folder).snapshot().info.id == number
    said = [why in str(call.args[2]) and call.args[1] == str(hint) for call in warn.call_args_list]
    assert said == [True] * bool(why)


def test_a_vector_in_the_place_of_another_stays(tmp_path: Path) -> None:
    """Only the vector of the data file that loses rows is replaced, though the metadata has two at one place."""
    commit = Commit(data={"a": 20, "b": 20}, vectors={"a": RowSet([1, 2]), "b": RowSet([3, 4])})
    crafted = build_iceberg(tmp_path / "t", commit, tweak_entry=altered({"content_offset": 4}, content=1))
    delete(writer_of(crafted), {crafted.paths["a"]: RowSet([7])})
    vectors_of = {str(one.data_file): one for one in open_table(crafted.folder).snapshot().vectors}
    assert vectors_of[crafted.paths["b"]].offset == 4
    assert vectors_of[crafted.paths["a"]].path != vectors_of[crafted.paths["b"]].path


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_new_vector_that_leaves_deletes_out_is_refused(crafted: IcebergFiles, name: str) -> None:
    """Those of a vector, and of position deletes for its data file alone."""
    writer = writer_of(crafted)
    base = writer.current()
    deletes = [replace(one, replaced=()) for one in file_deletes(base, {crafted.paths[name]: RowSet([7])})]
    with pytest.raises(UsageError, match=f"applies to .*/{name}, and the new vector does not include it"):
        writer.commit(base, deletes, writer.write(base, deletes, []), [])


def test_encrypted_files_are_refused(tmp_path: Path) -> None:
    """A vector of an encrypted data file would be readable by all; nor is an encrypted manifest carried over."""
    files = build_iceberg(tmp_path / "files", FIRST, tweak_entry=altered({"key_metadata": b"k"}, content=0))
    with pytest.raises(Unsupported, match="data/a: file: expected no encryption, found key_metadata"):
        delete(writer_of(files), {files.paths["a"]: RowSet([5])})
    crafted = build_iceberg(tmp_path / "manifests", FIRST)
    writer = writer_of(crafted)
    base = writer.current()
    deletes = file_deletes(base, {crafted.paths["a"]: RowSet([5])})
    rewrite(crafted.folder / "metadata" / "snap-101.avro", record=lambda one: one.update(key_metadata=b"k"))
    with pytest.raises(Unsupported, match=r"snap-101\.avro: manifest: expected no encryption"):
        writer.commit(base, deletes, writer.write(base, deletes, []), [])


def test_counts_that_a_manifest_list_lacks_are_filled_in(tmp_path: Path) -> None:
    """They are optional in lists of version 1."""
    crafted = build_iceberg(tmp_path / "t", FIRST, Commit(data={"d": 7}))

    def without(record: dict[str, Any]) -> None:
        record.update({name: None for name in record if name.endswith("_count")})

    rewrite(crafted.folder / "metadata" / "snap-102.avro", schema=optional, record=without)
    delete(writer_of(crafted), {crafted.paths["b"]: RowSet([5])})
    (data,) = (one for one in manifests_of(crafted) if one["content"] == 0)
    words = [f"{word}_{what}_count" for what in ("files", "rows") for word in ("added", "existing", "deleted")]
    assert [data[word] for word in words] == [1, 3, 0, 7, 45, 0]
    assert audit(open_table(crafted.folder)).ok


def test_sequence_numbers_that_an_added_file_names_stay(tmp_path: Path) -> None:
    crafted = build_iceberg(tmp_path / "t", FIRST)
    named = {"sequence_number": 1, "file_sequence_number": 1, "snapshot_id": 101}
    rewrite(crafted.folder / "metadata" / "manifest-1-0.avro", record=lambda entry: entry.update(named))
    delete(writer_of(crafted), {crafted.paths["c"]: RowSet.from_ranges([(0, 5)])})
    entries = entries_of(crafted, 0)
    assert sorted(entry["status"] for entry in entries) == [0, 0, 2]
    assert {entry["file_sequence_number"] for entry in entries} == {1}


def test_a_snapshot_id_that_is_taken_is_drawn_again(crafted: IcebergFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([101, 0, 103, 7])
    monkeypatch.setattr("dvcodec.tables.iceberg.snapshot_writer.secrets.randbits", lambda _: next(drawn))
    assert delete(writer_of(crafted), {crafted.paths["a"]: RowSet([5])}) == 7


def test_unknown_fields_of_manifests_are_refused_by_name(tmp_path: Path) -> None:
    crafted = build_iceberg(tmp_path / "t", FIRST)

    def add(schema: dict[str, Any]) -> None:
        fields = next(one for one in schema["fields"] if one["name"] == "data_file")["type"]["fields"]
        fields.append({"name": "novelty", "type": ["null", "int"], "default": None, "field-id": 199})

    rewrite(crafted.folder / "metadata" / "manifest-1-1.avro", schema=add)
    with pytest.raises(Unsupported, match="novelty"):
        delete(writer_of(crafted), {crafted.paths["a"]: RowSet([5])})


def test_logs_are_bounded_and_old_metadata_is_removed(crafted: IcebergFiles) -> None:
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.compression-codec": "gzip",
        "commit.retry.num-retries": "9",
        "commit.retry.min-wait-ms": "x",
    }
    writer = writer_of(tweaked(crafted, lambda metadata: metadata["properties"].update(properties)))
    assert writer.retries(writer.current()) == Retries(number=9)
    for row in range(5, 9):
        delete(writer, {crafted.paths["a"]: RowSet([row])})
    names = sorted(path.name for path in (crafted.folder / "metadata").glob("v*.metadata.json"))
    assert names == [f"v{number}.gz.metadata.json" for number in (3, 4, 5)]
    assert (crafted.folder / "metadata" / "version-hint.text").read_text() == "5"
    assert deleted(open_table(crafted.folder).snapshot())["a"] == RowSet([1, 2, 5, 6, 7, 8])
    assert audit(open_table(crafted.folder)).ok


@pytest.mark.parametrize("name", ["precious.txt", "t/data/a", "t/metadata/v2.metadata.json", "v0.metadata.json"])
def test_a_log_removes_nothing_but_older_metadata_of_its_own(tmp_path: Path, name: str) -> None:
    """A log may name any file: of another owner, of the table's rows, and the one that this commit writes."""
    properties = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}
    named = tmp_path / name
    crafted = build_iceberg(
        tmp_path / "t",
        FIRST,
        properties=properties,
        tweak=lambda one: one | {"metadata-log": [{"timestamp-ms": 1, "metadata-file": str(named)}]},
    )
    if not name.startswith("t/"):
        named.write_text("precious")
    delete(writer_of(crafted), {crafted.paths["a"]: RowSet([5])})
    assert named.exists()
    assert deleted(open_table(crafted.folder).snapshot())["a"] == RowSet([1, 2, 5])


@pytest.mark.parametrize(
    ("properties", "expected"),
    [({}, [1, 2, 3, 4, 5, 1, 2, 3, 4]), ({"commit.manifest-merge.enabled": "false"}, [1, 2, 3, 4, 5, 6, 7, 8, 9])],
)
def test_many_manifests_of_deletes_are_merged(tmp_path: Path, properties: dict[str, str], expected: list[int]) -> None:
    names = [f"f{number}" for number in range(9)]
    properties = {"commit.manifest.min-count-to-merge": "5", **properties}
    crafted = build_iceberg(tmp_path / "t", Commit(data=dict.fromkeys(names, 9)), properties=properties)
    writer = writer_of(crafted)
    counts = []
    for name in names:
        delete(writer, {crafted.paths[name]: RowSet([3])})
        counts.append(sum(one["content"] == 1 for one in manifests_of(crafted)))
    assert counts == expected
    assert deleted(open_table(crafted.folder).snapshot()) == dict.fromkeys(names, RowSet([3]))
    assert audit(open_table(crafted.folder)).ok
