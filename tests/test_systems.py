"""What Windows spells otherwise, by pure functions: the tests run on Linux."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import UsageError
from dvcodec.io.target import is_local, local_path, network_host, with_slashes

ON_WINDOWS = [
    (r"C:\lake\t", "C:/lake/t"),
    ("C:/lake/t", "C:/lake/t"),
    (r"..\t\a.puffin", "../t/a.puffin"),
    (r"\\host\share\t", "//host/share/t"),
    (r"s3://lake/a\b", r"s3://lake/a\b"),
]


@pytest.mark.parametrize(("given", "expected"), ON_WINDOWS)
def test_paths_have_slashes(given: str, expected: str) -> None:
    assert with_slashes(given, windows=True) == expected
    assert with_slashes(given, windows=False) == given
    assert network_host(given) == network_host(expected)


@each(
    ("url", "windows", "elsewhere"),
    [
        ("file:///C:/lake/t", "C:/lake/t", "/C:/lake/t"),
        ("file:/c:/a%20b", "c:/a b", "/c:/a b"),
        ("file://localhost/C:/", "C:/", "/C:/"),
        ("file:///C:", "C:", "/C:"),
        ("file:///lake/C:/t", "/lake/C:/t", "/lake/C:/t"),
    ],
)
def test_urls_of_drives(url: str, windows: str, elsewhere: str) -> None:
    found = local_path(url, windows=True), local_path(url, windows=False)
    assert [None if path is None else path.as_posix() for path in found] == [windows.rstrip("/"), elsewhere.rstrip("/")]


@given(
    st.sampled_from(["", "/", "s3://", "S3A://b/", "file:", "file:///", "file://host/", "C:", "a::", "zip://a::"]),
    st.text(),
)
def test_what_is_local_has_a_local_path(start: str, rest: str) -> None:
    found: list[bool | None] = []
    for ask in (is_local, lambda target: local_path(target) is not None):
        try:
            found.append(ask(start + rest))
        except UsageError:
            found.append(None)
    assert found[0] is found[1]
