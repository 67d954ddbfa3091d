"""A storage asks for nothing twice, keeps a bounded number of bytes, and forgets what it changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dvcodec.io import Storage
from dvcodec.io import storage as module
from dvcodec.io.storage import run_bounded
from samples.memory_store import ROOT, MemoryStore

DATA = {f"t/{name}": name.encode() * 100 for name in ("a", "b", "x/c", "x/d")}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """The store of every URL."""
    made = MemoryStore(dict(DATA))
    monkeypatch.setattr("dvcodec.io.storage.open_store", made.opened)
    return made


def actions(store: MemoryStore) -> list[object]:
    return [asked[0] for asked in store.asked]


class TestListing:
    def test_a_folder_of_several_files_is_listed_once(self, store: MemoryStore, tmp_path: Path) -> None:
        """Of one file the size is asked for; what is local is not listed."""
        (tmp_path / "a").write_bytes(b"x")
        locations = [f"{ROOT}/t/x/c", f"{ROOT}/t/x/d", f"{ROOT}/t/a", str(tmp_path / "a"), str(tmp_path / "b")]
        storage = Storage()
        storage.list_ahead(locations)
        assert store.asked == [("list", "t/x")]
        assert [storage.stat(one).size for one in locations[:4]] == [300, 300, 100, 1]
        assert store.asked[1:] == [("head", "t/a")]

    @pytest.mark.parametrize("page", [4, 5])
    def test_a_folder_of_many_files(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, page: int) -> None:
        """More than a page: its own names are listed, and the sizes in that page are known all the same."""
        monkeypatch.setattr("dvcodec.io.storage._PAGE", page)
        storage = Storage()
        assert sorted(storage.names(f"{ROOT}/t")) == ["a", "b", "x"]
        assert len(store.asked) == (2 if page == len(DATA) else 1)
        del store.asked[:]
        assert storage.stat(f"{ROOT}/t/x/d").size == 300
        assert sorted(storage.names(f"{ROOT}/t/x")) == ["c", "d"]
        assert actions(store) == (["list"] if page == len(DATA) else [])

    @pytest.mark.parametrize("change", ["remove", "changes", "failed"])
    def test_a_listing_is_dropped_with_a_change_below_it(self, store: MemoryStore, change: str) -> None:
        """Also by one that failed: it may have been made."""
        storage = Storage()
        before = sorted(one.location for one in storage.walk(f"{ROOT}/t"))
        if change == "remove":
            storage.remove(f"{ROOT}/t/x/c")
        else:
            try:
                with storage.changes(f"{ROOT}/t/x/c", "/local"):
                    store.delete("t/x/c")
                    if change == "failed":
                        Storage().read(f"{ROOT}/t/none")
            except FileNotFoundError:
                assert change == "failed"
        assert sorted(one.location for one in storage.walk(f"{ROOT}/t")) == [one for one in before if "c" not in one]

    def test_a_table_that_is_opened_again(self, store: MemoryStore) -> None:
        """What is not below its folder stays."""
        storage = Storage()
        storage.reopen(f"{ROOT}/t/x")
        for folder in ("t/x", "u"):
            store.put(f"{folder}/c", b"old")
            list(storage.walk(f"{ROOT}/{folder}"))
            storage.read(f"{ROOT}/{folder}/c")
        del store.asked[:]
        storage.reopen(f"{ROOT}/t/x")
        for folder in ("t/x", "u"):
            store.put(f"{folder}/c", b"newer")
        assert [one.size for one in storage.walk(f"{ROOT}/t/x") if one.location.endswith("c")] == [5]
        assert [one.size for one in storage.walk(f"{ROOT}/u")] == [3]
        assert [bytes(storage.read(f"{ROOT}/{folder}/c")) for folder in ("t/x", "u")] == [b"newer", b"old"]


class TestReading:
    def test_files_are_read_ahead_in_their_order(self, store: MemoryStore, tmp_path: Path) -> None:
        """Errors are those of who reads them."""
        (tmp_path / "local").write_bytes(b"x")
        storage = Storage({"max_concurrency": 4})
        for locations in (
            [f"{ROOT}/{name}" for name in (*DATA, "t/none")] + [str(tmp_path / "local")],
            [str(tmp_path / "local"), f"{ROOT}/t/a"],
            [],
        ):
            assert list(storage.prefetch(locations)) == locations
        del store.asked[:]
        assert {name: storage.read(f"{ROOT}/{name}") for name in DATA} == DATA
        assert not store.asked
        with pytest.raises(FileNotFoundError):
            storage.read(f"{ROOT}/t/none")


class TestBounds:
    """The files that were used least lately are dropped first."""

    @pytest.mark.parametrize(("name", "most"), [("_MAX_BYTES", 650), ("_MAX_FILES", 3)])
    def test_of_what_is_kept(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
        monkeypatch.setattr(module, name, most)
        storage = Storage()
        for key in ("t/x/c", "t/a", "t/x/c", "t/x/d", "t/b"):  # 300, 100, again, 300, 100
            storage.read(f"{ROOT}/{key}")
        del store.asked[:]
        for key, is_kept in (("t/x/d", True), ("t/b", True), ("t/x/c", name == "_MAX_FILES"), ("t/a", False)):
            storage.read(f"{ROOT}/{key}")
            assert bool(store.asked) != is_kept, key
            if not is_kept:
                break


class TestThreads:
    @pytest.mark.parametrize("threads", [1, 2, 7])
    def test_results_in_their_order(self, threads: int) -> None:
        """Items are taken as results are, at most two for each thread before the first."""
        taken: list[int] = []

        def items() -> Iterator[int]:
            for number in range(50):
                taken.append(number)
                yield number

        results = run_bounded(lambda number: number * number, items(), threads)
        assert next(results) == 0
        assert len(taken) <= 2 * threads + 1
        assert list(results) == [number * number for number in range(1, 50)]

    def test_an_interrupt_does_not_wait(self) -> None:
        """Threads that wait for a server are left behind."""
        answered = threading.Event()
        calls: list[Callable[[], object]] = [lambda: 1, self._interrupt, lambda: answered.wait(20)]
        results = run_bounded(lambda call: call(), calls, 3)
        assert next(results) == 1
        try:
            with pytest.raises(KeyboardInterrupt):
                next(results)
            assert not answered.is_set()
        finally:
            answered.set()

    @staticmethod
    def _interrupt() -> None:
        raise KeyboardInterrupt
