"""Holds a scorch index against what bleve said of it (tests/interop/scorch_indexes.py)."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from dvcodec import RowSet
from dvcodec.tables.scorch import ScorchTable, SegmentRecord


def check(table: ScorchTable, truth: list[dict[str, Any]], *, batch_rows: int = 5) -> None:
    """Epochs, segments, deleted documents, and the stored documents, live and deleted."""
    infos = table.snapshots()
    assert [info.id for info in infos] == [expected["epoch"] for expected in truth]
    assert all((info.timestamp_ms or 0) > 1_700_000_000_000 for info in infos)
    for info, expected in zip(infos, truth, strict=True):
        snapshot = table.snapshot(info.id)
        assert snapshot.info == info
        vectors = {vector.data_file: vector for vector in snapshot.vectors}
        assert len(vectors) == len(snapshot.vectors)
        live: dict[str, Any] = {}
        roots = 0
        for file, segment in zip(snapshot.data_files, expected["segments"], strict=True):
            assert (file.path, SegmentRecord.of(file).segment) == (segment["file"], segment["id"])
            assert file.physical_rows == len(segment["documents"])
            vector = vectors.pop(file.path, None)
            deleted = RowSet()
            if vector is not None:
                (found,) = snapshot.read(vector)
                assert found.data_file == file.path
                assert found.stats is not None
                assert found.stats.size == vector.size
                deleted = found.rows
                assert deleted.cardinality == found.stats.cardinality
                assert list(snapshot.check_container(vector.location, [vector])) == []
            assert deleted.to_numpy().tolist() == segment["deleted"]
            assert segment["live"] == len(segment["documents"]) - len(deleted)
            batches = list(snapshot.rows(file, batch_rows=batch_rows))
            starts = [0]
            for rows in batches:
                assert rows.start == starts[-1]
                assert 0 < rows.batch.num_rows <= batch_rows
                assert rows.batch.schema == snapshot.schema()
                rows.batch.validate(full=True)
                starts.append(rows.start + rows.batch.num_rows)
            assert starts[-1] == file.physical_rows
            documents = pa.Table.from_batches((rows.batch for rows in batches), snapshot.schema()).to_pylist()
            dropped = set(SegmentRecord.of(file).dropped_fields)
            for row, values in zip(documents, segment["documents"], strict=True):
                first, *rest = values
                assert (first["field"], base64.b64decode(first["value"])) == ("_id", row["_id"])
                assert row["_stored"] == [decoded(value) for value in rest if value["field"] not in dropped]
            mask = deleted.mask(0, len(documents))
            for row, gone in zip(documents, mask.tolist(), strict=True):
                if not gone:
                    live[row["_id"].decode()] = row["_stored"]
                    roots += row["_parent"] is None
        assert vectors == {}
        assert roots == expected["count"]
        assert live == {name: [decoded(value) for value in values] for name, values in expected["live"].items()}
    # bleve may leave a merged segment behind that no epoch names.
    names = {segment["file"] for expected in truth for segment in expected["segments"]}
    strays = {file.location for file in table.stored_files()} - table.referenced()
    assert {stray[-4:] for stray in strays} <= {".zap"}
    assert names.isdisjoint(stray.rpartition("/")[2] for stray in strays)
    assert all(table.folder.join(f"store/{name}") in table.referenced() for name in names) or "store" in table.location


def decoded(value: dict[str, Any]) -> dict[str, Any]:
    return value | {"value": base64.b64decode(value["value"])}
