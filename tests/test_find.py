"""Patterns of URLs, and what a list has that is not a file."""

from __future__ import annotations

import pickle
import uuid
import warnings

import pytest

from dvcodec.io import Storage, open_sink
from dvcodec.io.find import find_remote, pattern_regex
from dvcodec.io.store import StoreOptions
from dvcodec.io.store.errors import store_error


@pytest.mark.parametrize(
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


def test_a_storage_shows_no_secret_and_is_pickled_with_its_options() -> None:
    storage = Storage({"aws_secret_access_key": "geheim"})
    assert "geheim" not in repr(storage)
    options: StoreOptions = pickle.loads(pickle.dumps(storage)).options
    assert options == storage.options


def test_an_error_of_a_store_is_one_line() -> None:
    assert str(store_error("s3://b/a\nb", "read", "x\ty")) == r"s3://b/a\nb: cannot read: failed: x y"
