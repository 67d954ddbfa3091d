"""The state of a version: the actions of a checkpoint and of the commits after it, replayed.

Specification: Delta's PROTOCOL.md, "Action Reconciliation": the newest ``protocol`` and ``metaData`` apply, and for
each logical file, identified by the data file's path and the vector's id, the newest ``add`` or ``remove``.

Checkpoints have all actions of a version in a few files, mostly Parquet ("Checkpoint Specs", "Checkpoint Schema"): a
column for each kind of action, a struct that is null in the rows of all others. A V2 checkpoint may be JSON, and may
leave ``add`` and ``remove`` to *sidecars*, Parquet files in ``_sidecars`` that it names.

Statistics that a checkpoint has as columns only (``stats_parsed``, of tables with
``delta.checkpoint.writeStatsAsJson=false``) become the JSON text of ``add.stats``, as Delta Spark makes it by Spark's
``to_json``: nulls are left out, times are cut down to milliseconds.

Commits are checked for what other readers refuse, or take for other files: the required fields of "Add File and Remove
File" and "Change Metadata"; and that two spellings of a path name one file, which is not specified:
delta-kernel-rs compares them as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical, Unsupported
from dvcodec.core.extras import pa, pc, pq
from dvcodec.core.json_text import parse_json
from dvcodec.io.parquet import column_chunks
from dvcodec.tables.delta.log import (
    LAST_CHECKPOINT,
    LOG,
    SIDECARS,
    AddFile,
    FileKey,
    Log,
    LogicalFile,
    Metadata,
    Protocol,
    parse_lines,
    plain_path,
)
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import SnapshotInfo
from dvcodec.tables.rows.data_file import open_metadata, physical_batches
from dvcodec.tables.snapshots.findings import Finding

_ESCAPED = r'["\\\x00-\x1f]'
_YEARS = ("0001-01-01", "9999-12-31")
"""Years that JSON writes in four digits; dates and times beyond are left out, as unknown."""


def json_text(values: pa.Array) -> pa.Array:
    r"""Return values as JSON text, a column at a time; null for nulls, and for types that have no statistics.

    >>> import pyarrow as pa
    >>> json_text(pa.array([{"minValues": {"a": 'x"', "b": None}}]))[0].as_py()
    '{"minValues":{"a":"x\\""}}'
    """
    types, kind = pa.types, values.type
    if types.is_struct(kind):
        return _object(values)
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return values.cast(pa.string())
    if types.is_floating(kind):
        text = values.cast(pa.string())
        for found, name in (("nan", '"NaN"'), ("-nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
            text = pc.if_else(pc.equal(text, found), name, text)
        return text
    if types.is_string(kind) or types.is_large_string(kind):
        return _quoted(_escaped(values.cast(pa.string())))
    if types.is_date(kind):
        return _quoted(_in_years(values.cast(pa.date32())).cast(pa.string()))
    if types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        moments = pc.floor_temporal(_in_years(values.cast(pa.timestamp(kind.unit))), unit="millisecond")
        text = moments.cast(pa.timestamp("ms")).cast(pa.string())
        return _quoted(pc.replace_substring(text, " ", "T"), zone)
    return pa.nulls(len(values), pa.string())


def _name(field: pa.Field) -> str:
    """Return what is in front of the value of a member."""
    return f",{json.dumps(field.name, ensure_ascii=False)}:"


def _object(values: pa.StructArray) -> pa.Array:
    members = [
        pc.binary_join_element_wise(_name(field), json_text(child), "")
        for field, child in zip(values.type, values.flatten(), strict=True)
    ]
    opening = pa.repeat(pa.scalar("{"), len(values))
    # Not joined by commas: where all members are null, pyarrow 26 then leaves out the row.
    text = pc.binary_join_element_wise(opening, *members, "}", "", null_handling="replace", null_replacement="")
    text = pc.replace_substring(text, "{,", "{", max_replacements=1)
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))


def _quoted(text: Any, end: str = "") -> Any:
    return pc.binary_join_element_wise('"', text, f'{end}"', "")


def _escaped(text: Any) -> Any:
    if not pc.any(pc.match_substring_regex(text, _ESCAPED)).as_py():
        return text
    for sign in ("\\", '"', *map(chr, range(0x20))):
        text = pc.replace_substring(text, sign, json.dumps(sign)[1:-1])
    return text


def _in_years(values: Any) -> Any:
    days = values.cast(pa.date32(), safe=False)
    first, last = (pa.scalar(text).cast(pa.date32()) for text in _YEARS)
    there = pc.and_(pc.greater_equal(days, first), pc.less_equal(days, last))
    return pc.if_else(there, values, pa.scalar(None, values.type))


_PARSED, _PARSED_ROWS = "stats_parsed", "stats_parsed.numRecords"
_FILE = (
    *("path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector"),
    *("baseRowId", "defaultRowCommitVersion", "clusteringProvider"),
)
_MEMBERS = {
    "add": (*_FILE, _PARSED_ROWS),
    "remove": (*_FILE, "deletionTimestamp", "extendedFileMetadata"),
    "metaData": (),
    "protocol": (),
    "sidecar": ("path",),
    "checkpointMetadata": ("version",),
    "txn": ("appId", "version"),
}
"""Members to read, by action; all if none is named. Column statistics are most of a checkpoint: they are read as text,
and as columns where there is no text."""
_BATCH_ROWS, _PARSED_BATCH_ROWS = 1 << 12, 1 << 8
"""Rows of a batch, whose statistics may have kilobytes each; and of one of which text is made, with all names in it."""


def read_checkpoint(
    folder: Folder, names: tuple[str, ...], version: int, known: set[str] | None = None
) -> Iterator[JsonFields]:
    """Yield the actions of a checkpoint, those in its sidecars too.

    Args:
        folder: the table's.
        names: names of its files in the log.
        version: the version that it must have.
        known: locations of sidecars to leave out, because their actions are known; those that are read are added.

    Raises:
        DecodeError: a file is corrupt.
        OSError: a file cannot be read.
    """
    sidecars, kinds = set(), set()
    for name in names:
        for action in _top(folder, name):
            kinds.add(action.where)
            if action.where == "sidecar":
                location = _sidecar(folder, action)
                if location in sidecars:
                    action.fail("path", "each sidecar once", f"{action.text('path')!r:.80} twice")
                sidecars.add(location)
                if known is None or location not in known:
                    yield from _actions(folder, location, ("add", "remove"))
            elif action.where == "checkpointMetadata" and action.integer("version") != version:
                action.fail("version", version, action.integer("version"))
            yield action
    if not kinds:
        raise NotCanonical("checkpoint", source=folder.join(f"{LOG}/{names[0]}"), expected="actions", actual="none")
    if known is not None:
        known |= sidecars


def read_sidecars(folder: Folder, name: str) -> Iterator[str]:
    """Yield the locations of the sidecars that a file of a checkpoint names.

    Raises:
        DecodeError: it is corrupt.
        OSError: it cannot be read.
    """
    for action in _top(folder, name, ("sidecar",)):
        if action.where == "sidecar":
            yield _sidecar(folder, action)


def _top(folder: Folder, name: str, kinds: tuple[str, ...] = tuple(_MEMBERS)) -> Iterator[JsonFields]:
    location = folder.join(f"{LOG}/{name}")
    if name.endswith(".json"):
        return parse_lines(folder.read(f"{LOG}/{name}"), location)
    return _actions(folder, location, kinds)


def _sidecar(folder: Folder, action: JsonFields) -> str:
    """Return the location of a sidecar: in the log's own folder, whether recorded by bare name or absolute path."""
    path = plain_path(action)
    above, _, name = path.rpartition("/")
    if name in ("", ".", "..") or (above and not f"/{above}".endswith(f"/{SIDECARS}")):
        action.fail("path", f"a file in {SIDECARS}", repr(path)[:80])
    return folder.join(f"{SIDECARS}/{name}")


