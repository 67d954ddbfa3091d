"""Vectors and frames, which Iceberg, Delta and Paimon share, and how they are recognised."""

from __future__ import annotations

import struct
from collections.abc import Callable

from dvcodec import Limits, describe, iceberg, read_rows, sniff, verify
from dvcodec.core import roaring, roaring64
from dvcodec.core.cursor import Cursor
from limits.making import ACCEPTED, BOUNDS, Inputs, Run, bounded, case, cases, limit, refuse
from samples import bitmaps
from samples.bombs import MEGA

FULL = bitmaps.bitmap(*(bitmaps.runs(key, [(0, 1 << 16)]) for key in range(1 << 16)))
"""2**32 rows in 1.1 MB."""


def portable(vector: bytes) -> bytes:
    return bitmaps.frame(bitmaps.PORTABLE, vector)


VECTORS: Inputs = {
    "count_of_bitmaps": lambda: struct.pack("<Q", 2**64 - 1) + bitmaps.EMPTY,
    "count_of_two_billion_bitmaps": lambda: struct.pack("<Q", 2**31) + bytes(4) + bitmaps.EMPTY,
    "more_bitmaps_than_allowed": lambda: bitmaps.vector64(
        *((key, bitmaps.bitmap(bitmaps.array(0, [1]))) for key in range(5000))
    ),
    "gaps_up_to_a_far_key": lambda: struct.pack("<Q", 80_000) + bitmaps.gaps(range(79_999)),
    "count_of_containers": lambda: struct.pack("<QIII", 1, 0, 12346, 65537),
    "containers_without_bytes": lambda: struct.pack("<QIHH", 1, 0, 12347, 65535) + b"\xff" * 8192,
    "container_of_65536_runs": lambda: bitmaps.vector64(
        (0, struct.pack("<HHB", 12347, 0, 1) + struct.pack("<HHH", 0, 65535, 65535))
    ),
    "key_beyond_the_highest": lambda: bitmaps.vector64((2**32 - 1, bitmaps.bitmap(bitmaps.array(0, [1])))),
    "keys_that_go_back": lambda: bitmaps.vector64((5, FULL), (4, FULL)),
    "offset_beyond_the_end": lambda: bitmaps.vector64((0, bitmaps.bitmap(bitmaps.array(0, [1]), offsets=[2**32 - 1]))),
    "runs_over_one_another": lambda: bitmaps.vector64(
        (0, bitmaps.bitmap(bitmaps.runs(0, [(0, 65536)] * 30_000).claiming(65536)))
    ),
}
MORE_BITMAPS = limit("max_bitmaps", 2**12)
LARGE_FRAME = b"\1" + struct.pack(">I", 290 * MEGA) + bitmaps.PORTABLE
"""How a file of frames begins whose only one is nearly all of a `large` file."""


def frames(name: str, decode: Callable[[bytes], object]) -> None:
    """Register a decoder of portable frames."""
    cases(name, decode, **{what: (lambda make=make: portable(make())) for what, make in VECTORS.items()})
    BOUNDS[f"{name}: more bitmaps than allowed"] = MORE_BITMAPS


frames("read_rows", read_rows)
frames("describe", describe)
cases("roaring64", lambda data: roaring64.decode(Cursor(data)), **VECTORS)
BOUNDS["roaring64: more bitmaps than allowed"] = MORE_BITMAPS
cases(
    "roaring32",
    lambda data: roaring.walk(Cursor(data)).load(),
    count=lambda: struct.pack("<II", 12346, 2**31),
    bitset_of_nothing=lambda: struct.pack("<IIHHI", 12346, 1, 0, 65535, 16),
)
cases(
    "frame",
    iceberg.decode,
    length_of_four_gigabytes=lambda: struct.pack(">I", 2**32 - 1) + bitmaps.PORTABLE + bytes(1000),
    length_of_nothing=lambda: bytes(1000),
)
bounded(
    "rows",
    limit("max_cardinality", 2**33),
    lambda data: iceberg.decode(data, limits=Limits(max_cardinality=2**33)),
    beyond_the_limit=lambda: portable(bitmaps.vector64(*((key, FULL) for key in range(3)))),
)
cases("sniff", sniff, count=lambda: portable(struct.pack("<Q", 2**64 - 1)))
ACCEPTED["sniff: count"] = "it reads the first bytes alone"
cases("verify", lambda data: refuse(verify(data).ok), count=lambda: portable(struct.pack("<Q", 2**64 - 1)))


def cardinality_that_metadata_denies() -> Run:
    data = portable(bitmaps.vector64((0, FULL)))
    return lambda: iceberg.decode(data, cardinality=1)


case("cardinality_that_metadata_denies", cardinality_that_metadata_denies)
