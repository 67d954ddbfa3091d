"""Partitions: their values, and the folders that hold their files.

Java classes ``FileStorePathFactory``, ``InternalRowPartitionComputer`` and ``PartitionPathUtils``. Files are stored in
``[<data-file.path-directory>/]<column>=<value>/../bucket-<n>``, with names and values escaped as in Hive; null and
blank text are ``__DEFAULT_PARTITION__``. By default values are written as Java's ``toString`` does: a date is its days
since 1970. With ``partition.legacy-name`` off they are written as a cast to text does.

Serialized rows, such as a manifest's partition, are those of the Java classes ``SerializationUtils``, ``BinaryRow`` and
``BinarySection``::

    i32 BE fields | u8 kind | null bits, one a field, from bit 8 on; padded to 8 bytes | 8 bytes a field, LE | the rest

Values of up to 8 bytes are stored in place. So is text of up to 7 bytes, with its length in the low 7 bits of the last
byte, whose high bit is set. Longer text, and decimals of more than 18 digits, are in the rest: the low half of the 8
bytes is the length, the high half the offset from the row's first byte. Times finer than milliseconds are in the rest
too: the low half is the nanoseconds of the millisecond, and the milliseconds are at the offset.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Context, Decimal
from typing import TypeAlias

import numpy as np

from dvcodec.core.errors import NotCanonical, Truncated, Unsupported
from dvcodec.io import is_url
from dvcodec.paimon import IndexManifestEntry
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import PartitionValue, bare_name
from dvcodec.tables.model import DataFile
from dvcodec.tables.paimon.manifests import Entries, ManifestEntry
from dvcodec.tables.paimon.metadata import DataType, TableSchema, parse_type

Value: TypeAlias = "bool | int | float | str | bytes | Decimal | None"
"""Dates are days since 1970, times of day milliseconds, timestamps nanoseconds since 1970."""

_INTEGERS = {"TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "DATE": "<i", "TIME": "<i", "BIGINT": "<q"}
_NUMBERS = {**_INTEGERS, "FLOAT": "<f", "DOUBLE": "<d"}
_TEXT = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_COMPACT_DIGITS = 18
_DECIMAL_BYTES = 16
_EXACT = Context(prec=40)


def decode_row(data: bytes, types: Sequence[DataType], *, source: str, what: str) -> tuple[Value, ...]:
    """Decode a row.

    Args:
        data: number of fields, and the row.
        types: types of its fields.
        source: the file, for errors.
        what: the field, for errors.

    Raises:
        NotCanonical: it has other fields, or an invalid value.
        Truncated: it ends before its values do.
        Unsupported: a type that no partition or key can have.
    """
    row = _Row(data, len(types), source, what)
    return tuple(row.value(i, kind) for i, kind in enumerate(types))


def decode_some(data: bytes, arity: int, types: Mapping[int, DataType], *, source: str, what: str) -> dict[int, Value]:
    """Decode some fields of a row of `arity` fields, by their place; see `decode_row`."""
    row = _Row(data, arity, source, what)
    return {i: row.value(i, kind) for i, kind in types.items()}


class _Row:
    def __init__(self, data: bytes, arity: int, source: str, what: str) -> None:
        self._source, self._what = source, what
        found = int.from_bytes(data[:4], "big")
        if len(data) < 4 or found != arity:
            raise NotCanonical(what, source=source, expected=f"{arity} fields", actual=found)
        self._row = data[4:]
        self._bits = (arity + 63 + 8) // 64 * 8
        if len(self._row) < self._bits + 8 * arity:
            expected = f"{self._bits + 8 * arity} bytes of {arity} fields"
            raise Truncated(what, source=source, expected=expected, actual=f"{len(self._row)} bytes")

    def value(self, i: int, kind: DataType) -> Value:
        bit = i + 8
        if self._row[bit >> 3] >> (bit & 7) & 1:
            return None
        start = self._bits + 8 * i
        word = self._row[start : start + 8]
        if kind.root == "BOOLEAN":
            return word[0] != 0
        if kind.root in _NUMBERS:
            number: int | float = struct.unpack_from(_NUMBERS[kind.root], word)[0]
            return number
        if kind.root in _TEXT:
            return self._text(kind, self._inline(word))
        low, high = (int(half) for half in struct.unpack("<II", word))
        if kind.root == "DECIMAL":
            if (kind.precision or 0) <= _COMPACT_DIGITS:
                unscaled = int.from_bytes(word, "little", signed=True)
            elif low > _DECIMAL_BYTES:
                expected = f"at most {_DECIMAL_BYTES} bytes of a decimal"
                raise NotCanonical(self._what, source=self._source, expected=expected, actual=low)
            else:
                unscaled = int.from_bytes(self._rest(high, low), "big", signed=True)
            return Decimal(unscaled).scaleb(-(kind.scale or 0), _EXACT)
        if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            if (kind.precision or 0) <= 3:
                return int.from_bytes(word, "little", signed=True) * 1_000_000
            return int.from_bytes(self._rest(high, 8), "little", signed=True) * 1_000_000 + low
        raise Unsupported(self._what, source=self._source, expected="a type that partitions have", actual=kind.text)

    def _inline(self, word: bytes) -> bytes:
        if not word[7] & 0x80:
            size, offset = struct.unpack("<II", word)
            return self._rest(offset, size)
        size = word[7] & 0x7F
        if size > 7:
            raise NotCanonical(self._what, source=self._source, expected="at most 7 bytes in place", actual=size)
        return word[:size]

    def _rest(self, offset: int, size: int) -> bytes:
        if offset + size > len(self._row):
            raise Truncated(
                self._what,
                source=self._source,
                expected=f"{size} bytes at byte {offset} of the row",
                actual=f"{len(self._row)} bytes in all",
            )
        return self._row[offset : offset + size]

    def _text(self, kind: DataType, raw: bytes) -> str | bytes:
        if kind.root in ("BINARY", "VARBINARY"):
            return raw
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise NotCanonical(self._what, source=self._source, expected="UTF-8", actual=raw[:20].hex(" ")) from None


_KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), "int"),
    **dict.fromkeys(("CHAR", "VARCHAR"), "string"),
    "BOOLEAN": "boolean",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL": "decimal",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamptz",
}
"""`PartitionValue.kind` by the root of a type."""
POSTPONE_BUCKET = -2
"""Bucket of rows that have no bucket yet."""
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{}\[\]^]""")
_BLANK = re.compile(r"[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*")
"""Characters that are whitespace in Java."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a table.

    Attributes:
        values: values of the partition columns, in order.
        texts: the same values cast to text, by name.
        typed: the same values for other formats.
        folder: its folder below the table's, empty without partitions.
    """

    values: tuple[Value, ...]
    texts: dict[str, str | None]
    typed: tuple[PartitionValue, ...]
    folder: str

    @property
    def text(self) -> str | None:
        """Its values as readable text, None without partitions."""
        return "/".join(f"{name}={'null' if text is None else text}" for name, text in self.texts.items()) or None


