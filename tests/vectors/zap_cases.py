"""The documents and merges of which `regenerate.py` has zapx write segments, each with what it proves."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

INDEXED, STORED, VECTORS, VALUES, NO_FREQUENCY, RAW_VALUES, UNCHUNKED_VALUES = (1 << bit for bit in range(7))
TEXT = INDEXED | STORED | VECTORS | VALUES

Document = dict[str, Any]

VERSIONS = ("11", "12", "13", "14", "15", "16", "17_1", "17")
LOCATED_VERSIONS, SYNONYM_VERSIONS, NESTED_VERSIONS, GEO_VERSIONS = (VERSIONS[start:] for start in (4, 5, 6, 7))


@dataclass(frozen=True)
class Fresh:
    """A segment of documents."""

    documents: list[Document]
    proves: str
    versions: tuple[str, ...] = VERSIONS
    chunk_mode: int | None = None


@dataclass(frozen=True)
class Merge:
    """A segment of other segments (by name), each without some of its documents."""

    inputs: list[tuple[str, list[int] | None]]
    proves: str
    versions: tuple[str, ...] = VERSIONS
    chunk_mode: int | None = None


def b64(data: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(data).decode()}


def text(name: str, value: str, opt: int = TEXT, **more: object) -> dict[str, object]:
    return {"name": name, "value": value, "opt": opt, "tv": bool(opt & VECTORS), **more}


def word(name: str, value: str, opt: int = INDEXED | STORED | VALUES, **more: object) -> dict[str, object]:
    return {"name": name, "value": value, "opt": opt, "keyword": True, **more}


def document(name: str, *fields: dict[str, object], **more: object) -> Document:
    return {"id": name, "fields": list(fields), **more}


BYTES = [
    {"id": b64(b"\xff\x00id"), "fields": [{"name": "raw", "value64": "//4A", "opt": 11, "keyword": True}]},
    document("empty", word("raw", ""), text("split", "two  spaces"), word("blob", "", STORED, type="e")),
    document(
        "terms",
        {
            "name": "raw",
            "value": "x",
            "opt": TEXT,
            "tokens": [
                ["", 1, [[None, 1, 0, 0, None]]],
                [b64(b"a\xffb"), 2, None],
                [b64(b"\xfe"), 1, []],
                ["ü", 1, None],
            ],
        },
        word("ünïcode 字", "🦊"),
    ),
]

INSTANCES = [
    document(
        "a",
        text("list", "one two", ap=[0]),
        text("list", "two three two", ap=[1]),
        text("list", "one", ap=[1, 300, 2**40]),
        word("n", "5", INDEXED | STORED, type="n"),
        word("b", "T", INDEXED | STORED | VALUES, type="b"),
        word("long", "lorem ipsum " * 60, STORED),
        all=True,
    ),
    document("b", text("list", "", ap=[0]), word("n", "7", INDEXED | STORED, type="n"), all=True),
    document("c", all=True),
    document("d", text("plain", "one one", INDEXED), text("list", "one"), all=True),
]

FREQUENCIES = [
    document(
        "a",
        text("skipped", "x y x", INDEXED | STORED | VALUES | NO_FREQUENCY, tv=False),
        {
            "name": "odd",
            "value": "",
            "opt": INDEXED | VECTORS,
            "length": 1000,
            "tokens": [
                ["few", 9, [["odd", 1, 0, 3, None]]],
                ["foreign", 2, [["skipped", 70000, 2**33, 2**33 + 3, [7]], [None, 2, 4, 5, None]]],
                ["large", 2**20, None],
            ],
        },
    ),
    document(
        "b",
        text("skipped", "y", INDEXED | STORED | VALUES | NO_FREQUENCY, tv=False),
        {"name": "odd", "value": "", "opt": INDEXED | VECTORS, "length": 0, "tokens": [["few", 1, None]]},
    ),
    document("c", {"name": "odd", "value": "", "opt": INDEXED | VECTORS, "length": 3, "tokens": []}),
]

LOCATED = [
    document("a", text("t", "x y x", INDEXED | VECTORS | NO_FREQUENCY), text("u", "x x", INDEXED | VECTORS), all=True),
    document("b", text("t", "y", INDEXED | VECTORS | NO_FREQUENCY), all=True),
]

CHUNKED = [
    document(f"d{i}", text("t", "every" + " third" * (i % 3 == 0)), *[word("late", f"v{i}")] * (i in (5, 6)))
    for i in range(11)
]


def some(prefix: str, count: int, extra: str) -> list[Document]:
    """Documents of which most terms are in one only, in the fields `t`, `u` and `extra`."""
    return [
        document(
            f"{prefix}{i}",
            text("t", f"common {prefix}{i} even{i % 2}", INDEXED | STORED | VALUES),
            text("u", f"seen {prefix}{i}"),
            text(extra, f"{extra} {i}", INDEXED | STORED),
        )
        for i in range(count)
    ]


LEFT, RIGHT, OTHER = some("l", 4, "x"), some("r", 3, "x"), some("o", 3, "y")
RIGHT[2]["fields"].append(word("t", "l1"))  # a term of the left, in the last segment that has it

OPTIONS = [
    document("a", word("free", "never chunked")),
    document(
        "b",
        word("shape", "raw value", INDEXED | STORED | VALUES | RAW_VALUES | UNCHUNKED_VALUES, type="s"),
        word("shape", "another", INDEXED | STORED | VALUES | RAW_VALUES | UNCHUNKED_VALUES, type="s"),
    ),
    document(
        "c",
        word("free", "", INDEXED | VALUES),
        word("shape", "third", INDEXED | VALUES | RAW_VALUES | UNCHUNKED_VALUES),
    ),
]

SHAPES = [
    document("a", text("s", "cell other", INDEXED | VALUES, type="s", shape="##{}##"), all=True),
    document(
        "b", text("s", "cell", INDEXED | VALUES, type="s", shape=b64(b"##\xfe\xff##")), text("t", "cell"), all=True
    ),
]

GEO = [
    document("a"),
    document(
        "b",
        word(
            "g", "b", geo={"inner": [5, 2**63], "cross": [9, 3], "scores": [1, 2], "box": "bb", "shape": b64(b"\xfe")}
        ),
        text("t", "also text"),
    ),
    document("c", word("g", "c", geo={"inner": [], "cross": [], "scores": [0, 0], "box": "c", "shape": "c"})),
    document("d", word("g", "d", geo={"inner": [4, 5], "cross": [3], "scores": [2**40, 0], "box": "d", "shape": "dd"})),
]

NESTED = [
    document(
        "order",
        text("name", "first order"),
        kids=[
            document("order/0", text("item", "red box"), kids=[document("order/0/0", word("part", "lid"))]),
            document("order/1", text("item", "blue box")),
        ],
    ),
    document("childless", text("name", "second order")),
    document("third", kids=[document("third/0", text("item", "red bag"))]),
]

SYNONYMS = [
    document("s1", {"name": "first", "syn": {"big": ["large", "huge"], "small": ["tiny"]}}),
    document("s2", {"name": "second", "syn": {"big": ["wide"], "b64:/w==": [b64(b"\xfe")]}}),
    document("s3", {"name": "first", "syn": {"big": ["giant", "large"]}}, {"name": "second", "syn": {"wide": ["big"]}}),
    document("t", text("name", "no synonyms")),
]
MORE_SYNONYMS = [
    document("s4", {"name": "first", "syn": {"big": ["huge", "vast"]}}),
    document("s5", {"name": "third", "syn": {"old": ["aged"]}}),
]

CASES: dict[str, Fresh | Merge] = {
    "bytes": Fresh(BYTES, "ids, values and terms that are empty or not UTF-8; 0xff in doc values"),
    "instances": Fresh(INSTANCES, "several instances of a field, array positions, types, a composite field"),
    "frequencies": Fresh(
        FREQUENCIES, "frequency 0, fewer locations than the frequency, locations of another field, lengths 0 and 1000"
    ),
    "located": Fresh(LOCATED, "locations where the frequency is 0", LOCATED_VERSIONS),
    "chunked": Fresh(CHUNKED, "two documents in a chunk; in version 11 doc values too", chunk_mode=2),
    "left": Fresh(LEFT, "input of merges"),
    "right": Fresh(RIGHT, "input of merges, with the fields of left"),
    "other": Fresh(OTHER, "input of merges, with other fields"),
    "merged": Merge(
        [("left", None), ("right", None)], "equal fields, nothing dropped: records are copied; single hits"
    ),
    "dropped": Merge([("left", [0, 2]), ("right", [1])], "equal fields, documents dropped"),
    "unlike": Merge([("left", [3]), ("other", None), ("bytes", [0])], "unlike fields"),
    "fallback": Merge(
        [("left", None), ("right", [2])], "l1 is a single document, but not of the last segment that has it"
    ),
    "again": Merge([("dropped", [0]), ("unlike", [1, 2])], "single hits in the inputs"),
    "remade": Merge([("instances", [1]), ("frequencies", None)], "composite fields, frequency 0, foreign locations"),
    "rechunked": Merge([("chunked", [0]), ("chunked", None)], "other chunks than in the inputs", chunk_mode=3),
    "shapes": Fresh(SHAPES, "shapes in doc values, behind the terms"),
    "none": Merge([("left", [0, 1, 2, 3])], "no document is left", VERSIONS[:5]),
    "options": Fresh(OPTIONS, "doc values neither compressed nor chunked", NESTED_VERSIONS),
    "options-merged": Merge([("options", [0]), ("options", None)], "the same from a merge", NESTED_VERSIONS),
    "geo": Fresh(GEO, "a geo section, type 3", GEO_VERSIONS),
    "geo-merged": Merge([("geo", [2]), ("left", None), ("geo", [0, 3])], "a geo section from a merge", GEO_VERSIONS),
    "nested": Fresh(NESTED, "nested documents, three deep", NESTED_VERSIONS),
    "nested-merged": Merge([("nested", [5, 6]), ("nested", [0, 1, 2, 3])], "whole families dropped", NESTED_VERSIONS),
    "synonyms": Fresh(SYNONYMS, "two thesauri, synonyms of several documents", SYNONYM_VERSIONS),
    "more-synonyms": Fresh(MORE_SYNONYMS, "input of a merge", SYNONYM_VERSIONS),
    "synonyms-merged": Merge(
        [("synonyms", [1]), ("more-synonyms", None)], "thesauri of both, one dropped", SYNONYM_VERSIONS
    ),
}
