"""A standalone cluster whose workers have no dvcodec: it is shipped with the session, before or after `register`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec import UsageError
from dvcodec.cli.spark_demo import ensure_java
from dvcodec.spark import sources
from dvcodec.spark.sources import check_python
from dvcodec.tables import open_table
from interop.driver import need
from lake.buckets import fresh
from lake.servers import VERSITYGW, versitygw
from samples.id_tables import MAKERS, make_iceberg
from samples.rows import ids

ROOT = Path(__file__).parents[2]
CONNECT = os.environ.get("DVCODEC_SPARK") == "connect"
# What workers need besides dvcodec, in the versions of the driver. Spark brings pyspark itself.
PACKAGES = (
    "numpy", "pandas", "pyarrow", "pyroaring", "cramjam", "zstandard", "obstore", "googleapis-common-protos", "grpcio"
)  # fmt: skip
SECONDS = 120


@dataclass(frozen=True)
class Cluster:
    master: str
    home: str
    """Of Spark."""
    python: Path
    """The Python of the workers."""
    archive: Path
    """dvcodec's wheel under a name that Spark takes for a package."""


def installed(name: str) -> bool:
    return find_spec({"googleapis-common-protos": "google", "grpcio": "grpc"}.get(name, name)) is not None


def worker_python() -> Path:
    """A Python with what dvcodec needs, and without it; made once for these versions."""
    wanted = [f"{name}=={version(name)}" for name in PACKAGES if installed(name)]
    name = "-".join([".venv-workers", *map(str, sys.version_info[:2]), *(one.partition("==")[2] for one in wanted)])
    folder = ROOT / "interop" / "spark" / name
    if not folder.is_dir():
        made = Path(tempfile.mkdtemp(prefix=".venv-workers-", dir=folder.parent))
        try:
            venv.create(made, symlinks=True)
            pip = [sys.executable, "-m", "pip", "--python", str(made / "bin" / "python"), "install", "--quiet"]
            subprocess.run([*pip, *wanted], check=True, timeout=500)
            made.rename(folder)
        except OSError:  # another process was quicker
            if not folder.is_dir():
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder / "bin" / "python"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers, which find no python3: it is not in their search path. Their Python has no dvcodec."""
    if CONNECT:
        pytest.skip("a classic cluster")
    import pyspark

    ensure_java()
    folder, python = tmp_path_factory.mktemp("cluster"), worker_python()
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, timeout=300)
    archive = next(folder.glob("dvcodec-*.whl")).rename(folder / "dvcodec.zip")
    home = Path(pyspark.__file__).parent
    java = shutil.which("java") if "JAVA_HOME" not in os.environ else f"{os.environ['JAVA_HOME']}/bin/java"
    assert java is not None
    tools = folder / "tools"
    tools.mkdir()
    for name in ("bash", "chmod", "cp", "ln", "ls", "mv", "rm", "sh", "stat", "tar"):
        if (tool := shutil.which(name)) is not None:
            (tools / name).symlink_to(tool)
    environment = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PATH": str(tools)}
    # What Spark's own scripts set, which want a shell and more.
    environment["SPARK_SCALA_VERSION"] = next((home / "jars").glob("spark-core_*.jar")).name.split("_")[1].split("-")[0]
    if "JAVA_HOME" in os.environ:
        environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
    opens = ["java.lang", "java.nio", "java.util", "java.lang.invoke", "java.net", "sun.nio.ch", "sun.util.calendar"]
    command = [
        java,
        "-Xmx512m",
        "-cp",
        f"{home}/jars/*",
        *(f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in opens),
    ]
    port, ui = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> None:
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            host = ["--host", "127.0.0.1"]
            child = subprocess.Popen(
                [*command, f"org.apache.spark.deploy.{name.partition('-')[0]}", *host, *arguments],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )
            stack.callback(child.wait)
            stack.callback(child.kill)

        start("master.Master", "--port", str(port), "--webui-port", str(ui))
        for number in (1, 2):
            work = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / f"work{number}")]
            start(f"worker.Worker-{number}", *work, master)
        until = time.monotonic() + SECONDS
        while alive(ui) < 2:
            assert time.monotonic() < until, [path.read_text()[-2000:] for path in folder.glob("*.log")]
            time.sleep(0.2)
        yield Cluster(master, str(home), python, archive)


def alive(port: int) -> int:
    """How many workers have registered with the master."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):  # not there yet; or it answers with its first page, in HTML, while it starts
        return 0


