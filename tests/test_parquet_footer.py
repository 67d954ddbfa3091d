"""Footers of Parquet files, by the struct: what is stepped over, what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dvcodec import DecodeError, NotCanonical, Truncated
from dvcodec.io.parquet_footer import ColumnChunk, column_chunks, keep_footer
from samples.parquet_footer import COLUMNS, META_DATA, ROW_GROUPS, STATISTICS, Tree, footer

I64, BINARY, LIST, SET, MAP, STRUCT = 6, 8, 9, 10, 11, 12
OTHERS: Tree = {
    100: (1, None),
    101: (2, None),
    102: (3, 7),
    103: (4, 300),
    104: (5, 1 << 20),
    105: (I64, 1 << 62),
    106: (7, b"12345678"),
    107: (BINARY, b"x" * 300),
    108: (LIST, (1, [1, 0, 1])),
    109: (SET, (BINARY, [b"a"] * 20)),
    110: (MAP, ((BINARY, I64), [(b"a", 2), (b"b", 4)])),
    111: (MAP, ((0, 0), [])),
    112: (STRUCT, {1: (LIST, (STRUCT, [{40: (1, None)}, {}])), 50: (7, bytes(8))}),
    113: (LIST, (LIST, [(I64, [2, 4]), (I64, [])])),
}
"""A field of every type, as a later version of the format may add it."""


def column(*, meta: Tree | None = None, more: Tree | None = None) -> Tree:
    """A column of 64-bit integers, its first page at byte 4; with these fields of its metadata, and its own."""
    statistics: Tree = {3: (I64, 2), 5: (BINARY, b"high"), 6: (BINARY, b"low")}
    found: Tree = {1: (5, 4), 3: (LIST, (BINARY, [b"a"])), 5: (I64, 6), 7: (I64, 80), 9: (I64, 8)}
    found[STATISTICS] = STRUCT, statistics
    return {META_DATA: (STRUCT, found | (meta or {}))} | (more or {})


def tree(*columns: Tree, group: Tree | None = None, top: Tree | None = None) -> Tree:
    """A footer of one row group."""
    orders: list[Tree] = [{1: (STRUCT, {})} for _ in columns]
    groups: list[Tree] = [{COLUMNS: (LIST, (STRUCT, list(columns)))} | (group or {})]
    return {ROW_GROUPS: (LIST, (STRUCT, groups)), 7: (LIST, (STRUCT, orders))} | (top or {})


class Opened:
    """Stands for a file that pyarrow has opened: only what was kept of it is read."""


def read(data: Tree | bytes, *leaves: int) -> list[dict[int, ColumnChunk]]:
    """What is read of a footer whose bytes are these."""
    body = data if isinstance(data, bytes) else footer(data)
    stored = b"PAR1" + body + len(body).to_bytes(4, "little") + b"PAR1"
    file: Any = Opened()
    keep_footer(file, lambda offset, size: stored[offset : offset + size], len(stored))
    return column_chunks(file, "f", leaves or None)


CHUNK = ColumnChunk(("a",), 2, 4, 40, 3, b"low", b"high", 1, True)


def test_a_column() -> None:
    assert read(tree(column(), column())) == [{0: CHUNK, 1: CHUNK}]
    assert read(tree(column(), column()), 1) == [{1: CHUNK}]


@pytest.mark.parametrize("where", ["top", "group", "column", "meta", "other column"])
def test_fields_of_every_type_are_stepped_over(where: str) -> None:
    one = column(more=OTHERS if where == "column" else None, meta=OTHERS if where == "meta" else None)
    other = column(more=OTHERS if where == "other column" else None)
    data = tree(one, other, group=OTHERS if where == "group" else None, top=OTHERS if where == "top" else None)
    assert read(data, 0) == [{0: CHUNK}]
    assert read(data) == [{0: CHUNK, 1: CHUNK}]


@pytest.mark.parametrize("where", ["top", "meta"])
@pytest.mark.parametrize("kind", [LIST, STRUCT])
def test_what_is_too_deep(where: str, kind: int) -> None:
    """Whether it is read or stepped over."""
    deep: Any = {} if kind == STRUCT else (I64, [])
    for _ in range(40):
        deep = {1: (STRUCT, deep)} if kind == STRUCT else (LIST, [deep])
    fields: Tree = {100: (kind, deep)}
    data = tree(column(), top=fields) if where == "top" else tree(column(meta=fields))
    with pytest.raises(NotCanonical, match=r"f at byte .*: footer: expected at most 16 levels, found more"):
        read(data)


@pytest.mark.parametrize("where", ["top", "meta"])
@pytest.mark.parametrize("kind", [13, 14, 15])
def test_a_type_that_there_is_not(where: str, kind: int) -> None:
    body = footer(tree(column()))
    field = bytes([0x40 | kind])  # the fourth field after the last one
    if where == "top":
        body = body[:-1] + field + b"\x00"
    else:
        at = body.index(b"low") + 3
        body = body[: at + 1] + field + body[at + 1 :]
    with pytest.raises(NotCanonical, match=f"type of a field: expected 1 to 12, found {kind}"):
        read(body)


def test_footers_that_end_early() -> None:
    """Wherever it is cut, and whoever reads the column there."""
    whole = footer(tree(column(), column(more=OTHERS), top=OTHERS))
    assert read(whole, 0) == [{0: CHUNK}]
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            read(whole[:size], 0)
        with pytest.raises(DecodeError):
            read(whole[:size])


@pytest.mark.parametrize("items", [1, 3, 7])
def test_a_list_that_claims_more_than_there_is(items: int) -> None:
    """It is not walked through."""
    body = footer(tree(column()))[:-1]
    claimed = b"\x19" + bytes([0xF0 | items]) + b"\xff\xff\xff\xff\x7f"
    with pytest.raises(Truncated, match="value: expected a whole one, found the end of the footer"):
        read(body + claimed + b"\x00")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "footer: expected a list of row groups"),
        ({ROW_GROUPS: (STRUCT, {})}, "footer: expected a list of row groups"),
        ({ROW_GROUPS: (LIST, (BINARY, [b"x"]))}, "element type of a list: expected 12, found 8"),
        ({ROW_GROUPS: (LIST, (STRUCT, [{}]))}, "row group: expected a list of columns"),
        ({ROW_GROUPS: (LIST, (STRUCT, [{COLUMNS: (I64, 2)}]))}, "row group: expected a list of columns"),
        (tree({}), "column of a row group: expected the offset of its first page"),
        (tree(column(meta={9: (BINARY, b"x")})), "column of a row group: expected the offset of its first page"),
    ],
)
def test_what_is_missing(data: Tree, said: str) -> None:
    with pytest.raises(NotCanonical, match=f"^f at byte [0-9]+: {said}"):
        read(data)


@pytest.mark.parametrize(
    ("meta", "changed"),
    [
        ({11: (I64, 6)}, {"start": 3}),
        ({11: (I64, 10)}, {"start": 4}),
        ({11: (I64, 0)}, {"start": 4}),
        ({11: (5, 6)}, {"start": 4}),
        ({5: (5, 6), 7: (5, 80)}, {"size": 0, "values": 0}),
        ({1: (BINARY, b"x")}, {"kind": -1}),
        ({3: (SET, (BINARY, [b"a"]))}, {"path": ()}),
        ({3: (LIST, (I64, []))}, {"path": ()}),
        ({3: (LIST, (BINARY, [b"\xff"]))}, {"path": ("\ufffd",)}),
        ({5: (BINARY, b""), 7: (STRUCT, {})}, {"size": 0, "values": 0}),
        ({STATISTICS: (I64, 2)}, {"low": None, "high": None, "nulls": None}),
        ({STATISTICS: (STRUCT, {3: (BINARY, b""), 5: (I64, 2)})}, {"low": None, "high": None, "nulls": None}),
    ],
)
def test_fields_of_another_type_are_unknown(meta: Tree, changed: dict[str, Any]) -> None:
    assert read(tree(column(meta=meta))) == [{0: CHUNK._replace(**changed)}]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (tree(column(), top={2: (LIST, (I64, [2]))}), STRUCT),
        (tree(column(), top={5: (LIST, (BINARY, [b"a"]))}), STRUCT),
        (tree(column(), top={7: (LIST, (I64, [2]))}), STRUCT),
        (tree(column(), group={4: (LIST, (I64, [2]))}), STRUCT),
        (tree(column(meta={2: (LIST, (BINARY, [b"a"]))})), 5),
        (tree(column(meta={3: (LIST, (I64, [2]))})), BINARY),
        (tree(column(meta={16: (STRUCT, {2: (LIST, (STRUCT, [{}]))})})), I64),
        (tree(column(more={8: (STRUCT, {2: (STRUCT, {1: (LIST, (STRUCT, [{}]))})})})), BINARY),
    ],
)
def test_a_list_of_elements_that_pyarrow_reads_as_another_type(data: Tree, wanted: int) -> None:
    """It does not look at the type that the list states, and would go on at another byte."""
    with pytest.raises(NotCanonical, match=f"element type of a list: expected {wanted}, found"):
        read(data)


@pytest.mark.parametrize("number", [ROW_GROUPS, 7, 100])
def test_a_field_of_a_footer_that_comes_twice(number: int) -> None:
    whole = footer(tree(column(), top={100: (I64, 2)}))
    again = footer({number: (LIST, (STRUCT, []))})
    again = b"\x09" + bytes([number << 1]) + again[2:] if number < 16 else again
    again = again if number < 16 else b"\x06" + footer({number: (I64, 2)})[1:]
    with pytest.raises(NotCanonical, match=f"each number once, within 16 bits, found {number}"):
        read(whole[:-1] + again)
