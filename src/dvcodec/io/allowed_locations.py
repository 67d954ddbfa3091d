"""Which locations metadata may reference.

The writer of a table's metadata chooses what its readers open, with their network access and credentials. So an
absolute path in metadata is opened only in the table's own storage or in an object store, whose host is configured by
the reader and not part of the URL. Web addresses, other hosts, chains of file systems (``zip://a::http://b``) and local
files of a remote table must be allowed by the caller.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dvcodec.core.errors import CardinalityMismatch, DecodeError, NotCanonical, Unsupported, UsageError
from dvcodec.core.usage import check_type
from dvcodec.io.file_key import path_below
from dvcodec.io.target import can_be_named, is_local, is_url, local_path, network_host

OBJECT_STORES = frozenset(
    {"abfs", "abfss", "az", "cos", "cosn", "gcs", "gs", "obs", "oci", "oss", "s3", "s3a", "s3n", "wasb", "wasbs"}
)
"""Protocols whose URLs name a bucket, not a host to connect to."""
_CHAIN = "::"
_PROTOCOL = re.compile(r"[a-z][a-z0-9+.-]*")
_SHOWN = 200


def protocols(names: Iterable[str]) -> frozenset[str]:
    """Return a set of protocols for `check_reach`, in lower case.

    >>> sorted(protocols(["HTTP", "file"]))
    ['file', 'http']

    Raises:
        UsageError: a name that is not a protocol (``http://host``), or a single str.
    """
    check_type(names, Iterable, "allow", "a collection of protocols")
    found: frozenset[object] = frozenset([names] if isinstance(names, str) else names)
    for name in found:
        if isinstance(names, str) or not isinstance(name, str) or not _PROTOCOL.fullmatch(name.lower()):
            raise UsageError(f"allow: expected protocols such as 'http' or 'file', found {name!r}")
    return frozenset(str(name).lower() for name in found)


def check_reach(path: str, home: str | None, allow: frozenset[str] = frozenset()) -> None:
    """Check that an absolute path in metadata may be opened.

    Args:
        path: as it will be opened.
        home: path or URL of the metadata; None if unknown, which counts as local.
        allow: further `protocols`: ``http``, ``sftp``; ``file`` for local files of a remote table; for a chain, every
            protocol in it.

    Raises:
        Unsupported: metadata must not reference this location.
        NotCanonical: not a location: a ``file:`` URL of another host.
    """
    try:
        local = is_local(path)
        at_home = home is None or is_local(home)
    except UsageError as err:
        raise NotCanonical("path", source=home, expected="a path", actual=f"{err!s:.{_SHOWN}}") from None
    host = network_host(path)
    if host is not None:  # Windows would connect to it, and log in
        reached = home is not None and host == network_host(home)
    elif local:
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
            expected="one in the table's own storage or in an object store (others must be allowed by protocol)",
            actual=f"{path!r:.{_SHOWN}}",
        )


def check_step(name: str, home: str) -> None:
    """Check that a relative name is one that a file can have, and does not lead to another file system.

    ``a::http://host/x`` would, where chains of file systems are known.

    Raises:
        NotCanonical: it is not, or it does.
        UsageError: `home` is a ``file:`` URL with a host.
    """
    if not can_be_named(name):
        expected = "no NUL character and no lone surrogate"
        raise NotCanonical("path", source=home, expected=expected, actual=f"{name!a:.{_SHOWN}}")
    if network_host(name) is not None:
        raise NotCanonical("path", source=home, expected="no network path", actual=f"{name!r:.{_SHOWN}}")
    if _CHAIN in name and not is_local(home):
        raise NotCanonical("path", source=home, expected="no '::' below a URL", actual=f"{name!r:.{_SHOWN}}")


def _scheme(url: str) -> str:
    """Return the protocol of one part of a chain; a part may be only a protocol (``simplecache``)."""
    return url.partition("://")[0].lower()


def _host(url: str) -> str | None:
    """Return protocol and host, verbatim; None for a chain or a path."""
    if not is_url(url) or _CHAIN in url:
        return None
    scheme, _, rest = url.partition("://")
    return f"{scheme.lower()}://{rest.partition('/')[0]}"


HIDDEN = "something else (values are not shown: the file is outside the table's folder)"
"""The value found, in an error about a file outside the table's folder."""


def is_outside(location: str, folder: str) -> bool:
    """Whether a file is outside a folder, after symbolic links of local paths are resolved.

    >>> is_outside("s3://lake/t/a", "s3://lake/t"), is_outside("s3://lake/t2/a", "s3://lake/t")
    (False, True)
    """
    try:
        file, home = local_path(location), local_path(folder)
    except UsageError:
        return True
    if file is None or home is None:
        return path_below(location, folder) is None
    real, root = os.path.realpath(file), os.path.realpath(home)
    return not real.startswith(root if root.endswith(os.sep) else root + os.sep)


class hide_values:  # noqa: N801  (used like a function; a class for the reason of `enough_memory`)
    """Remove the values from errors in the block, if the file is outside the folder.

    The number of rows in a valid vector or data file is kept: no other file has one.

    Args:
        location: path or URL of the file that the block reads.
        folder: path or URL of the table's folder; None if there is no table.

    The error is changed in place: a table may have 100,000 vectors outside its folder, each with an error.
    """

    __slots__ = ("_folder", "_location")

    def __init__(self, location: str, folder: str | None) -> None:
        self._location, self._folder = location, folder

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Remove the values from the error, which goes on."""
        if not isinstance(error, DecodeError) or isinstance(error, CardinalityMismatch) or error.actual is HIDDEN:
            return
        if self._folder is not None and _is_outside(self._location, self._folder):
            error.hide(HIDDEN)


_KNOWN: ContextVar[dict[tuple[str, str], bool] | None] = ContextVar("files known to be outside or not", default=None)


@contextmanager
def ask_once() -> Iterator[None]:
    """Resolve the links of a file once within the block, in which it stays open: that takes longer than most reads."""
    token = _KNOWN.set({})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def _is_outside(location: str, folder: str) -> bool:
    known = _KNOWN.get()
    if known is None:
        return is_outside(location, folder)
    key = location, folder
    found = known.get(key)
    if found is None:
        found = known[key] = is_outside(location, folder)
    return found
