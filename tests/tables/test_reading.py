"""read_vectors: threads, order, and how often a file is opened and read."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dvcodec import DecodeError, RowSet, UsageError
from dvcodec.core.errors import MissingExtra
from dvcodec.io import source as io_source
from dvcodec.io.parallel import run_bounded
from dvcodec.tables import DeletedRows, DeletionVector, Snapshot, Table, reading
from dvcodec.tables.reading import by_container, read_vectors
from samples.memory_table import FakeTable, make_table, write_vectors


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_and_tasks_are_bounded(threads: int) -> None:
    lock, running, most, taken = threading.Lock(), 0, 0, 0

    def work(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        sum(range(item % 3 * 10_000))  # so that later ones end sooner
        with lock:
            running -= 1
        return item * item

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(100):
            taken += 1
            yield item

    for done, result in enumerate(run_bounded(work, items(), threads)):
        assert result == done * done
        assert taken - done <= 2 * threads + 1
    assert most <= threads


def test_an_error_ends_the_work() -> None:
    seen = []

    def work(item: int) -> int:
        seen.append(item)
        return 1 // (3 - item)

    with pytest.raises(ZeroDivisionError):
        list(run_bounded(work, range(1000), 2))
    assert len(seen) < 20
    with pytest.raises(UsageError, match="threads must be 1 or more, not 0"):
        list(run_bounded(work, [1], 0))


def test_groups_are_in_file_order() -> None:
    vectors = [
        DeletionVector("delta", "a", place, place, at) for place, at in (("x", 9), ("y", 1), ("x", 3), ("", None))
    ]
    groups = by_container(vectors)
    assert {name: [vector.offset for vector in group] for name, group in groups.items()} == {
        "x": [3, 9],
        "y": [1],
        "": [None],
    }


def test_tasks_are_of_bounded_size() -> None:
    def sizes(location: str, *of: int) -> list[list[int | None]]:
        vectors = [DeletionVector("delta", "a", location, location, i, size) for i, size in enumerate(of)]
        return [[vector.size for vector in task] for task in reading._tasks(vectors)]

    mega = 1 << 20
    assert sizes("/t/v", mega, 7 * mega, mega, mega) == [[mega, 7 * mega], [mega, mega]]
    assert sizes("/t/v", 1, 9 * mega, 1, 1 << 40) == [[1], [9 * mega], [1], [1 << 40]]
    assert sizes("/t/v", 1 << 40, -(1 << 40), mega) == [[1 << 40], [-(1 << 40), mega]]
    assert [len(task) for task in sizes("/t/v", *[1] * 300)] == [256, 44]
    assert [len(task) for task in sizes("s3://b/v", *[1] * 100)] == [64, 36]


@pytest.mark.parametrize(("offset", "size"), [(10**6, 1 << 40), (31 << 20, 40), (10**6, -5)])
def test_what_a_wrong_range_claims_is_not_read_ahead(
    offset: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path)
    vectors = table.snapshot().vectors
    os.truncate(vectors[0].location, 32 << 20)
    asked: list[int] = []
    read = io_source._RangeSource.read

    def noted(source: io_source._RangeSource, offset: int, size: int) -> memoryview:
        asked.append(size)
        return read(source, offset, size)

    monkeypatch.setattr(io_source._RangeSource, "read", noted)
    wrong = replace(vectors[1], offset=offset, size=size)
    found = list(read_vectors(table.snapshot(), (vectors[0], wrong, vectors[2]), threads=1))
    assert [read.error is None for read in found] == [True, True, False]
    assert max(size for size in asked if size < 1 << 39) < 10_000


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often files are opened and read."""
    counts: Counter[str] = Counter()
    original = io_source._file_source

    def opened(file, name):  # type: ignore[no-untyped-def]
        counts["opened"] += 1
        found = original(file, name)
        read = found.read

        def fetch(offset: int, size: int) -> memoryview:
            counts["read"] += 1
            return read(offset, size)

        found.read = fetch  # type: ignore[method-assign]
        return found

    monkeypatch.setattr(io_source, "_file_source", opened)
    return counts


