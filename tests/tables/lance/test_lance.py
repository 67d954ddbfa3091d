"""Datasets by pylance, whole, and what is made of damaged ones."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec import (
    CardinalityMismatch,
    DecodeError,
    MissingExtra,
    NotCanonical,
    RowSet,
    Unsupported,
    UsageError,
    lance,
)
from dvcodec.lance import wire
from dvcodec.tables import TableKind, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.lance import DeletionRecord, FragmentRecord, LanceTable
from dvcodec.tables.lance import open as open_dataset
from dvcodec.tables.lance.table import _refusals

from .truth import check_metadata, check_rows

NAMES = ("life", "life-v1", "life-stable", "kinds")


@pytest.fixture(scope="module")
def datasets(own_vectors: Path) -> Path:
    (folder,) = (own_vectors / "tables" / "lance").iterdir()
    return folder


def truth(datasets: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((datasets / f"{name}.json").read_text())
    return found


def test_all_committed_datasets_are_tested(datasets: Path) -> None:
    assert {path.name for path in datasets.iterdir() if path.is_dir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_version_is_as_pylance_says(datasets: Path, name: str) -> None:
    table = open_table(datasets / name)
    assert isinstance(table, LanceTable)
    assert table.kind is TableKind.LANCE
    check_metadata(table, truth(datasets, name))


@pytest.mark.interop
@pytest.mark.parametrize("name", NAMES)
def test_live_rows_are_as_pylance_says(datasets: Path, name: str) -> None:
    pytest.importorskip("lance.fragment")
    check_rows(open_dataset(str(datasets / name)), truth(datasets, name), batch_rows=7 if "life" in name else 5000)


def test_every_stored_file_is_referenced_and_another_is_not(datasets: Path, tmp_path: Path) -> None:
    shutil.copytree(datasets / "life", tmp_path / "t")
    table = open_dataset(str(tmp_path / "t"))
    assert {file.location for file in table.stored_files()} <= table.referenced()
    strays = [tmp_path / "t" / name for name in ("data/stray.lance", "_deletions/0-1-2.arrow", "_transactions/a.txn")]
    for stray in strays:
        stray.touch()
    blob = Path(table.snapshot().data_files[0].location).with_suffix("") / "blob"
    other = tmp_path / "t" / "_indices" / "some" / "index.idx"
    for needed in (blob, other):
        needed.parent.mkdir(parents=True)
        needed.touch()
    assert {file.location for file in table.stored_files()} - table.referenced() == set(map(str, strays))


# ---------------------------------------------------------------------- crafted manifests


def timestamp(seconds: int, nanoseconds: int) -> bytes:
    return wire.message(7, wire.scalar(1, seconds % 2**64), wire.scalar(2, nanoseconds))


def data_file(path: str, *, size: int = 0, base: int | None = None) -> bytes:
    return wire.message(1, path.encode()) + wire.scalar(6, size) + (b"" if base is None else b"\x38" + bytes([base]))


def fragment(number: int, *files: bytes, rows: int = 4, deletions: bytes | None = None) -> bytes:
    parts = [wire.scalar(1, number), *(wire.message(2, file) for file in files), wire.scalar(4, rows)]
    return wire.message(2, *parts, b"" if deletions is None else wire.message(3, deletions))


def dataset(folder: Path, *parts: bytes, version: int = 3, name: int | None = None) -> LanceTable:
    """A dataset of one manifest."""
    body = b"".join([*parts, wire.scalar(3, version)])
    (folder / "_versions").mkdir(exist_ok=True)
    file = folder / "_versions" / lance.manifest_name(name or version)
    file.write_bytes(struct.pack("<I", len(body)) + body + struct.pack("<qhh4s", 0, 0, 2, b"LANC"))
    return open_dataset(str(folder))


def base(number: int, path: str, *, root: bool) -> bytes:
    return wire.message(18, wire.scalar(1, number), wire.scalar(3, int(root)), wire.message(4, path.encode()))


ARROW = wire.scalar(2, 1) + wire.scalar(3, 77) + wire.scalar(4, 2)
"""A deletion file of the Arrow kind: read version 1, id 77, 2 rows."""


def test_files_of_base_paths(tmp_path: Path) -> None:
    table = dataset(
        tmp_path,
        fragment(0, data_file("a.lance", size=10, base=1), data_file("b.lance", size=5), deletions=ARROW + b"\x38\x01"),
        fragment(1, data_file("c.lance", base=2)),
        fragment(2, data_file("d.lance", size=7), deletions=ARROW),
        base(1, "/else/where", root=True),
        base(2, "s3://bucket/files", root=False),
        timestamp(1_700_000_000, 999_999_999),
    )
    snapshot = table.snapshot()
    assert snapshot.info.timestamp_ms == 1_700_000_000_999
    assert [(file.path, file.location, file.size) for file in snapshot.data_files] == [
        ("/else/where/data/a.lance", "/else/where/data/a.lance", 15),
        ("s3://bucket/files/c.lance", "s3://bucket/files/c.lance", None),
        ("data/d.lance", f"{tmp_path}/data/d.lance", 7),
    ]
    assert snapshot.data_files[0].files == ("/else/where/data/a.lance", "data/b.lance")
    assert [(vector.data_file, vector.location) for vector in snapshot.vectors] == [
        ("/else/where/data/a.lance", "/else/where/_deletions/0-1-77.arrow"),
        ("data/d.lance", f"{tmp_path}/_deletions/2-1-77.arrow"),
    ]
    assert "/else/where/_deletions/0-1-77.arrow" in table.referenced()


@each(
    ("parts", "error", "text"),
    [
        ([fragment(0, data_file("a.lance", base=1))], NotCanonical, "base path: expected one of the manifest's: none"),
        (
            [fragment(0, data_file("a.lance", base=1)), base(1, "here", root=True)],
            Unsupported,
            "base path: expected an absolute path or a URL, found 'here'",
        ),
        (
            [fragment(0, data_file("a.lance"), deletions=ARROW + b"\x38\x01"), base(1, "/here", root=False)],
            NotCanonical,
            "base path of the deletion file of fragment 0",
        ),
        ([fragment(0)], NotCanonical, "fragment 0: expected a data file, found none"),
        ([fragment(0, data_file("../a.lance"))], NotCanonical, "path of a data file"),
        ([fragment(0, data_file("/a.lance"))], NotCanonical, "path of a data file"),
        ([fragment(0, data_file("s3://b/a.lance"))], NotCanonical, "path of a data file"),
        ([fragment(0, data_file(""))], NotCanonical, "path of a data file"),
        ([fragment(3, data_file("a")), fragment(3, data_file("b"))], NotCanonical, "fragments of one id.*2 of 3"),
        ([fragment(3, data_file("a")), fragment(4, data_file("a"))], NotCanonical, "fragments of one data file"),
        ([wire.scalar(9, 1 | 1 << 8)], Unsupported, "features that a reader has to know.*found 0x101"),
    ],
)
def test_manifests_that_are_refused(tmp_path: Path, parts: list[bytes], error: type[DecodeError], text: str) -> None:
    table = dataset(tmp_path, *parts)
    with pytest.raises(error, match=text):
        table.snapshot()


def test_the_name_of_a_manifest_says_its_version(tmp_path: Path) -> None:
    table = dataset(tmp_path, version=3, name=4)
    with pytest.raises(NotCanonical, match=r"version: expected 4 \(its name\), found 3"):
        table.snapshots()


def test_versions_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no version 9"):
        dataset(tmp_path).snapshot(9)
    (tmp_path / "none" / "_versions").mkdir(parents=True)
    with pytest.raises(UsageError, match="no version of a Lance dataset"):
        open_dataset(str(tmp_path / "none"))


@pytest.mark.parametrize("name", [lance.manifest_name(3, "V1"), "03.manifest"])
def test_two_manifests_of_one_version(tmp_path: Path, name: str) -> None:
    """Which of them was read depended on the order of the listing."""
    table = dataset(tmp_path, fragment(0, data_file("a.lance")))
    (tmp_path / "other").mkdir()
    other = dataset(tmp_path / "other", fragment(0, data_file("b.lance")))
    shutil.copy(next(iter(other.manifests().values())), tmp_path / "_versions" / name)
    for read in (table.snapshot, table.snapshots, lambda: lance.find_manifest(str(tmp_path), 3)):
        with pytest.raises(NotCanonical, match=r"manifests of version 3: expected one, found .* and "):
            read()


def test_a_detached_version_is_not_the_newest(tmp_path: Path) -> None:
    """Its number has the highest bit, whatever scheme its name is of."""
    table = dataset(tmp_path, fragment(0, data_file("a.lance")))
    for name in (f"{2**63 + 5}.manifest", "00000000000000000005.manifest"):
        (tmp_path / "_versions" / name).write_bytes(b"")
    assert [info.id for info in table.snapshots()] == [3]
    assert table.snapshot().info.id == 3
    assert lance.find_manifest(str(tmp_path)) == table.manifests()[3]


def test_without_its_transaction_file_a_version_has_no_operation(tmp_path: Path) -> None:
    table = dataset(tmp_path, wire.message(12, b"2-x.txn"))
    assert table.snapshots()[0].operation is None
    (tmp_path / "_transactions").mkdir()
    (tmp_path / "_transactions" / "2-x.txn").write_bytes(wire.message(101))
    assert table.snapshots()[0].operation == "Delete"


# ---------------------------------------------------------------------- damage


@pytest.fixture
def damaged(datasets: Path, tmp_path: Path) -> Callable[[str], LanceTable]:
    def copy(name: str) -> LanceTable:
        shutil.copytree(datasets / name, tmp_path / name)
        return open_dataset(str(tmp_path / name))

    return copy


def test_a_deletion_file_of_other_rows(damaged: Callable[[str], LanceTable]) -> None:
    table = damaged("life")
    snapshot = table.snapshot(3)
    first, second = snapshot.vectors[:2]
    assert first.cardinality != second.cardinality
    shutil.copy(second.location, first.location)
    with pytest.raises(CardinalityMismatch, match="deleted rows"):
        snapshot.read(first)
    assert snapshot.read(second)[0].rows


def test_a_deletion_file_of_the_other_kind(damaged: Callable[[str], LanceTable]) -> None:
    table = damaged("kinds")
    snapshot = table.snapshot(2)
    vector = next(vector for vector in snapshot.vectors if DeletionRecord.of(vector).file.kind == "arrow")
    (found,) = snapshot.read(vector)
    number = lance.write_deletion_file(table.location, found.rows, fragment=0, read_version=1, kind="bin")
    shutil.copy(number.path(table.location), vector.location)
    (finding,) = snapshot.check_container(vector.location, [vector])
    assert (finding.check, finding.expected, finding.actual) == ("kind", "arrow", "bin")


def test_a_record_of_another_file_and_of_a_later_version(datasets: Path) -> None:
    table = open_dataset(str(datasets / "life"))
    snapshot = table.snapshot(3)
    one, other = snapshot.vectors[:2]
    assert "name" in [finding.check for finding in snapshot.check_container(one.location, [other])]
    started = DeletionRecord.of(one).file.read_version
    early = replace(snapshot, info=replace(snapshot.info, id=started))
    assert [finding.check for finding in early.check_container(one.location, [one])] == ["read-version"]


def test_positions_beyond_the_fragment(damaged: Callable[[str], LanceTable]) -> None:
    table = damaged("life")
    snapshot = table.snapshot(2)
    vector = snapshot.vectors[0]
    count = vector.cardinality or 0
    rows = RowSet([*range(count - 1), 20])
    file = lance.write_deletion_file(table.location, rows, fragment=0, read_version=1, kind="arrow")
    shutil.copy(file.path(table.location), vector.location)
    with pytest.raises(NotCanonical, match=r"row offset: expected below 20 \(physical rows\), found 20"):
        snapshot.read(vector)


def test_each_file_of_a_fragment_is_looked_for(damaged: Callable[[str], LanceTable]) -> None:
    table = damaged("life")
    folder = Path(table.location)
    file = max(table.snapshot(5).data_files, key=lambda file: len(file.files))
    second = folder / file.files[1]
    second.write_bytes(second.read_bytes() + b"x")
    assert [(one.check, one.data_file) for one in audit(table, 5).findings] == [("data-file-size", file.path)]
    second.unlink()
    (finding,) = audit(table, 5).findings
    assert (finding.check, finding.actual) == ("missing-data-file", f"no such file: {second}")


# ---------------------------------------------------------------------- rows


def test_rows_need_pylance(datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lance.dataset", None)
    table = open_dataset(str(datasets / "life"))
    with pytest.raises(MissingExtra, match=r"pip install 'dvcodec\[lance\]'"):
        table.snapshot().schema()


@pytest.mark.interop
def test_chosen_columns(datasets: Path) -> None:
    pytest.importorskip("lance.fragment")
    table = open_dataset(str(datasets / "life"))
    snapshot = table.snapshot(2)
    file = snapshot.data_files[1]
    rows = list(snapshot.rows(file, columns=["text", "key"], batch_rows=6))
    assert [(part.start, part.batch.num_rows) for part in rows] == [(0, 6), (6, 6), (12, 6), (18, 2)]
    assert rows[0].batch.schema.names == ["text", "key"]
    assert rows[0].batch["key"].to_pylist() == [20, 21, 22, 23, 24, 25]
    none = list(snapshot.rows(file, columns=[], batch_rows=16))
    assert [(part.start, part.batch.num_rows, part.batch.num_columns) for part in none] == [(0, 16, 0), (16, 4, 0)]
    with pytest.raises(UsageError, match="no column 'nope': it has key, value, text, list"):
        next(snapshot.rows(file, columns=["nope"]))


@pytest.mark.interop
def test_other_rows_than_the_manifest_says(datasets: Path) -> None:
    pytest.importorskip("lance.fragment")
    table = open_dataset(str(datasets / "life"))
    snapshot = table.snapshot(2)
    file = snapshot.data_files[0]
    other = type(file)(file.path, file.location, 21, record=file.record)
    with pytest.raises(NotCanonical, match="rows of fragment 0: expected 21, found 20"):
        list(snapshot.rows(other))
    gone = replace(file, record=FragmentRecord(99, 0))
    with pytest.raises(UsageError, match="no fragment 99"):
        list(snapshot.rows(gone))


# -------------------- what Lance's library raises over damaged files becomes an error of this library, its panics too


PanicException = type("PanicException", (BaseException,), {})


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyError, PanicException])
def test_a_refusal(kind: type[BaseException]) -> None:
    with (
        pytest.raises(NotCanonical, match="f: fragment 1: expected what Lance can read, found "),
        _refusals("f", "fragment 1"),
    ):
        raise kind("column")
