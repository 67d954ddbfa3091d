"""Rows of a scan as numbers, without Spark."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from dvcodec import RowSet, UsageError, iceberg
from dvcodec.spark import keyed_rows
from dvcodec.spark.keyed_rows import ScannedFiles


def keys(uris: list[str], code: np.ndarray, pos: np.ndarray) -> pa.RecordBatch:
    """What `packed` gives."""
    hashes = np.array([zlib.crc32(uri.encode()) for uri in uris], np.uint64)
    return pa.record_batch([pa.array((hashes[code] << np.uint64(32) | pos.astype(np.uint64)).view(np.int64))], ["key"])


@pytest.mark.parametrize("order", ["random", "scan", "ascending"])
def test_chunks_of_rows_are_vectors(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    uris = [f"file:/wh/a%20{i}.parquet" for i in range(30)]
    code, pos = chance.integers(0, 29, 20_000), chance.integers(0, 1 << 32, 20_000) % 90_001
    pos[:9], pos[9:18] = (1 << 32) - 1, 0
    if order == "scan":
        code.sort()
    elif order == "ascending":  # file after file, the first one again at the end
        code, pos = np.append(np.sort(code), code.min()), np.append(pos, 7)
        pos = pos[np.lexsort((pos, np.append(code[:-1], 29)))]
    monkeypatch.setattr(keyed_rows, "CHUNK_ROWS", 6_000)
    files = ScannedFiles.of([uri.replace("file:/", "file:///") for uri in uris])
    assert files is not None
    whole = keys(uris, code, pos)
    found: dict[str, list[int]] = {}
    for batch in files(
        iter([whole.slice(0, 100), whole.slice(100, 0), *(whole.slice(at, 5000) for at in range(100, 20_000, 5000))])
    ):
        for name, rows, data in zip(*batch.to_pydict().values(), strict=True):
            positions = iceberg.decode(data)
            assert rows == len(positions)
            found.setdefault(name, []).extend(positions)
    want = {f"file:/wh/a {i}.parquet": sorted(set(pos[code == i].tolist())) for i in range(29)}
    assert {name: sorted(set(rows)) for name, rows in found.items()} == want
    assert len(list(files(iter([whole.slice(0, 0)])))) == 0


def test_hashes_that_are_not_distinct_and_files_that_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    same = ["s3://b/plumless", "s3://b/buckeroo"]  # of one length and CRC-32, and so in any folder
    assert len({zlib.crc32(uri.encode()) for uri in same}) == 1
    assert ScannedFiles.of([*same, "s3://b/c"]) is None
    assert ScannedFiles.of([same[0], same[0]]) is not None, "the same file twice"
    assert ScannedFiles.of(["s3://b/" + "a" * 4089]) is not None
    assert ScannedFiles.of(["s3://b/" + "a" * 4090]) is None, "too long for large batches"
    files = ScannedFiles.of(["s3://b/a", "s3://b/c"])
    assert files is not None
    other = keys(["s3://b/d"], np.array([0]), np.array([1]))
    with pytest.raises(UsageError, match="did not list"):
        list(files(iter([other])))
    (batch,) = files(iter([keys(["s3://b/c"], np.array([0]), np.array([1]))]))
    assert batch.to_pydict() == {"data_file": ["s3://b/c"], "cardinality": [1], "dv": [iceberg.encode(RowSet([1]))]}
    monkeypatch.setattr(keyed_rows, "MOST_FILES", 1)
    assert ScannedFiles.of(["s3://b/a", "s3://b/c"]) is None


def test_rows_in_the_order_of_a_scan_are_not_sorted() -> None:
    def order(*runs: tuple[int, list[int]]) -> list[int] | None:
        rows = np.concatenate([np.array(pos, np.uint64) | np.uint64(file << 32) for file, pos in runs])
        before = rows.copy()
        heads = keyed_rows._scan_order(rows)
        assert (rows == before).all()
        return None if heads is None else heads.tolist()

    long, later = list(range(0, 200, 2)), list(range(300, 400))
    assert order((9, long)) == [0]
    assert order((9, long), (2, long), (9, later)) == [0, 100, 200], "files in no order, one of them twice"
    assert order((9, [*long, 198])) is None, "a row twice"
    assert order((9, [*long, 197])) is None, "a row in front of another"
    assert order((9, list(range(32)))) == [0]
    assert order((9, list(range(31)))) is None, "few consecutive rows"
