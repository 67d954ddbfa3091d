"""Lance's manifest: the parts about rows, fragments and their files.

Specification: Lance's ``table.proto``, message ``Manifest``; Rust module ``io/manifest.rs``::

    [u32 LE size, index section] [u32 LE size, transaction]          both optional; the first is ignored
    u32 LE size | Manifest                                           <- position
    i64 LE position | u16 LE major | u16 LE minor | "LANC"

Names: ``_versions/<version>.manifest`` (V1), ``_versions/<2**64 - 1 - version, 20 digits>.manifest`` (V2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.usage import check_choice, check_integer, check_type
from dvcodec.io import SourceTarget, StorageOptions, list_names, open_source, read_window
from dvcodec.lance import wire
from dvcodec.lance.fragments import Fragment, decode_fragment

__all__ = [
    "FLAG_STABLE_ROW_IDS",
    "BasePath",
    "Manifest",
    "find_manifest",
    "manifest_name",
    "manifest_names",
    "manifest_version",
    "read_manifest",
]

MAGIC = b"LANC"
FOOTER_BYTES = 16
FLAG_STABLE_ROW_IDS = 2
_NAME = re.compile(r"([0-9]{1,20})\.manifest")
_TOP = 2**64 - 1
_DETACHED = 2**63
"""Flag in the number of a detached version."""
_V2_DIGITS = 20
_TRANSACTION_SECTION = (21, 23)
"""Field numbers of the inline transaction's position: in the published ``table.proto``, and in pylance 14."""


