"""Vectors and frames, which Iceberg, Delta and Paimon share, and how they are recognised."""

from __future__ import annotations

import struct
from collections.abc import Callable

from dvcodec import Limits, convert, decode_at, describe, iceberg, read_rows, sniff, verify
from limits.making import Case, Inputs, accepted, case, cases, error, large, large_file, limit, refuse
from samples import bitmaps
from samples.bombs import BOMB, MEGA

FULL = bitmaps.bitmap(*(bitmaps.runs(key, [(0, 1 << 16)]) for key in range(1 << 16)))
"""2**32 rows in 1.1 MB."""


def portable(vector: bytes) -> bytes:
    return bitmaps.frame(bitmaps.PORTABLE, vector)


VECTORS: Inputs = {
    "count of bitmaps": lambda: struct.pack("<Q", 2**64 - 1) + bitmaps.EMPTY,
    "gaps up to a far key": lambda: struct.pack("<Q", 80_000) + bitmaps.gaps(range(79_999)),
    "count of containers": lambda: struct.pack("<QIII", 1, 0, 12346, 65537),
    "containers without bytes": lambda: struct.pack("<QIHH", 1, 0, 12347, 65535) + b"\xff" * 8192,
    "runs over one another": lambda: bitmaps.vector64(
        (0, bitmaps.bitmap(bitmaps.runs(0, [(0, 65536)] * 30_000).claiming(65536)))
    ),
}
MANY_BITMAPS: Inputs = {
    "more bitmaps than allowed": lambda: bitmaps.vector64(
        *((key, bitmaps.bitmap(bitmaps.array(0, [1]))) for key in range(20_000))
    )
}
MORE_BITMAPS = accepted("they take as many bytes")
LARGE_FRAME = b"\1" + struct.pack(">I", 290 * MEGA) + bitmaps.PORTABLE
"""How a file of frames begins whose only one is nearly all of a `large` file."""


LARGE_BLOB = struct.pack(">I", BOMB - 8) + bitmaps.PORTABLE
"""How a vector begins that is all of a `large` file."""


def large_blob() -> str:
    return large(LARGE_BLOB, "1.dv")


def in_frames(inputs: Inputs) -> Inputs:
    return {what: lambda make=make: portable(make()) for what, make in inputs.items()}  # type: ignore[misc]


def frames(name: str, decode: Callable[[bytes], object]) -> tuple[Case, ...]:
    """The vectors in portable frames, for one decoder."""
    return cases(name, decode, in_frames(VECTORS)) + cases(name, decode, in_frames(MANY_BITMAPS), MORE_BITMAPS)


CASES = [
    case(
        "frame",
        iceberg.decode,
        "length of four gigabytes",
        lambda: struct.pack(">I", 2**32 - 1) + bitmaps.PORTABLE + bytes(1000),
    ),
    case(
        "rows",
        lambda data: iceberg.decode(data, limits=Limits(max_cardinality=2**33)),
        "beyond the limit",
        lambda: portable(bitmaps.vector64(*((key, FULL) for key in range(3)))),
        limit("max_cardinality", 2**33),
    ),
    case(
        "sniff",
        sniff,
        "count",
        lambda: portable(struct.pack("<Q", 2**64 - 1)),
        accepted("it reads the first bytes alone"),
    ),
    case("verify", lambda data: refuse(verify(data).ok), "count", lambda: portable(struct.pack("<Q", 2**64 - 1))),
    large_file("sniff", sniff, lambda: large(struct.pack("<Q", 1), "1"), error("Unsupported: .*container")),
    large_file("verify", lambda path: refuse(verify(path).ok), large_blob, error("NotCanonical: finding")),
    *(
        large_file(name, read, large_blob, limit("max_vector_bytes"))
        for name, read in (
            ("describe", describe),
            ("read_rows", read_rows),
            ("decode_at", decode_at),
            ("convert", lambda path: convert(path, "blob", f"{path}.out")),
        )
    ),
    case(
        "iceberg.decode of one row by its metadata",
        lambda data: iceberg.decode(data, cardinality=1),
        "all rows of 32 bits",
        lambda: portable(bitmaps.vector64((0, FULL))),
    ),
]
