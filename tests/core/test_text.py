"""Numbers and names for people; what the command line shows of them is in cli/test_render.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec.core.text import folder_of, plain


@each(
    ("paths", "folder"),
    [
        ([], ""),
        (["a.parquet"], ""),
        (["t/a.parquet"], "t/"),
        (["/t/a.parquet", "/t/b.parquet"], "/t/"),
        (["/t/day=1/a", "/t/day=12/a"], "/t/"),
        (["/t/a", "/t/a/b"], "/t/"),
        (["s3://lake/a", "s3://pond/a"], ""),
        (["s3://lake/a", "file.parquet"], ""),
    ],
)
def test_folder_of(paths: list[str], folder: str) -> None:
    assert folder_of(paths) == folder


@given(st.text())
def test_plain_text_prints_on_one_line(text: str) -> None:
    assert plain(text).isprintable()
    assert plain(plain(text)) == plain(text)
