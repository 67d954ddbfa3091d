"""Repair the findings of an audit: a plan, and its commit.

`repair_plan` lists an action for each finding that can be fixed, and the findings that none of them fixes; nothing is
written. `commit_repair` commits the actions that need nothing but new vectors: each data file of an action gets one new
vector of all rows of its present ones, as `dvcodec.tables.delete` commits them, and vectors of data files that are gone
are taken out. Those that make deleted rows live again are committed only if that is accepted. The others are left to
the user: see `Repaired.left`.

Actions, each the `action` of its `RepairAction`:

- ``correct-bits``: commit the vector without the flipped bit, or the wrong byte, that its checksum shows: see
  `dvcodec.correct`;
- ``merge-vectors``: commit one new vector, the union of several for one data file;
- ``drop-vectors``: commit the removal of vectors: all but one of equal ones, or one whose data file is gone;
- ``rewrite-paths``: commit vectors for the current paths of their data files;
- ``take-from-snapshot``: commit the newest valid vector of an older snapshot for one that cannot be read. Rows that
  were deleted since become live again, and rows that were restored since may be deleted again; the message has a lower
  bound of the former, if known;
- ``restore-rows``: commit the removal of a vector that cannot be read, if no older one helps: its rows become live
  again;
- ``write-again``: commit the same vector in a new file, for one that its Puffin file describes wrongly, that is in a
  file with damage beside its vectors, or that is recorded in another partition than its data file;
- ``correct-range``: commit the vector from where its Puffin file has it, for one with another range in the metadata;
- ``correct-cardinality``, ``correct-file-size``: commit the counted number;
- ``remove-file``: remove a file that no snapshot needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dvcodec.core.errors import CommitConflict, DvcodecError, MissingExtra, NotCanonical, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import counted
from dvcodec.core.usage import check_type
from dvcodec.io.frames import read_frame
from dvcodec.ops.verify import Correction, correct
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.auditing import Audit
from dvcodec.tables.convert import FRAMED
from dvcodec.tables.deleting.run import Committer, Plan, attempt
from dvcodec.tables.model import (
    POSITION_DELETES,
    DataFile,
    DeletionVector,
    FileDelete,
    SnapshotInfo,
    TableKind,
)
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.findings import Finding, place
from dvcodec.tables.snapshots.reading import are_all_rows
from dvcodec.tables.table import Snapshot, Table, check_table
from dvcodec.tables.writing import refreshed

__all__ = ["RepairAction", "RepairPlan", "Repaired", "commit_repair", "repair_plan"]


@dataclass(frozen=True, slots=True)
class RepairAction:
    """An action of a repair plan.

    Attributes:
        action: its name; see the module.
        message: the same in words.
        fixes: names of the checks whose findings it fixes.
        data_file: path of the affected data file.
        replaces: vectors to be removed from the metadata.
        reads: vectors whose union is to be committed in their place.
        snapshot: id of the snapshot that has `reads`.
        cardinality: rows of the new vector, or the number to be recorded.
        path: the file to be removed, or the file of vectors whose paths are stale.
        mapping: old path -> new path, of data files.
        details: more, by name, for JSON.
    """

    action: str
    message: str
    fixes: tuple[str, ...]
    data_file: str | None = None
    replaces: tuple[DeletionVector, ...] = ()
    reads: tuple[DeletionVector, ...] = ()
    snapshot: int | None = None
    cardinality: int | None = None
    path: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def restores_rows(self) -> bool:
        """Whether rows that are deleted now become live again, or may."""
        return self.action in _RESTORING or self.details.get("lossless") is False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        vectors = {name: [place(vector) for vector in getattr(self, name)] for name in ("replaces", "reads")}
        plain = {"fixes": list(self.fixes), "mapping": dict(self.mapping), "details": dict(self.details)}
        return {name: getattr(self, name) for name in self.__slots__} | vectors | plain


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The actions that would repair a table; none has been taken.

    Attributes:
        table: location of the table's folder.
        kind: kind of the table.
        snapshot: id of the snapshot that was audited.
        actions: what to do.
        unfixed: findings that none of them fixes.
    """

    table: str
    kind: TableKind
    snapshot: int
    actions: tuple[RepairAction, ...]
    unfixed: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        lists = {name: [item.to_dict() for item in getattr(self, name)] for name in ("actions", "unfixed")}
        return {name: getattr(self, name) for name in self.__slots__} | {"kind": self.kind.value} | lists


