"""A finding: something in a table that is wrong, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dvcodec.core.report import Check
from dvcodec.tables.model import DeletionVector

__all__ = ["Finding", "Severity", "from_check", "place", "severity_of"]


class Severity(str, Enum):
    """What a finding means for readers of the table."""

    ERROR = "error"
    """Rows are wrong, or cannot be read, in some engine."""
    WARNING = "warning"
    """Rows are right, but something is not as its metadata says."""
    INFO = "info"
    """Nothing is wrong: space could be freed, or it is good to know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be, and where.

    Attributes:
        check: stable name in kebab case; see `audit`.
        severity: what it means.
        message: one line that names file, place, expected and actual.
        snapshot: id of the snapshot that was looked at; None where it is of the whole table.
        data_file: path of the data file whose rows are in doubt, as the metadata spells it.
        vectors: those that are to blame, as the metadata records them.
        path: the file that is not sound.
        offset: byte offset in `path`, None where no single byte is to blame.
        expected: what a sound table has there.
        actual: what was found.
        details: more, by name, for JSON: ``size`` (bytes) and ``age_seconds`` of a stored file.
        what: the failure without place and values.
    """

    check: str
    severity: Severity
    message: str
    snapshot: int | None = None
    data_file: str | None = None
    vectors: tuple[DeletionVector, ...] = ()
    path: str | None = None
    offset: int | None = None
    expected: str | None = None
    actual: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    what: str = field(default="", repr=False)

    @property
    def vector(self) -> str | None:
        """The place of the first vector that is to blame."""
        return self.vectors[0].where if self.vectors else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "check": self.check,
            "severity": self.severity.value,
            "message": self.message,
            "snapshot": self.snapshot,
            "data_file": self.data_file,
            "vectors": [place(vector) for vector in self.vectors],
            "path": self.path,
            "offset": self.offset,
            "expected": self.expected,
            "actual": self.actual,
            "details": dict(self.details),
        }


def place(vector: DeletionVector) -> dict[str, Any]:
    """Return what metadata says of a vector as plain values for JSON (the engine's own record aside)."""
    names = ("format", "data_file", "path", "location", "offset", "size", "cardinality")
    return {name: getattr(vector, name) for name in names}


_WARNINGS = (
    "delta-append-only",
    "gone-data-file",
    "listing",
    "metadata-name",
    "moved",
    "references",
    "stale-blob-path",
)
_INFOS = ("delta-property",)


def severity_of(check: str) -> Severity:
    """Return what a finding of a check means."""
    if check in _INFOS:
        return Severity.INFO
    return Severity.WARNING if check in _WARNINGS else Severity.ERROR


def from_check(
    check: Check, vectors: tuple[DeletionVector, ...] = (), data_file: str | None = None, path: str | None = None
) -> Finding:
    """Return the finding that a failed check is.

    Args:
        check: that failed; its `offset` is one in `path`.
        vectors: those that are to blame.
        data_file: path of the data file whose rows are in doubt.
        path: the file that is corrupt.
    """
    where = vectors[0].where if len(vectors) == 1 and data_file is not None else path or check.subject
    place = f"{where}, for {data_file}" if data_file is not None and data_file not in where else where
    what = check.message or check.name
    parts = [f"{name} {value}" for name, value in (("expected", check.expected), ("found", check.actual)) if value]
    message = f"{place}: {what}{': ' if parts else ''}{', '.join(parts)}".replace("\n", " ")
    return Finding(
        check.name,
        severity_of(check.name),
        message,
        data_file=data_file,
        vectors=vectors,
        path=path,
        offset=check.offset,
        expected=check.expected,
        actual=check.actual,
        what=what,
    )
