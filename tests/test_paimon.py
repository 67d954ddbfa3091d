"""Paimon's vectors, 32- and 64-bit, and its index files."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import check_all, outcome
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    ContainerKind,
    DecodeError,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    Truncated,
    UsageError,
    decode_at,
    iceberg,
    paimon,
    read_rows,
    sniff,
)
from dvcodec.io import open_source
from dvcodec.ops.sniff import read_vector

KEY = 1 << 32
MAGIC32, MAGIC64 = b"\x5e\x43\xf2\xd0", b"\xd1\xd3\x39\x64"
BITMAP_ROWS: dict[str, RowSet] = {
    "data-aaa-0.parquet": RowSet([0, 3, 7, 100, 65535, 65536, 70000]),
    "data-bbb-1.parquet": RowSet(range(1000, 21000)),
    "data-ccc-2.parquet": RowSet(range(0, 60000, 3)),
    "data-empty-3.parquet": RowSet(),
    "data-max-4.parquet": RowSet([2147483647]),
    "data-gap-5.parquet": RowSet([5, 3 * KEY + 9]) | RowSet(range(3 * KEY + 100, 3 * KEY + 400)),
    "data-hi-6.parquet": RowSet([2 * KEY + 1]),
    "data-edge-7.parquet": RowSet([KEY - 1, KEY]),
}
INDEX_FILES = {
    "java-0.9.0/index-java09-100-0": 32,
    "java-0.9.0/index-java09-100-1": 32,
    "java-0.9.0/index-java09-2097152-0": 32,
    "java-2.1-snapshot/index-java21src-32-100-0": 32,
    "java-2.1-snapshot/index-java21src-32-100-1": 32,
    "java-2.1-snapshot/index-java21src-32-2097152-0": 32,
    "java-2.1-snapshot/index-java21src-64-100-0": 64,
    "java-2.1-snapshot/index-java21src-64-100-1": 64,
    "java-2.1-snapshot/index-java21src-64-100-2": 64,
    "java-2.1-snapshot/index-java21src-64-100-3": 64,
    "java-2.1-snapshot/index-java21src-64-2097152-0": 64,
}


class Meta(NamedTuple):
    """One vector as the index manifest names it."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None


def metas_of(index: Path) -> list[Meta]:
    """The line of an index file in the .tsv beside it: name, size, count, then file:offset:length[:cardinality]."""
    for table in index.parent.glob("metas-*.tsv"):
        for line in table.read_text().splitlines():
            name, size, count, *entries = line.split("\t")
            if name == index.name:
                assert (int(size), int(count)) == (index.stat().st_size, len(entries))
                parts = [entry.split(":") for entry in entries]
                return [Meta(p[0], int(p[1]), int(p[2]), int(p[3]) if len(p) > 3 else None) for p in parts]
    raise AssertionError(index)


def rows_of(positions: Any) -> RowSet:
    """What a truth.json says: a list, a progression, or words."""
    if isinstance(positions, list):
        return RowSet(positions)
    if isinstance(positions, dict):
        rows = RowSet(range(positions["first"], positions["last"] + 1, positions["step"]))
        assert len(rows) == positions["n"]
        return rows
    return {"1000..20999 inclusive": RowSet(range(1000, 21000)), "0,3,6,...,59997": RowSet(range(0, 60000, 3))}[
        positions
    ]


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


# ---------------------------------------------------------------------- real files


@pytest.mark.parametrize("producer", ["java-0.9.0", "java-2.1-snapshot"])
def test_truth_is_what_is_tested_for(vectors: Path, producer: str) -> None:
    truth = json.loads((vectors / "paimon" / producer / "truth.json").read_text())["positions"]
    assert {name: rows_of(positions) for name, positions in truth.items()} == {
        name: BITMAP_ROWS[name] for name in truth
    }


@pytest.mark.parametrize("name", INDEX_FILES)
def test_index_file_is_recognised_and_its_vectors_are_found(vectors: Path, name: str) -> None:
    path = vectors / "paimon" / name
    metas, bits = metas_of(path), INDEX_FILES[name]
    found = sniff(path)
    assert found.kind is (ContainerKind.PAIMON if bits == 32 else ContainerKind.DELTA)
    whole = 8 if bits == 32 else 0
    assert [(ref.offset, ref.size) for ref in found.vectors] == [(m.offset, m.length + whole) for m in metas]
    with open_source(path) as source:
        read = [read_vector(source, ref).load() for ref in found.vectors]
    assert read == [BITMAP_ROWS[meta.data_file] for meta in metas]


