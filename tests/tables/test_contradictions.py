"""Metadata that contradicts valid vectors, unreadable vectors as bounds, and what no check can find."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.tables import SnapshotInfo, Table, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.repair import repair_plan
from dvcodec.tables.snapshots.changes import history
from dvcodec.tables.snapshots.findings import Severity
from dvcodec.tables.snapshots.scanning import totals
from samples import contradictions, delta_log, paimon_table
from samples.delta_table import DeltaBuilder, rows_from
from samples.iceberg_table import Commit, build_iceberg
from samples.memory_table import ROWS, changed, flip, make_table, write_vectors


def named(folder: Path, **options: Any) -> list[str]:
    found = audit(open_table(str(folder)), **options)
    for finding in found.findings:
        assert finding.path is not None
        assert str(finding.expected) in finding.message
        assert str(finding.actual) in finding.message
    json.dumps(found.to_dict())
    repair_plan(found, open_table(str(folder)))
    return [finding.check for finding in found.findings]


@each("name", contradictions.DELTA)
def test_delta(name: str, tmp_path: Path) -> None:
    expected = contradictions.make_delta(name, tmp_path / "t")
    assert named(tmp_path / "t") == expected


@each("name", contradictions.LOGS)
def test_delta_logs(name: str, tmp_path: Path) -> None:
    expected = contradictions.make_log(name, tmp_path / "t")
    assert named(tmp_path / "t") == expected
    for one in audit(open_table(str(tmp_path / "t"))).findings:
        assert (one.severity is Severity.WARNING) == (one.check == "delta-empty-checkpoint")


def test_delta_severities(tmp_path: Path) -> None:
    """What every engine reads right is not an error; the older version, without vectors, has no findings at all."""
    for name, severity in (("append only", Severity.WARNING), ("off", Severity.INFO), ("no feature", Severity.ERROR)):
        contradictions.make_delta(name, tmp_path / name)
        table = open_table(str(tmp_path / name))
        (finding,) = audit(table).findings
        assert finding.severity is severity
        without = [one.check for one in audit(table, 0, orphans=False).findings]
        assert without == (["delta-feature"] if name == "no feature" else [])


def test_delta_column_mapping_in_an_old_protocol(tmp_path: Path) -> None:
    """Of a table without vectors yet: it is readable without the feature, from reader version 2 on."""
    made = contradictions.both(
        contradictions.mapped_columns(contradictions.column("id", "long", MAPPED_COLUMN)),
        contradictions.edit("protocol", lambda found: found.update(OLD_PROTOCOL)),
    )
    (finding,) = audit(edited(tmp_path / "t", made)).findings
    assert (finding.check, finding.actual) == ("delta-column-mapping", "reader version 1, writer version 2")


def test_delta_column_mapping_that_is_not_known(tmp_path: Path) -> None:
    """Of its columns nothing is said: rules of a newer mode may be others."""
    mode = contradictions.edit(
        "metaData", lambda found: found["configuration"].update({"delta.columnMapping.mode": "place"})
    )
    mapped = contradictions.mapped_columns(contradictions.column("id", "long"))
    assert audit(edited(tmp_path / "t", contradictions.both(mapped, mode))).findings == ()


@each("hint", ["", "[]", '{"version": "1"}', "[" * 50_000])
def test_delta_hints_that_say_nothing_are_ignored(hint: str, tmp_path: Path) -> None:
    edited(tmp_path / "t", lambda *_: None)
    (tmp_path / "t" / "_delta_log" / "_last_checkpoint").write_text(hint)
    assert audit(open_table(str(tmp_path / "t"))).findings == ()


MAPPED_COLUMN = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
OLD_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": None, "writerFeatures": None}


def edited(folder: Path, edit: contradictions.Edit) -> Table:
    """A Delta table of no data file, whose only commit is edited."""
    delta_log.empty_table(folder)
    log = folder / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    edit(actions, log.parent)
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    return open_table(str(folder))


@each("name", contradictions.ICEBERG)
def test_iceberg(name: str, tmp_path: Path) -> None:
    expected = contradictions.make_iceberg(name, tmp_path / "t")
    assert named(tmp_path / "t") == expected
    for finding in audit(open_table(str(tmp_path / "t"))).findings:
        assert finding.severity is Severity.ERROR


def test_metadata_files_without_a_version(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build_iceberg(tmp_path / "t", *(Commit({"a": 100}), Commit(vectors={"a": RowSet([1])})))
    metadata = tmp_path / "t" / "metadata"
    shutil.copy(metadata / "v1.metadata.json", metadata / "vfinal.metadata.json")
    with caplog.at_level(logging.WARNING, logger="dvcodec.tables"):
        table = open_table(str(tmp_path / "t"))
    (record,) = caplog.records
    assert record.name == "dvcodec.tables"
    assert "ignored vfinal.metadata.json" in record.getMessage()
    first, second = audit(table).findings
    assert (first.check, first.severity, first.actual) == ("metadata-name", Severity.WARNING, "vfinal.metadata.json")
    assert (second.check, "vfinal.metadata.json" in second.message) == ("references", True)
    caplog.clear()
    by_path = open_table(str(metadata / "vfinal.metadata.json"))
    assert audit(by_path, orphans=False).findings == ()
    assert caplog.records == []


def test_only_metadata_files_without_a_version(tmp_path: Path) -> None:
    build_iceberg(tmp_path / "t", Commit({"a": 100}))
    metadata = tmp_path / "t" / "metadata"
    (metadata / "v1.metadata.json").rename(metadata / "vfinal.metadata.json")
    (metadata / "version-hint.text").unlink()
    with pytest.raises(UsageError, match=r"no version in the names below metadata \(vfinal\.metadata\.json\)"):
        open_table(str(tmp_path / "t"))
    assert open_table(str(metadata / "vfinal.metadata.json")).snapshot().info.id == 101
    (metadata / "version-hint.text").write_text("vfinal")
    assert open_table(str(tmp_path / "t")).snapshot().info.id == 101


@pytest.mark.parametrize("name", contradictions.PAIMON)
def test_paimon(name: str, tmp_path: Path) -> None:
    expected = contradictions.make_paimon(name, tmp_path / "t")
    assert named(tmp_path / "t") == expected


# ---------------------------------------------------------------------- rows of data files


def test_rows_of_paimon(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    files = [
        paimon_table.PaimonFile("a.parquet", rows, more={"_ROW_COUNT": 99}),
        paimon_table.PaimonFile("b.orc", rows),
    ]
    paimon_table.build_paimon(tmp_path / "t", [(0, "id", "BIGINT")], [files])
    table = open_table(str(tmp_path / "t"))
    assert audit(table).findings == ()
    found = audit(table, deep=True)
    (finding,) = found.findings
    assert (finding.check, finding.expected) == ("physical-rows", "99 rows (metadata)")
    assert found.counts.counted_files == 1
    (note,) = found.notes
    assert note.check == "rows-not-counted"
    assert "b.orc" in note.message


def test_rows_of_lance(own_vectors: Path, tmp_path: Path) -> None:
    for name in ("life", "life-stable", "kinds"):
        table = open_table(str(own_vectors / "tables" / "lance" / "pylance-14.0.2" / name))
        for info in table.snapshots():
            found = audit(table, info.id, deep=True)
            assert (found.findings, found.counts.counted_files) == ((), found.counts.data_files)
            assert [note.check for note in found.notes] == ["no-checksum"] * bool(found.counts.vectors)


def test_data_files_that_cannot_be_counted(tmp_path: Path) -> None:
    table = DeltaBuilder(tmp_path / "t")
    table.create()
    table.commit(*({"add": table.write_file(name, rows_from(0))} for name in ("a", "b", "c")))
    (tmp_path / "t" / "a").unlink()
    footer = bytearray((tmp_path / "t" / "b").read_bytes())
    footer[-4:] = b"PARX"
    (tmp_path / "t" / "b").write_bytes(bytes(footer))
    steps: list[tuple[int, int]] = []
    found = audit(open_table(str(tmp_path / "t")), deep=True, progress=lambda done, total: steps.append((done, total)))
    assert [(one.check, one.data_file) for one in found.findings] == [
        ("missing-data-file", "a"),
        ("unreadable-data-file", "b"),
    ]
    assert steps[-1] == (3, 3)


# ---------------------------------------------------------------------- vectors that cannot be read


def test_unreadable_vectors_are_bounds(tmp_path: Path) -> None:
    """a has 3 deleted rows in a damaged vector, b 1000, c 3."""
    table = make_table(tmp_path)
    vector = table.snapshot().vectors[0]
    flip(vector.location, (vector.offset or 0) + 20)
    found = audit(table)
    sums = totals(found.scan)
    assert (found.counts.vectors, found.counts.unreadable, sums.unreadable, sums.exact) == (3, 1, 1, False)
    assert (sums.deleted, sums.min_deleted, sums.max_live) == (None, ROWS + 3, 4 * ROWS - ROWS - 3)
    assert sums.with_deletes == 2
    assert sums.to_dict()["exact"] is False
    a = found.scan.files[0]
    assert (a.deleted, a.min_deleted, a.unreadable) == (None, 0, 1)
    assert found.to_dict()["counts"]["unreadable"] == 1


def test_bounds_hold_if_a_cardinality_is_wrong(tmp_path: Path) -> None:
    """The vector has 3 rows; ROWS + 6 are deleted in all."""
    table = make_table(tmp_path)
    one = table.snapshot().vectors[0]
    changed(table, replace(one, cardinality=5 * ROWS), *write_vectors(tmp_path, "x", {"gone": RowSet([1])}), drop=[one])
    sums = totals(audit(table).scan)
    assert (sums.deleted, sums.min_deleted, sums.max_live) == (None, ROWS + 3, 3 * ROWS - 3)
    assert sums.unreadable == 1  # a vector for a file that is gone was read
    assert [(one.deleted, one.exact) for one in history(table)] == [(0, True), (ROWS + 3, False)]


def test_history_with_unreadable_vectors(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    old = table.snapshot().vectors[0]
    path = table.snapshot().data_files[0].path
    (new,) = write_vectors(tmp_path, "next", {path: RowSet(range(10))})
    states = table.states
    states.append(replace(states[-1], info=SnapshotInfo(3, 3_000, "delete", 2), vectors=(new, *states[-1].vectors[1:])))
    states.append(replace(states[-1], info=SnapshotInfo(4, 4_000, "restore", 3), vectors=states[1].vectors))
    flip(old.location, (old.offset or 0) + 20)
    changes = list(history(table, keep_rows=True))
    assert [(change.deleted, change.restored, change.exact) for change in changes] == [
        (0, 0, True),
        (ROWS + 3, 0, False),
        (0, 0, False),
        (0, 0, False),
    ]
    assert [vector for vector, _ in changes[1].unreadable] == [old]
    assert "CRC-32" in changes[1].unreadable[0][1]
    assert [file.exact for file in changes[1].files] == [False, True, True]
    assert changes[1].files[0].deleted_rows is None
    change = changes[1].to_dict()
    assert (change["exact"], change["files"][0]["exact"], len(change["unreadable"])) == (False, False, 1)
    json.dumps(change)
