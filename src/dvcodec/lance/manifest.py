"""Lance's manifest, as far as rows are concerned: fragments, their row ids, versions and deletion files.

Specification: Lance's ``table.proto``, messages ``Manifest`` and ``DataFragment``; Rust module ``io/manifest.rs``::

    [u32 LE size, index section] [u32 LE size, transaction]          both optional, not looked at here
    u32 LE size | Manifest                                           <- position
    i64 LE position | u16 LE major | u16 LE minor | "LANC"

Names: ``_versions/<version>.manifest`` (V1), ``_versions/<2**64 - 1 - version, 20 digits>.manifest`` (V2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet
from dvcodec.io import SourceTarget, list_names, open_source, read_window
from dvcodec.lance import wire
from dvcodec.lance.deletions import KINDS, DeletionFile, read_deletion_file
from dvcodec.lance.row_ids import RowIdSequence, decode_row_ids
from dvcodec.lance.versions import RowDatasetVersionSequence, decode_versions

__all__ = [
    "FLAG_STABLE_ROW_IDS",
    "Fragment",
    "Manifest",
    "Stored",
    "find_manifest",
    "manifest_name",
    "manifest_version",
    "read_manifest",
]

MAGIC = b"LANC"
FOOTER_BYTES = 16
FLAG_STABLE_ROW_IDS = 2
_NAME = re.compile(r"([0-9]{1,20})\.manifest")
_TOP = 2**64 - 1
_V2_DIGITS = 20
_SPILL_COLUMNS = {
    -3: "_rowid",
    -4: "_row_created_at_version",
    -5: "_row_last_updated_at_version",
}
"""Field ids by which a data file says that it holds a spilled sequence, and the hidden column's name."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a sequence of a fragment is.

    Attributes:
        inline: its bytes, if they are in the manifest.
        offset: byte offset of `inline` in the manifest file.
        elsewhere: in words, where it is otherwise: a hidden column of a data file, or a file of its own.
    """

    inline: bytes | None = None
    offset: int = 0
    elsewhere: str | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """One fragment of a dataset version.

    Attributes:
        id: of the fragment.
        physical_rows: rows in its data files, deleted ones included; 0 where the writer did not say.
        row_ids: where its row-id sequence is, None without stable row ids.
        created_at: where its sequence of creating versions is, None without.
        last_updated_at: where its sequence of updating versions is, None without.
        deletion_file: its deletion file, None without deleted rows.
        source: name of the manifest, for errors.
    """

    id: int
    physical_rows: int
    row_ids: Stored | None = None
    created_at: Stored | None = None
    last_updated_at: Stored | None = None
    deletion_file: DeletionFile | None = None
    source: str | None = None

    def row_id_sequence(self) -> RowIdSequence:
        """Decode the row ids: as many as there are physical rows.

        Raises:
            UsageError: the dataset has no stable row ids.
            Unsupported: they are not in the manifest; the message says where they are.
            DecodeError: the sequence is not sound, or not of `physical_rows` ids.
        """
        data, offset = self._bytes(self.row_ids, "row ids")
        sequence = decode_row_ids(data, source=self.source, base=offset)
        self._check_count(sequence.count, "row ids", offset)
        return sequence

    def created_at_versions(self) -> RowDatasetVersionSequence:
        """Decode the versions in which the rows were created; errors as in `row_id_sequence`."""
        return self._versions(self.created_at, "creating versions")

    def last_updated_at_versions(self) -> RowDatasetVersionSequence:
        """Decode the versions in which the rows were last updated; errors as in `row_id_sequence`."""
        return self._versions(self.last_updated_at, "updating versions")

    def deleted_rows(self, dataset: str, *, limits: Limits = DEFAULT_LIMITS) -> RowSet:
        """Read the deletion file below the dataset's folder and hold it against the manifest.

        Raises:
            Unsupported: it lies under another base path.
            DecodeError: it is not sound.
        """
        if self.deletion_file is None:
            return RowSet()
        if self.deletion_file.base_id is not None:
            what = f"deletion file of fragment {self.id}"
            raise Unsupported(what, source=self.source, actual=f"base path {self.deletion_file.base_id}")
        return read_deletion_file(
            self.deletion_file.path(dataset),
            num_deleted_rows=self.deletion_file.num_deleted_rows,
            physical_rows=self.physical_rows or None,
            limits=limits,
        )

    def _versions(self, stored: Stored | None, what: str) -> RowDatasetVersionSequence:
        data, offset = self._bytes(stored, what)
        sequence = decode_versions(data, source=self.source, base=offset)
        self._check_count(sequence.count, what, offset)
        return sequence

    def _bytes(self, stored: Stored | None, what: str) -> tuple[bytes, int]:
        if stored is None:
            raise UsageError(f"fragment {self.id} has no {what}")
        if stored.inline is None:
            what = f"{what} of fragment {self.id}"
            raise Unsupported(what, source=self.source, expected="in the manifest", actual=stored.elsewhere)
        return stored.inline, stored.offset

    def _check_count(self, count: int, what: str, offset: int) -> None:
        if self.physical_rows and count != self.physical_rows:
            raise NotCanonical(
                f"{what} of fragment {self.id}",
                source=self.source,
                offset=offset,
                expected=f"{self.physical_rows} (physical rows)",
                actual=count,
            )


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of a dataset.

    Attributes:
        version: of the dataset.
        fragments: in manifest order.
        next_row_id: the id that the next new row gets.
        reader_flags: features that a reader has to know; 2 are stable row ids.
        writer_flags: features that a writer has to know.
        writer: library and version that wrote it, empty where it did not say.
    """

    version: int
    fragments: tuple[Fragment, ...]
    next_row_id: int
    reader_flags: int
    writer_flags: int
    writer: str

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return bool(self.reader_flags & FLAG_STABLE_ROW_IDS)