@pytest.mark.parametrize("name", INDEX_FILES)
def test_vector_decodes_from_its_meta(vectors: Path, name: str) -> None:
    path = vectors / "paimon" / name
    data = path.read_bytes()
    for meta in metas_of(path):
        rows = BITMAP_ROWS[meta.data_file]
        assert meta.cardinality in (None, len(rows))
        assert decode_at(path, meta.offset, meta.length, cardinality=len(rows)) == rows
        size = meta.length + (8 if INDEX_FILES[name] == 32 else 0)
        assert paimon.decode(data[meta.offset : meta.offset + size], cardinality=meta.cardinality) == rows


@pytest.mark.parametrize("name", INDEX_FILES)
def test_java_index_file_is_encoded_byte_for_byte(vectors: Path, name: str) -> None:
    path = vectors / "paimon" / name
    bits: Literal[32, 64] = 32 if INDEX_FILES[name] == 32 else 64
    frames = [paimon.encode(BITMAP_ROWS[meta.data_file], bits=bits) for meta in metas_of(path)]
    assert b"\1" + b"".join(frames) == path.read_bytes()


def test_table_of_java_holds_the_rows_that_were_deleted(vectors: Path) -> None:
    folder = vectors / "paimon/java-0.9.0-tables"
    truth = json.loads((folder / "dv_truth.json").read_text())
    path = folder / "db.db/dv/index" / truth["index_file"]
    (entry,) = truth["ranges"]
    assert decode_at(path, entry["f1"], entry["f2"]) == RowSet(truth["deleted_positions"])
    assert read_rows(path) == {None: RowSet(truth["deleted_positions"])}


def test_table_of_pypaimon_holds_the_rows_that_were_deleted(vectors: Path) -> None:
    folder = vectors / "paimon/pypaimon-2.1.0"
    truth = json.loads((folder / "t1_truth.json").read_text())
    path = folder / "db.db/t1/index/index-4a578b78-f49c-4071-be9d-a87eb3d73a88-1"
    # Vectors stand in the order of the data files' names; a file has [rows, first row id].
    firsts = [first for _, (_, first) in sorted(truth["files"].items())]
    ids: set[int] = set()
    for ref, first in zip(sniff(path).vectors, firsts, strict=True):
        ids |= {first + row for row in decode_at(path, ref.offset, ref.size)}
    assert ids == set(truth["deleted_row_ids"])


@pytest.mark.parametrize(
    "name",
    [
        "t1/index/index-4a578b78-f49c-4071-be9d-a87eb3d73a88-1",
        "t1/index/index-b680e74d-6c4e-4944-9268-f35db365d88d-1",
        "part/index/index-476c4ea5-2c5c-42b4-a422-c6f5234123fc-1",
        "part/index/index-ce5fc84f-9e26-4257-a472-d2fc391815f8-1",
    ],
)
def test_pypaimon_index_file_is_encoded_byte_for_byte_without_runs(vectors: Path, name: str) -> None:
    data = (vectors / "paimon/pypaimon-2.1.0/db.db" / name).read_bytes()
    container = sniff(data)
    assert container.kind is ContainerKind.PAIMON
    sets = [decode_at(data, ref.offset, ref.size) for ref in container.vectors]
    assert b"\1" + b"".join(paimon.encode(rows, run_optimize=False) for rows in sets) == data


# ---------------------------------------------------------------------- bytes

SETS = {
    "empty": RowSet(),
    "array": RowSet([1, 3, 5]),
    "run": RowSet(range(500)),
    "highest of 32 bits": RowSet([0, 2**31 - 1]),
}


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", SETS)
def test_vector_passes_the_battery(name: str, bits: Literal[32, 64]) -> None:
    check_all(paimon.decode, paimon.encode(SETS[name], bits=bits))