class PartitionSpec:
    """The partition columns of a schema, and how folders are named after their values."""

    def __init__(self, schema: TableSchema) -> None:
        """Read partition columns and options of a schema.

        Raises:
            DecodeError: a partition column's type is invalid, or the options do not determine its folder.
        """
        self._source = schema.source
        self.names = schema.partition_keys
        self.types = tuple(
            parse_type(schema.named[name].type, source=schema.source, what=f"column {name:.80}") for name in self.names
        )
        self._legacy = schema.is_true("partition.legacy-name", default=True)
        self._default = schema.options.get("partition.default-name", "__DEFAULT_PARTITION__")
        self._root = schema.options.get("data-file.path-directory", "").rstrip("/")
        if self._root.startswith("/") or ":" in self._root or ".." in self._root.split("/"):
            expected = "a folder in the table's"
            raise Unsupported(
                "data-file.path-directory", source=schema.source, expected=expected, actual=repr(self._root)
            )
        self._known: dict[bytes, Partition] = {}

    @property
    def key(self) -> Hashable:
        """Equal for partitions in the same folders."""
        return self.names, self.types, self._legacy, self._default, self._root

    def decode(self, data: bytes, *, source: str) -> Partition:
        """Decode a partition from a manifest.

        Raises:
            DecodeError: it is corrupt, or its folder's name is unknown.
        """
        found = self._known.get(data)
        if found is None:
            values = decode_row(data, self.types, source=source, what="_PARTITION")
            columns = list(zip(self.names, self.types, values, strict=True))
            parts = [f"{_escape(name)}={_escape(self._spell(value, kind, name))}" for name, kind, value in columns]
            texts = {name: None if value is None else _cast(value, kind) for name, kind, value in columns}
            typed = tuple(_typed(*column) for column in columns)
            folder = "/".join([self._root, *parts] if self._root else parts)
            found = self._known[data] = Partition(values, texts, typed, folder)
        return found

    def bucket_folder(self, partition: Partition, bucket: int) -> str:
        """Return the folder of a bucket's files, below the table's."""
        name = f"bucket-{'postpone' if bucket == POSTPONE_BUCKET else bucket}"
        return f"{partition.folder}/{name}" if partition.folder else name

    def _spell(self, value: Value, kind: DataType, name: str) -> str:
        if value is None:
            return self._default
        unknown = "BINARY" in kind.root if self._legacy else kind.root == "TIMESTAMP_LTZ"
        if unknown:  # the address of an array in the writer's memory; the time in the writer's time zone
            how = "partition.legacy-name" if self._legacy else "partition.legacy-name off"
            raise Unsupported(
                f"folder of partition column {name:.80}",
                source=self._source,
                expected=f"a type whose values name a folder with {how}",
                actual=kind.text,
            )
        text = _java_text(value, kind) if self._legacy else _cast(value, kind)
        return self._default if _BLANK.fullmatch(text) else text


