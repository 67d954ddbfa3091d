"""What a store refuses, as users see it: an error of its class in Python, one line and exit code 2 for commands."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import dvcodec
from cli_runner import Result, run
from dvcodec.io.store import (
    BucketNotFound,
    request_counts,
)
from dvcodec.tables import open_table
from lake import tables
from lake.buckets import Bucket
from lake.proxy import Fault
from lake.servers import SECRET

pytest.importorskip("obstore")

QUICK = {"max_retries": "2", "init_backoff": "5ms", "max_backoff": "20ms"}


def options_of(given: dict[str, str]) -> list[str]:
    return [part for pair in given.items() for part in ("--storage-option", "=".join(pair))]


def command(bucket: Bucket, *arguments: str, **options: str) -> Result:
    return run(*arguments, *options_of(bucket.options | QUICK | options))


def one_line(result: Result) -> str:
    """The line, which holds no client's noise and no secret."""
    assert (result.code, result.out) == (2, "")
    said = result.complaint
    for noise in ("Debug source", "Generic", "RetryError", "Traceback", SECRET, "geheim"):
        assert noise not in said
    return said


@pytest.fixture
def held(proxied_s3: Bucket, tmp_path: Path) -> Bucket:
    """A bucket with a Puffin file and a small Delta table."""
    tables.puffin(tmp_path, 3)
    proxied_s3.upload(tmp_path)
    proxied_s3.upload(tables.delta_table(tmp_path / "t", files=2), "t")
    return proxied_s3


class TestServers:
    """The servers' own refusals."""

    def test_no_bucket(self, writable: Bucket) -> None:
        url = f"{writable.scheme}://no-such-bucket/t"
        code = "ContainerNotFound" if writable.scheme == "az" else "NoSuchBucket"
        for call in (
            lambda: dvcodec.verify(f"{url}/a.puffin", storage_options=writable.options),
            lambda: open_table(url, storage_options=writable.options),
        ):
            with pytest.raises(BucketNotFound, match=f"no such bucket: 404 Not Found {code}"):
                call()
        for arguments in (("verify", f"{url}/a.puffin"), ("verify", url), ("inspect", f"{url}/*.puffin"), ("log", url)):
            assert f"no such bucket: 404 Not Found {code}" in one_line(command(writable, *arguments))

    def test_a_wrong_key_of_azure(self, azure: Bucket) -> None:
        line = one_line(command(azure, "verify", f"{azure.url}/a.puffin", azure_storage_account_key="AAAA"))
        assert "denied: 403 Forbidden AuthorizationFailure (" in line


class TestBrokenAnswers:
    @pytest.mark.parametrize("kind", ["truncate", "reset", "garbage"])
    @pytest.mark.parametrize("times", [1, 2])
    def test_recovery(self, held: Bucket, kind: Any, times: int, caplog: pytest.LogCaptureFixture) -> None:
        """The right rows; what was repeated is counted, and logged with its reason."""
        held.watched.fail(Fault(kind, "GET", times=times))
        before = request_counts()
        with caplog.at_level(logging.INFO, "dvcodec.store"):
            found = dvcodec.read_rows(f"{held.url}/vectors.puffin", storage_options=held.options | QUICK)
        assert {name: list(rows) for name, rows in found.items()} == {
            f"data/{number:05}.parquet": list(tables.rows(number)) for number in range(3)
        }
        assert (request_counts() - before).retries == times
        said = [record for record in caplog.records if record.name == "dvcodec.store"]
        assert [record.levelno for record in said] == [logging.INFO] * times
        for number, record in enumerate(said, 1):
            assert record.getMessage().startswith(f"GET {held.url}/vectors.puffin: ")
            assert f": retry in 0.0 s, {number} of 2" in record.getMessage()
