"""Avro container files, of which the manifests of Iceberg and Paimon are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cramjam

from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from limits.making import SMALL, Inputs, cases, drained, limit
from samples.avro import block as block_of
from samples.avro import header, zigzag
from samples.bombs import BOMB, HUGE, MEGA, deflated, snappy, zstd, zstd_of_no_size
from samples.zap.segments import uv


def of_a(kind: Any) -> dict[str, Any]:
    """A record of one field."""
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


FLAT = of_a("long")
NOTHING = of_a({"type": "array", "items": "null"})
WRONG_CRC = bytes(4)
"""What follows a block of snappy."""


def avro_file(
    schema: Any, count: int, block: bytes, codec: str = "null", *, size: int | None = None, times: int = 1
) -> bytes:
    """A container file; `size` is what its block claims to have, and there are `times` of it."""
    return header(schema, codec) + block_of(count, block, size=size) * times


BLOCKS: Inputs = {
    "count of records": lambda: avro_file(FLAT, HUGE, b"\0"),
    "count of records in a megabyte": lambda: avro_file(FLAT, 2 * MEGA, bytes(MEGA)),
    "size of a block": lambda: avro_file(FLAT, 1, b"\0", size=HUGE),
}
"""Files whose blocks are not what they promise."""


def avro_bombs(schema: Any) -> Inputs:
    """Files of a schema whose blocks unpack to much."""
    return {
        "snappy of four gigabytes": lambda: avro_file(schema, 1, uv(2**32 - 1) + bytes(50), "snappy"),
        "snappy bomb": lambda: avro_file(schema, 1, snappy(BOMB) + WRONG_CRC, "snappy"),
        "deflate bomb": lambda: avro_file(schema, 1, deflated(BOMB), "deflate"),
        "zstd bomb": lambda: avro_file(schema, 1, zstd(BOMB), "zstandard"),
        "zstd bomb of no stated size": lambda: avro_file(schema, 1, zstd_of_no_size(BOMB), "zstandard"),
    }


AVRO_SCHEMAS: Inputs = {
    "array of nulls": lambda: avro_file(NOTHING, 1, zigzag(2**40)),
    "type that may be itself": lambda: avro_file(of_a(["null", "r"]), 1, b"\2" * 500_000),
    "deep schema": lambda: avro_file(b'{"type":"array","items":' * 50_000 + b'"int"' + b"}" * 50_000, 1, b"\0"),
    "bytes without bytes": lambda: avro_file(of_a("bytes"), 1, zigzag(2**40)),
    "fixed of a terabyte": lambda: avro_file(of_a({"type": "fixed", "name": "f", "size": 2**40}), 1, b"\0"),
}


def read_avro(data: bytes) -> int:
    return drained(avro.decode(Cursor(data), limits=SMALL).records())


def schema_of(path: Path) -> Any:
    return avro.decode(Cursor(path.read_bytes())).schema


CASES = [
    *cases("avro", read_avro, BLOCKS | AVRO_SCHEMAS),
    *cases(
        "avro",
        read_avro,
        {
            **avro_bombs(FLAT),
            "bombs that add up": lambda: avro_file(
                of_a("bytes"), 20, bytes(cramjam.zstd.compress((zigzag(MEGA) + bytes(MEGA)) * 20)), "zstandard", times=2
            ),
        },
        limit("max_metadata_bytes"),
    ),
]
