"""Spellings of data files: on every character, on real files, and the same over columns."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

from dvcodec.io.target import decoded_key
from dvcodec.spark import paths

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

ASCII = [chr(code) for code in range(0x20, 0x7F) if chr(code) not in "/:"]  # Hadoop's local files have no colon
OTHERS = [*"éü漢😀\x01\t\n\x1f\x7f\x80\x9f\xa0\u1680\u2003\u2028\u3000\u200b", "e\u0301", "a%20b", "%41", "a+b", "%zz"]
PLAIN = [
    "/wh/t/a b.parquet",
    "/",
    "//wh///t//x.parquet",
    "file:/wh/x",
    "file:///wh/a%20b",
    "file:////wh//x",
    "s3://lake/t/a b+é#😀.parquet",
    "s3a://lake//t/x",
    "s3n://lake/x",
    "s3ax://lake/s3a://x",
    "gs://lake/a=b/[x]",
    "hdfs://[::1]:8020/a b",
    "hdfs:///a//b/",
    "hdfs:///",
    "hdfs://",
    "hdfs:/a//b/",
    "DBFS:/x",
    "viewfs://x/y",
    "HTTPS://Host/Path",
    "file://LocalHost/x",
    "azure://c/x",
    "FILE:/wh/X",
    "file://localhost//wh/x/",
    "file://localhost",
    "file://localhostess/x",
    "file://other//wh/x",
    "file:x",
    "file:/s3://x",
    "S3A://lake/x/",
    "s3:///x",
    "s3a:////x//",
    "s3://lake//t//x",
    "s3://",
    "az://c/x",
    "gcs://b/k//",
    "C://x//y",
    "C:/x//y z/",
    "c:\\x\\y",
    "1s3://x//y",
    "a//b/",
    "/a\n/",
    "/a/\n",
    "abfss://c@account.dfs.core.windows.net/a^b",
    "wasbs://c@account.blob.core.windows.net/x",
    "bare name%.parquet",
    "day=2024-01-01 10%3A00/x.parquet",
    "",
    *(f"/d/x{letter}y" for letter in ASCII + OTHERS),
    *(f"s3://b/{letter}{letter}" for letter in ASCII + OTHERS),
]


@pytest.mark.everywhere
def test_spark_spells_real_files_so(spark: SparkSession, tmp_path: Path) -> None:
    made = {}
    for i, letter in enumerate(ASCII + OTHERS):
        made[i] = str(tmp_path / f"x{i}-{letter}-.parquet")
        pq.write_table(pa.table({"n": pa.array([i])}), made[i])
    df = spark.read.parquet(str(tmp_path))
    uri = sf.col("_metadata.file_path")
    columns = [uri, paths.data_file_column(uri), paths.match_key_column(uri, uri=True)]
    found = df.select("n", *(column.alias(str(i)) for i, column in enumerate(columns))).collect()
    assert {row["n"] for row in found} == set(made)
    for n, shown, data_file, key in found:
        path = made[n]
        assert shown == paths.file_uri_of(path) == paths.spellings(path)[0]
        assert data_file == paths.data_file_of(shown) == f"file:{path}"
        assert key == paths.match_key(shown, uri=True) == paths.match_key(path) == path
    assert {paths.match_key(uri, uri=True) for uri in df.inputFiles()} == set(made.values())
    assert {paths.data_file_of(uri) for uri in df.inputFiles()} == {f"file:{path}" for path in made.values()}


def test_what_is_encoded_is_what_java_takes_for_spaces_and_controls() -> None:
    others = set('"#%<>?[\\]^`{|}')
    for code in range(0x3100):
        letter = chr(code)
        kind = unicodedata.category(letter)
        encoded = paths.file_uri_of(f"/x{letter}y") != f"file:/x{letter}y"
        if letter != "/":
            assert encoded == (kind == "Cc" or kind.startswith("Z") or letter in others), hex(code)
        assert paths.match_key(paths.file_uri_of(f"/x{letter}y"), uri=True) == f"/x{letter}y"


@pytest.mark.everywhere
def test_columns_say_what_the_functions_say(spark: SparkSession) -> None:
    uris = [paths.file_uri_of(path) for path in PLAIN]
    rows = [(i, path, uri) for i, (path, uri) in enumerate(zip(PLAIN, uris, strict=True))]
    df = spark.createDataFrame(rows, "n int, path string, uri string")
    path, uri = sf.col("path"), sf.col("uri")
    columns: list[Column] = [
        paths.file_uri_column(path),
        paths.data_file_column(uri),
        paths.match_key_column(path),
        paths.match_key_column(uri, uri=True),
    ]
    for row in df.select("n", *(column.alias(f"c{i}") for i, column in enumerate(columns))).collect():
        plain, spelled = PLAIN[row["n"]], uris[row["n"]]
        want = [
            paths.file_uri_of(plain),
            paths.data_file_of(spelled),
            paths.match_key(plain),
            paths.match_key(spelled, uri=True),
        ]
        assert list(row)[1:] == want, plain
    keyed = df.select(
        "n", paths.twin_column(paths.match_key_column(uri)), paths.twin_column(paths.match_key_column(path))
    )
    assert all(from_uri == from_path for _, from_uri, from_path in keyed.collect())
    for n, decoded in df.select("n", paths.decoded_key_column(uri)).collect():
        plain_key = decoded_key(uris[n])
        assert decoded == plain_key or (plain_key is None and decoded == paths.match_key(uris[n])), uris[n]
    null = spark.range(1).select(sf.lit(None).cast("string").alias("path")).select(paths.file_uri_column(path))
    assert null.collect()[0][0] is None


def test_both_spellings_have_one_key() -> None:
    for plain in PLAIN:
        key = paths.match_key(plain)
        assert paths.match_key(paths.file_uri_of(plain), uri=True) == key, plain
        assert {paths.match_key(uri, uri=True) for uri in paths.spellings(plain)} == {key}
        assert paths.match_key(key) == key


def test_spellings_name_what_spark_can_read() -> None:
    assert paths.spellings("s3n://b/a b") == paths.spellings("s3://b/a b") == ["s3://b/a%20b", "s3a://b/a%20b"]
    assert paths.spellings("abfss://c@a/x") == ["abfs://c@a/x", "abfss://c@a/x"]
    assert paths.spellings("gs://b/x") == ["gs://b/x"]
