"""What an audit of a table has found, and how much it looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from dvcodec.tables.model import DeletionVector, SnapshotInfo, TableKind
from dvcodec.tables.scan import Scan

__all__ = ["Audit", "AuditCounts", "Finding", "Severity"]


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


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """How much was looked at.

    Attributes:
        data_files: of the snapshot.
        vectors: of the snapshot; all were read, or tried to.
        containers: files that hold them.
        stored_files: files below the table's folder; None if it was not listed.
        unreadable: vectors that could not be read: nothing is known of their rows.
        counted_files: data files whose own row count was held against the metadata; None without ``deep``.
    """

    data_files: int
    vectors: int
    containers: int
    stored_files: int | None
    unreadable: int = 0
    counted_files: int | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """What came of an audit.

    Attributes:
        table: location of the table's folder.
        kind: of the table.
        info: which snapshot.
        findings: in the order they were made; none if the table is sound.
        counts: how much was looked at.
        scan: what the vectors delete; rows are not kept.
        notes: what no check could find here, and why; a table without findings may have some.
    """

    table: str
    kind: TableKind
    info: SnapshotInfo
    findings: tuple[Finding, ...]
    counts: AuditCounts
    scan: Scan
    notes: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no error: every engine can read the right rows. Warnings may be there."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; the scan aside."""
        severities = Counter(finding.severity for finding in self.findings)
        return {
            "table": self.table,
            "kind": self.kind.value,
            "snapshot": asdict(self.info),
            "ok": self.ok,
            "counts": asdict(self.counts) | {f"{kind.value}s": severities[kind] for kind in Severity},
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": [note.to_dict() for note in self.notes],
        }
