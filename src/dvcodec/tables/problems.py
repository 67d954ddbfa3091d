"""What is wrong with vectors of a snapshot, each problem a named check.

Names are those of `verify` (``length``, ``crc``, ``magic``, ``structure``, ``cardinality``, ``rows``) and, beyond one
vector, ``sequence-number``, ``equal-vectors``, ``different-vectors``, ``stale-path``, ``path-scheme``,
``gone-data-file``, ``missing-file`` and ``unreadable-file``; what is well-formed but not read is ``unsupported`` or
beyond a ``limit``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector

__all__ = [
    "POSITION_DELETES",
    "OlderThanData",
    "Part",
    "Problem",
    "check_doubles",
    "check_positions",
    "respelled",
    "stranger",
    "unreadable",
]


class OlderThanData(NotCanonical):
    """A vector whose data sequence number is below that of its data file."""


POSITION_DELETES = "position-deletes"
"""`DeletionVector.format` of Iceberg v2 delete files, of which several may hold for one data file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A failed check, and what it is about.

    Attributes:
        check: what is wrong; its `offset` is one in the vector's file.
        vectors: those that are to blame.
        data_file: path of the data file whose rows are in doubt, as the vector or the snapshot spells it.
        source: the file that is not sound, where the error named it.
    """

    check: Check
    vectors: tuple[DeletionVector, ...] = ()
    data_file: str | None = None
    source: str | None = None


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


def check_positions(file: DataFile, parts: Sequence[Part]) -> Iterator[Problem]:
    """Find positions beyond the data file."""
    for part in parts:
        highest = part.found.rows.max
        if file.physical_rows is not None and highest is not None and highest >= file.physical_rows:
            check = Check.failed(
                "rows",
                part.vector.where,
                part.vector.offset,
                "highest position",
                f"below {file.physical_rows} (rows of the data file)",
                highest,
            )
            yield Problem(check, (part.vector,), file.path)


def check_doubles(file: DataFile, vectors: Sequence[DeletionVector], parts: Sequence[Part]) -> Iterator[Problem]:
    """Find a second live vector; of position deletes there may be many."""
    alive = tuple(vector for vector in vectors if vector.format != POSITION_DELETES)
    if len(alive) < 2:
        return
    rows = [part.found.rows for part in parts if part.vector.format != POSITION_DELETES]
    equal = len(rows) == len(alive) and all(other == rows[0] for other in rows)
    counts = ", ".join(str(found.cardinality) for found in rows)
    check = Check.failed(
        "equal-vectors" if equal else "different-vectors",
        file.path,
        None,
        "vectors that hold for one data file",
        "one",
        f"{len(alive)} of the same rows" if equal else f"{len(alive)} of other rows ({counts or 'none could be read'})",
    )
    yield Problem(check, alive, file.path)


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


def unreadable(vector: DeletionVector, error: DvcodecError | OSError) -> Problem:
    """Tell of a vector that could not be read."""
    name = next((name for kind, name in _CHECKS if isinstance(error, kind)), "unreadable-file")
    if isinstance(error, DecodeError):
        return Problem(Check.from_error(name, vector.where, error), (vector,), vector.data_file, error.source)
    told = "no such file" if name == "missing-file" else str(error)
    check = Check.failed(name, vector.where, None, "file of the vector", vector.location or "a file", told)
    return Problem(check, (vector,), vector.data_file, vector.location)


def respelled(vector: DeletionVector, path: str, meant: str) -> Problem:
    """Report position deletes for a data file that they name with another scheme."""
    what = "path of the data file with another scheme: these deletes are applied here, and not by readers of plain text"
    return Problem(Check.failed("path-scheme", vector.where, vector.offset, what, meant, path), (vector,), meant)


def stranger(vector: DeletionVector, path: str, meant: str | None) -> Problem:
    """Tell of a vector whose data file is not in the snapshot; `meant` is the one it may have been for."""
    if meant is None:
        name, what, expected = "gone-data-file", "data file, which is not in the snapshot", "one of the snapshot"
    else:
        name, what, expected = "stale-path", "path of the data file, which is elsewhere now", meant
    return Problem(Check.failed(name, vector.where, vector.offset, what, expected, path), (vector,), path)
