"""Puffin files: footers and blobs."""

from __future__ import annotations

import json
import struct
from typing import Any

from dvcodec import Limits, puffin
from limits.making import ACCEPTED, MEMORY, SMALL, Inputs, bounded, cases, limit
from samples.bombs import BOMB, HUGE, MEGA, digits, lz4, lz4_header, nested, zstd, zstd_header


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


def read_puffin(data: bytes, limits: Limits = SMALL) -> None:
    with puffin.open_puffin(data, limits=limits) as reader:
        for blob_ in reader.footer.blobs:
            reader.read(blob_)


def squeezed_footer(payload: bytes) -> bytes:
    return puffin_file(payload, flags=1)


def squeezed_blob(data: bytes, codec: str = "zstd") -> bytes:
    return puffin_file(footer(blob_at(4, len(data), **{"compression-codec": codec})), body=data)


PUFFINS: Inputs = {
    "footer_of_two_gigabytes": lambda: puffin_file(b"{}", size=2**31 - 1),
    "footer_of_less_than_nothing": lambda: puffin_file(b"{}", size=-1),
    "deep_json": lambda: puffin_file(b'{"blobs":' + nested(200_000) + b"}"),
    "numbers_of_a_million_digits": lambda: puffin_file(b'{"blobs":' + digits(MEGA // 2) + b"}"),
    "million_names": lambda: puffin_file(b'{"blobs":[],' + b",".join(b'"a":0' for _ in range(100_000)) + b"}"),
    "blobs_of_nothing": lambda: puffin_file(b'{"blobs":[' + b",".join([b"{}"] * 100_000) + b"]}"),
    "blob_beyond_the_file": lambda: puffin_file(footer(blob_at(4, HUGE))),
    "blob_from_beyond_the_file": lambda: puffin_file(footer(blob_at(HUGE, 4))),
    "blobs_over_one_another": lambda: puffin_file(footer(*(blob_at(4, 1000) for _ in range(5000))), body=bytes(1000)),
}
PUFFIN_FOOTERS: Inputs = {
    "lz4_footer_of_an_exabyte": lambda: squeezed_footer(lz4_header(2**60) + bytes(40)),
    "lz4_footer_bomb": lambda: squeezed_footer(lz4(BOMB)),
    "footer_of_megabytes": lambda: puffin_file(b"{}" + b" " * (5 * MEGA)),
}
cases("puffin", read_puffin, **PUFFINS)
bounded("puffin", limit("max_footer_bytes"), read_puffin, **PUFFIN_FOOTERS)
bounded(
    "puffin",
    limit("max_blob_bytes"),
    read_puffin,
    zstd_blob_of_an_exabyte=lambda: squeezed_blob(zstd_header(2**60)),
    zstd_blob_bomb=lambda: squeezed_blob(zstd(BOMB)),
    lz4_blob_of_an_exabyte=lambda: squeezed_blob(lz4_header(2**60) + bytes(40), "lz4"),
    lz4_blob_bomb=lambda: squeezed_blob(lz4(BOMB), "lz4"),
)
bounded(
    "puffin",
    "NotCanonical: .*content size: expected at most [0-9]+ in [0-9]+ bytes",
    lambda data: read_puffin(data, Limits()),
    zstd_blob_of_more_than_its_bytes_can_hold=lambda: squeezed_blob(zstd_header(100 * MEGA)),
    lz4_blob_of_more_than_its_bytes_can_hold=lambda: squeezed_blob(lz4_header(100 * MEGA) + bytes(40), "lz4"),
)
cases(
    "puffin, default limits",
    lambda data: read_puffin(data, Limits()),
    zstd_blob_bomb=lambda: squeezed_blob(zstd(BOMB)),
)
MEMORY["puffin, default limits: zstd blob bomb"] = "max_blob_bytes is 1 GiB"
ACCEPTED["puffin: blobs over one another"] = "each is asked for by itself"