def _typed(name: str, kind: DataType, value: Value) -> PartitionValue:
    known = _KINDS.get(kind.root, f"the type {kind.text}")
    if known.startswith("timestamp") and isinstance(value, int):
        value, nanos = divmod(value, 1000)
        if nanos:
            known = "a time in nanoseconds"
    return PartitionValue(name, known, value)


def _escape(name: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", name)


def _java_text(value: Value, kind: DataType) -> str:
    """Format a value as ``toString`` does."""
    if kind.root in ("DATE", "TIME"):
        return str(value)
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        moment, nanos = _moment(value)
        text = moment.isoformat(timespec="seconds" if moment.second or nanos else "minutes")
        digits = 3 if nanos % 1_000_000 == 0 else 6 if nanos % 1000 == 0 else 9
        return f"{text}.{nanos:09}"[: len(text) + 1 + digits] if nanos else text
    return _cast(value, kind)


def _cast(value: Value, kind: DataType) -> str:
    """Format a value as a cast to text does; instants in UTC."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return _java_float(np.float32(value) if kind.root == "FLOAT" else value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if kind.root == "DATE":
        return (_moment(int(value or 0) * 86_400_000_000_000)[0]).date().isoformat()
    if kind.root == "TIME":
        clock, millis = divmod(int(value or 0), 1000)
        text = f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
        return f"{text}.{_fraction(millis * 1_000_000, kind.precision or 0, 1)}" if kind.precision else text
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        moment, nanos = _moment(value)
        fraction = _fraction(nanos, 9, kind.precision or 0)
        return moment.isoformat(" ", "seconds") + (f".{fraction}" if fraction else "")
    return str(value)


def _fraction(nanos: int, most: int, least: int) -> str:
    """Format a second's fraction with at most `most` digits, dropping trailing zeros after the first `least`."""
    text = f"{nanos:09}"[:most]
    return text[:least] + text[least:].rstrip("0")


def _moment(value: Value) -> tuple[datetime, int]:
    """Split a time in nanoseconds since 1970 into its second and the remaining nanoseconds.

    Raises:
        Unsupported: it is outside the years 1 to 9999.
    """
    seconds, nanos = divmod(int(value or 0), 1_000_000_000)
    try:
        return datetime(1970, 1, 1) + timedelta(seconds=seconds), nanos  # noqa: DTZ001  (local to nowhere)
    except OverflowError:
        raise Unsupported("partition value", expected="a year from 1 to 9999", actual=f"{seconds} seconds") from None


def _java_float(value: float | np.float32) -> str:
    """Format a number as Java does: the fewest digits that identify it, with an exponent from 1e7 and below 1e-3.

    >>> _java_float(1.0), _java_float(1e7), _java_float(-0.0001), _java_float(123456.5)
    ('1.0', '1.0E7', '-1.0E-4', '123456.5')
    """
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    number = Decimal(str(value))
    if not number or Decimal("1e-3") <= abs(number) < Decimal("1e7"):
        text = f"{number:f}"
        return text if "." in text else f"{text}.0"
    sign, digits, _ = number.normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{number.adjusted()}"


INDEX = "index"
"""Folder of index files, unless they are beside the data files."""


class Layout:
    """Paths of a table's files, as a schema's options lay them out.

    Paths are relative to the table's folder, except absolute ones in the metadata (``_EXTERNAL_PATH``).
    """

    def __init__(self, folder: Folder, schema: TableSchema) -> None:
        """Take the options.

        Raises:
            DecodeError: see `PartitionSpec`.
        """
        self._folder = folder
        self._index_beside_data = schema.is_true("index-file-in-data-file-dir")
        self.spec = PartitionSpec(schema)

    @property
    def key(self) -> Hashable:
        """Equal for layouts that give every file the same path."""
        return self._index_beside_data, self.spec.key

    def data_folder(self, partition: bytes, bucket: int, source: str) -> tuple[Partition, str]:
        """Return a partition, and the folder of one of its buckets.

        Raises:
            DecodeError: the partition is corrupt.
        """
        decoded = self.spec.decode(partition, source=source)
        return decoded, self.spec.bucket_folder(decoded, bucket)

    def data_file(self, entry: ManifestEntry) -> DataFile:
        """Return a data file as a value of the model.

        Raises:
            DecodeError: its partition or path is corrupt.
        """
        file = entry.file
        partition, folder = self.data_folder(file.partition, file.bucket, entry.manifest)
        path = external_path(file.external_path, entry.manifest) or f"{folder}/{file.file_name}"
        return DataFile(
            path,
            self._folder.locate(path),
            file.row_count,
            file.file_size,
            partition.text,
            partition.typed,
            file.partition,
            bucket=file.bucket,
            record=file,
        )

    def paths(self, entries: Entries) -> list[str]:
        """Return the paths of data files.

        Raises:
            DecodeError: a partition or path is corrupt.
        """
        groups, firsts = entries.groups()
        folders = [""] * len(firsts)
        for first in sorted(firsts.tolist()):
            one = entries[first]
            folders[groups[first]] = self.data_folder(one.file.partition, one.file.bucket, one.manifest)[1]
        found = [f"{folders[group]}/{name}" for group, name in zip(groups.tolist(), entries.names, strict=True)]
        for number in entries.unusual:
            path = external_path(entries.others[number].external_path, entries.manifests[number])
            found[number] = path or found[number]
        return found

    def index_file(self, entry: IndexManifestEntry, source: str) -> str:
        """Return the path of an index file.

        Args:
            entry: an entry of the index manifest.
            source: the index manifest, for errors.

        Raises:
            DecodeError: its partition or path is corrupt.
        """
        path = external_path(entry.external_path, source)
        if path is not None:
            return path
        name = bare_name(entry.file_name, "_FILE_NAME", source)
        folder = self.index_folder(entry.partition, entry.bucket, source) if entry.global_index is None else INDEX
        return f"{folder}/{name}"

    def index_folder(self, partition: bytes, bucket: int, source: str) -> str:
        """Return the folder of a bucket's index files.

        Raises:
            DecodeError: the partition is corrupt.
        """
        return self.data_folder(partition, bucket, source)[1] if self._index_beside_data else INDEX


def external_path(path: str | None, source: str) -> str | None:
    """Return an absolute path from the metadata.

    Raises:
        NotCanonical: it is relative, or leads out of the folder that it names.
    """
    if path is not None and (not (is_url(path) or path.startswith("/")) or ".." in path.split("/") or "\0" in path):
        raise NotCanonical("_EXTERNAL_PATH", source=source, expected="an absolute path", actual=f"{path!r:.80}")
    return path
