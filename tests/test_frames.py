"""Files of frames: a version byte, and frames back to back."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import amounts
from battery import Recorder, outcome
from cases import each
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    Truncated,
    UsageError,
    iceberg,
    paimon,
)
from dvcodec.core.vector import Magic, StoredFrame
from dvcodec.io import open_source
from dvcodec.io.frames import (
    MAX_FILE_BYTES,
    Range,
    few_at,
    load_frames,
    load_ranges,
    read_frame,
    read_frames,
    write_frames,
)


def frame(size: int, filling: bytes = b"x") -> bytes:
    """A frame of so many bytes: only its length field is looked at here."""
    return (size - 8).to_bytes(4, "big") + filling * (size - 4)


def found(data: bytes, limits: Limits | None = None) -> list[tuple[int, bytes]]:
    with open_source(data, name="frames") as source:
        return [(cursor.base, bytes(cursor.view)) for cursor in read_frames(source, limits=limits or Limits())]


# ---------------------------------------------------------------------- reading


def test_a_range_beyond_the_file_is_truncated_however_large_it_claims_to_be() -> None:
    limits = Limits(max_vector_bytes=1000)
    for data in (bytes(900), bytes(100)):
        with open_source(data) as source, pytest.raises(Truncated):
            read_frame(source, 50, 2000, limits)
    with open_source(bytes(1051)) as source, pytest.raises(LimitExceeded, match="max_vector_bytes"):
        read_frame(source, 50, 2000, limits)


@pytest.mark.parametrize(("remote", "most"), [(False, 1 << 20), (True, 1 << 24)])
def test_a_large_file_is_read_in_pieces(remote: bool, most: int) -> None:
    rows = RowSet(range(0, 1 << 22, 2))
    source = Recorder(b"\1" + 33 * paimon.encode(rows, layout="bitmap64"))  # of half a MiB each
    source.remote = remote  # type: ignore[attr-defined]
    assert list(load_frames(source, allowed=tuple(Magic)).values()) == [rows] * 33
    assert max(size for _, size in source.reads) == most


@pytest.mark.parametrize("version", [0, 2, 255])
def test_other_version_is_refused(version: int) -> None:
    with pytest.raises(BadMagic) as caught:
        found(bytes([version]) + frame(20))
    assert (caught.value.what, caught.value.offset, caught.value.source) == ("version byte", 0, "frames")
    assert (caught.value.expected, caught.value.actual) == (1, version)


@each("cut", range(1, 20))
def test_cut_inside_a_frame_is_truncated(cut: int) -> None:
    data = b"\1" + frame(16) + frame(20)
    with pytest.raises(Truncated) as caught:
        found(data[:-cut])
    assert (caught.value.what, caught.value.offset) == ("length field", 17)
    if cut <= 16:
        assert caught.value.actual == 12
        assert caught.value.expected == f"at most {max(12 - cut, 0)} (bytes left for magic and bitmap)"


@each("claim", range(8))
def test_length_too_small_for_any_vector_is_refused(claim: int) -> None:
    with pytest.raises(NotCanonical) as caught:
        found(b"\1" + frame(16) + claim.to_bytes(4, "big") + bytes(20))
    assert (caught.value.what, caught.value.offset, caught.value.actual) == ("length field", 17, claim)


# ---------------------------------------------------------------------- writing


def stored(*sizes: int) -> Iterator[StoredFrame]:
    return (StoredFrame(f"file-{i}", i, frame(size)) for i, size in enumerate(sizes))


def written(frames: Iterator[StoredFrame], until: int = MAX_FILE_BYTES) -> tuple[bytes, list[tuple[object, ...]]]:
    out = io.BytesIO()
    locations = write_frames(out, frames, lambda _: "kind", until=until)
    assert {(one.format, one.path, one.file_size) for one in locations} <= {("kind", "<file>", len(out.getvalue()))}
    return out.getvalue(), [(one.data_file, one.cardinality, one.offset, one.size) for one in locations]


@each(("until", "count"), [(0, 1), (1, 1), (16, 1), (17, 2), (32, 2), (33, 3), (48, 3), (49, 4), (10**9, 4)])
def test_file_ends_with_the_frame_that_passes_its_size(until: int, count: int) -> None:
    frames = stored(16, 16, 16, 16)
    data, places = written(frames, until)
    assert len(places) == count
    assert data == b"\1" + frame(16) * count
    assert len(list(frames)) == 4 - count, "the next one is not taken"


def test_file_of_more_than_31_bits_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_FILE_BYTES == 0x7FFFFFFF
    monkeypatch.setattr("dvcodec.io.frames.MAX_FILE_BYTES", 33)
    assert len(written(stored(16, 16), 10**9)[1]) == 2
    out = io.BytesIO()
    with pytest.raises(UsageError, match="<file>: larger than 33 bytes; write several files"):
        write_frames(out, stored(16, 17), lambda _: "kind", until=10**9)
    assert out.getvalue() == b""


@given(st.lists(st.integers(16, 60), max_size=10), st.integers(0, 300))
def test_what_is_written_is_found(sizes: list[int], until: int) -> None:
    frames = stored(*sizes)
    data, places = written(frames, until)
    assert found(data) == [(offset, frame(size)) for (_, _, offset, _), size in zip(places, sizes, strict=False)]
    assert len(places) + len(list(frames)) == len(sizes)


# ---------------------------------------------------------------------- vectors in all frames


@pytest.mark.parametrize("piece", [64, 1000, 1 << 20])
def test_vectors_and_errors_come_in_file_order(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged vector is reported before a length field behind it, and after one before it."""
    monkeypatch.setattr("dvcodec.io.frames._PIECE", piece)
    rows = [RowSet(range(i, 40 * i, 1 + i)) for i in range(30)]
    parts = [(paimon if i % 2 else iceberg).encode(one) for i, one in enumerate(rows)]
    offsets = [1 + sum(map(len, parts[:i])) for i in range(30)]
    valid = b"\1" + b"".join(parts)

    def load(data: bytes) -> dict[int, RowSet]:
        with open_source(data, name="frames") as source:
            return load_frames(source, allowed=tuple(Magic))

    assert load(valid) == dict(zip(offsets, rows, strict=True))
    for vector in (3, 20):
        for length in (5, 21, 29):
            damaged = bytearray(valid)
            damaged[offsets[vector] + 9] ^= 1
            damaged[offsets[length]] = 0x7F
            error = outcome(load, bytes(damaged))
            assert isinstance(error, ChecksumMismatch if vector < length else Truncated)
            at = offsets[vector] + len(parts[vector]) - 4 if vector < length else offsets[length]
            assert error.offset == at
    near = {offset + step for offset in offsets[:: amounts.of(7, 1)] for step in range(-9, 26)}
    for size in range(1, len(valid)):
        if (size in near or size % amounts.of(37, 11) == 0) and size not in offsets:
            assert isinstance(outcome(load, valid[:size]), Truncated)


