"""Folders, local and remote: their files.

Paths are spelled as the user spelled the folder: a name found in ``file:/a%20b`` is a URL too, one in ``/a b`` a path.
Remote ones are reached by `dvcodec.io.store` (extra ``remote``).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from dvcodec.core.errors import UsageError
from dvcodec.io import Listed, Storage, is_url
from dvcodec.io.opening import find_remote
from dvcodec.io.parallel import run_bounded
from dvcodec.io.target import is_local, join, local_path

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


def names(folder: str, stores: Storage) -> list[str]:
    """Return the bare names in a folder; a missing folder is empty."""
    local = local_path(folder)
    return stores.names(folder) if local is None or local.is_dir() else []


def make_folder(folder: str) -> None:
    """Create a local folder and its parents. Stores create folders with the objects in them, if they have any."""
    local = local_path(folder)
    if local is not None:
        local.mkdir(parents=True, exist_ok=True)
