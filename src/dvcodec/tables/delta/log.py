"""The log in ``_delta_log``: its files by version, and the actions in them, with their types checked.

Specification: Delta's PROTOCOL.md, "Delta Log Entries", "Checkpoints", "Log Compaction Files"::

    00000000000000000007.json                                            commit
    00000000000000000007.checkpoint.parquet                              checkpoint, classic
    00000000000000000007.checkpoint.0000000001.0000000002.parquet        one of several parts
    00000000000000000007.checkpoint.<uuid>.json | .parquet               V2: its files may be in _sidecars/
    00000000000000000004.00000000000000000007.compacted.json             versions 4 to 7 in one file
    00000000000000000007.crc                                             numbers of a version

The whole folder is listed; only audits read ``_last_checkpoint``, a hint to avoid the listing. Compacted files
are not read: the commits that they replace are kept too.

Actions are lines of a commit or rows of a checkpoint ("Actions"). Unknown actions and members are ignored, as the
protocol requires: whatever must not be ignored is announced as a reader feature.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any, TypeAlias
from urllib.parse import unquote

from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.json_text import parse_json
from dvcodec.delta import Descriptor
from dvcodec.io.target import file_key, is_url, local_name
from dvcodec.tables.metadata.json_fields import JsonFields, is_path
from dvcodec.tables.model import Record

LOG = "_delta_log"
SIDECARS = f"{LOG}/_sidecars"
LAST_CHECKPOINT = "_last_checkpoint"
_VERSION = "([0-9]{20})"
_COMMIT = re.compile(rf"{_VERSION}\.json")
_CHECKPOINT = re.compile(
    rf"{_VERSION}\.checkpoint\.(?:parquet|([0-9]{{10}})\.([0-9]{{10}})\.parquet|[0-9A-Za-z-]{{36}}\.(?:json|parquet))"
)
_OTHER = re.compile(rf"{_VERSION}\.crc|{_VERSION}\.{_VERSION}\.compacted\.json|{LAST_CHECKPOINT}")


@dataclass(frozen=True, slots=True)
class Log:
    """The files of a log by version.

    Attributes:
        location: location of the log's folder, for errors.
        commits: version -> name.
        checkpoints: version -> its checkpoints, each the names of its files, all there. Any of several will do.
        names: names of all files that belong to the log.
    """

    location: str
    commits: Mapping[int, str]
    checkpoints: Mapping[int, tuple[tuple[str, ...], ...]]
    names: frozenset[str]

    @classmethod
    def from_names(cls, location: str, names: Iterable[str]) -> Log:
        """Sort the file names in a log's folder; other files are ignored.

        >>> log = Log.from_names("log", [f"{v:020}.json" for v in (3, 4, 5)] + [f"{3:020}.checkpoint.parquet"])
        >>> log.versions
        (3, 4, 5)
        """
        commits: dict[int, str] = {}
        parts: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
        found: dict[int, list[tuple[str, ...]]] = defaultdict(list)
        kept = set()
        for name in names:
            if match := _COMMIT.fullmatch(name):
                commits[int(match[1])] = name
            elif match := _CHECKPOINT.fullmatch(name):
                if match[2] is None:
                    found[int(match[1])].append((name,))
                else:
                    parts[int(match[1]), int(match[3])][int(match[2])] = name
            elif not _OTHER.fullmatch(name):
                continue
            kept.add(name)
        for (version, count), named in parts.items():
            if len(named) == count and min(named) == 1 and max(named) == count:
                found[version].append(tuple(named[part] for part in sorted(named)))
            else:
                kept.difference_update(named.values())  # incomplete: readers have to ignore it
        checkpoints = {version: tuple(sorted(several)) for version, several in found.items()}
        return cls(location, commits, checkpoints, frozenset(kept))

    @property
    def versions(self) -> tuple[int, ...]:
        """Versions that can be rebuilt, ascending: from a checkpoint or from version 0 on, without gaps."""
        found: list[int] = []
        for version in sorted({*self.commits, *self.checkpoints}):
            if version == 0 or version in self.checkpoints or (found and found[-1] == version - 1):
                found.append(version)
        return tuple(found)

    @property
    def newest(self) -> int:
        """The newest version, whether or not it can be rebuilt; -1 without any."""
        return max({*self.commits, *self.checkpoints}, default=-1)

    @property
    def latest(self) -> int:
        """The current version.

        Raises:
            NotCanonical: there is none, or a commit before it is missing.
        """
        latest = self.newest
        if latest < 0:
            raise NotCanonical("log", source=self.location, expected="commits or a checkpoint", actual="none")
        missing = self._missing(latest)
        if missing is not None:
            wanted = f"{missing:020}.json or a checkpoint, to rebuild version {latest}"
            raise NotCanonical("log", source=self.location, expected=wanted, actual="neither")
        return latest

    @property
    def is_broken(self) -> bool:
        """Whether a commit before the newest version is missing."""
        return self._missing(self.newest) is not None

    def check(self, version: int) -> None:
        """Check that a version can be rebuilt.

        Raises:
            UsageError: it cannot.
        """
        if version not in self.commits and version not in self.checkpoints:
            raise UsageError(f"{self.location}: there is no version {version}")
        missing = self._missing(version)
        if missing is not None:
            raise UsageError(f"{self.location}: version {version} cannot be rebuilt, version {missing} is missing")

    def needs(self, version: int) -> bool:
        """Whether the checkpoints of a version are needed: no commits lead to it from an earlier one, or from 0."""
        return version not in self.commits or self._missing(version - 1) is not None

    def _missing(self, version: int) -> int | None:
        """Return the first version, going back, that has neither commit nor checkpoint; None if none is missing."""
        while version in self.commits and version not in self.checkpoints:
            version -= 1
        return None if version < 0 or version in self.checkpoints else version


FileKey: TypeAlias = tuple[str, str | None]
"""Identity of a logical file: its path in a normal form, and the unique id of its vector."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The features that readers and writers have to support.

    Attributes:
        reader_version: ``minReaderVersion``.
        reader_features: names; none below reader version 3.
        source: file and line.
        writer_version: ``minWriterVersion``; None if it is not recorded: readers do not need it.
        writer_features: names; none below writer version 7.
        record: the action.
    """

    reader_version: int
    reader_features: tuple[str, ...]
    source: str
    writer_version: int | None = None
    writer_features: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, action: JsonFields) -> Protocol:
        """Read a ``protocol`` action.

        Raises:
            NotCanonical: a member is missing or of the wrong type.
        """
        version = action.integer("minReaderVersion", least=0)
        writer = action.integer_or_none("minWriterVersion", least=0)
        return cls(
            version,
            action.texts("readerFeatures") if version >= 3 else (),
            action.source,
            writer,
            action.texts("writerFeatures") if (writer or 0) >= 7 and "writerFeatures" in action else (),
            action.values,
        )


@dataclass(frozen=True, slots=True)
class Metadata:
    """The schema and properties of the table.

    Attributes:
        schema: JSON text.
        partition_columns: names.
        configuration: the table's properties.
        provider: format of the data files.
        source: file and line.
        record: the action.
    """

    schema: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str | None]
    provider: str
    source: str
    record: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, action: JsonFields) -> Metadata:
        """Read a ``metaData`` action.

        Raises:
            NotCanonical: a member is missing or of the wrong type.
        """
        return cls(
            action.text("schemaString"),
            action.texts("partitionColumns"),
            _text_map(action.object_if_any("configuration")),
            action.object("format").text("provider"),
            action.source,
            action.values,
        )


@dataclass(frozen=True, slots=True)
class LoggedVector:
    """The vector of a logical file.

    Attributes:
        descriptor: as recorded.
        path: decoded path of its file, absolute or relative to the table's folder; empty if it is inline.
    """

    descriptor: Descriptor
    path: str

    @property
    def stored_size(self) -> int:
        """Bytes of the frame in its file, or of an inline vector."""
        return self.descriptor.size_in_bytes if self.descriptor.is_inline else self.descriptor.frame_size

    @classmethod
    def parse(cls, action: JsonFields) -> LoggedVector | None:
        """Read the member ``deletionVector``; in checkpoints an absent one may be a struct of nulls.

        Raises:
            NotCanonical: it is not a descriptor, or its path leaves the table.
        """
        if "deletionVector" not in action:
            return None
        members = action.object("deletionVector").values
        if all(value is None for value in members.values()):
            return None
        try:
            descriptor = Descriptor.from_json(members)
            path = vector_path(descriptor.storage_type, descriptor.path_or_inline_dv)
        except DecodeError as err:
            action.fail("deletionVector", err.expected, err.actual)
        if path and not _is_place(path):
            action.fail("deletionVector", "a path", repr(path)[:80])
        return cls(descriptor, path)


@dataclass(frozen=True, slots=True)
class LogicalFile:
    """A data file and its vector, as an ``add`` or a ``remove`` names it.

    Attributes:
        path: decoded path of the data file.
        vector: None if no rows are deleted.
    """

    path: str
    vector: LoggedVector | None

    @property
    def key(self) -> FileKey:
        """Identity of the logical file."""
        return file_key(self.path), None if self.vector is None else self.vector.descriptor.unique_id

    @classmethod
    def parse(cls, action: JsonFields) -> LogicalFile:
        """Read path and vector of an ``add`` or ``remove`` action.

        Raises:
            NotCanonical: a member is missing or of the wrong type.
        """
        return LogicalFile(plain_path(action), LoggedVector.parse(action))


@dataclass(frozen=True, slots=True)
class AddFile(LogicalFile, Record):
    """An ``add`` action: the record of a data file, and of its vector.

    Attributes:
        path: decoded path of the data file.
        vector: None if no rows are deleted.
        size: bytes of the data file.
        rows: physical rows; None without statistics.
        partition_values: physical name of a partition column -> serialized value.
        action: the JSON object, as a commit that changes the file repeats it.
    """

    size: int
    rows: int | None
    partition_values: Mapping[str, str | None]
    action: Mapping[str, Any] = field(repr=False)

    @classmethod
    def parse(cls, action: JsonFields) -> AddFile:
        """Read an ``add`` action.

        Raises:
            NotCanonical: a member is missing or of the wrong type.
        """
        values = _text_map(action.object("partitionValues"))
        size = action.integer("size", least=0)
        # Names are texts of their own in each line.
        members = {intern(name): value for name, value in action.values.items()}
        return cls(plain_path(action), LoggedVector.parse(action), size, _rows(action), values, members)


def plain_path(action: JsonFields) -> str:
    """Return the member ``path``, a percent-encoded URI, decoded.

    Raises:
        NotCanonical: it is missing, or not a path.
    """
    text = action.text("path")
    try:
        path = unquote(text, errors="strict")
    except UnicodeDecodeError:
        action.fail("path", "UTF-8", repr(text)[:80])
    if not _is_place(path):
        action.fail("path", "a path", repr(text)[:80])
    return path


def lines_of(data: bytes, source: str) -> Iterator[str]:
    """Return the lines of a commit, or of a checkpoint in JSON.

    Args:
        data: the file.
        source: its name, for errors.

    Raises:
        NotCanonical: it is not UTF-8.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as err:
        raise NotCanonical("JSON", source=source, offset=err.start, expected="UTF-8", actual=err.reason) from None
    return io.StringIO(text, newline="\n")  # not a list: many may be short


