"""Byte for byte like Java, and read by Java: vectors in batch."""

from __future__ import annotations

import numpy as np
import pytest

import amounts
from dvcodec import DecodeError, RowSet, delta, iceberg
from dvcodec.core.cursor import Cursor
from dvcodec.core.roaring import pieces_of, serialize, walk
from dvcodec.core.vector import FRAME_OVERHEAD, Magic, encode_payload
from interop.cases import Positions, high_row_sets, row_sets, unique
from interop.driver import Java
from interop.expect import assert_read, seen_by_for_each

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def cases() -> list[Positions]:
    return row_sets(amounts.of(1_000, 10_000), seed=20240917)


@pytest.fixture(scope="module")
def rows(cases: list[Positions]) -> list[RowSet]:
    return [RowSet(case) for case in cases]


def test_iceberg_blobs_equal_javas(java: Java, cases: list[Positions], rows: list[RowSet]) -> None:
    theirs = java.encode("iceberg", cases)
    for i, (row_set, blob) in enumerate(zip(rows, theirs, strict=True)):
        assert iceberg.encode(row_set) == blob, f"case {i}"
        assert iceberg.decode(blob, cardinality=len(row_set)) == row_set, f"case {i}"


def test_java_reads_our_iceberg_blobs(java: Java, cases: list[Positions], rows: list[RowSet]) -> None:
    reads = java.decode("iceberg", [iceberg.encode(row_set) for row_set in rows], [len(case) for case in cases])
    assert_read(reads, cases, for_each=True)


@pytest.mark.parametrize(("kind", "layout"), [("delta-portable", "portable"), ("delta-native", "native")])
def test_delta_payloads_equal_sparks(
    java: Java, cases: list[Positions], rows: list[RowSet], kind: str, layout: str
) -> None:
    theirs = java.encode(kind, cases[:2000])
    for i, (row_set, payload) in enumerate(zip(rows[:2000], theirs, strict=True)):
        frame = delta.encode(row_set, layout=layout)
        assert frame[4:-4] == payload, f"case {i}"
        assert delta.decode(frame) == row_set, f"case {i}"


@pytest.mark.parametrize("reader", ["delta", "delta-spark"])
@pytest.mark.parametrize("magic", [Magic.PORTABLE64, Magic.NATIVE64])
def test_delta_reads_our_payloads(
    java: Java, cases: list[Positions], rows: list[RowSet], reader: str, magic: Magic
) -> None:
    payloads = [magic.value + encode_payload(row_set, magic) for row_set in rows[:2000]]
    reads = java.decode(reader, payloads)
    if reader == "delta-spark":  # its array has room for all, and zeros at the end for those that forEach passed over
        seen = [seen_by_for_each(case) for case in cases[:2000]]
        padded = [
            np.append(some, np.zeros(len(case) - len(some), np.int64)) for some, case in zip(seen, cases, strict=False)
        ]
        assert_read(reads, padded)
    else:
        assert_read(reads, cases[:2000])


def test_32_bit_bitmaps_equal_javas(java: Java, cases: list[Positions]) -> None:
    low = [unique(case % 2**31) for case in cases[:2000]]
    for i, (case, theirs) in enumerate(zip(low, java.encode("roaring32", low), strict=True)):
        bitmap = walk(Cursor(theirs))
        bitmap.check()
        assert bitmap.cardinality == len(case), f"case {i}"
        assert serialize(bitmap.load()) == theirs, f"case {i}"


def test_vectors_up_to_the_highest_position_equal_javas_64_bit_map(java: Java) -> None:
    cases = high_row_sets(500, seed=3)
    theirs = java.encode("roaring64", cases)
    for i, (case, vector) in enumerate(zip(cases, theirs, strict=True)):
        row_set = RowSet(case)
        blob = iceberg.encode(row_set, gap_keys=False)
        assert blob[8:-4] == vector, f"case {i}"
        assert iceberg.decode(blob) == row_set, f"case {i}"
    ours = [b"".join(pieces_of(RowSet(case).serialized(), gap_keys=False)) for case in cases]
    assert_read(java.decode("roaring64", ours), cases, for_each=True)


def test_range_deletes_of_java_decode_to_the_same_rows(java: Java) -> None:
    random = np.random.default_rng(5)
    cases = []
    for _ in range(300):
        edges = np.sort(random.choice(200_000, 2 * int(random.integers(1, 6)), replace=False))
        cases.append(edges.astype(np.int64) + int(random.choice([0, 0, 2**31 - 100_000, 2**32 - 100_000])))
    for i, (case, blob) in enumerate(zip(cases, java.encode("iceberg-ranges", cases), strict=True)):
        assert iceberg.decode(blob) == RowSet.from_ranges(case.reshape(-1, 2)), f"case {i}"
        assert len(iceberg.encode(iceberg.decode(blob))) >= FRAME_OVERHEAD + 8


def test_java_refuses_every_flipped_bit_that_we_refuse(java: Java) -> None:
    blob = iceberg.encode(RowSet([1, 3, 5, 7, 9]))
    # Bytes 8 to 20, count and key, are left out: Java builds as many bitmaps as they say before it looks at the CRC.
    places = [*range(8), *range(20, len(blob))]
    damaged = [bytes([*blob[:i], blob[i] ^ 1 << bit, *blob[i + 1 :]]) for i in places for bit in range(8)]
    for bad, read in zip(damaged, java.decode("iceberg", damaged, [5] * len(damaged)), strict=True):
        assert read.error is not None
        with pytest.raises(DecodeError):
            iceberg.decode(bad)
