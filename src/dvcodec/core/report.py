"""Named checks and their results, as `verify` and the lints return them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dvcodec.core.errors import DecodeError
from dvcodec.core.text import TextEnum, card, counted, number, plain


class Status(TextEnum):
    """The result of a check."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    NOT_APPLICABLE = "n/a"
    """Nothing to check against (no cardinality given), or an earlier check failed."""


@dataclass(frozen=True, slots=True)
class Check:
    """One named check at one place.

    Attributes:
        name: stable name, such as ``crc`` or ``cardinality``.
        status: pass, fail or not applicable.
        subject: what was checked: the file, or one vector.
        offset: byte offset in the file, None if the check has no single position.
        expected: what a valid file has there, None if the check passed.
        actual: what was found, None if the check passed.
        message: describes the failure.
    """

    name: str
    status: Status
    subject: str
    offset: int | None = None
    expected: str | None = None
    actual: str | None = None
    message: str | None = None

    @classmethod
    def passed(cls, name: str, subject: str, offset: int | None = None) -> Check:
        """Return a check that passed.

        Args:
            name: stable name of the check.
            subject: what was checked: the file, or one vector.
            offset: byte offset in the file, None if the check has no single position.
        """
        return cls(name, Status.PASS, subject, offset)

    @classmethod
    def not_applicable(cls, name: str, subject: str, offset: int | None = None) -> Check:
        """Return a check that does not apply, or was not reached.

        Args:
            name: stable name of the check.
            subject: what would have been checked: the file, or one vector.
            offset: byte offset in the file, None if the check has no single position.
        """
        return cls(name, Status.NOT_APPLICABLE, subject, offset)

    @classmethod
    def failed(cls, name: str, subject: str, offset: int | None, what: str, expected: object, actual: object) -> Check:
        """Return a check that failed.

        Args:
            name: stable name of the check.
            subject: what was checked: the file, or one vector.
            offset: byte offset in the file, None if the check has no single position.
            what: the check's `message`.
            expected: what a valid file has there; stored as text.
            actual: what was found; stored as text.
        """
        return cls(name, Status.FAIL, subject, offset, str(expected), str(actual), what)

    @classmethod
    def from_error(cls, name: str, subject: str, error: DecodeError) -> Check:
        """Return the failed check for `error`.

        Args:
            name: stable name of the check.
            subject: what was checked: the file, or one vector.
            error: provides offset, expected and actual value, and message.
        """
        expected = None if error.expected is None else str(error.expected)
        actual = None if error.actual is None else str(error.actual)
        return cls(name, Status.FAIL, subject, error.offset, expected, actual, error.what)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        # ``asdict`` takes ten times as long, because it copies what is in the fields.
        return {name: getattr(self, name) for name in self.__slots__} | {"status": self.status.value}


def check_that(
    valid: bool, name: str, subject: str, offset: int | None, what: str, expected: object, actual: object
) -> Check:
    """Return a check that passed if `valid`, else one that failed; see `Check.failed`."""
    return Check.passed(name, subject, offset) if valid else Check.failed(name, subject, offset, what, expected, actual)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """All checks of one file.

    Attributes:
        source: path, URL or other name.
        kind: container kind, None if unknown.
        checks: in the order they ran.
    """

    source: str
    kind: str | None
    checks: tuple[Check, ...]

    def __repr__(self) -> str:
        return f"<report of {plain(self.source)}: {self._outcome}>"

    def _repr_html_(self) -> str:
        """Return the checks that failed as HTML for notebooks."""
        rows = (
            (
                check.name,
                check.subject,
                number(check.offset),
                check.message or "",
                f"{check.expected}",
                f"{check.actual}",
            )
            for check in self.findings
        )
        columns = ("check", "of", "byte", "failed", "expected", "found")
        return card(self.source, (self.kind or "unknown kind", self._outcome), columns, rows, len(self.findings))

    @property
    def _outcome(self) -> str:
        passed = sum(check.status is Status.PASS for check in self.checks)
        names = ", ".join(dict.fromkeys(check.name for check in self.findings))
        return f"{counted(passed, 'check')} passed" + (f", failed: {names}" if names else "")

    @property
    def ok(self) -> bool:
        """True if no check failed."""
        return not self.findings

    @property
    def findings(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status is Status.FAIL)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        checks = [check.to_dict() for check in self.checks]
        return {"source": self.source, "kind": self.kind, "ok": self.ok, "checks": checks}
