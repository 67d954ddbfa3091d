"""A bucket of a server, as tests of the object stores are given one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lake.proxy import Proxy
from lake.servers import Server

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

_NUMBERS = itertools.count(1)
FEW_RETRIES: RetryConfig = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=600),
    "backoff": {"init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(milliseconds=20), "base": 2},
}


@dataclass(frozen=True)
class Bucket:
    """An empty bucket.

    `options` are storage options in the spelling of Rust's object_store, as deltalake, polars and dvcodec take them.
    With a `proxy`, they lead through it; what `put` and `upload` send never does.
    """

    scheme: str
    name: str
    server: Server
    options: dict[str, str] = field(repr=False)
    proxy: Proxy | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.name}"

    @property
    def watched(self) -> Proxy:
        """The proxy, where there has to be one."""
        assert self.proxy is not None
        return self.proxy

    def store(self, *, bucket: str | None = None, retry: RetryConfig | None = None, **options: str) -> ObjectStore:
        """An obstore store; `options` go over those of the bucket."""
        from obstore.store import AzureStore, GCSStore, S3Store

        kind: Any = {"s3": S3Store, "az": AzureStore, "gs": GCSStore}[self.scheme]
        made: ObjectStore = kind(
            bucket or self.name,
            config=self.options | options,
            # An account of Google names its endpoint and nothing else, so that plain HTTP has to be allowed here.
            client_options={"allow_http": True} if self.scheme == "gs" else None,
            retry_config=retry or FEW_RETRIES,
        )
        return made

    def put(self, objects: dict[str, bytes]) -> None:
        """Put objects, by key, past any proxy."""
        if self.scheme == "gs":
            for key, data in objects.items():
                self.server.upload_gcs(self.name, key, data)
            return
        import obstore

        direct = bucket_of(self.server, self.name).store()
        for key, data in objects.items():
            obstore.put(direct, key, data)

    def upload(self, folder: Path, prefix: str = "") -> str:
        """Put all files below a folder; returns the URL of what was the folder."""
        files: Iterable[Path] = (path for path in sorted(folder.rglob("*")) if path.is_file())
        start = f"{prefix}/" if prefix else ""
        self.put({start + path.relative_to(folder).as_posix(): path.read_bytes() for path in files})
        return f"{self.url}/{prefix}" if prefix else self.url


def bucket_of(server: Server, name: str, proxy: Proxy | None = None) -> Bucket:
    """A bucket that is there, of any server."""
    url = proxy.url if proxy else None
    if server.name == "azurite":
        return Bucket("az", name, server, server.azure_options(url), proxy)
    if server.name == "fake-gcs-server":
        return Bucket("gs", name, server, server.gcs_options(url), proxy)
    return Bucket("s3", name, server, server.s3_options(url), proxy)


def fresh(server: Server, proxy: Proxy | None = None) -> Bucket:
    """Make an empty bucket on a server, with a name that no other test of this process has."""
    name = f"lake-{next(_NUMBERS)}"
    server.make_bucket(name)
    return bucket_of(server, name, proxy)
