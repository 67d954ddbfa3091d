"""Avro records in columns are what they are one by one, or they are left to that."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calls import calls_of
from cases import each
from dvcodec.core import avro, avro_columns
from dvcodec.core.avro import CODECS, AvroFile
from dvcodec.core.avro_columns import AvroColumns, read_columns
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError
from dvcodec.core.limits import Limits
from samples.avro import block, header, packed, records, sized, zigzag

pytest.importorskip("fastavro")

VECTORS = Path(__file__).parents[1] / "vectors"
ANCHOR = ("file", "path")
NUMBERS = ("int", "long")
RAW = ("string", "bytes", "record")


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def numbered(name: str, value: str) -> dict[str, Any]:
    return {"type": "array", "items": record(name, field("key", "int"), field("value", value)), "logicalType": "map"}


# ---------------------------------------------------------------------- any schema


def opened(data: bytes, limits: Limits | None = None) -> AvroFile:
    return avro.decode(Cursor(data, source="x.avro"), limits=limits or Limits())


def plain(kind: Any) -> Any:
    """A type that may be null, without that."""
    if isinstance(kind, list):
        (kind,) = (one for one in kind if one != "null")
    return kind


def name_of(kind: Any) -> str:
    kind = plain(kind)
    return str(kind["type"] if isinstance(kind, dict) else kind)


def is_map(kind: Any) -> bool:
    items = plain(kind).get("items") if name_of(kind) == "array" else None
    return isinstance(items, dict) and [one["name"] for one in items.get("fields", ())] == ["key", "value"]


def leaves(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for one in schema["fields"]:
        place = (*path, one["name"])
        yield place, one["type"]
        if not isinstance(one["type"], list) and name_of(one["type"]) == "record":
            yield from leaves(one["type"], place)


def at(row: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        row = row[name]
    return row


def check_column(file: AvroFile, found: AvroColumns, rows: list[Any], path: tuple[str, ...], kind: Any) -> None:
    wanted = [at(row, path) for row in rows]
    column = found.columns[path]
    assert column.is_null.tolist() == [one is None for one in wanted], path
    assert column.null_count == wanted.count(None)
    if name_of(kind) in NUMBERS:
        assert [column[number] for number in range(len(rows))] == wanted, path
        return
    stored: list[Any] = list(found.bytes_of(column))
    if name_of(kind) == "record":
        reader = file.reader(plain(kind))
        stored = [None if one is None else reader(io.BytesIO(raw)) for raw, one in zip(stored, wanted, strict=True)]
    elif name_of(kind) == "string":
        stored = found.texts(column)
    assert [None if one is None else own for own, one in zip(stored, wanted, strict=True)] == wanted, path


def check_pairs(found: AvroColumns, rows: list[Any], path: tuple[str, ...], kind: Any) -> None:
    pairs = found.pairs[path]
    value = plain(kind)["items"]["fields"][1]["type"]
    values = pairs.values.tolist() if value in NUMBERS else found.bytes_of(pairs)
    own: list[list[dict[str, Any]]] = [[] for _ in rows]
    for row, key, one in zip(pairs.rows.tolist(), pairs.keys.tolist(), values, strict=True):
        own[row].append({"key": key, "value": one})
    assert own == [at(row, path) or [] for row in rows], path
    some = pairs.of_key(3)
    assert some.rows.tolist() == [row for row, key in zip(pairs.rows, pairs.keys, strict=True) if key == 3]


def check(data: bytes, anchor: tuple[str, ...] = ANCHOR, few: int = 1) -> AvroColumns | None:
    """Read a file in columns, and compare all of them with records one by one."""
    file = opened(data)
    every = dict(leaves(file.schema))
    whole = {path for path, kind in every.items() if name_of(kind) == "record" and path != anchor[:1]}
    alone = [path for path in every if path != anchor[:1] and not any(path[:-1][: len(one)] == one for one in whole)]
    maps = [path for path in alone if is_map(every[path])]
    wanted = [path for path in alone if name_of(every[path]) in (*NUMBERS, *RAW)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_columns, "_FEW", few)
        found = read_columns(file, anchor, wanted, maps)
    if found is None:
        return None
    rows = list(file.records())  # what is read in columns is not damaged
    assert found.count == len(rows)
    for path in wanted:
        check_column(file, found, rows, path, every[path])
    for path in maps:
        check_pairs(found, rows, path, every[path])
    return found


LONGS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -1, 63, 64, -64, -65, 2**55, 2**56, -(2**63)]))
INTS = st.integers(-(2**31), 2**31 - 1)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "int": INTS,
    "long": LONGS,
    "boolean": st.booleans(),
    "null": st.none(),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=200),
    "string": st.text(st.characters(codec="utf-8"), max_size=70),
}


@st.composite
def kinds(draw: st.DrawFn, names: Iterator[int], depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """A type, and its values."""
    what = draw(st.sampled_from([*PRIMITIVES, "fixed", *(["null or", "array", "map", "record"] if depth else [])]))
    if what in PRIMITIVES:
        return what, PRIMITIVES[what]
    if what == "fixed":
        size = draw(st.integers(1, 20))
        return {"type": "fixed", "name": f"n{next(names)}", "size": size}, st.binary(min_size=size, max_size=size)
    if what == "map":
        value = draw(st.sampled_from(["int", "long", "bytes"]))
        pair = st.fixed_dictionaries({"key": st.integers(0, 5), "value": PRIMITIVES[value]})
        return numbered(f"n{next(names)}", value), st.lists(pair, max_size=5)
    if what == "record":
        of = draw(st.lists(kinds(names, depth - 1), max_size=3))
        fields = [field(f"f{number}", kind) for number, (kind, _) in enumerate(of)]
        values = st.fixed_dictionaries({f"f{number}": values for number, (_, values) in enumerate(of)})
        return record(f"n{next(names)}", *fields), values
    kind, values = draw(kinds(names, depth - 1).filter(lambda one: one[0] != "null" and not isinstance(one[0], list)))
    if what == "null or":
        either = [["null", kind], [kind, "null"]]
        return draw(st.sampled_from(either)), st.one_of(st.none(), values)
    return {"type": "array", "items": kind}, st.lists(values, max_size=4)


@st.composite
def files(draw: st.DrawFn) -> tuple[Any, list[dict[str, Any]]]:
    """A schema, and records whose path is near their beginning."""
    names = iter(range(1000))
    head = draw(st.lists(kinds(names, 1).filter(lambda one: not is_map(one[0])), max_size=2))
    rest = draw(st.lists(kinds(names), max_size=4))
    members = {f"a{number}": one for number, one in enumerate(head)}
    tail = {f"z{number}": one for number, one in enumerate(rest)}
    path = st.text("abc\u00e9/-", min_size=30, max_size=80).map(lambda text: f"s3://t/{text}")
    inner = record(
        "inner", field("content", "int"), field("path", "string"), *(field(n, kind) for n, (kind, _) in tail.items())
    )
    schema = record("outer", *(field(n, kind) for n, (kind, _) in members.items()), field("file", inner))
    values = {"content": st.integers(0, 2), "path": path} | {n: one for n, (_, one) in tail.items()}
    rows = st.fixed_dictionaries({n: one for n, (_, one) in members.items()} | {"file": st.fixed_dictionaries(values)})
    return schema, draw(st.lists(rows, min_size=1, max_size=8))


def in_blocks(schema: Any, rows: list[dict[str, Any]], cuts: list[int], codec: str = "null") -> bytes:
    """A file of blocks that end at these records."""
    bounds = [0, *sorted(cuts), len(rows)]
    parts = [rows[a:b] for a, b in pairwise(bounds)]
    blocks = (block(len(part), packed(records(schema, *part), codec)) for part in parts)
    return header(schema, codec) + b"".join(blocks)


@settings(max_examples=150)
@given(files(), st.data())
def test_columns_are_what_records_have(file: tuple[Any, list[dict[str, Any]]], data: st.DataObject) -> None:
    schema, kept = file
    rows = data.draw(st.lists(st.sampled_from(kept), min_size=1, max_size=60))
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=3))
    whole = in_blocks(schema, rows, cuts, data.draw(st.sampled_from(CODECS)))
    found = check(whole)
    everything = records(schema, *rows)
    is_usual = "'array'" not in repr(schema["fields"][:-1])  # items before the text put it at too many places
    if is_usual and everything.count(b"s3://") <= len(everything) // avro_columns._APART and has_items_of_bytes(schema):
        assert found is not None


def has_items_of_bytes(kind: Any) -> bool:
    try:
        opened(header(kind)).reader()
    except DecodeError:
        return False
    return True


@settings(max_examples=150)
@given(files(), st.data())
def test_damage_is_never_another_value(file: tuple[Any, list[dict[str, Any]]], data: st.DataObject) -> None:
    """Bytes that are changed, left out or added: what is read in columns still is what is read one by one."""
    schema, kept = file
    rows = data.draw(st.lists(st.sampled_from(kept), min_size=1, max_size=20))
    content = bytearray(records(schema, *rows))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content)))
        gone = data.draw(st.integers(0, 3))
        content[place : place + gone] = data.draw(st.binary(max_size=4))
    check(header(schema) + block(len(rows) + data.draw(st.sampled_from([0, 0, 0, 1, -1])), bytes(content)))


# ---------------------------------------------------------------------- manifests

PARTITION = record("partition", field("day", ["null", "string"]), field("part", ["int", "null"]))
FILE = record(
    "file",
    field("content", "int"),
    field("path", "string"),
    field("partition", PARTITION),
    field("rows", "long"),
    field("sizes", ["null", numbered("sizes", "long")]),
    field("lower", ["null", numbered("lower", "bytes")]),
    field("offsets", ["null", {"type": "array", "items": "long"}]),
    field("flag", "boolean"),
    field("share", "double"),
)
ENTRY = record("entry", field("status", "int"), field("snapshot", ["null", "long"]), field("file", FILE))


def entry(number: int) -> dict[str, Any]:
    rng = random.Random(number)
    return {
        "status": number % 2,
        "snapshot": None if number % 7 == 0 else rng.getrandbits(62),
        "file": {
            "content": 0,
            "path": f"s3://bucket/table/data/day={number % 9}/{rng.getrandbits(100):030x}-\u00e9.parquet",
            "partition": {"day": None if number % 5 else f"2026-01-{number % 9}", "part": number % 3 or None},
            "rows": rng.getrandbits(rng.randrange(63)),
            "sizes": [{"key": key, "value": rng.getrandbits(20)} for key in range(number % 6)] or None,
            "lower": [{"key": key, "value": rng.randbytes(key)} for key in range(number % 4)],
            "offsets": [4] * (number % 3),
            "flag": number % 2 == 0,
            "share": number / 8,
        },
    }


ENTRIES = [entry(number) for number in range(300)]


@each("codec", CODECS)
def test_entries_of_a_manifest(codec: str) -> None:
    found = check(in_blocks(ENTRY, ENTRIES, [1, 1, 40, 299], codec), few=300)
    assert found is not None
    assert check(in_blocks(ENTRY, ENTRIES, [5], codec), few=301) is None
    column = found.columns["file", "rows"].take(found.columns[("status",)].values.nonzero()[0])
    assert column.values.tolist() == [one["file"]["rows"] for one in ENTRIES if one["status"]]


def test_paths_of_many_beginnings() -> None:
    def named(count: int) -> bytes:
        rows = [one | {"file": one["file"] | {"path": f"{n % count:05}{'x' * 50}"}} for n, one in enumerate(ENTRIES)]
        return in_blocks(ENTRY, rows, [])

    assert check(named(3)) is not None
    assert check(named(200)) is None


def test_records_that_look_like_several() -> None:
    """A text may hold whole records: they are not records there."""
    inside = [one | {"file": one["file"] | {"path": one["file"]["path"] + "s3://bucket" * 3}} for one in ENTRIES]
    schema = record("outer", field("file", record("file", field("path", "string"), field("more", "bytes"))))
    nested = [{"file": {"path": f"s3://{n:040}", "more": b"P" + f"s3://{n:035}".encode() + b"\0"}} for n in range(200)]
    twice = [{"file": {"path": f"s3://{n:040}", "more": records(schema, *nested[:3])}} for n in range(200)]
    assert check(in_blocks(ENTRY, inside, [])) is not None
    assert check(in_blocks(schema, nested, [])) is not None
    assert check(in_blocks(schema, twice, [])) is not None


def test_items_in_blocks_of_a_stated_size() -> None:
    """Go's writers state a negative number of items, and their bytes; the bytes are not looked at."""
    schema = record(
        "outer", field("file", record("file", field("path", "string"), field("of", numbered("of", "long"))))
    )

    def row(number: int, *blocks: bytes) -> bytes:
        return sized(f"s3://bucket/{number:040}".encode()) + b"".join(blocks) + zigzag(0)

    pair = zigzag(3) + zigzag(-(2**63))
    ways = [
        (),
        (zigzag(-1), zigzag(len(pair)), pair),
        (zigzag(-1), zigzag(2**40), pair),
        (zigzag(1), pair, zigzag(-2), zigzag(2 * len(pair)), pair, pair),
    ]
    content = b"".join(row(number, *ways[number % 4]) for number in range(200))
    assert check(header(schema) + block(200, content)) is not None


