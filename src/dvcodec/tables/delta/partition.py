"""Partition values, which the log serializes as text.

Specification: Delta's PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.columns import Column
from dvcodec.tables.decimals import parse_decimal

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NULL_FOLDER", "partition_scalar"]

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""What folders are called whose partition value is null."""


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
    import pyarrow as pa  # noqa: PLC0415

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
