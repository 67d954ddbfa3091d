"""Partition values: their texts, and what is equal."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.tables.iceberg.avro_fields import Logical
from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.iceberg.partitions import Partition, PartitionReader


def partition(value: Any, logical: str | None = None, *, transform: str = "identity", **more: Any) -> Partition:
    kind = None if logical is None else Logical(logical, more.get("scale", 0), more.get("utc", False))
    fields = [PartitionField(1000, 1, "p", transform)]
    return PartitionReader(0, fields, {1000: ("stored", kind)}).read({"stored": value})


@pytest.mark.parametrize(
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
    ],
)
def test_texts(made: Partition, text: str) -> None:
    assert made.label == text


def test_a_field_that_the_manifest_does_not_have_is_null() -> None:
    made = PartitionReader(2, [PartitionField(1000, 1, "p", "void")], {}).read({})
    assert (made.key, made.texts, made.label) == ((2, (None,)), {"p": None}, "p=null")


def test_no_fields() -> None:
    made = PartitionReader(0, [], {}).read({"left": 1})
    assert (made.key, made.label) == ((0, ()), None)


def test_not_a_number_is_itself() -> None:
    assert partition(float("nan")).key == partition(float("nan")).key
    assert partition(float("nan")).key != partition(0.0).key


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
