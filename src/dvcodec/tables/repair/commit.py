"""Commit a repair plan: new vectors for data files whose recorded ones are doubled, described wrongly or not readable.

Each data file of an action gets one new vector of all rows of its present ones, as `dvcodec.tables.delete` commits
them. Vectors of data files that are gone are taken out. What would be more than that is left to the user: see
`Repaired.left`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dvcodec.core.errors import CommitConflict, DvcodecError, MissingExtra, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_type
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.plan import Plan
from dvcodec.tables.deleting.run import attempt
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector, FileDelete, vectors_of
from dvcodec.tables.repair.plan import RepairAction, RepairPlan
from dvcodec.tables.rows.physical import are_all_rows
from dvcodec.tables.snapshots import rules
from dvcodec.tables.table import Snapshot, Table, check_table
from dvcodec.tables.writing import refreshed

_COMMITTED = frozenset(
    {"merge-vectors", "drop-vectors", "write-again", "correct-range", "correct-cardinality", "correct-file-size"}
)
_LEFT = {
    "take-from-snapshot": "rows that are deleted now would live again: commit it yourself if that is what you want",
    "rewrite-paths": "the vectors are for data files at other paths: the whole table has to be rewritten to them",
    "remove-file": "a commit in progress may need it: expiring snapshots, vacuuming or removing orphans removes it",
}
"""Actions that are not committed, and why."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of `commit_repair`.

    Attributes:
        snapshot: id of the new snapshot; that of the base if nothing was committed.
        committed: False if no action could be committed.
        actions: those that were.
        left: the others, each with the reason in one line.
        files: data files that have another vector now, or were removed as they have no live row.
        bytes_written: size of the new vector files.
    """

    snapshot: int
    committed: bool
    actions: tuple[RepairAction, ...]
    left: tuple[tuple[RepairAction, str], ...]
    files: int = 0
    bytes_written: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        actions = [action.to_dict() for action in self.actions]
        left = [action.to_dict() | {"reason": reason} for action, reason in self.left]
        return {name: getattr(self, name) for name in self.__slots__} | {"actions": actions, "left": left}


def commit_repair(plan: RepairPlan, table: Table) -> Repaired:
    """Commit the actions of a plan that need nothing but new vectors, all in one commit.

    These are ``merge-vectors``, ``drop-vectors``, ``write-again``, ``correct-range``, ``correct-cardinality``, which
    takes the stored rows for the right ones, and ``correct-file-size``. The vectors are read and verified again, and
    merged.

    Args:
        plan: from `repair_plan`, for an audit of the current snapshot.
        table: the table for which it was made.

    Raises:
        UsageError: the plan is for another table; or the table must not be written to: the message says why.
        Unsupported: the table uses a feature that is not known here; the message names it.
        CommitConflict: the table has changed since the audit; nothing was committed.
        CommitUnknown: it could not be found out whether the commit is in.
        DecodeError: the metadata is corrupt; nothing was committed.
        OSError: a file cannot be read or written; nothing was committed.
    """
    check_type(plan, RepairPlan, "plan", "a RepairPlan")
    check_table(table)
    if (plan.table, plan.kind) != (table.location, table.kind):
        raise UsageError(f"the plan is for {plan.table}, not for {table.location}")
    writer = committer_of(table)
    base = writer.current()
    if base.info.id != plan.snapshot:
        raise CommitConflict(
            f"{table.location}: the current snapshot is {base.info.id}, and {plan.snapshot} was audited: audit it again"
        )
    writer.check(base)
    writer.check_vectors(base)
    new = _NewVectors(base, plan)
    judged = [(action, new.reason(action)) for action in plan.actions]
    done = tuple(action for action, reason in judged if reason is None)
    left = tuple((action, reason) for action, reason in judged if reason is not None)
    deletes, writer.dropped = tuple(new.deletes(done)), new.dropped(done)
    if not deletes and not writer.dropped:
        return Repaired(base.info.id, False, (), left)
    with refreshed(table):
        snapshot, size = attempt(writer, Plan(base, deletes, 0, 0))
    return Repaired(snapshot, True, done, left, len(deletes), size)


class _NewVectors:
    """The vectors that replace those of data files."""

    def __init__(self, base: Snapshot, plan: RepairPlan) -> None:
        self._base = base
        self._vectors = vectors_of(base.vectors)
        self._cardinality: dict[DeletionVector, int | None] = {
            vector: action.cardinality
            for action in plan.actions
            if action.action == "correct-cardinality"
            for vector in action.replaces
        }
        self._right: dict[DeletionVector, DeletionVector] = {
            vector: read
            for action in plan.actions
            if action.action in _COMMITTED and action.reads
            for vector, read in zip(action.replaces, action.reads, strict=True)
        }
        self._found: dict[str, FileDelete | str] = {}

    def reason(self, action: RepairAction) -> str | None:
        """Return why an action cannot be committed; None if it can."""
        if action.action not in _COMMITTED:
            return _LEFT.get(action.action, "it is not known how to commit it")
        for vector in action.replaces:
            found = self._of(vector)
            if isinstance(found, str):
                return found
        return None

    def deletes(self, actions: tuple[RepairAction, ...]) -> Iterator[FileDelete]:
        """Yield what is committed for each data file of actions that can be."""
        wanted = {vector.data_file for action in actions for vector in action.replaces}
        for path, found in self._found.items():
            if path in wanted and isinstance(found, FileDelete):
                yield found

    def dropped(self, actions: tuple[RepairAction, ...]) -> tuple[DeletionVector, ...]:
        """Return the vectors of data files that are gone, of actions that can be committed."""
        replaced = dict.fromkeys(vector for action in actions for vector in action.replaces)
        return tuple(vector for vector in replaced if vector.data_file not in self._base.files)

    def _of(self, vector: DeletionVector) -> FileDelete | str | None:
        """Return what is committed in place of a vector, or why nothing can be; None if its data file is gone."""
        if vector.format == POSITION_DELETES:
            return "it concerns position deletes: upgrade-deletes replaces them by vectors"
        file = self._base.files.get(str(vector.data_file))
        if file is None:
            return None
        if file.path not in self._found:
            self._found[file.path] = self._merge(file, self._vectors[file.path])
        return self._found[file.path]

    def _merge(self, file: DataFile, vectors: list[DeletionVector]) -> FileDelete | str:
        """Return one vector for a data file, of all rows of its present ones; or why it is not known."""
        rows = RowSet()
        try:
            for vector in vectors:
                right = self._right.get(vector, vector)
                counted = replace(right, cardinality=self._cardinality.get(vector, vector.cardinality))
                for found in self._base.read(counted):
                    rules.refuse(rules.positions(file, vector, found.rows.max))
                    rows = rows | found.rows
            whole = are_all_rows(self._base, file, rows)
        except MissingExtra:
            raise
        except (DvcodecError, OSError) as error:
            return " ".join(str(error).split())
        return FileDelete(file, tuple(vectors), rows, rows, whole)
