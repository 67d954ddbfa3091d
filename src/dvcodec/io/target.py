"""Local paths and URLs, joined and split, and OS errors that name the file. See `file_key` for comparing them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from dvcodec.core.errors import UsageError

_WINDOWS = os.name == "nt"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:://|::)|file:/", re.IGNORECASE)

_DRIVE = re.compile(r"/[A-Za-z]:(?:/|\Z)")
_URL_AS_PATH = re.compile(r"(?:s3[an]?|gc?s|az|abfss?|wasbs?|https?|hdfs|memory):/(?!/)", re.IGNORECASE)


def is_url(target: object) -> bool:
    """Whether `target` is a str with a scheme: ``s3://bucket/key``, ``file:/path``, ``zip://part::s3://bucket/key``.

    A colon alone does not make a URL: ``part:0.bin`` is a file.
    """
    return isinstance(target, str) and _URL.match(target) is not None


def with_slashes(path: str | os.PathLike[str], *, windows: bool = _WINDOWS) -> str:
    r"""Return a path or URL with ``/`` between its parts: on Windows, paths may have backslashes.

    Elsewhere a backslash is part of a name.

    >>> with_slashes(r"C:\lake\t", windows=True), with_slashes(r"a\b", windows=False)
    ('C:/lake/t', 'a\\b')
    """
    text = os.fspath(path)
    return text.replace("\\", "/") if windows and not is_url(text) else text


def local_path(target: str | os.PathLike[str], *, windows: bool = _WINDOWS) -> Path | None:
    """Return the local path of `target`, None for a remote URL. The file need not exist.

    On Windows, ``file:///C:/t`` is ``C:/t``.

    Raises:
        UsageError: neither a str nor a path, a ``file:`` URL with a host, a URL as a `Path`, or a name that no file can
            have.
    """
    try:
        text = os.fspath(target)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise UsageError(f"a path or URL must be a str or os.PathLike, not {type(target).__name__}")
    if isinstance(target, str):
        name = local_name(target, windows=windows)
        return None if name is None else Path(name)
    _check_name(text)
    if _URL_AS_PATH.match(text):
        raise UsageError(f"{target}: pass a URL as str: a Path drops one of its slashes")
    return Path(target)


def local_name(target: str, *, windows: bool = _WINDOWS) -> str | None:
    """Return the local path of `target` as text, None for a remote URL: what `local_path` makes a `Path` of.

    Raises:
        UsageError: see `local_path`.
    """
    _check_name(target)
    if not is_url(target):
        return target
    scheme, _, rest = target.partition(":")
    if scheme.lower() != "file" or rest.startswith(":"):
        return None
    host, path = _of_file_url(rest)
    if host.lower() not in ("", "localhost"):
        raise UsageError(f"{target}: a file URL must not name a host")
    return path[1:] if windows and _DRIVE.match(path) else path


def _of_file_url(rest: str) -> tuple[str, str]:
    """Split a ``file:`` URL, without its scheme, into the host, which is usually empty, and the path."""
    if not rest.startswith("//"):
        return "", unquote(rest)
    host, _, path = rest[2:].partition("/")
    return host, unquote(f"/{path}")


def is_local(target: str) -> bool:
    """Whether `local_path` returns a path, not None.

    Raises:
        UsageError: see `local_path`.
    """
    return local_name(target) is not None


def _check_name(text: str) -> None:
    if not can_be_named(text):
        raise UsageError(f"{text!a:.200}: a name with a NUL character or a lone surrogate")


def can_be_named(text: str) -> bool:
    """Whether the system takes this name; names that are not UTF-8 are spelled with surrogates of their own."""
    if text.isascii():
        return "\0" not in text
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def network_host(path: str) -> str | None:
    r"""Return the host of a network path of Windows, also within a ``file:`` URL; None for other paths.

    >>> [network_host(path) for path in (r"\\host\x", "//Host/x", "file:////host/x", "file:/%2Fhost/x")]
    ['host', 'host', 'host', 'host']
    >>> [network_host(path) for path in ("file:///x", "/x", r"C:\x", r"\x")]
    [None, None, None, None]
    """
    scheme, colon, rest = path.partition(":")
    if colon and scheme.lower() == "file":
        path = _of_file_url(rest)[1]
    path = path.replace("\\", "/")
    return path[2:].partition("/")[0].lower() if path.startswith("//") else None


@contextmanager
def errors_name(name: str) -> Iterator[None]:
    """Add the file name to an OSError that has none."""
    try:
        yield
    except OSError as err:
        if err.filename is None:
            err.filename = name
        raise


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
