"""Join and split paths and URLs. See `file_key` for comparing them."""

from __future__ import annotations

from urllib.parse import quote

from dvcodec.io.target import is_local, is_url, local_path, with_slashes

__all__ = ["join", "split"]


def join(folder: str, name: str) -> str:
    """Return the path of `name` in a folder, spelled as the folder is; `name` may have slashes.

    The name is percent-encoded in a ``file:`` URL, and only there. Not checked: whether `name` leaves the folder.

    Raises:
        UsageError: a ``file:`` URL with a host.
    """
    inner, chain, outer = folder.partition("::")
    if chain:  # zip://folder::s3://bucket/archive.zip
        return f"{join(inner, name)}::{outer}"
    if is_url(folder) and is_local(folder):
        name = quote(name)
    elif folder.rstrip("/").endswith(":") and is_url(folder):  # the root of zip:// or hdfs:///
        return folder + name
    return f"{folder.rstrip('/')}/{name}"


def split(path: str) -> tuple[str, str]:
    """Return folder and bare name of a file.

    Raises:
        UsageError: a ``file:`` URL with a host.
    """
    local = local_path(path)
    if local is not None:
        path = with_slashes(path)
        spelled = path.rpartition("/")[0] if "/" in path else "."
        return spelled or "/", local.name
    inner, chain, outer = path.partition("::")
    folder, _, name = inner.rpartition("/")
    return f"{folder}{chain}{outer}", name
