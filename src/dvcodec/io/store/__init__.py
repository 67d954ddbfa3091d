"""Object stores, web servers and file systems behind one small interface.

`open_store` returns the store of a URL and the object's key. S3, GCS, Azure and HTTP use obstore (Rust's object_store),
every other protocol fsspec. `LocalStore` needs neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from dvcodec.core.errors import UsageError
from dvcodec.io.store import filesystems, objects
from dvcodec.io.store.base import Fetched, LocalStore, RequestCounts, Store, StoredObject, request_counts
from dvcodec.io.store.errors import (
    AccessDenied,
    BucketNotFound,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    Reason,
    StoreError,
    StoreTimeout,
    StoreUnreachable,
    without_secrets,
)
from dvcodec.io.store.options import StoreOptions

__all__ = [
    "AccessDenied",
    "BucketNotFound",
    "Fetched",
    "LocalStore",
    "ObjectChanged",
    "ObjectExists",
    "ObjectNotFound",
    "Reason",
    "RequestCounts",
    "Store",
    "StoreError",
    "StoreOptions",
    "StoreTimeout",
    "StoreUnreachable",
    "StoredObject",
    "open_store",
    "request_counts",
]

_SCHEMES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss", "wasb", "wasbs"), "az"),
    "http": "http",
    "https": "https",
}
"""Schemes that obstore serves -> kind of client."""
_NOT_A_BUCKET = re.compile(r"[*?\[\s]")


def open_store(url: str, storage_options: Mapping[str, object] | StoreOptions | None = None) -> tuple[Store, str]:
    """Return the store of a URL, and the key in it. Clients are cached to reuse their connections.

    Keys are plain text; only those of web addresses are percent-decoded. Repeated slashes count as one.

    Args:
        url: URL of an object, a folder or a bucket, with a scheme.
        storage_options: see `dvcodec.io.store.options`.

    Raises:
        MissingExtra: the package for the protocol is not installed.
        UsageError: an unknown protocol or option.
        StoreError: the file system cannot be reached.
    """
    options = storage_options if isinstance(storage_options, StoreOptions) else StoreOptions.of(storage_options)
    scheme, separator, rest = url.partition("://")
    kind = _SCHEMES.get(scheme.lower()) if separator and "::" not in url else None
    if kind is None:
        return filesystems.connect(f"{scheme.lower()}{separator}{rest}" if "::" not in url else url, options)
    query = ""
    web = kind in ("http", "https")
    if web:
        authority, query, key = objects.web_address(url)
    else:
        authority, _, key = rest.partition("/")
        key = re.sub(r"/{2,}", "/", key).strip("/")
    if not authority or (not web and _NOT_A_BUCKET.search(authority)):
        raise UsageError(f"{without_secrets(url)}: the URL has no {'host' if web else 'bucket'}")
    environment = (objects.variables(), objects.files_state() if kind == "s3" else ())
    return _client(kind, scheme, authority, query, options, environment), key


@lru_cache(maxsize=64)
def _client(
    kind: str, scheme: str, authority: str, query: str, options: StoreOptions, environment: tuple[object, ...]
) -> Store:
    """Make a client. The environment is part of the cache key: credentials in it may change."""
    del environment
    return objects.connect(kind, authority, query, options, spelled=scheme)