_UNREADABLE = frozenset({"length", "crc", "magic", "structure", "missing-file", "unreadable-file"})
_DESCRIBED = frozenset(
    {"blob-cardinality", "blob-ids", "blob-properties", "blob-type", "blob-codec", "stale-blob-path"}
)
_BESIDE = frozenset({"container", "unused-blob"})
"""Checks of a file, which its vectors may pass all the same."""
_OF_FILE = _UNREADABLE | _DESCRIBED | _BESIDE | rules.OF_ANOTHER | {"frame", "cardinality", "overlap"}
"""Checks of a vector's bytes, range or file, which a new vector in a new file fixes."""
_OF_RANGE = _UNREADABLE | rules.OF_ANOTHER | {"cardinality"}
"""Checks of a vector that is read in the wrong place."""
_COMBINED = {
    "different-vectors": ("merge-vectors", "commit one vector of {rows} rows for the {count} of {file}"),
    "partition-mismatch": ("write-again", "commit the vector of {file} again, in the partition of its data file"),
    **dict.fromkeys(
        _DESCRIBED,
        ("write-again", "commit the vector of {file} from a new file, which describes it correctly"),
    ),
    **dict.fromkeys(
        _BESIDE, ("write-again", "commit the vector of {file} from a new file, as {place} is damaged beside it")
    ),
}
"""Checks whose findings one new vector of all rows fixes: the action, and the message."""
_RANGE = "correct-range", "commit the vector of {file} from {place}, the place in the footer, of {rows} rows"
_STALE = frozenset({"stale-path"})


def repair_plan(audit: Audit, table: Table) -> RepairPlan:
    """Plan the repair of an audit's findings.

    Vectors to be merged, or taken from older snapshots, are read. Nothing is written.

    Args:
        audit: the audit of a snapshot.
        table: the audited table.

    Raises:
        UsageError: the audit is for another table, or its snapshot is gone.
        DecodeError, OSError: the metadata of the audited snapshot has become corrupt, or cannot be read.
    """
    check_table(table)
    check_type(audit, Audit, "audit", "an Audit")
    if (audit.table, audit.kind) != (table.location, table.kind):
        raise UsageError(f"the audit is for {audit.table}, not for {table.location}")
    planner = _Planner(table, audit)
    for finding in audit.findings:
        planner.take(finding)
    planner.finish()
    return RepairPlan(table.location, table.kind, audit.info.id, tuple(planner.actions), tuple(planner.unfixed))


