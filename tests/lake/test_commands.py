"""Every command on object stores: the output is that of the same files and tables on a disk, but for the location."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_runner import Result, run
from dvcodec import RowSet, decode_at, delta, iceberg, puffin, read_rows
from dvcodec.io import Storage
from dvcodec.tables import open_table
from lake import tables
from lake.buckets import Bucket, bucket_of
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
    bucket = _new_bucket(server_named("versitygw"))
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


def _new_bucket(server: Server) -> Bucket:
    name = f"commands-{uuid.uuid4().hex[:12]}"
    server.make_bucket(name)
    return bucket_of(server, name)


FILE_COMMANDS = [
    "inspect {}/p/a.puffin --json",
    "stats {}/p/a.puffin {}/p/b.puffin --json",
    "positions {}/p/a.puffin --data-file data/1.parquet",
    "ranges {}/p/a.puffin --json",
    "verify {}/p/a.puffin {}/p/deep/c.bin --json",
    "verify {}/p/ --all --json",
    "diff {}/p/a.puffin {}/p/b.puffin --json",
    "inspect {}/z/0.zap --json",
    "verify {}/z/0.zap --json",
    "zap footer {}/z/0.zap --json",
    "zap fields {}/z/0.zap --json",
    "zap terms {}/scorch title --json",
    "zap stored {}/scorch/store/000000000002.zap",
]
TARGETS = [
    "{}/p",
    "{}/p/",
    "{}/p/*.puffin",
    "{}/p/?.puffin",
    "{}/p/[ab].puffin",
    "{}/p/**/*.puffin",
    "{}/**/*.bin",
    "{}/p/deep/*%20é+#*",
    "{}/p/a.puffin@4",
    "{}/p/deep/c.bin@1",
]
TABLE_COMMANDS = [
    "audit {}/%s --json",
    "audit {}/%s --deep --json",
    "table {}/%s --json",
    "log {}/%s --files --json",
    "audit {}/%s/ --no-orphans --json",
    "repair {}/%s --json",
]


@pytest.mark.parametrize("command", FILE_COMMANDS)
def test_commands_on_files(lake: Lake, command: str) -> None:
    lake.same(command)


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_url_means(lake: Lake, target: str) -> None:
    assert lake.same(f"verify {target} --json").json
    assert lake.same(f"stats {target} --json").json


@pytest.mark.parametrize("scheme", ["S3", "s3a", "s3n", "S3A"])
def test_schemes_of_s3(lake: Lake, scheme: str) -> None:
    url = f"{scheme}://{lake.bucket.name}"
    lake.same("verify {}/p --json", url)
    lake.same("verify {}/p/*.puffin --json", url)
    lake.same("inspect {}/p/a.puffin --json", url)
    lake.same("audit {}/d --json", url)


@pytest.mark.parametrize("kind", [*KINDS, "d"])
@pytest.mark.parametrize("command", TABLE_COMMANDS)
def test_commands_on_tables(lake: Lake, kind: str, command: str) -> None:
    lake.same(command % kind)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "paimon", "d"])
def test_live_rows(lake: Lake, kind: str, tmp_path: Path) -> None:
    _live_rows(lake, kind, tmp_path)


@pytest.mark.interop
def test_live_rows_of_lance(lake: Lake, tmp_path: Path) -> None:
    """Lance's own library reads them, by the same options."""
    pytest.importorskip("lance.fragment")
    _live_rows(lake, "lance", tmp_path)
    url = lake.bucket.url.replace("s3://", "S3A://")
    found = lake.remote(f"export-live {{}}/lance -o {tmp_path}/again.parquet", url)
    assert (found.code, found.err) == (0, "")


