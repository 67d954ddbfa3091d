"""Values for the commit of a vector: Iceberg's manifest entry, Delta's actions, Paimon's index file and metadata.

Partition values are as Delta's log serializes them: Delta's PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import quote

import numpy as np

from dvcodec import delta, iceberg, paimon
from dvcodec.core.errors import UsageError
from dvcodec.core.vector import DvLocation, Magic
from dvcodec.io.file_key import path_below
from dvcodec.io.target import local_path, split
from dvcodec.tables.metadata.partition_value import PartitionValue
from dvcodec.tables.model import DataFile, SnapshotInfo, TableKind

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (local to nowhere)


def partition_values(data_file: DataFile) -> dict[str, str | None]:
    """Return the partition values of a data file by column, as the text that Delta writes.

    Raises:
        UsageError: they are unknown, or Delta cannot represent one of them.
    """
    if data_file.partition is None:
        return {}
    if data_file.partition_values is None:
        raise UsageError(f"{data_file.path}: its partition values are unknown, but Delta records them")
    return {found.column: _text(found, data_file.path) for found in data_file.partition_values}


def _text(found: PartitionValue, path: str) -> str | None:
    spell = _SPELL.get(found.kind)
    if spell is None:
        raise UsageError(f"{path}: its partition value {found.column} has {found.kind}, which Delta does not have")
    if found.value is None:
        return None
    try:
        text = spell(found.value)
    except (OverflowError, ValueError):
        raise UsageError(
            f"{path}: its partition value {found.column} is outside of the years 1 to 9999, which Delta does not have"
        ) from None
    if not text and found.kind == "string":
        raise UsageError(f"{path}: its partition value {found.column} is empty text, which stands for null in Delta")
    return text


def _float(value: float | np.float32) -> str:
    """Return the shortest text that parses to the same number."""
    if math.isfinite(value):
        return str(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _date(days: int) -> str:
    return date.fromordinal(date(1970, 1, 1).toordinal() + days).isoformat()


def _timestamp(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(" ")


def _instant(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat("T", "microseconds") + "Z"


_SPELL: Mapping[str, Callable[[Any], str]] = {
    "boolean": lambda value: "true" if value else "false",
    "int": str,
    "float": lambda value: _float(np.float32(value)),
    "double": _float,
    "decimal": lambda value: f"{value:f}",
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _instant,
    "string": str,
    "serialized": str,
}


Target: TypeAlias = Literal["iceberg", "delta", "paimon32", "paimon64"]
"""Formats that a table's deletes can be converted to; the number is the width of Paimon's vectors."""
TARGETS: tuple[Target, ...] = get_args(Target)
"""All targets."""


_LEGAL = "/_-!.~'()*,;$&+=@"
"""ASCII that ``java.net.URI`` does not encode in a path, besides letters and digits; and the colon, which might turn
the text before it into a scheme. Delta identifies a data file by this text."""
_MAX_OFFSET = 2**31 - 1
"""Delta's offsets are signed 32-bit values."""
_ASCII_OR_BLANK = re.compile(r"[\x00-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Speller:
    """Describes data files and vectors as a target's metadata does.

    Attributes:
        to: the target.
        kind: kind of the table that is converted.
        root: absolute location of the target's table: Delta's paths below it are relative.
        info: the snapshot that is converted.
    """

    to: Target
    kind: TableKind
    root: str
    info: SnapshotInfo

    def data_file(self, data_file: DataFile) -> str:
        """Return the name of a data file: a path (Iceberg), a URI (Delta), a bare name (Paimon)."""
        if self.to == "iceberg":
            return data_file.path if self.kind is TableKind.ICEBERG else absolute(data_file.location)
        if self.to == "delta":
            return _uri(absolute(data_file.location), self.root)
        return split(data_file.location)[1]

    def may_stay(self, magic: Magic, offset: int) -> bool:
        """Whether the target can reference a vector in its present file."""
        return magic is Magic.PORTABLE64 and (self.to == "iceberg" or (self.to == "delta" and offset <= _MAX_OFFSET))

    def in_place(self, place: DvLocation, location: str, data_file: DataFile) -> DvLocation:
        """Return the location of a vector that stays in its file.

        Args:
            place: its place in the source's metadata.
            location: where its file can be opened.
            data_file: the data file whose rows it deletes.
        """
        path = place.path if self.to == self.kind.value else absolute(location)
        return replace(place, format=self.to, path=path, data_file=self.data_file(data_file))

    def record(self, location: DvLocation, data_file: DataFile, in_file: int) -> dict[str, Any]:
        """Return the values for the commit of a vector, by the format's own field names.

        Args:
            location: where the vector is.
            data_file: the data file whose rows it deletes.
            in_file: number of vectors in that file.

        Raises:
            UsageError: a value that the format requires is unknown.
        """
        if self.to == "iceberg":
            return {"manifest_entry": iceberg.manifest_entry(location)}
        if self.to == "delta":
            return self._actions(location, data_file)
        return {
            "index_file": {
                "index_type": paimon.DELETION_VECTORS,
                "file_name": split(location.path)[1],
                "file_size": location.file_size,
                "row_count": in_file,
                "bucket": data_file.bucket or 0,
            },
            "deletion_vector_meta": asdict(paimon.DeletionVectorMeta.from_location(location)),
        }

    def _actions(self, location: DvLocation, data_file: DataFile) -> dict[str, Any]:
        """Return the two actions of the log: remove the data file without a vector, add it with one."""
        if _file_format(data_file) != "parquet":
            raise UsageError(f"{data_file.path}: it is {_file_format(data_file)}, and Delta's data files are Parquet")
        known = {"rows": data_file.physical_rows, "bytes": data_file.size}
        unknown = next((name for name, value in known.items() if value is None), None)
        if unknown:
            raise UsageError(f"{data_file.path}: its {unknown} are unknown, but Delta records them")
        path, when = self.data_file(data_file), self.info.timestamp_ms or 0
        # Bounds of columns are the table's own, of another format; with --commit those of the Delta table stay.
        stats = json.dumps({"numRecords": data_file.physical_rows, "tightBounds": False}, separators=(",", ":"))
        add = {
            "path": path,
            "partitionValues": partition_values(data_file),
            "size": data_file.size,
            "modificationTime": when,
            "dataChange": True,
            "stats": stats,
            "deletionVector": json.loads(delta.Descriptor.from_location(location, self.root).to_json()),
        }
        return {"remove": {"path": path, "deletionTimestamp": when, "dataChange": True}, "add": add}


def absolute(location: str) -> str:
    """Return a location as tables record it: an absolute path, or a URL other than ``file:``."""
    local = local_path(location)
    return location if local is None else local.absolute().as_posix()


def _file_format(data_file: DataFile) -> str:
    """Return the format of a data file: as recorded, or by the extension of its name."""
    ending = data_file.path.rpartition(".")[2]
    return data_file.file_format or (ending if ending in ("orc", "avro") else "parquet")


def _uri(path: str, root: str) -> str:
    """Spell a path as Delta does: relative if it is in the table's folder, percent-encoded."""
    inside = path_below(path, root)
    if inside is not None:
        return _quoted(inside)
    if path.startswith("/"):
        return f"file://{_quoted(path)}"
    scheme, _, rest = path.partition("://")
    authority, slash, name = rest.partition("/")
    return f"{scheme}://{authority}{slash}{_quoted(name)}"


def _quoted(path: str) -> str:
    return _ASCII_OR_BLANK.sub(lambda found: quote(found[0], safe=_LEGAL, errors="surrogateescape"), path)
