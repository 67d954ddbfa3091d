"""One verdict: the batch reader, the single reader and the walk say the same of every vector, valid or damaged.

The same rows, or the same error at the same place. Damage is structural and behind the checksum, so that both parsers
of bitmaps are asked, and not the check before them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from dvcodec import DecodeError, RowSet, iceberg, paimon
from dvcodec.core import batch, vector
from dvcodec.core.checksum import crc32
from dvcodec.core.cursor import Cursor
from dvcodec.core.frame import Magic
from fuzz.seeds import files, row_sets

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
        if (rows.max or 0) < 2**31:
            yield paimon.encode(rows)
    yield from files("**/*.dv", most=3000, count=30)


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


def verdict(read: Callable[[], RowSet]) -> RowSet | str:
    try:
        return read()
    except DecodeError as error:
        return f"{type(error).__name__}: {error}"


def single(data: bytes) -> RowSet:
    return vector.read(Cursor(data, source="x", base=BASE)).load()


def walked(data: bytes) -> RowSet:
    """The check without loading, and then the rows as they are expanded."""
    found = vector.read(Cursor(data, source="x", base=BASE))
    found.check()
    return (
        RowSet(batch.expand(data, np.array([0]), np.array([len(data)]))[0])
        if found.cardinality < 10**6
        else found.load()
    )


def at_once(data: bytes) -> RowSet:
    """Between others, as in a file."""
    other = iceberg.encode(RowSet([1, 5]))
    buffer = other + data + other
    starts, sizes = np.array([0, len(other), len(other) + len(data)]), np.array([len(other), len(data), len(other)])
    cursor = Cursor(buffer, source="x", base=BASE - len(other))
    return batch.load(cursor, starts, sizes, allowed=tuple(Magic))[1]


def check_one_verdict(data: bytes) -> str:
    want = verdict(partial(single, data))
    for read in (walked, at_once):
        found = verdict(partial(read, data))
        assert found == want, (read.__name__, data.hex())
    return want.partition(":")[0] if isinstance(want, str) else "rows"


@pytest.mark.parametrize("data", list(padding_bits()), ids=len)
def test_a_padding_bit_of_the_run_flags_is_refused(data: bytes) -> None:
    assert check_one_verdict(data) == "NotCanonical"


def test_every_reader_says_the_same_of_damaged_vectors() -> None:
    chance = random.Random(11)
    seen: Counter[str] = Counter()
    for data in valid():
        if len(data) < 12 or check_one_verdict(data) != "rows":
            continue
        for _ in range(25):
            seen[check_one_verdict(damaged(data, chance))] += 1
    assert seen["rows"] > 50
    assert seen["NotCanonical"] > 300
    assert seen["Truncated"] > 50
