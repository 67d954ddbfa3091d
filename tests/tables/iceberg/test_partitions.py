"""Partition values: their texts, and what is equal."""

from __future__ import annotations

import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.iceberg.partitions import Partition, PartitionReader
from dvcodec.tables.metadata.avro_fields import Logical
from dvcodec.tables.metadata.json_fields import PartitionValue


def partition(value: Any, logical: str | None = None, *, transform: str = "identity", **more: Any) -> Partition:
    kind = Logical(logical or "string", more.get("scale", 0), more.get("utc", False))
    fields = [PartitionField(1000, 1, "p", transform)]
    return PartitionReader(0, fields, {1000: ("stored", kind)}).read({"stored": value})


@each(
    ("made", "text"),
    [
        (partition("a/b=c"), "p=a/b=c"),
        (partition(None), "p=null"),
        (partition(True), "p=true"),
        (partition(7), "p=7"),
        (partition(1.5), "p=1.5"),
        (partition(20454, "date"), "p=2026-01-01"),
        (partition(9_000_000, "date"), "p=26611-03-02"),
        (partition(1_767_225_600_000_000, "timestamp-micros"), "p=2026-01-01T00:00:00"),
        (partition(1_767_225_600_000_001, "timestamp-micros", utc=True), "p=2026-01-01T00:00:00.000001+00:00"),
        (partition(1_767_225_600_000_000_001, "timestamp-nanos"), "p=2026-01-01T00:00:00.000000001"),
        (partition(3_600_000_000, "time-micros"), "p=01:00:00"),
        (partition(-5, "unheard-of"), "p=-5"),
        (partition(b"\xff\x85", "decimal", scale=2), "p=-1.23"),
        (partition(bytes(range(16)), "uuid"), "p=00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (partition(b"\x00\x01"), "p=AAE="),
        (partition(56, transform="year"), "p=2026"),
        (partition(-1, transform="year"), "p=1969"),
        (partition(673, transform="month"), "p=2026-02"),
        (partition(20454, "date", transform="day"), "p=2026-01-01"),
        (partition(20454, transform="day"), "p=2026-01-01"),
        (partition(490_901, transform="hour"), "p=2026-01-01-05"),
        (partition(3, transform="bucket[16]"), "p=3"),
        (partition((10**30).to_bytes(13, "big"), "decimal", transform="year"), f"p={10**30}"),
    ],
)
def test_texts(made: Partition, text: str) -> None:
    assert made.label == text


def test_not_a_number_is_itself() -> None:
    assert partition(float("nan")) == partition(float("nan"))
    assert partition(float("nan")) != partition(0.0)


def test_decimals_of_any_length_are_equal() -> None:
    made = [partition((150).to_bytes(size, "big"), "decimal", scale=2) for size in (2, 4, 6, 16, 20)]
    assert {one.values for one in made} == {(150,)}
    assert {one.label for one in made} == {"p=1.50"}
    assert partition(b"\xff", "decimal").values == partition(b"\xff\xff", "decimal").values == (-1,)
    large = b"\x7f" * 17
    assert partition(large, "decimal").values == (large,)


def test_uuids_are_equal_in_text_and_bytes() -> None:
    value = uuid.UUID(int=7)
    assert partition(str(value), "uuid") == partition(value.bytes, "uuid")
    assert partition(str(value), "uuid").label == f"p={value}"
    assert partition("x", "uuid").values == ("x",)


def test_floats_have_their_shortest_text() -> None:
    assert partition(float(np.float32(0.1)), "float").label == "p=0.1"
    assert partition(float(np.float32(0.1)), "double").label == "p=0.10000000149011612"


def typed(value: Any, logical: str, transform: str = "identity", *, column: str | None = "c", utc: bool = False) -> Any:
    field = PartitionField(1000, 1, "p", transform, column)
    made = PartitionReader(0, [field], {1000: ("stored", Logical(logical, 2, utc))}).read({"stored": value})
    return made.typed


@each(
    ("found", "expected"),
    [
        (typed(7, "long"), PartitionValue("c", "int", 7)),
        (typed(None, "long"), PartitionValue("c", "int", None)),
        (typed(b"\x07", "decimal"), PartitionValue("c", "decimal", Decimal("0.07"))),
        (typed(b"\x7f" * 17, "decimal"), PartitionValue("c", "the type decimal", b"\x7f" * 17)),
        (typed(7, "timestamp-micros"), PartitionValue("c", "timestamp", 7)),
        (typed(7, "timestamp-micros", utc=True), PartitionValue("c", "timestamptz", 7)),
        (typed(7, "timestamp-nanos"), PartitionValue("c", "the type timestamp-nanos", 7)),
        (typed("x", "date"), PartitionValue("c", "the type date", "x")),
        (typed(b"x", "bytes"), PartitionValue("c", "the type bytes", b"x")),
        (typed(3, "int", "bucket[4]"), PartitionValue("p", "the transform bucket[4]", 3)),
        (typed(3, "int", column=None), PartitionValue("p", "a nested or dropped column", 3)),
    ],
)
def test_values_for_other_formats(found: tuple[PartitionValue, ...], expected: PartitionValue) -> None:
    assert found == (expected,)


@given(st.dates())
def test_dates_are_those_of_python(day: date) -> None:
    assert partition((day - date(1970, 1, 1)).days, "date").texts["p"] == day.isoformat()


@given(st.datetimes())
def test_timestamps_are_those_of_python(moment: datetime) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    micros = (moment.replace(tzinfo=timezone.utc) - epoch) // timedelta(microseconds=1)
    text = partition(micros, "timestamp-micros").texts["p"]
    assert text is not None
    padded = f"{text}000000"[: len("2026-01-01T00:00:00.000000")] if "." in text else text
    assert datetime.fromisoformat(padded) == moment


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_are_exact(unscaled: int, scale: int) -> None:
    stored = unscaled.to_bytes(16, "big", signed=True)
    text = partition(stored, "decimal", scale=scale).texts["p"]
    assert text is not None
    assert Decimal(text).as_tuple().exponent == -scale
    digits = text.replace(".", "").lstrip("-")
    assert int(digits) == abs(unscaled)
    assert text.startswith("-") == (unscaled < 0)
