"""Files of folders, local and remote: found, fetched ahead, and their requests counted in a log.

Paths are spelled as the user spelled the folder: a name found in ``file:/a%20b`` is a URL too, one in ``/a b`` a path.
Remote ones are reached by `dvcodec.io.store` (extra ``remote``).

The logger is ``dvcodec.store`` at INFO. Python workers have no logging configuration, so the environment variable
``DVCODEC_LOG`` sets the level: ``info`` or ``debug`` (``spark.executorEnv.DVCODEC_LOG``). Lines go to the standard
error of executors, or to Spark's worker log (``spark.sql.pyspark.worker.logging.enabled``, pyspark 4.1).
"""

from __future__ import annotations

import glob
import logging
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import numpy as np
from pyspark import TaskContext

from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import cut_by_weight
from dvcodec.core.text import LogFormatter
from dvcodec.io import Listed, Storage
from dvcodec.io.opening import find_remote
from dvcodec.io.storage import WHOLE_BYTES, run_bounded
from dvcodec.io.store import request_counts
from dvcodec.io.store.base import LOGGER
from dvcodec.io.target import is_local, is_url, join, local_path
from dvcodec.spark.compat import datasource
from dvcodec.spark.sources.options import OPEN_COST_BYTES, REMOTE_OPEN_COST_BYTES

_PATTERN = re.compile(r"[*?\[]")
_HIDDEN = ("_", ".")


class FileEntry(NamedTuple):
    """A file that was found."""

    path: str
    """In the spelling of the user's path."""
    size: int
    """Bytes; -1 for a broken link."""
    listed: bool
    """Whether it was found in a folder or by a pattern, not named itself."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files that a path means.

    Attributes:
        files: in order of their names; those that begin with ``_`` or ``.`` only if named themselves.
        folders: the folders that were listed as a whole, and the names there that begin with ``_`` or ``.``.
    """

    files: list[FileEntry] = field(default_factory=list)
    folders: dict[str, list[str]] = field(default_factory=dict)


def find(path: str, stores: Storage) -> FoundFiles:
    """Find the files that a path means: itself, all in a folder and its subfolders, or what matches a pattern.

    Folders whose name begins with ``_`` or ``.`` are not entered. Patterns know ``*``, ``?``, ``[...]`` and ``**``;
    an existing file of that exact name is not a pattern.

    Raises:
        UsageError: no such file or folder.
        OSError: it cannot be listed.
    """
    local = local_path(path)
    found = _find_remote(path, stores) if local is None else _find_local(path, local)
    if found is None:
        raise UsageError(f"{path}: no such file or folder")
    found.files.sort()
    return found


def find_all(paths: Sequence[str], stores: Storage) -> Iterator[FoundFiles]:
    """Find the files of each path, see `find`: remote ones concurrently, and those of one folder by one listing.

    Raises:
        UsageError: a path without files.
        OSError: it cannot be listed.
    """
    remote = len(paths) > 1 and not is_local(paths[0])
    stores.list_ahead(paths)
    return run_bounded(lambda path: find(path, stores), paths, stores.threads(paths[0]) if remote else 1)


def _find_local(path: str, local: Path) -> FoundFiles | None:
    found = FoundFiles()
    if local.is_dir():
        _walk(path, local, frozenset(), found)
        return found
    if local.exists():
        found.files.append(FileEntry(path, local.stat().st_size, listed=False))
        return found
    matches = glob.glob(str(local), recursive=True) if _PATTERN.search(str(local)) else []  # noqa: PTH207  (absolute)
    for match in map(Path, matches):
        if match.name.startswith(_HIDDEN):
            continue
        spelled = f"file:{quote(str(match))}" if is_url(path) else str(match)
        if match.is_dir():
            _walk(spelled, match, frozenset(), found)
        else:
            found.files.append(FileEntry(spelled, match.stat().st_size, listed=True))
    return found if matches else None


