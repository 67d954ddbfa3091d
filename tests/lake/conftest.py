"""Servers of object stores, and buckets in them. See README.md for what each server can show."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from interop.driver import need
from lake import servers
from lake.buckets import Bucket, bucket_of
from lake.proxy import Proxy
from lake.servers import NOWHERE, Server

HERE = Path(__file__).parent
NUMBERS = itertools.count(1)
# moto is a package of the group `lake`, which the environments for other Pythons lack: their runs leave out `interop`.
S3_SERVERS = ["versitygw", pytest.param("moto", marks=pytest.mark.interop)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here that wants a server is marked `lake`."""
    wanting = {"s3_server", "azurite_server", "gcs_server", "proxy_to"}
    for item in items:
        if HERE in item.path.parents and wanting & set(getattr(item, "fixturenames", ())):
            item.add_marker("lake")


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing that is set up for the real clouds is used, and nothing is asked of a machine's metadata service."""
    import os

    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", NOWHERE)


@pytest.fixture(scope="session", params=S3_SERVERS)
def s3_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the S3 protocol: every test that asks for it runs on each."""
    if request.param == "moto":
        need(servers.has_moto(), "moto's server (group lake)")
    else:
        need(servers.VERSITYGW.is_file(), "versitygw (make interop-servers)")
    need_obstore()
    start: Callable[[], AbstractContextManager[Server]] = getattr(servers, request.param)
    with start() as server:
        yield server


@pytest.fixture(scope="session")
def azurite_server() -> Iterator[Server]:
    """Azurite; `make interop-servers` installs it."""
    need(servers.AZURITE.is_file() and shutil.which("node") is not None, "Azurite (make interop-servers)")
    need_obstore()
    with servers.azurite() as server:
        yield server


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[Server]:
    """fake-gcs-server; `make interop-servers` builds it."""
    need(servers.FAKE_GCS.is_file(), "fake-gcs-server (make interop-servers)")
    need_obstore()
    with servers.fake_gcs() as server:
        yield server


@pytest.fixture(scope="session")
def proxy_to() -> Iterator[Callable[[Server], Proxy]]:
    """The proxy before a server: one for the whole run, without a delay, faults and log at the start of each test."""
    started: dict[str, Proxy] = {}

    def proxy(server: Server) -> Proxy:
        found = started.get(server.url) or started.setdefault(server.url, Proxy(server.url))
        found.clear()
        found.delay(0.0)
        return found

    yield proxy
    for one in started.values():
        one.close()


@pytest.fixture
def s3(s3_server: Server) -> Bucket:
    """An empty bucket."""
    return fresh(s3_server)


@pytest.fixture
def proxied_s3(s3_server: Server, proxy_to: Callable[[Server], Proxy]) -> Bucket:
    """An empty bucket behind a proxy."""
    return fresh(s3_server, proxy_to(s3_server))


@pytest.fixture
def azure(azurite_server: Server) -> Bucket:
    """An empty container."""
    return fresh(azurite_server)


@pytest.fixture
def proxied_azure(azurite_server: Server, proxy_to: Callable[[Server], Proxy]) -> Bucket:
    """An empty container behind a proxy."""
    return fresh(azurite_server, proxy_to(azurite_server))


@pytest.fixture
def gcs(gcs_server: Server) -> Bucket:
    """An empty bucket of Google's kind; it is filled by `Bucket.put`, not by obstore."""
    return fresh(gcs_server)


@pytest.fixture
def proxied_gcs(gcs_server: Server, proxy_to: Callable[[Server], Proxy]) -> Bucket:
    """An empty bucket of Google's kind behind a proxy."""
    return fresh(gcs_server, proxy_to(gcs_server))


def fresh(server: Server, proxy: Proxy | None = None) -> Bucket:
    name = f"lake-{next(NUMBERS)}"
    server.make_bucket(name)
    return bucket_of(server, name, proxy)


def need_obstore() -> None:
    from importlib.util import find_spec

    need(find_spec("obstore") is not None, "obstore (extra remote)")
