"""Deletes committed to tables in buckets: races, lost answers, refusals of the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dvcodec import CommitUnknown, UsageError
from dvcodec.io import Storage
from dvcodec.tables import open_table
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.run import run
from dvcodec.tables.model import Deletion
from lake.buckets import Bucket, fresh
from lake.proxy import Fault, Proxy
from lake.servers import Server
from samples import delta_log
from samples.id_tables import MAKERS, make_iceberg
from samples.rows import ids
from tables.deleting.finders import Where
from tables.deleting.races import FILE_ROWS, KINDS, ROWS, race


def delete(bucket: Bucket, url: str, first: int) -> Deletion:
    table = open_table(url, storage_options=bucket.options | {"max_retries": "1"})
    return run(committer_of(table), Where("id", lambda number: number >= first))


every_kind = pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(*one.values, marks=[*one.marks, pytest.mark.long]) for one in KINDS[1:])]
)
"""The quick run has one."""


@every_kind
def test_races(server_named: Callable[[str], Server], tmp_path: Path, kind: str) -> None:
    bucket = fresh(server_named("versitygw"))
    race({"location": upload(bucket, tmp_path / "t", kind), "options": bucket.options}, 8)


def upload(bucket: Bucket, folder: Path, kind: str) -> str:
    if kind.startswith("iceberg"):
        make_iceberg(folder, ROWS, FILE_ROWS, f"{bucket.url}/t", version=2 if kind == "iceberg 2" else 3)
    else:
        MAKERS[kind](folder, ROWS, FILE_ROWS)
    return bucket.upload(folder, "t")


@every_kind
def test_an_error_in_place_of_each_answer(counted_s3: Bucket, tmp_path: Path, kind: str) -> None:
    """The store has done every write, and says 503: the next attempt of each finds its own object, or replaces it."""
    url, options = upload(counted_s3, tmp_path / "t", kind), counted_s3.options | {"init_backoff": "5ms"}
    with counted_s3.watched.watch() as seen:
        counted_s3.watched.fail(*(Fault("late", "PUT", skip=skip) for skip in range(0, 40, 2)))
        done = run(committer_of(open_table(url, storage_options=options)), Where("id", lambda number: number == 7))
    assert (done.rows, done.retries) == (1, 0)
    faults = [one.fault for one in seen[0] if one.method == "PUT"]
    assert faults == ["late", None] * (len(faults) // 2)
    assert 7 not in ids(open_table(url, storage_options=options))


@pytest.fixture
def table(counted_s3: Bucket, tmp_path: Path) -> tuple[Bucket, str]:
    return counted_s3, counted_s3.upload(delta_log.restored_table(tmp_path / "t"), "t")


COMMITS = {
    "delta": f"{2:020}.json",
    "iceberg": "v2.metadata.json",
    "iceberg 2": "v2.metadata.json",
    "paimon": "snapshot-2",
}
"""What the second commit to a table writes last. See test_lance_deletes for Lance."""


@pytest.fixture(params=["delta", *(pytest.param(kind, marks=pytest.mark.long) for kind in COMMITS if kind != "delta")])
def committed(request: pytest.FixtureRequest, counted_s3: Bucket, tmp_path: Path) -> tuple[Bucket, str, str]:
    """A bucket, the URL of a table of 256 rows in it, and the file that a delete commits."""
    kind, folder = request.param, tmp_path / "t"
    if kind.startswith("iceberg"):
        make_iceberg(folder, 256, 128, f"{counted_s3.url}/t", version=2 if kind == "iceberg 2" else 3)
    else:
        MAKERS[kind](folder, 256, 128)
    return counted_s3, counted_s3.upload(folder, "t"), COMMITS[kind]


def names(bucket: Bucket) -> set[str]:
    return {file.location for file in Storage(bucket.options).walk(bucket.url)}


@pytest.mark.parametrize("times", [1, None])
def test_a_lost_answer_is_settled(committed: tuple[Bucket, str, str], times: int | None) -> None:
    """The commit is in, its answer is not; whoever asks again finds its own bytes, also if nothing is ever answered."""
    bucket, url, commit = committed
    bucket.watched.fail(Fault("lost", "PUT", commit, times=times))
    done = delete(bucket, url, 200)
    assert (done.committed, done.rows, done.retries) == (True, 56, 0)
    assert max(ids(open_table(url, storage_options=bucket.options))) == 199


def test_a_commit_that_is_never_answered(committed: tuple[Bucket, str, str]) -> None:
    """It may be in: its files stay, and the error says so."""
    bucket, url, commit = committed
    before = names(bucket)
    bucket.watched.fail(Fault("reset", "PUT", commit, times=None))
    with pytest.raises(CommitUnknown, match="did not answer the commit"):
        delete(bucket, url, 200)
    assert names(bucket) - before


def test_requests(table: tuple[Bucket, str]) -> None:
    """The log is listed when it is opened, read and committed to.

    Three commits are read, and the last of them again; two data files and the new vectors. Two writes and a removal
    show that the server keeps to the condition that the commit depends on.
    """
    bucket, url = table
    with bucket.watched.watch() as seen:
        delete(bucket, url, 200)
    assert seen[0].kinds == {"LIST": 3, "GET": 7, "PUT": 4, "POST": 1}
    with bucket.watched.watch() as seen:
        delete(bucket, url, 199)
    assert seen[0].kinds["PUT"] == 2


@pytest.mark.interop
def test_a_server_that_ignores_the_condition_is_refused(
    server_named: Callable[[str], Server], proxy_before: Callable[[Server], Proxy], tmp_path: Path
) -> None:
    """It would replace the commits of other writers."""
    bucket = fresh(server := server_named("moto"), proxy_before(server))
    url = bucket.upload(delta_log.restored_table(tmp_path / "t"), "t")
    before = names(bucket)
    bucket.watched.fail(Fault("unconditional", "PUT", times=None))
    with pytest.raises(UsageError, match="ignores If-None-Match"):
        delete(bucket, url, 200)
    assert names(bucket) == before


def test_conditions_that_are_switched_off_are_refused(table: tuple[Bucket, str]) -> None:
    bucket, url = table
    found = open_table(url, storage_options=bucket.options | {"aws_conditional_put": "disabled"})
    with pytest.raises(UsageError, match="conditional"):
        run(committer_of(found), Where("id", lambda number: number >= 200))