def _actions(folder: Folder, location: str, kinds: tuple[str, ...]) -> Iterator[JsonFields]:
    """Yield the actions of a Parquet file, by kind in each batch."""
    with open_metadata(location, folder.storage) as file:
        folder.storage.limits.check("max_records", file.metadata.num_rows, location)
        schema = file.schema_arrow
        columns = _columns_of(schema, kinds, location)
        rows, all_, batch_rows = f"add.{_PARSED_ROWS}", f"add.{_PARSED}", _BATCH_ROWS
        if rows in columns and not _has_json(file):
            columns[columns.index(rows)] = all_
            batch_rows = _PARSED_BATCH_ROWS
        for start, batch in physical_batches(file, columns, batch_rows=batch_rows):
            for name in batch.schema.names:
                yield from _rows(batch.column(name), name, start, location)


def _columns_of(schema: pa.Schema, kinds: tuple[str, ...], location: str) -> list[str]:
    """Choose the `_MEMBERS` that exist."""
    found = []
    for name in kinds:
        if schema.get_field_index(name) < 0:
            continue
        kind = schema.field(name).type
        if not pa.types.is_struct(kind):
            raise NotCanonical(f"column {name}", source=location, expected="a struct", actual=kind)
        there = {field.name for field in kind}
        wanted = _MEMBERS[name] or sorted(there)
        found += [f"{name}.{member}" for member in wanted if member.partition(".")[0] in there]
    return found


