"""Makes lengths and checksums of damaged bytes fit again: behind them lies what a fuzzer is to reach.

Nothing here decodes with the code under test; where there is nothing to mend, bytes come back as they are.
"""

from __future__ import annotations

import json
import random
import zlib
from contextlib import suppress

from fuzz.target import Mutate
from samples.avro import zigzag
from samples.zap.segments import take, uv

FRAME = 12
PUFFIN = b"PFA1"
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


def frame(data: bytes) -> bytes:
    """One frame: its length and its CRC."""
    if len(data) < FRAME:
        return data
    return (len(data) - 8).to_bytes(4, "big") + data[4:-4] + crc(data[4:-4])


def frames(data: bytes) -> bytes:
    """A version byte and frames: the CRC of each, and the length of the last."""
    out, at = bytearray(data), 1
    out[:1] = b"\1"
    while len(out) - at >= FRAME:
        size = int.from_bytes(out[at : at + 4], "big") + 8
        if size < FRAME or at + size > len(out):
            size = len(out) - at
        out[at : at + size] = frame(bytes(out[at : at + size]))
        at += size
    return bytes(out)


def puffin(data: bytes) -> bytes:
    """A Puffin file: its magics, the size of its footer, and the frames that the footer names."""
    start = data.rfind(PUFFIN, 0, max(len(data) - 4, 0))
    if start < 0 or len(data) - start < 16:
        return data
    payload = data[start + 4 : -12]
    out = bytearray(data)
    out[:4] = PUFFIN
    out[-12:-8] = len(payload).to_bytes(4, "little")
    out[-4:] = PUFFIN
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        for blob in json.loads(payload)["blobs"]:
            a, size = blob["offset"], blob["length"]
            if a >= 4 and size >= FRAME and a + size <= start:
                out[a : a + size] = frame(bytes(out[a : a + size]))
    return bytes(out)


def segment(data: bytes) -> bytes:
    """A zap segment: the CRC at its end."""
    return data[:-4] + crc(data[:-4])


def lance_file(data: bytes) -> bytes:
    """A manifest of Lance: where it stands, its size, and the magic at its end."""
    if len(data) < 20:
        return data
    at = int.from_bytes(data[-16:-8], "little")
    if at > len(data) - 20:
        at = 0
    size = (len(data) - 20 - at).to_bytes(4, "little")
    return data[:at] + size + data[at + 4 : -16] + at.to_bytes(8, "little") + data[-8:-4] + b"LANC"


def bolt(data: bytes) -> bytes:
    """A bbolt file: the checksums of its two meta pages."""
    out = bytearray(data)
    size = int.from_bytes(out[24:28], "little")
    for start in (0, size):
        if start + 80 <= len(out):
            value = _FNV_OFFSET
            for byte in out[start + 16 : start + 72]:
                value = (value ^ byte) * _FNV_PRIME & (1 << 64) - 1
            out[start + 72 : start + 80] = value.to_bytes(8, "little")
    return bytes(out)


# ---------------------------------------------------------------------- Avro


def _long(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint: its value and where it ends."""
    raw, at = take(data, at)
    return raw >> 1 ^ -(raw & 1), at


def _header(data: bytes) -> int:
    """Where the metadata of a container file ends."""
    at = 4
    while True:
        count, at = _long(data, at)
        if count < 0:
            _, at = _long(data, at)
        if not count:
            return at
        for _ in range(2 * abs(count)):
            size, at = _long(data, at)
            at += size
            if size < 0 or at > len(data):
                raise ValueError("no header")


def avro(data: bytes) -> bytes:
    """A container file of one block: the block's size, and the marker behind it."""
    try:
        at = _header(data)
        count, block = _long(data, at + 16)
        _, content = _long(data, block)
    except (ValueError, IndexError):
        return data
    sync = data[at : at + 16]
    records = data[content : max(len(data) - 16, content)]
    return data[: at + 16] + zigzag(count) + zigzag(len(records)) + records + sync


def avro_records(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change the records of the first block, or its count, and nothing else."""
    try:
        at = _header(data)
        count, block = _long(data, at + 16)
        size, content = _long(data, block)
    except (ValueError, IndexError):
        return mutate(data, len(data) + 16)
    size = min(max(size, 0), len(data))  # a mutation before may have made it anything
    records = mutate(data[content : content + size], size + 32)
    if rng.random() < 0.1:
        count = rng.choice((0, 1, count + 1, count - 1, 2 * count, 2**31, 2**62, -1))
    return data[: at + 16] + zigzag(count) + zigzag(len(records)) + records + data[at : at + 16]


# ---------------------------------------------------------------------- Protocol Buffers


def _fields(data: bytes) -> list[tuple[bytes, int, bytes]] | None:
    """Key, wire type and content of every field of a message; None if it is none."""
    found, at = [], 0
    try:
        while at < len(data):
            start = at
            number, at = take(data, at)
            wire = number & 7
            key = data[start:at]
            start = at
            if wire == 0:
                _, at = take(data, at)
                found.append((key, 0, data[start:at]))
            elif wire == 2:
                size, at = take(data, at)
                if size > len(data) - at:
                    return None
                found.append((key, 2, data[at : at + size]))
                at += size
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
                if at > len(data):
                    return None
                found.append((key, wire, data[start:at]))
            else:
                return None
    except IndexError:
        return None
    return found


def message(data: bytes, rng: random.Random, mutate: Mutate, depth: int = 0) -> bytes:
    """Change one field of a message, deep inside or whole, and have all lengths around it fit."""
    fields = _fields(data)
    if not fields or depth > 6:
        return mutate(data, len(data) + 16)
    at = rng.randrange(len(fields))
    what = rng.randrange(10)
    if what == 0:
        del fields[at]
    elif what == 1:
        fields.insert(rng.randrange(len(fields) + 1), fields[at])
    elif what == 2:
        key, wire, content = fields[at]
        fields[at] = (uv(rng.randrange(1, 20) << 3 | wire), wire, content)
    else:
        key, wire, content = fields[at]
        if wire == 2:
            content = message(content, rng, mutate, depth + 1)
        elif wire == 0:
            top = rng.choice((0, 1, 2, 127, 128, 2**32 - 1, 2**32, 2**63, 2**64 - 1, rng.randrange(1 << 16)))
            content = uv(top)
        else:
            content = (mutate(content, len(content)) + bytes(8))[: len(content)]
        fields[at] = (key, wire, content)
    return _joined(fields)


def _joined(fields: list[tuple[bytes, int, bytes]]) -> bytes:
    return b"".join(key + (uv(len(content)) + content if wire == 2 else content) for key, wire, content in fields)


def lance_manifest(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change a field of the manifest in its file."""
    if len(data) < 20:
        return mutate(data, len(data) + 16)
    at = int.from_bytes(data[-16:-8], "little")
    if at > len(data) - 20:
        at = 0
    return lance_file(data[: at + 4] + message(data[at + 4 : -16], rng, mutate) + data[-16:])