def test_records_of_too_many_bytes_are_left() -> None:
    most = max(len(records(ENTRY, one)) for one in ENTRIES)
    for limit, is_read in ((most, True), (most - 1, False)):
        file = opened(in_blocks(ENTRY, ENTRIES, []), Limits(max_record_bytes=limit))
        assert (read_columns(file, ANCHOR, [("status",)]) is not None) == is_read


def test_the_text_to_guess_by() -> None:
    file = opened(in_blocks(ENTRY, ENTRIES, []))
    assert read_columns(file, ("file", "no"), []) is None
    assert read_columns(file, ("file", "rows"), []) is None
    assert read_columns(file, ("file",), []) is None
    assert read_columns(file, ANCHOR, [("file", "flag")]) is None
    assert read_columns(file, ANCHOR, [], [("file", "rows")]) is None
    assert read_columns(file, ANCHOR, [], [("file", "offsets")]) is None
    found = read_columns(file, ANCHOR, [("no",)])
    assert found is not None
    assert not found.columns
    before = record("outer", field("of", numbered("of", "long")), field("file", record("f", field("path", "string"))))
    rows = [{"of": [], "file": {"path": f"s3://{number:050}"}} for number in range(200)]
    assert read_columns(opened(in_blocks(before, rows, [])), ANCHOR, [], [("of",)]) is None


