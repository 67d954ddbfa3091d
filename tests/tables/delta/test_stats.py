"""Statistics of data files with deleted rows: what stays is the text itself."""

from __future__ import annotations

import pytest

from cases import each
from dvcodec import NotCanonical
from dvcodec.tables.delta.bounds import loosened


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (None, '{"numRecords":7,"tightBounds":false}'),
        ("", '{"numRecords":7,"tightBounds":false}'),
        (" { } ", '{"numRecords":7,"tightBounds":false}'),
        ('{ "a" : 1.10 , "tightBounds" : true }', '{"a":1.10,"tightBounds":false,"numRecords":7}'),
        ('{"maxValues":{"x":"}, é\\u00e9"}}', '{"maxValues":{"x":"}, é\\u00e9"},"numRecords":7,"tightBounds":false}'),
    ],
)
def test_members_keep_their_text(stats: str | None, expected: str) -> None:
    assert loosened(stats, 7, "0.json") == expected


@each("stats", ["7", "[]", "{", '{"a"', '{"a" 1}', '{"a":}', '{"a":1 "b":2}', '{"a":1,}', '{"a":' + "[" * 50_000])
def test_what_is_not_an_object_is_refused(stats: str) -> None:
    with pytest.raises(NotCanonical, match=r"^0\.json: add\.stats: expected a JSON object, found "):
        loosened(stats, 7, "0.json")
