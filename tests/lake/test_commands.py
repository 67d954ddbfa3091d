"""Every command on object stores: the output is that of the same files and tables on a disk, but for the location."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import Result, run
from dvcodec import RowSet, delta, iceberg, read_rows
from dvcodec.io import Storage
from lake import tables
from lake.buckets import Bucket, fresh
from lake.servers import Server

pytest.importorskip("obstore")

VECTORS = Path(__file__).parents[1] / "vectors"
TABLES = VECTORS / "tables"
KINDS = {
    "delta": TABLES / "delta/spark-4.4.0/checkpointed/table",
    "iceberg": TABLES / "iceberg/spark-1.12.0/evolved/table",
    "paimon": TABLES / "paimon/java-1.4.2/changed64/table",
    "lance": TABLES / "lance/pylance-14.0.2/life",
    "scorch": TABLES / "scorch/bleve-2.6.1/small-v16",
}


def options_of(bucket: Bucket) -> list[str]:
    return [part for pair in bucket.options.items() for part in ("--storage-option", "=".join(pair))]


@pytest.fixture(scope="module")
def lake(server_named: Callable[[str], Server], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Files and tables on a disk, and the same in a bucket."""
    folder = tmp_path_factory.mktemp("lake")
    (folder / "p" / "deep").mkdir(parents=True)
    vectors = {f"data/{number}.parquet": tables.rows(number) for number in range(3)}
    iceberg.write_deletion_vectors(folder / "p" / "a.puffin", vectors)
    iceberg.write_deletion_vectors(folder / "p" / "b.puffin", vectors | {"data/1.parquet": RowSet([5, 7])})
    delta.write_deletion_vectors(folder / "p" / "deep" / "c.bin", vectors)
    iceberg.write_deletion_vectors(folder / "p" / "deep" / "with space%20é+#.puffin", vectors)
    segments = sorted((VECTORS / "tables/scorch/bleve-2.6.1/small-v16/store").glob("*.zap"))
    (folder / "z").mkdir()
    for number, segment in enumerate(segments):
        shutil.copyfile(segment, folder / "z" / f"{number}.zap")
    for kind, source in KINDS.items():
        shutil.copytree(source, folder / kind)
    tables.delta_table(folder / "d", files=2)
    bucket = fresh(server_named("versitygw"))
    bucket.upload(folder)
    return Lake(folder, bucket)


class Lake:
    """Runs commands on a disk and on a store."""

    def __init__(self, folder: Path, bucket: Bucket) -> None:
        self.folder, self.bucket = folder, bucket

    def local(self, command: str) -> Result:
        return run(*(part.replace("{}", str(self.folder)) for part in command.split()))

    def remote(self, command: str, url: str | None = None) -> Result:
        """Run it on the store; in what it says, the URL is replaced by the folder."""
        url = url or self.bucket.url
        done = run(*(part.replace("{}", url) for part in command.split()), *options_of(self.bucket))
        return Result(
            done.code,
            done.raw.replace(url.encode(), str(self.folder).encode()),
            done.err.replace(url, str(self.folder)),
        )

    def same(self, command: str, url: str | None = None) -> Result:
        expected, found = self.local(command), self.remote(command, url)
        assert (found.code, found.err) == (expected.code, expected.err), command
        # Tables are as wide as what is in them: JSON says all of it.
        assert _unspaced(found.out) == _unspaced(expected.out), command
        assert found.code in (0, 1), found.err
        assert found.out
        return found


def _unspaced(text: str) -> list[str]:
    """Lines, without what is as wide as the location, and without ages."""
    text = re.sub(r"\d[\d,]* (?:second|minute|hour|day)s? old|\"age_seconds\": \d+", "AGE", text)
    return [" ".join(line.replace("─", " ").split()) for line in text.splitlines()]


COMMANDS = [
    "stats {}/p/a.puffin {}/p/b.puffin --json",
    "verify {}/p/ --all --json",
    "diff {}/p/a.puffin {}/p/b.puffin --json",
    "zap fields {}/z/0.zap --json",
    "verify {}/p/?.puffin --json",
    "verify {}/p/[ab].puffin --json",
    "verify {}/**/*.bin --json",
    "verify {}/p/deep/*%20é+#* --json",
    "positions {}/p/deep/c.bin@1",
]
TABLE_COMMANDS = ["audit {}/%s --deep --json", "log {}/%s --files --json", "repair {}/%s --json"]
long = pytest.mark.long


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_files(lake: Lake, command: str) -> None:
    lake.same(command, lake.bucket.url.replace("s3", "S3A"))