def _walk(spelled: str, folder: Path, above: frozenset[tuple[int, int]], found: FoundFiles) -> None:
    state = folder.stat()
    inside = above | {(state.st_dev, state.st_ino)}
    if inside == above:  # a link that leads back up
        return
    hidden = found.folders.setdefault(spelled, [])
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_HIDDEN):
                hidden.append(entry.name)
            elif entry.is_dir():
                _walk(join(spelled, entry.name), Path(entry.path), inside, found)
            else:
                try:
                    size = entry.stat().st_size
                except FileNotFoundError:
                    size = -1
                found.files.append(FileEntry(join(spelled, entry.name), size, listed=True))


def _find_remote(url: str, stores: Storage) -> FoundFiles | None:
    found = find_remote(url, stores)
    if found is None:
        return None
    if found.folder is None:
        return FoundFiles([FileEntry(url, found.files[0].size, listed=False)])
    folders: dict[str, list[str]] = {} if found.is_pattern else {found.folder: []}
    return _found(found.folder, found.files, folders)


def _found(url: str, inside: list[Listed], folders: dict[str, list[str]]) -> FoundFiles:
    found = FoundFiles([], folders)
    start = len(url.rstrip("/")) + 1
    for file in inside:
        parts = file.location[start:].split("/")
        shown = next((i for i, part in enumerate(parts) if part.startswith(_HIDDEN)), len(parts) - 1)
        folder = "/".join(parts[:shown])
        hidden = folders.setdefault(join(url, folder) if folder else url, []) if folders else []
        if not parts[shown].startswith(_HIDDEN):
            found.files.append(FileEntry(file.location, file.size, listed=True))
        elif parts[shown] not in hidden:
            hidden.append(parts[shown])
    return found


def names_in(folder: str, stores: Storage) -> list[str]:
    """Return the bare names in a folder; a missing folder is empty."""
    local = local_path(folder)
    return stores.names(folder) if local is None or local.is_dir() else []


def make_folder(folder: str) -> None:
    """Create a local folder and its parents. Stores create folders with the objects in them, if they have any."""
    local = local_path(folder)
    if local is not None:
        local.mkdir(parents=True, exist_ok=True)


@contextmanager
def counted(work: str, *paths: str) -> Iterator[None]:
    """Log the number of requests that a block made, even if it fails; nothing if all paths are local.

    A Python worker runs one task at a time, so all requests of its process are the task's.

    Args:
        work: name of the block in the log: ``read``, ``plan``.
        paths: that it reads or writes.
    """
    if not any(is_url(path) and not is_local(path) for path in paths):
        yield
        return
    before = request_counts()
    with _shown():
        try:
            yield
        finally:
            context = TaskContext.get()
            who = "driver" if context is None else f"stage {context.stageId()}, partition {context.partitionId()}"
            LOGGER.info("%s: %s: %s", who, work, request_counts() - before)


@contextmanager
def _shown() -> Iterator[None]:
    """Set the log level that ``DVCODEC_LOG`` names; without a handler, log to standard error."""
    level = {"info": logging.INFO, "debug": logging.DEBUG}.get(os.environ.get("DVCODEC_LOG", "").lower())
    if level is None:
        yield
        return
    old, handler = LOGGER.level, None if LOGGER.hasHandlers() else logging.StreamHandler(sys.stderr)
    LOGGER.setLevel(level)
    if handler is not None:
        handler.setFormatter(LogFormatter())
        LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.setLevel(old)
        if handler is not None:
            LOGGER.removeHandler(handler)


