"""read_vectors: threads, order, and how often a file is opened and read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dvcodec import UsageError
from dvcodec.core.errors import MissingExtra
from dvcodec.io.parallel import run_bounded
from dvcodec.tables import DeletedRows, DeletionVector, Snapshot
from dvcodec.tables.snapshots import reading
from dvcodec.tables.snapshots.reading import by_container, read_vectors
from samples.memory_table import FakeTable, make_table


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


def test_a_wrong_range_is_an_error_of_its_vector_alone(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    a, b, c = table.snapshot().vectors
    wrong = replace(b, size=1 << 40)
    found = list(read_vectors(table.snapshot(), (a, wrong, c), threads=1))
    assert [read.error is None for read in found] == [True, False, True]
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
