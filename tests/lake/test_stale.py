"""Other writers: what is opened anew is as it is now, and no two states of an object are ever mixed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from dvcodec.io import Storage, open_source
from dvcodec.io.store import ObjectChanged
from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit
from lake import tables
from lake.buckets import Bucket
from samples.delta_log import commit, data_file, descriptor

pytest.importorskip("obstore")

LARGE = 5 << 20
"""Bytes of an object that is read range by range."""


def pattern(letter: bytes, size: int) -> bytes:
    return letter * size


class TestTables:
    def test_commits_of_another_writer(self, s3: Bucket, tmp_path: Path) -> None:
        """Ten of them, each seen by who opens the table anew, in one process."""
        folder = tables.delta_table(tmp_path / "t", files=2)
        url = s3.upload(folder, "t")
        table = open_table(url, storage_options=s3.options)
        first = table.snapshot()
        for version in range(2, 12):
            add = data_file(folder, f"more-{version}.parquet", 0)
            add |= {
                "deletionVector": descriptor(
                    folder, f"deletion_vector_{uuid.UUID(int=version)}.bin", tables.rows(version)
                )
            }
            commit(folder, version, "WRITE", {"add": add})
            s3.upload(folder, "t")
            now = open_table(url, storage_options=s3.options)
            assert now.snapshot().info.id == version
            assert len(now.snapshot().vectors) == version + 1
            assert not audit(now).findings
        assert (first.info.id, table.snapshot(1).info.id) == (1, 1)


REPLACEMENTS = [
    pytest.param(lambda size: size, id="same size"),
    pytest.param(lambda size: size + (1 << 20), id="longer"),
    pytest.param(lambda size: size // 2, id="shorter"),
]
Size = Callable[[int], int]


@pytest.mark.parametrize("replaced", REPLACEMENTS)
@pytest.mark.parametrize("size", [100, 200_000, LARGE])
class TestReplaced:
    """All bytes that one source gives out are of one object."""

    def test_after_it_was_listed(self, s3: Bucket, size: int, replaced: Size) -> None:
        """Nothing of it was given out: it is read as it is now."""
        s3.put({"t/a.bin": pattern(b"a", size)})
        storage = Storage(s3.options)
        assert [file.size for file in storage.walk(f"{s3.url}/t")] == [size]
        s3.put({"t/a.bin": pattern(b"b", replaced(size))})
        with storage.open(f"{s3.url}/t/a.bin") as source:
            assert bytes(source.read(10, 20)) == b"b" * 20
            assert source.size == replaced(size)
            assert set(bytes(source.read(0, source.size))) == {ord("b")}

    def test_after_its_size_was_given_out(self, s3: Bucket, size: int, replaced: Size) -> None:
        s3.put({"t/a.bin": pattern(b"a", size)})
        storage = Storage(s3.options)
        list(storage.walk(f"{s3.url}/t"))
        with storage.open(f"{s3.url}/t/a.bin") as source:
            assert source.size == size
            s3.put({"t/a.bin": pattern(b"b", replaced(size))})
            if replaced(size) == size:
                assert bytes(source.read(0, size)) == b"b" * size
                return
            with pytest.raises(ObjectChanged, match="changed since it was listed or opened: "):
                source.read(0, size)

    def test_after_bytes_were_given_out(self, bucket: Bucket, size: int, replaced: Size) -> None:
        """Also by stores that look at no ETag: each answer says of which object it is."""
        bucket.put({"t/a.bin": pattern(b"a", size)})
        with open_source(f"{bucket.url}/t/a.bin", storage_options=bucket.options) as source:
            given = [bytes(source.read(0, 10))]
            bucket.put({"t/a.bin": pattern(b"b", replaced(size))})
            with pytest.raises(ObjectChanged, match=f"{bucket.url}/t/a.bin: cannot read: changed since"):
                given.extend(bytes(source.read(start, 10)) for start in range(10, size - 10, size // 10))
            assert set(b"".join(given)) == {ord("a")}

    def test_after_its_end_was_given_out(self, s3: Bucket, size: int, replaced: Size) -> None:
        """As footers are read."""
        s3.put({"t/a.bin": pattern(b"a", size)})
        storage = Storage(s3.options)
        with storage.open(f"{s3.url}/t/a.bin") as source:
            given = bytes(source.read(source.size - 50, 50))
            s3.put({"t/a.bin": pattern(b"b", replaced(size))})
            try:
                given += bytes(source.read(size // 2, 50))
            except ObjectChanged:
                pass
            else:
                assert size < LARGE, "the middle is not held"
            assert set(given) == {ord("a")}