def _live_rows(lake: Lake, kind: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    lake.same(f"export-live {{}}/{kind} -o {tmp_path}/live.parquet --json".removesuffix(" --json"))
    expected = lake.local(f"export-live {{}}/{kind} -o {tmp_path}/local.parquet")
    found = lake.remote(f"export-live {{}}/{kind} -o {tmp_path}/remote.parquet")
    assert (found.code, found.err) == (expected.code, expected.err) == (0, "")
    assert pq.read_table(tmp_path / "remote.parquet").equals(pq.read_table(tmp_path / "local.parquet"))
    assert lake.remote(f"export-live {{}}/{kind} -o {{}}/out/{kind}.parquet").code == 0
    key = f"out/{kind}.parquet"
    assert _bytes(lake, key) == (tmp_path / "local.parquet").read_bytes()


def _bytes(lake: Lake, key: str) -> bytes:
    return Storage(lake.bucket.options).read(f"{lake.bucket.url}/{key}")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("merge {}/p/a.puffin {}/p/b.puffin -o {}/%s", "merged.puffin"),
        ("convert {}/p/a.puffin --to delta -o {}/%s", "converted.bin"),
        ("convert {}/p/deep/c.bin --to iceberg --data-file a --data-file b --data-file c -o {}/%s", "named.puffin"),
        ("rewrite-paths {}/p/a.puffin --from data --to s3://x/data -o {}/%s", "moved.puffin"),
        ("report {}/d -o {}/%s", "report.html"),
        ("zap merge {}/z/0.zap -o {}/%s", "merged.zap"),
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


def test_manifests(lake: Lake) -> None:
    manifest = next(iter(sorted((lake.folder / "paimon" / "manifest").glob("index-manifest-*")))).name
    lake.same(f"inspect {{}}/paimon/manifest/{manifest} --json")
    lake.same(f"verify {{}}/paimon/manifest/{manifest} --json")
    manifest = next(iter(sorted((lake.folder / "lance" / "_versions").iterdir()))).name
    lake.same(f"inspect {{}}/lance/_versions/{manifest} --json")


def test_commands_that_commit(lake: Lake, tmp_path: Path) -> None:
    """What they would do, or why they refuse the table."""
    (name, *_) = open_table(str(lake.folder / "d")).snapshot().files
    pq.write_table(pa.table({"file_path": [name], "pos": [0]}), tmp_path / "gone.parquet")
    dry_run = f"--positions {tmp_path / 'gone.parquet'} --dry-run --json"
    for command in (
        f"delete {{}}/d {dry_run}",
        f"delete {{}}/iceberg {dry_run}",
        "enable {}/d --dry-run --json",
        "upgrade-deletes {}/iceberg --dry-run --json",
    ):
        expected, found = lake.local(command), lake.remote(command)
        assert (found.code, found.err, found.out) == (expected.code, expected.err, expected.out), command


class TestOtherClouds:
    @pytest.fixture
    def elsewhere(self, server_named: Callable[[str], Server], lake: Lake) -> Callable[[str], Lake]:
        def make(server: str) -> Lake:
            bucket = _new_bucket(server_named(server))
            bucket.upload(lake.folder / "p", "p")
            bucket.upload(lake.folder / "d", "d")
            return Lake(lake.folder, bucket)

        return make

    @pytest.mark.parametrize("spelled", ["az://{}", "azure://{}", "abfss://{}@devstoreaccount1.dfs.core.windows.net"])
    def test_azure(self, elsewhere: Callable[[str], Lake], spelled: str) -> None:
        there = elsewhere("azurite")
        url = spelled.replace("{}", there.bucket.name)
        for command in ("audit {}/d --json", "verify {}/p --json", "table {}/d --json", "stats {}/p/*.puffin --json"):
            there.same(command, url)
        assert there.remote("merge {}/p/a.puffin {}/p/b.puffin -o {}/merged.puffin", url).code == 0
        assert there.remote("verify {}/merged.puffin", url).code == 0
        found = read_rows(f"{url}/merged.puffin", storage_options=there.bucket.options)
        assert found["data/1.parquet"] == tables.rows(1) | RowSet([5, 7])

    @pytest.mark.parametrize("scheme", ["gs", "gcs", "GS"])
    def test_google(self, elsewhere: Callable[[str], Lake], scheme: str) -> None:
        """The server does not take writes."""
        there = elsewhere("fake_gcs")
        url = f"{scheme}://{there.bucket.name}"
        for command in ("audit {}/d --json", "verify {}/p --json", "log {}/d --json", "stats {}/p/**.puffin --json"):
            there.same(command, url)
        with puffin.open_puffin(lake_file(there)) as opened:
            blob = opened.blobs[0]
        rows = decode_at(f"{url}/p/a.puffin", blob.offset, blob.length, storage_options=there.bucket.options)
        assert rows == tables.rows(0)


def lake_file(there: Lake) -> Path:
    return there.folder / "p" / "a.puffin"


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
