"""Lance: row ids, versions, manifests, transactions, deletion files, tables."""

from __future__ import annotations

import io
import struct

import numpy as np
import pyarrow as pa

from dvcodec import lance
from dvcodec.lance.manifest import read_operation
from limits.making import SMALL, Inputs, case, cases, error, large, large_file, limit, no_memory
from samples.bombs import MEGA
from samples.lance import field, scalar, segment, span
from samples.zap.segments import uv


def lance_file(body: bytes, size: int | None = None) -> bytes:
    length = struct.pack("<I", len(body) if size is None else size)
    return length + body + struct.pack("<qhh4s", 0, 0, 2, b"LANC")


def holes(width: int, data: bytes) -> bytes:
    return field(width, scalar(1, 0), field(2, data))


SEQUENCES: Inputs = {
    "length of an exabyte": lambda: b"\x0a" + uv(2**62) + b"\0",
    "holes of nothing": lambda: segment(2, span(0, 2**62), field(3, holes(1, b"\0"))),
    "bitmap that is too short": lambda: segment(3, span(0, 2**62), field(3, b"\xff")),
    "groups in groups": lambda: b"\x0b" * 200_000,
}


def arrow(values: int, compression: str, *, times: int = 1) -> bytes:
    sink = io.BytesIO()
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for _ in range(times):
            writer.write_batch(pa.record_batch([pa.array(np.zeros(values, np.uint32))], schema=schema))
    return sink.getvalue()


def claimed(data: bytes, size: int) -> bytes:
    """The sizes that compressed buffers state, replaced."""
    old = struct.pack("<q", 4 * 1_000_000)
    assert old in data
    return data.replace(old, struct.pack("<q", size))


CASES = [
    *cases("lance.decode_row_ids", lance.decode_row_ids, SEQUENCES),
    *cases(
        "lance.decode_row_ids, asked for all",
        lambda data: lance.decode_row_ids(data).to_numpy(),
        {
            "range of everything": lambda: segment(1, span(0, 2**63)),
            "range with holes": lambda: segment(2, span(0, 2**40)),
        },
    ),
    case(
        "lance.decode_versions",
        lambda data: lance.decode_versions(data).to_numpy(),
        "span of everything",
        lambda: field(1, field(1, field(1, span(0, 2**63))), scalar(2, 3)),
    ),
    *cases(
        "lance.read_manifest",
        lance.read_manifest,
        {
            "size": lambda: lance_file(b"", 2**32 - 1),
            "length": lambda: lance_file(b"\x12" + uv(2**62)),
        },
    ),
    *cases(
        "lance.decode_row_addr_map",
        lance.decode_row_addr_map,
        {
            "count": lambda: struct.pack("<I", 2**32 - 1) + bytes(100),
            "bitmap": lambda: struct.pack("<III", 1, 0, 8) + struct.pack("<II", 12346, 2**31),
        },
    ),
    *cases(
        "lance.read_deletion_file",
        lambda data: lance.read_deletion_file(data, limits=SMALL),
        {
            "lz4 bomb": lambda: arrow(10 * MEGA, "lz4"),
            "zstd bomb": lambda: arrow(10 * MEGA, "zstd"),
            "bombs that add up": lambda: arrow(5 * MEGA, "zstd", times=2),
        },
        limit("max_vector_bytes"),
    ),
    case(
        "lance.read_deletion_file, default limits",
        lance.read_deletion_file,
        "zstd bomb",
        lambda: arrow(40 * MEGA, "zstd"),
        no_memory("160 MB are within them"),
    ),
    *cases(
        "lance.read_deletion_file",
        lance.read_deletion_file,
        {
            "zstd of an exabyte": lambda: claimed(arrow(1_000_000, "zstd"), 2**60),
            "zstd of less than nothing": lambda: claimed(arrow(1_000_000, "zstd"), -2),
        },
        error("NotCanonical: .*buffer: expected 0 to [0-9]+ bytes for 1000000 rows"),
    ),
    large_file("lance.read_operation", read_operation, lambda: large(b"\x0a", "1.txn"), limit("max_metadata_bytes")),
    large_file(
        "lance.read_manifest",
        lance.read_manifest,
        lambda: large(b"", "1", tail=struct.pack("<qhh4s", 0, 0, 2, b"LANC")),
        limit("max_metadata_bytes"),
    ),
    large_file(
        "lance.read_deletion_file",
        lance.read_deletion_file,
        lambda: large(b"ARROW1\0\0", "1.arrow"),
        limit("max_vector_bytes"),
    ),
]
