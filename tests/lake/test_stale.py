"""What is opened anew is as it is now, whoever wrote it, and no two states of an object are ever mixed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from dvcodec import RowSet, iceberg
from dvcodec.io import Storage, open_source
from dvcodec.io.store import ObjectChanged
from dvcodec.tables import open_table
from lake import tables
from lake.buckets import Bucket
from samples.delta_log import commit, data_file, descriptor

pytest.importorskip("obstore")

LARGE = 5 << 20
"""Bytes of an object that is read range by range."""


def pattern(letter: bytes, size: int) -> bytes:
    return letter * size


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

    def test_after_bytes_were_given_out(self, bucket: Bucket, size: int, replaced: Size) -> None:
        """Also by stores that ignore ETags: each answer says of which object it is."""
        bucket.put({"t/a.bin": pattern(b"a", size)})
        with open_source(f"{bucket.url}/t/a.bin", storage_options=bucket.options) as source:
            given = [bytes(source.read(0, 10))]
            bucket.put({"t/a.bin": pattern(b"b", replaced(size))})
            with pytest.raises(ObjectChanged, match=f"{bucket.url}/t/a.bin: cannot read: changed since"):
                given.extend(bytes(source.read(start, 10)) for start in range(10, size - 10, size // 10))
            assert set(b"".join(given)) == {ord("a")}


# ------------------------ one `Storage` for reading and writing: what it writes itself is never read as it was before


class TestOwnWrites:
    @pytest.fixture(params=[pytest.param("s3", marks=pytest.mark.lake), "memory"])
    def folder(self, request: pytest.FixtureRequest) -> tuple[str, Storage]:
        if request.param == "memory":
            pytest.importorskip("fsspec")
            return f"memory://{uuid.uuid4()}", Storage()
        bucket: Bucket = request.getfixturevalue("counted_s3")
        return bucket.url, Storage(bucket.options)

    @pytest.mark.parametrize("other", [lambda url: url, lambda url: url.replace("s3:", "S3A:")])
    def test_a_file_that_is_written_again(self, folder: tuple[str, Storage], other: Callable[[str], str]) -> None:
        root, storage = folder
        url = f"{root}/t/a.puffin"
        for row in range(3):
            assert list(storage.walk(f"{root}/t")) or row == 0  # its size is known from a list
            iceberg.write_deletion_vectors(other(url), {"a": RowSet(range(row + 1))}, storage_options=storage)
            found = iceberg.read_deletion_vectors(url, storage_options=storage)
            assert found == {"a": RowSet(range(row + 1))}
            assert storage.names(root) == ["t"]

    def test_a_table_that_is_opened_again(self, counted_s3: Bucket, tmp_path: Path) -> None:
        """The first time uses what was listed before; the second time asks anew, of this table alone."""
        folder = tables.delta_table(tmp_path / "t", files=2)
        url = counted_s3.upload(folder, "t")
        counted_s3.put({"u/x": b"x"})
        storage = Storage(counted_s3.options)
        storage.read(f"{counted_s3.url}/u/x")
        assert open_table(url, storage_options=storage).snapshot().info.id == 1
        add = data_file(folder, "more.parquet", 0)
        add |= {"deletionVector": descriptor(folder, f"deletion_vector_{uuid.UUID(int=2)}.bin", tables.rows(2))}
        commit(folder, 2, "WRITE", {"add": add})
        counted_s3.upload(folder, "t")
        with counted_s3.watched.watch() as seen:
            assert open_table(f"{url}/", storage_options=storage).snapshot().info.id == 2
            storage.read(f"{counted_s3.url}/u/x")
        assert seen[0].kinds == {"GET": 3, "LIST": 1}
