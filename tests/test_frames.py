"""Files of frames: a version byte, and frames back to back."""

from __future__ import annotations

import io
from collections.abc import Iterator

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
from dvcodec.core.frame import Magic, StoredFrame
from dvcodec.io import open_source
from dvcodec.io.frames import (
    MAX_FILE_BYTES,
    VERSION,
    Range,
    check_version,
    load_frames,
    load_ranges,
    read_frames,
    write_frames,
)


def frame(size: int, filling: bytes = b"x") -> bytes:
    """A frame of so many bytes: only its length field is looked at here."""
    return (size - 8).to_bytes(4, "big") + filling * (size - 4)


def found(data: bytes, limits: Limits | None = None) -> list[tuple[int, bytes]]:
    with open_source(data, name="frames") as source:
        return [(cursor.base, bytes(cursor.view)) for cursor in read_frames(source, limits=limits or Limits())]


def test_constants_are_those_of_the_formats() -> None:
    assert (VERSION, MAX_FILE_BYTES) == (1, 2147483647)


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize(("remote", "most"), [(False, 1 << 20), (True, 1 << 24)])
def test_a_large_file_is_read_in_pieces(remote: bool, most: int) -> None:
    rows = RowSet(range(0, 1 << 22, 2))
    source = Recorder(b"\1" + 33 * paimon.encode(rows, layout="bitmap64"))  # of half a MiB each
    source.remote = remote  # type: ignore[attr-defined]
    assert list(load_frames(source, allowed=tuple(Magic)).values()) == [rows] * 33
    assert max(size for _, size in source.reads) == most


def test_cursor_stands_behind_the_version() -> None:
    source = Recorder(b"\1" + bytes(1000))
    cursor = check_version(source)
    assert (cursor.base + cursor.pos, cursor.source) == (1, "recorded")
    assert source.reads == [(0, 1)]


def test_empty_file_is_truncated() -> None:
    with pytest.raises(Truncated, match="version byte"), open_source(b"") as source:
        check_version(source)
    with pytest.raises(Truncated, match="version byte"):
        found(b"")


@pytest.mark.parametrize("version", [0, 2, 255])
def test_other_version_is_refused(version: int) -> None:
    with pytest.raises(BadMagic) as caught:
        found(bytes([version]) + frame(20))
    assert (caught.value.what, caught.value.offset, caught.value.source) == ("version byte", 0, "frames")
    assert (caught.value.expected, caught.value.actual) == (1, version)


def test_frames_are_found_with_their_offsets() -> None:
    assert found(b"\1") == []
    parts = [frame(16), frame(400, b"y"), frame(17, b"z")]
    assert found(b"\1" + b"".join(parts)) == [(1, parts[0]), (17, parts[1]), (417, parts[2])]


def test_what_is_in_a_frame_is_not_looked_at() -> None:
    for filling in (b"\0", b"\xff"):
        assert found(b"\1" + frame(16, filling)) == [(1, frame(16, filling))]


def test_frame_is_named_by_its_place() -> None:
    with open_source(b"\1" + frame(16) + frame(20), name="index-0") as source:
        assert [(cursor.source, cursor.base, cursor.pos, cursor.end) for cursor in read_frames(source)] == [
            ("index-0", 1, 0, 16),
            ("index-0", 17, 0, 20),
        ]


@each("cut", range(1, 20))
def test_cut_inside_a_frame_is_truncated(cut: int) -> None:
    data = b"\1" + frame(16) + frame(20)
    with pytest.raises(Truncated) as caught:
        found(data[:-cut])
    assert (caught.value.what, caught.value.offset) == ("length field", 17)
    if cut <= 16:
        assert caught.value.actual == 12
        assert caught.value.expected == f"at most {max(12 - cut, 0)} (bytes left for magic and bitmap)"


@pytest.mark.parametrize("claim", [13, 2**31 - 1, 2**32 - 1])
def test_length_beyond_the_file_is_truncated(claim: int) -> None:
    with pytest.raises(Truncated) as caught:
        found(b"\1" + claim.to_bytes(4, "big") + bytes(16))
    assert caught.value.actual == claim


@each("claim", range(8))
def test_length_too_small_for_any_vector_is_refused(claim: int) -> None:
    with pytest.raises(NotCanonical) as caught:
        found(b"\1" + frame(16) + claim.to_bytes(4, "big") + bytes(20))
    assert (caught.value.what, caught.value.offset, caught.value.actual) == ("length field", 17, claim)


