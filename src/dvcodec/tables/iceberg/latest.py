"""Finding the latest metadata file of an Iceberg table without a catalog.

Names and version hint are those that Java's ``HadoopTableOperations`` and ``BaseMetastoreTableOperations`` write:
``v3.metadata.json`` with a hint, or ``00003-<uuid>.metadata.json`` without; compressed ones have ``.gz`` before
``.metadata.json``, older ones after it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from dvcodec.core.errors import DvcodecError, NotCanonical, UsageError
from dvcodec.io import Storage, read_up_to
from dvcodec.io.store import ObjectChanged
from dvcodec.io.target import file_key, is_outside, split
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import METADATA_SUFFIXES

METADATA = "metadata"
"""Folder of metadata files in a table's folder."""
VERSION_HINT = "version-hint.text"
"""Names the current version in tables without a catalog."""
HADOOP_NAME = re.compile(r"v([0-9]{1,18})(?:\.gz)?\.metadata\.json(?:\.gz)?")
"""Names of metadata files in tables without a catalog."""

_CATALOG_NAME = re.compile(r"([0-9]{1,18})-.*?(?:\.gz)?\.metadata\.json(?:\.gz)?", re.DOTALL)
_HINT_BYTES, _HINT_ATTEMPTS = 4096, 10
_NUMBER = re.compile("[0-9]+")
_SHOWN_DIGITS, _SHOWN_NAMES = 18, 5
_MOST_TRIED = 10


def version_of(name: str) -> int:
    """Return the version in the name of a metadata file, -1 if it has none.

    >>> version_of("v3.metadata.json"), version_of("00004-1f.gz.metadata.json"), version_of("vfinal.metadata.json")
    (3, 4, -1)
    """
    match = HADOOP_NAME.fullmatch(name) or _CATALOG_NAME.fullmatch(name)
    return int(match[1]) if match else -1


def without_version(names: Iterable[str]) -> tuple[str, ...]:
    """Return the metadata files without a version in their names: their order is unknown.

    >>> without_version(["v1.metadata.json", "vfinal.metadata.json", "snap-1.avro"])
    ('vfinal.metadata.json',)
    """
    return tuple(sorted(name for name in names if name.endswith(METADATA_SUFFIXES) and version_of(name) < 0))


def some_of(names: Sequence[str]) -> str:
    """Return the first names for a message, and how many more there are.

    >>> some_of(["a", "b"]), some_of(["a", "b", "c", "d", "e", "f", "g"])
    ('a and b', 'a, b, c, d, e and 2 more')
    """
    more = len(names) - _SHOWN_NAMES
    shown = [*names[:_SHOWN_NAMES], *([f"{more} more"] if more > 0 else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def old_metadata(folder: Folder, newest: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield the locations of old metadata files that may be removed: those next to the newest one.

    A table's log may name any file, even one that is not metadata, or not the table's.

    Args:
        folder: the table's folder.
        newest: location of the newest metadata file.
        paths: as the metadata log records them.
    """
    beside, kept = file_key(split(newest)[0]), file_key(newest)
    for path in paths:
        with suppress(DvcodecError):
            location = folder.locate(path)
            parent, name = split(location)
            if file_key(parent) == beside and version_of(name) >= 0 and file_key(location) != kept:
                yield location


def check_newest(location: str, storage: Storage, older: Collection[str] = ()) -> None:
    """Check that no metadata file next to this one has a higher number, the same, or none.

    Args:
        location: location of the metadata file.
        storage: lists its folder.
        older: bare names of metadata files that are known to be older, whatever their names.

    Raises:
        UsageError: there is one, or this one has no number and others have.
        OSError: its folder cannot be listed.
    """
    folder, own = split(location)
    names = [name for name in storage.names(folder) if name not in older]
    numbered = _numbered(names)
    last = max(numbered, default=0)
    others = [name for name in (*numbered.get(last, ()), *without_version(names)) if name != own]
    if others:
        raise UsageError(f"{location}: {others[0]} beside it may be newer, and need files that this one does not name")


def _numbered(names: Iterable[str]) -> dict[int, list[str]]:
    numbered: dict[int, list[str]] = {}
    for name in names:
        version = version_of(name)
        if version >= 0:
            numbered.setdefault(version, []).append(name)
    return numbered


def older_metadata(names: Iterable[str], current: str) -> list[str]:
    """Return the metadata files before the current one, the newest first; of many, the first few."""
    last = version_of(current)
    older = [
        name for name in names if name != current and version_of(name) >= 0 and (last < 0 or version_of(name) <= last)
    ]
    return sorted(older, key=version_of, reverse=True)[:_MOST_TRIED]


def find_metadata(folder: Folder, names: Collection[str] | None = None) -> str:
    """Return the location of the latest metadata file.

    The version hint is followed, and from there every next version that exists, as in Java; without a hint, or with an
    empty one (as Impala writes), it is the file with the highest number. Unknown here: which file a catalog considers
    current, and how new files without a version in their names are (see `without_version`).

    Args:
        folder: the table's.
        names: names in its metadata folder, if that was listed already.

    Raises:
        UsageError: there is none, or two of the highest number: only a catalog knows which one is current.
        NotCanonical: the hint names a version that does not exist.
    """
    names = folder.names(METADATA) if names is None else names
    numbered = _numbered(names)
    nameless = without_version(names)
    if not numbered and not nameless:
        raise UsageError(f"{folder.location}: no *.metadata.json below {METADATA}")
    version = max(numbered, default=-1)
    hint = _read_hint(folder) if VERSION_HINT in names else ""
    if hint:
        if not _NUMBER.fullmatch(hint):
            found = [name for name in names if name in (hint, f"{hint}.metadata.json")]
            if not found:
                raise _bad_hint(folder, hint)
            return folder.join(f"{METADATA}/{found[0]}")
        version = int(hint)
        if version not in numbered:  # it may have been committed after the names were listed
            folder.storage.forget()
            numbered = _numbered(folder.names(METADATA))
        if version not in numbered:
            raise _bad_hint(folder, hint)
        while version + 1 in numbered:
            version += 1
    if not numbered:
        message = some_of(nameless)
        raise UsageError(
            f"{folder.location}: no version in the names below {METADATA} ({message}): open a file by its path"
        )
    if len(numbered[version]) > 1:
        message = some_of(sorted(numbered[version]))
        raise UsageError(
            f"{folder.location}: {message} share version {version}: open the one that is meant by its path"
        )
    return folder.join(f"{METADATA}/{numbered[version][0]}")


def _read_hint(folder: Folder) -> str:
    """Return the hint. Each commit replaces it, so its listed size may be outdated, and it may change between requests.

    Raises:
        ObjectChanged: it did so again and again.
    """
    for _ in range(_HINT_ATTEMPTS - 1):
        with suppress(ObjectChanged):
            return _hint(folder)
    return _hint(folder)


def _hint(folder: Folder) -> str:
    with folder.storage.open(folder.join(f"{METADATA}/{VERSION_HINT}")) as source:
        return bytes(read_up_to(source, 0, _HINT_BYTES).view).decode("utf-8", "replace").strip()


def _bad_hint(folder: Folder, hint: str) -> NotCanonical:
    """Return the error for a hint; only a number is shown: the file may have any contents, or be a link to any file."""
    source = folder.join(f"{METADATA}/{VERSION_HINT}")
    is_shown = _NUMBER.fullmatch(hint) and len(hint) <= _SHOWN_DIGITS and not is_outside(source, folder.location)
    shown = hint if is_shown else "something else"
    return NotCanonical("version hint", source=source, expected="an existing version", actual=shown)
