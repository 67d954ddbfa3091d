"""Partition values, which the log serializes as text.

Specification: Delta's PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dvcodec.core.errors import NotCanonical
from dvcodec.core.extras import pa, types
from dvcodec.tables.delta.actions import AddFile
from dvcodec.tables.metadata.partition_value import PartitionValue, parse_decimal
from dvcodec.tables.model import DataFile
from dvcodec.tables.rows.columns import Column

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""Name of folders whose partition value is null."""


class PartitionReader:
    """Reads the partitions of data files; those that are equal are one object.

    Args:
        names: of the partition columns -> their names in ``partitionValues``.
        source: the log, for errors.
    """

    def __init__(self, names: Mapping[str, str], source: str) -> None:
        self._names = names
        self._source = source
        self._known: dict[tuple[tuple[str, str | None], ...], tuple[str | None, tuple[PartitionValue, ...]]] = {}

    def read(self, added: AddFile) -> tuple[str | None, tuple[PartitionValue, ...]]:
        """Return the partition of a data file, spelled like its folders (None without), and its values.

        Raises:
            NotCanonical: a value is missing.
        """
        key = tuple(added.partition_values.items())
        if key not in self._known:
            missing = self._names.values() - added.partition_values.keys()
            if missing:
                what, actual = f"add.partitionValues of {added.path}", f"no {min(missing)!r:.80}"
                raise NotCanonical(what, source=self._source, expected="all partition columns", actual=actual)
            values = {name: added.partition_values[physical] for name, physical in self._names.items()}
            label = "/".join(f"{name}={value or NULL_FOLDER}" for name, value in values.items())
            self._known[key] = label or None, tuple(PartitionValue(name, "serialized", value) for name, value in key)
        return self._known[key]


def partition_scalar(values: Mapping[str, str | None], column: Column, source: str) -> pa.Scalar:
    """Return the value of a partition column in a data file.

    Timestamps without a zone are in the writer's zone, which is not recorded: they are read as UTC.

    Args:
        values: ``partitionValues`` of the file.
        column: the partition column.
        source: the data file, for errors.

    Raises:
        NotCanonical: it is missing, or its text is not a value of the column's type.
    """
    what = f"partitionValues.{column.stored_name}"
    if column.stored_name not in values:
        raise NotCanonical(what, source=source, expected="a string or null", actual="nothing")
    text = values[column.stored_name]
    if not text:
        return pa.scalar(None, column.type)
    types, wanted = pa.types, column.type
    try:
        if types.is_binary(wanted):
            return pa.scalar(text.encode(), wanted)
        if types.is_timestamp(wanted) and wanted.tz is not None and not text.endswith("Z"):
            return pa.scalar(text).cast(pa.timestamp("us")).cast(wanted)
        if types.is_decimal(wanted):
            return pa.scalar(parse_decimal(text), wanted)
        return pa.scalar(text).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise NotCanonical(what, source=source, expected=wanted, actual=repr(text)[:80]) from None


def in_folders(file: DataFile, columns: Iterable[Column]) -> bool:
    """Whether the folders of a data file name the values of partition columns as in Hive, and Spark reads them alike.

    That is so for types whose text means the same there and in the log.
    """
    folders = [folder.partition("=") for folder in file.path.split("/")[:-1]]
    named = {name: _unescaped(value) for name, _, value in folders}
    values = {one.column: one.value or NULL_FOLDER for one in file.partition_values or ()}
    tests = (types.is_string, types.is_signed_integer, types.is_date32)
    return len(named) == len(folders) == len(values) and all(
        column.stored_name == column.name
        and named.get(column.name) == values.get(column.name)
        and any(test(column.type) for test in tests)
        for column in columns
    )


def _unescaped(folder: str) -> str:
    """Return the name of a folder without Hive's escapes, each of which is one sign."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), folder)
