"""One verdict: the batch reader, the single readers and the walk say the same of every vector, valid or damaged.

The same rows, or the same error at the same place: of structural damage behind the checksum, so that both parsers of
bitmaps are asked and not the check before them; and of what the battery does to every vector.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest

import amounts
from battery import flipped
from cases import each
from dvcodec import CardinalityMismatch, DecodeError, LimitExceeded, Limits, RowSet, delta, iceberg, paimon
from dvcodec.core import batch, vector
from dvcodec.core.cursor import Cursor, crc32
from dvcodec.core.limits import DEFAULT_LIMITS
from dvcodec.core.roaring import ranges_of
from dvcodec.core.vector import Magic
from fuzz.seeds import files, row_sets
from fuzz.target import MANY
from samples import bitmaps
from test_battery import FORMATS

BASE = 7
"""Where a vector is in its file."""
NUMBERS = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x1000, 0xFFFF, 0x10000, 2**31 - 1, 2**31, 2**32 - 1)


def of_containers(count: int, kinds: str) -> RowSet:
    """Row sets of so many containers: runs, arrays and bitsets in turn."""
    parts = {"r": (5000, 1), "a": (40, 2), "b": (9000, 2)}  # values up to there, in these steps
    return RowSet().union(
        *(
            RowSet(range(i << 16, (i << 16) + stop, step))
            for i in range(count)
            for stop, step in [parts[kinds[i % len(kinds)]]]
        )
    )


def valid() -> Iterator[bytes]:
    sets = [
        *row_sets(),
        *(of_containers(count, kinds) for count in (3, 4, 7, 8, 9, 16, 17) for kinds in ("r", "ra", "arb")),
    ]
    for rows in sets:
        yield iceberg.encode(rows)
        yield delta.encode(rows, layout="native")
        if (rows.max or 0) < 2**31:
            yield paimon.encode(rows)
    yield from files("**/*.dv", most=3000, count=30)
    yield from (bitmaps.frame(data[:4], data[4:]) for data in files("delta/**/*.native", most=3000, count=20))


def mended(data: bytes | bytearray) -> bytes:
    """With a length and a CRC that fit."""
    body = bytes(data[4:-4])
    return len(body).to_bytes(4, "big") + body + crc32(body).to_bytes(4, "big")


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A number or a bit in the headers of the bitmap changed, bytes taken away or added."""
    out = bytearray(data)
    head = min(len(out) - 4, 8 + chance.choice((16, 40, 120)))
    what = chance.randrange(6)
    at = chance.randrange(8, max(head, 9))
    if what <= 1:
        out[at] ^= 1 << chance.randrange(8)
    elif what == 2:
        width = chance.choice((1, 2, 4))
        value = chance.choice(NUMBERS) & (256**width - 1)
        out[at : at + width] = value.to_bytes(width, "little")
    elif what == 3:
        width = chance.choice((2, 4))
        value = int.from_bytes(out[at : at + width], "little") + chance.choice((-1, 1))
        out[at : at + width] = (value % 256**width).to_bytes(width, "little")
    elif what == 4:
        del out[-4 - chance.choice((1, 2, 4, 8)) : -4]
    else:
        out[-4:-4] = bytes(chance.choice((1, 2, 8)))
    return mended(out)


def padding_bits() -> Iterator[bytes]:
    """A bit of the run flags that stands for no container."""
    for count in (4, 7, 9, 15, 17):
        data = bytearray(iceberg.encode(of_containers(count, "r")))
        at = 8 + 8 + 4 + 4 + (count >> 3)  # length, magic; bitmaps, key, cookie and the whole bytes of flags
        data[at] |= 1 << (count & 7)
        yield mended(data)


