"""How many requests reading takes: exact counts, through the proxy. `bench/store_requests.py` has the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dvcodec
from dvcodec import puffin
from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.snapshots.changes import history
from lake import tables
from lake.buckets import Bucket
from lake.proxy import Traffic

Counted = Callable[[Callable[[], object]], Traffic]
FILES = 40
# Many more are asked for; a busy machine may need a while to begin them.
AT_ONCE = 4


@pytest.fixture
def counted(counted_s3: Bucket) -> Counted:
    """What a call asks the store for; each request takes 100 ms."""

    def count(call: Callable[[], object]) -> Traffic:
        counted_s3.watched.delay(0.1)
        with counted_s3.watched.watch() as seen:
            call()
        return seen[0]

    return count


class TestFiles:
    @pytest.fixture
    def url(self, counted_s3: Bucket, tmp_path: Path) -> str:
        tables.puffin(tmp_path)
        return f"{counted_s3.upload(tmp_path)}/vectors.puffin"

    def test_a_vector_at_its_place(self, counted_s3: Bucket, counted: Counted, url: str, tmp_path: Path) -> None:
        with puffin.open_puffin(tmp_path / "vectors.puffin") as opened:
            blob = opened.blobs[500]
        number = int(Path(blob.properties[puffin.REFERENCED_DATA_FILE]).stem)

        def read() -> None:
            found = dvcodec.decode_at(url, blob.offset, blob.length, storage_options=counted_s3.options)
            assert found == tables.rows(number)

        seen = counted(read)
        assert seen.kinds == {"GET": 1}
        # The frame's length and checksum, where a Delta file has them, are read with it.
        assert blob.length <= seen.sent <= blob.length + 8

    def test_a_file_of_a_thousand_vectors(self, counted_s3: Bucket, counted: Counted, url: str) -> None:
        options = counted_s3.options
        calls: dict[str, Callable[[], object]] = {
            "read": lambda: dvcodec.read_rows(url, storage_options=options),
            "verify": lambda: dvcodec.verify(url, storage_options=options),
            "describe": lambda: dvcodec.describe(url, storage_options=options),
        }
        for name, call in calls.items():
            seen = counted(call)
            assert (name, seen.kinds, seen.repeated) == (name, {"GET": 2}, [])


class TestDelta:
    """`FILES` data files with a vector each: their footers are not read, the vectors are."""

    @pytest.fixture
    def opened(self, counted_s3: Bucket, tmp_path: Path) -> Callable[..., Callable[[], object]]:
        def make(call: Callable[..., object], **shape: object) -> Callable[[], object]:
            url = counted_s3.upload(tables.delta_table(tmp_path / "t", files=FILES, **shape), "t")  # type: ignore[arg-type]
            return lambda: call(open_table(url, storage_options=counted_s3.options))

        return make

    def test_all_vectors_in_one_file(self, counted: Counted, opened: Callable[..., Callable[[], object]]) -> None:
        seen = counted(opened(audit, one_bin=True))
        assert (seen.kinds, seen.repeated) == ({"GET": 3, "LIST": 1}, [])

    def test_each_vector_in_a_file(self, counted: Counted, opened: Callable[..., Callable[[], object]]) -> None:
        seen = counted(opened(audit))
        assert (seen.kinds, seen.repeated) == ({"GET": FILES + 2, "LIST": 1}, [])
        assert seen.most_at_once >= AT_ONCE

    def test_the_history_of_a_long_log(self, counted: Counted, opened: Callable[..., Callable[[], object]]) -> None:
        seen = counted(opened(lambda table: list(history(table)), commits=FILES))
        assert (seen.kinds, seen.repeated) == ({"GET": 2 * FILES + 1, "LIST": 1}, [])
        assert seen.most_at_once >= AT_ONCE


@pytest.mark.parametrize(
    ("parts", "gets"),
    [
        (("delta", "spark-4.4.0", "checkpointed", "table"), 14),
        (("iceberg", "spark-1.12.0", "evolved", "table"), 17),
        (("paimon", "java-1.4.2", "changed64", "table"), 35),
        (("lance", "pylance-14.0.2", "life"), 18),
        (("scorch", "bleve-2.6.1", "small-v16"), 3),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_audits_of_real_tables(
    counted_s3: Bucket, counted: Counted, tmp_path: Path, parts: tuple[str, ...], gets: int
) -> None:
    """Nothing is asked for twice, and one list answers for every folder."""
    url = counted_s3.upload(tables.copied(*parts)(tmp_path), "t")
    seen = counted(lambda: audit(open_table(url, storage_options=counted_s3.options)))
    assert seen.kinds == {"GET": gets, "LIST": 1}
    assert seen.repeated == []
