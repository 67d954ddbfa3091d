"""Object store requests of commands: how many, how many repeated, how many at once, and how long they take.

versitygw runs on the loopback behind the tests' proxy, which counts requests and delays each by a store's latency
(30 ms); concurrent requests are delayed concurrently. Each command runs in its own process, so that nothing is cached
from the previous one. `make bench-requests`.

    python bench/store_requests.py [part of a name ...] [--delay 0.03] [--save FILE] [--against FILE] [--spark]

`--against` fails if an operation makes more requests than in a saved file, or repeats a request that it did not repeat
there. Counts do not depend on the machine; seconds do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from lake import tables  # noqa: E402
from lake.buckets import Bucket, bucket_of  # noqa: E402
from lake.proxy import Proxy, Traffic  # noqa: E402
from lake.servers import NOWHERE, versitygw  # noqa: E402

SECONDS_AT_MOST = 600
CLI = "import sys; from dvcodec.cli import main; sys.exit(main())"
PYTHON = f"""
import json, os, sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
import dvcodec
from dvcodec import iceberg, tables
from lake.tables import rows
url, options, given = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
"""

Make = Callable[[Path], Path]


@dataclass(frozen=True, slots=True)
class Operation:
    """A command over a table or file.

    Attributes:
        name: in the table of figures.
        make: writes the input into a folder, and returns the path to run the command on.
        command: arguments of ``dvcodec``, with ``{}`` for the URL and ``{scratch}`` for a folder; or lines of Python
            that use the variables `url`, `options` and `given`.
        about: values for `given`, from the path that `make` returned.
        expects: text that standard output has to contain, so that only successful runs are counted.
        spark: whether it needs a Spark session.
    """

    name: str
    make: Make
    command: tuple[str, ...] | str
    about: Callable[[Path], dict[str, Any]] = lambda _: {}
    expects: str = ""
    spark: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """A line of the table."""

    name: str
    get: int
    head: int
    list: int
    other: int
    twice: int
    at_once: int
    bytes: int
    seconds: float
    error: str = ""

    @classmethod
    def of(cls, name: str, seen: Traffic, error: str = "") -> Counts:
        kinds = seen.kinds
        get, head, listed = (kinds.get(kind, 0) for kind in ("GET", "HEAD", "LIST"))
        counted = (get, head, listed, len(seen) - get - head - listed, len(seen.repeated))
        return cls(name, *counted, seen.most_at_once, seen.sent, round(seen.seconds, 3), error)

    @property
    def requests(self) -> int:
        return self.get + self.head + self.list + self.other


def one_vector(path: Path) -> dict[str, Any]:
    """Where the vector of one data file is in a Puffin file."""
    from dvcodec import puffin

    with puffin.open_puffin(path) as opened:
        blob = opened.blobs[500]
    name = blob.properties[puffin.REFERENCED_DATA_FILE]
    return {"offset": blob.offset, "size": blob.length, "number": int(Path(name).stem)}


def operations() -> Iterator[Operation]:
    """All operations: six on files, then those on whole tables."""
    at = "found = dvcodec.decode_at(url, given['offset'], given['size'], storage_options=options)\n"
    at += "assert found == rows(given['number']), found"
    yield Operation("one vector at (offset, size)", tables.puffin, at, one_vector)
    read = "found = dvcodec.read_rows(url, storage_options=options)\n"
    read += "assert len(found) == 1000 and found['data/00007.parquet'] == rows(7)"
    yield Operation("read 1000 vectors in one Puffin", tables.puffin, read)
    yield Operation("verify, the same file", tables.puffin, ("verify", "{}"))
    yield Operation("inspect, the same file", tables.puffin, ("inspect", "{}"), expects="data/00999.parquet")
    yield Operation("stats, the same file", tables.puffin, ("stats", "{}"))
    yield Operation("stats, 200 vectors, 24 MB", tables.large_puffin, ("stats", "{}"))
    yield Operation("verify a prefix of 300 Puffins", tables.puffins, ("verify", "{}"))
    delta: dict[str, Make] = {
        "Delta, 300 vectors in one .bin": lambda folder: tables.delta_table(folder, one_bin=True),
        "Delta, 300 .bin of one vector": tables.delta_table,
        "Delta, 100 commits without checkpoint": lambda folder: tables.delta_table(folder, files=100, commits=100),
    }
    for name, make in delta.items():
        yield Operation(f"audit {name}", make, ("audit", "{}"), expects="no findings")
    yield Operation("log of the same table", list(delta.values())[-1], ("log", "{}"))
    real = {
        "Delta by Spark": ("delta", "spark-4.4.0", "checkpointed", "table"),
        "Iceberg by Spark": ("iceberg", "spark-1.12.0", "evolved", "table"),
        "Paimon by Java": ("paimon", "java-1.4.2", "changed64", "table"),
        "Lance by pylance": ("lance", "pylance-14.0.2", "life"),
        "scorch by bleve": ("scorch", "bleve-2.6.1", "small-v16"),
    }
    said = {
        "Delta by Spark": "4 vectors in 2 files, 50 files in the folder: no findings",
        "Iceberg by Spark": "3 vectors in 2 files, 52 files in the folder: 1 warning",
        "Paimon by Java": "1 vector in 1 file, 49 files in the folder: 2 notes",
        "Lance by pylance": "1 vector in 1 file, 63 files in the folder: no findings",
        "scorch by bleve": "1 vector in 1 file, 4 files in the folder: no findings",
    }
    for name, parts in real.items():
        yield Operation(f"audit {name}", tables.copied(*parts), ("audit", "{}"), expects=said[name])
    for name in ("Delta by Spark", "Iceberg by Spark"):
        out = ("export-live", "{}", "--output", "{scratch}/live.parquet")
        yield Operation(f"export-live {name}", tables.copied(*real[name]), out)
    spark = "from pyspark.sql import SparkSession\nfrom dvcodec.spark import register\n"
    spark += "session = SparkSession.builder.master('local[2]').getOrCreate()\nregister(session)\n"
    spark += "found = session.read.format('dvcodec').load(url)\nassert found.count() == 300"
    yield Operation("Spark source, 300 Puffins of one vector", tables.puffins, spark, spark=True)


def environment(bucket: Bucket) -> dict[str, str]:
    """The environment of a command: the bucket's options, and no settings of a real cloud."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AZURE_", "GOOGLE_"))}
    kept |= {name.upper(): value for name, value in bucket.options.items()}
    workers = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    nothing = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    return (
        kept
        | nothing
        | {"AWS_EC2_METADATA_DISABLED": "true", "AWS_METADATA_ENDPOINT": NOWHERE, "COLUMNS": "200"}
        | workers
    )