def parse_lines(data: bytes, source: str) -> Iterator[JsonFields]:
    """Return the actions in lines of JSON; other entries are ignored.

    Args:
        data: a commit, or a checkpoint in JSON.
        source: name of the file, for errors.

    Raises:
        NotCanonical: a line is not a JSON object.
    """
    return actions_in(lines_of(data, source), source)


def actions_in(lines: Iterable[str], source: str, first: int = 1) -> Iterator[JsonFields]:
    """Return the actions in some lines, see `parse_lines`.

    Args:
        lines: some of `lines_of`.
        source: name of the file, for errors.
        first: number of the first of them.

    Raises:
        NotCanonical: a line is not a JSON object.
    """
    for number, line in enumerate(lines, first):
        if line.isspace():
            continue
        where = f"{source}, line {number}"
        for name, value in JsonFields.of(parse_json(line, where, "action"), where, "action").values.items():
            if name in _ACTIONS and value is not None:
                yield JsonFields.of(value, where, name)


_ACTIONS = frozenset({"add", "remove", "cdc", "metaData", "protocol", "sidecar", "checkpointMetadata", "txn"})


def _is_place(path: str) -> bool:
    """Whether a file can have this path."""
    if path.isascii() and not is_url(path):
        return is_path(path)
    try:
        local_name(path)
    except UsageError:  # a file URL of another host
        return False
    return is_path(path)


