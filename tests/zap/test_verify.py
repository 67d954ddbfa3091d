"""Every check by name: one damage, one finding."""

from __future__ import annotations

import dataclasses
import io
import struct
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec.core.ragged import cut_by_weight
from dvcodec.core.report import Check, Report, Status
from dvcodec.zap import Segment, verify_segment
from dvcodec.zap.fields import FieldInfo
from dvcodec.zap.verify import FIELD_CHECKS, SEGMENT_CHECKS
from samples.bitmaps import array, bitmap, vector64
from samples.zap.parts import Sample
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder, chunked, docs_of, footer_of, minimal, norm, sealed, uv


def one(report: Report) -> Check:
    """The only finding."""
    (check,) = report.findings
    assert check.message
    return check


def by_name(report: Report, subject: str = "file") -> dict[str, Status]:
    return {check.name: check.status for check in report.checks if check.subject == subject}


def names(report: Report) -> set[tuple[str, str]]:
    return {(check.name, check.subject) for check in report.findings}


# ------------------------------------------------------------------ valid ones


def test_real_segments_are_valid(samples: list[Sample]) -> None:
    for sample in samples:
        report = verify_segment(sample.raw)
        assert report.ok
        assert (report.source, report.kind) == ("<bytes>", f"zap v{sample.footer.version}")
        whole = [check for check in report.checks if check.subject == "file"]
        assert tuple(check.name for check in whole) == SEGMENT_CHECKS
        assert {check.status for check in whole} == {Status.PASS}
        for info in sample.fields:
            of_field = [check for check in report.checks if check.subject == f"field {info.name!r}"]
            assert tuple(check.name for check in of_field) == FIELD_CHECKS
            applies = dict.fromkeys(FIELD_CHECKS[:3], True) | {
                "doc-values": info.doc_values is not None,
                "synonyms": info.synonyms is not None,
                "vectors": False,
                "options": sample.footer.version >= 17,
            }
            assert {check.name: check.status is Status.PASS for check in of_field} == applies
        assert len(report.checks) == len(SEGMENT_CHECKS) + len(sample.fields) * len(FIELD_CHECKS)


def test_a_finding_shows_the_beginning_of_a_long_term() -> None:
    check = one(verify_segment(full(15, terms={b"b" * 90_000: 2 << 62 | 1})))
    assert check.message == f"norm of the 1-hit of {b'b' * 60!r}"


@each("version", VERSIONS)
def test_crafted_segments_are_valid(version: int) -> None:
    """What the damages below are damages of."""
    assert verify_segment(minimal(version).finish()).ok
    assert verify_segment(full(version)).ok


def full(version: int, **damage: Any) -> bytes:
    """A segment with something of everything; `damage` stands for parts of it."""
    craft = SegmentBuilder(version)
    edges = uv(1, 1, 0) if version == 17 else b""
    craft.documents(3, damage.get("edges", edges))
    if "document" in damage:
        craft.out[: len(damage["document"])] = damage["document"]
    ids = {str(i).encode(): craft.postings(docs) for i, docs in enumerate(damage.get("ids", ([0], [1], [2])))}
    craft.field("_id", craft.dictionary(ids))
    block = None
    value = damage.get("value")
    if value is None:
        places = chunked([damage.get("places", uv(5, 0, 1, 2, 3, 0))])
        freqs = chunked([damage.get("freqs", uv(3, norm(version, 4)) + uv(2, norm(version, 4)))])
        value = craft.postings(damage.get("docs", [0, 2]), freqs, places)
    terms = {b"x": value} | damage.get("terms", {})
    dictionary = craft.dictionary(terms)
    if "dictionary" in damage:
        dictionary = craft.put(damage["dictionary"](bytes(craft.out[dictionary:])))
    chunk = damage.get("chunk", uv(1, 1, 2) + uv(2, 4) + b"x\xff")
    if damage.get("values", True):
        start = craft.put(chunk + uv(len(chunk)) + struct.pack(">2Q", 1, 1))
        block = (start, len(craft.out))
    sections = None
    if version >= 16:
        sections = [(0, craft.put(uv(*(block or (NOT, NOT)), dictionary)))]
        members = damage.get("members", vector64((7, docs_of([1]))))
        at = craft.dictionary({b"s": craft.put(uv(len(members)) + members)})
        named = damage.get("names", uv(7, 1) + b"y")
        craft.put(uv(1, len(named)) + named if version == 17 else uv(1) + named)
        sections.append((2, craft.put(uv(NOT, NOT, at))))
        vectors = uv(0, 1, 1, damage.get("vector", 2), 0) if version == 17 else uv(0, 1, 2, damage.get("vector", 2))
        sections.append((1, craft.put(uv(NOT, NOT) + vectors + uv(3) + b"...")))
    craft.field("f", dictionary, block, options=damage.get("options", 15), sections=sections)
    return craft.finish()


# ------------------------------------------------------------------ one damage, one finding