AHEAD_BYTES = 64 << 20
"""Maximum bytes fetched, or being fetched, before they are used."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_ahead(
    items: Iterable[Item], job: Callable[[Item], tuple[int, Callable[[], Result]] | None], threads: int
) -> Iterator[tuple[Item, Result | None]]:
    """Yield items in order, each with the result of its job, while jobs of later items run.

    The error of a job is raised when its item is due.

    Args:
        items: in the order of use.
        job: returns the bytes that will be in memory, and the function to run; None if there is nothing to prefetch.
        threads: number of concurrent jobs. As many more are queued or done, up to `AHEAD_BYTES`.
    """
    left = iter(items)
    queue: deque[tuple[Item, int, Future[Result] | None]] = deque()
    under_way = 0
    with ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                while len(queue) < 2 * threads and (under_way < AHEAD_BYTES or not queue):
                    if (item := next(left, None)) is None:
                        break
                    found = job(item)
                    queue.append((item, found[0], pool.submit(found[1])) if found else (item, 0, None))
                    under_way += queue[-1][1]
                if not queue:
                    return
                item, size, future = queue.popleft()
                yield item, None if future is None else future.result()
                under_way -= size
        finally:
            for _, _, future in queue:
                if future is not None:
                    future.cancel()


class ListedFile(Protocol):
    """A file, or a part of one."""

    @property
    def path(self) -> str:
        """Path or URL."""

    @property
    def size(self) -> int:
        """Bytes of the file by the listing; negative if it is missing."""


File = TypeVar("File", bound=ListedFile)


def fetched_ahead(files: Sequence[File], stores: Storage) -> Iterable[File]:
    """Yield files in order; if the first is remote, small ones are read whole ahead, by one request each.

    Args:
        files: in the order of use.
        stores: caches the bytes for whoever opens a file.
    """

    def job(file: File) -> tuple[int, Callable[[], object]] | None:
        if not 0 < file.size <= WHOLE_BYTES or is_local(file.path):
            return None
        return file.size, partial(stores.remote(file.path, file.size).read_up_to, 0, file.size)

    if not files or is_local(files[0].path):
        return files
    return (file for file, _ in run_ahead(files, job, stores.threads(files[0].path)))


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A file, or the vectors of it that begin in a byte range.

    Attributes:
        path: path of the file.
        size: bytes of the file; -1 if a manifest names it but it is missing.
        start: first byte of the range.
        stop: byte after the range.
        listed: whether the file was found in a folder, not named.
        manifest: the manifest that names the file.
    """

    path: str
    size: int
    start: int
    stop: int
    listed: bool = False
    manifest: str | None = None

    @classmethod
    def of(cls, entry: FileEntry, manifest: str | None = None) -> FileSplit:
        """Return a whole file."""
        return cls(entry.path, entry.size, 0, max(entry.size, 0), entry.listed, manifest)

    @property
    def is_whole(self) -> bool:
        """Whether the range is the file."""
        return self.stop - self.start >= self.size


@dataclass(frozen=True)
class FilePartition(datasource.InputPartition):
    """The files that one task reads, in order."""

    splits: tuple[FileSplit, ...]


def evenly(part: FileSplit, most: int) -> list[FileSplit]:
    """Split a file into ranges of about the same size, of at most so many bytes."""
    count = max(-(-part.size // most), 1)
    bounds = [part.size * i // count for i in range(count + 1)]
    return [replace(part, start=a, stop=b) for a, b in pairwise(bounds)]


def open_cost(path: str) -> int:
    """Return the cost of opening a file, in bytes that could be read meanwhile."""
    return OPEN_COST_BYTES if is_local(path) else REMOTE_OPEN_COST_BYTES


def packed(splits: Sequence[FileSplit], most: int, opening: int | None = None) -> list[FilePartition]:
    """Distribute splits among tasks, in order; one task at least.

    Args:
        splits: the splits.
        most: bytes of a task, unless a single split has more.
        opening: bytes added for each split; None: `open_cost`.
    """
    added = (open_cost(one.path) if opening is None else opening for one in splits)
    costs = [one.stop - one.start + cost for one, cost in zip(splits, added, strict=True)]
    cuts = cut_by_weight(np.array(costs, np.int64), most)
    return [FilePartition(tuple(splits[part])) for part in cuts] or [FilePartition(())]
