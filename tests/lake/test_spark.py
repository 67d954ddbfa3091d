"""Spark on object stores: exact counts of requests, rows, commits, and what a refusal says."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dvcodec import RowSet, iceberg
from lake.buckets import Bucket
from spark import conftest as in_spark
from spark.sessions import environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

if find_spec("pyspark") is None:
    pytest.skip("needs pyspark (extra spark)", allow_module_level=True)

# One JVM for these and for the tests in tests/spark; pyspark's own warnings are not ours.
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.filterwarnings("default")]

FILES = 300
Options = dict[str, str]


spark, sources = in_spark.spark, in_spark.sources


@pytest.fixture(scope="module", autouse=True)
def _registered(sources: SparkSession) -> None:
    pass


def spelled(options: Options) -> Options:
    """Storage options as options of a data source."""
    return {f"storage.{key}": value for key, value in options.items()}


def read(spark: SparkSession, bucket: Bucket, *paths: str, **options: str) -> DataFrame:
    reader = spark.read.format("dvcodec").options(**spelled(bucket.options)).options(**options)
    return reader.load(list(paths) if len(paths) > 1 else paths[0])


def rows_of(number: int) -> list[int]:
    return [number, number + 7, 1000 + 2 * number]


def puffins(folder: Path, count: int) -> None:
    """Puffin files of one vector each."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        iceberg.write_deletion_vectors(
            folder / f"{i:04}.puffin", {f"s3://lake/data/{i:04}.parquet": RowSet(rows_of(i))}
        )


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    puffins(folder / "t", FILES)
    return folder


class TestRequests:
    """Each request takes 100 ms. At most one for each file, and three more."""

    @pytest.fixture
    def filled(self, counted_s3: Bucket, many: Path) -> Bucket:
        counted_s3.upload(many)
        counted_s3.watched.delay(0.1)
        return counted_s3

    def test_prefix(self, spark: SparkSession, filled: Bucket) -> None:
        with filled.watched.watch() as seen:
            found = read(spark, filled, f"{filled.url}/t").select("container", "cardinality", "error").collect()
        assert [tuple(row) for row in found] == [(f"{filled.url}/t/{i:04}.puffin", 3, None) for i in range(FILES)]
        assert seen[0].kinds == {"GET": FILES, "HEAD": 1, "LIST": 1}
        assert not seen[0].repeated
        assert seen[0].most_at_once >= 4
        assert set(seen[0].objects.values()) == {1}


class TestWriting:
    @pytest.mark.long
    @pytest.mark.parametrize("target", ["iceberg", "delta", "paimon64"])
    def test_write_and_read(self, spark: SparkSession, s3: Bucket, many: Path, target: str) -> None:
        from dvcodec.spark.sources import read_manifest

        vectors = spark.read.format("dvcodec").load(str(many / "t")).select("data_file", "dv").repartition(3)
        writer = vectors.write.format("dvcodec").mode("append").options(**spelled(s3.options))
        writer.options(target=target, **{"max-vectors": "40"}).save(f"{s3.url}/out")
        keys = keys_of(s3)
        containers = [key for key in keys if "_manifest-" not in key]
        assert len(keys) - len(containers) == 1
        manifest = read_manifest(f"{s3.url}/out", storage_options=s3.options)
        assert {path.removeprefix(f"{s3.url}/") for path in manifest["path"].to_pylist()} == set(containers)
        found = read(spark, s3, f"{s3.url}/out").select("data_file", "cardinality", "crc_ok").collect()
        assert sorted(map(tuple, found)) == [(f"s3://lake/data/{i:04}.parquet", 3, True) for i in range(FILES)]
        # What no manifest names is not there for readers; `committed` shows it.
        s3.put({f"out/{Path(containers[0]).name}.copy": b"junk"})
        assert read(spark, s3, f"{s3.url}/out").count() == FILES


def keys_of(bucket: Bucket) -> list[str]:
    import obstore

    return sorted(meta["path"] for page in obstore.list(bucket.store()) for meta in page)


class TestWords:
    """What a user reads who has done something wrong, and what nobody reads."""

    SECRET = "veryverysecret"

    def test_refusals(self, spark: SparkSession, counted_s3: Bucket) -> None:
        from pyspark.errors import PySparkException

        counted_s3.put({"t/x.puffin": b"x"})
        wrong = {"aws_secret_access_key": self.SECRET}
        cases = {
            (f"{counted_s3.url}/t", "aws_secret_access_key"): "SignatureDoesNotMatch",
            (f"{counted_s3.url}/none", ""): "/none: no such file or folder",
            ("s3://no-such-bucket-here/t", ""): "no such bucket",
        }
        for (url, key), words in cases.items():
            options = spelled(counted_s3.options | ({key: wrong[key]} if key else {}))
            with pytest.raises(PySparkException) as refused:
                spark.read.format("dvcodec").options(**options).load(url).collect()
            assert words in str(refused.value)
            assert self.SECRET not in str(refused.value)
            assert counted_s3.options["aws_secret_access_key"] not in str(refused.value)

    @pytest.mark.long
    def test_no_secret_in_a_plan(
        self, spark: SparkSession, counted_s3: Bucket, many: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from dvcodec.spark import jobs

        counted_s3.upload(many)
        secret = counted_s3.options["aws_secret_access_key"]
        loaded = read(spark, counted_s3, f"{counted_s3.url}/t")
        places = loaded.select("container", "offset", "size")
        for df in (loaded, loaded.where("cardinality > 1"), jobs.audit(places, storage_options=counted_s3.options)):
            df.explain("extended")
            df.explain("formatted")
            assert secret not in repr(df)
        assert "dvcodec" in (shown := capsys.readouterr().out)
        assert secret not in shown


SCRIPT = """
import logging, sys
from pyspark.sql import SparkSession
from dvcodec.spark import register
builder = SparkSession.builder.master("local[2]").config("spark.executorEnv.DVCODEC_LOG", "info")
spark = builder.getOrCreate()
register(spark)
print("rows", spark.read.format("dvcodec").load(sys.argv[1]).count())
"""


def test_environment_and_counts(counted_s3: Bucket, many: Path) -> None:
    """Credentials and endpoint of the environment, and the log of what each task and the driver have asked for."""
    url = counted_s3.upload(many)
    names = {"aws_access_key_id", "aws_secret_access_key", "aws_region", "aws_endpoint_url", "aws_allow_http"}
    given = {name.upper(): value for name, value in counted_s3.options.items() if name in names}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, f"{url}/t"],
        env=environment() | given,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert f"rows {FILES}" in done.stdout, done.stderr[-3000:]
    tasks = re.findall(
        r"dvcodec: stage \d+, partition (\d+): read: (\d+) requests \(\d+ GET\), [\d,]+ bytes", done.stderr
    )
    assert sum(int(count) for _, count in tasks) == FILES
    assert len({partition for partition, _ in tasks}) == len(tasks) > 1
    assert "dvcodec: driver: plan: 2 requests (1 HEAD, 1 LIST), 0 bytes read" in done.stderr
    assert counted_s3.options["aws_secret_access_key"] not in done.stderr