FIELD = "field 'f'"
LATE = (16, 17)
DAMAGES: dict[str, tuple[tuple[int, ...], dict[str, Any], str, str]] = {
    "a document's record": (tuple(VERSIONS), {"document": b"\x02"}, "stored", "file"),
    "an edge to nowhere": ((17,), {"edges": uv(1, 3, 0)}, "nested", "file"),
    "an edge upwards": ((17,), {"edges": uv(1, 1, 2)}, "nested", "file"),
    "a document without an id": (tuple(VERSIONS), {"ids": ([0], [1])}, "ids", "file"),
    "a document with two ids": (tuple(VERSIONS), {"ids": ([0], [1], [1, 2])}, "ids", "file"),
    "a dictionary's size": (tuple(VERSIONS), {"dictionary": lambda data: b"\x05" + data[1:]}, "dictionary", FIELD),
    "a dictionary's number of keys": (
        tuple(VERSIONS),
        {"dictionary": lambda data: data[:-16] + b"\x02" + data[-15:]},
        "dictionary",
        FIELD,
    ),
    "a reserved kind of value": (tuple(VERSIONS), {"value": 1 << 62}, "postings", FIELD),
    "a value that leads nowhere": (tuple(VERSIONS), {"value": 1 << 40}, "postings", FIELD),
    "a bitmap": (tuple(VERSIONS), {"docs": bitmap(array(0, [2, 0]))}, "postings", FIELD),
    "a document that is not there": (tuple(VERSIONS), {"docs": [0, 3]}, "postings", FIELD),
    "frequencies": (tuple(VERSIONS), {"freqs": uv(3)}, "postings", FIELD),
    "locations": (tuple(VERSIONS), {"places": uv(6, 0, 1, 2, 3, 0)}, "postings", FIELD),
    "a location in a field that is not there": (tuple(VERSIONS), {"places": uv(5, 2, 1, 2, 3, 0)}, "postings", FIELD),
    "more locations than the frequency": (
        (11, 12, 13, 14),
        {"places": uv(10, 0, 1, 2, 3, 0, 0, 1, 2, 3, 0)},
        "postings",
        FIELD,
    ),
    "a 1-hit that Go takes for nothing": (tuple(VERSIONS), {"value": 2 << 62 | 1}, "one-hits", FIELD),
    "a 1-hit among others": (tuple(VERSIONS), {"terms": {b"a": 2 << 62 | 1 << 31, b"y": 2 << 62}}, "one-hits", FIELD),
    "doc values": (tuple(VERSIONS), {"chunk": uv(1, 1, 2) + uv(2, 4) + b"xx"}, "doc-values", FIELD),
    "doc values of another document": (
        tuple(VERSIONS),
        {"chunk": uv(1, 3, 2) + uv(2, 4) + b"x\xff"},
        "doc-values",
        FIELD,
    ),
    "synonyms of a document that is not there": (LATE, {"members": vector64((7, docs_of([3])))}, "synonyms", FIELD),
    "a synonym without a name": (LATE, {"members": vector64((8, docs_of([1])))}, "synonyms", FIELD),
    "a vector of a document that is not there": (LATE, {"vector": 3}, "vectors", FIELD),
    "the option of doc values without any": ((17,), {"values": False}, "options", FIELD),
    "no compression alone": ((17,), {"options": 15 | 32, "chunk": uv(1, 1, 2) + b"x\xff"}, "options", FIELD),
}


@each("name", DAMAGES)
def test_one_damage_is_one_finding(name: str) -> None:
    versions, damage, check, subject = DAMAGES[name]
    for version in versions:
        raw = full(version, **damage)
        with Segment.open(raw):
            report = verify_segment(raw)
        found = one(report)
        assert (found.name, found.subject) == (check, subject)
        hidden = {at.name for at in report.checks if at.status is Status.NOT_APPLICABLE and at.subject == subject}
        if check == "dictionary":
            assert hidden >= {"postings", "one-hits"}
        assert by_name(report)["crc"] is Status.PASS


def test_a_finding_says_where() -> None:
    raw = full(15, value=2 << 62 | 1)
    check = one(verify_segment(raw))
    assert check.offset == Segment.open(raw).field("f").dictionary
    assert (check.message, check.expected) == ("norm of the 1-hit of b'x'", "not 0")
    check = one(verify_segment(full(15, ids=([0], [2]))))
    assert (check.message, check.expected, check.actual) == ("ids of document 1", "1", "0")
    check = one(verify_segment(full(17, values=False)))
    assert (check.message, check.expected, check.actual) == ("option of doc values", "a block of them", "none")


@each("version", VERSIONS)
def test_a_wrong_checksum_hides_nothing(version: int) -> None:
    raw = full(version)
    check = one(verify_segment(raw[:-1] + bytes([raw[-1] ^ 1])))
    assert (check.name, check.subject, check.offset) == ("crc", "file", len(raw) - 4)
    assert names(verify_segment(full(version, value=1 << 62)[:-1] + b"?")) == {("crc", "file"), ("postings", FIELD)}


