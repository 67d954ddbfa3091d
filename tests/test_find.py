"""Patterns of URLs, and what a list has that is not a file."""

from __future__ import annotations

import uuid
import warnings

import pytest

from cases import each
from dvcodec.io import Storage, open_sink
from dvcodec.io.opening import find_remote, pattern_regex
from dvcodec.io.store import AccessDenied, Reason, StoreError
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
        ("*/**", ["a/b", "a/b/c"], ["a"]),
        ("a/**/b*", ["a/b", "a/x/bc", "a/x/y/b"], ["a", "a/b/c", "x/b"]),
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
    for name in ("t/sub/deep/er/x", "t/a", "t/empty"):
        with open_sink(f"{root}/{name}", storage_options=storage) as sink:
            sink.write(b"" if name == "t/empty" else b"x")
    listed = list(storage.walk(f"{root}/t"))
    markers = [type(listed[0])(f"{root}/t/{name}", 0) for name in ("", "sub", "sub/deep/er")]
    monkeypatch.setattr(storage, "walk", lambda _: [*markers, *listed])
    found = find_remote(f"{root}/t/**", storage)
    assert found is not None
    assert [one.location for one in found.files] == [f"{root}/t/{name}" for name in ("a", "empty", "sub/deep/er/x")]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """The store of every URL."""
    made = MemoryStore({f"t/{name}": b"x" for name in ("a", "[1]/a", "[1]/b", "1/c", "d[2]")})
    for module in ("opening", "storage"):
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
