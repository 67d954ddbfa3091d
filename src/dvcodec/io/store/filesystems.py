"""All other protocols (hdfs, ftp, sftp, memory, chains, ...), on fsspec (extra ``remote``).

fsspec caches listings and sizes for the lifetime of a process, so its caches are cleared before each listing and each
request for a size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from dvcodec.core.errors import DvcodecError, MissingExtra, UsageError
from dvcodec.io.store.base import Fetched, Requests, Store, StoredObject
from dvcodec.io.store.errors import Reason, StoreError, store_error, without_secrets
from dvcodec.io.store.options import StoreOptions

Result = TypeVar("Result")
_REASONS = (
    (FileNotFoundError, Reason.NO_OBJECT),
    (FileExistsError, Reason.EXISTS),
    (PermissionError, Reason.DENIED),
    (TimeoutError, Reason.TIMEOUT),
    (ConnectionError, Reason.UNREACHABLE),
)


def connect(url: str, options: StoreOptions) -> tuple[FilesystemStore, str]:
    """Return the file system of a URL, and the path in it.

    Raises:
        MissingExtra: fsspec is not installed.
        UsageError: the protocol is unknown, its package is not installed, or it rejects an option.
        StoreError: it cannot be reached.
    """
    try:
        import fsspec  # noqa: PLC0415  (extra "remote")
    except ImportError:
        raise MissingExtra("fsspec", "remote") from None
    given = dict(options.originals)
    if options.endpoint is not None:
        given["endpoint"] = options.endpoint
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **given)
    except (ImportError, ValueError, TypeError) as err:  # no such protocol or option, or its package is not installed
        raise UsageError(f"{without_secrets(url)}: {without_secrets(str(err))}") from None
    except Exception as err:
        if "libjvm" in str(err) or "libhdfs" in str(err):
            needs = (
                "HDFS needs a Hadoop client, with JAVA_HOME, HADOOP_HOME and CLASSPATH set (hadoop classpath --glob)"
            )
            raise UsageError(
                f"{without_secrets(url)}: {needs}, or the address of its web server: webhdfs://host:9870/"
            ) from err
        raise _error(without_secrets(url), "open", err) from err
    return FilesystemStore(filesystem, url, str(path), options), str(path)


class FilesystemStore(Store):
    """A file system of fsspec. Keys are its own paths.

    Args:
        filesystem: an fsspec file system.
        url: a URL in it.
        path: the path of this URL.
        options: options of the store.
    """

    excludes = False

    def __init__(self, filesystem: Any, url: str, path: str, options: StoreOptions) -> None:
        inner, chain, outer = url.partition("::")
        self.root = inner[: len(inner) - len(path)] if inner.endswith(path) else f"{inner.partition('://')[0]}://"
        self._chain = chain + outer
        self._filesystem = filesystem
        # These file systems have retries of their own.
        self._requests = Requests(replace(options.retry, max_retries=0), options.max_concurrency)

    def url(self, key: str) -> str:
        """Return the URL of a key, as users spell it."""
        return without_secrets(f"{self.root}{key}{self._chain}")

    def get(self, key: str, start: int | None = None, stop: int | None = None, *, etag: str | None = None) -> Fetched:
        """Read a file or a byte range of it; see `Store.get`. A concurrent replacement is not detected."""
        del etag

        def work() -> Fetched:
            # By name: the second parameter of some file systems is a version, not an offset.
            data = memoryview(self._filesystem.cat_file(key, start=start, end=stop))
            size = len(data) if start is None else None
            return Fetched(data, start or 0, StoredObject(key, size))

        return self._make("get", key, "read", work, lambda found: len(found.data))

    def head(self, key: str) -> StoredObject:
        """Return the size of a file; see `Store.head`. The size is None if a web server does not report it."""

        def work() -> StoredObject:
            self._filesystem.invalidate_cache()
            info = self._filesystem.info(key)
            if info.get("type") == "directory":
                raise store_error(self.url(key), "read", "a folder, not a file", Reason.NO_OBJECT)
            return _object(key, info)

        return self._make("head", key, "read", work)

    def list_all(self, folder: str = "") -> Iterator[StoredObject]:
        """Yield all files below a folder; see `Store.list_all`."""

        def work() -> dict[str, Any]:
            self._filesystem.invalidate_cache()
            return dict(self._filesystem.find(folder, detail=True))

        found = self._make("list", folder, "list", work)
        return (_object(str(path), info) for path, info in found.items())

    def list_folder(self, folder: str = "") -> tuple[list[str], list[StoredObject]]:
        """Return what is in a folder; see `Store.list_folder`."""

        def work() -> list[Mapping[str, Any]]:
            self._filesystem.invalidate_cache()
            try:
                return list(self._filesystem.ls(folder, detail=True))
            except FileNotFoundError:
                return []

        folders: list[str] = []
        files: list[StoredObject] = []
        for info in self._make("list", folder, "list", work):
            path = str(info["name"]).rstrip("/")
            if info.get("type") == "directory":
                folders.append(path.rpartition("/")[2])
            elif path.strip("/") != folder.strip("/"):  # a file lists itself
                files.append(_object(path, info))
        return folders, files

    def put(self, key: str, data: bytes) -> None:
        """Write a file; see `Store.put`."""

        def work() -> None:
            self._make_parent(key)
            self._filesystem.pipe_file(key, data)

        self._make("put", key, "write", work, lambda _: len(data))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Raise `UsageError`: few file systems support this, and fsspec does not report which."""
        del data
        raise UsageError(f"{self.url(key)}: this store does not support writing a file only if it does not exist")

    def delete(self, key: str) -> None:
        """Delete a file; see `Store.delete`."""
        self._make("delete", key, "delete", lambda: self._filesystem.rm_file(key))

    def _make_parent(self, key: str) -> None:
        parent = self._filesystem._parent(key)  # noqa: SLF001  (each file system has its own)
        if parent:
            self._filesystem.makedirs(parent, exist_ok=True)

    def _make(
        self, kind: str, key: str, action: str, work: Callable[[], Result], size: Callable[[Result], int] | None = None
    ) -> Result:
        def checked(_attempt: int) -> Result:
            try:
                return work()
            except (DvcodecError, StoreError):
                raise
            except (ImportError, ValueError, TypeError) as err:
                raise UsageError(f"{self.url(key)}: {err}") from None
            except Exception as err:
                raise _error(self.url(key), action, err) from err

        return self._requests.make(kind, self.url(key), checked, size)


def _error(url: str, action: str, err: Exception) -> StoreError:
    reason = next((why for kind, why in _REASONS if isinstance(err, kind)), Reason.OTHER)
    # fsspec's error often lacks the message of the store's package, which is its cause.
    words = str(err.__cause__ or err) or type(err).__name__
    return store_error(url, action, words, reason)


def _object(key: str, info: Mapping[str, Any]) -> StoredObject:
    size = info.get("size")
    etag = info.get("ETag") or info.get("etag")
    modified = None
    for name in ("mtime", "LastModified", "last_modified", "created"):  # names differ between file systems
        value = info.get(name)
        if isinstance(value, datetime):
            value = value.timestamp()
        if isinstance(value, (int, float)):
            modified = int(value * 1000)
            break
    return StoredObject(key, None if size is None else int(size), None if etag is None else str(etag), modified)
