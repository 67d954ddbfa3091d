"""Names of one file, and of two: tables of cases, laws, and what is made of sets of names."""

from __future__ import annotations

import io
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec import RowSet, UsageError, iceberg, puffin, verify
from dvcodec.core.errors import NotCanonical
from dvcodec.io.target import ON_DRIVE, file_key, file_keys, merge_spellings, path_below
from dvcodec.ops.convert import read_rows

SAME = [
    (
        "/wh/x",
        "file:/wh/x",
        "file:///wh/x",
        "FILE:///wh/x",
        "file://localhost/wh/x",
        "file://LOCALHOST/wh/x",
        "/wh//x",
        "//wh/x/",
        "/wh/x",
    ),
    ("file://host/wh/x", "FILE://host//wh/x/"),
    ("s3://b/k/x", "s3a://b/k/x", "s3n://b/k/x", "S3A://b/k/x", "s3://b//k///x", "s3://b/k/x/"),
    ("abfs://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
    ("abfs://c/x", "az://c/x", "AZ://c//x", "azure://c/x", "adl://c/x"),
    ("dbfs:/t/x", "dbfs:///t/x", "DBFS:/t//x/"),
    ("wasb://c@a/x", "wasbs://c@a/x"),
    ("gs://b/x", "gcs://b/x"),
    ("gs://B/x",),
    ("hdfs://nn/x", "HDFS://nn//x/"),
    ("hdfs:///x", "hdfs:////x", "hdfs:/x"),
    ("http://h/x", "http://H/x"),
    ("https://h/x",),
    ("/wh/a%20b",),
    ("/wh/ts=10%3A00/x", "file:/wh/ts=10%3A00/x"),
    ("/wh/ts=10:00/x",),
    ("/", "file:/", "file:///", "//"),
    ("C:/lake/x", "c:\\lake\\x", "C:\\lake//x", "file:///C:/lake/x", "file:/C:/lake/x/", "/C:/lake/x"),
    ("C:x",),
    ("s3:/b/k/x",),
    ("",),
]
NAMES = st.text("ab/:%20s3fileFILE.@é\n", max_size=30)
SPELLED = st.one_of(
    NAMES,
    st.builds("{}{}".format, st.sampled_from(["s3://b/", "s3a://b/", "/", "file:/", "file:///", "GS://b/"]), NAMES),
)


def test_keys_are_equal_where_the_file_is_one() -> None:
    keys = [{file_key(name) for name in group} for group in SAME]
    assert [len(group) for group in keys] == [1] * len(SAME)
    assert len(set.union(*keys)) == len(SAME)


@given(SPELLED)
def test_a_key_keeps_the_letters_of_the_path(name: str) -> None:
    """Nothing but schemes and slashes differs from the name: two files of other letters have two keys.

    That of a drive is capital.
    """
    key = file_key(name)
    name = name[:1].upper() + name[1:] if re.match(ON_DRIVE, name) else name
    steps = [step for step in key.rpartition("://")[2].split("/") if step]
    assert "/".join(steps) in "/".join(step for step in name.split("/") if step)


@given(st.lists(SPELLED, max_size=6))
def test_many_keys_at_once(names: list[str]) -> None:
    assert file_keys(names) == [file_key(name) for name in names]


def test_paths_from_a_folder_on() -> None:
    assert path_below("/t/a//b", "file:/t/") == "a/b"
    assert path_below("/t", "/t") is None
    assert path_below("/tx/a", "/t") is None
    assert path_below("/a", "/") == "a"
    assert path_below("s3a://b//t//d//x", "s3://b/t") == "/d//x"
    assert path_below("hdfs:///a/x", "hdfs:///a") == "x"
    assert path_below("hdfs:///x", "hdfs:///") == "x"
    assert path_below("hdfs:/a//x", "hdfs:///a") == path_below("hdfs:///a//x", "hdfs:/a") == "/x"
    assert path_below("t/x", "t") == "x"


# ---------------------------------------------------------------------- sets of names


def test_the_first_spelling_stands_for_the_file(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dvcodec.paths"):
        found = merge_spellings(["file:/x", "/y", None], ["/x", "file:///x", "s3://b/k", None], ["s3a://b/k"])
    assert found == {
        "file:/x": "file:/x",
        "/y": "/y",
        None: None,
        "/x": "file:/x",
        "file:///x": "file:/x",
        "s3://b/k": "s3://b/k",
        "s3a://b/k": "s3://b/k",
    }
    assert caplog.messages == ["3 data files are spelled in two ways, the first is kept: 'file:/x' for '/x'"]
    caplog.clear()
    merge_spellings(["/x", "/y"], ["/y", "/a b"])
    assert not caplog.messages


@pytest.mark.parametrize(
    "pair",
    [
        ("/t/a b", "file:/t/a%20b"),
        ("s3a://t/a%20b", "s3://t/a b"),
        ("/t/a%20b+c", "/t/a%20b%2Bc"),
        ("/t/%c3%a9", "file:/t/%C3%A9"),
        ("abfss://c@a.dfs.core.windows.net/k", "az://c/k"),
    ],
)
def test_names_that_may_be_one_file_are_refused(pair: tuple[str, str]) -> None:
    for one, other in (pair, pair[::-1]):
        with pytest.raises(UsageError, match="may be one data file"):
            merge_spellings([one], ["/t/x"], [other])
    assert merge_spellings(list(pair), [pair[1]])[pair[1]] == pair[1]


# ---------------------------------------------------------------------- Puffin files


def two_spellings(*names: str) -> bytes:
    """A Puffin file of vectors that no writer of ours makes."""
    out = io.BytesIO()
    with puffin.PuffinWriter(out) as writer:
        for i, name in enumerate(names):
            writer.add(
                "deletion-vector-v1",
                iceberg.encode(RowSet([i])),
                fields=[2147483545],
                snapshot_id=-1,
                sequence_number=-1,
                properties={"referenced-data-file": name, "cardinality": "1"},
            )
    return out.getvalue()


def test_a_puffin_that_names_a_file_twice_is_a_finding() -> None:
    data = two_spellings("s3://b/x", "/y", "s3a://b//x")
    (found,) = verify(data).findings
    assert (found.name, found.subject) == ("one-vector-per-file", "vector of s3a://b//x")
    assert found.message == "second vector, the first is at byte 4 and spells the same data file 's3://b/x'"
    assert verify(two_spellings("/a b", "/a%20b")).ok
    with pytest.raises(NotCanonical, match="s3://b/x and s3a://b//x, which are one file"):
        iceberg.read_deletion_vectors(data)
    read = iceberg.read_deletion_vectors
    assert read(data, duplicates="union") == read_rows(data) == {"s3://b/x": RowSet([0, 2]), "/y": RowSet([1])}
    assert read(data, duplicates="last") == {"s3://b/x": RowSet([2]), "/y": RowSet([1])}
    assert verify(data, data_file="s3n://b/x", row_count=1).findings[-1].name == "rows"
    many = two_spellings(*(f"/d/{i}" for i in range(300)), "file:/d/7")
    with pytest.raises(NotCanonical, match="/d/7 and file:/d/7, which are one file"):
        iceberg.read_deletion_vectors(many)
