"""Convert deletes to another format: write vector files and the values for its commit, or commit them.

`copy_deletes` commits to another table of the same data files, such as a Delta table beside an Iceberg table.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dvcodec import delta, iceberg, paimon
from dvcodec.core.cursor import as_view
from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import DvLocation, StoredFrame
from dvcodec.iceberg.delete_files import write_file
from dvcodec.io import Storage, StorageOptions, open_sink, storage_of
from dvcodec.io.opening import can_exclude
from dvcodec.io.target import is_local, join, local_path
from dvcodec.ops.convert import hint
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.auditing.storage import real_path
from dvcodec.tables.convert.read import ConvertedVector, How, Planned, Reader, check_deletes, plan, rows_of
from dvcodec.tables.convert.record import TARGETS, Speller, Target, absolute
from dvcodec.tables.deleting.positions import positions_finder
from dvcodec.tables.deleting.run import run
from dvcodec.tables.model import POSITION_DELETES, Deletion, SnapshotInfo, TableKind
from dvcodec.tables.snapshots.reading import Progress
from dvcodec.tables.table import Table, check_table
from dvcodec.tables.writing import check_outside, committing, is_inside, new_files, refreshed, vector_file

ENTRIES = "entries.jsonl"
"""Name of the file of commit values: one JSON object a line, one line a vector."""
Writer: TypeAlias = Callable[..., list[DvLocation]]
FILE_BYTES = 64 << 20
"""A Puffin or Delta vector file is closed by the vector that takes it past this size."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of `convert_table`.

    Attributes:
        to: the target.
        snapshot: the converted snapshot.
        vectors: all vectors of the target, as in the file of entries.
        files: the vector files that were written.
        entries: the file of commit values.
        empty: vectors without rows, which need no counterpart.
    """

    to: Target
    snapshot: SnapshotInfo
    vectors: tuple[ConvertedVector, ...]
    files: tuple[str, ...]
    entries: str
    empty: int

    @property
    def rows(self) -> int:
        """Number of deleted rows."""
        return sum(converted.location.cardinality for converted in self.vectors)

    def count(self, how: How) -> int:
        """Return the number of vectors that were converted in this way."""
        return sum(converted.how is how for converted in self.vectors)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "to": self.to,
            "snapshot": self.snapshot.id,
            "vectors": len(self.vectors),
            "rows": self.rows,
            **{how.value.replace("-", "_"): self.count(how) for how in How},
            "empty": self.empty,
            "files": list(self.files),
            "entries": self.entries,
        }


def convert_table(
    table: Table,
    to: Target,
    folder: str,
    *,
    snapshot_id: int | None = None,
    version: Literal[2, 3] | None = None,
    reference_in_place: bool | None = None,
    root: str | None = None,
    progress: Progress | None = None,
    storage_options: StorageOptions = None,
) -> Conversion:
    """Write the vectors and commit values for another format to delete the same rows of the same data files.

    Every vector is verified: length, CRC, magic, structure, cardinality as recorded, highest position against the
    data file's rows. Frames are copied byte for byte where the formats share them. Position deletes become one vector
    for each data file. Only vectors without rows are left out; they are counted.

    `folder` gets files of vectors, and `ENTRIES`: one line for each vector with the values for its commit:

    ============  ====================================================================================================
    target        members of a line, besides those of `ConvertedVector.to_dict`
    ============  ====================================================================================================
    ``iceberg``   ``manifest_entry``: the ``data_file`` struct of a v3 delete manifest, partition aside. With `version`
                  2, of a v2 delete manifest; bounds are hexadecimal
    ``delta``     ``add``, an action with the vector; ``remove``, for a log that has the data file without one
    ``paimon*``   ``index_file`` and ``deletion_vector_meta``: of an index manifest entry. The files, one or more for
                  each partition and bucket, belong in the folder ``index`` of the table
    ============  ====================================================================================================

    Not done here: the commit, which `copy_deletes` does to a table that has the data files, and the data files' own
    metadata if the target does not have them yet.

    Args:
        table: of Iceberg, Delta or Paimon. From Iceberg to ``iceberg`` position deletes (v2) become vectors (v3).
        to: the target; of Paimon with the width of its vectors.
        folder: path or URL outside of the table; created if missing. Nothing in it is replaced. If several conversions
            write into one folder concurrently, one succeeds and the others leave nothing; this is not checked through
            fsspec.
        snapshot_id: the snapshot to convert; None = the current one.
        version: format version of the Iceberg table to commit to: 3 or None for vectors, 2 for a file of position
            deletes for each data file.
        reference_in_place: whether vectors stay in their files, if these have the frame that the target requires. Java
            engines read them there by offset and size. Readers that open the container first do not: pyiceberg and
            iceberg-go want a Puffin file, delta-kernel-rs one of Delta's. None: yes for Iceberg, no for Delta. Paimon's
            are always written again.
        root: folder of the target's table (Delta records paths from there); None = the source table's. `folder` may be
            in an explicit `root`, even if that is the source table's.
        progress: called with the number of vectors read and of all, after each.
        storage_options: how to reach the store of `folder`; None = as for the table.

    Raises:
        UsageError: an unknown target; deletes already in the target's format; rows, sizes or names that it cannot
            represent; a folder in the table, or with a conversion in it, possibly one that has just ended.
        DecodeError: the metadata or a vector is corrupt; two vectors for one data file, or one for a data file that
            is gone.
        Unsupported: rows are not deleted by position, but by equality deletes, for example.
        OSError: something cannot be read or written. After any error no file is left behind.
    """
    check_table(table)
    if to not in TARGETS:
        raise UsageError(f"cannot convert to {to!r}, only to {', '.join(TARGETS)}{hint(to)}")
    if not folder:
        raise UsageError("the folder to write to is empty: name one")
    if root is None or not is_inside(folder, root):
        check_outside(folder, table.location)
    if reference_in_place and to.startswith("paimon"):
        raise UsageError("Paimon's vectors are in index files of its own: they cannot be referenced in place")
    if to == table.kind.value == "delta":
        raise UsageError(f"{table.location}: the vectors of a Delta table are Delta's already")
    _check_version(to, version, reference_in_place)
    as_positions = version == 2
    in_place = to == "iceberg" and not as_positions if reference_in_place is None else reference_in_place
    snapshot = table.snapshot(snapshot_id)
    formats = {vector.format for vector in snapshot.vectors}
    if as_positions and table.kind is TableKind.ICEBERG and formats == {POSITION_DELETES}:
        raise UsageError(f"{table.location}: its deletes are position deletes already; compact-deletes merges them")
    if not to.startswith(table.kind.value):  # within a format, other deletes still apply
        check_deletes(snapshot)
    speller = Speller(to, table.kind, absolute(root or table.location), snapshot.info)
    target = absolute(folder)
    storage = table.folder.storage if storage_options is None else storage_of(storage_options)
    advance = counter(len(snapshot.vectors), progress)
    planned = plan(snapshot, advance)
    with _folder(target, storage) as written:
        reader = Reader(snapshot, speller, in_place, advance)
        if as_positions:
            _write_position_deletes(reader, planned, target, written, storage)
        else:
            for group in _groups(planned, speller):
                _write(reader, group, target, written, storage)
        files = tuple(written)
        entries = join(target, ENTRIES)
        exclusive = can_exclude(target, storage)
        if not is_local(target):  # half an object may be there
            written.append(entries)
        try:
            with committing(written), open_sink(entries, exclusive=exclusive, storage_options=storage) as out:
                for converted in reader.converted:
                    out.write(json.dumps(converted.to_dict()).encode() + b"\n")
        except FileExistsError:  # of a concurrent conversion: this file comes last
            if entries in written:
                written.remove(entries)
            raise _taken(target) from None
    return Conversion(to, snapshot.info, tuple(reader.converted), files, entries, reader.empty)


def _check_version(to: Target, version: object, reference_in_place: bool | None) -> None:
    if version is None:
        return
    if to != "iceberg":
        raise UsageError(f"the version is that of an Iceberg table: it goes with iceberg, not with {to}")
    if version not in (2, 3):
        raise UsageError(f"format version {version}: expected 2, for position deletes, or 3, for deletion vectors")
    if version == 2 and reference_in_place:
        raise UsageError("version 2 has position deletes in files of their own: vectors cannot be referenced in place")


def counter(total: int, progress: Progress | None) -> Callable[[], None]:
    """Return what to call for each vector that has been read."""
    count = itertools.count(1)

    def advance() -> None:
        if progress is not None:
            progress(next(count), total)

    return advance


@contextmanager
def _folder(folder: str, storage: Storage) -> Iterator[list[str]]:
    """Make the folder, and yield a list; the files in it are removed if the block fails."""
    local = local_path(folder)
    made = local is not None and not local.exists()
    if local is not None:
        local.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        if ENTRIES in storage.names(folder):
            raise _taken(folder)
    try:
        with new_files(storage) as written:
            yield written
    except BaseException:
        if local is not None and made:
            with suppress(OSError):
                local.rmdir()
        raise


def _taken(folder: str) -> UsageError:
    return UsageError(f"{folder}: the folder already has a conversion ({ENTRIES}): name another")


def _groups(planned: list[Planned], speller: Speller) -> Iterable[list[Planned]]:
    """Group the vectors that may share a file: Paimon has separate files for each partition and bucket."""
    if not speller.to.startswith("paimon"):
        return [planned]
    groups: dict[object, dict[str, Planned]] = {}
    for item in planned:
        data_file = item.data_file
        group = groups.setdefault((data_file.partition, data_file.bucket or 0), {})
        other = group.setdefault(speller.data_file(data_file), item)
        if other is not item:
            both = f"{data_file.path} and {other.data_file.path}"
            raise UsageError(f"{both}: Paimon cannot distinguish files of one name in one bucket")
    return [list(group.values()) for group in groups.values()]


def _write(reader: Reader, group: list[Planned], folder: str, written: list[str], storage: Storage) -> None:
    """Write as many files as a group needs."""
    layout = reader.speller.to
    others: dict[str, Writer] = {"iceberg": iceberg.write_stored_vectors, "delta": delta.write_stored_vectors}
    write = others.get(layout, paimon.write_stored_vectors)
    full = paimon.TARGET_SIZE if layout.startswith("paimon") else FILE_BYTES
    with closing(reader.frames(group)) as frames:
        for first in frames:
            several = itertools.chain([first], _until(frames, full - len(as_view(first.data))))
            written.append(vector_file(folder, layout, len(written)))
            reader.written(write(written[-1], several, storage_options=storage))


def _write_position_deletes(
    reader: Reader, planned: list[Planned], folder: str, written: list[str], storage: Storage
) -> None:
    """Write a file of position deletes for each data file."""
    with closing(reader.frames(planned)) as frames:
        for stored in frames:
            name = str(stored.data_file)
            if not _is_utf8(name):
                raise UsageError(f"{name!r}: its name is not valid UTF-8, so position deletes cannot name it")
            written.append(join(folder, f"{uuid.uuid4()}-deletes.parquet"))
            rows = iceberg.decode(stored.data, limits=storage.limits)
            reader.written_as_position_deletes(write_file(written[-1], written[-1], {name: rows}, "zstd", storage))


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _until(frames: Iterator[StoredFrame], size: int) -> Iterator[StoredFrame]:
    """Yield frames until they have this many bytes."""
    while size > 0 and (stored := next(frames, None)) is not None:
        yield stored
        size -= len(as_view(stored.data))


def copy_deletes(
    table: Table,
    target: Table,
    *,
    snapshot_id: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Deletion:
    """Delete the rows that a table has deleted from another table of the same data files, in one commit.

    The target is one that another writer or a tool made of these data files: two formats over one set of Parquet files.
    Vectors and position deletes are read and verified; the target gets vectors of its own format in its own folder,
    which include its existing ones. Rows deleted only in the target stay deleted.

    Args:
        table: of Iceberg, Delta or Paimon; its deletes are read.
        target: the table to commit to; see `open_table`.
        snapshot_id: the snapshot of `table`; None = the current one.
        dry_run: compare only; nothing is written.
        progress: called with the number of vectors read and of all, after each.

    Raises:
        UsageError: both are one table; a data file with deleted rows that the target does not have, or with another
            number of rows; or the target must not be written to: the message says why.
        Unsupported: rows are not deleted by position, but by equality deletes, for example; or a feature that is not
            known here.
        CommitConflict: another writer changed what this commit depends on; nothing was committed.
        CommitUnknown: it could not be found out whether the commit is in.
        DecodeError: the metadata or a vector is corrupt; nothing was committed.
        OSError: a file cannot be read or written; nothing was committed.
    """
    check_table(table)
    check_table(target, "target")
    if real_path(absolute(table.location)) == real_path(absolute(target.location)) and table.kind is target.kind:
        raise UsageError(
            f"{target.location}: expected another table to commit to; position deletes and equality deletes of a table "
            "become its own vectors by upgrade-deletes"
        )
    snapshot = table.snapshot(snapshot_id)
    check_deletes(snapshot)
    planned = plan(snapshot, counter(len(snapshot.vectors), progress))
    writer = committer_of(target)
    known = {real_path(absolute(file.location)): file for file in writer.current().data_files}
    rows: dict[str, RowSet] = {}
    for item in planned:
        file = known.get(real_path(absolute(item.data_file.location)))
        if file is None:
            raise UsageError(f"{target.location}: it does not have {item.data_file.location}, which has deleted rows")
        counts = {item.data_file.physical_rows, file.physical_rows} - {None}
        if len(counts) > 1:
            raise UsageError(
                f"{file.path}: {file.physical_rows} rows, and {item.data_file.physical_rows} in {table.location}"
            )
        rows[file.path] = rows_of(snapshot, item)
    with refreshed(target, dry_run):
        return run(writer, positions_finder(rows), dry_run=dry_run)
