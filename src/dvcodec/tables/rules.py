"""Everything that can be wrong with a vector in a snapshot, once: each rule returns findings.

An audit lists them, live rows and conversions refuse by them (`refuse`), and a repair plan acts on their names:
``length``, ``crc``, ``magic``, ``structure``, ``cardinality`` and ``rows``, as `verify` calls them;
``sequence-number``, ``equal-vectors``, ``different-vectors``, ``stale-path``, ``stale-blob-path``, ``path-scheme``,
``gone-data-file``, ``overlap``, ``file-size``, ``missing-file`` and ``unreadable-file``; a vector that is well-formed
but not read is ``unsupported`` or beyond a ``limit``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dvcodec.core.errors import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    DvcodecError,
    LimitExceeded,
    NotCanonical,
    Truncated,
    Unsupported,
)
from dvcodec.core.report import Check
from dvcodec.tables.findings import Finding, from_check
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletedRows, DeletionVector, OlderThanData
from dvcodec.tables.namesakes import Namesakes
from dvcodec.tables.table import Snapshot

__all__ = ["Part", "Paths", "doubles", "file_sizes", "overlaps", "positions", "refuse", "unreadable"]


def refuse(findings: Iterable[Finding], *allowed: str) -> None:
    """Refuse what a rule has found, except checks that are allowed.

    Raises:
        NotCanonical: for the first finding.
    """
    for finding in findings:
        if finding.check not in allowed:
            source = finding.vectors[0].path or finding.data_file
            what = finding.what if finding.data_file == source else f"{finding.what}, for {finding.data_file}"
            raise NotCanonical(
                what,
                source=source,
                offset=finding.offset,
                expected=finding.expected,
                actual=finding.actual,
            )


@dataclass(frozen=True, slots=True)
class Part:
    """What one vector deletes of one data file; `total` rows in all."""

    vector: DeletionVector
    found: DeletedRows
    total: int

    @property
    def stored_bytes(self) -> int:
        """Bytes of the vector as stored; of position deletes, this data file's share of them."""
        if self.found.stats is not None:
            return self.found.stats.size
        whole = self.vector.size or self.vector.file_size or 0
        return whole * self.found.rows.cardinality // self.total if self.total else 0


