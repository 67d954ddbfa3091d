"""Many framed vectors at once: the same as one by one, for valid ones and for every kind of damage."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from battery import run_limited
from cases import each
from dvcodec import (
    ChecksumMismatch,
    DecodeError,
    LimitExceeded,
    RowSet,
    UsageError,
    delta,
    paimon,
)
from dvcodec import iceberg as ice
from dvcodec.core import batch, vector
from dvcodec.core.batch import Few, Frames, read_small
from dvcodec.core.cursor import BytesLike, Cursor, crc32
from dvcodec.core.ragged import ByteStrings
from dvcodec.core.roaring import MAX_DV_KEY
from dvcodec.core.vector import Magic


@pytest.fixture(autouse=True, scope="module")
def _in_passes() -> Iterator[None]:
    """Few vectors, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "_ONE_BY_ONE", 0)
        yield


pieces = st.one_of(
    st.tuples(st.integers(0, 1 << 20), st.integers(1, 70_000)).map(lambda p: range(p[0], p[0] + p[1])),
    st.lists(st.integers(0, 1 << 19), max_size=40),
    st.lists(st.integers(0, 1 << 34), max_size=4),
    st.tuples(st.integers(0, 9), st.integers(2040, 2056)).map(lambda p: range(p[0], p[0] + 3 * p[1], 3)),
    st.tuples(st.integers(0, 1 << 17), st.integers(4094, 4100)).map(lambda p: range(p[0], p[0] + 2 * p[1], 2)),
)
row_sets = st.lists(st.lists(pieces, max_size=3).map(lambda parts: RowSet().union(*map(RowSet, parts))), max_size=12)


