"""Paths and URLs as names: put together, taken apart, and compared across their spellings."""

from __future__ import annotations

import re
from urllib.parse import quote

from dvcodec.io.target import is_url, local_path

__all__ = ["SAME_SCHEMES", "join", "same_key", "split"]

LOCAL = r"^(?:file:)?/+"
SAME_SCHEMES = {"s3": ("s3a", "s3n"), "abfs": ("abfss",), "wasb": ("wasbs",)}
"""Schemes that are other clients, or other transports, of the same storage."""


def join(folder: str, name: str) -> str:
    """Return the path of something in a folder, spelled as the folder is (`name` may have slashes).

    A name found in ``file:/a%20b`` is encoded too, one in ``/a b`` is not. Not checked: whether `name`
    leaves the folder.

    Raises:
        UsageError: a ``file:`` URL that names a host.
    """
    inner, chain, outer = folder.partition("::")
    if chain:  # zip://folder::s3://bucket/archive.zip
        return f"{join(inner, name)}::{outer}"
    if is_url(folder) and local_path(folder) is not None:
        name = quote(name)
    return f"{folder.rstrip('/')}/{name}"


def split(path: str) -> tuple[str, str]:
    """Return folder and bare name of a file.

    Raises:
        UsageError: a ``file:`` URL that names a host.
    """
    local = local_path(path)
    if local is not None:
        spelled = path.rpartition("/")[0] if "/" in path else "."
        return spelled or "/", local.name
    inner, chain, outer = path.partition("::")
    folder, _, name = inner.rpartition("/")
    return f"{folder}{chain}{outer}", name


def same_key(path: str) -> str:
    """Return the form in which all spellings of one file in plain text (not percent-encoded) are equal.

    ``file:///x``, ``file:/x`` and ``/x`` are; so are ``s3``, ``s3a`` and ``s3n``, ``abfs`` and ``abfss``, ``wasb`` and
    ``wasbs``.

    >>> same_key("s3a://lake/a b"), same_key("file:///a//b")
    ('s3://lake/a b', '/a/b')
    """
    if re.match(LOCAL, path):
        return re.sub(r"/{2,}", "/", path.removeprefix("file:"))
    for scheme, others in SAME_SCHEMES.items():
        path = re.sub(f"^(?:{'|'.join(others)})://", f"{scheme}://", path)
    return path
