"""Bitmaps in the wrappers of other systems: bytes that these wrote, laws, and what is refused.

``tests/interop/test_dialects.py`` drives ClickHouse and Java.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64, FrozenBitMap, FrozenBitMap64

from cases import each
from dvcodec import DecodeError, LimitExceeded, Limits, RowSet, Truncated, UsageError, iceberg, sniff, verify
from dvcodec.dialects import DIALECTS, WRAPPERS, Dialect, decode, ducklake, encode, tantivy
from dvcodec.puffin import PuffinWriter

VECTORS = Path(__file__).parent / "vectors" / "dialects"
CROARING = json.loads((VECTORS / "croaring.json").read_text())
DORIS = {
    "AA==": [],
    "BAIAAAAAOzAAAAEAAB8AAQAAAB8AAQAAADowAAABAAAAAAAAABAAAAAAAA==": [*range(32), 1 << 32],
    "BQQAAAAAAAAAAAEAAAAAAAAAAgAAAAAAAAADAAAAAAAAAA==": [0, 1, 2, 3],
    "DAI7MAAAAQAAIAABAAAAIAA=": [*range(33)],
    "DQIAAAAAAjswAAABAAAfAAEAAAAfAAEAAAABAQAAAAAAAAA=": [*range(32), 1 << 32],
}
"""What Doris' ``bitmap_to_base64`` gives, as its own tests of the function say (function_bitmap_test.cpp)."""


@each("text", DORIS)
def test_values_of_doris(text: str) -> None:
    data = base64.b64decode(text)
    rows = decode(data, "doris")
    assert rows == RowSet(DORIS[text])
    if data[0] <= 4:  # the codes of the first version, which are written
        assert encode(rows, "doris") == data


@each("name", [case["name"] for case in CROARING["bitmaps"]])
def test_bitmaps_of_croaring(name: str) -> None:
    (case,) = (case for case in CROARING["bitmaps"] if case["name"] == name)
    rows = RowSet([first + i * step for first, count, step in case["sequences"] for i in range(count)])
    data = base64.b64decode(case["base64"])
    assert decode(data, "croaring") == rows
    assert encode(rows, "croaring") == data
    frozen = base64.b64decode(case["frozen"])
    assert decode(frozen, "croaring-frozen") == rows
    assert encode(rows, "croaring-frozen") == frozen


PICKLED = [[], [5], [5, 1 << 20], range(100_000), range(0, 2_000_000, 3), range(0, 64_000, 2)]


@pytest.mark.parametrize("bits", [32, 64])
def test_pickles_of_pyroaring(bits: Literal[32, 64]) -> None:
    """The bytes of pickle, in frames and out of them; every protocol, and pickle's Python, which writes others."""
    makes = (BitMap, FrozenBitMap) if bits == 32 else (BitMap64, FrozenBitMap64)
    dialect: Dialect = "pyroaring32" if bits == 32 else "pyroaring64"
    for positions in PICKLED:
        rows = RowSet(positions)
        data = encode(rows, dialect)
        assert data == pickle.dumps(makes[0](positions), 4)
        assert pickle.loads(data) == makes[0](positions)
        for make in makes:
            for protocol in range(2, 6):
                for dump in (pickle.dumps, pickle._dumps):  # type: ignore[attr-defined]
                    assert decode(dump(make(positions), protocol), dialect) == rows
    other: Dialect = "pyroaring64" if bits == 32 else "pyroaring32"
    for wrong in (makes[0]([1]), b"a", [makes[0]([1])], {1: 2}, RowSet([1]), Path, None):
        with pytest.raises(DecodeError):
            decode(pickle.dumps(wrong), other)


@st.composite
def some_rows(draw: st.DrawFn) -> RowSet:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    most = draw(st.sampled_from([200, 60_000, 2**32 - 1, 2**40, 2**63]))
    count = draw(st.sampled_from([0, 1, 2, 31, 32, 33, 500, 9000]))
    rows = RowSet(random.integers(0, most, count, dtype=np.uint64))
    return rows | RowSet(range(100, 5000)) if most > 10_000 and draw(st.booleans()) else rows