@lru_cache(maxsize=4096)
def vector_path(storage_type: str, text: str) -> str:
    """Return the path of a vector's file; many vectors share one."""
    if storage_type == "i":
        return ""
    return Descriptor(storage_type, text, 0, 0).path(".").removeprefix("./")


FIRST_ROWS = r'^\{"numRecords": ?(?P<rows>0|[1-9][0-9]{0,17})[,}]'
"""Statistics whose first member is the count of rows, for RE2 too."""


def _rows(action: JsonFields) -> int | None:
    """Take ``numRecords`` from the statistics: JSON text or, in checkpoints, a struct, which need not be parsed.

    Nor need text be that has it once, and first, as engines write it: statistics may have kilobytes.
    """
    stats = action.object_if_any("stats_parsed")
    if "numRecords" not in stats and (text := action.text_or_none("stats")):
        first = re.match(FIRST_ROWS, text)
        if first and text.count('"numRecords"') == 1:
            return int(first["rows"])
        where = action.path_to("stats")
        stats = JsonFields.of(parse_json(text, action.source, where), action.source, where)
    return stats.integer_or_none("numRecords", least=0)


def _text_map(fields: JsonFields) -> Mapping[str, str | None]:
    for name, value in fields.values.items():
        if value is not None and not isinstance(value, str):
            fields.fail(name, "a string")
    return fields.values
