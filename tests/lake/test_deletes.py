"""Deletes committed to tables in buckets: races, lost answers, refusals of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from dvcodec import CommitUnknown, StoreError
from dvcodec.io import Storage
from dvcodec.tables import audit, open_table
from dvcodec.tables.deleting import committer
from dvcodec.tables.deleting.run import Deletion, run
from lake.buckets import Bucket
from lake.proxy import Fault
from samples import delta_log
from tables.deleting.finders import Where
from tables.deleting.races import ids, race


def delete(bucket: Bucket, url: str, first: int) -> Deletion:
    table = open_table(url, storage_options=bucket.options | {"max_retries": "1"})
    return run(committer(table), Where("id", lambda number: number >= first))


@pytest.mark.parametrize(("writers", "deletes"), [(2, 10), (8, 3)])
def test_races(s3: Bucket, tmp_path: Path, writers: int, deletes: int) -> None:
    url = s3.upload(delta_log.restored_table(tmp_path / "t"), "t")
    snapshots = race(url, writers, deletes, s3.options)
    assert snapshots == list(range(3, 3 + len(snapshots)))
    assert audit(open_table(url, storage_options=s3.options)).findings == ()


@pytest.fixture
def table(counted_s3: Bucket, tmp_path: Path) -> tuple[Bucket, str]:
    return counted_s3, counted_s3.upload(delta_log.restored_table(tmp_path / "t"), "t")


def vector_files(bucket: Bucket) -> set[str]:
    return {file.location for file in Storage(bucket.options).walk(bucket.url) if file.location.endswith(".bin")}


def test_a_lost_answer_is_settled(table: tuple[Bucket, str]) -> None:
    """The commit is in, its answer is not; the next attempt finds its own bytes."""
    bucket, url = table
    bucket.watched.fail(Fault("lost", "PUT", "_delta_log"))
    done = delete(bucket, url, 200)
    assert (done.snapshot, done.retries) == (3, 0)
    assert max(ids(url, bucket.options)) == 199


def test_a_commit_that_is_never_answered(table: tuple[Bucket, str]) -> None:
    """It may be in: its vectors stay, and the error says so."""
    bucket, url = table
    before = vector_files(bucket)
    bucket.watched.fail(Fault("reset", "PUT", "_delta_log", times=None))
    with pytest.raises(CommitUnknown, match="the commit was not answered"):
        delete(bucket, url, 200)
    assert len(vector_files(bucket) - before) == 1


def test_a_commit_that_is_denied(table: tuple[Bucket, str]) -> None:
    bucket, url = table
    before = vector_files(bucket)
    bucket.watched.fail(Fault("error", "PUT", "_delta_log", status=403, code="AccessDenied", message="no"))
    with pytest.raises(StoreError, match="denied"):
        delete(bucket, url, 200)
    assert vector_files(bucket) == before


def test_requests(table: tuple[Bucket, str]) -> None:
    """The log is listed twice, opened and read anew. Three commits, two data files and the new vectors are read."""
    bucket, url = table
    with bucket.watched.watch() as seen:
        delete(bucket, url, 200)
    assert seen[0].kinds == {"LIST": 2, "GET": 6, "PUT": 2}
