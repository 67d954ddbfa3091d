"""Puffin files: footers and blobs."""

from __future__ import annotations

import json
import struct
from typing import Any

from dvcodec import Limits, puffin
from limits.making import SMALL, Inputs, accepted, case, cases, error, large, large_file, limit
from samples.bombs import BOMB, HUGE, MEGA, lz4, lz4_header, nested, zstd, zstd_header


def puffin_file(payload: bytes, *, size: int | None = None, flags: int = 0, body: bytes = b"") -> bytes:
    length = len(payload) if size is None else size
    return b"PFA1" + body + b"PFA1" + payload + struct.pack("<iI", length, flags) + b"PFA1"


def footer(*blobs: dict[str, Any]) -> bytes:
    return json.dumps({"blobs": list(blobs)}).encode()


def blob_at(offset: int, length: int, **more: Any) -> dict[str, Any]:
    fields = {
        "type": "deletion-vector-v1",
        "properties": {"cardinality": "1", "referenced-data-file": "a"},
        "fields": [],
        "snapshot-id": -1,
        "sequence-number": -1,
    }
    return fields | {"offset": offset, "length": length} | more


def read_puffin(data: bytes | str, limits: Limits = SMALL) -> None:
    with puffin.open_puffin(data, limits=limits) as reader:
        for blob_ in reader.footer.blobs:
            reader.read(blob_)


def large_puffin(**more: Any) -> str:
    """The path of a file whose one blob is nearly all of it."""
    return large(b"PFA1", "1.puffin", tail=puffin_file(footer(blob_at(4, 290 * MEGA, **more)))[4:])


def squeezed_footer(payload: bytes) -> bytes:
    return puffin_file(payload, flags=1)


def squeezed_blob(data: bytes, codec: str = "zstd") -> bytes:
    return puffin_file(footer(blob_at(4, len(data), **{"compression-codec": codec})), body=data)


PUFFINS: Inputs = {
    "footer of two gigabytes": lambda: puffin_file(b"{}", size=2**31 - 1),
    "deep json": lambda: puffin_file(b'{"blobs":' + nested(200_000) + b"}"),
    "million names": lambda: puffin_file(b'{"blobs":[],' + b",".join(b'"a":0' for _ in range(100_000)) + b"}"),
    "blobs of nothing": lambda: puffin_file(b'{"blobs":[' + b",".join([b"{}"] * 100_000) + b"]}"),
    "blob from beyond the file": lambda: puffin_file(footer(blob_at(HUGE, 4))),
}
OVERLAPPING = (
    "blobs over one another",
    lambda: puffin_file(footer(*(blob_at(4, 1000) for _ in range(5000))), body=bytes(1000)),
)
PUFFIN_FOOTERS: Inputs = {
    "lz4 footer of an exabyte": lambda: squeezed_footer(lz4_header(2**60) + bytes(40)),
    "lz4 footer bomb": lambda: squeezed_footer(lz4(BOMB)),
    "footer of megabytes": lambda: puffin_file(b"{}" + b" " * (5 * MEGA)),
}

CASES = [
    *cases("puffin", read_puffin, PUFFINS),
    case("puffin", read_puffin, *OVERLAPPING, accepted("each blob is read by itself")),
    *cases("puffin", read_puffin, PUFFIN_FOOTERS, limit("max_metadata_bytes")),
    *cases(
        "puffin",
        read_puffin,
        {
            "zstd blob of an exabyte": lambda: squeezed_blob(zstd_header(2**60)),
            "zstd blob bomb": lambda: squeezed_blob(zstd(BOMB)),
            "lz4 blob of an exabyte": lambda: squeezed_blob(lz4_header(2**60) + bytes(40), "lz4"),
            "lz4 blob bomb": lambda: squeezed_blob(lz4(BOMB), "lz4"),
        },
        limit("max_blob_bytes"),
    ),
    *cases(
        "puffin",
        lambda data: read_puffin(data, Limits()),
        {
            "zstd blob of more than its bytes can hold": lambda: squeezed_blob(zstd_header(100 * MEGA)),
            "lz4 blob of more than its bytes can hold": lambda: squeezed_blob(
                lz4_header(100 * MEGA) + bytes(40), "lz4"
            ),
        },
        error("NotCanonical: .*content size: expected at most [0-9]+ in [0-9]+ bytes"),
    ),
    large_file("puffin blob", read_puffin, large_puffin, limit("max_blob_bytes")),
]