class _Planner:
    def __init__(self, table: Table, audit: Audit) -> None:
        self.actions: list[RepairAction] = []
        self.unfixed: list[Finding] = []
        self._snapshot = table.snapshot(audit.info.id)
        self._lost = {vector for vector, _ in audit.scan.lost}
        self._fixed: set[str] = set()
        self._shared = {vector for one in audit.findings if one.check == "overlap" for vector in one.vectors}
        """Vectors of which not even the range is certain."""
        self._miscounted = {vector for one in audit.findings if one.check == "cardinality" for vector in one.vectors}
        self._stale: dict[str, list[Finding]] = {}
        self._older = _Older(table, self._snapshot)
        self._right = {
            one.vectors[0]: _right(one) for one in audit.findings if one.vectors and one.check in rules.OF_ANOTHER
        }

    def take(self, finding: Finding) -> None:
        """Plan an action for a finding, or keep it."""
        if finding.check in _STALE and finding.vectors[0].format != POSITION_DELETES:
            self._stale.setdefault(finding.vectors[0].location, []).append(finding)
        else:
            is_moved = finding.check in _OF_RANGE and not self._right.keys().isdisjoint(finding.vectors[:1])
            action = self._move(finding) if is_moved else None
            plan = self.plans.get(finding.check)
            self._add(finding, action or (None if plan is None else plan(self, finding)))

    def finish(self) -> None:
        """Plan what concerns all vectors of a file at once."""
        for finding in self.unfixed:
            if finding.check in _BESIDE and self._lost.isdisjoint(finding.vectors):  # else a commit takes all of them
                self._copy_vectors(finding)
        for location, findings in self._stale.items():
            mapping = {
                finding.actual: finding.expected
                for finding in findings
                if finding.actual is not None and finding.expected is not None
            }
            self.actions.append(
                RepairAction(
                    "rewrite-paths",
                    f"commit {len(findings)} vectors of {location} for the paths that their data files have now",
                    tuple(dict.fromkeys(finding.check for finding in findings)),
                    replaces=tuple(dict.fromkeys(finding.vectors[0] for finding in findings)),
                    path=location,
                    mapping=mapping,
                )
            )
        replacing: dict[DeletionVector, list[int]] = {}
        for i, action in enumerate(self.actions):
            for vector in dict.fromkeys(action.replaces):
                replacing.setdefault(vector, []).append(i)
        self.unfixed = [finding for finding in self.unfixed if not self._fixed_too(finding, replacing)]

    def _fixed_too(self, finding: Finding, replacing: Mapping[DeletionVector, Sequence[int]]) -> bool:
        """Whether actions for other findings fix this one, by replacing its vectors; they then name its check.

        Args:
            finding: the finding.
            replacing: vectors that actions replace, with the places of these.
        """
        if finding.check not in _OF_FILE or not finding.vectors:
            return False
        of_vectors = [
            [i for i in replacing.get(vector, ()) if self._renews(self.actions[i], finding)]
            for vector in dict.fromkeys(finding.vectors)
        ]
        if not (any if finding.check == "overlap" else all)(of_vectors):  # one that goes shares no byte any more
            return False
        for i in sorted({i for places in of_vectors for i in places}):
            fixes = dict.fromkeys((*self.actions[i].fixes, finding.check))
            self.actions[i] = replace(self.actions[i], fixes=tuple(fixes))
        return True

    @staticmethod
    def _renews(action: RepairAction, finding: Finding) -> bool:
        if action.reads or action.restores_rows:
            return True
        return finding.check == "blob-cardinality" and finding.actual == str(action.cardinality)

    def _add(self, finding: Finding, action: RepairAction | None) -> None:
        """Keep an action; a data file gets one new vector at most."""
        renews = action is not None and (action.reads or action.restores_rows)
        if action is None or (renews and finding.data_file in self._fixed):
            self.unfixed.append(finding)
            return
        if renews and finding.data_file is not None:
            self._fixed.add(finding.data_file)
        self.actions.append(action)

    def _combine(self, finding: Finding, how: tuple[str, str] | None = None) -> RepairAction | None:
        """Plan one new vector of all rows of a finding's vectors, which it replaces; None if one cannot be read."""
        action, message = how or _COMBINED[finding.check]
        found = [self._right.get(vector, vector) for vector in finding.vectors] if how is _RANGE else finding.vectors
        vectors = tuple(vector for vector in found if vector is not None)
        of_positions = finding.vectors[0].format == POSITION_DELETES
        rows = None if of_positions or len(vectors) < len(found) else _union(self._snapshot, vectors)
        if rows is None or finding.data_file is None:
            return None
        count, place = len(found), vectors[0].where
        message = message.format(file=finding.data_file, rows=rows.cardinality, count=count, place=place)
        return _of_vectors(finding, action, message, vectors, self._snapshot, rows.cardinality)

    def _move(self, finding: Finding) -> RepairAction | None:
        """Plan a vector from the place in the footer; if both places have one, the footer may be what is damaged."""
        action, vector = self._combine(finding, _RANGE), finding.vectors[0]
        if action is None or vector in self._lost | self._miscounted | self._shared:
            return action
        message = f"{action.message}; the metadata's own place has a valid vector too: other rows than now"
        return replace(action, message=message, details={"lossless": False})

    def _describe(self, finding: Finding) -> RepairAction | None:
        """Plan a new file for a vector where the metadata has it, if its file only seems to name another data file."""
        vector = finding.vectors[0]
        misspelled = finding.check != "referenced-data-file" or self._is_misspelled(finding)
        if vector in self._lost or not misspelled:
            return None
        self._right.pop(vector, None)
        return self._combine(finding, _COMBINED["blob-properties"])

    def _is_misspelled(self, finding: Finding) -> bool:
        """Whether the name in a file is that of its data file but for a byte, and no other file has it."""
        named, meant = str(finding.actual), str(finding.vectors[0].data_file)
        if len(named) != len(meant) or sum(one != other for one, other in zip(named, meant, strict=True)) > 1:
            return False
        try:
            with self._snapshot.table.folder.storage.open(self._snapshot.table.folder.locate(named)):
                return False
        except FileNotFoundError:
            return self._snapshot.path_matcher.find(named) is None
        except (DvcodecError, OSError):
            return False

    def _copy_vectors(self, finding: Finding) -> None:
        """Plan new files for vectors of a file with damage beside them, which the metadata still finds there."""
        for vector in finding.vectors:
            of_vector = replace(finding, vectors=(vector,), data_file=vector.data_file)
            left = vector in self._lost | self._miscounted | self._shared or vector.data_file in self._fixed
            action = None if left else self._combine(of_vector)
            if action is not None:
                self._add(of_vector, action)

    def _drop(self, finding: Finding) -> RepairAction:
        kept = finding.vectors[:1] if finding.check == "equal-vectors" else ()
        gone = finding.vectors[len(kept) :]
        why = f"all but {kept[0].where}, which has the same rows" if kept else "its data file is gone"
        return RepairAction(
            "drop-vectors",
            f"commit the removal of {', '.join(vector.where for vector in gone)}: {why}",
            (finding.check,),
            finding.data_file,
            gone,
            details={"keeps": [place(vector) for vector in kept]},
        )

    def _recover(self, finding: Finding) -> RepairAction | None:
        """Plan what replaces a vector that cannot be read; None if that of position deletes, or of no data file."""
        vector = finding.vectors[0]
        if vector.format == POSITION_DELETES or vector.data_file not in self._snapshot.files:
            return None
        return self._correct_bits(finding) or self._take_from_snapshot(finding) or self._restore_rows(finding)

    def _correct_bits(self, finding: Finding) -> RepairAction | None:
        vector = finding.vectors[0]
        found = _corrected(self._snapshot, vector)
        if found is None:
            return None
        rows = counted(found.rows.cardinality, "row")
        message = f"commit the vector of {vector.data_file} without {found.describe(vector.offset or 0)}, of {rows}"
        message += found.caution
        return _of_vectors(finding, "correct-bits", message, finding.vectors, self._snapshot, found.rows.cardinality)

    def _take_from_snapshot(self, finding: Finding) -> RepairAction | None:
        vector = finding.vectors[0]
        found = self._older.find(vector)
        if found is None:
            return None
        snapshot, older, rows = found
        left = None if vector.cardinality is None else vector.cardinality - rows.cardinality
        if left is not None and left < 0:  # rows were restored since: they would be deleted again
            return None
        lost = "an unknown number of" if left is None else f"at least {left}"
        changes = f"{lost} rows that were deleted since become live again, and rows restored since are deleted again"
        message = (
            f"commit the vector of snapshot {snapshot.info.id}, {older.where}, for {finding.data_file}, of "
            f"{counted(rows.cardinality, 'row')}; {changes if left != 0 else 'as many as recorded, perhaps others'}"
        )
        action = _of_vectors(finding, "take-from-snapshot", message, (older,), snapshot, rows.cardinality)
        return replace(action, details={"recorded_cardinality": vector.cardinality, "lossless": False})

    def _restore_rows(self, finding: Finding) -> RepairAction:
        vector = finding.vectors[0]
        rows = "an unknown number of rows" if vector.cardinality is None else counted(vector.cardinality, "row")
        message = f"commit the removal of the vector of {vector.data_file}, whose {rows} become live again"
        action = _of_vectors(finding, "restore-rows", message)
        return replace(action, details={"recorded_cardinality": vector.cardinality, "lossless": False})

    def _correct_cardinality(self, finding: Finding) -> RepairAction | None:
        vector = finding.vectors[0]
        if finding.actual is None or not finding.actual.isdigit() or vector in self._right or vector in self._shared:
            return None
        message = f"commit {finding.actual} as the cardinality of {finding.vector}, if it is the right vector"
        return _of_vectors(finding, "correct-cardinality", message, cardinality=int(finding.actual))

    def _correct_file_size(self, finding: Finding) -> RepairAction | None:
        if finding.actual is None or self._lost.intersection(finding.vectors):
            return None
        return RepairAction(
            "correct-file-size",
            f"commit {finding.actual} as the bytes of {finding.path}",
            (finding.check,),
            replaces=finding.vectors,
            path=finding.path,
            details={"file_size": int(finding.actual)},
        )

    def _remove_file(self, finding: Finding) -> RepairAction:
        return RepairAction(
            "remove-file",
            f"remove {finding.path}, once no commit in progress can need it",
            (finding.check,),
            path=finding.path,
            details=finding.details,
        )

    plans: Mapping[str, Callable[[_Planner, Finding], RepairAction | None]] = {
        "equal-vectors": _drop,
        "gone-data-file": _drop,
        "cardinality": _correct_cardinality,
        "file-size": _correct_file_size,
        "orphan-vector-file": _remove_file,
        "orphan-data-file": _remove_file,
        **dict.fromkeys(_UNREADABLE, _recover),
        **dict.fromkeys(rules.OF_ANOTHER, _describe),
        **dict.fromkeys(_COMBINED.keys() - _BESIDE, _combine),
    }


