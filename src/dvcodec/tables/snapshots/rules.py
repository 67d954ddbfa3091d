"""Everything that can be wrong with a vector in a snapshot: each rule returns findings.

An audit lists the findings, readers and conversions refuse them (`refuse`), a repair plan acts on their checks:
``length``, ``crc``, ``magic``, ``structure``, ``cardinality`` and ``rows``, as in `verify`; ``sequence-number``,
``equal-vectors``, ``different-vectors``, ``stale-path``, ``stale-blob-path``, ``referenced-data-file``,
``path-scheme``, ``gone-data-file``, ``overlap``, ``file-size``, ``container``, ``missing-file`` and
``unreadable-file``; ``unsupported`` and ``limit`` for a well-formed vector that is not read; ``moved`` for the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from dvcodec.core.errors import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    DvcodecError,
    LimitExceeded,
    MissingExtra,
    NotCanonical,
    Truncated,
    Unsupported,
)
from dvcodec.io.target import file_key, is_outside
from dvcodec.tables.columns import ODD, UNKNOWN, VectorGroup
from dvcodec.tables.folder import PathMatcher
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletedRows, DeletionVector
from dvcodec.tables.snapshots.findings import Finding, shortened
from dvcodec.tables.table import Snapshot, Table

BEYOND = "rows"
"""The check of a vector whose positions are beyond the recorded rows of its data file."""
OF_ANOTHER = frozenset({"blob-at-range", "referenced-data-file"})
"""Checks of a vector whose recorded range is not that of its data file: what is there may be another file's rows."""


VectorRows: TypeAlias = tuple[DeletionVector, DeletedRows]
"""A vector, and its deleted rows of one data file."""


class Refused(NotCanonical):
    """A vector that a rule finds invalid.

    Attributes:
        finding: what the rule found; None after pickling.
    """

    finding: Finding | None = None

    def hide(self, actual: str) -> None:
        """Remove the values and the finding; see `DecodeError.hide`."""
        super().hide(actual)
        self.finding = None


def refuse(findings: Iterable[Finding], *allowed: str) -> None:
    """Raise the first finding whose check is not allowed.

    Raises:
        Refused: there is one.
    """
    for finding in findings:
        if finding.check not in allowed:
            source = finding.vectors[0].path or finding.data_file
            what = finding.what if finding.data_file == source else f"{finding.what}, for {finding.data_file}"
            place, expected, actual = finding.offset, finding.expected, finding.actual
            error = Refused(what, source=source, offset=place, expected=expected, actual=actual)
            error.finding = finding
            raise error


def paths(snapshot: Snapshot, vector: DeletionVector) -> Iterator[Finding]:
    """Find a vector whose data file is gone (``gone-data-file``) or has another path (``stale-path``).

    Position deletes of a partition are read for their data files; those that are gone are not a finding.
    """
    named = snapshot.unknown_files(vector) if vector.data_file is None else (vector.data_file,)
    for path in named:
        if path in snapshot.files:
            continue
        meant = snapshot.path_matcher.find(path)
        if meant is not None:
            what = "path of the data file, which has another one now"
            yield Finding.of_vector("stale-path", vector, what, meant, path, data_file=path)
        elif vector.data_file is not None:
            what = "data file, which is not in the snapshot"
            yield Finding.of_vector("gone-data-file", vector, what, "one of the snapshot", path)


def schemes(snapshot: Snapshot, vector: DeletionVector) -> Iterator[Finding]:
    """Find data files that position deletes name with another scheme: ``path-scheme``."""
    what = "path of the data file with another scheme: these deletes are applied here, not by readers of plain text"
    for path, meant in snapshot.respelled(vector):
        yield Finding.of_vector("path-scheme", vector, what, meant, path, data_file=path)


def blob_path(matcher: PathMatcher, vector: DeletionVector, path: str) -> Iterator[Finding]:
    """Find a blob that names another data file than the metadata of its vector: ``referenced-data-file``.

    If both paths match the same data file, the blob has its path from before the table moved: ``stale-blob-path``. If
    the metadata has an old path too, `paths` reports it.

    Args:
        matcher: matcher of the snapshot.
        vector: as recorded.
        path: path of the data file in the blob.
    """
    data_file, check = vector.data_file, "referenced-data-file"
    if data_file is None or file_key(path) == file_key(data_file):
        return
    meant = matcher.find(data_file)
    if meant is not None and meant == matcher.find(path):
        if data_file != meant:
            return
        check = "stale-blob-path"
    yield Finding.of_vector(check, vector, "blob property referenced-data-file", data_file, path)


def older(vector: DeletionVector, file: DataFile | None) -> Iterator[Finding]:
    """Find a vector with a lower sequence number than its data file, to which it does not apply: ``sequence-number``.

    Metadata without sequence numbers gives no finding. Source: Iceberg table spec, "Scan Planning".
    """
    written, added = vector.sequence_number, None if file is None else file.sequence_number
    if written is not None and added is not None and written < added:
        expected = f"at least {added}, that of the data file"
        yield Finding.of_vector("sequence-number", vector, "sequence_number of the vector", expected, written)


def unreadable(vector: DeletionVector, error: DvcodecError | OSError) -> Finding:
    """Report a vector that could not be read."""
    if isinstance(error, Refused) and error.finding is not None:
        return error.finding
    name = _check_of(error)
    if isinstance(error, DecodeError):
        return Finding.from_error(name, error, error.source or vector.location, (vector,), vector.data_file)
    what, expected = "file of the vector", vector.location or "a file"
    actual = "no such file" if name == "missing-file" else error
    data_file, path = vector.data_file, vector.location
    return Finding.failed(name, what, expected, actual, vectors=(vector,), data_file=data_file, path=path)