def manifest_name(version: int, scheme: Literal["V1", "V2"] = "V2") -> str:
    """Return the file name of a version's manifest.

    >>> manifest_name(2), manifest_name(2, "V1")
    ('18446744073709551613.manifest', '2.manifest')
    """
    if not 0 < version <= _TOP:
        raise UsageError(f"version {version} is not between 1 and {_TOP}")
    return f"{_TOP - version:020}.manifest" if scheme == "V2" else f"{version}.manifest"


def manifest_version(name: str) -> int | None:
    """Return the version that a manifest's file name stands for; None for other names and detached versions.

    >>> manifest_version("18446744073709551613.manifest"), manifest_version("2.manifest")
    (2, 2)
    """
    match = _NAME.fullmatch(name)
    if match is None or int(match[1]) > _TOP:
        return None
    return _TOP - int(match[1]) if len(match[1]) == _V2_DIGITS else int(match[1])


def find_manifest(dataset: str, version: int | None = None) -> str:
    """Return the path or URL of a version's manifest, under either naming scheme; of the latest by default.

    Raises:
        UsageError: no such version.
        OSError: the folder ``_versions`` cannot be listed.
    """
    folder = f"{str(dataset).rstrip('/')}/_versions"
    found = {manifest_version(name): name for name in list_names(folder)}
    found.pop(None, None)
    versions = [known for known in found if known is not None]
    wanted = max(versions, default=None) if version is None else version
    if wanted is None or wanted not in found:
        which = "no version" if wanted is None else f"no version {wanted}"
        raise UsageError(f"{dataset}: {which} of a Lance dataset in {folder}")
    return f"{folder}/{found[wanted]}"


def read_manifest(source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS) -> Manifest:
    """Read a manifest; sequences in it are cut out, and decoded when asked for.

    Raises:
        DecodeError: the file is damaged, or no manifest.
    """
    with open_source(source) as opened:
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
    """Read the message ``Manifest``; fields that say nothing of rows are passed over."""
    numbers = {3: 0, 9: 0, 10: 0, 14: 0}
    fragments: list[Fragment] = []
    writer: list[str] = []
    for entry in wire.fields(cursor):
        if entry.number == 2:
            fragments.append(_fragment(entry.window(cursor, "fragment")))
        elif entry.number in numbers:
            numbers[entry.number] = entry.integer(cursor, f"field {entry.number} of the manifest")
        elif entry.number == 13:
            window = entry.window(cursor, "writer")
            writer = [part.text(window, "writer") for part in wire.fields(window) if part.number in (1, 2)]
    version, reader_flags, writer_flags, next_row_id = numbers.values()
    return Manifest(version, tuple(fragments), next_row_id, reader_flags, writer_flags, " ".join(writer))