# ---------------------------------------------------------------------- what it takes


def hostile(count: int, size: int) -> dict[str, bytes]:
    """Contents of records that have, or claim, very many items."""
    path = sized(b"s3://bucket/" + bytes(50))
    ones = {"more items than bytes": path + zigzag(2**62) + bytes(10), "least number": path + zigzag(-(2**63)) + b"\1"}
    found = {name: one * count for name, one in ones.items()}
    found["items of a byte"] = path + zigzag(size) + b"\1" * size + zigzag(0)
    found["blocks of an item"] = path + b"\2\1" * (size // 2) + zigzag(0)
    found["paths"] = b"s3://" * (size // 5)
    found["records that overlap"] = (path[:20] + zigzag(size // 30)) * (size // 30)
    return found


@each("name", hostile(1, 100))
def test_hostile_counts_take_bounded_work(name: str) -> None:
    schema = record("outer", field("file", record("f", field("path", "string"), field("of", numbered("of", "int")))))
    work = []
    for size in (1 << 18, 1 << 19):
        file = opened(header(schema) + block(200, hostile(300, size)[name]))
        found: list[AvroColumns | None] = []
        work.append(calls_of(lambda file=file, found=found: found.append(read_columns(file, ANCHOR, []))))  # type: ignore[misc]
        assert found == [None]
    assert work[1] < 2.5 * work[0] + 1000
    assert work[1] < 300_000


# ---------------------------------------------------------------------- what engines wrote


def test_manifests_that_engines_wrote() -> None:
    tried = 0
    for path in sorted(VECTORS.rglob("*.avro")):
        file = opened(path.read_bytes())
        anchor = next((p for p, _ in leaves(file.schema) if p[-1] in ("file_path", "_FILE_NAME")), None)
        if anchor is not None and file.count():
            tried += check(path.read_bytes(), anchor) is not None
    assert tried > 10