SESSION = """
import json, sys
from pyspark.sql import SparkSession
master, archive, lake, order = sys.argv[1:]
conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m", "spark.executor.pyspark.memory": "512m", "spark.executor.cores": "1",
        # The limit of 512 MB is one of address space: see docs/spark.md.
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system", "spark.executorEnv.MALLOC_ARENA_MAX": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
builder = SparkSession.builder.master(master)
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
from dvcodec.spark import jobs, register
"""
SCRIPT = (
    SESSION
    + """
def look(part):
    import importlib.util, sys, time
    time.sleep(1)  # so that both workers take part
    yield sys.executable, importlib.util.find_spec("dvcodec") is None

found = {}
if order == "before":
    register(spark)
    try:
        spark.read.format("dvcodec").load(lake + "/nothing").count()
    except Exception as err:
        found["not shipped"] = str(err)
if order == "before":
    found["workers"] = spark.sparkContext.parallelize(range(4), 4).mapPartitions(look).collect()
    found["executors"] = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    spark.addArtifacts(archive, pyfile=True)  # with "submit", --py-files has done that
if order != "before":
    register(spark)
rows = lake + "/rows"
spark.range(0, 2000, 1, 2).selectExpr("id", "id % 10 AS c").write.parquet(rows)
df = spark.read.parquet(rows)
jobs.build_vectors(jobs.positions(df.where("c = 3"))).write.format("dvcodec").mode("append").save(lake + "/deletes")
stored = spark.read.format("dvcodec").load(lake + "/deletes")
found["read"] = stored.count()
found["audit"] = jobs.audit(lake + "/deletes").where("crc_ok AND error IS NULL").count()
found["apply"] = jobs.apply(df, stored).count()
if order == "submit":
    print("FOUND " + json.dumps(found))
    sys.exit()
places = stored.select("container", "offset", "size", "cardinality")
found["places"] = jobs.audit(places).where("crc_ok AND error IS NULL").count()
jobs.positions(df.where("c = 4")).write.parquet(lake + "/position-deletes")
found["paths"] = jobs.build_vectors(lake + "/position-deletes").count()
print("FOUND " + json.dumps(found))
"""
)
ONCE = """
import os, signal, time

class Once:
    # Rows as they are; the first task that gets some kills its executor, or takes long.

    def __init__(self, name, slow=False, folder=lake):
        self.marker, self.slow = folder + "/" + name, slow

    def __call__(self, batches):
        for batch in batches:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                if self.slow:
                    time.sleep(60)
                else:
                    with open(f"/proc/{os.getppid()}/stat") as daemon:  # which the executor started
                        os.kill(int(daemon.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
            yield batch
"""
DELETES = (
    SESSION
    + ONCE
    + """
spark.addArtifacts(archive, pyfile=True)
register(spark)
options, scratch, found = *json.loads(order), {}
vectors = jobs.build_vectors(lake + "/position-deletes", storage_options=options)
vectors = vectors.repartition(3).mapInArrow(Once("write", folder=scratch), vectors.schema)
found["written"] = jobs.write_vectors(vectors, lake + "/deletes", storage_options=options).num_rows
stored = jobs.read_vectors(lake + "/deletes", storage_options=options)
rows = spark.range(0, 100, 1, 2)
rows.write.parquet(scratch + "/rows")
rows = spark.read.parquet(scratch + "/rows")
gone = jobs.positions(rows.where("id % 4 = 1"))
built = jobs.build_vectors(gone.mapInArrow(Once("build", folder=scratch), gone.schema))
live = jobs.apply(rows, built, unmatched="fail")
found["live"] = sorted(row[0] for row in live.mapInArrow(Once("apply", folder=scratch), live.schema).collect())
found["read"] = sorted(map(tuple, jobs.explode(stored).select("data_file", "pos").collect()))
checked = jobs.audit(lake + "/deletes", storage_options=options)
checked = checked.mapInArrow(Once("audit", folder=scratch), checked.schema)
found["audit"] = checked.where("crc_ok AND error IS NULL").count()
for kind in ("delta", "iceberg", "paimon"):
    table = lake + "/" + kind
    keys = spark.range(0, 400, 9, 2)
    keys = keys.mapInArrow(Once(kind, folder=scratch), keys.schema)
    found[kind] = [
        (done.rows, done.committed)
        for done in (
            jobs.delete(spark, table, storage_options=options, **what)
            for what in (
                {"where": "id BETWEEN 100 AND 180 OR id IN (3, 5)", "read_by": "workers"},
                {"where": "sqrt(id) > 15 AND id % 5 = 1"},
                {"keys": keys, "on": "id"},
            )
        )
    ]
found["killed"] = sorted(set(os.listdir(scratch)) - {"rows"})
print("FOUND " + json.dumps(found))
"""
)