@pytest.fixture(autouse=True, scope="module")
def _in_passes() -> Iterator[None]:
    """Few vectors, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "_ONE_BY_ONE", 0)
        yield


# ------------------------------------------------------------------------------------------------------ the readers

Read = Callable[..., RowSet]
OTHER = iceberg.encode(RowSet([1, 5]))


def verdict(read: Read, data: bytes, limits: Limits, expected: int | None) -> RowSet | str:
    try:
        return read(data, limits, expected)
    except DecodeError as error:
        return f"{type(error).__name__}: {error}"


def single(data: bytes, limits: Limits, expected: int | None) -> RowSet:
    return vector.read(Cursor(data, source="x", base=BASE), tuple(Magic), expected, limits).load()


def loaded(data: bytes, limits: Limits, expected: int | None) -> RowSet:
    """Without a walk, if the vector is as most are."""
    return vector.load(Cursor(data, source="x", base=BASE), tuple(Magic), expected, limits)


def walked(data: bytes, limits: Limits, expected: int | None) -> RowSet:
    """The check without loading, and then the rows of container after container."""
    found = vector.read(Cursor(data, source="x", base=BASE), tuple(Magic), expected, limits)
    found.check()
    ranges = [ranges_of(view) + (key << 32) for key, view in found.view.bitmaps]
    rows = RowSet.from_ranges(np.concatenate([np.zeros((0, 2), np.int64), *ranges]))
    assert (found.cardinality, found.view.min, found.view.max) == (rows.cardinality, rows.min, rows.max)
    return rows


def at_once(data: bytes, limits: Limits, expected: int | None) -> RowSet:
    """Between others, as in a file."""
    buffer = OTHER + data + OTHER
    ends = np.cumsum([len(OTHER), len(data), len(OTHER)])
    cursor = Cursor(buffer, source="x", base=BASE - len(OTHER))
    counts = np.array([2, -1 if expected is None else expected, 2])
    starts, sizes = np.append(0, ends[:-1]), np.diff(ends, prepend=0)
    found = batch.load(cursor, starts[1:2], sizes[1:2], allowed=tuple(Magic), cardinalities=counts[1:2], limits=limits)
    if limits is DEFAULT_LIMITS:
        found = batch.load(cursor, starts, sizes, allowed=tuple(Magic), cardinalities=counts)[1:2]
    return found[0]


def surveyed(data: bytes, limits: Limits, expected: int | None) -> RowSet:
    """What is counted and checked of many, and then the rows as they are expanded."""
    starts, sizes = np.array([0]), np.array([len(data)])
    counts = None if expected is None else np.array([expected])
    found = batch.survey(data, starts, sizes, cardinalities=counts, limits=limits)
    for error in found.errors.values():
        error.source, error.offset = "x", None if error.offset is None else error.offset + BASE
        raise error
    if found.cardinality[0] > MANY:
        return single(data, limits, expected)
    return RowSet(batch.expand(data, starts, sizes, limits=limits)[0])


READERS = (loaded, walked, at_once, surveyed)


def check_one_verdict(data: bytes, limits: Limits = DEFAULT_LIMITS, expected: int | None = None) -> str:
    """Ask every reader; return what they say: ``rows``, or the name of the error."""
    want = verdict(single, data, limits, expected)
    for read in READERS:
        found = verdict(read, data, limits, expected)
        assert found == want, (read.__name__, data[:2000].hex())
    return want.partition(":")[0] if isinstance(want, str) else "rows"


def check_all_at_once(many: Iterable[bytes]) -> Counter[str]:
    """The same of many vectors, which one survey and one expansion see together; count what is said of them."""
    frames = [data for data in many if data]
    verdicts = [verdict(single, data, DEFAULT_LIMITS, None) for data in frames]
    sizes = np.array([*map(len, frames)])
    starts = np.cumsum(sizes) - sizes
    buffer = b"".join(frames)
    found = batch.survey(buffer, starts, sizes)
    for i, (data, want) in enumerate(zip(frames, verdicts, strict=True)):
        assert verdict(loaded, data, DEFAULT_LIMITS, None) == want, data.hex()
        assert verdict(walked, data, DEFAULT_LIMITS, None) == want, data.hex()
        if isinstance(want, RowSet):
            assert i not in found.errors, data.hex()
            edges = (-1, -1) if not want else (want.min, want.max)
            assert (found.cardinality[i], found.min[i], found.max[i]) == (len(want), *edges), data.hex()
            continue
        error = found.errors[i]
        error.source, error.offset = "x", None if error.offset is None else error.offset - int(starts[i]) + BASE
        assert f"{type(error).__name__}: {error}" == want, data.hex()
    rows = [i for i, want in enumerate(verdicts) if isinstance(want, RowSet)]
    cursor = Cursor(buffer, source="x")
    assert batch.load(cursor, starts[rows], sizes[rows], allowed=tuple(Magic)) == [verdicts[i] for i in rows]
    few = [i for i in rows if found.cardinality[i] <= MANY]
    positions, counts = batch.expand(buffer, starts[few], sizes[few], max_rows=None)
    assert counts.tolist() == found.cardinality[few].tolist()
    values = [want.to_numpy() for i in few if isinstance(want := verdicts[i], RowSet)]
    assert np.array_equal(positions, np.concatenate([np.zeros(0, np.int64), *values]))
    small = batch.few(
        Cursor(buffer), starts, sizes, allowed=tuple(Magic), cardinalities=np.full(len(frames), -1), most_rows=MANY
    )
    parts = np.split(small.positions, np.cumsum(small.cardinality)[:-1])
    for i in np.flatnonzero(small.found).tolist():
        want = verdicts[i]
        assert isinstance(want, RowSet)
        assert parts[i].tolist() == want.to_numpy().tolist()
        assert (small.cardinality[i], small.max[i]) == (len(want), found.max[i])
        assert small.mix[i].tolist() == found.mix[i].tolist()
    assert not set(np.flatnonzero(small.found)) - set(few)
    for i in set(range(len(frames))) - set(rows):
        assert verdict(at_once, frames[i], DEFAULT_LIMITS, None) == verdicts[i], frames[i].hex()
    return Counter("rows" if isinstance(want, RowSet) else want.partition(":")[0] for want in verdicts)


# ------------------------------------------------------------------------------------------------------- the damage


def is_vector(data: bytes) -> bool:
    return Magic.find(data[4:8]) is not None


@pytest.mark.parametrize("data", list(padding_bits()), ids=len)
def test_a_padding_bit_of_the_run_flags_is_refused(data: bytes) -> None:
    assert check_one_verdict(data) == "NotCanonical"


def test_every_reader_says_the_same_of_damaged_vectors() -> None:
    chance = random.Random(11)
    seen: Counter[str] = Counter()
    for data in valid():
        if len(data) >= 12 and check_one_verdict(data) == "rows":
            seen += check_all_at_once(damaged(data, chance) for _ in range(25))
    assert seen["rows"] > 50
    assert seen["NotCanonical"] > 300
    assert seen["Truncated"] > 50


@each("data", {item.data: None for item in FORMATS if item.checksum and is_vector(item.data)}, ids=len)
def test_every_reader_says_the_same_of_what_the_battery_does(data: bytes) -> None:
    """Bits flipped, with the checksum as it was and with one that fits; cut anywhere; with bytes behind."""
    flips = [flipped(data, bit) for bit in range(0, 8 * len(data), amounts.of(5, 1))]
    assert set(check_all_at_once(flips)) <= {"ChecksumMismatch", "NotCanonical", "Truncated"}
    check_all_at_once(map(mended, flips))
    cuts = [data[:size] for size in range(1, len(data))]
    assert "rows" not in check_all_at_once([*cuts, *(data + more for more in (b"\0", b"\xff", bytes(1000), data))])
    check_all_at_once(mended(cut) for cut in cuts if len(cut) >= 8)


def test_every_reader_keeps_the_same_limits_and_the_same_metadata() -> None:
    seen: Counter[str] = Counter()
    for data in valid():
        if len(data) > 3000:
            continue
        for name in ("max_vector_bytes", "max_cardinality"):
            for most in (0, 1, 3, 30):
                seen[check_one_verdict(data, Limits(**{name: most}))] += 1
        for expected in (0, 1, 2**40):
            seen[check_one_verdict(data, expected=expected)] += 1
    assert seen.keys() == {"rows", LimitExceeded.__name__, CardinalityMismatch.__name__}