class _Older:
    """Finds valid vectors in the ancestors of a snapshot, newest first; it ends at the first with corrupt metadata."""

    def __init__(self, table: Table, snapshot: Snapshot) -> None:
        self._table = table
        self._snapshot = snapshot
        self._failed: set[tuple[str, Hashable]] = set()
        self._snapshots: list[Snapshot] = []
        self._seen: set[tuple[int, int]] = set()
        self._left: Iterator[SnapshotInfo] | None = None

    def find(self, vector: DeletionVector) -> tuple[Snapshot, DeletionVector, RowSet] | None:
        """Return the newest other valid vector for the same data file, with its snapshot and rows; None without one."""
        file = None if vector.data_file is None else self._snapshot.files.get(vector.data_file)
        if file is None or vector.format == POSITION_DELETES:
            return None
        for snapshot in self._walk():
            found = snapshot.vectors_of(file) if file.path in snapshot.numbers else ()
            if not found:  # nothing was deleted of it then
                return None
            for other in found:
                tried = file.path, (_place(other), other.cardinality)
                if other.format == POSITION_DELETES or _place(other) == _place(vector) or tried in self._failed:
                    continue
                rows = _union(snapshot, [other])
                if rows is not None and not any(rules.positions(file, other, rows.max)):
                    return snapshot, other, rows
                if other.path:
                    self._failed.add(tried)
        return None

    def _walk(self) -> Iterator[Snapshot]:
        """Yield the ancestors, each read once.

        Those with the same files as a newer one, by the same manifest list, are omitted.
        """
        yield from self._snapshots
        if self._left is None:
            self._left = iter(_before(self._table.snapshots(), self._snapshot.info.id))
            self._opened = self._table.opener()
        for info in self._left:
            try:
                snapshot = self._opened(info.id)
            except MissingExtra:
                raise
            except (DvcodecError, OSError):
                return
            files = id(snapshot.data_files), id(snapshot.vectors)  # of tuples that `_snapshots` keeps
            if files in self._seen:
                continue
            self._seen.add(files)
            self._snapshots.append(snapshot)
            yield snapshot