@dataclass(frozen=True, slots=True)
class BasePath:
    """Another folder with files of the dataset: the base of a shallow clone or branch.

    Attributes:
        path: absolute path or URL.
        is_dataset_root: True if it is a dataset with folders ``data`` and ``_deletions``; False if the data files are
            directly in it.
    """

    path: str
    is_dataset_root: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of a dataset.

    Attributes:
        version: dataset version.
        fragments: in manifest order.
        next_row_id: id of the next new row.
        reader_flags: features that a reader must support; 2: stable row ids.
        writer_flags: features that a writer must support.
        writer: library and version of the writer, empty if unknown.
        base_paths: id -> base path.
        timestamp_ms: time of the commit, in milliseconds since 1970 UTC; None if unknown.
        transaction_file: name of the transaction's file in ``_transactions``, or empty.
        transaction_offset: byte offset of the transaction in the manifest file, None if it is not there; see
            `read_operation`.
    """

    version: int
    fragments: tuple[Fragment, ...]
    next_row_id: int
    reader_flags: int
    writer_flags: int
    writer: str
    base_paths: Mapping[int, BasePath] = field(default_factory=dict, hash=False)
    timestamp_ms: int | None = None
    transaction_file: str = ""
    transaction_offset: int | None = None

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return bool(self.reader_flags & FLAG_STABLE_ROW_IDS)


def manifest_name(version: int, scheme: Literal["V1", "V2"] = "V2") -> str:
    """Return the file name of a version's manifest.

    Args:
        version: from 1.
        scheme: ``V2`` is 2**64 - 1 minus the version, so that the latest version sorts first; ``V1`` is the version
            itself.

    Raises:
        UsageError: `version` is not between 1 and 2**64 - 1, or an unknown scheme.

    >>> manifest_name(2), manifest_name(2, "V1")
    ('18446744073709551613.manifest', '2.manifest')
    """
    check_integer(version, "version")
    version = int(version)  # NumPy's integers overflow
    check_choice(scheme, ("V1", "V2"), "scheme")
    if not 0 < version <= _TOP:
        raise UsageError(f"version {version} is not between 1 and {_TOP}")
    return f"{_TOP - version:020}.manifest" if scheme == "V2" else f"{version}.manifest"


def manifest_version(name: str) -> int | None:
    """Return the version in a manifest's file name; None for other names and detached versions.

    Raises:
        UsageError: not a str.

    >>> manifest_version("18446744073709551613.manifest"), manifest_version("2.manifest")
    (2, 2)
    """
    check_type(name, str, "name", "a str")
    match = _NAME.fullmatch(name)
    if match is None or int(match[1]) > _TOP:
        return None
    return _TOP - int(match[1]) if len(match[1]) == _V2_DIGITS else int(match[1])


def manifest_names(names: Iterable[str], source: str) -> dict[int, str]:
    """Return the names of manifests by version, of all names in a folder ``_versions``; detached ones are omitted.

    Raises:
        NotCanonical: two of one version, as ``2.manifest`` and ``02.manifest``: readers differ in which they take.
    """
    found: dict[int, str] = {}
    for name in names:
        version = manifest_version(name)
        if version and version < _DETACHED and found.setdefault(version, name) != name:
            actual = " and ".join(sorted((found[version], name)))
            raise NotCanonical(f"manifests of version {version}", source=source, expected="one", actual=actual)
    return found


def find_manifest(folder: str, version: int | None = None, *, storage_options: StorageOptions = None) -> str:
    """Return the path or URL of the manifest of a version (by default the latest), in either naming scheme.

    Args:
        folder: the dataset's folder, path or URL.
        version: from 1; None for the latest.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: the dataset does not have this version, or any.
        NotCanonical: two manifests of one version.
        OSError: the folder ``_versions`` cannot be listed.
    """
    versions_folder = f"{str(folder).rstrip('/')}/_versions"
    found = manifest_names(list_names(versions_folder, storage_options=storage_options), versions_folder)
    wanted = max(found, default=None) if version is None else version
    if wanted is None or wanted not in found:
        which = "no version" if wanted is None else f"no version {wanted}"
        raise UsageError(f"{folder}: {which} of a Lance dataset in {versions_folder}")
    return f"{versions_folder}/{found[wanted]}"


def read_manifest(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> Manifest:
    """Read a manifest; its sequences are decoded on demand.

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: `Limits.max_manifest_bytes` bounds the manifest.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the file is damaged, or not a manifest.
    """
    with open_source(source, storage_options=storage_options) as opened:
        size = opened.size
        footer = read_window(opened, max(size - FOOTER_BYTES, 0), min(size, FOOTER_BYTES))
        position = footer.u64le("position of the manifest")
        footer.take(4, "version of the file format")
        magic = bytes(footer.take(len(MAGIC), "magic"))
        if magic != MAGIC:
            raise footer.error(BadMagic, "magic", at=12, expected=MAGIC.hex(" "), actual=magic.hex(" "))
        if position > size - FOOTER_BYTES - 4:
            most = f"at most {size - FOOTER_BYTES - 4}"
            raise footer.error(Truncated, "position of the manifest", at=0, expected=most, actual=position)
        limits.check("max_manifest_bytes", size - position, footer, 0)
        cursor = read_window(opened, position, size - FOOTER_BYTES - position)
        length = cursor.u32le("size of the manifest")
        if length != cursor.remaining:
            raise cursor.error(NotCanonical, "size of the manifest", at=0, expected=cursor.remaining, actual=length)
        return _manifest(cursor)


def _manifest(cursor: Cursor) -> Manifest:
    """Decode the message ``Manifest``; fields unrelated to rows are skipped."""
    numbers = {3: 0, 9: 0, 10: 0, 14: 0}
    fragments: list[Fragment] = []
    writer: list[str] = []
    bases: dict[int, BasePath] = {}
    moment: list[Cursor] = []
    transaction_file, transaction_offset = "", None
    for entry in wire.fields(cursor):
        if entry.number == 2:
            fragments.append(decode_fragment(entry.window(cursor, "fragment")))
        elif entry.number in numbers:
            numbers[entry.number] = entry.integer(cursor, f"field {entry.number} of the manifest")
        elif entry.number == 7:
            moment.append(entry.window(cursor, "timestamp"))
        elif entry.number == 12:
            transaction_file = entry.text(cursor, "transaction file")
        elif entry.number == 13:
            window = entry.window(cursor, "writer")
            writer = [part.text(window, "writer") for part in wire.fields(window) if part.number in (1, 2)]
        elif entry.number == 18:
            bases |= _base_path(entry.window(cursor, "base path"))
        elif entry.number in _TRANSACTION_SECTION:
            transaction_offset = entry.integer(cursor, "position of the transaction")
    version, reader_flags, writer_flags, next_row_id = numbers.values()
    return Manifest(
        version,
        tuple(fragments),
        next_row_id,
        reader_flags,
        writer_flags,
        " ".join(writer),
        bases,
        _milliseconds(moment) if moment else None,
        transaction_file,
        transaction_offset,
    )


def _base_path(cursor: Cursor) -> dict[int, BasePath]:
    number, path, is_root = 0, "", False
    for entry in wire.fields(cursor):
        if entry.number == 1:
            number = entry.integer(cursor, "id of a base path")
        elif entry.number == 3:
            is_root = bool(entry.integer(cursor, "kind of a base path"))
        elif entry.number == 4:
            path = entry.text(cursor, "base path")
    return {number: BasePath(path, is_root)}


def _milliseconds(parts: list[Cursor]) -> int:
    """Decode a ``google.protobuf.Timestamp``: seconds, an int64, and nanoseconds."""
    found: dict[int, int] = {}
    for cursor in parts:
        found |= wire.integers(cursor, {1: "seconds of a timestamp", 2: "nanoseconds of a timestamp"})
    seconds, nanoseconds = found.get(1, 0), found.get(2, 0)
    return (seconds - (1 << 64) if seconds >> 63 else seconds) * 1000 + nanoseconds // 1_000_000
