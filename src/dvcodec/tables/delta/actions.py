"""The actions of a log: lines of a commit or rows of a checkpoint, with their types checked.

Specification: Delta's PROTOCOL.md, "Actions". Unknown actions and members are ignored, as it requires: whatever
must not be ignored is announced as a reader feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any, TypeAlias
from urllib.parse import unquote

from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.json_text import parse_json
from dvcodec.delta import Descriptor
from dvcodec.io.file_key import file_key
from dvcodec.io.target import is_url, local_name
from dvcodec.tables.metadata.json_fields import JsonFields, is_path
from dvcodec.tables.model import Record

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
            path = _vector_path(descriptor.storage_type, descriptor.path_or_inline_dv)
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


def parse_lines(data: bytes, source: str) -> Iterator[JsonFields]:
    """Return the actions in lines of JSON; other entries are ignored.

    Args:
        data: a commit, or a checkpoint in JSON.
        source: name of the file, for errors.

    Raises:
        NotCanonical: a line is not a JSON object.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as err:
        raise NotCanonical("JSON", source=source, offset=err.start, expected="UTF-8", actual=err.reason) from None
    for number, line in enumerate(_lines(text), 1):
        if not line or line.isspace():
            continue
        where = f"{source}, line {number}"
        for name, value in JsonFields.of(parse_json(line, where, "action"), where, "action").values.items():
            if name in _ACTIONS and value is not None:
                yield JsonFields.of(value, where, name)


def _lines(text: str) -> Iterator[str]:
    """Yield the lines one by one: a million empty objects would take 20 times their bytes together."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


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
def _vector_path(storage_type: str, text: str) -> str:
    """Return the path of a vector's file; many vectors share one."""
    if storage_type == "i":
        return ""
    return Descriptor(storage_type, text, 0, 0).path(".").removeprefix("./")


def _rows(action: JsonFields) -> int | None:
    """Take ``numRecords`` from the statistics: JSON text or, in checkpoints, a struct, which need not be parsed."""
    stats = action.object_if_any("stats_parsed")
    if "numRecords" not in stats and (text := action.text_or_none("stats")):
        where = action.path_to("stats")
        stats = JsonFields.of(parse_json(text, action.source, where), action.source, where)
    return stats.integer_or_none("numRecords", least=0)


def _text_map(fields: JsonFields) -> Mapping[str, str | None]:
    for name, value in fields.values.items():
        if value is not None and not isinstance(value, str):
            fields.fail(name, "a string")
    return fields.values
