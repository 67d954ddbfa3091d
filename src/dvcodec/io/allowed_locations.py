"""Which locations metadata may reference.

Whoever writes a table's metadata chooses what its readers open, with their network and credentials. So an absolute
path in metadata is opened only in the table's own storage or in an object store, whose host comes from the reader's
configuration and not from the URL. Web addresses, other hosts, chains of file systems (``zip://a::http://b``), and
local files of a remote table need the caller's permission.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.io.target import is_url, local_path

__all__ = ["OBJECT_STORES", "check_reach", "check_step", "protocols"]

OBJECT_STORES = frozenset(
    {"abfs", "abfss", "az", "cos", "cosn", "gcs", "gs", "obs", "oci", "oss", "s3", "s3a", "s3n", "wasb", "wasbs"}
)
"""Protocols whose URLs name a bucket, and no host to connect to."""
_CHAIN = "::"
_PROTOCOL = re.compile(r"[a-z][a-z0-9+.-]*")
_SHOWN = 200


def protocols(names: Iterable[str]) -> frozenset[str]:
    """Return names of protocols as `check_reach` takes them.

    >>> sorted(protocols(["HTTP", "file"]))
    ['file', 'http']

    Raises:
        UsageError: one is none (``http://host``), or they are one string.
    """
    found = frozenset([names] if isinstance(names, str) else (name.lower() for name in names))
    for name in found:
        if isinstance(names, str) or not _PROTOCOL.fullmatch(name):
            raise UsageError(f"allow: {name!r} is not a collection of protocols such as 'http' or 'file'")
    return found


def check_reach(path: str, home: str | None, allow: frozenset[str] = frozenset()) -> None:
    """Check that an absolute path in metadata may be opened.

    Args:
        path: as it will be opened.
        home: where the metadata was found, path or URL; None if unknown: taken for local.
        allow: what else may be named, of `protocols`: ``http``, ``sftp``; ``file`` for local files that a remote table
            names; of a chain every protocol in it.

    Raises:
        Unsupported: metadata may not reference this location.
        NotCanonical: not a location: a ``file:`` URL of another host.
    """
    try:
        local = local_path(path) is not None
        at_home = home is None or local_path(home) is not None
    except UsageError as err:
        raise NotCanonical("path", source=home, expected="a path", actual=f"{err!s:.{_SHOWN}}") from None
    if local:
        reached = at_home or "file" in allow
    elif _CHAIN in path:
        known = OBJECT_STORES | allow
        reached = all(_scheme(part) in known for part in path.split(_CHAIN))
    else:
        reached = _scheme(path) in OBJECT_STORES | allow or (home is not None and _host(path) == _host(home))
    if not reached:
        raise Unsupported(
            "path in metadata",
            source=home,
            expected="one in the table's own storage or in an object store (others have to be allowed by protocol)",
            actual=f"{path!r:.{_SHOWN}}",
        )


def check_step(name: str, home: str) -> None:
    """Make sure that a name, put below a folder, names no other file system: ``a::http://host/x``.

    Raises:
        NotCanonical: it would.
        UsageError: `home` is a ``file:`` URL that names a host.
    """
    if _CHAIN in name and local_path(home) is None:
        raise NotCanonical("path", source=home, expected="no '::' below a URL", actual=f"{name!r:.{_SHOWN}}")


def _scheme(url: str) -> str:
    """Return the protocol of one part of a URL: all of it, where nothing follows (``simplecache``)."""
    return url.partition("://")[0].lower()


def _host(url: str) -> str | None:
    """Return protocol and host, verbatim; None for what is not a single URL."""
    if not is_url(url) or _CHAIN in url:
        return None
    scheme, _, rest = url.partition("://")
    return f"{scheme.lower()}://{rest.partition('/')[0]}"
