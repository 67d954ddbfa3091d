"""Avro container files put together byte by byte, and records as fastavro encodes them."""

from __future__ import annotations

import copy
import io
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import cramjam

SYNC = bytes(range(100, 116))


def zigzag(value: int) -> bytes:
    """An Avro int or long."""
    rest = value << 1 ^ value >> 63
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def sized(data: bytes) -> bytes:
    """An Avro string or bytes."""
    return zigzag(len(data)) + data


def header(schema: object, codec: str | None = "null", **metadata: bytes) -> bytes:
    """What stands before the blocks; a schema of bytes is taken as it is, and a codec of None left out."""
    stored = {"avro.schema": schema if isinstance(schema, bytes) else json.dumps(schema).encode(), **metadata}
    if codec is not None:
        stored["avro.codec"] = codec.encode()
    entries = b"".join(sized(key.encode()) + sized(value) for key, value in stored.items())
    return b"Obj\1" + zigzag(len(stored)) + entries + zigzag(0) + SYNC


def block(count: int, data: bytes, *, size: int | None = None, sync: bytes = SYNC) -> bytes:
    """One block; its counts can be wrong."""
    return zigzag(count) + zigzag(len(data) if size is None else size) + data + sync


def records(schema: Any, *values: Mapping[str, Any]) -> bytes:
    """Records as fastavro encodes them."""
    import fastavro

    parsed, out = fastavro.parse_schema(copy.deepcopy(schema)), io.BytesIO()
    for value in values:
        fastavro.schemaless_writer(out, parsed, value)
    return out.getvalue()


def packed(data: bytes, codec: str) -> bytes:
    """The content of a block, compressed."""
    if codec == "zstandard":
        return bytes(cramjam.zstd.compress(data))
    if codec == "deflate":
        deflater = zlib.compressobj(wbits=-15)
        return deflater.compress(data) + deflater.flush()
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data)) + struct.pack(">I", zlib.crc32(data))
    return data
