"""Namesakes: which data file a stale path means."""

from __future__ import annotations

import pytest

from dvcodec.tables import Folder
from dvcodec.tables.namesakes import Namesakes

PATHS = ["/new/t/data/p=1/a.parquet", "/new/t/data/p=2/a.parquet", "/new/t/data/b.parquet", "s3://other/c.parquet"]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("s3://old/t/data/p=1/a.parquet", PATHS[0]),
        ("s3://old/x/p=2/a.parquet", PATHS[1]),
        ("s3://old/x/p=3/a.parquet", None),
        ("a.parquet", None),
        ("b.parquet", PATHS[2]),
        ("/elsewhere/b.parquet", PATHS[2]),
        ("file:/new/t/data/p=1/a.parquet", PATHS[0]),
        ("s3a://other/c.parquet", PATHS[3]),
        ("/new/t/data/z.parquet", None),
        ("", None),
        ("/", None),
    ],
)
def test_find(path: str, meant: str | None) -> None:
    assert Namesakes(Folder("/new/t"), PATHS).find(path) == meant


def test_without_data_files() -> None:
    assert Namesakes(Folder("/t"), []).find("a.parquet") is None