def test_a_file_is_opened_once_and_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path)
    counts = counted(monkeypatch)
    rows = {
        read.vector.data_file: read.found[0].rows
        for read in read_vectors(table.snapshot(), table.snapshot().vectors, threads=1)
    }
    assert counts == {"opened": 1, "read": 1}
    assert list(rows.values()) == [RowSet([1, 2, 500]), RowSet(range(1000)), RowSet([0, 7, 999])]


def test_distant_ranges_are_read_separately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path)
    many = {f"{i}": RowSet(range(0, 2 * i, 2)) for i in range(300)}
    vectors = write_vectors(tmp_path, "many", many)
    counts = counted(monkeypatch)
    ends = vectors[0], vectors[-1]
    found = list(read_vectors(table.snapshot(), ends, threads=1))
    assert [read.found[0].rows for read in found] == [many["0"], many["299"]]
    assert counts == {"opened": 1, "read": 2}
    counts.clear()
    found = list(read_vectors(table.snapshot(), vectors, threads=1))
    assert [read.found[0].rows for read in found] == list(many.values())
    assert counts == {"opened": 2, "read": 2}  # stretches of 256


def counts_of_wrong_ranges(table: Table, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a file is opened of whose vectors none is in it: for all of them at once."""
    counts = counted(monkeypatch)
    vectors = [replace(vector, offset=10**6 + 100 * i) for i, vector in enumerate(table.snapshot().vectors)]
    assert all(isinstance(read.error, DecodeError) for read in read_vectors(table.snapshot(), vectors, threads=1))
    return counts["opened"]


def test_a_wrong_range_is_an_error_of_its_vector_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path)
    a, b, c = table.snapshot().vectors
    wrong = replace(b, size=1 << 40)
    found = list(read_vectors(table.snapshot(), (a, wrong, c), threads=1))
    assert [read.error is None for read in found] == [True, False, True]
    assert counts_of_wrong_ranges(table, monkeypatch) == 1
    gone = replace(a, location=str(tmp_path / "none"))
    found = list(read_vectors(table.snapshot(), (gone, c, gone), threads=2))
    assert [type(read.error) for read in found] == [FileNotFoundError, FileNotFoundError, type(None)]


def test_an_invalid_path_is_reported(tmp_path: Path) -> None:
    """Metadata may name anything; that is no wrong use of the library."""
    table = make_table(tmp_path)
    odd = replace(table.snapshot().vectors[0], location="file://elsewhere/x")
    (read,) = read_vectors(table.snapshot(), [odd])
    assert isinstance(read.error, UsageError)


def test_a_missing_extra_is_raised(tmp_path: Path) -> None:
    class Bare(FakeTable):
        def read(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[DeletedRows, ...]:  # noqa: ARG002
            raise MissingExtra("pyarrow", "tables")

    made = make_table(tmp_path)
    table = Bare(str(tmp_path), made.states)
    with pytest.raises(MissingExtra):
        list(read_vectors(table.snapshot(), table.snapshot().vectors))


@pytest.mark.parametrize(
    ("size", "location", "given", "used"),
    [(40, "/t/v", None, 1), (40, "/t/v", 3, 3), (1 << 20, "/t/v", None, 8), (40, "s3://b/v", None, 8)],
)
def test_many_small_local_vectors_have_one_thread(
    size: int, location: str, given: int | None, used: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def run(_work: object, _tasks: object, threads: int) -> Iterator[object]:
        asked.append(threads)
        return iter(())

    monkeypatch.setattr(reading, "run_bounded", run)
    vectors = [DeletionVector("delta", f"{i}", location, location, i * size, size) for i in range(100)]
    assert list(read_vectors(make_table(tmp_path).snapshot(), vectors, threads=given)) == []
    assert asked == [used]
