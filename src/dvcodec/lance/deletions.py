"""Lance deletion files: all deleted rows of one fragment, as physical row offsets.

Specification: Lance's ``table.proto``, message ``DeletionFile``; Rust module ``io/deletion.rs``. Two kinds::

    .arrow   an Arrow IPC file: one batch, one column row_id: uint32 not null, in any order    (few rows)
    .bin     exactly one 32-bit portable roaring bitmap, without run containers

`_deletions/<fragment>-<read version>-<id>.<kind>`; each file replaces the one before it.
"""

from __future__ import annotations

import os
import secrets
import struct
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from dvcodec.core import roaring
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, CardinalityMismatch, LimitExceeded, NotCanonical, UsageError
from dvcodec.core.extras import pa, require_extra
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import as_count, check_choice, check_integer, check_type
from dvcodec.io import SourceTarget, StorageOptions, open_sink, open_source, read_within

ARROW_MAGIC = b"ARROW1"
_CONTINUATION = 0xFFFFFFFF
_BLOCK, _BUFFER = 24, 16
"""Bytes of a struct in the vectors of blocks and buffers."""
_MAX_STRUCTS = 64
"""Maximum blocks or buffers in a file of one column."""
_RAW = -1
"""Stored size that marks an uncompressed buffer."""


def batch_lengths(cursor: Cursor) -> list[tuple[int, list[int]]]:
    """Return the rows of each record batch, and the decompressed bytes of its buffers.

    Args:
        cursor: the whole file; its position does not change.

    Raises:
        DecodeError: the metadata points outside the file, or there are dictionaries or too many buffers.
    """
    size = cursor.end
    if bytes(cursor.view[-len(ARROW_MAGIC) :]) != ARROW_MAGIC or size < 2 * len(ARROW_MAGIC) + 4:
        at = max(size - len(ARROW_MAGIC), 0)
        found = bytes(cursor.view[at:]).hex(" ")
        raise cursor.error(BadMagic, "magic at the end", at=at, expected=ARROW_MAGIC.hex(" "), actual=found)
    footer_size = _i32(cursor, size - len(ARROW_MAGIC) - 4)
    start = size - len(ARROW_MAGIC) - 4 - footer_size
    if footer_size < 0 or start < 0:
        at = size - len(ARROW_MAGIC) - 4
        raise cursor.error(NotCanonical, "footer size", at=at, expected=f"at most {at}", actual=footer_size)
    footer = _Table(cursor, start + _u32(cursor, start))
    if footer.vector(2, _BLOCK):
        raise cursor.error(NotCanonical, "dictionaries", at=start, expected="none")
    return [_batch(cursor, at) for at in footer.vector(3, _BLOCK)]


def _batch(cursor: Cursor, block: int) -> tuple[int, list[int]]:
    offset, metadata_size = _i64(cursor, block), _i32(cursor, block + 8)
    prefix = 8 if _u32(cursor, offset) == _CONTINUATION else 4
    start = offset + prefix
    message = _Table(cursor, start + _u32(cursor, start))
    if message.has(4):  # custom metadata, from which pyarrow takes the codec of files before V5
        raise cursor.error(NotCanonical, "metadata of a record batch", at=offset, expected="none")
    batch = message.table(2)
    rows = batch.i64(0)
    if rows < 0:
        raise cursor.error(NotCanonical, "rows of a record batch", at=offset, expected="0 or more", actual=rows)
    body = offset + metadata_size
    sizes = []
    for at in batch.vector(2, _BUFFER):
        where, length = _i64(cursor, at), _i64(cursor, at + 8)
        stored = length
        if batch.has(3) and length > 0:
            stored = _i64(cursor, body + where)
            stored = length if stored == _RAW else stored
        sizes.append(stored)
    return rows, sizes


class _Table:
    """A FlatBuffers table at a position; its vtable locates the fields."""

    def __init__(self, cursor: Cursor, at: int) -> None:
        self._cursor = cursor
        self._at = at
        self._vtable = at - _i32(cursor, at)
        self._size = _u16(cursor, self._vtable)

    def _field(self, i: int) -> int | None:
        slot = 4 + 2 * i
        if slot + 2 > self._size:
            return None
        offset = _u16(self._cursor, self._vtable + slot)
        return self._at + offset if offset else None

    def has(self, i: int) -> bool:
        return self._field(i) is not None

    def i64(self, i: int) -> int:
        at = self._field(i)
        return 0 if at is None else _i64(self._cursor, at)

    def table(self, i: int) -> _Table:
        at = self._field(i)
        if at is None:
            raise self._cursor.error(NotCanonical, "header of a message", at=self._at, expected="a record batch")
        return _Table(self._cursor, at + _u32(self._cursor, at))

    def vector(self, i: int, size: int) -> list[int]:
        """Return the positions of the structs in a vector."""
        at = self._field(i)
        if at is None:
            return []
        start = at + _u32(self._cursor, at)
        count = _u32(self._cursor, start)
        if count > _MAX_STRUCTS:
            expected = f"at most {_MAX_STRUCTS} blocks or buffers"
            raise self._cursor.error(NotCanonical, "metadata", at=start, expected=expected, actual=count)
        return [start + 4 + size * j for j in range(count)]


