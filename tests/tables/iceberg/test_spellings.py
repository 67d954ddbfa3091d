"""Data files that deletes name with another scheme."""

from __future__ import annotations

from cases import each
from dvcodec.tables.iceberg.plan import Spellings


@each(
    ("known", "path", "meant"),
    [
        (["/t/a", "/t/b"], "hdfs://host:8020/t/a", "/t/a"),
        (["/t/a"], "hdfs:/t/a", "/t/a"),
        (["/t/a"], "file:///t/a", "/t/a"),
        (["hdfs://host/t/a"], "/t/a", "hdfs://host/t/a"),
        (["s3://lake/t/a"], "s3a://lake/t/a", "s3://lake/t/a"),
        (["file:/t/a"], "file:///t/a", "file:/t/a"),
        (["hdfs://one/t/a"], "hdfs://two/t/a", None),
        (["s3://lake/t/a"], "s3://pond/t/a", None),
        (["s3://lake/t/a"], "hdfs://host/t/a", None),
        (["hdfs://one/t/a", "hdfs://two/t/a"], "/t/a", None),
        (["/t/a", "hdfs://one/t/a"], "file:/t/a", None),
        (["/t/a"], "hdfs://host/t/b", None),
        (["/t/a"], "hdfs://host", None),
        (["t:0/a"], "/a", None),
        ([], "/t/a", None),
    ],
)
def test_find(known: list[str], path: str, meant: str | None) -> None:
    assert Spellings(known).find(path) == meant