def test_limits_are_kept() -> None:
    data = b"\1" + frame(16) + frame(20)
    assert len(found(data, Limits(max_records=2, max_vector_bytes=20))) == 2
    for limits, offset in ((Limits(max_records=1), 17), (Limits(max_vector_bytes=19), 17), (Limits(max_records=0), 1)):
        with pytest.raises(LimitExceeded) as caught:
            found(data, limits)
        assert caught.value.offset == offset


def test_frames_are_read_in_large_pieces() -> None:
    sizes = [16 + i * 37 % 5000 for i in range(1000)]
    parts = [frame(size, bytes([size % 251])) for size in sizes]
    source = Recorder(b"\1" + b"".join(parts))
    assert [bytes(cursor.view) for cursor in read_frames(source)] == parts
    assert len(source.reads) <= 2 + 2 * (source.size >> 20)
    assert sum(size for _, size in source.reads) < 1.1 * source.size


def test_frame_larger_than_a_piece_is_read_whole() -> None:
    parts = [frame(16), frame(3 << 20), frame(20), frame((1 << 20) + 1)]
    source = Recorder(b"\1" + b"".join(parts))
    assert [bytes(cursor.view) for cursor in read_frames(source)] == parts
    assert all(offset + size <= source.size for offset, size in source.reads)


def test_frames_before_a_damaged_one_are_given() -> None:
    with open_source(b"\1" + frame(16) + b"\xff") as source:
        frames = read_frames(source)
        assert bytes(next(frames).view) == frame(16)
        with pytest.raises(Truncated):
            next(frames)


@given(st.binary(max_size=80))
def test_any_bytes_end_in_frames_or_a_decode_error(data: bytes) -> None:
    for attempt in (data, b"\1" + data, b"\1" + frame(16) + data):
        frames = outcome(found, attempt)
        if not isinstance(frames, DecodeError):
            assert b"\1" + b"".join(part for _, part in frames) == attempt


# ---------------------------------------------------------------------- writing


def stored(*sizes: int) -> Iterator[StoredFrame]:
    return (StoredFrame(f"file-{i}", i, frame(size)) for i, size in enumerate(sizes))


def written(frames: Iterator[StoredFrame], until: int = MAX_FILE_BYTES) -> tuple[bytes, list[tuple[object, ...]]]:
    out = io.BytesIO()
    locations = write_frames(out, frames, lambda _: "kind", until=until)
    assert {(one.format, one.path, one.file_size) for one in locations} <= {("kind", "<file>", len(out.getvalue()))}
    return out.getvalue(), [(one.data_file, one.cardinality, one.offset, one.size) for one in locations]


def test_frames_are_written_as_they_are() -> None:
    data, places = written(stored(16, 30, 20))
    assert data == b"\1" + frame(16) + frame(30) + frame(20)
    assert places == [("file-0", 0, 1, 16), ("file-1", 1, 17, 30), ("file-2", 2, 47, 20)]
    assert written(iter([StoredFrame(None, 7, b"not looked at")])) == (b"\1not looked at", [(None, 7, 1, 13)])


def test_no_frames_leave_the_version_byte() -> None:
    assert written(stored()) == (b"\1", [])
    assert written(stored(), until=0) == (b"\1", [])


@each(("until", "count"), [(0, 1), (1, 1), (16, 1), (17, 2), (32, 2), (33, 3), (48, 3), (49, 4), (10**9, 4)])
def test_file_ends_with_the_frame_that_passes_its_size(until: int, count: int) -> None:
    frames = stored(16, 16, 16, 16)
    data, places = written(frames, until)
    assert len(places) == count
    assert data == b"\1" + frame(16) * count
    assert len(list(frames)) == 4 - count, "the next one is not taken"


def test_file_of_more_than_31_bits_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_vectors_at_ranges_in_any_order_and_more_than_once() -> None:
    source = Recorder(FILE)
    found = load_ranges(source, [*RANGES[::-1], *RANGES], allowed=BOTH)
    assert found == SETS[::-1] + SETS
    assert all(one is other for one, other in zip(found[:29][::-1], found[29:], strict=True))
    assert len(source.reads) == 1
    assert load_ranges(source, [], allowed=BOTH) == []


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
