"""Paths and URLs as names: put together and taken apart. See `file_key` for comparing them."""

from __future__ import annotations

from urllib.parse import quote

from dvcodec.io.target import is_url, local_path

__all__ = ["join", "split"]


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