def flat(sets: list[RowSet]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    parts = [np.zeros(0, np.int64), *(rows.to_numpy() for rows in sets)]
    return np.concatenate(parts), np.array([len(rows) for rows in sets], np.int64)


def joined(frames: list[bytes], gap: bytes = b"") -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Frames in one buffer, with something between them, so that they begin at even and at odd bytes."""
    strings = ByteStrings.from_list([part for data in frames for part in (gap, data)])
    return strings.data.tobytes(), strings.offsets[:-1][1::2], strings.lengths[1::2]


def load(
    data: BytesLike,
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    allowed: tuple[Magic, ...] = tuple(Magic),
    *,
    source: str | None = None,
    base: int = 0,
    **how: Any,
) -> list[RowSet]:
    return batch.load(Cursor(data, source=source, base=base), starts, sizes, allowed=allowed, **how)


@given(row_sets)
def test_encode_gives_the_bytes_of_one_by_one(sets: list[RowSet]) -> None:
    assert batch.encode(*flat(sets)).to_list() == [ice.encode(rows) for rows in sets]


@given(row_sets, st.sampled_from([b"", b"x", b"xy"]))
def test_expand_and_survey_say_what_is_in_them(sets: list[RowSet], gap: bytes) -> None:
    frames = [encode_as(i, rows) for i, rows in enumerate(sets)]
    data, starts, sizes = joined(frames, gap)
    positions, counts = batch.expand(data, starts, sizes)
    want_positions, want_counts = flat(sets)
    assert counts.tolist() == want_counts.tolist()
    assert np.array_equal(positions, want_positions)
    found = batch.survey(data, starts, sizes, cardinalities=want_counts)
    assert not found.errors
    assert found.crc_ok.all()
    assert found.cardinality.tolist() == want_counts.tolist()
    assert found.min.tolist() == [-1 if rows.min is None else rows.min for rows in sets]
    assert found.max.tolist() == [-1 if rows.max is None else rows.max for rows in sets]
    assert found.mix.tolist() == [list(rows.containers) for rows in sets]


@given(row_sets, st.sampled_from([b"", b"x", b"xy"]), st.booleans())
def test_load_gives_the_row_sets(sets: list[RowSet], gap: bytes, is_mutable: bool) -> None:
    data, starts, sizes = joined([encode_as(i, rows) for i, rows in enumerate(sets)], gap)
    buffer = bytearray(data) if is_mutable else data
    promised = np.array([len(rows) if i % 2 else -1 for i, rows in enumerate(sets)], np.int64)
    found = load(buffer, starts, sizes, cardinalities=promised)
    if is_mutable:
        buffer[:] = bytes(len(data))  # type: ignore[index]
    assert found == [pickle.loads(pickle.dumps(rows)) for rows in found] == sets
    assert [ice.encode(rows) for rows in found] == [ice.encode(rows) for rows in sets]


def encode_as(i: int, rows: RowSet) -> bytes:
    """One of the three layouts, as the index will have it."""
    if i % 3 == 1:
        return delta.encode(rows, layout="native")
    if i % 3 == 2 and (rows.max or 0) < 2**31:
        return paimon.encode(rows)
    return ice.encode(rows)


def left_alone(data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[int]:
    """The vectors that are read one at a time."""
    found: list[int] = np.flatnonzero(read_small(Frames(Cursor(data), starts, sizes)).others).tolist()
    return found


@each("run", range(9))
def test_one_run_among_nine_containers_is_read_with_the_others(run: int) -> None:
    rows = RowSet().union(*(range(c << 16, (c << 16) + 200, 1 if c == run else 2) for c in range(9)))
    assert rows.containers == (8, 0, 1)
    data, starts, sizes = joined([ice.encode(rows)])
    assert left_alone(data, starts, sizes) == []
    assert load(data, starts, sizes) == [rows]


def test_short_frames_and_those_of_32_bits() -> None:
    frames = [paimon.encode(RowSet([1, 5, 9])), paimon.encode(RowSet(range(300)))]
    assert left_alone(*joined(frames)) == []
    for size in range(4, 20):
        data = frames[0][:size]
        found = batch.survey(data, np.array([0]), np.array([size]), verify_checksum=False)
        with pytest.raises(type(found.errors[0])):
            vector.read(Cursor(data), verify_checksum=False)


def test_key_up_to_the_largest_of_a_vector_is_read_with_the_others() -> None:
    encoded = bytearray(ice.encode(RowSet([3])))
    for key, others in ((MAX_DV_KEY, []), (MAX_DV_KEY + 1, [0])):
        encoded[16:20] = key.to_bytes(4, "little")
        data, starts, sizes = joined([with_crc(bytes(encoded))])
        assert left_alone(data, starts, sizes) == others


VALID = [
    RowSet(),
    RowSet([7]),
    RowSet([1, 70_000, 140_000, 1 << 20]),
    RowSet.from_ranges([(5, 900), (1000, 1001)]),
    RowSet.from_ranges([(i << 16, (i << 16) + 300 + i) for i in range(5)]) | RowSet(range(1 << 20, 1 << 20 | 40, 2)),
    RowSet(range(0, 20_000, 2)),
    RowSet([3, 1 << 32]),
    RowSet.from_ranges([(10, 70_000)]) | RowSet(range(200_000, 220_000, 2)) | RowSet([1 << 21]),
]


def with_crc(data: bytes) -> bytes:
    """Damaged inside, with a CRC that hides it."""
    return data[:-4] + crc32(data[4:-4]).to_bytes(4, "big")


@pytest.mark.parametrize("at_once", [3, 1024])
def test_load_raises_the_first_error_there_is(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_VECTORS", at_once)
    chance = random.Random(6)
    for _ in range(30):
        frames = [ice.encode(chance.choice(VALID)) for _ in range(8)]
        for i in chance.sample(range(8), 2):
            frames[i] = damaged_somewhere(frames[i], chance)
        data, starts, sizes = joined(frames, b"?")
        monkeypatch.setattr(batch, "_ONE_BY_ONE", chance.choice((0, 16)))
        wrong = batch.survey(data, starts, sizes).errors
        if wrong:
            first = wrong[min(wrong)]
            first.source, first.offset = "x", 70 + (first.offset or 0)
            with pytest.raises(DecodeError) as caught:
                load(data, starts, sizes, source="x", base=70)
            assert (type(caught.value), str(caught.value)) == (type(first), str(first))
        else:
            assert load(data, starts, sizes) == [vector.read(Cursor(one)).load() for one in frames]


def damaged_somewhere(frame: bytes, chance: random.Random) -> bytes:
    """A bit is another one, with or without a CRC that hides it; or bytes are missing."""
    kind = chance.randrange(4)
    if kind == 0:
        return frame[: chance.randrange(len(frame))]
    damaged = bytearray(frame)
    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return with_crc(bytes(damaged)) if kind < 3 else bytes(damaged)


def test_few_are_taken_and_joined() -> None:
    data, starts, sizes = joined([ice.encode(rows) for rows in VALID], b"?")
    stated = np.array([-1, 1, 5, *[-1] * (len(VALID) - 3)])  # the third has four
    found = batch.few(Cursor(data), starts, sizes, allowed=tuple(Magic), cardinalities=stated, most_rows=900)
    assert found.found.tolist() == [False, True, False, True, *[False] * (len(VALID) - 4)]
    some = found.of(np.arange(len(VALID)) != 1)
    assert some.found.tolist() == [False, False, False, True, *[False] * (len(VALID) - 4)]
    assert some.positions.tolist() == VALID[3].to_numpy().tolist()
    taken = Few.join([some.taken(), found.of(np.arange(len(VALID)) == 1).taken()])
    assert taken.found.all()
    assert taken.cardinality.tolist() == [896, 1]
    assert (taken.max.tolist(), taken.mix.tolist()) == ([1000, 7], [[0, 0, 1], [1, 0, 0]])
    assert taken.positions.tolist() == [*VALID[3], 7]


def test_the_checksum_is_skipped_only_on_demand() -> None:
    bad = bytearray(ice.encode(RowSet([3, 4])))
    bad[-1] ^= 1
    data, starts, sizes = joined([ice.encode(RowSet([1, 2])), bytes(bad)])
    assert batch.survey(data, starts, sizes).crc_ok.tolist() == [True, False]
    with pytest.raises(ChecksumMismatch):
        batch.expand(data, starts, sizes)
    assert not batch.survey(data, starts, sizes, verify_checksum=False).errors
    assert batch.expand(data, starts, sizes, verify_checksum=False)[0].tolist() == [1, 2, 3, 4]
    assert load(data, starts, sizes, verify_checksum=False) == [RowSet([1, 2]), RowSet([3, 4])]


def test_many_rows_are_refused_before_they_are_expanded() -> None:
    data, starts, sizes = joined([ice.encode(RowSet.from_ranges([(0, 1 << 31)]))] * 64)
    with pytest.raises(LimitExceeded, match="max_rows"):
        batch.expand(data, starts, sizes)
    assert batch.survey(data, starts, sizes).cardinality.tolist() == [1 << 31] * 64


def test_java_writes_the_same_bytes(own_vectors: Path) -> None:
    files = sorted((own_vectors / "iceberg").glob("java-*/*.dv"))
    sets = [ice.decode(path.read_bytes()) for path in files]
    frames = [path.read_bytes() for path in files]
    assert len(frames) > 10
    assert batch.encode(*flat(sets)).to_list() == frames
    data, starts, sizes = joined(frames)
    assert not batch.survey(data, starts, sizes).errors


def test_hazard_empty_bitmaps_below_high_positions_are_bounded_for_all_vectors_together() -> None:
    """A row of a position delete file takes some bytes; the gap keys of its vector take up to 2 GB."""
    highest = (1 << 26) << 32
    with pytest.raises(UsageError, match=f"positions up to {highest}: the empty .* 2415919104 bytes"):
        batch.encode(np.array([highest, highest, highest]), np.array([1, 1, 1]))
    output = run_limited(
        """
        from dvcodec.core import batch
        cap()
        try:
            batch.encode(np.array([1 << 58]), np.array([1]))
        except dvcodec.LimitExceeded as error:
            print(error)
        """,
        megabytes=500,
    )
    assert "expected enough for the vectors, found" in output


def test_too_little_memory_for_a_batch_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise MemoryError

    one = ice.encode(RowSet([1]))
    places = np.zeros(1, np.int64), np.full(1, len(one), np.int64)
    monkeypatch.setattr(sys.modules["dvcodec.core.batch"], "read_small", none_left)
    with pytest.raises(LimitExceeded, match="enough for the vectors, found a failed allocation"):
        batch.survey(one, *places)
    with pytest.raises(LimitExceeded, match=r"^x: memory"):
        batch.load(Cursor(one, source="x"), *places, allowed=(Magic.PORTABLE64,))
