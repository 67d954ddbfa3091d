"""audit: every damage is found, named and placed; an older snapshot that is whole is named."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cases import each
from cli_runner import run
from dvcodec import DecodeError, RowSet, UsageError
from dvcodec.core.errors import LimitExceeded, MissingExtra, NotCanonical
from dvcodec.io import ListedFiles
from dvcodec.tables import Folder, open_table
from dvcodec.tables.auditing import Audit, audit
from dvcodec.tables.model import DeletionVector
from dvcodec.tables.snapshots.findings import Severity
from dvcodec.tables.snapshots.rules import overlaps
from samples.damages import (
    beyond,
    equal_vector,
    flipped_bit,
    gone_file,
    second_vector,
    stale_blob,
    wrong_count,
    wrong_size,
)
from samples.delta_log import NEW, restored_table
from samples.iceberg_table import Commit, build_iceberg
from samples.memory_table import ROWS, FakeTable, changed, make_table, write_vectors


def checks(found: Audit) -> list[str]:
    return [finding.check for finding in found.findings]


def test_a_valid_table(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    steps: list[tuple[int, int]] = []
    found = audit(table, progress=lambda done, total: steps.append((done, total)))
    assert found.findings == ()
    assert found.ok
    assert (found.counts.data_files, found.counts.vectors, found.counts.containers) == (4, 3, 1)
    assert found.counts.stored_files == 5
    assert [file.deleted for file in found.scan.files] == [3, ROWS, 3, 0]
    assert steps == [(3, 4), (4, 4)]
    plain = json.loads(json.dumps(found.to_dict()))
    assert list(plain) == ["table", "kind", "snapshot", "ok", "older", "counts", "findings", "notes"]
    assert plain["snapshot"] == {"id": 2, "timestamp_ms": 2_000, "operation": "delete", "parent": 1}
    assert plain["counts"]["stored_files"] == 5
    assert plain["counts"]["errors"] == plain["counts"]["warnings"] == plain["counts"]["infos"] == 0
    assert audit(table, 1).findings == ()
    with pytest.raises(UsageError, match="no snapshot 9"):
        audit(table, 9)


Damage = Callable[[FakeTable, Path], None]


def swapped_blobs(table: FakeTable, folder: Path) -> None:
    """Two vectors of one cardinality, each in the place of the other."""
    a, _, c = table.snapshot().vectors
    swapped = (
        replace(a, offset=c.offset, size=c.size),
        replace(c, offset=a.offset, size=a.size),
    )
    assert a.cardinality == c.cardinality
    changed(table, *swapped, drop=[a, c])


def truncated(table: FakeTable, folder: Path) -> None:
    path = Path(table.snapshot().vectors[0].location)
    path.write_bytes(path.read_bytes()[:30])


def missing(table: FakeTable, folder: Path) -> None:
    Path(table.snapshot().vectors[0].location).unlink()


def overlapping(table: FakeTable, folder: Path) -> None:
    vector = table.snapshot().vectors[0]
    changed(table, replace(vector, data_file=table.snapshot().data_files[3].path))


def stale_path(table: FakeTable, folder: Path) -> None:
    changed(table, *write_vectors(folder, "more", {"s3://old/data/d.parquet": RowSet([5])}))


def missing_data(table: FakeTable, folder: Path) -> None:
    Path(table.snapshot().data_files[2].location).unlink()


def grown_data(table: FakeTable, folder: Path) -> None:
    with Path(table.snapshot().data_files[2].location).open("ab") as file:
        file.write(b"x")


def moved(table: FakeTable, folder: Path) -> None:
    table.folder = Folder(str(folder), recorded="s3://lake/t")


A, C, D = "a.parquet", "c.parquet", "d.parquet"
CASES: list[tuple[Damage, list[tuple[str, str | None]]]] = [
    (flipped_bit, [("crc", A)]),
    (swapped_blobs, [("referenced-data-file", C), ("referenced-data-file", A)]),
    (wrong_count, [("cardinality", A), ("blob-cardinality", A)]),
    (second_vector, [("different-vectors", A)]),
    (equal_vector, [("equal-vectors", A)]),
    (
        truncated,
        [("length", A), ("length", "b.parquet"), ("length", C), ("file-size", None), ("container", None)],
    ),
    (missing, [("missing-file", A), ("missing-file", "b.parquet"), ("missing-file", C)]),
    (beyond, [("rows", D)]),
    (overlapping, [("overlap", D), ("referenced-data-file", D)]),
    (stale_path, [("stale-path", D)]),
    (gone_file, [("gone-data-file", "z.parquet")]),
    (stale_blob, [("stale-blob-path", A)]),
    (wrong_size, [("file-size", None)]),
    (partial(wrong_size, size=0), [("file-size", None)]),
    (missing_data, [("missing-data-file", C)]),
    (grown_data, [("data-file-size", C)]),
    (moved, [("moved", None)]),
]
WARNINGS = {"gone-data-file", "moved"}


@each(("damage", "expected"), CASES, ids=[getattr(damage, "__name__", "no_size") for damage, _ in CASES])
def test_damage_is_found_named_and_placed(
    damage: Damage, expected: list[tuple[str, str | None]], tmp_path: Path
) -> None:
    table = make_table(tmp_path)
    damage(table, tmp_path)
    found = audit(table, threads=2)
    assert [(one.check, one.data_file and Path(one.data_file).name) for one in found.findings] == expected
    assert found.ok is ({name for name, _ in expected} <= WARNINGS)
    for finding in found.findings:
        assert finding.severity is (Severity.WARNING if finding.check in WARNINGS else Severity.ERROR)
        assert f"expected {finding.expected}, found {finding.actual}" in finding.message
        assert finding.path is not None
        if finding.check != "moved":
            assert finding.snapshot == 2
        if finding.check not in {"missing-data-file", "data-file-size", "moved"}:
            assert finding.vector == finding.vectors[0].where
    json.dumps(found.to_dict())


def test_orphans(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    write_vectors(tmp_path, "orphan", {"x": RowSet([1])})
    for name in ("data/orphan.parquet", "data/.a.parquet.crc", "data/_SUCCESS", "metadata/m.avro"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    os.utime(tmp_path / "data/orphan.parquet", (0, 0))
    found = audit(table)
    assert checks(found) == ["orphan-data-file", "orphan-vector-file"]
    assert found.ok
    data, vector = found.findings
    assert (data.path, data.severity) == (str(tmp_path / "data/orphan.parquet"), Severity.INFO)
    assert data.details["size"] == 5
    assert abs(data.details["age_seconds"] - time.time()) < 1000
    assert "in progress" not in data.message
    assert vector.details["age_seconds"] < 1000
    assert "in progress" in vector.message
    assert audit(table, orphans=False).findings == ()
    assert audit(table, orphans=False).counts.stored_files is None


def test_orphans_that_cannot_be_determined(tmp_path: Path) -> None:
    class Unlisted(FakeTable):
        def stored_files(self) -> ListedFiles:
            raise PermissionError(13, "Permission denied", self.location)

    class Unreferenced(FakeTable):
        def referenced(self) -> frozenset[str]:
            raise NotCanonical("manifest", source="m.avro")

    made = make_table(tmp_path)
    assert checks(audit(Unlisted(str(tmp_path), made.states))) == ["listing"]
    (finding,) = audit(Unreferenced(str(tmp_path), made.states)).findings
    assert (finding.check, finding.severity) == ("references", Severity.WARNING)
    assert "m.avro" in finding.message


@pytest.mark.parametrize(
    ("error", "check"),
    [
        (FileNotFoundError("vectors"), "missing-file"),
        (PermissionError("vectors"), "unreadable-file"),
        (LimitExceeded("vectors", expected="1 byte", actual="2"), "container"),
        (MissingExtra("vectors", "arrow"), None),
    ],
)
def test_a_file_of_vectors_that_goes_while_it_is_checked(
    error: Exception, check: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with the file is a finding; a package that is not installed is an error."""

    def gone(*_: object) -> Any:
        raise error

    table = make_table(tmp_path)
    monkeypatch.setattr(FakeTable, "check_container", gone)
    if check is None:
        with pytest.raises(MissingExtra, match=r"dvcodec\[arrow\]"):
            audit(table)
        return
    (finding,) = audit(table).findings
    assert (finding.check, len(finding.vectors)) == (check, 3)
    assert finding.path == table.snapshot().vectors[0].location
    assert "vectors" in finding.message


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_files_that_are_needed_by_another_way_to_them(tmp_path: Path) -> None:
    """The metadata names its files whole, the table is opened through a link; and a needed file is one itself."""
    made = make_table(tmp_path / "t")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    state = made.states[-1]
    (tmp_path / "t/data/d.parquet").rename(tmp_path / "t/data/real.parquet")
    (tmp_path / "t/data/d.parquet").symlink_to("real.parquet")
    write_vectors(tmp_path / "t", "orphan", {"x": RowSet([1])})
    for folder, location in ((tmp_path / "link", "{}"), (tmp_path / "t", "file://{}"), (tmp_path / "link", "file:{}")):
        files = tuple(replace(file, location=location.format(file.location)) for file in state.data_files)
        table = FakeTable(str(folder), [replace(state, data_files=files)])
        assert [(one.check, one.path) for one in audit(table).findings] == [
            ("orphan-vector-file", str(folder / "data/orphan.puffin"))
        ]


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_data_files_behind_a_linked_folder(tmp_path: Path) -> None:
    """Listing does not follow links to folders, but the files behind them are there."""
    table = make_table(tmp_path / "t")
    elsewhere = (tmp_path / "t/data").rename(tmp_path / "elsewhere")
    (tmp_path / "t/data").symlink_to(elsewhere)
    assert audit(table).findings == ()
    (elsewhere / "c.parquet").unlink()
    with (elsewhere / "d.parquet").open("ab") as file:
        file.write(b"x")
    assert checks(audit(table)) == ["missing-data-file", "data-file-size"]


