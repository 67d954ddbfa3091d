"""What is opened anew is as it is now, whoever wrote it, and no two states of an object are ever mixed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from dvcodec import RowSet, iceberg
from dvcodec.io import Storage
from dvcodec.tables import open_table
from lake import tables
from lake.buckets import Bucket
from samples.delta_log import commit, data_file, descriptor

pytest.importorskip("obstore")


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