@pytest.mark.parametrize("name", SETS)
def test_64_bits_are_an_iceberg_blob_byte_for_byte(name: str) -> None:
    assert paimon.encode(SETS[name], bits=64) == iceberg.encode(SETS[name])


def test_known_bytes() -> None:
    assert (
        paimon.encode(RowSet()).hex() == "0000000c5e43f2d03a30000000000000" + f"{zlib.crc32(MAGIC32 + SETS_EMPTY):08x}"
    )
    run = struct.pack("<HHBHHHHH", 12347, 0, 1, 0, 499, 1, 0, 499)
    assert paimon.encode(SETS["run"]) == framed(MAGIC32 + run)
    array = struct.pack("<IIHHI500H", 12346, 1, 0, 499, 16, *range(500))
    assert paimon.encode(SETS["run"], run_optimize=False) == framed(MAGIC32 + array)


SETS_EMPTY = struct.pack("<II", 12346, 0)


def test_larger_values_than_java_writes_are_read() -> None:
    bitmap = struct.pack("<IIHHIH", 12346, 1, 0xFFFF, 0, 16, 0xFFFF)
    assert paimon.decode(framed(MAGIC32 + bitmap)) == RowSet([2**32 - 1])


@pytest.mark.parametrize("position", [2**31, 2**32, 2**40])
def test_position_above_31_bits_needs_64(position: int) -> None:
    rows = RowSet([position])
    with pytest.raises(UsageError, match="use 64 bits"):
        paimon.encode(rows)
    assert paimon.decode(paimon.encode(rows, bits=64)) == rows


SOUND = paimon.encode(RowSet([1, 3]))


@pytest.mark.parametrize(
    ("frame", "kind", "what"),
    [
        (framed(b"\xd0\xd3\x39\x64" + SETS_EMPTY), BadMagic, "magic"),
        (framed(MAGIC32[::-1] + SETS_EMPTY), BadMagic, "magic"),
        (framed(MAGIC32 + SETS_EMPTY + b"\0"), NotCanonical, "bytes after the end"),
        (framed(MAGIC32), Truncated, "roaring cookie"),
        (framed(MAGIC32 + bytes(8)), BadMagic, "roaring cookie"),
        (framed(MAGIC64 + SETS_EMPTY), DecodeError, "bitmap count"),
        (SOUND[:-4] + bytes(4), ChecksumMismatch, "CRC-32"),
        (SOUND[:-1], Truncated, "length field"),
        (SOUND + b"\0", NotCanonical, "length field"),
    ],
)
def test_unsound_vector_is_refused(frame: bytes, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind) as caught:
        paimon.decode(frame, source="index-0", base=7)
    assert what in caught.value.what
    assert caught.value.source == "index-0"
    assert (caught.value.offset or 0) >= 7


def test_offsets_in_errors_count_from_the_base() -> None:
    for base in (0, 7):
        with pytest.raises(ChecksumMismatch) as caught:
            paimon.decode(SOUND[:-4] + bytes(4), base=base)
        assert caught.value.offset == base + len(SOUND) - 4


def test_cardinality_crc_and_limits_are_choices() -> None:
    assert paimon.decode(SOUND, cardinality=2) == RowSet([1, 3])
    assert paimon.decode(SOUND[:-4] + bytes(4), verify_checksum=False) == RowSet([1, 3])
    with pytest.raises(CardinalityMismatch):
        paimon.decode(SOUND, cardinality=1)
    with pytest.raises(LimitExceeded):
        paimon.decode(SOUND, limits=Limits(max_vector_bytes=10))


@given(st.binary(max_size=80))
def test_any_bytes_end_in_a_value_or_a_decode_error(data: bytes) -> None:
    for frame in (data, framed(data), framed(MAGIC32 + data), framed(MAGIC64 + data)):
        outcome(paimon.decode, frame)


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 2**31 - 1)


@given(st.lists(POSITIONS, max_size=80), st.sampled_from([32, 64]), st.booleans())
def test_round_trip(positions: list[int], bits: Literal[32, 64], run_optimize: bool) -> None:
    rows = RowSet(positions)
    assert paimon.decode(paimon.encode(rows, bits=bits, run_optimize=run_optimize), cardinality=len(rows)) == rows
