"""Every check by name: one damage, one finding."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from cases import each
from dvcodec.core.report import Check, Report, Status
from dvcodec.zap import verify_segment
from dvcodec.zap.verify import FIELD_CHECKS, SEGMENT_CHECKS
from samples.bitmaps import array, bitmap, vector64
from samples.zap.parts import Sample
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder, chunked, docs_of, norm, uv


def one(report: Report) -> Check:
    """The only finding."""
    (check,) = report.findings
    assert check.message
    return check


def by_name(report: Report, subject: str = "file") -> dict[str, Status]:
    return {check.name: check.status for check in report.checks if check.subject == subject}


# ------------------------------------------------------------------ valid ones


def test_real_segments_are_valid(samples: list[Sample]) -> None:
    sample = samples[-1]
    report = verify_segment(sample.raw)
    assert (report.ok, report.source, report.kind) == (True, "<bytes>", f"zap v{sample.footer.version}")
    assert by_name(report) == dict.fromkeys(SEGMENT_CHECKS, Status.PASS)
    for info in sample.fields:
        applies = dict.fromkeys(FIELD_CHECKS, True) | {
            "doc-values": info.doc_values is not None,
            "synonyms": info.synonyms is not None,
            "vectors": False,
            "options": sample.footer.version >= 17,
        }
        found = by_name(report, f"field {info.name!r}")
        assert {name: status is Status.PASS for name, status in found.items()} == applies


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
DAMAGES: dict[str, tuple[Sequence[int], dict[str, Any], str, str]] = {
    "a document's record": (VERSIONS, {"document": b"\x02"}, "stored", "file"),
    "an edge to nowhere": ((17,), {"edges": uv(1, 3, 0)}, "nested", "file"),
    "a document without an id": (VERSIONS, {"ids": ([0], [1])}, "ids", "file"),
    "a dictionary's size": (VERSIONS, {"dictionary": lambda data: b"\x05" + data[1:]}, "dictionary", FIELD),
    "a dictionary's number of keys": (
        VERSIONS,
        {"dictionary": lambda data: data[:-16] + b"\x02" + data[-15:]},
        "dictionary",
        FIELD,
    ),
    "a reserved kind of value": (VERSIONS, {"value": 1 << 62}, "postings", FIELD),
    "a bitmap": (VERSIONS, {"docs": bitmap(array(0, [2, 0]))}, "postings", FIELD),
    "frequencies": (VERSIONS, {"freqs": uv(3)}, "postings", FIELD),
    "locations": (VERSIONS, {"places": uv(6, 0, 1, 2, 3, 0)}, "postings", FIELD),
    "a location in a field that is not there": (VERSIONS, {"places": uv(5, 2, 1, 2, 3, 0)}, "postings", FIELD),
    "more locations than the frequency": (
        range(11, 15),
        {"places": uv(10, 0, 1, 2, 3, 0, 0, 1, 2, 3, 0)},
        "postings",
        FIELD,
    ),
    "a 1-hit that Go takes for nothing": (VERSIONS, {"value": 2 << 62 | 1}, "one-hits", FIELD),
    "a 1-hit among others": (VERSIONS, {"terms": {b"a": 2 << 62 | 1 << 31, b"y": 2 << 62}}, "one-hits", FIELD),
    "doc values": (VERSIONS, {"chunk": uv(1, 1, 2) + uv(2, 4) + b"xx"}, "doc-values", FIELD),
    "synonyms of a document that is not there": (LATE, {"members": vector64((7, docs_of([3])))}, "synonyms", FIELD),
    "a vector of a document that is not there": (LATE, {"vector": 3}, "vectors", FIELD),
    "the option of doc values without any": ((17,), {"values": False}, "options", FIELD),
    "no compression alone": ((17,), {"options": 15 | 32, "chunk": uv(1, 1, 2) + b"x\xff"}, "options", FIELD),
}


@each("name", DAMAGES)
def test_one_damage_is_one_finding(name: str) -> None:
    versions, damage, check, subject = DAMAGES[name]
    for version in versions:
        assert verify_segment(full(version)).ok
        report = verify_segment(full(version, **damage))
        found = one(report)
        assert (found.name, found.subject) == (check, subject)
        assert "among others" not in name or "b'y'" in str(found.message)
        hidden = {at.name for at in report.checks if at.status is Status.NOT_APPLICABLE and at.subject == subject}
        if check == "dictionary":
            assert hidden >= {"postings", "one-hits"}
        assert by_name(report)["crc"] is Status.PASS
