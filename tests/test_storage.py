"""A storage asks for nothing twice, keeps a bounded number of bytes, and forgets what it changed."""

from __future__ import annotations

import io
import threading
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cases import each
from dvcodec import LimitExceeded, Limits, UsageError
from dvcodec.io import Storage, open_sink
from dvcodec.io import storage as module
from dvcodec.io.parallel import run_bounded
from dvcodec.io.store import LocalStore, Reason
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

    def test_a_server_that_does_not_list(self, store: MemoryStore) -> None:
        store.refused = {"list": Reason.OTHER}
        storage = Storage()
        storage.list_ahead([f"{ROOT}/t/a", f"{ROOT}/t/b"])
        assert storage.stat(f"{ROOT}/t/a").size == 100
        assert actions(store) == ["list", "head"]

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

    def test_a_store_that_lists_folder_by_folder(self, store: MemoryStore) -> None:
        store.lists_by_page = False
        assert sorted(Storage().names(f"{ROOT}/t")) == ["a", "b", "x"]

    @each("folder", ["zip://::memory:/{}", "zip://t::memory:/{}", "zip://t/::memory:/{}"])
    @each("first", ["names", "walk"])
    def test_a_folder_of_an_archive(self, folder: str, first: str) -> None:
        """Names are those in the archive, and locations lead there; also from its root."""
        fsspec = pytest.importorskip("fsspec")
        with zipfile.ZipFile(written := io.BytesIO(), "w") as zipped:
            for name in ("t/a", "t/x/c", "b"):
                zipped.writestr(name, name)
        fsspec.filesystem("memory").pipe_file(path := f"/{uuid.uuid4()}.zip", written.getvalue())
        folder, storage = folder.format(path), Storage()
        calls: dict[str, Callable[[str], list[str]]] = {
            "names": storage.names,
            "walk": lambda folder: [one.location for one in storage.walk(folder)],
        }
        found = {name: sorted(calls[name](folder)) for name in sorted(calls, key=lambda name: name != first)}
        in_root = folder.startswith("zip://::")
        assert found["names"] == (["b", "t"] if in_root else ["a", "x"])
        inside = ["b", "t/a", "t/x/c"] if in_root else ["t/a", "t/x/c"]
        assert found["walk"] == [f"zip://{name}::memory:/{path}" for name in inside]
        assert [storage.read(one).decode() for one in found["walk"]] == inside
        fsspec.filesystem("memory").rm_file(path)

    @pytest.mark.parametrize("root", ["memory://", "memory:///"])
    def test_the_root_of_a_file_system(self, root: str) -> None:
        """What is written there after a list is in the next one."""
        pytest.importorskip("fsspec")
        storage, name = Storage(), str(uuid.uuid4())
        list(storage.walk(root))
        for _ in range(2):
            with open_sink(f"{root}{name}/a", storage_options=storage) as sink:
                sink.write(b"x")
            assert name in storage.names(root)
            (found,) = (one.location for one in storage.walk(root) if name in one.location)
            assert found == f"{root}{name}/a"
            assert storage.names(f"{root}{name}") == ["a"]
            storage.remove(found)

    def test_a_walk_of_local_files(self, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "a").write_bytes(b"12")
        assert [(one.location, one.size) for one in Storage().walk(str(tmp_path))] == [(f"{tmp_path}/x/a", 2)]

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

    @pytest.mark.usefixtures("store")
    def test_a_file_that_is_too_large(self) -> None:
        with pytest.raises(LimitExceeded, match=r"c: Limits.max_metadata_bytes: expected at most 299 .*, found 300"):
            Storage(limits=Limits(max_metadata_bytes=299)).read(f"{ROOT}/t/x/c")

    @pytest.mark.usefixtures("store")
    def test_a_storage_that_is_told_to_forget(self) -> None:
        storage = Storage()
        list(storage.walk(f"{ROOT}/t"))
        storage.read(f"{ROOT}/t/a")
        assert "1 files open, 4 listed, 100 bytes kept" in repr(storage)
        storage.forget()
        assert "0 files open, 0 listed, 0 bytes kept" in repr(storage)

    @pytest.mark.parametrize(
        ("location", "threads", "readers"), [(f"{ROOT}/t", 5, 5), ("/t", 8, 1), ("file:///t", 8, 1)]
    )
    def test_how_many_at_once(self, location: str, threads: int, readers: int) -> None:
        storage = Storage({"max_concurrency": 5})
        assert (storage.threads(location), storage.readers(location)) == (threads, readers)
        assert storage.threads(location, 3) == 3


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

    def test_a_file_that_is_larger_than_all_is_kept_while_it_is_the_last(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_MAX_BYTES", 10)
        storage = Storage()
        for key in ("t/a", "t/a", "t/b"):
            storage.read(f"{ROOT}/{key}")
        assert len(store.asked) == 2
        assert "1 files open, 0 listed, 100 bytes kept" in repr(storage)

    @pytest.mark.usefixtures("store")
    def test_a_file_that_is_read_when_it_was_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its bytes are no longer counted."""
        monkeypatch.setattr(module, "_MAX_FILES", 1)
        storage = Storage()
        with storage.open(f"{ROOT}/t/a") as source:
            storage.read(f"{ROOT}/t/b")
            assert bytes(source.read(0, 100)) == DATA["t/a"]
        assert "1 files open, 0 listed, 100 bytes kept" in repr(storage)

    def test_of_the_sizes_that_are_known(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_MAX_FILES", 3)
        storage = Storage()
        list(storage.walk(f"{ROOT}/t"))
        assert [storage.stat(f"{ROOT}/{name}").size for name in DATA] == [100, 100, 300, 300]
        assert store.asked == [("list", "t"), ("head", "t/x/d")]


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

    def test_no_threads(self) -> None:
        with pytest.raises(UsageError, match="threads must be 1 or more, not 0"):
            next(run_bounded(str, [1], 0))

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


def test_exclusive_files_are_the_stores(store: MemoryStore, tmp_path: Path) -> None:
    Storage().put_if_absent(str(tmp_path / "a"), b"x")
    assert bytes(LocalStore().get(str(tmp_path / "a")).data) == b"x"
    with pytest.raises(FileExistsError):
        Storage().put_if_absent((tmp_path / "a").as_uri(), b"y")