@each("version", VERSIONS)
def test_a_wrong_footer_hides_everything(version: int) -> None:
    for raw in (b"", b"x" * 100, full(version)[:-1], sealed(footer_of(version, 9, 0, 0))):
        report = verify_segment(raw)
        assert one(report).name == "footer"
        assert report.kind is None
        assert by_name(report) == dict.fromkeys(SEGMENT_CHECKS, Status.NOT_APPLICABLE) | {"footer": Status.FAIL}


@each("version", VERSIONS)
def test_wrong_fields_hide_what_is_in_them(version: int) -> None:
    craft = minimal(version)
    report = verify_segment(craft.finish(addresses=[2]))
    assert one(report).name == "fields"
    assert report.kind == f"zap v{version}"
    shown = {"footer": Status.PASS, "crc": Status.PASS, "fields": Status.FAIL}
    assert by_name(report) == dict.fromkeys(SEGMENT_CHECKS, Status.NOT_APPLICABLE) | shown
    craft.chunk_mode = 0
    assert one(verify_segment(craft.finish())).name == "fields"


def test_contents_transformed_by_their_writer_are_not_looked_at() -> None:
    raw = minimal(17).finish()
    bad = sealed(raw[:-40] + b"crypt" + (5).to_bytes(4, "big") + raw[-36:-4])
    report = verify_segment(bad)
    check = one(report)
    assert (check.name, check.actual) == ("fields", repr(b"crypt"))
    assert by_name(report)["crc"] is Status.PASS


def test_many_damages_are_many_findings() -> None:
    raw = full(
        17,
        document=b"\x02",
        edges=uv(1, 1, 2),
        ids=([0], [1]),
        value=1 << 62,
        options=0,
        vector=3,
        names=uv(8, 1) + b"y",
    )
    assert names(verify_segment(raw)) == {
        ("stored", "file"),
        ("nested", "file"),
        ("ids", "file"),
        ("postings", FIELD),
        ("synonyms", FIELD),
        ("vectors", FIELD),
    }


def test_documents_without_the_field_of_their_ids() -> None:
    craft = SegmentBuilder(15)
    craft.documents(2)
    craft.field("_id")
    assert one(verify_segment(craft.finish())).name == "ids"


def test_a_damaged_list_of_ids_is_found_twice() -> None:
    craft = SegmentBuilder(15)
    craft.documents(1)
    craft.field("_id", craft.put(b"\xff" * 30))
    assert names(verify_segment(craft.finish())) == {("ids", "file"), ("dictionary", "field '_id'")}


@pytest.mark.parametrize("most", [1, 2, 1000])
def test_lists_are_read_in_parts(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 1-hit that is lost is found in whichever part it is."""
    terms = {b"%d" % i: 2 << 62 | (0 if i == 7 else 1) << 31 | i % 3 for i in range(10)}
    raw = full(15, terms=terms)
    monkeypatch.setattr("dvcodec.zap.postings.cut_by_weight", lambda weights, _: cut_by_weight(weights, most))
    check = one(verify_segment(raw))
    assert (check.name, check.message) == ("one-hits", "norm of the 1-hit of b'7'")


# ------------------------------------------------------------------ around it


def test_segments_come_from_where_others_do(tmp_path: Path) -> None:
    raw = full(16)
    path = tmp_path / "x.zap"
    path.write_bytes(raw)
    for target, name in ((path, str(path)), (str(path), str(path)), (io.BytesIO(raw), "<file>")):
        report = verify_segment(target)
        assert (report.ok, report.source) == (True, name)
    with pytest.raises(FileNotFoundError):
        verify_segment(tmp_path / "y.zap")
    assert verify_segment(tmp_path / "x.zap").to_dict()["ok"] is True


def test_progress_names_each_field() -> None:
    found: list[str] = []
    verify_segment(full(15), progress=found.append)
    assert found == ["_id", "f"]


def test_reports_are_plain_values() -> None:
    report = verify_segment(full(17, vector=3))
    found = report.to_dict()
    assert (found["ok"], found["kind"], len(found["checks"])) == (False, "zap v17", len(report.checks))
    assert all(set(check) == {field.name for field in dataclasses.fields(Check)} for check in found["checks"])


def test_nothing_but_the_file_can_fail() -> None:
    """Whatever is read while verifying, a damage is a finding."""
    raw = full(17)
    for at in range(0, len(raw) - 40, 3):
        report = verify_segment(raw[:at] + bytes([raw[at] ^ 0x81]) + raw[at + 1 :])
        assert ("crc", "file") in names(report)


def test_fields_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether any has doc values is found once: thousands of fields would take seconds."""
    reads: list[Segment] = []

    def fields(segment: Segment) -> tuple[FieldInfo, ...]:
        reads.append(segment)
        return segment.contents.fields

    monkeypatch.setattr(Segment, "fields", property(fields))
    counts = []
    for count in (2, 50):
        craft = minimal(17)
        for i in range(count):
            craft.field(f"f{i}", options=8)
        reads.clear()
        assert verify_segment(craft.finish()).ok
        counts.append(len(reads))
    assert counts[0] == counts[1]