@given(some_rows(), st.sampled_from(DIALECTS))
def test_rows_survive(rows: RowSet, dialect: Dialect) -> None:
    if (rows.max or 0) > WRAPPERS[dialect].highest:
        with pytest.raises(UsageError, match=f"does not fit a bitmap of the dialect {dialect}"):
            encode(rows, dialect)
    else:
        data = encode(rows, dialect)
        assert decode(data, dialect) == rows


@each("dialect", DIALECTS)
def test_any_bytes_end_in_rows_or_a_decode_error(dialect: Dialect) -> None:
    """Cut anywhere, one bit flipped anywhere, and bytes after the end."""
    for rows in (RowSet([5]), RowSet(range(0, 200, 5)), RowSet(range(250))):
        data = encode(rows, dialect)
        for size in range(len(data)):
            if dialect != "delvec" or size != 1:  # which is empty
                with pytest.raises(DecodeError):
                    decode(data[:size], dialect)
        with pytest.raises(DecodeError):
            decode(data + b"\0", dialect)
        for bit in range(8 * len(data)):
            damaged = bytearray(data)
            damaged[bit >> 3] ^= 1 << (bit & 7)
            try:
                assert isinstance(decode(damaged, dialect), RowSet)
            except DecodeError as error:
                assert str(error)


TREE = """01 0100000000000000
    04 000000 000000000000 0200000000000000
    01000000 fe 04000000 00 00 01 02 01000000 0700 00
    0100000000000000 00000000 02000000"""
"""The value 7, after two others were removed."""
WRONG: dict[str, tuple[Dialect, str, str]] = {
    "ClickHouse's kind": ("clickhouse32", "02 00", "kind"),
    "a size that is another": ("clickhouse32", "01 09 3a30000000000000 00", "bytes after the end of the bitmap"),
    "more values than bytes": ("clickhouse64", "00 02 0500000000000000", "values"),
    "a list that ClickHouse refuses": ("clickhouse8", "00 21" + bytes(range(33)).hex(), "count"),
    "a value beyond the column's type": ("clickhouse8", "01 12 3a30000001000000 00000000 10000000 0001", "values"),
    "Doris' code": ("doris", "06", "code"),
    "a key twice": ("doris", "04 02" + "07000000 3a30000000000000" * 2, "key"),
    "more bitmaps than bytes": ("starrocks", "04 ffffff7f", "key"),
    "CRoaring's kind": ("croaring", "03 00000000", "kind"),
    "a cookie that is not frozen": ("croaring-frozen", "c7350000", "cookie"),
    "a type of frozen containers": ("croaring-frozen", "0500 0000 0000 04 c6b50000", "type of a container"),
    "frozen containers beyond the bytes": ("croaring-frozen", "05000000 00 02 c6350100", "containers"),
    "frozen containers of other sizes": ("croaring-frozen", "0000050000000000 02 c6b50000", "bytes of the containers"),
    "a frozen array that descends": (
        "croaring-frozen",
        "0500 0400 0000 0100 02 c6b50000",
        "values not strictly ascending in array container 0 (key 0x0000)",
    ),
    "no run": ("croaring-frozen", "0000 0000 03 c6b50000", "runs of a container"),
    "a frozen bitset of few": (
        "croaring-frozen",
        "ff" + "00" * 8191 + "0000 0700 01 c6b50000",
        "cardinality of bitset container 0",
    ),
    "the flag of a tree": ("java-art", "02", "flag"),
    "keys of a tree": ("java-art", TREE.replace("01 01", "01 02", 1), "key count"),
    "a leaf's head": ("java-art", TREE.replace("04 0000", "04 0100"), "leaf"),
    "a kind of node": ("java-art", TREE.replace("04 0000", "05 0000"), "kind of a node"),
    "a prefix that is a key": ("java-art", TREE.replace("04 000000", "00 000006"), "prefix of a node"),
    "a node without children": (
        "java-art",
        TREE.replace("04 000000", "00 000000 00000000 04 000000"),
        "children of a node",
    ),
    "a leaf elsewhere": ("java-art", TREE.replace("04 000000", "00 010000 00000007 04 000000"), "leaf"),
    "a place that is free": ("java-art", TREE.replace("0200000000000000", "0100000000000000"), "containers"),
    "a mark": ("java-art", TREE.replace("fe", "ff"), "mark of a list"),
    "a type of Java": ("java-art", TREE.replace("02 01000000 0700", "03 01000000 0700"), "type of a container"),
    "no value": ("java-art", TREE.replace("02 01000000 0700", "02 00000000 0700"), "cardinality"),
    "the last place": ("java-art", TREE.replace("00000000 02000000", "00000000 09000000"), "end of the containers"),
    "a pickle's protocol": ("pyroaring32", "80 01", "protocol"),
    "another class": ("pyroaring32", "8003 63 6f730a 73797374656d0a 29 81", "class"),
    "another instruction": ("pyroaring32", "800363 7079726f6172696e670a4269744d61700a52", "instruction of the pickle"),
    "instructions without end": ("pyroaring32", "8004" + "94" * 99, "instruction of the pickle"),
    "no name": ("pyroaring32", "8003 63 7079726f6172696e67", "name"),
    "a name with escapes": ("pyroaring32", "8003 63 5c7837307964 5c64 0a 4269744d61700a 29 81", "class"),
    "half a surrogate": ("pyroaring32", "8004 8c03eda080 8c06 4269744d6170 93", "class"),
    "a string beyond the end": ("pyroaring32", "8004 8d ffffffffffffffff", "string"),
    "Java's flag": ("java-legacy", "02 00000000", "flag for signed values"),
    "StarRocks' version": ("delvec", "02", "version"),
    "no Base64": ("hudi", "2a2a2a2a", "Base64"),
}


