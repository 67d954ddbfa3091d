"""Deletes committed to Paimon tables in buckets: races, conflicts, lost answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from dvcodec import CommitConflict, CommitUnknown
from dvcodec.io import Storage
from dvcodec.tables.folder import Folder
from dvcodec.tables.paimon import PaimonTable
from lake.buckets import Bucket
from lake.proxy import Fault
from samples.paimon_table import PaimonFile, build_paimon
from tables.paimon.deleting import assert_clean, delete, live, open_committer

ROWS = 100


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = [PaimonFile(f"f{i}.parquet", pa.table({"id": range(i * ROWS, (i + 1) * ROWS)}), [50]) for i in range(2)]
    return build_paimon(tmp_path / "t", [(0, "id", "BIGINT")], [files])


def folder(bucket: Bucket, url: str) -> Folder:
    return Folder(url, storage=Storage(bucket.options | {"max_retries": "1"}))


def left(*gone: int) -> list[int]:
    return sorted(set(range(2 * ROWS)) - {50, 150, *gone})


def test_writers_that_race_lose_nothing(s3: Bucket, root: Path) -> None:
    """One of them removes a data file at last."""
    url = s3.upload(root, "t")

    def work(first: int) -> None:
        for position in range(first, 20, 4):
            while True:
                try:
                    delete(folder(s3, url), {f"f{position % 2}.parquet": [position]})
                    break
                except CommitConflict:
                    pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    gone = [position + ROWS * (position % 2) for position in range(20)]
    table = folder(s3, url)
    assert live(table) == left(*gone)
    assert [info.id for info in PaimonTable(table).snapshots()] == list(range(1, 22))
    delete(table, {"f0.parquet": range(ROWS)})
    assert live(table) == left(*gone, *range(ROWS))
    assert_clean(table)


def test_a_storage_that_read_an_older_state_sees_the_conflict(s3: Bucket, root: Path) -> None:
    table = folder(s3, s3.upload(root, "t"))
    base = open_committer(table).current()
    delete(folder(s3, table.location), {"f0.parquet": [1]})
    before = {file.location for file in Storage(s3.options).walk(table.location)}
    with pytest.raises(CommitConflict, match="snapshot 1 is not the newest"):
        delete(table, {"f0.parquet": [2]}, base)
    assert {file.location for file in Storage(s3.options).walk(table.location)} == before
    delete(table, {"f0.parquet": [2]})
    assert live(table) == left(1, 2)


def test_a_lost_answer_is_settled(counted_s3: Bucket, root: Path) -> None:
    table = folder(counted_s3, counted_s3.upload(root, "t"))
    counted_s3.watched.fail(Fault("lost", "PUT", "snapshot-2"))
    assert delete(table, {"f0.parquet": [1]}) == 2
    assert live(table) == left(1)
    assert_clean(table)


def test_a_commit_that_is_never_answered_is_unknown(counted_s3: Bucket, root: Path) -> None:
    table = folder(counted_s3, counted_s3.upload(root, "t"))
    counted_s3.watched.fail(Fault("reset", "PUT", "snapshot-2", times=None))
    with pytest.raises(CommitUnknown, match="did not answer the commit"):
        delete(table, {"f0.parquet": [1]})
