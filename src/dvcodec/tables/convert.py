"""Convert deletes to another format: write vector files and the values for its commit, or commit them.

`plan` finds the vectors of each data file, and refuses what cannot be converted; `Reader` verifies them, `Speller` has
the values for a target's commit. `copy_deletes` commits to another table of the same data files instead, such as a
Delta table beside an Iceberg table.

Partition values in the values for a commit are as Delta's log serializes them: Delta's PROTOCOL.md, "Partition Value
Serialization".
"""

from __future__ import annotations

import itertools
import json
import math
import re
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, Literal, TypeAlias, cast, get_args
from urllib.parse import quote

import numpy as np

from dvcodec import delta, iceberg, paimon
from dvcodec.core import vector as core_vector
from dvcodec.core.cursor import BytesLike, as_view
from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import TextEnum
from dvcodec.core.vector import DvLocation, Magic, StoredFrame
from dvcodec.iceberg import PositionDeleteFile, write_file
from dvcodec.io import Source, Storage, StorageOptions, open_sink, storage_of
from dvcodec.io.frames import read_frame
from dvcodec.io.opening import can_exclude
from dvcodec.io.target import is_local, join, local_path, path_below, split
from dvcodec.ops.convert import GapKeys, encode_frame, frame_for, hint
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.positions import positions_finder
from dvcodec.tables.deleting.run import run
from dvcodec.tables.folder import real_path
from dvcodec.tables.metadata.json_fields import PartitionValue, is_utf8
from dvcodec.tables.model import (
    POSITION_DELETES,
    DataFile,
    Deletion,
    DeletionVector,
    SnapshotInfo,
    TableKind,
)
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.reading import Deletes, Progress
from dvcodec.tables.snapshots.scanning import FileDeletes
from dvcodec.tables.table import Snapshot, Table, check_progress, check_table
from dvcodec.tables.writing import check_outside, committing, is_inside, new_files, refreshed, vector_file

__all__ = ["ENTRIES", "TARGETS", "Conversion", "ConvertedVector", "How", "Target", "convert_table", "copy_deletes"]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (local to nowhere)


def partition_values(data_file: DataFile) -> dict[str, str | None]:
    """Return the partition values of a data file by column, as the text that Delta writes.

    Raises:
        UsageError: they are unknown, or Delta cannot represent one of them.
    """
    if data_file.partition is None:
        return {}
    if data_file.partition_values is None:
        raise UsageError(f"{data_file.path}: its partition values are unknown, but Delta records them")
    return {found.column: _text(found, data_file.path) for found in data_file.partition_values}


def _text(found: PartitionValue, path: str) -> str | None:
    spell = _SPELL.get(found.kind)
    if spell is None:
        raise UsageError(f"{path}: its partition value {found.column} has {found.kind}, which Delta does not have")
    if found.value is None:
        return None
    try:
        text = spell(found.value)
    except (OverflowError, ValueError):
        raise UsageError(
            f"{path}: its partition value {found.column} is outside of the years 1 to 9999, which Delta does not have"
        ) from None
    if not text and found.kind == "string":
        raise UsageError(f"{path}: its partition value {found.column} is empty text, which stands for null in Delta")
    return text


