from __future__ import annotations

import dataclasses

import pytest

from cases import each
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits

NAMES = [field.name for field in dataclasses.fields(Limits)]


@each("name", NAMES)
def test_a_limit_lets_its_own_value_pass_and_stops_the_next(name: str) -> None:
    limits = Limits(**{name: 10})
    cursor = Cursor(bytes(100), source="x.bin", base=1000)
    limits.check(name, 10, cursor)
    with pytest.raises(LimitExceeded) as caught:
        limits.check(name, 11, cursor, 7)
    assert caught.value.what == f"Limits.{name}"
    assert (caught.value.source, caught.value.offset) == ("x.bin", 1007)
    assert (caught.value.expected, caught.value.actual) == (f"at most 10 (Limits({name}=...) raises it)", 11)


@each("name", NAMES)
def test_a_negative_limit_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"Limits.{name} must not be negative"):
        Limits(**{name: -1})
    Limits(**{name: 0})


def test_the_defaults_are_those_that_are_documented() -> None:
    assert dataclasses.asdict(DEFAULT_LIMITS) == {
        "max_vector_bytes": 2**31 - 1,
        "max_cardinality": 2**40,
        "max_metadata_bytes": 2**30,
        "max_records": 2**25,
        "max_record_bytes": 2**24,
        "max_blob_bytes": 2**30,
        "max_keys": 2**24,
    }