def _unpack(form: str, cursor: Cursor, at: int) -> int:
    size = struct.calcsize(form)
    if not 0 <= at <= cursor.end - size:
        raise cursor.error(
            NotCanonical, "offset in the metadata", at=None, expected=f"at most {cursor.end - size}", actual=at
        )
    return int(struct.unpack_from(form, cursor.view, at)[0])


_u16, _u32, _i32, _i64 = (partial(_unpack, form) for form in ("<H", "<I", "<i", "<q"))


Kind = Literal["arrow", "bin"]
KINDS: tuple[Kind, Kind] = ("arrow", "bin")
"""In the order of the `file_type` enum."""
BITMAP_FROM = 5000
"""The first deletion file is a bitmap if it has at least this many rows."""
MAX_ARROW_ROWS = 1 << 23
"""Maximum rows that are written to the Arrow kind, which takes bytes for each: a bitmap of kilobytes may have billions.
Lance writes at most `BITMAP_FROM`."""
COLUMN = "row_id"
_U32 = 2**32
_PADDING = 64
"""Maximum padding of an Arrow buffer, in bytes."""


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """A fragment's deletion file, from the manifest.

    Attributes:
        kind: ``arrow`` or ``bin``.
        fragment: id of the fragment.
        read_version: dataset version that the delete read.
        id: random, makes the name unique.
        num_deleted_rows: number of deleted rows; 0 if unknown.
        base_id: id of the base path that it is stored under; None for the dataset's folder.
    """

    kind: Kind
    fragment: int
    read_version: int
    id: int
    num_deleted_rows: int = 0
    base_id: int | None = None

    def path(self, folder: str) -> str:
        """Return the file's path or URL below the folder of the dataset (or of the base path)."""
        name = f"{self.fragment}-{self.read_version}-{self.id}.{self.kind}"
        return f"{str(folder).rstrip('/')}/_deletions/{name}"


def choose_kind(rows: int, previous: Kind | None = None) -> Kind:
    """Return the kind of deletion file that Lance's writer chooses for a fragment.

    The first file is a bitmap from 5,000 rows. After an ``arrow`` file, the next is a bitmap above 5,000 rows; after a
    bitmap, always.

    Args:
        rows: number of all deleted rows of the fragment.
        previous: kind of the fragment's current deletion file; None without one.

    Raises:
        UsageError: a number of rows that is not a count, or an unknown kind.

    >>> choose_kind(4999), choose_kind(5000), choose_kind(5000, "arrow"), choose_kind(3, "bin")
    ('arrow', 'bin', 'arrow', 'bin')
    """
    rows = as_count(rows, "rows")
    check_choice(previous, (None, *KINDS), "previous")
    if previous == "arrow":
        return "bin" if rows > BITMAP_FROM else "arrow"
    return "bin" if previous == "bin" or rows >= BITMAP_FROM else "arrow"


def read_deletion_file(
    source: SourceTarget,
    *,
    num_deleted_rows: int | None = None,
    physical_rows: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
) -> RowSet:
    """Read a deletion file of either kind, detected by its first bytes (``.arrow``: extra ``arrow``).

    Args:
        source: bytes, path, URL or open file.
        num_deleted_rows: from the manifest; None or 0 skip the check.
        physical_rows: rows of the fragment; None skips the check. (Lance fails on scanning such a file.)
        limits: bounds on what the bytes may claim; `Limits.max_vector_bytes` bounds the file, also decompressed.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The deleted rows, 0-based physical offsets in the fragment.

    Raises:
        DecodeError: the file is corrupt, or differs from the manifest.
        UsageError: an argument of a wrong type.
    """
    for value, name in ((num_deleted_rows, "num_deleted_rows"), (physical_rows, "physical_rows")):
        if value is not None:
            check_integer(value, name)
    with open_source(source, storage_options=storage_options) as opened:
        cursor = read_within(opened, "max_vector_bytes", limits)
        is_arrow = bytes(cursor.view[: len(ARROW_MAGIC)]) == ARROW_MAGIC
        rows = _decode_arrow(cursor, limits) if is_arrow else _decode_bitmap(cursor, limits)
        if num_deleted_rows and rows.cardinality != num_deleted_rows:
            raise cursor.error(
                CardinalityMismatch, "deleted rows", at=0, expected=num_deleted_rows, actual=rows.cardinality
            )
        if physical_rows is not None and (rows.max or 0) >= max(physical_rows, 1):
            raise cursor.error(
                NotCanonical, "row offset", at=0, expected=f"below {physical_rows} (physical rows)", actual=rows.max
            )
        return rows


