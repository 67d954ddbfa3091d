"""What a target names: a local path, a URL, or something else; and how errors say which."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dvcodec.core.errors import DvcodecError, MissingExtra, UsageError

__all__ = ["errors_name", "filesystem_of", "is_url", "local_path", "remote_errors"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:://|::)|file:/", re.IGNORECASE)
_ERRNOS = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES, IsADirectoryError: errno.EISDIR}


def is_url(target: object) -> bool:
    """Whether `target` is a string with a scheme: ``s3://bucket/key``, ``file:/path``, ``zip://part::s3://bucket/key``.

    A colon alone makes no URL: ``part:0.bin`` is a file.
    """
    return isinstance(target, str) and _URL.match(target) is not None


def local_path(target: str | os.PathLike[str]) -> Path | None:
    """Return the local path that `target` means, None for a URL elsewhere. Whether there is a file is not looked at.

    Raises:
        UsageError: a ``file:`` URL that names a host.
    """
    if not is_url(target):
        return Path(target)
    scheme, _, rest = str(target).partition(":")
    if scheme.lower() != "file" or rest.startswith(":"):
        return None
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise UsageError(f"{target}: a file URL must not name a host")
        rest = f"/{path}"
    return Path(unquote(rest))


@contextmanager
def errors_name(name: str) -> Iterator[None]:
    """Let an error of the operating system say which file it is about."""
    try:
        yield
    except OSError as err:
        if err.filename is None:
            err.filename = name
        raise


def filesystem_of(url: str) -> tuple[Any, str]:
    """Return the fsspec filesystem of a URL, and the path in it (extra ``remote``).

    Raises:
        MissingExtra: fsspec is not installed.
        UsageError: there is no such protocol, or its package is not installed.
        OSError: the store cannot be reached.
    """
    try:
        import fsspec  # noqa: PLC0415  (extra "remote")
    except ImportError:
        raise MissingExtra("fsspec", "remote") from None
    with remote_errors(url):
        filesystem, path = fsspec.core.url_to_fs(url)
    return filesystem, path


@contextmanager
def remote_errors(url: str) -> Iterator[None]:
    """Give what the stores behind fsspec raise one form: an error that names the URL.

    Raises:
        UsageError: there is no such protocol, its package is not installed, or the store refuses an argument.
        OSError: anything else that went wrong in the block.
    """
    try:
        yield
    except DvcodecError:
        raise
    except (ImportError, ValueError) as err:  # the store's package is not installed, or there is no such protocol
        raise UsageError(f"{url}: {err}") from None
    except Exception as err:  # no such object, no credentials, no connection
        code = getattr(err, "errno", None) or next((no for kind, no in _ERRNOS.items() if isinstance(err, kind)), 0)
        if code:
            raise OSError(code, os.strerror(code), url) from err
        raise OSError(f"{url}: {str(err) or type(err).__name__}") from err
