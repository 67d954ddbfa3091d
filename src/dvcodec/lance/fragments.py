"""A fragment of a dataset from the manifest: its data files, sequences and deletion file.

Specification: Lance's ``table.proto``, messages ``DataFragment``, ``DataFile`` and ``DeletionFile``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet
from dvcodec.io import StorageOptions
from dvcodec.lance import wire
from dvcodec.lance.deletions import KINDS, DeletionFile, read_deletion_file
from dvcodec.lance.row_ids import RowIdSequence, decode_row_ids
from dvcodec.lance.versions import RowDatasetVersionSequence, decode_versions

__all__ = ["Fragment", "FragmentFile", "Stored", "decode_fragment"]

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


def decode_fragment(cursor: Cursor) -> Fragment:
    """Decode the message ``DataFragment`` that fills the window; its sequences are decoded on demand.

    Raises:
        DecodeError: the message is corrupt.
    """
    numbers = {1: 0, 4: 0}
    sequences: dict[str, Stored] = {}
    spilled: list[int] = []
    columns: dict[int, str] = {}
    files: list[FragmentFile] = []
    overlays: list[FragmentFile] = []
    deletion: list[Cursor] = []
    for entry in wire.fields(cursor):
        number = entry.number
        if number in numbers:
            numbers[number] = entry.integer(cursor, f"field {number} of a fragment")
        elif number == 2:
            file, hidden = _data_file(entry.window(cursor, "data file"))
            files.append(file)
            columns |= hidden
        elif number == 3:
            deletion.append(entry.window(cursor, "deletion file"))
        elif number == 11:
            overlays += _overlay(entry.window(cursor, "overlay"))
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
    return Fragment(
        numbers[1],
        numbers[4],
        **sequences,
        deletion_file=_deletion_file(deletion, numbers[1]) if deletion else None,
        files=tuple(files),
        overlays=tuple(overlays),
        source=cursor.source,
    )


def _data_file(cursor: Cursor) -> tuple[FragmentFile, dict[int, str]]:
    """Decode a data file, and its hidden columns: field id -> path of the file."""
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
    signed = (value - (1 << 64) if value >> 63 else value for value in ids)
    hidden = {field_id: f"data/{path}" for field_id in signed if field_id in _SPILL_COLUMNS}
    return FragmentFile(path, size, base_id), hidden


def _overlay(cursor: Cursor) -> list[FragmentFile]:
    """Decode the data file of a ``DataOverlayFile``."""
    return [_data_file(entry.window(cursor, "data file"))[0] for entry in wire.fields(cursor) if entry.number == 1]


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
    names = {number: f"field {number} of a deletion file" for number in (1, 2, 3, 4, 7)}
    found: dict[int, int] = {}
    for cursor in parts:
        found |= wire.integers(cursor, names)
    kind, read_version, file_id, rows = (found.get(number, 0) for number in (1, 2, 3, 4))
    if kind >= len(KINDS):
        raise parts[0].error(
            Unsupported, "kind of a deletion file", at=0, expected="0 (arrow) or 1 (bitmap)", actual=kind
        )
    return DeletionFile(KINDS[kind], fragment, read_version, file_id, rows, found.get(7))
