"""Vectors that become entries, values of partitions, and what a commit says of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cases import each
from dvcodec.core.errors import UsageError
from dvcodec.core.vector import Magic, StoredFrame
from dvcodec.tables import DataFile, SnapshotInfo, TableKind
from dvcodec.tables.convert import Speller, _until, partition_values
from dvcodec.tables.delta.rows import partition_scalar
from dvcodec.tables.metadata.json_fields import PartitionValue
from dvcodec.tables.rows.columns import Column

UTC = pa.timestamp("us", tz="UTC")


def spelled(kind: str, value: Any) -> str | None:
    return partition_values(DataFile("/t/a", "/t/a", 1, 1, "c=?", (PartitionValue("c", kind, value),)))["c"]


@each(
    ("kind", "value", "text", "arrow"),
    [
        ("boolean", True, "true", pa.bool_()),
        ("boolean", False, "false", pa.bool_()),
        ("int", -7, "-7", pa.int64()),
        ("float", float(np.float32(0.1)), "0.1", pa.float32()),
        ("double", 0.1, "0.1", pa.float64()),
        ("double", float("-inf"), "-Infinity", pa.float64()),
        ("double", float("nan"), "NaN", None),
        ("serialized", "", "", None),
        ("decimal", Decimal("-1E-9"), "-0.000000001", pa.decimal128(12, 9)),
        ("date", -719_162, "0001-01-01", pa.date32()),
        ("timestamp", 0, "1970-01-01 00:00:00", pa.timestamp("us")),
        ("timestamp", -1, "1969-12-31 23:59:59.999999", pa.timestamp("us")),
        ("timestamptz", 1, "1970-01-01T00:00:00.000001Z", UTC),
        ("string", "a/b=\u2603", "a/b=\u2603", pa.string()),
        ("string", None, None, pa.string()),
    ],
)
def test_texts_are_read_as_the_values(kind: str, value: Any, text: str | None, arrow: pa.DataType | None) -> None:
    assert spelled(kind, value) == text
    if arrow is not None:
        found = partition_scalar({"c": text}, Column("c", type=arrow), "file")
        assert found.equals(pa.scalar(value, arrow))


@each(
    ("kind", "value", "why"),
    [
        ("the type uuid", bytes(16), "has the type uuid, which Delta does not have"),
        ("the transform day", None, "has the transform day, which Delta does not have"),
        ("string", "", "is empty text"),
        ("date", -800_000, "is outside of the years 1 to 9999"),
        ("timestamp", 2**63 - 1, "is outside of the years 1 to 9999"),
        ("timestamptz", -(2**63), "is outside of the years 1 to 9999"),
    ],
)
def test_what_delta_does_not_have(kind: str, value: Any, why: str) -> None:
    with pytest.raises(UsageError, match=rf"/t/a: its partition value c {why}"):
        spelled(kind, value)


@each(
    ("to", "magic", "offset", "may_stay"),
    [
        ("iceberg", Magic.PORTABLE64, 2**31, True),
        ("iceberg", Magic.NATIVE64, 4, False),
        ("delta", Magic.PORTABLE64, 2**31 - 1, True),
        ("delta", Magic.PORTABLE64, 2**31, False),  # Delta's offsets are numbers of 32 bits
        ("delta", Magic.PAIMON32, 1, False),
        ("paimon64", Magic.PORTABLE64, 1, False),
    ],
)
def test_vectors_that_stay_in_their_files(to: str, magic: Magic, offset: int, may_stay: bool) -> None:
    speller = Speller(to, TableKind.PAIMON, "/t", SnapshotInfo(1))  # type: ignore[arg-type]
    assert speller.may_stay(magic, offset) == may_stay


FRAMES = [StoredFrame(f"{i}.parquet", 1, bytes(3)) for i in range(4)]


@each(("size", "taken"), [(-1, 0), (0, 0), (1, 1), (3, 1), (4, 2), (7, 3), (100, 4)])
def test_frames_until_a_file_is_full(size: int, taken: int) -> None:
    frames = iter(FRAMES)
    assert list(_until(frames, size)) == FRAMES[:taken]
    assert list(frames) == FRAMES[taken:], "the others are for the next file"
