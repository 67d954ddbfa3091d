"""Lance's manifest: the parts about rows, fragments and their files; the operation of a transaction; rows of a file.

Specification: Lance's ``table.proto``, message ``Manifest``; Rust module ``io/manifest.rs``::

    [u32 LE size, index section] [u32 LE size, transaction]          both optional; the first is ignored
    u32 LE size | Manifest                                           <- position
    i64 LE position | u16 LE major | u16 LE minor | "LANC"

Names: ``_versions/<version>.manifest`` (V1), ``_versions/<2**64 - 1 - version, 20 digits>.manifest`` (V2).

Data files, version 2 (2.0 is stored as 0.3, older ones have another format): the last 40 bytes are the footer::

    u64 first column's metadata | u64 table of columns | u64 table of global buffers | u32 global buffers | u32 columns
    u16 major version | u16 minor version | "LANC"                   all little-endian

The first global buffer (u64 position, u64 size in the table) is a protobuf ``FileDescriptor``, whose field 2 is the
number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count, check_choice, check_integer, check_type
from dvcodec.io import SourceTarget, StorageOptions, open_source, read_window, read_within, storage_of
from dvcodec.lance import wire
from dvcodec.lance.deletions import KINDS, DeletionFile, read_deletion_file
from dvcodec.lance.row_ids import RowDatasetVersionSequence, RowIdSequence, decode_row_ids, decode_versions

Decoded = TypeVar("Decoded", RowIdSequence, RowDatasetVersionSequence)

_SPILL_COLUMNS = {
    -3: "_rowid",
    -4: "_row_created_at_version",
    -5: "_row_last_updated_at_version",
}
"""Field ids of spilled sequences in data files -> name of the hidden column."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A sequence of a fragment, stored in the manifest or elsewhere.

    Attributes:
        inline: its bytes, if they are in the manifest.
        offset: byte offset of `inline` in the manifest file.
        elsewhere: otherwise, a description of the location: a hidden column of a data file, or a separate file.
    """

    inline: bytes | None = None
    offset: int = 0
    elsewhere: str | None = None


@dataclass(frozen=True, slots=True)
class FragmentFile:
    """A data file of a fragment.

    Attributes:
        path: relative to the folder ``data`` of the dataset, or of a base path.
        size: bytes; 0 if unknown.
        base_id: id of the base path that it is stored under; None for the dataset's folder.
    """

    path: str
    size: int = 0
    base_id: int | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """One fragment of a dataset version.

    Attributes:
        id: id of the fragment.
        physical_rows: rows in its data files, including deleted ones; 0 if unknown.
        row_ids: its row-id sequence, None without stable row ids.
        created_at: its sequence of creating versions, or None.
        last_updated_at: its sequence of updating versions, or None.
        deletion_file: its deletion file, None without deleted rows.
        files: its data files, with the same rows and different columns.
        overlays: files with newer values for some rows.
        source: name of the manifest, for errors.
    """

    id: int
    physical_rows: int
    row_ids: Stored | None = None
    created_at: Stored | None = None
    last_updated_at: Stored | None = None
    deletion_file: DeletionFile | None = None
    files: tuple[FragmentFile, ...] = ()
    overlays: tuple[FragmentFile, ...] = ()
    source: str | None = None

    def row_id_sequence(self) -> RowIdSequence:
        """Decode the row ids, one per physical row.

        Raises:
            UsageError: the dataset has no stable row ids.
            Unsupported: they are not in the manifest; the message names the location.
            DecodeError: the sequence is corrupt, or does not have `physical_rows` ids.
        """
        return self._decoded(self.row_ids, "row ids", decode_row_ids)

    def created_at_versions(self) -> RowDatasetVersionSequence:
        """Decode the versions in which the rows were created; errors as in `row_id_sequence`."""
        return self._decoded(self.created_at, "creating versions", decode_versions)

    def last_updated_at_versions(self) -> RowDatasetVersionSequence:
        """Decode the versions in which the rows were last updated; errors as in `row_id_sequence`."""
        return self._decoded(self.last_updated_at, "updating versions", decode_versions)

    def deleted_rows(
        self, folder: str, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
    ) -> RowSet:
        """Read the deletion file and check it against the manifest.

        Args:
            folder: the dataset's folder, path or URL.
            limits: bounds on what the bytes may claim.
            storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

        Raises:
            Unsupported: the file is stored under a base path.
            DecodeError: the file is corrupt.
        """
        if self.deletion_file is None:
            return RowSet()
        if self.deletion_file.base_id is not None:
            what = f"deletion file of fragment {self.id}"
            raise Unsupported(what, source=self.source, actual=f"base path {self.deletion_file.base_id}")
        return read_deletion_file(
            self.deletion_file.path(folder),
            num_deleted_rows=self.deletion_file.num_deleted_rows,
            physical_rows=self.physical_rows or None,
            limits=limits,
            storage_options=storage_options,
        )

    def _decoded(self, stored: Stored | None, what: str, decode: Callable[..., Decoded]) -> Decoded:
        if stored is None:
            raise UsageError(f"fragment {self.id} has no {what}")
        where = f"{what} of fragment {self.id}"
        if stored.inline is None:
            raise Unsupported(where, source=self.source, expected="in the manifest", actual=stored.elsewhere)
        sequence = decode(stored.inline, source=self.source, base=stored.offset)
        if self.physical_rows and sequence.count != self.physical_rows:
            expected = f"{self.physical_rows} (physical rows)"
            raise NotCanonical(
                where, source=self.source, offset=stored.offset, expected=expected, actual=sequence.count
            )
        return sequence


_SEQUENCES = {
    5: "row_ids", 6: "row_ids", 12: "row_ids",
    7: "last_updated_at", 8: "last_updated_at", 13: "last_updated_at",
    9: "created_at", 10: "created_at", 14: "created_at",
}  # fmt: skip
"""Fields of ``DataFragment`` for sequences: inline, in a separate file, or spilled to a hidden column."""
_INLINE, _EXTERNAL = (5, 7, 9), (6, 8, 10)
_COLUMN_OF = {12: -3, 13: -5, 14: -4}
_OF_FRAGMENT = {1: "field 1 of a fragment", 4: "field 4 of a fragment"}
_IN_FRAGMENT = {2: "data file", 3: "deletion file", 11: "overlay", **_SEQUENCES}


def decode_fragment(cursor: Cursor) -> Fragment:
    """Decode the message ``DataFragment`` that fills the window; its sequences are decoded on demand.

    Raises:
        DecodeError: the message is corrupt.
    """
    found = wire.read(cursor, _OF_FRAGMENT, windows=_IN_FRAGMENT)
    number, files = found.get(1, 0), [_data_file(window) for window in found.get(2, ())]
    columns = {field_id: file.path for file, ids in files for field_id in ids}
    overlays = [wire.read(window, {}, windows={1: "data file"}).get(1, ()) for window in found.get(11, ())]
    sequences: dict[str, Stored] = {}
    for key in sorted(found.keys() & _SEQUENCES.keys(), key=[*found].index):  # the last one wins
        if key in _COLUMN_OF:
            continue
        stored = [
            Stored(bytes(window.view), window.base) if key in _INLINE else Stored(elsewhere=_external(window))
            for window in found[key]
        ]
        sequences[_SEQUENCES[key]] = stored[-1]
    for key in found.keys() & _COLUMN_OF.keys():
        field_id = _COLUMN_OF[key]
        where = f"data/{columns[field_id]}" if field_id in columns else "no data file names it"
        elsewhere = f"spilled to the column {_SPILL_COLUMNS[field_id]} (field id {field_id}) of {where}"
        sequences[_SEQUENCES[key]] = Stored(elsewhere=elsewhere)
    return Fragment(
        number,
        found.get(4, 0),
        **sequences,
        deletion_file=_deletion_file(found[3], number) if 3 in found else None,
        files=tuple(file for file, _ in files),
        overlays=tuple(_data_file(window)[0] for windows in overlays for window in windows),
        source=cursor.source,
    )


def _data_file(cursor: Cursor) -> tuple[FragmentFile, list[int]]:
    """Decode a data file, and the field ids of its hidden columns."""
    path, size, base_id = "", 0, None
    ids: list[int] = []
    for entry in wire.fields(cursor):
        if entry.number == 1:
            path = entry.text(cursor, "path of a data file")
        elif entry.number == 2:
            if isinstance(entry.value, int):
                ids.append(entry.value)
                continue
            packed = entry.window(cursor, "fields of a data file")
            while packed.remaining:
                ids.append(packed.uvarint("field id"))
        elif entry.number == 6:
            size = entry.integer(cursor, "size of a data file")
        elif entry.number == 7:
            base_id = entry.integer(cursor, "base path of a data file")
    # A negative int32 is stored as the varint of its 64-bit two's complement.
    hidden = [value - (1 << 64) for value in ids if value - (1 << 64) in _SPILL_COLUMNS]
    return FragmentFile(path, size, base_id), hidden


def _external(cursor: Cursor) -> str:
    found = wire.read(cursor, {2: "offset of a sequence", 3: "size of a sequence"}, {1: "path of a sequence"})
    return f"in the file {found.get(1, '')}, {found.get(3, 0)} bytes at byte {found.get(2, 0)}"


def _deletion_file(parts: list[Cursor], fragment: int) -> DeletionFile:
    names = {number: f"field {number} of a deletion file" for number in (1, 2, 3, 4, 7)}
    found = _merged(parts, names)
    kind, read_version, file_id, rows = (found.get(number, 0) for number in (1, 2, 3, 4))
    if kind >= len(KINDS):
        raise parts[0].error(
            Unsupported, "kind of a deletion file", at=0, expected="0 (arrow) or 1 (bitmap)", actual=kind
        )
    return DeletionFile(KINDS[kind], fragment, read_version, file_id, rows, found.get(7))


MAGIC = b"LANC"
FOOTER_BYTES = 16
FLAG_STABLE_ROW_IDS = 2
_NAME = re.compile(r"([0-9]{1,20})\.manifest")
_TOP = 2**64 - 1
_DETACHED = 2**63
"""Flag in the number of a detached version."""
_V2_DIGITS = 20
_OF_MANIFEST = {number: f"field {number} of the manifest" for number in (3, 9, 10, 14)}
_OF_MANIFEST |= dict.fromkeys((21, 23), "position of the transaction")
"""Fields of numbers; the last is 21 in the published ``table.proto``, and 23 in pylance 14."""
_IN_MANIFEST = {2: "fragment", 7: "timestamp", 13: "writer", 18: "base path"}
_OF_BASE = {1: "id of a base path", 3: "kind of a base path"}


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
    found = manifest_names(storage_of(storage_options).names(versions_folder), versions_folder)
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
        limits: `Limits.max_metadata_bytes` bounds the manifest.
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
        limits.check("max_metadata_bytes", size - position, footer, 0)
        cursor = read_window(opened, position, size - FOOTER_BYTES - position)
        length = cursor.u32le("size of the manifest")
        if length != cursor.remaining:
            raise cursor.error(NotCanonical, "size of the manifest", at=0, expected=cursor.remaining, actual=length)
        return _manifest(cursor)


def _manifest(cursor: Cursor) -> Manifest:
    """Decode the message ``Manifest``; fields unrelated to rows are skipped."""
    found = wire.read(cursor, _OF_MANIFEST, {12: "transaction file"}, _IN_MANIFEST)
    bases = [wire.read(window, _OF_BASE, {4: "base path"}) for window in found.get(18, ())]
    writers = [
        " ".join(part.text(window, "writer") for part in wire.fields(window) if part.number in (1, 2))
        for window in found.get(13, ())
    ]
    return Manifest(
        found.get(3, 0),
        tuple(map(decode_fragment, found.get(2, ()))),
        found.get(14, 0),
        found.get(9, 0),
        found.get(10, 0),
        writers[-1] if writers else "",
        {base.get(1, 0): BasePath(base.get(4, ""), bool(base.get(3))) for base in bases},
        _milliseconds(found[7]) if 7 in found else None,
        found.get(12, ""),
        found.get(23, found.get(21)),
    )


def _merged(parts: list[Cursor], names: Mapping[int, str]) -> dict[int, int]:
    """Decode the numbers of a message that comes in several parts."""
    return {number: value for cursor in parts for number, value in wire.read(cursor, names).items()}


def _milliseconds(parts: list[Cursor]) -> int:
    """Decode a ``google.protobuf.Timestamp``: seconds, an int64, and nanoseconds."""
    found = _merged(parts, {1: "seconds of a timestamp", 2: "nanoseconds of a timestamp"})
    seconds, nanoseconds = found.get(1, 0), found.get(2, 0)
    return (seconds - (1 << 64) if seconds >> 63 else seconds) * 1000 + nanoseconds // 1_000_000


_OPERATIONS = dict(enumerate((
    "Append", "Delete", "Overwrite", "CreateIndex", "Rewrite", "Merge", "Restore", "ReserveFragments", "Update",
    "Project", "UpdateConfig", "DataReplacement", "UpdateMemWalState", "Clone", "UpdateBases", "DataOverlay",
    "AppendFragmentReuseTransitions",
), 100))  # fmt: skip
"""Messages of the operations, by field number."""


def read_operation(
    source: SourceTarget,
    offset: int | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
) -> str | None:
    """Return the name of a transaction's operation as ``transaction.proto`` has it, such as ``Delete``.

    Args:
        source: a transaction file, or a manifest.
        offset: for a manifest, `Manifest.transaction_offset`.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The name, or None for an unknown operation.

    Raises:
        DecodeError: the transaction is corrupt.
        UsageError: not a source, or `offset` is not an offset.
    """
    with open_source(source, storage_options=storage_options) as opened:
        start, size = 0, opened.size
        if offset is not None:
            offset = as_count(offset, "offset")
            start, size = offset + 4, read_window(opened, offset, 4).u32le("size of the transaction")
        cursor = read_within(opened, "max_metadata_bytes", limits, offset=start, size=size)
        found = wire.read(cursor, {}, windows=dict.fromkeys(_OPERATIONS, "operation"))
        return next((_OPERATIONS[number] for number in reversed(found)), None)


_DATA_FOOTER_BYTES = 40
_FIRST_VERSION = (0, 3)
_NEXT_FORMAT = 3
"""First unknown major version of the format."""
_LENGTH = 2


def read_row_count(source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS) -> int | None:
    """Return the rows of a Lance data file from its footer; None for an unknown format version.

    Not checked against the pages of the file.

    Args:
        source: bytes, path, URL or open file.
        limits: bounds on what the bytes may claim; `Limits.max_metadata_bytes` bounds the descriptor.

    Raises:
        DecodeError: not a valid Lance data file.
        OSError: the file cannot be read.
    """
    with open_source(source) as opened:
        footer = read_window(opened, max(opened.size - _DATA_FOOTER_BYTES, 0))
        footer.take(max(footer.remaining - len(MAGIC) - 4, 0), "footer")
        versions = footer.take(4, "version")
        version = int.from_bytes(versions[:2], "little"), int.from_bytes(versions[2:], "little")
        magic = bytes(footer.take(len(MAGIC), "magic"))
        if magic != MAGIC:
            raise footer.error(BadMagic, "magic", at=footer.pos - len(MAGIC), expected=MAGIC, actual=magic)
        if version < _FIRST_VERSION or version[0] >= _NEXT_FORMAT:
            return None
        footer.seek(0, "footer")
        footer.take(16, "footer")
        table = footer.u64le("position of the global buffers")
        if not footer.u32le("number of global buffers"):
            raise footer.error(NotCanonical, "number of global buffers", at=24, expected="1 or more", actual=0)
        entry = read_window(opened, table, 16)
        position, size = entry.u64le("position of the descriptor"), entry.u64le("size of the descriptor")
        limits.check("max_metadata_bytes", size, entry, 8)
        rows: int = wire.read(read_window(opened, position, size), {_LENGTH: "rows of the file"}).get(_LENGTH, 0)
        return rows
