"""What is known of a commit whose file could not be created."""

from __future__ import annotations

from pathlib import Path

import pytest

from dvcodec import CommitConflict, CommitUnknown
from dvcodec.io import Storage, storage
from dvcodec.io.store import Reason
from dvcodec.io.store.errors import store_error
from dvcodec.tables.writing import put_once
from samples.memory_store import MemoryStore

KEY = "t/_delta_log/00000000000000000001.json"
URL = f"s3://lake/{KEY}"


class Existing(MemoryStore):
    """A store that answers every commit so; an earlier request of it may have been done."""

    is_done: bool = False

    def put_if_absent(self, key: str, data: bytes) -> None:
        if self.is_done:
            self.put(key, data)
        raise store_error(self.url(key), "write", "412", Reason.EXISTS)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Existing:
    found = Existing()
    monkeypatch.setattr(storage, "open_store", found.opened)
    return found


def test_an_earlier_request_was_done(store: Existing) -> None:
    store.is_done = True
    put_once(Storage(), URL, b"mine")


def test_another_writer_was_first(store: Existing) -> None:
    store.put(KEY, b"theirs")
    with pytest.raises(CommitConflict, match="another writer committed it first"):
        put_once(Storage(), URL, b"mine")


@pytest.mark.parametrize("is_done", [False, True])
def test_a_file_that_cannot_be_read_may_be_of_either(store: Existing, is_done: bool) -> None:
    """As a conflict, the vectors of a commit that is in would be removed."""
    store.put(KEY, b"theirs")
    store.is_done = is_done
    store.refused = dict.fromkeys(("get", "head", "list"), Reason.UNAVAILABLE)
    with pytest.raises(CommitUnknown, match="exists, and could not be read"):
        put_once(Storage(), URL, b"mine")


def test_a_local_file_that_exists_is_of_another_writer(tmp_path: Path) -> None:
    target = tmp_path / "1.json"
    target.write_bytes(b"theirs")
    with pytest.raises(CommitConflict):
        put_once(Storage(), str(target), b"mine")