def _of_vectors(
    finding: Finding,
    action: str,
    message: str,
    reads: tuple[DeletionVector, ...] = (),
    snapshot: Snapshot | None = None,
    cardinality: int | None = None,
) -> RepairAction:
    """Return an action that replaces the vectors of a finding; see `RepairAction`."""
    number = None if snapshot is None else snapshot.info.id
    fixes, file = (finding.check,), finding.data_file
    return RepairAction(action, message, fixes, file, finding.vectors, reads, number, cardinality)


def _right(finding: Finding) -> DeletionVector | None:
    """Return the vector of a finding in the place where its file's own metadata has it; None if that has no place."""
    offset, size = finding.details.get("offset"), finding.details.get("size")
    return None if offset is None else replace(finding.vectors[0], offset=offset, size=size)


def _before(infos: Sequence[SnapshotInfo], number: int) -> list[SnapshotInfo]:
    """Return the ancestors of a snapshot, newest first; without recorded parents, all earlier snapshots."""
    by_id = {info.id: info for info in infos}
    if all(info.parent is None for info in infos):
        return list(infos[: list(by_id).index(number)][::-1])
    found: list[SnapshotInfo] = []
    parent = by_id.pop(number).parent
    while parent is not None and parent in by_id:  # each once: hostile metadata may have a cycle
        found.append(by_id.pop(parent))
        parent = found[-1].parent
    return found


def _place(vector: DeletionVector) -> tuple[str, int | None, int | None]:
    return vector.path, vector.offset, vector.size


def _union(snapshot: Snapshot, vectors: Sequence[DeletionVector]) -> RowSet | None:
    """Return the union of vectors; None if one cannot be read."""
    try:
        return RowSet().union(*(found.rows for vector in vectors for found in snapshot.read(vector)))
    except MissingExtra:
        raise
    except (DvcodecError, OSError):
        return None


