"""A forked process has none of the client's threads: it is refused rather than left waiting."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.queues import Queue
from typing import Any

import pytest

from dvcodec.core.errors import UsageError
from dvcodec.io.store import open_store
from lake.buckets import Bucket

pytest.importorskip("obstore")


def read(url: str, options: dict[str, str], found: Queue[str]) -> None:
    try:
        store, key = open_store(url, options)
        found.put(bytes(store.get(key).data).decode())
    except UsageError as err:
        found.put(str(err))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize(("method", "said"), [("fork", "start processes by 'spawn'"), ("spawn", "x")])
def test_another_process(counted_s3: Bucket, method: str, said: str) -> None:
    counted_s3.put({"k": b"x"})
    url = f"{counted_s3.url}/k"
    context: Any = multiprocessing.get_context(method)
    found: Queue[str] = context.Queue()
    store, key = open_store(url, counted_s3.options)
    store.get(key)
    child = context.Process(target=read, args=(url, counted_s3.options, found), daemon=True)
    child.start()
    assert said in found.get(timeout=60)
    child.join(20)
    assert child.exitcode == 0