@pytest.mark.parametrize("kind", ["d", *(pytest.param(kind, marks=long) for kind in KINDS)])
def test_commands_on_tables(lake: Lake, kind: str) -> None:
    for command in TABLE_COMMANDS:
        lake.same(command % kind)


@pytest.mark.parametrize("kind", ["delta", *(pytest.param(kind, marks=long) for kind in ("iceberg", "paimon"))])
def test_live_rows(lake: Lake, kind: str, tmp_path: Path) -> None:
    expected = lake.local(f"export-live {{}}/{kind} -o {tmp_path}/local.parquet")
    found = lake.remote(f"export-live {{}}/{kind} -o {{}}/out/{kind}.parquet")
    assert (found.code, found.err) == (expected.code, expected.err) == (0, "")
    assert _bytes(lake, f"out/{kind}.parquet") == (tmp_path / "local.parquet").read_bytes()


def _bytes(lake: Lake, key: str) -> bytes:
    return Storage(lake.bucket.options).read(f"{lake.bucket.url}/{key}")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("merge {}/p/a.puffin {}/p/b.puffin -o {}/%s", "merged.puffin"),
        ("report {}/d -o {}/%s", "report.html"),
        ("zap merge {}/scorch -o {}/%s", "live.zap"),
    ],
)
def test_outputs(lake: Lake, command: str, name: str) -> None:
    """What is written to a store is what is written to a disk."""
    expected, found = (call(command % name) for call in (lake.local, lake.remote))
    assert (found.code, found.err, _unspaced(found.out)) == (expected.code, expected.err, _unspaced(expected.out))
    assert found.code in (0, 1)
    data = _bytes(lake, name)
    if name == "report.html":
        assert lake.bucket.url.encode() in data
    else:
        assert data == (lake.folder / name).read_bytes()
    if name.endswith("puffin"):
        assert lake.remote(f"verify {{}}/{name}").code == 0


@pytest.mark.parametrize(
    ("server", "spelled"),
    [
        ("azurite", "azure://{}"),
        ("azurite", "abfss://{}@devstoreaccount1.dfs.core.windows.net"),
        ("fake_gcs", "gs://{}"),
    ],
)
def test_other_clouds(server_named: Callable[[str], Server], lake: Lake, server: str, spelled: str) -> None:
    """Google's server takes no writes."""
    there = Lake(lake.folder, fresh(server_named(server)))
    for name in ("p", "d"):
        there.bucket.upload(lake.folder / name, name)
    url = spelled.replace("{}", there.bucket.name)
    for command in ("audit {}/d --json", "verify {}/p --json", "stats {}/p/*.puffin --json"):
        there.same(command, url)
    if server == "azurite":
        assert there.remote("merge {}/p/a.puffin {}/p/b.puffin -o {}/merged.puffin", url).code == 0
        found = read_rows(f"{url}/merged.puffin", storage_options=there.bucket.options)
        assert found["data/1.parquet"] == tables.rows(1) | RowSet([5, 7])


def test_an_object_whose_name_ends_like_a_place(counted_s3: Bucket, tmp_path: Path) -> None:
    """The object of that very name comes first, as a local file does."""
    for name, row in (("x", 1), ("x@4", 2), ("y@4:44", 3)):
        iceberg.write_deletion_vectors(tmp_path / name, {"a": RowSet([row])})
    counted_s3.upload(tmp_path)
    printed = {name: run("positions", f"{counted_s3.url}/{name}", *options_of(counted_s3)).out for name in PLACES}
    assert printed == PLACES
    refused = run("positions", f"{counted_s3.url}/*@4", *options_of(counted_s3))
    assert refused.complaint == f"{counted_s3.url}/*@4: an offset needs one file, not a pattern"


PLACES = {"x": "1\n", "x@4": "2\n", "x@4:42": "1\n", "y@4:44": "3\n"}