_SEQUENCES = {
    5: "row_ids", 6: "row_ids", 12: "row_ids",
    7: "last_updated_at", 8: "last_updated_at", 13: "last_updated_at",
    9: "created_at", 10: "created_at", 14: "created_at",
}  # fmt: skip
"""Fields of ``DataFragment`` that hold a sequence: inline, in a file of its own, or spilled to a hidden column."""
_INLINE, _EXTERNAL = (5, 7, 9), (6, 8, 10)
_COLUMN_OF = {12: -3, 13: -5, 14: -4}


def _fragment(cursor: Cursor) -> Fragment:
    numbers = {1: 0, 4: 0}
    sequences: dict[str, Stored] = {}
    spilled: list[int] = []
    columns: dict[int, str] = {}
    deletion: list[Cursor] = []
    for entry in wire.fields(cursor):
        number = entry.number
        if number in numbers:
            numbers[number] = entry.integer(cursor, f"field {number} of a fragment")
        elif number == 2:
            columns |= _hidden_columns(entry.window(cursor, "data file"))
        elif number == 3:
            deletion.append(entry.window(cursor, "deletion file"))
        elif number in _INLINE:
            window = entry.window(cursor, _SEQUENCES[number])
            sequences[_SEQUENCES[number]] = Stored(bytes(window.view), window.base)
        elif number in _EXTERNAL:
            sequences[_SEQUENCES[number]] = Stored(elsewhere=_external(entry.window(cursor, _SEQUENCES[number])))
        elif number in _COLUMN_OF:
            entry.window(cursor, _SEQUENCES[number])
            spilled.append(number)
    for number in spilled:
        field_id = _COLUMN_OF[number]
        where = columns.get(field_id, "no data file names it")
        elsewhere = f"spilled to the column {_SPILL_COLUMNS[field_id]} (field id {field_id}) of {where}"
        sequences[_SEQUENCES[number]] = Stored(elsewhere=elsewhere)
    file = _deletion_file(deletion, numbers[1]) if deletion else None
    return Fragment(numbers[1], numbers[4], **sequences, deletion_file=file, source=cursor.source)


def _hidden_columns(cursor: Cursor) -> dict[int, str]:
    """Return the hidden columns that a data file holds: field id -> path of the file."""
    path = ""
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
    # An int32 below zero is written as the 64-bit varint of the same value.
    signed = (value - (1 << 64) if value >> 63 else value for value in ids)
    return {field_id: f"data/{path}" for field_id in signed if field_id in _SPILL_COLUMNS}


def _external(cursor: Cursor) -> str:
    path, offset, size = "", 0, 0
    for entry in wire.fields(cursor):
        if entry.number == 1:
            path = entry.text(cursor, "path of a sequence")
        elif entry.number == 2:
            offset = entry.integer(cursor, "offset of a sequence")
        elif entry.number == 3:
            size = entry.integer(cursor, "size of a sequence")
    return f"in the file {path}, {size} bytes at byte {offset}"


def _deletion_file(parts: list[Cursor], fragment: int) -> DeletionFile:
    values = dict.fromkeys((1, 2, 3, 4, 7), 0)
    base_id: int | None = None
    for cursor in parts:
        for entry in wire.fields(cursor):
            if entry.number in values:
                values[entry.number] = entry.integer(cursor, f"field {entry.number} of a deletion file")
                base_id = values[7] if entry.number == 7 else base_id
    if values[1] >= len(KINDS):
        raise parts[0].error(
            Unsupported, "kind of a deletion file", at=0, expected="0 (arrow) or 1 (bitmap)", actual=values[1]
        )
    return DeletionFile(KINDS[values[1]], fragment, values[2], values[3], values[4], base_id)
