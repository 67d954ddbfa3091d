"""Bitmaps, vectors and frames put together byte by byte, valid or wrong in one chosen way.

Nothing here comes from dvcodec: the layouts are written down a second time, after RoaringFormatSpec.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import crcmod.predefined
import numpy as np

EMPTY = bytes.fromhex("3a30000000000000")
PORTABLE = bytes.fromhex("d1d33964")
NATIVE = bytes.fromhex("d0d33964")
PAIMON = bytes.fromhex("5e43f2d0")

crc_oracle = crcmod.predefined.mkPredefinedCrcFun("crc-32")


@dataclass(frozen=True)
class Container:
    """One container as it is to be stored; nothing says that it is valid."""

    key: int
    card: int
    payload: bytes
    run: bool = False

    def claiming(self, card: int) -> Container:
        """The same bytes under another cardinality."""
        return replace(self, card=card)


def u16s(values: Iterable[int]) -> bytes:
    return np.fromiter(values, "<u2").tobytes()


def array(key: int, values: Sequence[int]) -> Container:
    return Container(key, len(values), u16s(values))


def bitset(key: int, values: Iterable[int]) -> Container:
    bits = np.zeros(1 << 16, np.bool_)
    bits[np.fromiter(values, np.int64)] = True
    return Container(key, int(bits.sum()), np.packbits(bits, bitorder="little").tobytes())


def runs(key: int, pairs: Sequence[tuple[int, int]]) -> Container:
    """A run container of (first value, number of values)."""
    words = [len(pairs), *(word for start, length in pairs for word in (start, length - 1))]
    return Container(key, sum(length for _, length in pairs), u16s(words), run=True)


def offsets_of(containers: Sequence[Container], header: int) -> list[int]:
    sizes = (len(container.payload) for container in containers)
    return list(itertools.accumulate(sizes, initial=header))[:-1]


def bitmap(
    *containers: Container,
    flags: bytes | None = None,
    with_offsets: bool | None = None,
    offsets: Sequence[int] | None = None,
) -> bytes:
    """Serialize the containers as given.

    Args:
        containers: in this order, whatever their keys are.
        flags: the run flags, which also force the cookie that announces runs; default: from the containers.
        with_offsets: whether there is an offset table; default: as the specification says.
        offsets: the entries of the table; default: the right ones.
    """
    count = len(containers)
    if flags is None and any(container.run for container in containers):
        flags = np.packbits([container.run for container in containers], bitorder="little").tobytes()
    if with_offsets is None:
        with_offsets = flags is None or count >= 4
    head = struct.pack("<II", 12346, count) if flags is None else struct.pack("<HH", 12347, count - 1) + flags
    header = len(head) + (8 if with_offsets else 4) * count
    table = offsets_of(containers, header) if offsets is None else offsets
    parts = [head, *(struct.pack("<HH", container.key, container.card - 1) for container in containers)]
    if with_offsets:
        parts.append(struct.pack(f"<{len(table)}I", *table))
    return b"".join([*parts, *(container.payload for container in containers)])


def vector64(*buckets: tuple[int, bytes], count: int | None = None) -> bytes:
    """A 64-bit portable bitmap of (key, 32-bit bitmap)."""
    parts = [struct.pack("<I", key) + data for key, data in buckets]
    return struct.pack("<Q", len(buckets) if count is None else count) + b"".join(parts)


def gaps(keys: Iterable[int]) -> bytes:
    """Buckets that hold the empty bitmap, without the count before them."""
    keys = np.fromiter(keys, np.int64)
    records = np.empty((len(keys), 3), "<u4")
    records[:, 0], records[:, 1], records[:, 2] = keys, 12346, 0
    return records.tobytes()


def native64(*bitmaps: bytes, count: int | None = None, sizes: Sequence[int] | None = None) -> bytes:
    """Delta's native array: the index of a bitmap is its key."""
    parts = [struct.pack("<i", len(data) if sizes is None else sizes[i]) + data for i, data in enumerate(bitmaps)]
    return struct.pack("<i", len(bitmaps) if count is None else count) + b"".join(parts)


def framed(body: bytes, *, length: int | None = None, crc: int | None = None) -> bytes:
    """Put length and CRC around magic and vector."""
    stated = len(body) if length is None else length
    return struct.pack(">I", stated) + body + struct.pack(">I", crc_oracle(body) if crc is None else crc)


def frame(magic: bytes, vector: bytes, *, length: int | None = None, crc: int | None = None) -> bytes:
    return framed(magic + vector, length=length, crc=crc)


def small_bitmaps() -> dict[str, bytes]:
    """One valid bitmap of every form that fits a few bytes, by name."""
    return {
        "empty": EMPTY,
        "array": bitmap(array(0, [1, 5, 9])),
        "run": bitmap(runs(3, [(2, 10), (100, 1)])),
        "array and run": bitmap(array(0, [7]), runs(1, [(0, 1 << 16)])),
        "four with runs": bitmap(array(0, [1, 2, 9]), runs(1, [(5, 6)]), array(7, [0]), runs(65535, [(9, 65527)])),
        "four arrays": bitmap(array(0, [1]), array(1, [2, 3]), array(2, [65535]), array(9, [0, 65535])),
        "nine runs": bitmap(*(runs(key, [(key, 5)]) for key in range(9))),
    }
