"""The actions of a repair plan.

Actions, each the `action` of its `RepairAction`:

- ``merge-vectors``: commit one new vector, the union of several for one data file;
- ``drop-vectors``: commit the removal of vectors: all but one of equal ones, or one whose data file is gone;
- ``rewrite-paths``: commit vectors for the current paths of their data files;
- ``take-from-snapshot``: commit the newest valid vector of an older snapshot for one that cannot be read. Rows that
  were deleted since become live again, and rows that were restored since may be deleted again; the message has a lower
  bound of the former, if known;
- ``write-again``: commit the same vector in a new file, for one that its Puffin file describes wrongly, or that is
  recorded in another partition than its data file;
- ``correct-range``: commit the vector from where its Puffin file has it, for one with another range in the metadata;
- ``correct-cardinality``, ``correct-file-size``: commit the counted number;
- ``remove-file``: remove a file that no snapshot needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dvcodec.tables.findings import Finding, place
from dvcodec.tables.model import DeletionVector, TableKind

__all__ = ["RepairAction", "RepairPlan"]


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
