"""Puffin files, with or without deletion vectors, and LZ4 and Zstandard frames, in which any field can be wrong."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import cramjam
import pytest

from dvcodec import DecodeError, Limits, RowSet, iceberg
from dvcodec.core.limits import DEFAULT_LIMITS
from dvcodec.io import open_source
from dvcodec.puffin import BlobMetadata, Footer, decode_footer, encode_footer

MAGIC = b"PFA1"
_WORD = 0xFFFFFFFF
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


BLOB: dict[str, Any] = {
    "type": "t",
    "fields": [1, 2],
    "snapshot-id": 7,
    "sequence-number": 8,
    "offset": 4,
    "length": 0,
}


def puffin(
    payload: bytes,
    blobs: bytes = b"",
    *,
    size: int | None = None,
    flags: bytes = bytes(4),
    magics: tuple[bytes, bytes, bytes] = (MAGIC, MAGIC, MAGIC),
) -> bytes:
    """Lay out a file: `magics` stand at its start, before the footer payload and at its end."""
    head, middle, tail = magics
    stated = len(payload) if size is None else size
    return b"".join([head, blobs, middle, payload, struct.pack("<i", stated), flags, tail])


def decode(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Footer:
    with open_source(data) as source:
        return decode_footer(source, limits=limits)


def as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def with_blob(**changes: Any) -> bytes:
    """A file of one blob with some members changed; `...` leaves the member out."""
    blob = {name.replace("_", "-"): value for name, value in changes.items()}
    return puffin(as_json({"blobs": [{k: v for k, v in {**BLOB, **blob}.items() if v is not ...}]}))


@contextmanager
def refused(kind: type[DecodeError], what: str, offset: int | None) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert what in caught.value.what
    assert caught.value.offset == offset
    assert "<bytes>" in str(caught.value)


def xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes: the header checksum of an LZ4 frame."""
    assert len(data) < 16

    def rotate(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & _WORD

    p1, p2, p3, p4, p5 = _PRIMES
    value = (p5 + len(data)) & _WORD
    whole = len(data) - len(data) % 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = rotate((value + word * p3) & _WORD, 17) * p4 & _WORD
    for byte in data[whole:]:
        value = rotate((value + byte * p5) & _WORD, 11) * p1 & _WORD
    value = (value ^ value >> 15) * p2 & _WORD
    value = (value ^ value >> 13) * p3 & _WORD
    return value ^ value >> 16


def lz4_frame(data: bytes, *, stated: int | None = None, sized: bool = True, packed: bool = False) -> bytes:
    """Wrap `data` in an LZ4 frame of stored or `packed` blocks; `stated` is its content size, else the true one."""
    descriptor = struct.pack("<BB", 0x68 if sized else 0x60, 0x70)
    if sized:
        descriptor += struct.pack("<Q", len(data) if stated is None else stated)
    parts = [struct.pack("<I", 0x184D2204), descriptor, bytes([xxh32(descriptor) >> 8 & 0xFF])]
    for start in range(0, len(data), 1 << 22):
        block = data[start : start + (1 << 22)]
        if packed:
            block = bytes(cramjam.lz4.compress_block(block, store_size=False))
        parts += [struct.pack("<I", len(block) | (0 if packed else 1 << 31)), block]
    return b"".join([*parts, bytes(4)])


def zstd_frame(runs: list[tuple[int, int]], stated: int) -> bytes:
    """Build a Zstandard frame of runs (length up to 131072, byte), 4 bytes each, with a stated content size."""
    parts = [struct.pack("<IBBI", 0xFD2FB528, 0x80, 0x38, stated)]
    for i, (length, byte) in enumerate(runs):
        last = i == len(runs) - 1
        parts.append(struct.pack("<I", length << 3 | 1 << 1 | last)[:3] + bytes([byte]))
    return b"".join(parts)


# ---------------------------------------------------------------------- files of deletion vectors


def file_of(*blobs: tuple[bytes, dict[str, Any]]) -> bytes:
    """A Puffin file of blobs, the metadata of each changed as asked."""
    data, metadata = b"PFA1", []
    for stored, changes in blobs:
        known: dict[str, Any] = {
            "type": "deletion-vector-v1",
            "fields": (),
            "snapshot_id": -1,
            "sequence_number": -1,
            "offset": len(data),
            "length": len(stored),
        }
        metadata.append(BlobMetadata(**(known | changes)))
        data += stored
    return data + encode_footer(Footer(tuple(metadata)))


def vector_for(path: str | None, rows: Iterable[int], cardinality: str | None = None) -> tuple[bytes, dict[str, Any]]:
    properties = {"referenced-data-file": path, "cardinality": cardinality}
    return iceberg.encode(RowSet(rows)), {"properties": {k: v for k, v in properties.items() if v is not None}}


def with_changes(blob: tuple[bytes, dict[str, Any]], **changes: Any) -> tuple[bytes, dict[str, Any]]:
    return blob[0], blob[1] | changes


GOOD = vector_for("a", [1, 3], "2")