# ---------------------------------------------------------------------- vectors at ranges

SETS = [RowSet(range(i, 40 * i, 1 + i)) for i in range(1, 30)]
PARTS = [(paimon if i % 2 else iceberg).encode(one) for i, one in enumerate(SETS)]
RANGES: list[Range] = [
    (1 + sum(map(len, PARTS[:i])), len(part), one.cardinality if i % 3 else None)
    for i, (part, one) in enumerate(zip(PARTS, SETS, strict=True))
]
FILE = b"\1" + b"".join(PARTS)
BOTH = (Magic.PAIMON32, Magic.PORTABLE64)


@pytest.mark.parametrize(
    ("odd", "error"),
    [
        ((RANGES[3][0], RANGES[3][1], 7), CardinalityMismatch),
        ((RANGES[3][0], RANGES[3][1], 1 << 63), CardinalityMismatch),
        ((RANGES[3][0] + 1, RANGES[3][1], None), DecodeError),
        ((len(FILE) - 3, 20, None), Truncated),
        ((1 << 63, 20, None), Truncated),
        ((-1, 20, None), Truncated),
        ((1, -1, None), Truncated),
        ((1, 0, None), Truncated),
        ((1, 1 << 40, None), Truncated),
    ],
)
def test_a_range_that_is_wrong_is_refused_as_if_it_were_alone(odd: Range, error: type[DecodeError]) -> None:
    messages = []
    for ranges in ([odd], [*RANGES, odd]):
        with pytest.raises(error) as caught:
            load_ranges(Recorder(FILE), ranges, allowed=BOTH)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


# ------------------------------------------------------------ few rows


@each("seed", range(20))
def test_vectors_of_few_rows_are_those_that_are_valid_one_by_one(seed: int) -> None:
    """At ranges with gaps and overlaps, of a whole file and of one that ends early."""
    chance = random.Random(seed)
    data, ranges = bytearray([1]), []
    for _ in range(chance.randrange(1, 60)):
        if chance.random() < 0.1:
            data += bytes(chance.choice((5, 3 << 19)))
        rows = RowSet(chance.sample(range(1 << 20), chance.randrange(6)))
        encoded = bytearray(iceberg.encode(rows))
        if chance.random() < 0.2:
            encoded[chance.randrange(len(encoded))] ^= 4
        wrong = chance.random() < 0.2
        size = len(encoded) + (chance.choice((-1, 1, 40)) if wrong else 0)
        ranges.append((len(data) + (chance.choice((0, 1)) if wrong else 0), size, len(rows) + (chance.random() < 0.1)))
        if chance.random() < 0.1:
            ranges.append(ranges[-1])
        data += encoded
    ranges.sort()
    if chance.random() < 0.5:
        del data[chance.randrange(len(data)) :]
    offsets, sizes, stated = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    with open_source(bytes(data)) as source:
        found = few_at(source, offsets, sizes, stated, allowed=(Magic.PORTABLE64,), most_rows=4)
        positions = np.split(found.positions, np.cumsum(found.cardinality)[:-1])
        for number, one in enumerate(ranges):
            try:
                (want,) = load_ranges(source, [one], allowed=(Magic.PORTABLE64,))
            except DecodeError:
                assert not found.found[number]
                continue
            if len(want) > 4:
                assert not found.found[number]
            elif found.found[number]:
                assert positions[number].tolist() == list(want)
            else:  # without a bitmap, it is none of the small ones
                assert not want
