"""Lists of fields, in both of their forms."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec import DecodeError, NotCanonical
from dvcodec.core.errors import Truncated
from dvcodec.io import open_source
from dvcodec.zap import FieldInfo, FieldOptions, Segment, verify_segment
from dvcodec.zap.fields import (
    MAX_FIELDS,
    decode_fields,
    encode_block,
    encode_field,
    encode_fields_index,
    encode_record,
    encode_text,
)
from dvcodec.zap.footer import Footer, decode_footer
from samples.zap.parts import Sample, segment
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder, minimal, uv

EARLY, LATE = range(11, 16), (16, 17)
names = st.one_of(st.text(max_size=3), st.just("n" * 5000)).filter(
    lambda name: name.encode("utf-8", "replace") != b"_id"
)
utf8 = names.filter(lambda name: name.isascii() or all(not 0xD800 <= ord(char) < 0xE000 for char in name))


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


def test_the_fields_of_go_are_what_go_reads(samples: list[Sample]) -> None:
    for sample in samples:
        fields = sample.fields
        assert [info.id for info in fields] == list(range(len(fields)))
        assert fields[0].name == "_id"
        names = [info.name for info in fields]
        assert set(names) == set(sample.dump["fields"])
        assert names[1:] == sorted(names[1:], key=str.encode)
        assert {info.name for info in fields if info.doc_values} == set(sample.dump["dv_fields"] or ())
        assert all((info.options is None) == (sample.footer.version < 17) for info in fields)
        assert {info.name for info in fields if info.synonyms} == set(sample.dump.get("thesauri") or ())
        assert not any(info.vectors or info.shapes for info in fields)


@settings(max_examples=examples(60))
@given(st.sampled_from(VERSIONS), st.lists(utf8, unique=True, max_size=6), st.data())
def test_fields_come_back_as_they_were(version: int, others: list[str], data: st.DataObject) -> None:
    craft = SegmentBuilder(version)
    craft.documents(3)
    craft.put(bytes(300))
    expected = []
    for number, name in enumerate(["_id", *others]):
        dictionary = data.draw(st.sampled_from([0, 40 + number, 77 + number]))  # fields share none
        at = 30 + 40 * number
        block = data.draw(st.sampled_from([None, (at, at + 17), (at, at + 40)]))
        options = data.draw(st.integers(0, 255)) if version == 17 else None
        craft.field(name, dictionary, block, options=options or 0)
        kept = None if options is None else FieldOptions(options)
        expected.append(FieldInfo(number, name, dictionary or None, block, kept))
    assert list(fields_of(craft)) == expected


@each("version", VERSIONS)
def test_fields_share_no_dictionary(version: int) -> None:
    """Each would be read by itself: a small file of many fields would take very long."""
    craft = SegmentBuilder(version)
    craft.documents(3)
    craft.put(bytes(100))
    for name in ("_id", "a", "b"):
        craft.field(name, 0 if name == "_id" else 40)
    error = refusal(craft)
    assert (error.what, error.expected, error.actual) == (
        "address of a dictionary",
        "one for each field",
        "40 again",
    )


@settings(max_examples=examples(60))
@given(st.sampled_from(VERSIONS), st.lists(utf8, unique=True, max_size=4), st.data())
def test_fields_are_written_as_they_are_read(version: int, others: list[str], data: st.DataObject) -> None:
    """The encoders, against the layout written down a second time."""
    craft = SegmentBuilder(version)
    craft.documents(1)
    raw = bytearray(craft.out)
    addresses, records, blocks = [], [], []
    for name in ["_id", *others]:
        block = data.draw(st.sampled_from([None, (0, 17), (5, 2**40)]))
        options = FieldOptions(data.draw(st.integers(0, 255)))
        dictionary = data.draw(st.sampled_from([0, 5, 2**33]))
        craft.field(name, dictionary, block, options=int(options))
        blocks.append(block)
        if version < 16:
            records.append(encode_record(name, dictionary))
        else:
            at = len(raw)
            raw += encode_text(dictionary, block)
            records.append(encode_field(name, options if version == 17 else None, {2: 0, 0: at}))
    if version < 16:
        table = len(raw)
        raw += b"".join(encode_block(block) for block in blocks)
    for record in records:
        addresses.append(len(raw))
        raw += record
    index = len(raw)
    raw += encode_fields_index(version, addresses)
    by_hand = craft.finish()
    assert by_hand.startswith(raw)
    assert len(by_hand) - len(raw) == {16: 52, 17: 40}.get(version, 44)
    assert index.to_bytes(8, "big") in by_hand[len(raw) :]
    assert version > 15 or table.to_bytes(8, "big") in by_hand[len(raw) :]


@each("version", VERSIONS)
def test_long_names(version: int) -> None:
    """Records are first looked for in a few thousand bytes."""
    for size in [127, 128, 4080, 4090, 4096, 4097, 8192, 100_000]:
        craft = minimal(version)
        craft.field("a" * size)
        craft.field("b" * size)
        assert [info.name for info in fields_of(craft)] == ["_id", "a" * size, "b" * size]


@pytest.mark.parametrize("version", LATE)
def test_a_long_list_of_sections_behind_a_long_name(version: int) -> None:
    craft = minimal(version)
    at = craft.put(uv(NOT, NOT, 0))
    craft.field("a" * 4090, sections=[(3, at), (1, at), (0, at), (2, at)])
    info = fields_of(craft)[1]
    assert (info.vectors, info.synonyms, info.shapes) == (at, at, at)


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


@pytest.mark.parametrize("version", LATE)
def test_a_section_at_address_0_is_none(version: int) -> None:
    craft = minimal(version)
    info = sections(craft, (0, 0), (1, 0), (2, 0), (3, 0))
    assert info == FieldInfo(1, "f", options=info.options)


@each("version", VERSIONS)
def test_a_record_at_address_0_is_one(version: int) -> None:
    """Where a merge of zapx keeps no document; from version 16 on its own reader then loses `_id`."""
    craft = SegmentBuilder(version)
    craft.field("_id", sections=[(0, 0), (2, 0)])
    craft.field("f", sections=[(2, 0), (0, 0)])
    raw = craft.finish(table=b"", table_at=NOT)
    found = Segment.open(raw).fields
    assert [(info.name, info.dictionary, info.doc_values) for info in found] == [("_id", None, None), ("f", None, None)]
    assert verify_segment(raw).ok


# ------------------------------------------------------------------ the index


@each("version", EARLY)
@each("extra", [1, 4, 7])
def test_hazard_an_index_that_is_not_a_multiple_of_8(version: int, extra: int) -> None:
    craft = minimal(version)
    raw = craft.finish()
    index = raw[-52:-44]
    assert "fields index" in refusal(craft, index=index + bytes(extra)).what
    assert refusal(craft, index=index[:extra]).what == "fields index"


@each("version", VERSIONS)
def test_hazard_documents_without_fields(version: int) -> None:
    craft = SegmentBuilder(version)
    craft.documents(2)
    error = refusal(craft)
    assert (error.what, error.expected, error.actual) == ("first field", "_id", "no field")


@each("version", VERSIONS)
def test_no_fields_and_no_documents(version: int) -> None:
    craft = SegmentBuilder(version)
    craft.put(b"\0" * 9)
    assert fields_of(craft) == ()


@each("version", LATE)
@each("count", [0, 2, 3, 2**32, 2**61, NOT])
def test_hazard_another_number_of_fields_than_addresses(version: int, count: int) -> None:
    craft = minimal(version)
    data = uv(count) + struct.pack(">Q", len(craft.out))
    error = refusal(craft, index=data)
    assert error.what == "sections index"


def test_hazard_more_fields_than_zapx_can_count() -> None:
    count = MAX_FIELDS + 1
    for version in VERSIONS:
        craft = minimal(version)
        index = (uv(count) if version > 15 else b"") + np.zeros(count, ">u8").tobytes()
        error = refusal(craft, index=index)
        assert (error.what, error.actual) == ("number of fields", count)


@each("version", VERSIONS)
def test_as_many_fields_as_zapx_can_count(version: int) -> None:
    if version in (12, 13, 14):
        return
    craft = minimal(version)
    for i in range(1, 3000 if version != 15 else MAX_FIELDS):
        craft.field(f"{i:05}", sections=[])
    assert len(fields_of(craft)) == len(craft.records)


@each("version", VERSIONS)
def test_hazard_the_address_of_a_record_outside(version: int) -> None:
    for far in [0, 1, 2**40, 2**63, NOT]:
        craft = minimal(version)
        end = len(craft.finish()) - {16: 52, 17: 40}.get(version, 44)
        assert type(refusal(craft, addresses=[min(end + far, NOT)])) is Truncated


@each("version", VERSIONS)
def test_hazard_the_address_of_a_record_is_that_of_something_else(version: int) -> None:
    """Address 0 is that of a document; zapx from version 16 on takes it for no field at all."""
    craft = minimal(version)
    for at in range(len(craft.out)):
        refusal(craft, addresses=[at])


# ------------------------------------------------------------------ names


@each("version", VERSIONS)
def test_hazard_names_that_are_no_utf8(version: int) -> None:
    for name in (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80"):
        craft = minimal(version)
        craft.field(name)
        error = refusal(craft)
        assert (error.what, error.expected, error.actual) == ("field name", "UTF-8", repr(name))


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


@each("version", VERSIONS)
def test_hazard_another_first_field(version: int) -> None:
    craft = SegmentBuilder(version)
    craft.documents(1)
    craft.field("a")
    craft.ids()
    error = refusal(craft)
    assert (error.what, error.actual) == ("first field", "'a'")


@each("version", VERSIONS)
def test_hazard_a_name_longer_than_the_segment(version: int) -> None:
    for size in [10_000, 2**31, 2**63, NOT]:
        craft = minimal(version)
        craft.field("abc", size=size)
        assert type(refusal(craft)) is Truncated


@each("version", VERSIONS)
def test_errors_do_not_repeat_long_names(version: int) -> None:
    for name in (b"a" * 100_000, b"\xff" * 100_000):
        craft = minimal(version)
        craft.field(name)
        craft.field(name)
        assert len(str(refusal(craft))) < 300


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


# ------------------------------------------------------------------ sections


@pytest.mark.parametrize("version", LATE)
def test_hazard_lists_of_sections(version: int) -> None:
    for kinds in ([4], [0, 4], [65535], [256]):
        craft = minimal(version)
        craft.field("f", sections=[(kind, 0) for kind in kinds])
        assert refusal(craft).what == "type of a section"
    for kinds in ([0, 0], [2, 0, 2], [3, 3]):
        craft = minimal(version)
        craft.field("f", sections=[(kind, 0) for kind in kinds])
        error = refusal(craft)
        assert (error.what, error.actual) == ("type of a section", kinds[-1])
    for count in (5, 2**16, NOT):
        craft = minimal(version)
        craft.field("f", sections=[(0, 0), (2, 0)], count=count)
        assert refusal(craft).what == "number of sections"


@pytest.mark.parametrize("version", LATE)
def test_hazard_a_list_of_sections_that_ends_too_soon(version: int) -> None:
    craft = minimal(version)
    index = uv(2) + struct.pack(">2Q", len(craft.out), len(craft.out) + len(craft.records[0]))
    # Everything before the footer is index; the record begins in its last bytes.
    tail = uv(1) + b"f" + (uv(3) if version == 17 else b"") + uv(2)
    raw = craft.finish(index=index)
    end = len(raw) - {16: 52, 17: 40}[version]
    at = end - len(tail)
    with pytest.raises(DecodeError):
        decode_fields(segment(raw[:at] + tail), Footer(version, 3, craft.stored, end - len(index), None, 1026))
    for count in (1, 2, 3, 4):
        craft = minimal(version)
        craft.field("f", sections=[], count=count)
        refusal(craft, addresses=[len(craft.out), len(craft.out) + len(craft.records[0])], index=None)


@pytest.mark.parametrize("version", LATE)
def test_hazard_a_section_outside(version: int) -> None:
    for kind in [0, 1, 2, 3]:
        for far in [0, 1, 2**40, 2**63, NOT]:
            craft = minimal(version)
            craft.field("f", sections=[(kind, 1)])
            end = len(craft.finish()) - {16: 52, 17: 40}[version]
            wrong = min(end + far, NOT)
            craft.records[-1] = craft.records[-1][:-8] + struct.pack(">Q", wrong)
            error = refusal(craft)
            assert (error.what, error.actual) == ("address of a section", wrong)


@each("version", VERSIONS)
def test_hazard_the_address_of_a_dictionary_outside(version: int) -> None:
    craft = minimal(version)
    craft.field("f", 300)
    end = len(craft.finish()) - {16: 52, 17: 40}.get(version, 44)
    assert 128 < end < 1 << 14, "the address takes two bytes"
    for wrong in (end, end + 1, 10_000, 2**40, 2**63, NOT):
        craft = minimal(version)
        craft.field("f", wrong)
        error = refusal(craft)
        assert (error.what, error.actual) == ("address of a dictionary", wrong)


def test_options_are_one_byte() -> None:
    for bits in (0, 3, 127, 128, 255):
        craft = minimal(17)
        craft.field("f", options=bits)
        assert fields_of(craft)[1].options == FieldOptions(bits)
    for bits in (256, 2**31, NOT):
        craft = minimal(17)
        craft.field("f", options=bits)
        error = refusal(craft)
        assert (error.what, error.actual) == ("options of a field", bits)


# ------------------------------------------------------------------ doc value blocks

WRONG_BLOCKS = [
    (NOT, 30),
    (30, NOT),
    (31, 30),
    (30, 30),
    (30, 46),
    (10_000, 10_020),
    (0, 10_000),
    (2**63, 2**63 + 20),
    (NOT - 20, NOT),
    (NOT - 1, 16),
    (0, 0),
]


@each("version", VERSIONS)
def test_hazard_blocks_of_doc_values(version: int) -> None:
    for block in WRONG_BLOCKS:
        craft = minimal(version)
        craft.field("f", block=block)
        error = refusal(craft)
        assert error.what == "doc value block"
        assert error.actual == f"bytes {block[0]} to {block[1]}"


@each("version", VERSIONS)
def test_fields_share_no_doc_values(version: int) -> None:
    """Each field would read them by itself."""
    for one, other, refused in (
        ((10, 40), (40, 60), False),
        ((40, 60), (10, 40), False),
        ((10, 40), (10, 40), True),
        ((10, 40), (39, 60), True),
        ((39, 60), (10, 40), True),
        ((10, 90), (30, 60), True),
    ):
        craft = minimal(version)
        craft.field("a", block=one)
        craft.field("b")
        craft.field("c", block=other)
        if not refused:
            assert [info.doc_values for info in fields_of(craft)] == [None, one, None, other]
            continue
        error = refusal(craft)
        low, high = sorted([one, other])
        assert (error.what, error.offset) == ("doc value blocks overlap", high[0])
        assert error.expected == f"from byte {low[1]} on, where another one ends"
        assert error.actual == f"bytes {high[0]} to {high[1]}"


@pytest.mark.parametrize("version", LATE)
def test_fields_share_no_vectors(version: int) -> None:
    craft = minimal(version)
    at = craft.put(bytes(30))
    for name, place in (("a", at), ("b", at + 1), ("c", at)):
        craft.field(name, sections=[(1, place)])
    error = refusal(craft)
    assert (error.what, error.expected) == ("address of a vector section", "one for each field")
    assert error.actual == f"{at} again"
    del craft.records[-1]
    assert [info.vectors for info in fields_of(craft)] == [None, at, at + 1]


@pytest.mark.parametrize("version", EARLY)
def test_hazard_a_table_of_doc_values_that_ends_too_soon(version: int) -> None:
    craft = minimal(version)
    raw = craft.finish()
    end = len(raw) - 44
    for wrong in (end, end - 1):
        assert isinstance(refusal(craft, table_at=wrong), (Truncated, NotCanonical))
    assert fields_of(craft, table_at=NOT)[0].doc_values is None


@pytest.mark.parametrize("version", EARLY)
def test_the_table_of_doc_values_does_not_count_without_documents(version: int) -> None:
    craft = SegmentBuilder(version)
    craft.field("_id")
    assert fields_of(craft, table=b"\xff" * 30, table_at=0) == (FieldInfo(0, "_id"),)
