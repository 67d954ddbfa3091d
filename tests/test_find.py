"""Patterns of URLs, and what a list has that is not a file."""

from __future__ import annotations

import io
import pickle
import uuid
import warnings
import zipfile

import pytest

from cases import each
from dvcodec.io import Storage, open_sink
from dvcodec.io.find import find_remote, pattern_regex
from dvcodec.io.store import AccessDenied, Reason, StoreError, StoreOptions
from dvcodec.io.store.errors import store_error
from samples.memory_store import ROOT, MemoryStore


@each(
    ("pattern", "matching", "others"),
    [
        ("[z-a]", [], ["a", "z", "-"]),
        ("[!]x", [], ["x"]),
        ("[!]x]", ["a"], ["]", "x"]),
        ("[]x]", ["]", "x"], ["a"]),
        ("[a&&b||c~~d]", ["a", "&", "|", "~"], ["x"]),
        ("[[x]", ["[", "x"], ["a"]),
        ("[+--]", ["+", ",", "-"], ["a"]),
        ("[!a-c]", ["d"], ["a", "b"]),
        ("[^a]", ["b"], ["a"]),
        ("[", ["["], ["a"]),
    ],
)
def test_sets_of_a_pattern(pattern: str, matching: list[str], others: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regex = pattern_regex(pattern)
    assert [name for name in (*matching, *others) if regex.fullmatch(name)] == matching


def test_what_stands_for_a_folder_matches_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    root = f"memory://{uuid.uuid4()}"
    storage = Storage()
    for name in ("t/sub/deep/x", "t/a", "t/empty"):
        with open_sink(f"{root}/{name}", storage_options=storage) as sink:
            sink.write(b"" if name == "t/empty" else b"x")
    listed = list(storage.walk(f"{root}/t"))
    markers = [type(listed[0])(f"{root}/t/{name}", 0) for name in ("", "sub", "sub/deep")]
    monkeypatch.setattr(storage, "walk", lambda _: [*markers, *listed])
    found = find_remote(f"{root}/t/**", storage)
    assert found is not None
    assert [one.location for one in found.files] == [f"{root}/t/{name}" for name in ("a", "empty", "sub/deep/x")]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """The store of every URL."""
    made = MemoryStore({f"t/{name}": b"x" for name in ("a", "[1]/a", "[1]/b", "1/c", "d[2]")})
    for module in ("find", "storage"):
        monkeypatch.setattr(f"dvcodec.io.{module}.open_store", made.opened)
    return made


@pytest.mark.parametrize(
    ("url", "found", "folder", "is_pattern"),
    [
        ("t/a", ["t/a"], None, False),
        ("t/d[2]", ["t/d[2]"], None, False),
        ("t/1", ["t/1/c"], "t/1", False),
        ("t/1/", ["t/1/c"], "t/1", False),
        ("t/[1]", ["t/[1]/a", "t/[1]/b"], "t/[1]", False),
        ("t/[1]/", ["t/[1]/a", "t/[1]/b"], "t/[1]", False),
        ("t/[1]/?", ["t/1/c"], "t", True),
        ("t/*/[bc]", ["t/1/c", "t/[1]/b"], "t", True),
    ],
)
@pytest.mark.usefixtures("store")
def test_what_a_url_is(url: str, found: list[str], folder: str | None, is_pattern: bool) -> None:
    """An object or a folder of that very name is not taken for a pattern."""
    files = find_remote(f"{ROOT}/{url}", Storage())
    assert files is not None
    assert [one.location for one in files.files] == [f"{ROOT}/{name}" for name in found]
    assert (files.folder, files.is_pattern) == (None if folder is None else f"{ROOT}/{folder}", is_pattern)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("url", ["t/none", "t/none/", "t/*/none", "t/[9]"])
def test_what_a_url_is_not(url: str) -> None:
    assert find_remote(f"{ROOT}/{url}", Storage()) is None


@pytest.mark.parametrize("reason", [Reason.DENIED, Reason.BAD_CREDENTIALS])
def test_an_object_that_is_denied(store: MemoryStore, reason: Reason) -> None:
    """It may be missing: then it is a folder, or it is nothing, and the error is told."""
    store.refused = {"head": reason}
    found = find_remote(f"{ROOT}/t/1", Storage())
    assert found is not None
    assert [one.location for one in found.files] == [f"{ROOT}/t/1/c"]
    with pytest.raises(AccessDenied, match=f"s3://lake/t/none: cannot head: {reason.value}: so it was told"):
        find_remote(f"{ROOT}/t/none", Storage())


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ({"head": Reason.TIMEOUT}, "cannot head: timed out"),
        ({"head": Reason.DENIED, "list": Reason.OTHER}, "cannot list: failed"),
        ({"list": Reason.UNAVAILABLE}, "cannot list: store unavailable"),
    ],
)
def test_a_store_that_fails(store: MemoryStore, refused: dict[str, Reason], said: str) -> None:
    store.refused = refused
    with pytest.raises(StoreError, match=said):
        find_remote(f"{ROOT}/t/none", Storage())


def test_a_web_server_that_does_not_list(store: MemoryStore) -> None:
    """Its words about the object are the better ones."""
    store.refused = {"head": Reason.DENIED, "list": Reason.OTHER}
    with pytest.raises(AccessDenied, match="cannot head: denied"):
        find_remote("http://h/t/none", Storage())


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("t/*.bin", ["t/a.bin", "t/b.bin"]), ("**/c.bin", ["t/x/c.bin"]), ("t/[b]/", None), ("t/x/*", ["t/x/c.bin"])],
)
def test_patterns_within_an_archive(pattern: str, found: list[str] | None) -> None:
    fsspec = pytest.importorskip("fsspec")
    archive = f"/{uuid.uuid4()}.zip"
    with zipfile.ZipFile(written := io.BytesIO(), "w") as zipped:
        for name in ("t/a.bin", "t/b.bin", "t/x/c.bin", "t/d.txt"):
            zipped.writestr(name, name)
    fsspec.filesystem("memory").pipe_file(archive, written.getvalue())
    storage = Storage()
    files = find_remote(f"zip://{pattern}::memory:/{archive}", storage)
    assert (None if files is None else [one.location for one in files.files]) == (
        None if found is None else [f"zip://{name}::memory:/{archive}" for name in found]
    )
    for one in files.files if files else ():
        assert storage.read(one.location).decode() == one.location.partition("::")[0][6:]
    fsspec.filesystem("memory").rm_file(archive)


def test_a_storage_shows_no_secret_and_is_pickled_with_its_options() -> None:
    storage = Storage({"aws_secret_access_key": "geheim"})
    assert "geheim" not in repr(storage)
    options: StoreOptions = pickle.loads(pickle.dumps(storage)).options
    assert options == storage.options


def test_an_error_of_a_store_is_one_line() -> None:
    assert str(store_error("s3://b/a\nb", "read", "x\ty")) == r"s3://b/a\nb: cannot read: failed: x y"