def run(operation: Operation, bucket: Bucket, url: str, about: dict[str, Any], scratch: str) -> Counts:
    """Run it once through the proxy."""
    if isinstance(operation.command, str):
        given = [url, json.dumps(bucket.options), json.dumps(about)]
        command = [sys.executable, "-c", PYTHON + operation.command, *given]
    else:
        command = [sys.executable, "-c", CLI, *(part.format(url, scratch=scratch) for part in operation.command)]
    with bucket.watched.watch() as seen:
        done = subprocess.run(
            command, env=environment(bucket), capture_output=True, text=True, check=False, timeout=SECONDS_AT_MOST
        )
    error = ""
    if done.returncode:
        error = f"exit {done.returncode}: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]}"
    elif operation.expects not in done.stdout:
        error = f"{operation.expects!r} is not in its output: {done.stdout.strip()[-300:]!r}"
    return Counts.of(operation.name, seen[0], error)


@contextmanager
def behind(delay: float) -> Iterator[Bucket]:
    """A bucket behind the proxy."""
    with versitygw() as server, Proxy(server.url, delay=delay) as proxy:
        server.make_bucket("bench")
        yield bucket_of(server, "bench", proxy)


def show(found: Iterable[Counts]) -> Iterator[Counts]:
    """Print each line as it comes."""
    names = ("GET", "HEAD", "LIST", "other", "twice", "at once", "MB", "seconds")
    print(f"{'':44}" + "".join(f"{name:>9}" for name in names))
    for one in found:
        counts = (one.get, one.head, one.list, one.other, one.twice, one.at_once)
        figures = "".join(f"{count:9,}" for count in counts) + f"{one.bytes / 1e6:9.2f}{one.seconds:9.2f}"
        print(f"{one.name:44}{figures}" + (f"\n    FAILED {one.error}" if one.error else ""), flush=True)
        yield one


def measure(wanted: list[str], delay: float, *, spark: bool) -> Iterator[Counts]:
    """Create, upload and run the operations whose names contain one of the words."""
    with tempfile.TemporaryDirectory() as scratch, behind(delay) as bucket:
        uploaded: dict[Make, tuple[str, Path]] = {}
        for operation in operations():
            if wanted and not any(word.lower() in operation.name.lower() for word in wanted):
                continue
            if operation.spark and not spark:
                continue
            if operation.make not in uploaded:
                folder = Path(scratch) / str(len(uploaded))
                folder.mkdir()
                path = operation.make(folder)
                prefix = bucket.upload(folder, f"t{len(uploaded)}")
                url = prefix if path == folder else f"{prefix}/{path.relative_to(folder).as_posix()}"
                uploaded[operation.make] = url, path
            url, path = uploaded[operation.make]
            yield run(operation, bucket, url, operation.about(path), scratch)


def worse(found: Iterable[Counts], saved: Path) -> list[str]:
    """The operations that make more requests than in a saved file."""
    before = {line["name"]: Counts(**line) for line in json.loads(saved.read_text())["operations"]}
    said = []
    for one in found:
        then = before.get(one.name)
        if then and (one.requests, one.twice) > (then.requests, then.twice):
            said.append(f"{one.name}: {one.requests} requests, {one.twice} twice; were {then.requests}, {then.twice}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of operations; all of them without any")
    parser.add_argument("--delay", type=float, default=0.03, help="seconds that each request takes longer")
    parser.add_argument("--save", type=Path, help="write the counts as JSON")
    parser.add_argument("--against", type=Path, help="fail where there are more requests than in this file")
    parser.add_argument("--spark", action="store_true", help="the operations of Spark too")
    arguments = parser.parse_args()
    found = list(show(measure(arguments.names, arguments.delay, spark=arguments.spark)))
    if arguments.save:
        lines = {"delay": arguments.delay, "operations": [asdict(one) for one in found]}
        arguments.save.write_text(json.dumps(lines, indent=1) + "\n")
    failed = [f"{one.name}: {one.error}" for one in found if one.error]
    if arguments.against:
        failed += worse(found, arguments.against)
    if failed:
        sys.exit("\n".join(["", *failed]))


if __name__ == "__main__":
    main()