LOSSES = (
    SESSION.replace('"spark.sql.shuffle.partitions"', '"spark.speculation": "true", "spark.sql.shuffle.partitions"')
    + ONCE
    + """
spark.addArtifacts(archive, pyfile=True)
register(spark)
found = {}
rows, table = lake + "/rows", lake + "/delta"
spark.range(0, 2000, 1, 4).selectExpr("id", "id % 10 AS c").write.parquet(rows)
df = spark.read.parquet(rows)
vectors = jobs.build_vectors(jobs.positions(df.where("c = 3")), strategy="shuffle")
written = vectors.repartition(4).mapInArrow(Once("write"), vectors.schema)
written.write.format("dvcodec").mode("append").save(lake + "/deletes")
slow = vectors.repartition(4).mapInArrow(Once("slow", slow=True), vectors.schema)
slow.write.format("dvcodec").mode("append").save(lake + "/speculated")
for name in ("deletes", "speculated"):
    stored = spark.read.format("dvcodec").load(lake + "/" + name)
    found[name] = [stored.count(), stored.agg({"cardinality": "sum"}).first()[0]]
spark.range(100, 110, 1, 1).write.parquet(lake + "/gone")
stream = spark.readStream.schema("id long").parquet(lake + "/gone").mapInArrow(Once("stream"), "id long")
query = stream.writeStream.foreachBatch(jobs.delete_batches(table, "stream", on=["id"]))
query.option("checkpointLocation", lake + "/check").trigger(availableNow=True).start().awaitTermination()
found["killed"] = sorted(name for name in os.listdir(lake) if os.path.getsize(lake + "/" + name) == 0)
print("FOUND " + json.dumps(found))
"""
)


