"""Checks of the log's files: what other readers refuse, or take for other files.

Specification: Delta's PROTOCOL.md, "Add File and Remove File" and "Change Metadata", for the required fields.
That two spellings of a path name one file is not specified: delta-kernel-rs compares them as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dvcodec.core.errors import DecodeError
from dvcodec.tables.delta.actions import AddFile, FileKey
from dvcodec.tables.delta.log import LOG
from dvcodec.tables.findings import Finding
from dvcodec.tables.folder import Folder
from dvcodec.tables.json_fields import JsonFields

__all__ = ["ActionChecks", "damaged_checkpoint", "is_empty"]

_REQUIRED = {"add": ("modificationTime", "dataChange"), "remove": ("dataChange",), "metaData": ("id",)}
"""Fields that nothing here reads, but without which delta-kernel-rs reads no commit."""


@dataclass(slots=True)
class ActionChecks:
    """Findings about the replayed commits, from the last readable checkpoint on.

    Attributes:
        missing: kind of action and missing field -> the first action that lacks it.
        checkpoints: location -> the finding about a checkpoint that was skipped.
        respelled: path as text and id of the vector -> the finding about an action that spells it differently.
            Readers that compare text do not apply that action to the file.
    """

    missing: dict[tuple[str, str], Finding] = field(default_factory=dict)
    respelled: dict[FileKey, Finding] = field(default_factory=dict)
    checkpoints: dict[str, Finding] = field(default_factory=dict)

    def copy(self) -> ActionChecks:
        """Return a copy that later commits are added to."""
        return ActionChecks(dict(self.missing), dict(self.respelled), dict(self.checkpoints))

    def check(self, action: JsonFields, key: FileKey | None = None, older: AddFile | None = None) -> None:
        """Check an action of a commit.

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
        if older is not None and older.action["path"] != text:
            before = str(older.action["path"])
            what = f"{action.where}.path of a data file that was added"
            self.respelled[before, key[1]] = Finding.failed(
                "delta-path", what, repr(before), repr(text), data_file=older.path, path=action.source
            )

    def __iter__(self) -> Iterator[Finding]:
        """Yield one finding for each skipped checkpoint, each missing field and each path that is still open."""
        yield from self.checkpoints.values()
        yield from self.missing.values()
        yield from {path: finding for (path, _), finding in self.respelled.items()}.values()


def damaged_checkpoint(folder: Folder, names: Sequence[str], error: Exception) -> Finding:
    """Return the finding about a checkpoint that cannot be read: ``delta-checkpoint``, or ``delta-empty-checkpoint``.

    Args:
        folder: the table's.
        names: names of its files in the log.
        error: why not.

    Raises:
        OSError: the size of a file is not known.
    """
    location = folder.join(f"{LOG}/{names[0]}")
    if not isinstance(error, DecodeError):
        return Finding.failed("delta-checkpoint", "checkpoint", None, error, path=location)
    if is_empty(folder, names):
        return Finding.failed("delta-empty-checkpoint", "checkpoint", "actions", "an empty file", path=location)
    return Finding.from_error("delta-checkpoint", error, error.source or location)


def is_empty(folder: Folder, names: Iterable[str]) -> bool:
    """Whether a file of a checkpoint is empty: Delta Spark and delta-kernel-rs ignore the checkpoint.

    Raises:
        OSError: a size is not known.
    """
    return any(folder.storage.stat(folder.join(f"{LOG}/{name}")).size == 0 for name in names)
