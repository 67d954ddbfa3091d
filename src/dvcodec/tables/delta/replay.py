"""The state of a version: the actions of a checkpoint and of the commits after it, replayed.

Specification: Delta's PROTOCOL.md, "Action Reconciliation": the newest ``protocol`` and ``metaData`` apply, and for
each logical file, identified by the data file's path and the vector's id, the newest ``add`` or ``remove``.

Commits are checked for what other readers refuse, or take for other files: the required fields of "Add File and Remove
File" and "Change Metadata"; and that two spellings of a path name one file, which is not specified:
delta-kernel-rs compares them as text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical, Unsupported
from dvcodec.core.extras import pa, pc
from dvcodec.core.json_text import parse_json
from dvcodec.core.ragged import Flags, Index
from dvcodec.tables.columns import numbers_of
from dvcodec.tables.delta.actions import (
    Actions,
    Columns,
    Partition,
    as_numbers,
    commit_actions,
    integer_bounds,
    kind_of,
    may_be_between,
    read_batches,
)
from dvcodec.tables.delta.log import (
    LAST_CHECKPOINT,
    LOG,
    AddFile,
    FileKey,
    Log,
    LoggedVector,
    LogicalFile,
    Metadata,
    Protocol,
    vector_path,
)
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import SnapshotInfo
from dvcodec.tables.rows.bounds import Range
from dvcodec.tables.snapshots.findings import Finding

Value = TypeVar("Value", bound=Hashable)
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


def check_hint(folder: Folder, log: Log) -> Iterator[Finding]:
    """Find a ``_last_checkpoint`` that names a missing or empty checkpoint (``delta-checkpoint``).

    delta-kernel-rs, and deltalake with it, opens no such table: it lists the log from that version on. A hint that is
    not JSON with a version is ignored, by them too.

    Raises:
        LimitExceeded: the hint has too many values for its size.
        OSError: it cannot be read.
    """
    if LAST_CHECKPOINT not in log.names:
        return
    name = f"{LOG}/{LAST_CHECKPOINT}"
    try:
        version = parse_json(folder.read(name), folder.join(name), "hint")["version"]
    except (NotCanonical, KeyError, TypeError):
        return
    if type(version) is not int:
        return
    there = (names for found in log.checkpoints if found >= version for names in log.checkpoints[found])
    if all(is_empty(folder, names) for names in there):
        what, expected = "checkpoint that is named as the last", f"version {version}"
        yield Finding.failed("delta-checkpoint", what, expected, "none from there on", path=folder.join(name))


class LogicalFiles(MutableMapping[FileKey, AddFile]):
    """The live logical files, in log order. Those of a checkpoint in columns are parsed when they are looked at.

    Args:
        known: files that were parsed.
    """

    def __init__(self, known: Mapping[FileKey, AddFile] = MappingProxyType({})) -> None:
        self._parts: list[Columns | dict[FileKey, AddFile]] = [dict(known)]
        self._numbers: dict[str, int] = {}
        """Paths of files in columns, and their places in `_in_columns`. Copies share both: nothing is added to them."""
        self._in_columns: list[tuple[int, Columns]] = []
        self._gone: set[int] = set()
        self._has_copies = False
        self._parsed_paths = {path for path, _ in known}

    def add(self, actions: Columns) -> bool:
        """Add the files of usual actions, unless a path is there twice then; return whether they were added.

        Nothing is added to files of which there are copies.
        """
        if self._has_copies or not actions.are_usual:
            return False
        paths, first = actions.paths, len(self._numbers)
        new = dict(zip(paths, range(first, first + len(paths)), strict=True))
        if len(new) < len(paths) or not self._numbers.keys().isdisjoint(new) or not self._parsed_paths.isdisjoint(new):
            return False
        self._numbers.update(new)
        self._in_columns.append((first, actions))
        self._parts.append(actions)
        return True

    def listed(self) -> Listed:
        """Return the files as they are now."""
        parts: list[tuple[Columns, Index] | Sequence[AddFile]] = []
        gone = np.sort(np.fromiter(self._gone, np.int64, len(self._gone)))
        starts = {id(actions): first for first, actions in self._in_columns}
        for part in self._parts:
            if isinstance(part, Columns):
                first = starts[id(part)]
                low, high = np.searchsorted(gone, [first, first + len(part)])
                parts.append((part, np.delete(np.arange(len(part)), gone[low:high] - first)))
            elif part:
                parts.append(list(part.values()))
        return Listed(parts)

    def parsed(self) -> dict[FileKey, AddFile]:
        """Return the files that are not in columns."""
        return {key: file for part in self._parts if isinstance(part, dict) for key, file in part.items()}

    def in_columns(self, path: str) -> dict[FileKey, AddFile]:
        """Return the file with a path that is in columns, if there is one and it is live."""
        found = self._find(path)
        return {} if found is None else {found[0].key(found[1]): AddFile.parse(found[0][found[1]])}

    def _find(self, path: str) -> tuple[Columns, int] | None:
        number = self._numbers.get(path)
        if number is None or number in self._gone:
            return None
        first, actions = self._in_columns[bisect_right(self._in_columns, number, key=itemgetter(0)) - 1]
        return actions, number - first

    def _part_of(self, key: FileKey) -> tuple[Columns, int] | dict[FileKey, AddFile] | None:
        """Return where a file is; None if it is not live."""
        found = self._find(key[0])
        if found is not None and found[0].key(found[1]) == key:
            return found
        for part in self._parts:
            if isinstance(part, dict) and key in part:
                return part
        return None

    def copy(self) -> LogicalFiles:
        """Return a copy that later commits change."""
        copy = LogicalFiles()
        copy._has_copies = self._has_copies = True
        copy._parts = [dict(part) if isinstance(part, dict) else part for part in self._parts]
        copy._numbers, copy._in_columns, copy._gone = self._numbers, self._in_columns, set(self._gone)
        return copy

    def __getitem__(self, key: FileKey) -> AddFile:
        part = self._part_of(key)
        if part is None:
            raise KeyError(key)
        return part[key] if isinstance(part, dict) else AddFile.parse(part[0][part[1]])

    def __setitem__(self, key: FileKey, file: AddFile) -> None:
        if key in self:
            del self[key]
        if not isinstance(self._parts[-1], dict):
            self._parts.append({})
        cast("dict[FileKey, AddFile]", self._parts[-1])[key] = file
        self._parsed_paths.add(key[0])

    def __delitem__(self, key: FileKey) -> None:
        part = self._part_of(key)
        if part is None:
            raise KeyError(key)
        if isinstance(part, dict):
            del part[key]
        else:
            self._gone.add(self._numbers[key[0]])

    def __contains__(self, key: object) -> bool:
        return self._part_of(cast("FileKey", key)) is not None

    def __iter__(self) -> Iterator[FileKey]:
        return (file.key for file in self.listed())

    def __len__(self) -> int:
        return len(self._numbers) - len(self._gone) + len(self.parsed())


class Listed:
    """Live logical files in log order, with what is known of them in columns. Files are parsed when looked at.

    Args:
        parts: actions in columns and the rows of the live ones; files that were parsed.
    """

    def __init__(self, parts: Sequence[tuple[Columns, Index] | Sequence[AddFile]]) -> None:
        self._parts = parts
        self._stops = list(accumulate(len(part[1] if isinstance(part, tuple) else part) for part in parts))
        self._looked_at: dict[int, AddFile] = {}

    def __len__(self) -> int:
        return self._stops[-1] if self._stops else 0

    def __iter__(self) -> Iterator[AddFile]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> AddFile:
        found = self._looked_at.get(number)
        if found is None:
            place = bisect_right(self._stops, number)
            part = self._parts[place]
            inner = number - (self._stops[place - 1] if place else 0)
            found = AddFile.parse(part[0][int(part[1][inner])]) if isinstance(part, tuple) else part[inner]
            self._looked_at[number] = found
        return found

    def parsed(self) -> Iterator[int]:
        """Yield the numbers of the files that are not in columns."""
        for stop, part in zip(self._stops, self._parts, strict=True):
            if not isinstance(part, tuple):
                yield from range(stop - len(part), stop)

    @cached_property
    def paths(self) -> list[str]:
        """The paths of their data files."""
        return self._texts(lambda file: file.path)

    def path_keys(self) -> list[str]:
        """Return the first members of their keys."""
        return self._texts(lambda file: file.key[0])

    @cached_property
    def sizes(self) -> Index:
        """Bytes of their data files; see `numbers_of`."""
        return self._numbers("sizes", lambda one: one.size)

    @cached_property
    def rows(self) -> Index:
        """Physical rows of their data files; see `numbers_of`."""
        return self._numbers("rows", lambda one: one.rows)

    @cached_property
    def has_vector(self) -> Flags:
        """Which have a vector."""
        return self._numbers("has_vector", lambda one: one.vector is not None).astype(np.bool_)

    @cached_property
    def have_statistics(self) -> Flags:
        """Which may have statistics."""
        return self._numbers("may_have_statistics", lambda one: one.action.get("stats") is not None).astype(np.bool_)

    def vector_paths(self) -> list[str]:
        """Return `LoggedVector.path` of each file that has a vector."""
        parts = (
            [vector_path("u", text) for text in part[0].vector_member("pathOrInlineDv", part[1]).to_pylist()]
            if isinstance(part, tuple)
            else [one.path for one in _vectors(part)]
            for part in self._parts
        )
        return list(chain.from_iterable(parts))

    def vector_numbers(self, member: str, of_vector: Callable[[LoggedVector], int | None]) -> Index:
        """Return a number of each file that has a vector; see `numbers_of`.

        Args:
            member: of the descriptors of files in columns.
            of_vector: returns the number of another vector.
        """
        return self._joined(
            lambda actions, rows: as_numbers(actions.vector_member(member, rows)),
            lambda files: numbers_of(of_vector(one) for one in _vectors(files)),
        )

    def partitions(self) -> tuple[Index, Sequence[Partition]]:
        """Return the different partition values, in the order of the first file, and which of them each file has."""
        known: dict[Partition, int] = {}
        found = []
        for part in self._parts:
            if isinstance(part, tuple):
                codes, values = part[0].partitions[0][part[1]], part[0].partitions[1]
            else:
                each = [tuple(one.partition_values.items()) for one in part]
                values = list(dict.fromkeys(each))
                of_value = {value: code for code, value in enumerate(values)}
                codes = np.array([of_value[value] for value in each], np.int64)
            found.append(_numbered(codes, values, known))
        return np.concatenate([np.zeros(0, np.int64), *found]), list(known)

    def in_range(self, name: str, kind: pa.DataType, wanted: Range) -> Flags:
        """Return which files may have values of a column in a range: bool[n].

        Args:
            name: the physical name of the column.
            kind: its type, an integer.
            wanted: the range.
        """

        def of_columns(actions: Columns, rows: Index) -> Flags:
            found = actions.may_have(name, kind, wanted)
            return np.ones(len(rows), np.bool_) if found is None else found[rows]

        def of_files(files: Sequence[AddFile]) -> Flags:
            texts = (one.action.get("stats") for one in files)
            objects = [
                one.encode(errors="replace") if isinstance(one, str) and one.startswith("{") else None for one in texts
            ]
            found = may_be_between(integer_bounds(pa.array(objects, pa.string()), name, kind), wanted)
            return np.ones(len(files), np.bool_) if found is None else found

        return self._joined(of_columns, of_files).astype(np.bool_)

    def may_match(self, pattern: str) -> Flags:
        """Return which files may have statistics that match a pattern of RE2: all that are not in columns.

        Args:
            pattern: the regular expression.
        """

        def of_columns(actions: Columns, rows: Index) -> Flags:
            text = actions.statistics
            if text is None:
                return np.ones(len(rows), np.bool_)
            return np.asarray(pc.fill_null(pc.match_substring_regex(text, pattern), True))[rows]

        return self._joined(of_columns, lambda files: np.ones(len(files), np.bool_)).astype(np.bool_)

    def _texts(self, of_file: Callable[[AddFile], str]) -> list[str]:
        """Return the paths of files in columns, each of which is its own key, and a text of each of the others."""
        parts = (_paths(*part) if isinstance(part, tuple) else map(of_file, part) for part in self._parts)
        return list(chain.from_iterable(parts))

    def _numbers(self, column: str, of_file: Callable[[AddFile], int | None]) -> NDArray[Any]:
        """Return a number of each file: an attribute of `Columns`, and that of the others."""
        return self._joined(
            lambda actions, rows: getattr(actions, column)[rows], lambda files: numbers_of(map(of_file, files))
        )

    def _joined(
        self,
        of_columns: Callable[[Columns, Index], NDArray[Any]],
        of_files: Callable[[Sequence[AddFile]], NDArray[Any]],
    ) -> NDArray[Any]:
        parts = [of_columns(*part) if isinstance(part, tuple) else of_files(part) for part in self._parts]
        return np.concatenate([np.zeros(0, np.int64), *parts])


def _vectors(files: Iterable[AddFile]) -> Iterator[LoggedVector]:
    return (one.vector for one in files if one.vector is not None)


def _numbered(codes: Index, values: Sequence[Value], known: dict[Value, int]) -> Index:
    """Number values by a dictionary, to which new ones are added in the order of their first code.

    Args:
        codes: int64[n], which of the values each has; some may have none.
        values: different values.
        known: values and their numbers.
    """
    present, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    numbers = np.zeros(len(present), np.int64)
    for place in np.argsort(first).tolist():
        numbers[place] = known.setdefault(values[present[place]], len(known))
    return numbers[inverse.reshape(-1)]


def _paths(actions: Columns, rows: Index) -> list[str]:
    return actions.paths if len(rows) == len(actions) else [actions.paths[row] for row in rows.tolist()]


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
    files: LogicalFiles
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
                replay.begin(read_batches(folder, names, base))
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


def read_commits(folder: Folder, log: Log, versions: Iterable[int]) -> Iterator[Iterable[Actions]]:
    """Yield the actions of commits; several files are read concurrently if they are remote.

    Raises:
        DecodeError: one is corrupt.
        OSError: one cannot be read.
    """
    names = [f"{LOG}/{log.commits[version]}" for version in versions]
    for name, data in zip(names, folder.read_each(names), strict=True):
        yield commit_actions(data, folder.join(name))


class Replay:
    """The state of a table while actions are applied to it.

    Attributes: see `State`.
    """

    def __init__(self) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.files = LogicalFiles()
        self.checks = ActionChecks()
        self.transactions: dict[str, int] = {}

    @classmethod
    def after(cls, state: State) -> Replay:
        """Go on from a state, which stays as it is."""
        made = cls()
        made.protocol, made.metadata, made.files = state.protocol, state.metadata, state.files.copy()
        made.checks, made.transactions = state.checks.copy(), dict(state.transactions)
        return made

    def begin(self, batches: Iterable[Actions]) -> None:
        """Apply the actions of a checkpoint. They are not ordered: no file in it is both live and removed."""
        seen: set[str] = set()
        removed: set[FileKey] = set()
        for actions in batches:
            where = kind_of(actions)
            if isinstance(actions, Columns) and actions.are_usual:
                if where == "add" and (not removed or removed.isdisjoint(actions.keys)) and self.files.add(actions):
                    continue
                if where == "remove" and not any(key in self.files for key in actions.keys):
                    removed.update(actions.keys)
                    continue
            for action in actions:
                if where not in ("add", "remove"):
                    self._other(action, seen)
                    continue
                file = AddFile.parse(action) if where == "add" else LogicalFile.parse(action)
                key = file.key
                was_live = self.files.pop(key, None) is not None
                if isinstance(file, AddFile):
                    self.files[key] = file
                else:
                    removed.add(key)
                if key in removed and (was_live or key in self.files):
                    actual = f"both of {action.text('path')!r:.80}"
                    action.fail("path", "a file that is either live or removed", actual)

    def apply(self, commit: Iterable[Actions]) -> Mapping[FileKey, AddFile | None]:
        """Apply the actions of a commit, which has at most one protocol and one metadata.

        Returns:
            The logical files that were added or removed, each as it was before; None = not live.
        """
        before: dict[FileKey, AddFile | None] = {}
        seen: set[str] = set()
        for actions in commit:
            if isinstance(actions, Columns) and not self.checks.respelled and self.files.add(actions):
                before.update(dict.fromkeys(actions.keys))
            else:
                self._apply(actions, before, seen)
        return before

    def _apply(self, actions: Iterable[JsonFields], before: dict[FileKey, AddFile | None], seen: set[str]) -> None:
        for action in actions:
            if action.where in ("add", "remove"):
                file = AddFile.parse(action) if action.where == "add" else LogicalFile.parse(action)
                key = file.key
                older = self.files.pop(key) if key in self.files else None  # an exception for each file takes longer
                before.setdefault(key, older)
                if isinstance(file, AddFile):
                    self.files[key] = file  # the newest comes last
                self.checks.check(action, key, older)
            else:
                self._other(action, seen)
                if action.where == "metaData":
                    self.checks.check(action)

    def _other(self, action: JsonFields, seen: set[str]) -> None:
        """Apply an action that is not one of a logical file.

        Args:
            action: it.
            seen: kinds of which a version has one, and which it had; the action's is added.
        """
        if action.where == "txn":
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