# ----------------------------------------- where the current snapshot is damaged, an older one that is whole is named


def iceberg(root: Path, _: Path) -> Path:
    build_iceberg(root, Commit({"a": 9}), Commit(vectors={"a": RowSet([1])}), Commit(vectors={"a": RowSet([1, 2])}))
    (newest,) = (root / "metadata").glob("*.metadata.json")
    shutil.copy(newest, newest.with_name("v2.metadata.json"))
    (root / "metadata/version-hint.text").unlink(missing_ok=True)
    return root


def delta(root: Path, _: Path) -> Path:
    return restored_table(root)


def paimon(root: Path, vectors: Path) -> Path:
    return Path(shutil.copytree(vectors / "tables/paimon/java-1.4.2/changed64/table", root))


def lance(root: Path, vectors: Path) -> Path:
    return Path(shutil.copytree(vectors / "tables/lance/pylance-14.0.2/life", root))


def list_of_snapshot_7(root: Path) -> str:
    return f"manifest/{json.loads((root / 'snapshot/snapshot-7').read_text())['deltaManifestList']}"


@each(
    ("make", "damaged", "gone", "named"),
    [
        (
            iceberg,
            "metadata/v2.metadata.json",
            False,
            "metadata/v1.metadata.json can be read: open the table by its path",
        ),
        (iceberg, "metadata/snap-103.avro", True, "102"),
        (iceberg, "metadata/manifest-3-1.avro", False, "102"),
        (delta, "_delta_log/00000000000000000002.json", False, "1"),
        (delta, "_delta_log/00000000000000000001.json", True, "0"),
        (paimon, "snapshot/snapshot-7", False, "6"),
        (paimon, list_of_snapshot_7, True, "6"),
        (lance, "_versions/18446744073709551598.manifest", False, "16"),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)[:30]),
)
def test_an_older_snapshot_that_can_be_read_is_named(
    make: Callable[[Path, Path], Path],
    damaged: str | Callable[[Path], str],
    gone: bool,
    named: str,
    own_vectors: Path,
    tmp_path: Path,
) -> None:
    root = make(tmp_path / "t", own_vectors)
    path = root / (damaged if isinstance(damaged, str) else damaged(root))
    cut = path.read_bytes()[:50]
    path.unlink()
    if not gone:
        path.write_bytes(cut)
    note = f"snapshot {named} can be read: --snapshot {named}, or snapshot_id={named}" if named.isdigit() else named
    result = run("audit", root)
    assert (result.code, result.err.splitlines()[1:]) == (2, [f"dvcodec: {note}"])
    if named.isdigit():
        with pytest.raises((DecodeError, FileNotFoundError)) as caught:
            open_table(root).snapshot()
        assert caught.value.__notes__ == [note]  # type: ignore[attr-defined]
        assert run("audit", root, "--snapshot", named).code == 0
        assert audit(open_table(root), int(named)).ok


@pytest.mark.parametrize(
    ("damaged", "older"), [([NEW], 1), (["a.parquet"], None), ([], None)], ids=["vector", "data file", "nothing"]
)
def test_an_audit_names_the_newest_snapshot_without_its_errors(
    damaged: list[str], older: int | None, tmp_path: Path
) -> None:
    root = restored_table(tmp_path / "t")
    for name in damaged:
        (root / name).unlink()
    assert audit(open_table(root)).older == older
    line = f"snapshot {older} has no vector or data file with these errors (--snapshot {older})"
    assert (line in run("audit", root).out.splitlines()) == (older is not None)


def test_the_first_of_the_vectors_that_end_furthest_is_named() -> None:
    group = [DeletionVector("iceberg", name, "v", "v", at, 100 - at) for name, at in (("a", 4), ("b", 50), ("c", 60))]
    assert [finding.what for finding in overlaps(group)] == ["bytes shared with the vector for a"] * 2