def run(
    cluster: Cluster, lake: Path | str, order: str, environment: dict[str, str], script: str = SCRIPT
) -> subprocess.CompletedProcess[str]:
    unwanted = ("PYTHONPATH", "PYSPARK_PYTHON", "SPARK_CONF_DIR")
    own = {name: value for name, value in os.environ.items() if name not in unwanted}
    # The driver imports the tree that is tested; its workers do not inherit that.
    script = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n{script}"
    arguments = [cluster.master, str(cluster.archive), str(lake), order]
    command = [sys.executable, "-c", script]
    if order == "submit":
        job = Path(lake, "job.py")
        job.write_text(SCRIPT)  # the driver finds dvcodec where it was shipped
        submit = str(Path(cluster.home) / "bin" / "spark-submit")
        command = [submit, "--master", cluster.master, "--py-files", str(cluster.archive), str(job)]
        environment = environment | {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_HOME": cluster.home}
    return subprocess.run(
        [*command, *arguments],
        env=own | environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    """What a script has found."""
    found = next((line for line in done.stdout.splitlines() if line.startswith("FOUND ")), None)
    assert found is not None, done.stderr[-4000:]
    return json.loads(found.removeprefix("FOUND "))


@pytest.mark.long
@pytest.mark.parametrize("order", ["before", "submit"])
def test_shipped(cluster: Cluster, tmp_path: Path, order: str) -> None:
    """`register` before the artifacts, and after ``spark-submit --py-files``."""
    found = answer(run(cluster, tmp_path, order, {"PYSPARK_PYTHON": str(cluster.python)}))
    missing = found.pop("not shipped", None)
    if order == "before":
        assert "install it on the workers, or ship it: spark.addArtifacts" in missing
    if order != "submit":
        assert {tuple(one) for one in found.pop("workers")} == {(str(cluster.python), True)}
        assert found.pop("executors") == 2
        assert (found.pop("places"), found.pop("paths")) == (2, 2)
    assert found == {"read": 2, "audit": 2, "apply": 1800}


@pytest.mark.long
def test_deletes_on_s3(cluster: Cluster, tmp_path: Path) -> None:
    """Workers read and write with dvcodec's own client, and the driver commits; an executor is killed in each job."""
    need(VERSITYGW.is_file(), "versitygw (make interop-servers)")
    with versitygw() as server:
        bucket = fresh(server)
        make_iceberg(tmp_path / "iceberg", 400, 100, f"{bucket.url}/iceberg")
        for kind in ("delta", "paimon"):
            MAKERS[kind](tmp_path / kind, 400, 100)
        rows = sorted(("s3://x/a" if i % 2 else "s3://x/b", i) for i in range(0, 5000, 7))
        (tmp_path / "position-deletes").mkdir()
        columns = dict(zip(("file_path", "pos"), zip(*rows, strict=True), strict=True))
        pq.write_table(pa.table(columns), tmp_path / "position-deletes" / "1.parquet")
        bucket.upload(tmp_path)
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        order = json.dumps([bucket.options, str(scratch)])
        found = answer(run(cluster, bucket.url, order, {"PYSPARK_PYTHON": str(cluster.python)}, DELETES))
        assert found.pop("killed") == ["apply", "audit", "build", "delta", "iceberg", "paimon", "write"]
        assert found.pop("live") == [number for number in range(100) if number % 4 != 1]
        assert (found.pop("written"), found.pop("audit")) == (2, 2)
        assert list(map(tuple, found.pop("read"))) == rows
        left, counts = set(range(400)), []
        for gone in ([3, 5, *range(100, 181)], range(226, 400, 5), range(0, 400, 9)):
            counts.append([len(left.intersection(gone)), True])
            left.difference_update(gone)
        assert found == dict.fromkeys(("delta", "iceberg", "paimon"), counts)
        for kind in ("delta", "iceberg", "paimon"):
            table = open_table(f"{bucket.url}/{kind}", storage_options=bucket.options)
            assert sorted(ids(table)) == sorted(left)


@pytest.mark.long
def test_an_executor_is_killed_and_a_slow_task_runs_twice(cluster: Cluster, tmp_path: Path) -> None:
    """In writes and in a stream, as in the other jobs above: each task's work counts once."""
    MAKERS["delta"](tmp_path / "delta", 400, 100)
    found = answer(run(cluster, tmp_path, "", {"PYSPARK_PYTHON": str(cluster.python)}, LOSSES))
    assert found == {"killed": ["slow", "stream", "write"], "deletes": [4, 200], "speculated": [4, 200]}
    assert sorted(ids(open_table(tmp_path / "delta"))) == sorted({*range(400)} - {*range(100, 110)})


def shim(folder: Path, text: str) -> Path:
    """A `python3` of a search path."""
    folder.mkdir()
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.long
def test_workers_without_python(cluster: Cluster, tmp_path: Path) -> None:
    """The driver has a python3 that fits, the workers have none: said in one line, at `register`."""
    folder = shim(tmp_path / "bin", f'exec "{sys.executable}" "$@"').parent
    done = run(cluster, tmp_path / "lake", "unset", {"PATH": f"{folder}:{os.environ['PATH']}"})
    words = "UsageError: PYSPARK_PYTHON is not set, and the python3 of the workers is missing: set PYSPARK_PYTHON"
    assert words in done.stderr.splitlines()[-1], done.stderr[-4000:]


def local_session(python: Path) -> Any:
    return SimpleNamespace(_sc=SimpleNamespace(pythonExec=str(python), master="local[2]"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exit 1", "is missing or cannot be run"),
        ("echo 3 8", "is Python 3.8"),
        (f"echo {sys.version_info[0]} {sys.version_info[1]} pyarrow", "lacks pyarrow"),
    ],
)
def test_driver_without_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str) -> None:
    session = local_session(shim(tmp_path / "bin", text))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with pytest.raises(UsageError, match=f"PYSPARK_PYTHON is not set, and the .* of the driver {words}: set "):
        check_python(session)
    monkeypatch.setenv("PYSPARK_PYTHON", "whatever the user says")
    check_python(session)


def test_modules_of_the_current_folder_are_not_run_by_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python puts that folder first for ``-c``. The user's own ``PYTHONPATH`` still counts."""
    hostile, own = tmp_path / "hostile", tmp_path / "own"
    for folder in (hostile, own):
        folder.mkdir()
    for name in ("importlib", "json", "types", "warnings"):
        (hostile / f"{name}.py").write_text("open('run', 'w'); raise SystemExit(1)")
    (own / "only_here.py").touch()
    monkeypatch.setattr(sources, "_ASK", sources._ASK.replace("'numpy'", "'numpy', 'only_here'"))
    python = shim(tmp_path / "bin", f'exec "{sys.executable}" "$@"')
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(own))
    monkeypatch.chdir(hostile)
    check_python(local_session(python))
    assert not (hostile / "run").exists()
