"""What the commits of a log say that other readers refuse, or read as other files.

Specification: Delta's PROTOCOL.md, "Add File and Remove File" and "Change Metadata", for the members that are
required. That two spellings of a path are one file is not specified: delta-kernel-rs compares them as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dvcodec.tables.delta.actions import AddFile, FileKey
from dvcodec.tables.findings import Finding
from dvcodec.tables.members import Members

__all__ = ["Doubts"]

_REQUIRED = {"add": ("modificationTime", "dataChange"), "remove": ("dataChange",), "metaData": ("id",)}
"""Members that nothing here reads, and without which delta-kernel-rs reads no commit."""


@dataclass(slots=True)
class Doubts:
    """Doubts about the commits that were replayed, since the checkpoint before them.

    Attributes:
        missing: kind of action and missing member -> the first action that lacks it.
        respelled: path as text and id of the vector -> what another spelling did to that file. To readers that compare
            text the file is live as it was.
    """

    missing: dict[tuple[str, str], Finding] = field(default_factory=dict)
    respelled: dict[FileKey, Finding] = field(default_factory=dict)

    def copy(self) -> Doubts:
        """Return doubts for a later version to go on from."""
        return Doubts(dict(self.missing), dict(self.respelled))

    def see(self, action: Members, key: FileKey | None = None, older: AddFile | None = None) -> None:
        """Look at an action of a commit.

        Args:
            action: of any kind.
            key: identity of its logical file, if it has one.
            older: the action of the same logical file that it replaces or removes.
        """
        for name in _REQUIRED[action.where]:
            if action.values.get(name) is None and (action.where, name) not in self.missing:
                what = f"{action.where}.{name}"
                found = Finding.failed("delta-action", what, "a value", "none", path=action.source)
                self.missing[action.where, name] = found
        if key is None:
            return
        text = str(action.values["path"])
        if self.respelled:
            self.respelled.pop((text, key[1]), None)
        if older is not None and older.record["path"] != text:
            before = str(older.record["path"])
            what = f"{action.where}.path of a data file that was added"
            self.respelled[before, key[1]] = Finding.failed(
                "delta-path", what, repr(before), repr(text), data_file=older.path, path=action.source
            )

    def __iter__(self) -> Iterator[Finding]:
        """Yield what is left of them, one finding for each member and each path."""
        yield from self.missing.values()
        yield from {path: finding for (path, _), finding in self.respelled.items()}.values()