def test_trees_with_free_places() -> None:
    assert decode(bytes.fromhex(TREE), "java-art") == RowSet([7])


@each("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    dialect, data, what = WRONG[name]
    with pytest.raises(DecodeError) as caught:
        decode(bytes.fromhex(data), dialect, source="x")
    assert (caught.value.what, caught.value.source) == (what, "x")
    assert str(caught.value).isprintable()


def test_limits_apply() -> None:
    rows = RowSet(range(100))
    for dialect in DIALECTS:
        with pytest.raises(LimitExceeded, match="max_vector_bytes"):
            decode(encode(rows, dialect), dialect, limits=Limits(max_vector_bytes=3))
        for few in (rows, RowSet(range(9))):
            with pytest.raises(LimitExceeded, match="max_cardinality"):
                decode(encode(few, dialect), dialect, limits=Limits(max_cardinality=len(few) - 1))
    with pytest.raises(Truncated):
        decode(b"", "doris")
    with pytest.raises(UsageError, match="dialect"):
        decode(b"", cast("Dialect", "druid"))
    for other in ("tantivy", "ducklake"):
        with pytest.raises(UsageError, match=f"has functions of its own: see dvcodec.dialects.{other}"):
            encode(RowSet(), cast("Dialect", other))


def test_the_vector_that_ducklake_writes() -> None:
    file = VECTORS / "ducklake.puffin"
    assert ducklake.read_snapshots(file) == {None: RowSet(range(10, 501))}
    assert sniff(file).kind == "blob"
    assert verify(file).ok


def test_vectors_of_several_snapshots(tmp_path: Path) -> None:
    snapshots = {7: RowSet([1, 2, 2**33]), 3: RowSet([2]), 12: RowSet([1, 2, 5, 2**33])}
    file = tmp_path / "several.puffin"
    ducklake.write_snapshots(file, "t/data.parquet", snapshots)
    assert ducklake.read_snapshots(file) == snapshots
    assert list(ducklake.read_snapshots(file.read_bytes())) == [3, 7, 12]
    assert iceberg.read_deletion_vectors(file, duplicates="last") == {"t/data.parquet": snapshots[12]}
    assert verify(file).ok
    ducklake.write_snapshots(file, "t/data.parquet", {7: snapshots[7]})
    assert ducklake.read_snapshots(file) == {None: snapshots[7]}
    for wrong, message in (
        ({}, "none"),
        ({3: RowSet([2]), 7: RowSet([1])}, "7 deletes not all rows of 3"),
        ({-1: RowSet([1])}, "snapshot"),
        ({1: [1]}, "RowSet"),
    ):
        with pytest.raises(UsageError, match=message):
            ducklake.write_snapshots(file, "t/data.parquet", cast("dict[int, RowSet]", wrong))
    assert ducklake.read_snapshots(file) == {None: snapshots[7]}


@each(
    ["properties", "what"],
    [
        ([{}], "blob property ducklake-snapshot-id"),
        ([{"ducklake-snapshot-id": "x"}], "blob property ducklake-snapshot-id"),
        ([{"ducklake-snapshot-id": "4"}] * 2, "blob property ducklake-snapshot-id"),
        (
            [{"ducklake-snapshot-id": str(i), "referenced-data-file": str(i)} for i in range(2)],
            "blob property referenced-data-file",
        ),
        ([{"ducklake-snapshot-id": "4", "cardinality": "2"}], "cardinality"),
        ([], "deletion vectors"),
    ],
)
def test_snapshots_that_contradict_each_other(properties: list[dict[str, str]], what: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.puffin"
    with PuffinWriter(file) as writer:
        for one in properties:
            frame = iceberg.encode(RowSet([1]))
            writer.add("deletion-vector-v1", frame, fields=[], snapshot_id=-1, sequence_number=-1, properties=one)
    with pytest.raises(DecodeError, match=what):
        ducklake.read_snapshots(file)


@given(some_rows(), st.sampled_from([0, 1, 63, 64, 65, 70_000]))
def test_documents_survive(rows: RowSet, more: int) -> None:
    deleted = RowSet([row for row in rows.to_numpy(np.uint64).tolist() if row < 300_000])
    documents = (-1 if deleted.max is None else deleted.max) + 1 + more
    assert tantivy.decode(tantivy.encode(deleted, documents)) == (deleted, documents)


def test_the_file_that_tantivy_writes() -> None:
    data = (VECTORS / "tantivy.del").read_bytes()
    found = tantivy.decode(data)
    assert found == (RowSet(range(0, 1000, 3)), 1000)
    assert tantivy.encode(*found) == data


FOOTER = b'{"version":{"index_format_version":7},"crc":0}'


def alive(body: str, footer: bytes | None = None) -> bytes:
    """A file of tantivy: body as hex, and a footer that fits it, unless one is given."""
    data = bytes.fromhex(body)
    text = FOOTER.replace(b'"crc":0', b'"crc":%d' % zlib.crc32(data)) if footer is None else footer
    return data + text + len(text).to_bytes(4, "little") + (1337).to_bytes(4, "little")


WRONG_FILES = {
    "no footer": (b"\0" * 7, "end of the footer"),
    "another magic": (b"\0" * 20, "magic"),
    "a footer that is too long": (b"\xff" * 4 + (1337).to_bytes(4, "little"), "bytes of the footer"),
    "no JSON": (alive("00000000", b"{"), "footer"),
    "no CRC": (alive("00000000", b'{"version":{"index_format_version":7}}'), "footer"),
    "another format": (alive("00000000", FOOTER.replace(b"7", b"8")), "version of tantivy's format"),
    "another CRC": (alive("00000000", FOOTER), "CRC-32 of the words"),
    "no words": (alive("01000000"), "words"),
    "more words": (alive("00000000" + "00" * 8), "bytes after the end of the words"),
    "alive after the last": (alive("01000000" + "02" + "00" * 7), "bits after the last document"),
}


@each("name", WRONG_FILES)
def test_alive_bitsets_that_are_wrong(name: str) -> None:
    data, what = WRONG_FILES[name]
    with pytest.raises(DecodeError) as caught:
        tantivy.decode(data, source="x")
    assert (caught.value.what, caught.value.source) == (what, "x")
    assert str(caught.value).isprintable()


def test_documents_that_do_not_fit() -> None:
    for deleted, documents in ((RowSet([5]), 5), (RowSet(), 2**32), (RowSet(), -1)):
        with pytest.raises(UsageError):
            tantivy.encode(deleted, documents)
