"""Lists of fields, in both of their forms."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from cases import each
from dvcodec import DecodeError
from dvcodec.io import open_source
from dvcodec.zap import FieldInfo, Segment
from dvcodec.zap.footer import MAX_FIELDS, decode_footer
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder, minimal, uv

EARLY, LATE = range(11, 16), (16, 17)


def fields_of(craft: SegmentBuilder, **what: object) -> tuple[FieldInfo, ...]:
    return Segment.open(craft.finish(**what)).fields  # type: ignore[arg-type]


def refusal(craft: SegmentBuilder, **what: object) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        fields_of(craft, **what)
    assert caught.value.source == "<bytes>"
    assert caught.value.offset is not None
    return caught.value


def sections(craft: SegmentBuilder, *found: tuple[int, int], **what: int) -> FieldInfo:
    """Add a field with such a list of sections."""
    craft.field("f", sections=found, **what)  # type: ignore[arg-type]
    return fields_of(craft)[1]


# ------------------------------------------------------------------ valid ones


@each("version", LATE)
@each("count", range(5))
def test_sections_are_listed_in_any_order_and_number(version: int, count: int) -> None:
    for kinds in itertools.permutations(range(4), count):
        craft = minimal(version)
        text = craft.put(uv(NOT, NOT, 9))
        info = sections(craft, *((kind, text + kind if kind else text) for kind in kinds))
        assert info.dictionary == (9 if 0 in kinds else None)
        assert info.vectors == (text + 1 if 1 in kinds else None)
        assert info.synonyms == (text + 2 if 2 in kinds else None)
        assert info.shapes == (text + 3 if 3 in kinds else None)


# ------------------------------------------------------------------ the index


def test_hazard_more_fields_than_zapx_can_count() -> None:
    count = MAX_FIELDS + 1
    for version in VERSIONS:
        craft = minimal(version)
        index = (uv(count) if version > 15 else b"") + np.zeros(count, ">u8").tobytes()
        error = refusal(craft, index=index)
        assert (error.what, error.actual) == ("number of fields", count)


# ------------------------------------------------------------------ names


@each("version", VERSIONS)
def test_hazard_one_name_twice(version: int) -> None:
    for name in ("_id", "a"):
        craft = minimal(version)
        craft.field("a")
        craft.field("b")
        craft.field(name)
        error = refusal(craft)
        assert (error.what, error.actual) == ("fields", f"{name!r} twice")
        with open_source(craft.finish()) as source:
            assert error.offset == decode_footer(source).fields_index


def test_hazard_records_in_each_other() -> None:
    """Names that hold other records make gigabytes of a small file."""
    craft = minimal(15)
    record = uv(0, 1 << 21 | 0x61)  # which is UTF-8
    craft.records.append(record * 50 + b"x" * (3 << 20))
    own, count = len(craft.records[0]), 51
    craft.blocks = [None] * count
    first = len(craft.out) + 20 * count
    error = refusal(craft, addresses=[first, *(first + own + len(record) * i for i in range(50))])
    assert error.what == "field records overlap"


@each("version", VERSIONS)
def test_fields_that_are_none(version: int) -> None:
    """Blocks of doc values, addresses and names that no field has."""
    for block in ((10, 20), (20, 10), (5, 10**9), (10**9, 10**9 + 40)):
        craft = minimal(version)
        craft.field("f", block=block)
        error = refusal(craft)
        assert (error.what, error.actual) == ("doc value block", f"bytes {block[0]} to {block[1]}")
    craft = minimal(version)
    craft.field(b"\xff\xfe")
    assert (refusal(craft).what, refusal(craft).actual) == ("field name", repr(b"\xff\xfe"))
    craft = SegmentBuilder(version)
    craft.documents(1)
    assert (refusal(craft).what, refusal(craft).actual) == ("first field", "no field")
    craft.field("a")
    assert (refusal(craft).what, refusal(craft).actual) == ("first field", "'a'")
    index = uv(3) + bytes(8) if version > 15 else bytes(9)
    assert refusal(minimal(version), index=index).what == ("sections index" if version > 15 else "fields index")


# ------------------------------------------------------------------ sections


@each("version", LATE)
@each(
    ("what", "more"),
    [
        *(("type of a section", {"sections": [(kind, 0) for kind in kinds]}) for kinds in ([4], [256], [2, 0, 2])),
        *(("number of sections", {"sections": [(0, 0), (2, 0)], "count": count}) for count in (5, NOT)),
    ],
)
def test_hazard_lists_of_sections(version: int, what: str, more: dict[str, Any]) -> None:
    craft = minimal(version)
    craft.field("f", **more)
    assert refusal(craft).what == what


def test_hazard_options_of_nine_bits() -> None:
    craft = minimal(17)
    craft.field("f", options=256)
    error = refusal(craft)
    assert (error.what, error.actual) == ("options of a field", 256)


@each("version", VERSIONS)
def test_hazard_the_address_of_a_dictionary_outside(version: int) -> None:
    craft = minimal(version)
    craft.field("f", 300)
    end = len(craft.finish()) - {16: 52, 17: 40}.get(version, 44)
    assert 128 < end < 1 << 14, "the address takes two bytes"
    for wrong in (end, NOT):
        craft = minimal(version)
        craft.field("f", wrong)
        error = refusal(craft)
        assert (error.what, error.actual) == ("address of a dictionary", wrong)


# ------------------------------------------------------------------ doc value blocks


@each("version", VERSIONS)
@each(
    ("one", "other", "refused"),
    [
        ((10, 40), (40, 60), False),
        ((40, 60), (10, 40), False),
        ((10, 40), (10, 40), True),
        ((39, 60), (10, 40), True),
        ((10, 90), (30, 60), True),
    ],
)
def test_fields_share_no_doc_values(version: int, one: tuple[int, int], other: tuple[int, int], refused: bool) -> None:
    """Each field would read them by itself."""
    craft = minimal(version)
    for name, block in (("a", one), ("b", None), ("c", other)):
        craft.field(name, block=block)
    if not refused:
        assert [info.doc_values for info in fields_of(craft)] == [None, one, None, other]
        return
    low, high = sorted([one, other])
    error = refusal(craft)
    assert (error.what, error.offset) == ("doc value blocks overlap", high[0])
    assert error.expected == f"from byte {low[1]} on, where another one ends"