class Paths:
    """Rules about the data files that vectors name, which a moved table may spell otherwise.

    Attributes:
        files: data files of the snapshot by path.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.files = {file.path: file for file in snapshot.data_files}
        self._namesakes = Namesakes(snapshot.table.folder, self.files)
        self._snapshot = snapshot

    def recorded(self, vector: DeletionVector) -> Iterator[Finding]:
        """Find a vector whose recorded data file is gone (``gone-data-file``) or has another path (``stale-path``)."""
        path = vector.data_file
        if path is None or path in self.files:
            return
        meant = self._namesakes.find(path)
        if meant is None:
            name, what, expected = "gone-data-file", "data file, which is not in the snapshot", "one of the snapshot"
        else:
            name, what, expected = "stale-path", "path of the data file, which is elsewhere now", meant
        yield _found(name, vector, what, expected, path, path)

    def in_rows(self, vector: DeletionVector) -> Iterator[Finding]:
        """Find data files that position deletes of a partition name by another path: ``stale-path``.

        Data files that are gone are usual there.
        """
        if vector.data_file is None:
            for path in self._snapshot.unknown_files(vector):
                meant = self._namesakes.find(path)
                if meant is not None:
                    what = "path of the data file, which is elsewhere now"
                    yield _found("stale-path", vector, what, meant, path, path)

    def schemes(self, vector: DeletionVector) -> Iterator[Finding]:
        """Find position deletes for a data file that they name with another scheme: ``path-scheme``."""
        what = "path of the data file with another scheme: these deletes are applied here, not by readers of plain text"
        for path, meant in self._snapshot.respelled(vector):
            yield _found("path-scheme", vector, what, meant, path, meant)

    def blob(self, check: Check, location: str, vector: DeletionVector | None) -> Iterator[Finding]:
        """Report a failed check of a file of vectors.

        A blob that names its data file as it was called before the table moved is a ``stale-blob-path``; it is not
        reported where the metadata's path is stale too, which `recorded` has reported.
        """
        data_file = None if vector is None else vector.data_file
        if data_file is not None and check.actual is not None:
            meant = self._namesakes.find(data_file)
            if meant is not None and meant == self._namesakes.find(check.actual):
                if data_file != meant:
                    return
                check = replace(check, name="stale-blob-path")
        yield from_check(check, () if vector is None else (vector,), data_file, location)


def unreadable(vector: DeletionVector, error: DvcodecError | OSError) -> Finding:
    """Report a vector that could not be read."""
    name = next((name for kind, name in _CHECKS if isinstance(error, kind)), "unreadable-file")
    if isinstance(error, DecodeError):
        path = error.source or vector.location
        return from_check(Check.from_error(name, vector.where, error), (vector,), vector.data_file, path)
    actual = "no such file" if name == "missing-file" else str(error)
    check = Check.failed(name, vector.where, None, "file of the vector", vector.location or "a file", actual)
    return from_check(check, (vector,), vector.data_file, vector.location)


_CHECKS: tuple[tuple[type[BaseException], str], ...] = (
    (ChecksumMismatch, "crc"),
    (CardinalityMismatch, "cardinality"),
    (BadMagic, "magic"),
    (Truncated, "length"),
    (Unsupported, "unsupported"),
    (LimitExceeded, "limit"),
    (OlderThanData, "sequence-number"),
    (DecodeError, "structure"),
    (FileNotFoundError, "missing-file"),
)
"""Names of checks that reading a vector makes, by what it raises: those of `verify`, and some of files."""


def positions(file: DataFile, vector: DeletionVector, highest: int | None) -> Iterator[Finding]:
    """Find positions beyond the recorded rows of the data file: ``rows``."""
    rows = file.physical_rows
    if rows is not None and highest is not None and highest >= rows:
        expected = f"below {rows} (rows of the data file)"
        yield _found("rows", vector, "highest position", expected, highest, file.path)


def doubles(file: DataFile, vectors: Sequence[DeletionVector], parts: Sequence[Part] = ()) -> Iterator[Finding]:
    """Find a second live vector, ``equal-vectors`` or ``different-vectors``; of position deletes there may be many.

    Args:
        file: for which the vectors hold.
        vectors: all of them.
        parts: what was read of them.
    """
    alive = tuple(vector for vector in vectors if vector.format != POSITION_DELETES)
    if len(alive) < 2:
        return
    rows = [part.found.rows for part in parts if part.vector.format != POSITION_DELETES]
    equal = len(rows) == len(alive) and all(other == rows[0] for other in rows)
    counts = ", ".join(str(found.cardinality) for found in rows)
    name = "equal-vectors" if equal else "different-vectors"
    actual = f"{len(alive)} of {'the same' if equal else 'other'} rows"
    if not equal:
        actual += f" ({counts})" if counts else f" ({' and '.join(vector.where for vector in alive)}, none was read)"
    check = Check.failed(name, file.path, None, "vectors that hold for one data file", "one", actual)
    yield from_check(check, alive, file.path, alive[0].location)


def overlaps(group: Sequence[DeletionVector]) -> Iterator[Finding]:
    """Find vectors of one file, in file order, that share bytes: ``overlap``.

    One vector twice for one data file is not an overlap.
    """
    reach = 0
    owner: DeletionVector | None = None
    for vector in group:
        start, size = vector.offset, vector.size
        if start is None or size is None:
            continue
        if owner is not None and start < reach and (vector.data_file, start) != (owner.data_file, owner.offset):
            what = f"bytes shared with the vector for {owner.data_file}"
            check = Check.failed("overlap", vector.where, start, what, f"an offset of at least {reach}", start)
            yield from_check(check, (vector, owner), vector.data_file, vector.location)
        if start + size > reach:
            reach, owner = start + size, vector


def file_sizes(location: str, group: Sequence[DeletionVector], size: int) -> Iterator[Finding]:
    """Find records of the file of vectors that give it another size: ``file-size``."""
    recorded = {vector.file_size for vector in group if vector.file_size is not None}
    for wrong in sorted(recorded - {size}):
        check = Check.failed("file-size", location, None, "bytes of the file", f"{wrong} (metadata)", size)
        yield from_check(check, tuple(vector for vector in group if vector.file_size == wrong), None, location)


def _found(
    name: str, vector: DeletionVector, what: str, expected: object, actual: object, data_file: str | None
) -> Finding:
    check = Check.failed(name, vector.where, vector.offset, what, expected, actual)
    return from_check(check, (vector,), data_file, vector.location)
