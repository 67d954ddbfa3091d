"""Holds a Lance table against what pylance said of the dataset (tests/interop/lance_tables.py)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dvcodec import RowSet
from dvcodec.tables.lance import FragmentRecord, LanceTable


def check_metadata(table: LanceTable, truth: list[dict[str, Any]]) -> None:
    """Versions, fragments, and the rows that deletion files leave of them."""
    infos = table.snapshots()
    assert [info.id for info in infos] == [version["version"] for version in truth]
    operations = [(info.operation, version["operation"]) for info, version in zip(infos, truth, strict=True)]
    assert [ours for ours, theirs in operations if theirs is not None] == [theirs for _, theirs in operations if theirs]
    assert {ours for ours, theirs in operations if theirs is None} <= {"ReserveFragments"}
    assert [info.parent for info in infos] == [None, *(info.id for info in infos[:-1])]
    stamps = [info.timestamp_ms or 0 for info in infos]
    assert stamps == sorted(stamps)
    assert stamps[0] > 1_700_000_000_000
    for info, version in zip(infos, truth, strict=True):
        snapshot = table.snapshot(info.id)
        assert snapshot.info == info
        by_file = {vector.data_file: vector for vector in snapshot.vectors}
        assert len(by_file) == len(snapshot.vectors)
        live = []
        for file, fragment in zip(snapshot.data_files, version["fragments"], strict=True):
            assert (file.path, list(file.files)) == (fragment["files"][0], fragment["files"])
            assert (FragmentRecord.of(file).id, file.physical_rows) == (fragment["id"], fragment["physical_rows"])
            assert file.physical_rows is not None
            vector = by_file.pop(file.path, None)
            deleted = RowSet()
            if vector is not None:
                (found,) = snapshot.read(vector)
                deleted = found.rows
                assert (vector.format, vector.path, vector.offset) == ("lance", fragment["deletion_file"], None)
                assert found.data_file == file.path
                assert vector.cardinality == deleted.cardinality == fragment["deleted"]
                assert found.stats is not None
                assert (found.stats.cardinality, found.stats.row_count) == (deleted.cardinality, file.physical_rows)
                assert list(snapshot.check_container(vector.location, [vector])) == []
            else:
                assert fragment["deleted"] == 0
            base = fragment["id"] << 32
            rows = RowSet.from_ranges([(0, file.physical_rows)]) - deleted
            live += [(base + start, base + stop) for start, stop in rows.ranges().tolist()]
        assert by_file == {}
        assert RowSet.from_ranges(live) == RowSet.from_ranges(version["live"])
    assert table.snapshot() == table.snapshot(infos[-1].id)


def check_rows(table: LanceTable, truth: list[dict[str, Any]], *, batch_rows: int = 7) -> None:
    """Live rows: physical ones without the deleted."""
    for version in truth:
        snapshot = table.snapshot(version["version"])
        schema = snapshot.schema()
        vectors = {vector.data_file: vector for vector in snapshot.vectors}
        parts = []
        for file in snapshot.data_files:
            deleted = RowSet()
            if file.path in vectors:
                deleted = snapshot.read(vectors[file.path])[0].rows
            expected = 0
            for rows in snapshot.rows(file, batch_rows=batch_rows):
                assert rows.start == expected
                assert rows.keep is None
                assert 0 < rows.batch.num_rows <= batch_rows
                assert rows.batch.schema == schema
                expected += rows.batch.num_rows
                parts.append(rows.batch.filter(deleted.arrow_mask(rows.start, expected, keep=True)))
            assert expected == file.physical_rows
        whole = pa.Table.from_batches(parts, schema)
        assert whole.num_rows == sum(stop - start for start, stop in version["live"])
        if version["rows"] is not None:
            assert whole.to_pydict() == version["rows"]