def _float(value: float | np.float32) -> str:
    """Return the shortest text that parses to the same number."""
    if math.isfinite(value):
        return str(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _date(days: int) -> str:
    return date.fromordinal(date(1970, 1, 1).toordinal() + days).isoformat()


def _timestamp(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(" ")


def _instant(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat("T", "microseconds") + "Z"


_SPELL: Mapping[str, Callable[[Any], str]] = {
    "boolean": lambda value: "true" if value else "false",
    "int": str,
    "float": lambda value: _float(np.float32(value)),
    "double": _float,
    "decimal": lambda value: f"{value:f}",
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _instant,
    "string": str,
    "serialized": str,
}


Target: TypeAlias = Literal["iceberg", "delta", "paimon32", "paimon64"]
"""Formats that a table's deletes can be converted to; the number is the width of Paimon's vectors."""
TARGETS: tuple[Target, ...] = get_args(Target)
"""All targets."""


_LEGAL = "/_-!.~'()*,;$&+=@"
"""ASCII that ``java.net.URI`` does not encode in a path, besides letters and digits; and the colon, which might turn
the text before it into a scheme. Delta identifies a data file by this text."""
_MAX_OFFSET = 2**31 - 1
"""Delta's offsets are signed 32-bit values."""
_ASCII_OR_BLANK = re.compile(r"[\x00-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Speller:
    """Describes data files and vectors as a target's metadata does.

    Attributes:
        to: the target.
        kind: kind of the table that is converted.
        root: absolute location of the target's table: Delta's paths below it are relative.
        info: the snapshot that is converted.
    """

    to: Target
    kind: TableKind
    root: str
    info: SnapshotInfo

    def data_file(self, data_file: DataFile) -> str:
        """Return the name of a data file: a path (Iceberg), a URI (Delta), a bare name (Paimon)."""
        if self.to == "iceberg":
            return data_file.path if self.kind is TableKind.ICEBERG else absolute(data_file.location)
        if self.to == "delta":
            return _uri(absolute(data_file.location), self.root)
        return split(data_file.location)[1]

    def may_stay(self, magic: Magic, offset: int) -> bool:
        """Whether the target can reference a vector in its present file."""
        return magic is Magic.PORTABLE64 and (self.to == "iceberg" or (self.to == "delta" and offset <= _MAX_OFFSET))

    def in_place(self, place: DvLocation, location: str, data_file: DataFile) -> DvLocation:
        """Return the location of a vector that stays in its file.

        Args:
            place: its place in the source's metadata.
            location: where its file can be opened.
            data_file: the data file whose rows it deletes.
        """
        path = place.path if self.to == self.kind.value else absolute(location)
        return replace(place, format=self.to, path=path, data_file=self.data_file(data_file))

    def record(self, location: DvLocation, data_file: DataFile, in_file: int) -> dict[str, Any]:
        """Return the values for the commit of a vector, by the format's own field names.

        Args:
            location: where the vector is.
            data_file: the data file whose rows it deletes.
            in_file: number of vectors in that file.

        Raises:
            UsageError: a value that the format requires is unknown.
        """
        if self.to == "iceberg":
            return {"manifest_entry": iceberg.manifest_entry(location)}
        if self.to == "delta":
            return self._actions(location, data_file)
        return {
            "index_file": {
                "index_type": paimon.DELETION_VECTORS,
                "file_name": split(location.path)[1],
                "file_size": location.file_size,
                "row_count": in_file,
                "bucket": data_file.bucket or 0,
            },
            "deletion_vector_meta": asdict(paimon.DeletionVectorMeta.from_location(location)),
        }

    def _actions(self, location: DvLocation, data_file: DataFile) -> dict[str, Any]:
        """Return the two actions of the log: remove the data file without a vector, add it with one."""
        if _file_format(data_file) != "parquet":
            raise UsageError(f"{data_file.path}: it is {_file_format(data_file)}, and Delta's data files are Parquet")
        known = {"rows": data_file.physical_rows, "bytes": data_file.size}
        unknown = next((name for name, value in known.items() if value is None), None)
        if unknown:
            raise UsageError(f"{data_file.path}: its {unknown} are unknown, but Delta records them")
        path, when = self.data_file(data_file), self.info.timestamp_ms or 0
        # Bounds of columns are the table's own, of another format; with --commit those of the Delta table stay.
        stats = json.dumps({"numRecords": data_file.physical_rows, "tightBounds": False}, separators=(",", ":"))
        add = {
            "path": path,
            "partitionValues": partition_values(data_file),
            "size": data_file.size,
            "modificationTime": when,
            "dataChange": True,
            "stats": stats,
            "deletionVector": json.loads(delta.Descriptor.from_location(location, self.root).to_json()),
        }
        return {"remove": {"path": path, "deletionTimestamp": when, "dataChange": True}, "add": add}


def absolute(location: str) -> str:
    """Return a location as tables record it: an absolute path, or a URL other than ``file:``."""
    local = local_path(location)
    return location if local is None else local.absolute().as_posix()


def _file_format(data_file: DataFile) -> str:
    """Return the format of a data file: as recorded, or by the extension of its name."""
    ending = data_file.path.rpartition(".")[2]
    return data_file.file_format or (ending if ending in ("orc", "avro") else "parquet")


def _uri(path: str, root: str) -> str:
    """Spell a path as Delta does: relative if it is in the table's folder, percent-encoded."""
    inside = path_below(path, root)
    if inside is not None:
        return _quoted(inside)
    if path.startswith("/"):
        return f"file://{_quoted(path)}"
    scheme, _, rest = path.partition("://")
    authority, slash, name = rest.partition("/")
    return f"{scheme}://{authority}{slash}{_quoted(name)}"


def _quoted(path: str) -> str:
    return _ASCII_OR_BLANK.sub(lambda found: quote(found[0], safe=_LEGAL, errors="surrogateescape"), path)


FRAMED = {
    "iceberg": (Magic.PORTABLE64,),
    "delta": (Magic.PORTABLE64, Magic.NATIVE64),
    "paimon32": (Magic.PAIMON32, Magic.PORTABLE64),
    "paimon64": (Magic.PAIMON32, Magic.PORTABLE64),
}
"""Formats whose vectors hold positions of rows in data files, and the layouts that they may have."""
_KINDS = (TableKind.ICEBERG, TableKind.DELTA, TableKind.PAIMON)


def check_deletes(snapshot: Snapshot) -> None:
    """Check that only vectors delete rows: rows deleted otherwise would be live in the other format.

    Raises:
        Unsupported: something else deletes rows.
        DecodeError: the metadata is corrupt.
    """
    for data_file in snapshot.data_files:
        why = snapshot.other_deletes(data_file)
        if why is not None:
            raise Unsupported("deletes", source=data_file.path, expected="only deletion vectors", actual=why)


def plan(snapshot: Snapshot) -> list[FileDeletes]:
    """Return the data files with deleted rows, in the order of the files that hold their vectors or position deletes.

    `FileDeletes.rows` is the union of the position deletes; None where it is to be read from the one vector.

    Position deletes are read here, since only they know their data files; if a data file has a vector, they no
    longer apply (Iceberg table spec, "Scan Planning").

    Raises:
        UsageError: a table of another kind, whose data files no other format can have.
        NotCanonical: a vector for a data file that the snapshot does not have, or that is newer; or two for one.
            Position deletes for a data file with another path in the snapshot: engines differ in applying them.
        Unsupported: deletes that a vector cannot express.
        DecodeError: a position delete file is corrupt.
    """
    table = snapshot.table
    if table.kind not in _KINDS:
        raise UsageError(
            f"{table.location}: a {table.kind.value} table has no data files that Iceberg, Delta or Paimon could have"
        )
    for vector in snapshot.vectors:
        if vector.format == POSITION_DELETES:
            continue
        if vector.format not in FRAMED:
            raise Unsupported(f"deletes of the kind {vector.format}", source=vector.where, expected="deletion vectors")
        if vector.data_file is None:
            raise NotCanonical("deletion vector", source=vector.where, expected="one data file", actual="none named")
        rules.refuse(rules.paths(snapshot, vector))
        rules.refuse(rules.older(vector, snapshot.files[vector.data_file]))
    deletes = Deletes(snapshot)
    planned: list[FileDeletes] = []
    for file in snapshot.data_files:
        vectors = tuple(vector for vector in snapshot.vectors_of(file) if vector.format != POSITION_DELETES)
        rules.refuse(rules.doubles(file, vectors))
        found = [] if vectors else deletes.found(file)
        if found:
            sources = tuple(vector for vector, _ in found)
            planned.append(FileDeletes(file, sources, RowSet().union(*(deleted.rows for _, deleted in found))))
        elif vectors:
            planned.append(FileDeletes(file, vectors))
    planned.sort(key=lambda item: (item.vectors[0].location, item.vectors[0].offset or 0))
    return planned


def rows_of(snapshot: Snapshot, item: FileDeletes) -> RowSet:
    """Return the deleted rows of a data file; its one vector is read.

    Raises:
        DecodeError: the vector is corrupt, or a position is beyond the rows of the data file.
        OSError: it cannot be read.
    """
    rows = item.rows
    if rows is None:
        rows = RowSet().union(*(found.rows for found in snapshot.read(item.vectors[0])))
    rules.refuse(rules.positions(item.data_file, item.vectors[0], rows.max))
    return rows


class How(TextEnum):
    """How a vector was converted."""

    IN_PLACE = "in-place"
    """It stays in its file and is referenced there."""
    COPIED = "copied"
    """Its frame was copied byte for byte."""
    ENCODED = "encoded"
    """Its rows were re-encoded: it was inline, in another layout, or position deletes."""


@dataclass(frozen=True, slots=True)
class ConvertedVector:
    """A vector of the target.

    Attributes:
        data_file: the data file, as the source names it.
        how: how it was converted.
        location: location of the vector; its `data_file` is spelled as in the target.
        sources: one vector, or the position delete files that it replaces.
        record: values for the commit, by the target's own field names.
    """

    data_file: DataFile
    how: How
    location: DvLocation
    sources: tuple[DeletionVector, ...]
    record: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return a line of the file of entries."""
        return {
            "data_file": self.location.data_file,
            "data_file_location": absolute(self.data_file.location),
            "data_file_size": self.data_file.size,
            "physical_rows": self.data_file.physical_rows,
            "partition": self.data_file.partition,
            "partition_values": _partition_values(self.data_file),
            "cardinality": self.location.cardinality,
            "how": self.how.value,
            "path": self.location.path,
            "offset": self.location.offset,
            "size": self.location.size,
            "sources": [
                {"format": source.format, "path": source.path, "offset": source.offset, "size": source.size}
                for source in self.sources
            ],
        } | self.record


class Reader:
    """Reads the planned vectors; those that do not stay in place are yielded as frames, to be written.

    Attributes:
        speller: speller of the target.
        converted: vectors that are done.
        empty: vectors without rows, which are skipped.
    """

    def __init__(self, snapshot: Snapshot, speller: Speller, in_place: bool, advance: Callable[[], None]) -> None:
        self._snapshot, self.speller = snapshot, speller
        self._in_place, self._advance = in_place, advance
        self._handed: list[tuple[FileDeletes, How]] = []
        self.converted: list[ConvertedVector] = []
        self.empty = 0
        self._gaps = GapKeys()

    def frames(self, group: Iterable[FileDeletes]) -> Generator[StoredFrame, None, None]:
        """Read vectors, and yield the frames to be written."""
        for location, items in itertools.groupby(group, key=_container):
            if location is None:
                for item in items:
                    yield from self._encoded(item)
                    self._advance()
            else:
                with self._snapshot.table.folder.storage.open(location) as source:
                    for item in items:
                        yield from self._stored(item, source)
                        self._advance()

    def written(self, locations: Sequence[DvLocation]) -> None:
        """Record the locations of the frames that were yielded last."""
        for location in locations:
            item, how = self._handed.pop(0)
            self._convert(item, how, location, len(locations))

    def written_as_position_deletes(self, file: PositionDeleteFile) -> None:
        """Record a file of position deletes, of the rows of the frame that was yielded last."""
        ((item, _),) = self._handed
        self._handed.clear()
        entry = file.entry_in_json()
        size = entry["file_size_in_bytes"]
        (name,) = file.data_files
        location = DvLocation(POSITION_DELETES, entry["file_path"], 0, size, entry["record_count"], name, size)
        record = {"manifest_entry": entry}
        self.converted.append(ConvertedVector(item.data_file, How.ENCODED, location, item.vectors, record))

    def _stored(self, item: FileDeletes, source: Source) -> Iterator[StoredFrame]:
        (vector,) = item.vectors
        offset, size = cast("int", vector.offset), cast("int", vector.size)
        limits = self._snapshot.table.folder.storage.limits
        found = core_vector.read(
            read_frame(source, offset, size, limits), FRAMED[vector.format], vector.cardinality, limits
        )
        rules.refuse(rules.positions(item.data_file, item.vectors[0], found.view.max))
        data = frame_for(found, self.speller.to, item.data_file.path, self._gaps)
        if self._in_place and found.cardinality and self.speller.may_stay(found.magic, offset):
            place = DvLocation(vector.format, vector.path, offset, size, found.cardinality, None, source.size)
            self._convert(item, How.IN_PLACE, self.speller.in_place(place, vector.location, item.data_file), 1)
        else:
            same = found.frame is not None and data is found.frame.data
            yield from self._hand_on(item, How.COPIED if same else How.ENCODED, found.cardinality, data)

    def _encoded(self, item: FileDeletes) -> Iterator[StoredFrame]:
        rows = rows_of(self._snapshot, item)
        data = encode_frame(rows, self.speller.to, item.data_file.path, self._gaps)
        yield from self._hand_on(item, How.ENCODED, rows.cardinality, data)

    def _hand_on(self, item: FileDeletes, how: How, cardinality: int, data: BytesLike) -> Iterator[StoredFrame]:
        if not cardinality:
            self.empty += 1
            return
        self._handed.append((item, how))
        yield StoredFrame(self.speller.data_file(item.data_file), cardinality, data)

    def _convert(self, item: FileDeletes, how: How, location: DvLocation, in_file: int) -> None:
        record = self.speller.record(location, item.data_file, in_file)
        self.converted.append(ConvertedVector(item.data_file, how, location, item.vectors, record))


def _partition_values(data_file: DataFile) -> dict[str, str | None] | None:
    try:
        return partition_values(data_file)
    except UsageError:  # a target that needs them has refused the file
        return None


def _container(item: FileDeletes) -> str | None:
    """Return the file that holds the frame of a vector; None if its rows are read otherwise."""
    vector = item.vectors[0]
    framed = item.rows is None and vector.location and vector.offset is not None and vector.size is not None
    return vector.location if framed else None


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
        progress: called with the number of data files with deleted rows that are done, and of all.
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
    check_progress(progress)
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
    planned, done = plan(snapshot), itertools.count(1)

    def advance() -> None:
        if progress is not None:
            progress(next(done), len(planned))

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


def _groups(planned: list[FileDeletes], speller: Speller) -> Iterable[list[FileDeletes]]:
    """Group the vectors that may share a file: Paimon has separate files for each partition and bucket."""
    if not speller.to.startswith("paimon"):
        return [planned]
    groups: dict[object, dict[str, FileDeletes]] = {}
    for item in planned:
        data_file = item.data_file
        group = groups.setdefault((data_file.partition, data_file.bucket or 0), {})
        other = group.setdefault(speller.data_file(data_file), item)
        if other is not item:
            both = f"{data_file.path} and {other.data_file.path}"
            raise UsageError(f"{both}: Paimon cannot distinguish files of one name in one bucket")
    return [list(group.values()) for group in groups.values()]


def _write(reader: Reader, group: list[FileDeletes], folder: str, written: list[str], storage: Storage) -> None:
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
    reader: Reader, planned: list[FileDeletes], folder: str, written: list[str], storage: Storage
) -> None:
    """Write a file of position deletes for each data file."""
    with closing(reader.frames(planned)) as frames:
        for stored in frames:
            name = str(stored.data_file)
            if not is_utf8(name):
                raise UsageError(f"{name!r}: its name is not valid UTF-8, so position deletes cannot name it")
            written.append(join(folder, f"{uuid.uuid4()}-deletes.parquet"))
            rows = iceberg.decode(stored.data, limits=storage.limits)
            reader.written_as_position_deletes(write_file(written[-1], written[-1], {name: rows}, "zstd", storage))


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
        progress: called with the number of data files with deleted rows that are done, and of all.

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
    check_progress(progress)
    if real_path(absolute(table.location)) == real_path(absolute(target.location)) and table.kind is target.kind:
        raise UsageError(
            f"{target.location}: expected another table to commit to; position deletes and equality deletes of a table "
            "become its own vectors by upgrade-deletes"
        )
    snapshot = table.snapshot(snapshot_id)
    check_deletes(snapshot)
    planned = plan(snapshot)
    writer = committer_of(target)
    known = {real_path(absolute(file.location)): file for file in writer.current().data_files}
    rows: dict[str, RowSet] = {}
    for done, item in enumerate(planned, 1):
        file = known.get(real_path(absolute(item.data_file.location)))
        if file is None:
            raise UsageError(f"{target.location}: it does not have {item.data_file.location}, which has deleted rows")
        counts = {item.data_file.physical_rows, file.physical_rows} - {None}
        if len(counts) > 1:
            raise UsageError(
                f"{file.path}: {file.physical_rows} rows, and {item.data_file.physical_rows} in {table.location}"
            )
        rows[file.path] = rows_of(snapshot, item)
        if progress is not None:
            progress(done, len(planned))
    with refreshed(target, dry_run):
        return run(writer, positions_finder(rows), dry_run=dry_run)