_CHECKS: tuple[tuple[type[BaseException], str], ...] = (
    (ChecksumMismatch, "crc"),
    (CardinalityMismatch, "cardinality"),
    (BadMagic, "magic"),
    (Truncated, "length"),
    (Unsupported, "unsupported"),
    (LimitExceeded, "limit"),
    (DecodeError, "structure"),
    (FileNotFoundError, "missing-file"),
)
"""Checks of `verify` and of files, by the error that reading a vector raises."""


def _check_of(error: Exception) -> str:
    for kind, name in _CHECKS:
        if isinstance(error, kind):
            return name
    return "unreadable-file"


def of_data_file(file: DataFile, vectors: Sequence[DeletionVector], found: Sequence[VectorRows]) -> Iterator[Finding]:
    """Apply `positions` and `doubles` to all vectors of a data file."""
    for vector, deleted in found:
        yield from positions(file, vector, deleted.rows.max)
    yield from doubles(file, vectors, found)


def positions(file: DataFile, vector: DeletionVector, highest: int | None) -> Iterator[Finding]:
    """Find positions beyond the recorded rows of the data file: ``rows``."""
    rows = file.physical_rows
    if rows is not None and highest is not None and highest >= rows:
        expected = f"below {rows} (rows of the data file)"
        yield Finding.of_vector(BEYOND, vector, "highest position", expected, highest, data_file=file.path)


def doubles(file: DataFile, vectors: Sequence[DeletionVector], found: Sequence[VectorRows] = ()) -> Iterator[Finding]:
    """Find a second live vector, ``equal-vectors`` or ``different-vectors``; there may be many position deletes.

    Args:
        file: the data file to which the vectors apply.
        vectors: all of them.
        found: those that were read.
    """
    alive = tuple(vector for vector in vectors if vector.format != POSITION_DELETES)
    if len(alive) < 2:
        return
    rows = [deleted.rows for vector, deleted in found if vector.format != POSITION_DELETES]
    equal = len(rows) == len(alive) and all(other == rows[0] for other in rows)
    counts = ", ".join(str(some.cardinality) for some in rows)
    name = "equal-vectors" if equal else "different-vectors"
    actual = f"{len(alive)} of {'the same' if equal else 'other'} rows"
    if not equal:
        actual += f" ({counts})" if counts else f" ({' and '.join(vector.where for vector in alive)}, none was read)"
    what = "vectors for one data file"
    yield Finding.failed(name, what, "one", actual, vectors=alive, data_file=file.path, path=alive[0].location)


def overlaps(group: Sequence[DeletionVector]) -> Iterator[Finding]:
    """Find vectors of one file, in file order, that share bytes: ``overlap``.

    One vector twice for one data file is not an overlap.
    """
    columns = VectorGroup.of(group)
    if not (columns.offsets == ODD).any() and not (columns.sizes == ODD).any():
        ranged = (columns.offsets >= 0) & (columns.sizes >= 0)
        starts, stops = columns.offsets[ranged], (columns.offsets + columns.sizes)[ranged]
        if (starts[1:] >= np.maximum.accumulate(stops)[:-1]).all():
            return
    reach = 0
    owner: DeletionVector | None = None
    for vector in group:
        start, size = vector.offset, vector.size
        if start is None or size is None:
            continue
        if owner is not None and start < reach and (vector.data_file, start) != (owner.data_file, owner.offset):
            what = f"bytes shared with the vector for {shortened(str(owner.data_file))}"
            expected = f"an offset of at least {reach}"
            yield Finding.of_vector("overlap", vector, what, expected, start, others=(owner,))
        if start + size > reach:
            reach, owner = start + size, vector


def file_sizes(location: str, group: Sequence[DeletionVector], size: int) -> Iterator[Finding]:
    """Find vectors whose metadata has another size of their file: ``file-size``."""
    by_size: dict[int, list[DeletionVector]] = {}
    sizes = VectorGroup.of(group).file_sizes
    for number in np.flatnonzero((sizes != UNKNOWN) & (sizes != size)).tolist():
        vector = group[number]
        if vector.file_size is not None and vector.file_size != size:
            by_size.setdefault(vector.file_size, []).append(vector)
    for wrong, vectors in sorted(by_size.items()):
        what, expected = "bytes of the file", f"{wrong} (metadata)"
        yield Finding.failed("file-size", what, expected, size, vectors=tuple(vectors), path=location)


def container(snapshot: Snapshot, location: str, group: Sequence[DeletionVector]) -> Iterator[Finding]:
    """Check a file of vectors: `file_sizes`, and `Snapshot.check_container`; ``container`` if it is corrupt.

    Args:
        snapshot: the snapshot that records the vectors.
        location: location of the file.
        group: all vectors that the snapshot records in it.

    Raises:
        MissingExtra: a package that reads the file is not installed.
    """
    try:
        with snapshot.table.folder.storage.open(location) as source:
            size = source.size
        yield from file_sizes(location, group, size)
        outside: bool | None = None
        for finding in snapshot.check_container(location, group):
            if outside is None:
                outside = is_outside(location, snapshot.table.location)
            yield finding.hidden() if outside else finding
    except MissingExtra:
        raise
    except DecodeError as error:
        yield Finding.from_error("container", error, location, tuple(group))
    except (DvcodecError, OSError) as error:
        check = "missing-file" if isinstance(error, FileNotFoundError) else "unreadable-file"
        yield Finding.failed(check, "file of vectors", "a file", error, vectors=tuple(group), path=location)


def moved(table: Table) -> Iterator[Finding]:
    """Find a table whose metadata records another location: ``moved``."""
    if table.folder.moved:
        recorded, actual = table.folder.recorded, table.location
        what = "location of the table in its metadata; its files were looked up here"
        yield Finding.failed("moved", what, recorded, actual, path=actual)