def encode_deletion_file(rows: RowSet, kind: Kind) -> bytes:
    """Return the bytes of a deletion file with all deleted rows of a fragment, as Lance's writer has them.

    Args:
        rows: physical row offsets, below 2**32.
        kind: see `choose_kind`.

    Raises:
        UsageError: not a `RowSet`, no rows, an offset beyond 32 bits, or an unknown kind.
        LimitExceeded: more than 2**23 rows for the Arrow kind.
        MissingExtra: the Arrow kind, without pyarrow.
    """
    check_rows(rows)
    if not rows:
        raise UsageError("no deleted rows: Lance writes no deletion file then")
    if (rows.max or 0) >= _U32:
        raise UsageError(f"row offset {rows.max} does not fit 32 bits")
    check_choice(kind, KINDS, "kind")
    return _encode_arrow(rows) if kind == "arrow" else roaring.serialize(rows.bitmaps[0], run_optimize=False)


def write_deletion_file(
    folder: str,
    rows: RowSet,
    *,
    fragment: int,
    read_version: int,
    previous: Kind | None = None,
    kind: Kind | None = None,
) -> DeletionFile:
    """Write all deleted rows of a fragment as Lance's writer does.

    Args:
        folder: the dataset's folder, path or URL; its ``_deletions`` must exist.
        rows: physical row offsets, below 2**32.
        fragment: id of the fragment.
        read_version: dataset version that the delete starts from.
        previous: kind of the fragment's current deletion file.
        kind: the kind to write; None chooses (see `choose_kind`).

    Returns:
        Its entry for the manifest.

    Raises:
        UsageError: not a `RowSet`, no rows, an offset beyond 32 bits, an unknown kind, or a fragment or version that is
            not a count.
        LimitExceeded: more than 2**23 rows for the Arrow kind.
        OSError: the file cannot be written.
    """
    check_type(folder, (str, os.PathLike), "folder", "a path or URL")
    if not str(folder):
        raise UsageError("folder must not be empty")
    fragment, read_version = as_count(fragment, "fragment"), as_count(read_version, "read_version")
    check_rows(rows)
    chosen = choose_kind(rows.cardinality, previous)
    if kind is not None:
        chosen = kind
    data = encode_deletion_file(rows, chosen)
    file = DeletionFile(chosen, fragment, read_version, secrets.randbits(64), rows.cardinality)
    with open_sink(file.path(folder)) as out:
        out.write(data)
    return file


def _decode_bitmap(cursor: Cursor, limits: Limits) -> RowSet:
    view = roaring.walk(cursor)
    limits.check("max_cardinality", view.cardinality, cursor, 0)
    cursor.expect_end("the bitmap")
    return RowSet.from_bitmaps({0: view.load()})


def _decode_arrow(cursor: Cursor, limits: Limits) -> RowSet:
    require_extra("pyarrow.ipc", "arrow")
    content = 0
    for rows, sizes in batch_lengths(cursor):
        limits.check("max_cardinality", rows, cursor, 0)
        most = 4 * rows + _PADDING
        wrong = next((size for size in sizes if not 0 <= size <= most), None)
        if wrong is not None:
            expected = f"0 to {most} bytes for {rows} rows"
            raise cursor.error(NotCanonical, "buffer", at=0, expected=expected, actual=wrong)
        content += sum(sizes)
        limits.check("max_vector_bytes", content, cursor, 0)
    with enough_memory("the rows", cursor.source):
        column = _read_batch(cursor).column(0)
        if column.null_count:
            raise cursor.error(NotCanonical, COLUMN, at=0, expected="no nulls", actual=f"{column.null_count} nulls")
        return RowSet(np.asarray(column))


def _read_batch(cursor: Cursor) -> pa.RecordBatch:
    """Read the single record batch of a deletion file; a MemoryError is raised unchanged."""
    try:
        with pa.ipc.open_file(pa.py_buffer(cursor.view)) as file:
            schema, count = file.schema, file.num_record_batches
            wanted = pa.schema([pa.field(COLUMN, pa.uint32(), nullable=False)])
            if not schema.equals(wanted, check_metadata=True) or schema.metadata:
                actual = " ".join(str(schema).split())[:120]
                raise cursor.error(NotCanonical, "schema", at=0, expected=f"{COLUMN}: uint32 not null", actual=actual)
            if count != 1:
                raise cursor.error(NotCanonical, "record batches", at=0, expected=1, actual=count)
            batch = file.get_batch(0)
            batch.validate(full=True)
            return batch
    except MemoryError:  # also an ArrowException
        raise
    except (pa.ArrowException, OSError) as err:
        text = " ".join(str(err).split())[:120]
        raise cursor.error(NotCanonical, "Arrow IPC file", at=0, expected="a valid file", actual=text) from None


def _encode_arrow(rows: RowSet) -> bytes:
    require_extra("pyarrow.ipc", "arrow")
    if rows.cardinality > MAX_ARROW_ROWS:
        expected = f"at most {MAX_ARROW_ROWS}: use the kind bin"
        raise LimitExceeded("rows of a deletion file of the kind arrow", expected=expected, actual=rows.cardinality)
    schema = pa.schema([pa.field(COLUMN, pa.uint32(), nullable=False)])
    values = pa.array(rows.to_numpy().astype(np.uint32))
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.MetadataVersion.V5, compression="zstd")
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch([values], schema=schema))
    return bytes(sink.getvalue())