def _corrected(snapshot: Snapshot, vector: DeletionVector) -> Correction | None:
    """Return a vector without its damage, if `correct` finds it; inline vectors have no checksum."""
    if vector.format not in FRAMED or not vector.path or vector.offset is None or vector.size is None:
        return None
    storage = snapshot.table.folder.storage
    try:
        with storage.open(vector.location) as source:
            frame = read_frame(source, vector.offset, vector.size, storage.limits)
        found = correct(frame.view, cardinality=vector.cardinality, limits=storage.limits)
        rules.refuse(rules.positions(snapshot.files[str(vector.data_file)], vector, found.rows.max))
    except (DvcodecError, OSError):
        return None
    return found if found.changes else None


MENDED = frozenset({*_Planner.plans, *_STALE, *_BESIDE}) - {"orphan-vector-file", "orphan-data-file"}
"""Checks whose findings a repair may fix."""
_RESTORING = frozenset({"take-from-snapshot", "restore-rows"})
_LEFT = {
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


def commit_repair(plan: RepairPlan, table: Table, *, accept_restored_rows: bool = False) -> Repaired:
    """Commit the actions of a plan that need nothing but new vectors, all in one commit.

    These are ``correct-bits``, ``merge-vectors``, ``drop-vectors``, ``write-again``, ``correct-range``,
    ``correct-cardinality``, which takes the stored rows for the right ones, and ``correct-file-size``; and
    ``take-from-snapshot`` and ``restore-rows``, if that is accepted. The vectors are read and verified again, and
    merged.

    Args:
        plan: from `repair_plan`, for an audit of the current snapshot.
        table: the table for which it was made.
        accept_restored_rows: also commit actions that make deleted rows live again. If an older snapshot is valid, the
            engine's own restore may be better: it loses what was committed since, but nothing from before.

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
    check_type(accept_restored_rows, bool, "accept_restored_rows", "a bool")
    if (plan.table, plan.kind) != (table.location, table.kind):
        raise UsageError(f"the plan is for {plan.table}, not for {table.location}")
    writer, base, new, judged = _judged(plan, table, accept_restored_rows=accept_restored_rows)
    done = tuple(action for action, reason in judged if reason is None)
    left = tuple((action, reason) for action, reason in judged if reason is not None)
    deletes, writer.dropped = tuple(new.deletes(done)), new.dropped(done)
    if not deletes and not writer.dropped:
        return Repaired(base.info.id, False, (), left)
    with refreshed(table):
        snapshot, size = attempt(writer, Plan(base, deletes, 0, 0))
    return Repaired(snapshot, True, done, left, len(deletes), size)


def judge_repair(
    plan: RepairPlan, table: Table, *, accept_restored_rows: bool = False
) -> tuple[tuple[RepairAction, str | None], ...]:
    """Return the actions of a plan, each with the reason why `commit_repair` would leave it; None if it would not.

    Args:
        plan: see `commit_repair`.
        table: see `commit_repair`.
        accept_restored_rows: see `commit_repair`.

    Raises:
        UsageError, Unsupported, CommitConflict, DecodeError, OSError: see `commit_repair`.
    """
    return _judged(plan, table, accept_restored_rows=accept_restored_rows)[-1]


def _judged(
    plan: RepairPlan, table: Table, *, accept_restored_rows: bool
) -> tuple[Committer[Any], Snapshot, _NewVectors, tuple[tuple[RepairAction, str | None], ...]]:
    """Return the committer, the snapshot that it builds on, the new vectors, and the judged actions."""
    writer = committer_of(table)
    base = writer.current()
    if base.info.id != plan.snapshot:
        raise CommitConflict(
            f"{table.location}: the current snapshot is {base.info.id}, and {plan.snapshot} was audited: audit it again"
        )
    new = _NewVectors(base, plan, accept_restored_rows=accept_restored_rows)
    judged = tuple((action, new.reason(action)) for action in plan.actions)
    if any(reason is None for _, reason in judged):
        writer.check(base)
        writer.check_vectors(base)
    return writer, base, new, judged


class _NewVectors:
    """The vectors that replace those of data files."""

    def __init__(self, base: Snapshot, plan: RepairPlan, *, accept_restored_rows: bool) -> None:
        self._base = base
        self._accepted = accept_restored_rows
        self._cardinality: dict[DeletionVector, int | None] = {
            vector: action.cardinality
            for action in plan.actions
            if action.action == "correct-cardinality"
            for vector in action.replaces
        }
        self._right: dict[DeletionVector, DeletionVector] = {
            vector: read
            for action in plan.actions
            if action.action not in _RESTORING and action.reads and self._accepts(action)
            for vector, read in zip(action.replaces, action.reads, strict=True)
        }
        self._recovered: dict[DeletionVector, RepairAction] = {
            vector: action
            for action in plan.actions
            if action.action in _RESTORING | {"correct-bits"} and self._accepts(action)
            for vector in action.replaces
        }
        self._found: dict[str, FileDelete | str] = {}

    def _accepts(self, action: RepairAction) -> bool:
        return self._accepted or not action.restores_rows

    def reason(self, action: RepairAction) -> str | None:
        """Return why an action cannot be committed; None if it can."""
        if not self._accepts(action):
            return "deleted rows would be live again: committed if that is accepted (--accept-restored-rows)"
        if action.action in _LEFT:
            return _LEFT[action.action]
        for vector in action.replaces:
            found = self._of(vector)
            if isinstance(found, str):
                return found
            beside = self._lost_beside(vector)
            if beside is not None:
                return f"{beside.where} is in the same file, cannot be read, and would have to be written with it"
        return None

    def _lost_beside(self, vector: DeletionVector) -> DeletionVector | None:
        """Return a vector that cannot be read and, as Paimon commits, has to be written again with this one."""
        if self._base.table.kind is not TableKind.PAIMON:
            return None
        beside = (one for one in self._base.vectors if one.location == vector.location)
        return next((one for one in beside if isinstance(self._of(one), str)), None)

    def deletes(self, actions: tuple[RepairAction, ...]) -> Iterator[FileDelete]:
        """Yield what is committed for each data file of actions that can be.

        No vector stays in a file with damage: pyiceberg decodes all blobs of a Puffin file of which it needs one, and a
        checksum of the file system may cover several vectors.
        """
        wanted = {vector.data_file for action in actions for vector in action.replaces}
        damaged = {
            vector.location
            for action in actions
            for vector in action.replaces
            if vector in self._recovered or not (_DESCRIBED | rules.OF_ANOTHER).isdisjoint(action.fixes)
        }
        for vector in self._base.vectors:
            if vector.location and vector.location in damaged and isinstance(self._of(vector), FileDelete):
                wanted.add(vector.data_file)
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
            return (
                "it concerns position deletes: compact-deletes writes them anew, upgrade-deletes makes vectors of them"
            )
        file = self._base.files.get(str(vector.data_file))
        if file is None:
            return None
        if file.path not in self._found:
            self._found[file.path] = self._merge(file, self._base.vectors_of(file))
        return self._found[file.path]

    def _merge(self, file: DataFile, vectors: Sequence[DeletionVector]) -> FileDelete | str:
        """Return one vector for a data file, of all rows of its present ones; or why it is not known."""
        rows = RowSet()
        try:
            for vector in vectors:
                found = self._rows(vector)
                rules.refuse(rules.positions(file, vector, found.max))
                rows = rows | found
            whole = are_all_rows(self._base, file, rows)
        except MissingExtra:
            raise
        except (DvcodecError, OSError) as error:
            return " ".join(str(error).split())
        return FileDelete(file, tuple(vectors), rows, rows, whole)

    def _rows(self, vector: DeletionVector) -> RowSet:
        """Read a vector, as the actions for it want.

        Raises:
            DecodeError: it cannot be read, and none of them recovers it.
            UsageError: an older snapshot of an action is gone.
            OSError: a file cannot be read.
        """
        action = self._recovered.get(vector)
        if action is None:
            right = self._right.get(vector, vector)
            right = replace(right, cardinality=self._cardinality.get(vector, vector.cardinality))
            return RowSet().union(*(found.rows for found in self._base.read(right)))
        if action.action == "restore-rows":
            return RowSet()
        if action.action == "take-from-snapshot":
            older = self._base.table.snapshot(action.snapshot)
            return RowSet().union(*(found.rows for one in action.reads for found in older.read(one)))
        corrected = _corrected(self._base, vector)
        if corrected is None:
            raise NotCanonical("vector", source=vector.location, expected="the damage of the plan", actual="another")
        return corrected.rows