def _has_json(file: pq.ParquetFile) -> bool:
    """Whether all data files of a checkpoint have statistics as text, by the counts of nulls in its footer."""
    leaves = {file.schema.column(i).path for i in range(len(file.schema))}
    path, text = wanted = ("add", "path"), ("add", "stats")
    if not leaves.issuperset(map(".".join, wanted)):
        return False
    known = column_chunks(file, wanted)
    if not known.keys() >= set(wanted):
        return False
    counts = ((paths.nulls, texts.nulls) for paths, texts in zip(known[path], known[text], strict=True))
    return all(paths is not None and texts is not None and texts <= paths for paths, texts in counts)


def _rows(column: pa.StructArray, name: str, start: int, location: str) -> Iterator[JsonFields]:
    """Yield the rows of one kind of action that are not null, by column: row by row pyarrow is far slower."""
    there = column.is_valid()
    numbers = pc.indices_nonzero(there).to_pylist()  # numpy would have pyarrow import pandas
    column = column.filter(there)
    try:
        values = {member: _values(array) for member, array in _members(column).items()}
    except (pa.ArrowException, ValueError, OverflowError) as err:  # text that is not UTF-8, a date out of range
        message = str(err)[:80]
        raise NotCanonical(f"column {name}", source=location, expected="readable values", actual=message) from None
    for number, members in zip(numbers, zip(*values.values(), strict=True), strict=True):
        record = {key: value for key, value in zip(values, members, strict=True) if value is not None}
        yield JsonFields(record, f"{location}, row {start + number}", name)


def _members(column: pa.StructArray) -> dict[str, pa.Array]:
    """Return the members of actions; statistics that are stored only as columns are converted to text."""
    found = {field.name: column.field(field.name) for field in column.type}
    parsed, text = found.get(_PARSED), found.get("stats")
    if parsed is None or not pa.types.is_struct(parsed.type) or parsed.type.num_fields < 2:
        return found
    if text is None or pa.types.is_string(text.type):
        made = json_text(parsed)
        found["stats"] = made if text is None else pc.coalesce(text, made)
    kept = [name for name in parsed.type.names if name == "numRecords"]
    found[_PARSED] = pa.StructArray.from_arrays([parsed.field(name) for name in kept], kept, mask=parsed.is_null())
    return found


def _values(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    if pa.types.is_map(array.type):
        return [None if entries is None else dict(entries) for entries in values]
    if pa.types.is_struct(array.type) and any(pa.types.is_map(field.type) for field in array.type):
        members = {field.name: _values(array.field(field.name)) for field in array.type}
        rows = (dict(zip(members, row, strict=True)) for row in zip(*members.values(), strict=True))
        return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]
    return values


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
