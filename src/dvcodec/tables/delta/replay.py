"""The state of a version: the actions of a checkpoint and of the commits after it, replayed.

Specification: Delta's PROTOCOL.md, "Action Reconciliation": the newest ``protocol`` and ``metaData`` apply, and for
each logical file, identified by the data file's path and the vector's id, the newest ``add`` or ``remove``.

Checks of the log's files: what other readers refuse, or take for other files.

Specification: Delta's PROTOCOL.md, "Add File and Remove File" and "Change Metadata", for the required fields.
That two spellings of a path name one file is not specified: delta-kernel-rs compares them as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical, Unsupported
from dvcodec.core.json_text import parse_json
from dvcodec.tables.delta.actions import AddFile, FileKey, LogicalFile, Metadata, Protocol, parse_lines
from dvcodec.tables.delta.checkpoint import read_checkpoint
from dvcodec.tables.delta.log import LOG, Log
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import SnapshotInfo
from dvcodec.tables.snapshots.findings import Finding

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


@dataclass(frozen=True, slots=True)
class State:
    """The state of a table at a version.

    Attributes:
        version: the version.
        protocol: the protocol in effect.
        metadata: the metadata in effect.
        files: the live logical files, in log order.
        transactions: the newest ``version`` of each ``appId`` (actions ``txn``), for writers of streams.
        checks: what other readers refuse in its commits, or read differently.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    files: Mapping[FileKey, AddFile]
    transactions: Mapping[str, int] = field(default_factory=dict, repr=False)
    checks: ActionChecks = field(default_factory=ActionChecks, repr=False)


def rebuild(folder: Folder, log: Log, version: int, known: State | None = None) -> State:
    """Rebuild the state of a version that has passed `Log.check`.

    Args:
        folder: the table's.
        log: its log.
        version: which.
        known: a state at or before that version, to go on from if no checkpoint is nearer.

    Raises:
        DecodeError: the log is corrupt.
        OSError: it cannot be read.
    """
    replay, start = _begin(folder, log, version, known)
    for actions in read_commits(folder, log, range(start, version + 1)):
        replay.apply(actions)
    return replay.state(version, log.location)


def _begin(folder: Folder, log: Log, version: int, known: State | None) -> tuple[Replay, int]:
    """Return the nearest state from which a version is rebuilt, and the first commit to be replayed.

    A damaged checkpoint is skipped, as by Delta Spark, if the commits before it are there; audits report it.
    """
    damaged: dict[str, Finding] = {}
    for base in sorted((one for one in log.checkpoints if one <= version), reverse=True):
        if known is not None and known.version >= base:
            break
        failed = None
        for names in log.checkpoints[base]:
            location = folder.join(f"{LOG}/{names[0]}")
            replay = Replay()
            try:
                replay.apply(read_checkpoint(folder, names, base), ordered=False)
                replay.state(base, location)
            except (LimitExceeded, Unsupported):
                raise
            except (DecodeError, FileNotFoundError) as error:
                failed = failed or error
                damaged[location] = damaged_checkpoint(folder, names, error)
            else:
                replay.checks.checkpoints.update(damaged)
                return replay, base + 1
        if failed is not None and log.needs(base):
            raise failed
    replay, start = (Replay(), 0) if known is None else (Replay.after(known), known.version + 1)
    replay.checks.checkpoints.update(damaged)
    return replay, start


def read_commits(folder: Folder, log: Log, versions: Iterable[int]) -> Iterator[Iterable[JsonFields]]:
    """Yield the actions of commits; several files are read concurrently if they are remote.

    Raises:
        DecodeError: one is corrupt.
        OSError: one cannot be read.
    """
    names = [f"{LOG}/{log.commits[version]}" for version in versions]
    for name, data in zip(names, folder.read_each(names), strict=True):
        yield parse_lines(data, folder.join(name))


class Replay:
    """The state of a table while actions are applied to it.

    Attributes: see `State`.
    """

    def __init__(self) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.files: dict[FileKey, AddFile] = {}
        self.checks = ActionChecks()
        self.transactions: dict[str, int] = {}

    @classmethod
    def after(cls, state: State) -> Replay:
        """Go on from a state, which stays as it is."""
        made = cls()
        made.protocol, made.metadata, made.files = state.protocol, state.metadata, dict(state.files)
        made.checks, made.transactions = state.checks.copy(), dict(state.transactions)
        return made

    def apply(self, actions: Iterable[JsonFields], *, ordered: bool = True) -> Mapping[FileKey, AddFile | None]:
        """Apply the actions of a commit or a checkpoint, which has at most one protocol and one metadata.

        A checkpoint's actions are not ordered: no file in it is both live and removed.

        Returns:
            The logical files that were added or removed, each as it was before; None = not live.
        """
        before: dict[FileKey, AddFile | None] = {}
        seen = set()
        removed = set()
        for action in actions:
            if action.where in ("add", "remove"):
                file = AddFile.parse(action) if action.where == "add" else LogicalFile.parse(action)
                key = file.key
                older = self.files.pop(key, None)
                before.setdefault(key, older)
                if isinstance(file, AddFile):
                    self.files[key] = file  # the newest comes last
                elif not ordered:
                    removed.add(key)
                if ordered:
                    self.checks.check(action, key, older)
                elif key in removed and (older is not None or key in self.files):
                    actual = f"both of {action.text('path')!r:.80}"
                    action.fail("path", "a file that is either live or removed", actual)
            elif action.where == "txn":
                self.transactions[action.text("appId")] = action.integer("version")
            elif action.where in ("protocol", "metaData"):
                if action.where in seen:
                    what = f"second {action.where}"
                    raise NotCanonical(what, source=action.source, expected="one in a version", actual="another")
                seen.add(action.where)
                if action.where == "protocol":
                    self.protocol = Protocol.parse(action)
                else:
                    self.metadata = Metadata.parse(action)
                    if ordered:
                        self.checks.check(action)
        return before

    def state(self, version: int, source: str) -> State:
        """Return the state, which further actions change.

        Raises:
            NotCanonical: protocol or metadata is missing.
        """
        if self.protocol is None or self.metadata is None:
            what = "protocol" if self.protocol is None else "metaData"
            raise NotCanonical(what, source=source, expected=f"one up to version {version}", actual="none")
        return State(version, self.protocol, self.metadata, self.files, self.transactions, self.checks)


def commit_infos(folder: Folder, log: Log, versions: Iterable[int]) -> Iterator[SnapshotInfo]:
    """Yield the information of commits about themselves; all of it is optional.

    Raises:
        OSError: one cannot be read.
    """
    versions = list(versions)
    names = {version: f"{LOG}/{log.commits[version]}" for version in versions if version in log.commits}
    data = folder.read_each(names.values())
    for version in versions:
        yield _info(version, next(data) if version in names else b"", folder.join(names.get(version, LOG)))


def _info(version: int, data: bytes, source: str) -> SnapshotInfo:
    parent = version - 1 if version else None
    found: dict[str, Any] = {}
    for line in data.split(b"\n"):
        if b'"commitInfo"' in line:  # the other lines are most of a log
            try:
                info = parse_json(line, source, "commitInfo")["commitInfo"]
            except (NotCanonical, KeyError, TypeError):
                continue
            found = info if isinstance(info, dict) else {}
            break
    times = [found.get("inCommitTimestamp"), found.get("timestamp")]
    timestamp = next((time for time in times if type(time) is int and 0 <= time < 2**63), None)
    operation = found.get("operation")
    return SnapshotInfo(version, timestamp, operation if isinstance(operation, str) else None, parent)
