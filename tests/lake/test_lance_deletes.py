"""Deletes committed to Lance datasets in buckets: what pylance reads, conflicts, answers that are lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dvcodec import CommitConflict, CommitUnknown, StoreError
from dvcodec.io import Storage
from dvcodec.tables import audit, open_table
from dvcodec.tables.deleting.run import run
from dvcodec.tables.lance.commit import LanceCommitter
from dvcodec.tables.lance.table import LanceTable
from dvcodec.tables.model import Deletion
from lake.buckets import Bucket
from lake.proxy import Fault
from tables.deleting.finders import Where

PUBLISHED = "18446744073709551613.manifest"
"""The second version; the library writes it under a temporary name first, which begins in the same way."""


@pytest.fixture
def bucket(counted_s3: Bucket, tmp_path: Path) -> Bucket:
    """A bucket with a dataset of 100 rows in four fragments, below ``my table``."""
    lance = pytest.importorskip("lance.dataset")
    lance.write_dataset(pa.table({"id": range(100)}), os.fspath(tmp_path / "t"), max_rows_per_file=25)
    counted_s3.upload(tmp_path / "t", "my table")
    return counted_s3


def dataset(bucket: Bucket) -> Any:
    import lance

    return lance.dataset(f"{bucket.url}/my table", storage_options=bucket.options)


def ids(bucket: Bucket) -> set[int]:
    return set(dataset(bucket).to_table()["id"].to_pylist())


def delete(bucket: Bucket, *gone: int, retries: int = 50) -> Deletion:
    table = open_table(f"{bucket.url}/my table", storage_options=bucket.options | {"max_retries": "1"})
    assert isinstance(table, LanceTable)
    return run(LanceCommitter(table), Where("id", lambda one: one in gone), retries=retries)


def names(bucket: Bucket) -> set[str]:
    return {file.location.partition("my table/")[2] for file in Storage(bucket.options).walk(f"{bucket.url}/my table")}


def test_a_rival_between_is_merged_with(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    put = Storage.put_if_absent
    turns = [0]

    def first_the_rival(self: Storage, location: str, data: bytes) -> None:
        if location.endswith(".manifest") and not turns[0]:
            turns[0] += 1
            dataset(bucket).delete("id = 90")
        put(self, location, data)

    monkeypatch.setattr(Storage, "put_if_absent", first_the_rival)
    with pytest.raises(CommitConflict, match="another writer"):
        delete(bucket, 3, retries=0)
    assert ids(bucket) == set(range(100)) - {90}
    turns[0] = 0
    done = delete(bucket, 3, 91)
    assert (done.retries, done.rows, done.snapshot) == (1, 2, 4)
    assert ids(bucket) == set(range(100)) - {3, 90, 91}
    assert audit(open_table(f"{bucket.url}/my table", storage_options=bucket.options)).findings == ()


@pytest.mark.parametrize("kind", ["lost", pytest.param("late", marks=pytest.mark.long)])
@pytest.mark.parametrize(("path", "skip"), [pytest.param("_deletions", 0, marks=pytest.mark.long), (PUBLISHED, 1)])
def test_a_lost_answer_is_settled(bucket: Bucket, kind: Any, path: str, skip: int) -> None:
    """Also an error in place of an answer, though the object was written."""
    with bucket.watched.watch() as seen:
        bucket.watched.fail(Fault(kind, "PUT", path, skip=skip))
        done = delete(bucket, 3)
    faults = [one.fault for one in seen[0].exchanges if one.method == "PUT" and path in one.path]
    assert faults == [*[None] * skip, kind, None]
    assert (done.snapshot, done.retries) == (2, 0)
    assert ids(bucket) == set(range(100)) - {3}


@pytest.mark.parametrize(("kind", "error"), [("reset", CommitUnknown), ("error", StoreError)])
def test_a_commit_that_does_not_get_through(bucket: Bucket, kind: Any, error: type[Exception]) -> None:
    before = names(bucket)
    bucket.watched.fail(Fault(kind, "PUT", PUBLISHED, skip=1, times=None, status=403, code="AccessDenied"))
    with pytest.raises(error):
        delete(bucket, 3)
    bucket.watched.clear()
    left = {name.partition("/")[0] for name in names(bucket) - before}
    assert ("_deletions" in left) == (error is CommitUnknown)
    assert left <= {"_deletions", "_transactions", "_versions"}
    assert ids(bucket) == set(range(100))
    assert delete(bucket, 4).snapshot == 2
    assert ids(bucket) == set(range(100)) - {4}
