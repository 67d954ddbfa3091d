"""Findings: what is wrong in a table, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dvcodec.core.errors import DecodeError
from dvcodec.core.text import TextEnum
from dvcodec.io.target import HIDDEN
from dvcodec.tables.model import DeletionVector

__all__ = ["Finding", "Severity", "place", "shortened"]

_MOST = 1000


class Severity(TextEnum):
    """What a finding means for readers of the table."""

    ERROR = "error"
    """Rows are wrong, or cannot be read, in some engine."""
    WARNING = "warning"
    """Rows are right, but something differs from its metadata."""
    INFO = "info"
    """Nothing is wrong; for example, space could be freed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong in a table, and where.

    Attributes:
        check: stable name in kebab case; see `audit`.
        severity: what it means for readers.
        what: the failure without place and values.
        snapshot: id of the audited snapshot; None for a finding about the whole table.
        data_file: path of the affected data file, as the metadata spells it.
        vectors: the affected vectors, as the metadata records them.
        path: the corrupt file.
        offset: byte offset in `path`; None if no single byte is at fault.
        expected: what a valid table has there.
        actual: what was found.
        details: more values by name, for JSON: ``size`` (bytes) and ``age_seconds`` of a stored file; ``offset`` and
            ``size`` of the vector in its file, if the metadata has another range.
    """

    check: str
    severity: Severity
    what: str
    snapshot: int | None = None
    data_file: str | None = None
    vectors: tuple[DeletionVector, ...] = ()
    path: str | None = None
    offset: int | None = None
    expected: str | None = None
    actual: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def failed(
        cls,
        check: str,
        what: str,
        expected: object,
        actual: object,
        *,
        vectors: tuple[DeletionVector, ...] = (),
        data_file: str | None = None,
        path: str | None = None,
        offset: int | None = None,
    ) -> Finding:
        """Return the finding of a failed check.

        Args:
            check: name of the check; it determines the severity.
            what: the failure without place and values.
            expected: what a valid table has there; kept as text.
            actual: what was found; kept as text.
            vectors: the affected vectors.
            data_file: path of the affected data file.
            path: the corrupt file.
            offset: byte offset in `path`.
        """
        severity = _SEVERITIES.get(check, Severity.ERROR)
        return cls(check, severity, what, None, data_file, vectors, path, offset, _text(expected), _text(actual))

    @classmethod
    def of_vector(
        cls,
        check: str,
        vector: DeletionVector,
        what: str,
        expected: object,
        actual: object,
        data_file: str | None = None,
        others: tuple[DeletionVector, ...] = (),
    ) -> Finding:
        """Return the finding of a failed check of one vector.

        Args:
            check: see `failed`.
            what: see `failed`.
            expected: see `failed`.
            actual: see `failed`.
            vector: the vector whose path and offset are reported.
            data_file: its data file, if the vector does not record it.
            others: more vectors that are affected.
        """
        return cls.failed(
            check,
            what,
            expected,
            actual,
            vectors=(vector, *others),
            data_file=data_file or vector.data_file,
            path=vector.location,
            offset=vector.offset,
        )

    @classmethod
    def from_error(
        cls,
        check: str,
        error: DecodeError,
        path: str,
        vectors: tuple[DeletionVector, ...] = (),
        data_file: str | None = None,
    ) -> Finding:
        """Return the finding of a decoding error.

        Args:
            check: see `failed`.
            error: the error; its offset is in `path`.
            path: the corrupt file.
            vectors: the affected vectors.
            data_file: path of the affected data file.
        """
        return cls.failed(
            check,
            error.what,
            error.expected,
            error.actual,
            vectors=vectors,
            data_file=data_file,
            path=path,
            offset=error.offset,
        )

    def in_snapshot(self, number: int) -> Finding:
        """Set the id of the snapshot in a finding that nobody else has yet, and return it.

        In place, because a table may have 100,000 findings, and a copy takes longer than anything else here.
        """
        object.__setattr__(self, "snapshot", number)
        return self

    def hidden(self) -> Finding:
        """Hide the value found in a finding that nobody else has yet, and return it."""
        object.__setattr__(self, "actual", HIDDEN)
        return self

    @property
    def message(self) -> str:
        """One line: file, place, what failed, expected and actual."""
        vectors, file, expected, actual = self.vectors, self.data_file, self.expected, self.actual
        is_of_one = len(vectors) == 1 and file is not None
        place = vectors[0].where if is_of_one else self.path or file or self.vector or ""
        if file is not None and file not in place:
            place += f", for {file}"
        message = f"{place}: {self.what}" if place else self.what
        if expected:
            message += f": expected {expected}"
        if actual:
            message += f"{',' if expected else ':'} found {actual}"
        return message

    @property
    def vector(self) -> str | None:
        """The place of the first affected vector."""
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


def shortened(text: str) -> str:
    """Return text that many findings may repeat, cut to 1,000 characters."""
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def place(vector: DeletionVector) -> dict[str, Any]:
    """Return a vector's metadata as plain values for JSON, without the engine's own record."""
    names = ("format", "data_file", "path", "location", "offset", "size", "cardinality")
    return {name: getattr(vector, name) for name in names}


_SEVERITIES = {
    "delta-append-only": Severity.WARNING,
    "delta-empty-checkpoint": Severity.WARNING,
    "delta-property": Severity.INFO,
    "delta-statistics": Severity.WARNING,
    "gone-data-file": Severity.WARNING,
    "listing": Severity.WARNING,
    "metadata-name": Severity.WARNING,
    "moved": Severity.WARNING,
    "references": Severity.WARNING,
}
"""Checks that are not errors."""
