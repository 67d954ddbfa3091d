"""Servers of object stores, and buckets in them. See README.md for what each server can show."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from interop.driver import need
from lake import servers
from lake.buckets import Bucket, fresh
from lake.proxy import Proxy
from lake.servers import NOWHERE, Server

HERE = Path(__file__).parent
# moto is a package of the group `lake`, which the environments for other Pythons lack: their runs leave out `interop`.
MOTO = pytest.param("moto", marks=pytest.mark.interop)
S3 = ["versitygw", MOTO]
WRITABLE = [*S3, "azurite"]
ALL = [*WRITABLE, "fake_gcs"]
STARTED_BY: dict[str, tuple[Callable[[], AbstractContextManager[Server]], Callable[[], bool], str]] = {
    "versitygw": (servers.versitygw, servers.VERSITYGW.is_file, "versitygw (make interop-servers)"),
    "versitygw that closes": (
        partial(servers.versitygw, keeps_connections=False),
        servers.VERSITYGW.is_file,
        "versitygw (make interop-servers)",
    ),
    "moto": (servers.moto, servers.has_moto, "moto's server (group lake)"),
    "azurite": (servers.azurite, servers.has_azurite, "Azurite (make interop-servers)"),
    "fake_gcs": (servers.fake_gcs, servers.FAKE_GCS.is_file, "fake-gcs-server (make interop-servers)"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything that wants a server is marked `lake`."""
    for item in items:
        if HERE in item.path.parents and "server_named" in getattr(item, "fixturenames", ()):
            item.add_marker("lake")


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing that is set up for the real clouds is used, and nothing is asked of a machine's metadata service."""
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", NOWHERE)


@pytest.fixture(scope="session")
def server_named() -> Iterator[Callable[[str], Server]]:
    """Servers, by name: each is started when the first test asks for it, and ends with the run."""
    started: dict[str, Server] = {}
    with ExitStack() as stack:

        def find(name: str) -> Server:
            if name not in started:
                start, is_there, what = STARTED_BY[name]
                need(is_there(), what)
                need(find_spec("obstore") is not None, "obstore (extra remote)")
                started[name] = stack.enter_context(start())
            return started[name]

        yield find


@pytest.fixture(scope="session")
def proxy_before() -> Iterator[Callable[[Server], Proxy]]:
    """The proxy before a server, one for the whole run; without a delay, faults and a log whenever it is asked for."""
    started: dict[str, Proxy] = {}
    with ExitStack() as stack:

        def find(server: Server) -> Proxy:
            if server.url not in started:
                started[server.url] = stack.enter_context(Proxy(server.url))
            started[server.url].clear()
            started[server.url].delay(0.0)
            return started[server.url]

        yield find


def buckets_of(*servers: object, proxied: bool = False) -> Any:
    """A fixture: an empty bucket of each of these servers, or the same behind a proxy."""

    @pytest.fixture(params=servers)
    def empty(
        request: pytest.FixtureRequest, server_named: Callable[[str], Server], proxy_before: Callable[[Server], Proxy]
    ) -> Bucket:
        server = server_named(request.param)
        return fresh(server, proxy_before(server) if proxied else None)

    return empty


s3, proxied_s3 = buckets_of(*S3), buckets_of(*S3, proxied=True)
"""Of each server of the S3 protocol."""
s3_of_pyarrow = buckets_of("versitygw that closes", MOTO)
"""Of each server of the S3 protocol, such that pyarrow can write to it."""
writable, proxied_writable = buckets_of(*WRITABLE), buckets_of(*WRITABLE, proxied=True)
"""Of every server that obstore can write to."""
bucket, proxied = buckets_of(*ALL), buckets_of(*ALL, proxied=True)
"""Of every server."""


@pytest.fixture
def counted_s3(server_named: Callable[[str], Server], proxy_before: Callable[[Server], Proxy]) -> Bucket:
    """A bucket behind a proxy, of the quicker server alone: for counts, which do not depend on the server."""
    server = server_named("versitygw")
    return fresh(server, proxy_before(server))


@pytest.fixture
def azure(server_named: Callable[[str], Server]) -> Bucket:
    """An empty container of Azure's kind."""
    return fresh(server_named("azurite"))


@pytest.fixture
def gcs(server_named: Callable[[str], Server]) -> Bucket:
    """An empty bucket of Google's kind; it is filled by `Bucket.put`, as the server does not take obstore's PUT."""
    return fresh(server_named("fake_gcs"))
