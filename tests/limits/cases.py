"""Adversarial inputs for every decoder: little that promises, or unpacks to, much; refused soon.

A case is built first, without limits, and gives a function that decodes; see `attack.py`, which runs it.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from battery import lowered
from core import crafting
from dvcodec import Limits, delta, iceberg, lance, paimon, puffin, read_rows, sniff, verify
from dvcodec.core import avro, roaring, roaring64
from dvcodec.core.cursor import Cursor
from dvcodec.io import open_source
from dvcodec.lance.transactions import read_operation
from dvcodec.tables import open_table
from dvcodec.tables.delta.actions import parse_lines
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg.avro_fields import open_avro
from dvcodec.tables.iceberg.metadata import read_metadata
from dvcodec.tables.paimon.fields import parse_json
from dvcodec.tables.paimon.manifests import read_manifest, read_manifest_list
from dvcodec.tables.paimon.metadata import read_snapshot
from dvcodec.tables.parquet import open_parquet, physical_batches
from dvcodec.tables.scorch.bolt import read_bolt
from dvcodec.zap import Segment, verify_segment
from dvcodec.zap.vellum import Fst, build
from tables.scorch.craft import Bolt
from zap.craft import Craft, uv
from zap.vellum.craft import blob, doubling, many, one

Run = Callable[[], object]
CASES: dict[str, Callable[[], Run]] = {}
BOUNDS: dict[str, str] = {}
"""Case -> how the error begins that has to refuse it, a pattern: what bounds it is one of `Limits`, and not the cap."""
MEMORY: dict[str, str] = {}
"""Cases that the default limits allow and 256 MB do not -> why: they end in an error of ours, and not in a crash."""
VECTORS_OF = Path(__file__).parent.parent / "vectors"
REAL_MANIFEST = VECTORS_OF / "paimon/java-1.3.1/index-manifest-0"
HUGE = 2**63 - 1
MEGA = 1 << 20
BOMB = 300 * MEGA
"""Bytes that a bomb unpacks to: more than the cap, so that what unpacks it first and counts then is found as well."""
SMALL = Limits(
    max_vector_bytes=32 * MEGA, max_blob_bytes=32 * MEGA, max_manifest_bytes=32 * MEGA, max_footer_bytes=4 * MEGA
)
"""Well below the cap: what goes by them has room to answer."""


def case(build: Callable[[], Run]) -> Callable[[], Run]:
    """Register a case under its function's name."""
    CASES[build.__name__] = build
    return build


def cases(name: str, decode: Callable[[bytes], object], **inputs: Callable[[], bytes]) -> None:
    """Register cases of one decoder."""
    for what, make in inputs.items():

        def built(make: Callable[[], bytes] = make) -> Run:
            data = make()
            return lambda: decode(data)

        CASES[f"{name}: {what.replace('_', ' ')}"] = built


def limit(name: str, most: int | None = None) -> str:
    """How an error begins that says which of `Limits` was met; by default `SMALL`."""
    value = getattr(SMALL, name) if most is None else most
    return rf"LimitExceeded: .*Limits\.{name}: expected at most {value}\b"


def bounded(name: str, by: str, decode: Callable[[bytes], object], **inputs: Callable[[], bytes]) -> None:
    """Register cases that a bound has to refuse, and nothing else."""
    cases(name, decode, **inputs)
    BOUNDS.update({f"{name}: {what.replace('_', ' ')}": by for what in inputs})


def by_path(name: str, read: Callable[[str], object]) -> Callable[[bytes], object]:
    """A decoder of a file of that name that takes no limits: the default ones are lowered."""

    def decode(data: bytes) -> object:
        path = saved(data, name)
        with lowered(SMALL):
            return read(path)

    return decode


def drained(values: Any) -> int:
    return sum(1 for _ in values)


def saved(data: bytes, name: str) -> str:
    """The path of a file of these bytes."""
    path = Path(tempfile.mkdtemp()) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return str(path)


# ------------------------------------------------------------------------------------------------------------ vectors

FULL = crafting.bitmap(*(crafting.runs(key, [(0, 1 << 16)]) for key in range(1 << 16)))
"""2**32 rows in 1.1 MB."""


def portable(vector: bytes) -> bytes:
    return crafting.frame(crafting.PORTABLE, vector)


def native(vector: bytes) -> bytes:
    return crafting.frame(crafting.NATIVE, vector)


VECTORS: dict[str, Callable[[], bytes]] = {
    "count_of_bitmaps": lambda: struct.pack("<Q", 2**64 - 1) + crafting.EMPTY,
    "count_of_two_billion_bitmaps": lambda: struct.pack("<Q", 2**31) + bytes(4) + crafting.EMPTY,
    "more_bitmaps_than_allowed": lambda: crafting.vector64(
        *((key, crafting.bitmap(crafting.array(0, [1]))) for key in range(5000))
    ),
    "gaps_up_to_a_far_key": lambda: struct.pack("<Q", 80_000) + crafting.gaps(range(79_999)),
    "count_of_containers": lambda: struct.pack("<QIII", 1, 0, 12346, 65537),
    "containers_without_bytes": lambda: struct.pack("<QIHH", 1, 0, 12347, 65535) + b"\xff" * 8192,
    "container_of_65536_runs": lambda: crafting.vector64(
        (0, struct.pack("<HHB", 12347, 0, 1) + struct.pack("<HHH", 0, 65535, 65535))
    ),
    "key_beyond_the_highest": lambda: crafting.vector64((2**32 - 1, crafting.bitmap(crafting.array(0, [1])))),
    "keys_that_go_back": lambda: crafting.vector64((5, FULL), (4, FULL)),
    "offset_beyond_the_end": lambda: crafting.vector64(
        (0, crafting.bitmap(crafting.array(0, [1]), offsets=[2**32 - 1]))
    ),
    "runs_over_one_another": lambda: crafting.vector64(
        (0, crafting.bitmap(crafting.runs(0, [(0, 65536)] * 30_000).claiming(65536)))
    ),
}
FRAMES = {what: (lambda make=make: portable(make())) for what, make in VECTORS.items()}
for _name, _decode in (
    ("iceberg.decode", iceberg.decode),
    ("delta.decode", delta.decode),
    ("paimon.decode", paimon.decode),
    ("read_rows", read_rows),
):
    cases(_name, _decode, **FRAMES)
cases("roaring64", lambda data: roaring64.decode(Cursor(data)), **VECTORS)
BOUNDS.update({name: limit("max_bitmaps", 2**12) for name in CASES if name.endswith("more bitmaps than allowed")})
cases(
    "frame",
    iceberg.decode,
    length_of_four_gigabytes=lambda: struct.pack(">I", 2**32 - 1) + crafting.PORTABLE + bytes(1000),
    length_of_nothing=lambda: bytes(1000),
)
cases(
    "delta.decode of the native layout",
    delta.decode,
    count=lambda: native(struct.pack("<i", 2**31 - 1) + bytes(100)),
    negative_count=lambda: native(struct.pack("<i", -1)),
    size=lambda: native(struct.pack("<ii", 1, 2**31 - 1) + crafting.EMPTY),
    empty_bitmaps=lambda: native(crafting.native64(*[crafting.EMPTY] * 80_000)),
    key_beyond_the_bitmaps=lambda: native(crafting.native64(*[FULL] * 2, count=3)),
)
cases(
    "paimon.decode of 32 bits",
    paimon.decode,
    count=lambda: crafting.frame(crafting.PAIMON, struct.pack("<II", 12346, 2**32 - 1)),
    containers=lambda: crafting.frame(crafting.PAIMON, struct.pack("<HH", 12347, 65535) + b"\xff" * 9000),
)
cases(
    "roaring32",
    lambda data: roaring.walk(Cursor(data)).load(),
    count=lambda: struct.pack("<II", 12346, 2**31),
    bitset_of_nothing=lambda: struct.pack("<IIHHI", 12346, 1, 0, 65535, 16),
)
for _name, _ask in (("sniff", sniff), ("verify", lambda data: _refuse(verify(data).ok))):
    cases(_name, _ask, count=lambda: portable(struct.pack("<Q", 2**64 - 1)))
cases(
    "delta.decode_inline",
    lambda data: delta.decode_inline(data.decode(), Limits().max_vector_bytes),
    size=lambda: b"wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    megabytes_of_text=lambda: b"0" * (5 * MEGA),
)
cases(
    "delta file",
    delta.read_deletion_vectors,
    length=lambda: b"\1" + struct.pack(">I", 2**31 - 1) + bytes(100),
    frames_of_nothing=lambda: b"\1" + bytes(8) * 100_000,
)
cases(
    "paimon index file",
    paimon.read_deletion_vectors,
    length=lambda: b"\1" + struct.pack(">I", 2**31 - 1) + bytes(100),
    frames_of_nothing=lambda: b"\1" + bytes(8) * 100_000,
)
cases("paimon hash index", paimon.decode_hash_index, odd_bytes=lambda: bytes(4 * MEGA + 1))


bounded(
    "delta.decode of the native layout",
    limit("max_bitmaps", 2**12),
    delta.decode,
    more_bitmaps_than_allowed=lambda: native(crafting.native64(*[crafting.bitmap(crafting.array(0, [1]))] * 5000)),
)
bounded(
    "delta.decode of the native layout",
    limit("max_cardinality", 2**33),
    lambda data: delta.decode(data, limits=Limits(max_cardinality=2**33)),
    rows_beyond_the_limit=lambda: native(crafting.native64(*[FULL] * 3)),
)
bounded(
    "rows",
    limit("max_cardinality", 2**33),
    lambda data: iceberg.decode(data, limits=Limits(max_cardinality=2**33)),
    beyond_the_limit=lambda: portable(crafting.vector64(*((key, FULL) for key in range(3)))),
)


@case
def cardinality_that_metadata_denies() -> Run:
    data = portable(crafting.vector64((0, FULL)))
    return lambda: iceberg.decode(data, cardinality=1)


def _refuse(found: object) -> None:
    """A verifier that finds nothing wrong accepts."""
    if not found:
        from dvcodec import NotCanonical

        what = "finding"
        raise NotCanonical(what)


# ------------------------------------------------------------------------------------------------------------- Puffin


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


def lz4_header(size: int) -> bytes:
    return struct.pack("<IBBQB", 0x184D2204, 0x68, 0x70, size, 0)


def lz4_bomb(size: int) -> bytes:
    """A frame of so many zeros that states its size."""
    return lz4_header(size) + bytes(cramjam.lz4.compress(bytes(size)))[7:]


def read_puffin(data: bytes, limits: Limits = SMALL) -> None:
    with puffin.open_puffin(data, limits=limits) as reader:
        for blob_ in reader.footer.blobs:
            reader.read(blob_)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def digits(count: int) -> bytes:
    return b"9" * count


def squeezed_footer(payload: bytes) -> bytes:
    return puffin_file(payload, flags=1)


def squeezed_blob(data: bytes, codec: str = "zstd") -> bytes:
    return puffin_file(footer(blob_at(4, len(data), **{"compression-codec": codec})), body=data)


def zstd_header(size: int) -> bytes:
    """Of a frame with one raw block of no bytes, which states a size."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\1\0\0"


PUFFINS: dict[str, Callable[[], bytes]] = {
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
PUFFIN_FOOTERS: dict[str, Callable[[], bytes]] = {
    "lz4_footer_of_an_exabyte": lambda: squeezed_footer(lz4_header(2**60) + bytes(40)),
    "lz4_footer_bomb": lambda: squeezed_footer(lz4_bomb(BOMB)),
    "footer_of_megabytes": lambda: puffin_file(b"{}" + b" " * (5 * MEGA)),
}
cases("puffin", read_puffin, **PUFFINS)
bounded("puffin", limit("max_footer_bytes"), read_puffin, **PUFFIN_FOOTERS)
bounded(
    "puffin",
    limit("max_blob_bytes"),
    read_puffin,
    zstd_blob_of_an_exabyte=lambda: squeezed_blob(zstd_header(2**60)),
    zstd_blob_bomb=lambda: squeezed_blob(bytes(cramjam.zstd.compress(bytes(BOMB)))),
    lz4_blob_of_an_exabyte=lambda: squeezed_blob(lz4_header(2**60) + bytes(40), "lz4"),
    lz4_blob_bomb=lambda: squeezed_blob(lz4_bomb(BOMB), "lz4"),
)
bounded(
    "puffin",
    "NotCanonical: .*content size: expected at most [0-9]+ in [0-9]+ bytes",
    lambda data: read_puffin(data, Limits()),
    zstd_blob_of_more_than_its_bytes_can_hold=lambda: squeezed_blob(zstd_header(100 * MEGA)),
    lz4_blob_of_more_than_its_bytes_can_hold=lambda: squeezed_blob(lz4_header(100 * MEGA) + bytes(40), "lz4"),
)
cases(
    "iceberg.read_deletion_vectors",
    iceberg.read_deletion_vectors,
    **{what: make for what, make in PUFFINS.items() if "nothing" not in what},
)
bounded(
    "iceberg.read_deletion_vectors",
    limit("max_footer_bytes"),
    lambda data: iceberg.read_deletion_vectors(data, limits=SMALL),
    **PUFFIN_FOOTERS,
)
cases(
    "puffin, default limits",
    lambda data: read_puffin(data, Limits()),
    zstd_blob_bomb=lambda: squeezed_blob(bytes(cramjam.zstd.compress(bytes(BOMB)))),
)
MEMORY["puffin, default limits: zstd blob bomb"] = "max_blob_bytes is 1 GiB"

# --------------------------------------------------------------------------------------------------------------- Avro

FLAT = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
NOTHING = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}


def zigzag(value: int) -> bytes:
    return uv((value << 1) ^ (value >> 63) if value < 0 else value << 1)


def avro_file(
    schema: Any, count: int, block: bytes, codec: str = "null", *, size: int | None = None, times: int = 1
) -> bytes:
    """A container file; `size` is what its block claims to have, and there are `times` of it."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    entries = ((b"avro.schema", text), (b"avro.codec", codec.encode()))
    head = b"".join(zigzag(len(part)) + part for entry in entries for part in entry)
    blocks = zigzag(count) + zigzag(len(block) if size is None else size) + block + bytes(16)
    return b"Obj\1" + zigzag(len(entries)) + head + b"\0" + bytes(16) + blocks * times


def deflated(size: int, content: bytes = b"\0") -> bytes:
    """A raw stream: a megabyte is compressed once, and stands in it again and again."""
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    piece = squeezer.compress(content * MEGA) + squeezer.flush(zlib.Z_FULL_FLUSH)
    return piece * (size // MEGA) + squeezer.flush()


def gzipped(size: int, content: bytes) -> bytes:
    crc = zlib.crc32(content * size)
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + deflated(size, content) + struct.pack("<II", crc, size)


def zstd_of_no_size(size: int) -> bytes:
    """A frame that does not state its size, of blocks that stand for one byte again and again."""
    blocks = [struct.pack("<I", 1 << 17 << 3 | 1 << 1)[:3] + b"\0"] * (size >> 17)
    return b"\x28\xb5\x2f\xfd\0\x58" + b"".join(blocks) + b"\1\0\0"


def snappy(size: int) -> bytes:
    """A block as Avro has it; its CRC is wrong."""
    return bytes(cramjam.snappy.compress_raw(bytes(size))) + bytes(4)


def avro_blocks(schema: Any) -> dict[str, Callable[[], bytes]]:
    """Files of a schema whose blocks are not what they promise."""
    return {
        "count_of_records": lambda: avro_file(schema, HUGE, b"\0"),
        "count_of_records_in_a_megabyte": lambda: avro_file(schema, 2 * MEGA, bytes(MEGA)),
        "size_of_a_block": lambda: avro_file(schema, 1, b"\0", size=HUGE),
        "negative_size": lambda: avro_file(schema, 1, b"\0", size=-5),
        "zeros": lambda: avro_file(schema, MEGA, b"\xff" * MEGA),
    }


def avro_bombs(schema: Any) -> dict[str, Callable[[], bytes]]:
    """Files of a schema whose blocks unpack to much."""
    return {
        "snappy_of_four_gigabytes": lambda: avro_file(schema, 1, uv(2**32 - 1) + bytes(50), "snappy"),
        "snappy_bomb": lambda: avro_file(schema, 1, snappy(BOMB), "snappy"),
        "deflate_bomb": lambda: avro_file(schema, 1, deflated(BOMB), "deflate"),
        "zstd_bomb": lambda: avro_file(schema, 1, bytes(cramjam.zstd.compress(bytes(BOMB))), "zstandard"),
        "zstd_bomb_of_no_stated_size": lambda: avro_file(schema, 1, zstd_of_no_size(BOMB), "zstandard"),
    }


AVRO_SCHEMAS: dict[str, Callable[[], bytes]] = {
    "array_of_nulls": lambda: avro_file(NOTHING, 1, zigzag(2**40)),
    "arrays_of_arrays_of_nulls": lambda: avro_file(
        {**NOTHING, "fields": [{"name": "a", "type": {"type": "array", "items": NOTHING | {"name": "s"}}}]},
        1,
        zigzag(-(2**40)) + zigzag(1),
    ),
    "array_of_empty_records": lambda: avro_file(
        {**NOTHING, "fields": [{"name": "a", "type": {"type": "array", "items": {**FLAT, "name": "e", "fields": []}}}]},
        1,
        zigzag(2**40),
    ),
    "map_of_nothing": lambda: avro_file(
        {**NOTHING, "fields": [{"name": "a", "type": {"type": "map", "values": "null"}}]}, 1, zigzag(2**50)
    ),
    "type_within_itself": lambda: avro_file({**FLAT, "fields": [{"name": "a", "type": "r"}]}, 1, bytes(1000)),
    "type_that_may_be_itself": lambda: avro_file(
        {**FLAT, "fields": [{"name": "a", "type": ["null", "r"]}]}, 1, b"\2" * 500_000
    ),
    "deep_schema": lambda: avro_file(b'{"type":"array","items":' * 50_000 + b'"int"' + b"}" * 50_000, 1, b"\0"),
    "schema_of_many_fields": lambda: avro_file(
        {**FLAT, "fields": [{"name": f"f{i}", "type": "fixed"} for i in range(20_000)]}, 1, b"\0"
    ),
}
"""Of hostile schemas `avro` by itself knows nothing: its callers check the schema first."""
AVRO_VALUES: dict[str, Callable[[], bytes]] = {
    "bytes_without_bytes": lambda: avro_file({**FLAT, "fields": [{"name": "a", "type": "bytes"}]}, 1, zigzag(2**40)),
    "fixed_of_a_terabyte": lambda: avro_file(
        {**FLAT, "fields": [{"name": "a", "type": {"type": "fixed", "name": "f", "size": 2**40}}]}, 1, b"\0"
    ),
}
MANIFEST_BYTES = limit("max_manifest_bytes")


def read_avro(data: bytes) -> int:
    return drained(avro.decode(Cursor(data), limits=SMALL).records())


cases("avro", read_avro, **avro_blocks(FLAT), **AVRO_VALUES)
bounded(
    "avro",
    MANIFEST_BYTES,
    read_avro,
    **avro_bombs(FLAT),
    bombs_that_add_up=lambda: avro_file(
        {**FLAT, "fields": [{"name": "a", "type": "bytes"}]},
        1,
        bytes(cramjam.zstd.compress(zigzag(20 * MEGA) + bytes(20 * MEGA))),
        "zstandard",
        times=2,
    ),
    megabytes=lambda: avro_file(FLAT, 1, bytes(33 * MEGA)),
)


def schema_of(path: Path) -> Any:
    return avro.decode(Cursor(path.read_bytes())).schema


KNOWN = schema_of(REAL_MANIFEST)
cases("paimon.read_index_manifest", paimon.read_index_manifest, **avro_blocks(KNOWN))
bounded(
    "paimon.read_index_manifest",
    MANIFEST_BYTES,
    lambda data: paimon.read_index_manifest(data, limits=SMALL),
    **avro_bombs(KNOWN),
)
EXTRAS: dict[str, Any] = {
    "array_of_nulls": {"type": "array", "items": "null"},
    "array_of_empty_records": {"type": "array", "items": {"type": "record", "name": "e", "fields": []}},
    "array_of_nothing": {"type": "array", "items": {"type": "fixed", "name": "z", "size": 0}},
    "type_of_its_own": [
        "null",
        {"type": "record", "name": "own", "fields": [{"name": "x", "type": ["null", "own"]}]},
    ],
    "types_of_types": {
        "type": "record",
        "name": "t0",
        "fields": [
            {"name": "a", "type": {"type": "record", "name": "t1", "fields": [{"name": "b", "type": "null"}]}},
            *({"name": f"x{i}", "type": "t1"} for i in range(200)),
        ],
    },
}


def with_field(kind: Any) -> bytes:
    """A sound index manifest, but for a field that nobody knows, and its contents."""
    return avro_file({**KNOWN, "fields": [{"name": "extra", "type": kind}, *KNOWN["fields"]]}, 1, b"\2" * 100_000)


cases("paimon.read_index_manifest, a field more", paimon.read_index_manifest, **{
    what: (lambda kind=kind: with_field(kind)) for what, kind in EXTRAS.items()
})  # fmt: skip


def iceberg_records(path: str) -> int:
    with open_avro(path) as (file, _):
        return drained(file.records())


read_iceberg = by_path("m.avro", iceberg_records)
cases("iceberg manifest", read_iceberg, **avro_blocks(FLAT), **AVRO_VALUES, **AVRO_SCHEMAS)
bounded("iceberg manifest", MANIFEST_BYTES, read_iceberg, **avro_bombs(FLAT))
PAIMON_MANIFESTS = VECTORS_OF / "tables/paimon/java-1.4.2/merged32/table/manifest"
for _name, _pattern, _read_paimon in (
    ("paimon manifest", "manifest-[0-9a-f]*", read_manifest),
    ("paimon manifest list", "manifest-list-*", read_manifest_list),
):
    _schema = schema_of(min(PAIMON_MANIFESTS.glob(_pattern)))
    _decode_paimon = by_path(
        "manifest/m",
        lambda path, read=_read_paimon: read(Folder(str(Path(path).parent.parent)), "m"),  # type: ignore[misc]
    )
    cases(_name, _decode_paimon, **avro_blocks(_schema))
    bounded(_name, MANIFEST_BYTES, _decode_paimon, **avro_bombs(_schema))
cases("iceberg manifest, a field more", read_iceberg, **{
    what: (lambda kind=kind: avro_file(
        {**FLAT, "fields": [*FLAT["fields"], {"name": "x", "type": kind}]}, 1, b"\2" * 100_000
    ))
    for what, kind in EXTRAS.items()
})  # fmt: skip

# --------------------------------------------------------------------------------------------------------------- JSON

JSONS: dict[str, Callable[[], bytes]] = {
    "deep": lambda: nested(200_000),
    "deep_in_an_object": lambda: b'{"a":' * 100_000 + b"0" + b"}" * 100_000,
    "million_digits": lambda: b'{"location":' + digits(MEGA) + b"}",
    "exponent": lambda: b'{"location":1e999999999}',
    "not_a_number": lambda: b'{"location":NaN}',
    "unfinished": lambda: b'{"a":"' + b"x" * MEGA,
    "names_that_come_again": lambda: b"{" + b",".join([b'"location":1'] * 50_000) + b"}",
}
cases("iceberg metadata", lambda data: read_metadata(saved(data, "v1.metadata.json")), **JSONS)
cases("iceberg metadata, gzip", lambda data: read_metadata(saved(data, "v1.metadata.json.gz")), **{
    what: (lambda make=make: gzip.compress(make())) for what, make in JSONS.items()
})  # fmt: skip
bounded(
    "iceberg metadata",
    MANIFEST_BYTES,
    by_path("v1.metadata.json.gz", read_metadata),
    gzip_bomb_of_blanks=lambda: gzipped(BOMB, b" "),
    gzip_bomb_of_brackets=lambda: gzipped(BOMB, b"["),
    blanks=lambda: b" " * (33 * MEGA),
)
bounded(
    "iceberg metadata",
    "LimitExceeded: .*values in the metadata: expected at most",
    lambda data: read_metadata(saved(data, "v1.metadata.json.gz")),
    bomb_of_lists=lambda: gzip.compress(b"{" + b'"a":[],' * (20 * MEGA // 7), 1),
)
cases("delta log", lambda data: [line.text("path") for line in parse_lines(b'{"add":' + data + b"}", "log")], **JSONS)
cases("delta descriptor", delta.Descriptor.from_json, **JSONS)
cases("paimon metadata", lambda data: parse_json(data, "snapshot-1").get("location", str), **JSONS)

# -------------------------------------------------------------------------------------------------------------- Lance


def field(number: int, *parts: bytes) -> bytes:
    """A length-delimited field of protobuf."""
    body = b"".join(parts)
    return uv(number << 3 | 2) + uv(len(body)) + body


def scalar(number: int, value: int) -> bytes:
    return uv(number << 3, value)


def lance_file(body: bytes, size: int | None = None) -> bytes:
    length = struct.pack("<I", len(body) if size is None else size)
    return length + body + struct.pack("<qhh4s", 0, 0, 2, b"LANC")


def range_(start: int, end: int, *more: bytes) -> bytes:
    return b"".join([scalar(1, start), scalar(2, end), *more])


def segment(number: int, body: bytes) -> bytes:
    return field(1, field(number, body))


def holes(width: int, data: bytes) -> bytes:
    return field(width, scalar(1, 0), field(2, data))


SEQUENCES: dict[str, Callable[[], bytes]] = {
    "length_of_an_exabyte": lambda: b"\x0a" + uv(2**62) + b"\0",
    "varint_without_an_end": lambda: b"\x0a" + b"\xff" * 100_000,
    "range_that_goes_back": lambda: segment(1, range_(2**63, 5)),
    "holes_of_nothing": lambda: segment(2, range_(0, 2**62, field(3, holes(1, b"\0")))),
    "bitmap_that_is_too_short": lambda: segment(3, range_(0, 2**62, field(3, b"\xff"))),
    "sorted_that_is_not": lambda: segment(4, holes(1, b"\2\0\1\0" * 50_000)),
    "offsets_beyond_64_bits": lambda: segment(5, field(2, scalar(1, 2**64 - 1), field(2, b"\xff" * 40))),
    "groups_in_groups": lambda: b"\x0b" * 200_000,
}
cases("lance.decode_row_ids", lance.decode_row_ids, **SEQUENCES)
cases(
    "lance.decode_row_ids, asked for all",
    lambda data: lance.decode_row_ids(data).to_numpy(),
    range_of_everything=lambda: segment(1, range_(0, 2**63)),
    range_with_holes=lambda: segment(2, range_(0, 2**40)),
)
cases(
    "lance.decode_versions",
    lambda data: lance.decode_versions(data).to_numpy(),
    span_of_everything=lambda: field(1, field(1, field(1, range_(0, 2**63))), scalar(2, 3)),
    length_of_an_exabyte=lambda: b"\x0a" + uv(2**62),
)
cases(
    "lance.read_manifest",
    lance.read_manifest,
    size=lambda: lance_file(b"", 2**32 - 1),
    offset=lambda: struct.pack("<qhh4s", HUGE, 0, 2, b"LANC"),
    length=lambda: lance_file(b"\x12" + uv(2**62)),
    thousands_of_fragments_and_a_half=lambda: lance_file(b"\x12\x00" * 5000 + b"\x12" + uv(9)),
)
cases(
    "lance.read_operation",
    lambda data: _refuse(read_operation(data)),
    length=lambda: b"\x0a" + uv(2**62),
)
cases(
    "lance.decode_row_addr_map",
    lance.decode_row_addr_map,
    count=lambda: struct.pack("<I", 2**32 - 1) + bytes(100),
    size=lambda: struct.pack("<III", 1, 0, 2**32 - 1) + bytes(100),
    bitmap=lambda: struct.pack("<III", 1, 0, 8) + struct.pack("<II", 12346, 2**31),
)


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


bounded(
    "lance.read_deletion_file",
    limit("max_vector_bytes"),
    lambda data: lance.read_deletion_file(data, limits=SMALL),
    lz4_bomb=lambda: arrow(10 * MEGA, "lz4"),
    zstd_bomb=lambda: arrow(10 * MEGA, "zstd"),
    bombs_that_add_up=lambda: arrow(5 * MEGA, "zstd", times=2),
    megabytes=lambda: b"ARROW1\0\0" + bytes(33 * MEGA),
)
bounded(
    "lance.read_deletion_file",
    limit("max_cardinality", 99),
    lambda data: lance.read_deletion_file(data, limits=Limits(max_cardinality=99)),
    hundred_rows=lambda: arrow(100, "zstd"),
    hundred_rows_of_a_bitmap=lambda: crafting.bitmap(crafting.array(0, range(100))),
)
cases("lance.read_deletion_file, default limits", lance.read_deletion_file, zstd_bomb=lambda: arrow(40 * MEGA, "zstd"))
MEMORY["lance.read_deletion_file, default limits: zstd bomb"] = "max_vector_bytes is 2 GiB, as the formats' own"
bounded(
    "lance.read_deletion_file",
    "NotCanonical: .*buffer: expected 0 to [0-9]+ bytes for 1000000 rows",
    lance.read_deletion_file,
    zstd_of_an_exabyte=lambda: claimed(arrow(1_000_000, "zstd"), 2**60),
    zstd_of_less_than_nothing=lambda: claimed(arrow(1_000_000, "zstd"), -2),
)
cases(
    "lance.read_deletion_file",
    lance.read_deletion_file,
    lz4_of_too_little=lambda: claimed(arrow(1_000_000, "lz4"), 4),
    footer=lambda: b"ARROW1\0\0" + bytes(100) + struct.pack("<i", 2**31 - 1) + b"ARROW1",
    bitmap=lambda: struct.pack("<II", 12346, 2**31),
)

# --------------------------------------------------------------------------------------------------------- zap, vellum


def everything(data: bytes, limits: Limits = SMALL) -> None:
    """All of a segment."""
    with Segment.open(data, verify_checksum=False, limits=limits) as segment_:
        for table in ("stored", "terms", "postings", "doc_values", "fields"):
            drained(segment_.to_arrow(table))


def crafted(change: Callable[[Craft], None], **more: Any) -> bytes:
    made = Craft(15)
    change(made)
    return bytes(made.finish(**more))


def stored(size: int, block: bytes) -> Callable[[Craft], None]:
    def change(made: Craft) -> None:
        meta = uv(1, 1, 116, 0, size, 0)
        made.put(uv(len(meta), len(block) + 1) + meta + b"0" + block)
        made.docs, made.stored = 1, made.put(bytes(8))
        made.ids()
        made.field("f", made.dictionary({}))

    return change


def doc_values(size: int, block: bytes) -> Callable[[Craft], None]:
    """One document with values of that size."""

    def change(made: Craft) -> None:
        made.documents(1)
        made.ids()
        chunk = uv(1, 0, size) + block
        ends = uv(len(chunk))
        at = made.put(chunk + ends + struct.pack(">QQ", len(ends), 1))
        place = (at, len(made.out))
        made.field("f", made.dictionary({}), place)

    return change


def dictionary(data: bytes) -> bytes:
    def change(made: Craft) -> None:
        made.docs = 1
        made.documents(1)
        made.ids()
        at = made.put(uv(len(data)) + data)
        made.field("f", at)

    return crafted(change)


def terms_of(data: bytes) -> int:
    limits = Limits(max_keys=100_000, max_blob_bytes=MEGA)
    return sum(len(block.keys) for block in Fst.open(Cursor(data), limits).blocks())


SNAPPIES: dict[str, Callable[[], bytes]] = {
    "snappy_bomb": lambda: crafted(stored(BOMB, snappy(BOMB)[:-4])),
    "snappy_bomb_of_doc_values": lambda: crafted(doc_values(BOMB, snappy(BOMB)[:-4])),
}
bounded("zap", limit("max_blob_bytes"), everything, **SNAPPIES)
cases("zap, default limits", lambda data: everything(data, Limits()), **SNAPPIES)
MEMORY |= {f"zap, default limits: {what.replace('_', ' ')}": "max_blob_bytes is 1 GiB" for what in SNAPPIES}
bounded(
    "zap",
    limit("max_keys", Limits().max_keys),
    everything,
    dictionary_that_doubles=lambda: dictionary(doubling(60)),
)
bounded(
    "zap",
    "NotCanonical: .*content size of stored values: expected at most [0-9]+ in [0-9]+ bytes",
    everything,
    snappy_of_four_gigabytes=lambda: crafted(stored(2**32 - 1, uv(2**32 - 1) + bytes(60))),
)
cases(
    "zap",
    everything,
    documents=lambda: crafted(lambda made: made.documents(3), docs=2**63, stored=0),
    nothing=lambda: bytes(1000),
)
cases(
    "zap.verify_segment",
    lambda data: _refuse(verify_segment(data).ok),
    documents=lambda: crafted(lambda made: made.documents(3), docs=2**63, stored=0),
    dictionary_that_doubles=lambda: dictionary(doubling(60)),
)
bounded(
    "vellum",
    limit("max_keys", 100_000),
    terms_of,
    keys_that_double=lambda: doubling(60),
    count_of_keys=lambda: blob(many([(97, 0, 1)]), 2**63),
)
bounded(
    "vellum, all at once",
    limit("max_blob_bytes", MEGA),
    lambda data: Fst.open(Cursor(data), Limits(max_blob_bytes=MEGA)).to_block(),
    keys_of_megabytes=lambda: build([b"a" * n for n in range(1, 3000)], np.arange(2999, dtype=np.uint64)),
)
cases(
    "vellum",
    terms_of,
    state_that_leads_to_itself=lambda: blob(one(97, 0) + one(98, 2**40, sizes=(6, 0)), 5),
    root_beyond_the_blob=lambda: blob(many([(97, 0, 1)]), 1, root=2**60),
    deep=lambda: build([b"a" * 300_000], np.array([1], np.uint64)),
    deep_and_wide=lambda: build([b"a" * n for n in range(1, 3000)], np.arange(2999, dtype=np.uint64)),
)
# --------------------------------------------------------------------------------------------------------------- bolt


def bolt(change: Callable[[Bolt], None] = lambda _: None, **entries: Any) -> bytes:
    made = Bolt({name.encode(): value for name, value in entries.items()} or {b"s": {b"a": {b"b": b"c"}}})
    change(made)
    return made.data()


def put(form: str, at: int, *values: int) -> Callable[[Bolt], None]:
    """Overwrite a part of the root's page."""
    return lambda made: struct.pack_into(form, made.pages[made.root], at, *values)


def read_all(data: bytes) -> None:
    with open_source(data) as source:
        read_bolt(source)


cases(
    "scorch root",
    read_all,
    count_of_elements=lambda: bolt(put("<H", 10, 65535)),
    overflow=lambda: bolt(put("<I", 12, 2**32 - 1)),
    size_of_a_value=lambda: bolt(put("<I", 28, 2**32 - 1)),
    page_beyond_the_file=lambda: bolt(lambda made: setattr(made, "root", 2**62)),
    page_in_itself=lambda: bolt(put("<HHI", 8, 1, 1, 0), s=b"x" * 100),
    pages_that_are_counted=lambda: bolt(lambda made: setattr(made, "page_size", 2**16))[:4000],
)

# ------------------------------------------------------------------------------------------------------------ Parquet


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def with_footer(data: bytes, size: int) -> bytes:
    return data[:-8] + struct.pack("<I", size) + b"PAR1"


def rows_of(data: bytes) -> None:
    with open_parquet(saved(data, "a.parquet")) as file:
        drained(physical_batches(file, None))


ROWS = pa.table({"a": pa.array(range(1000))})
cases(
    "parquet",
    rows_of,
    footer_of_two_gigabytes=lambda: with_footer(parquet(ROWS), 2**31 - 1),
    footer_of_four_gigabytes=lambda: with_footer(parquet(ROWS), 2**32 - 1),
    footer_of_zeros=lambda: b"PAR1" + bytes(MEGA) + struct.pack("<I", MEGA) + b"PAR1",
    lists_without_an_end=lambda: b"PAR1" + b"\x19\xfc" + b"\xff" * 4 + b"\x07" * 100 + struct.pack("<I", 106) + b"PAR1",
    deep_structs=lambda: b"PAR1" + b"\x1c" * 100_000 + struct.pack("<I", 100_000) + b"PAR1",
    cut=lambda: b"PAR1" + parquet(ROWS)[-200:],
)

# --------------------------------------------------------------------------------------------------------- large files


def large(head: bytes, name: str, *, tail: bytes = b"") -> str:
    """The path of a file with a hole in it, larger than the cap."""
    path = saved(head, name)
    os.truncate(path, BOMB)
    with open(path, "ab") as file:  # noqa: PTH123  (what `Path.open` is too)
        file.write(tail)
    return path


def large_files(name: str, by: str, read: Callable[[str], object], path: Callable[[], str]) -> None:
    """Register a reader of a file that is larger than it may be: no more is read of it than tells that."""

    def built() -> Run:
        place = path()

        def run() -> None:
            with lowered(SMALL):
                read(place)

        return run

    CASES[f"large file: {name}"], BOUNDS[f"large file: {name}"] = built, by


def read_root_of(path: str) -> None:
    with open_source(path) as source:
        read_bolt(source)


AVRO_HEAD = avro_file(KNOWN, 1, b"\0")
LANCE_TAIL = struct.pack("<qhh4s", 0, 0, 2, b"LANC")
for _what, _bound, _read_large, _make in (
    ("paimon.read_index_manifest", "max_manifest_bytes", paimon.read_index_manifest, lambda: large(AVRO_HEAD, "m")),
    ("iceberg manifest", "max_manifest_bytes", iceberg_records, lambda: large(AVRO_HEAD, "m")),
    ("iceberg metadata", "max_manifest_bytes", read_metadata, lambda: large(b"{", "v1.metadata.json")),
    (
        "paimon manifest",
        "max_manifest_bytes",
        lambda path: read_manifest(Folder(str(Path(path).parent.parent)), "m"),
        lambda: large(AVRO_HEAD, "manifest/m"),
    ),
    (
        "paimon snapshot",
        "max_manifest_bytes",
        lambda path: read_snapshot(Folder(str(Path(path).parent.parent)), "snapshot/snapshot-1"),
        lambda: large(b"{", "snapshot/snapshot-1"),
    ),
    ("lance.read_operation", "max_manifest_bytes", read_operation, lambda: large(b"\x0a", "1.txn")),
    ("lance.read_manifest", "max_manifest_bytes", lance.read_manifest, lambda: large(b"", "1", tail=LANCE_TAIL)),
    ("lance.read_deletion_file", "max_vector_bytes", lance.read_deletion_file, lambda: large(b"ARROW1\0\0", "1.arrow")),
    ("scorch root", "max_manifest_bytes", read_root_of, lambda: large(bolt(), "root.bolt")),
    (
        "delta file",
        "max_vector_bytes",
        delta.read_deletion_vectors,
        lambda: large(b"\1" + struct.pack(">I", 290 * MEGA) + crafting.PORTABLE, "1.bin"),
    ),
    (
        "paimon index file",
        "max_vector_bytes",
        paimon.read_deletion_vectors,
        lambda: large(b"\1" + struct.pack(">I", 290 * MEGA) + crafting.PORTABLE, "index-1"),
    ),
    (
        "delta.load",
        "max_vector_bytes",
        lambda path: delta.load(delta.Descriptor("p", Path(path).as_uri(), 290 * MEGA, 1, offset=1), allow=("file",)),
        lambda: large(b"\1" + struct.pack(">I", 290 * MEGA) + crafting.PORTABLE, "d.bin"),
    ),
    (
        "paimon.load",
        "max_vector_bytes",
        lambda path: paimon.load(path, paimon.DeletionVectorMeta("a", 1, 290 * MEGA + 8, 1)),
        lambda: large(b"\1" + struct.pack(">I", 290 * MEGA) + crafting.PORTABLE, "index-1"),
    ),
    (
        "puffin footer",
        "max_footer_bytes",
        iceberg.read_deletion_vectors,
        lambda: large(b"PFA1", "1.puffin", tail=struct.pack("<iI", 290 * MEGA, 0) + b"PFA1"),
    ),
):
    large_files(_what, limit(_bound), _read_large, _make)

# -------------------------------------------------------------------------------------------------------- whole tables


def table_of(**files: bytes) -> Run:
    folder = Path(tempfile.mkdtemp())
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def use() -> None:
        open_table(folder).snapshot()

    return use


def tables(kind: str, files: Callable[[bytes], dict[str, bytes]], inputs: dict[str, Callable[[], bytes]]) -> None:
    """Register whole tables of one hostile file."""
    for what, make in inputs.items():
        CASES[f"{kind} table: {what.replace('_', ' ')}"] = lambda make=make: table_of(**files(make()))  # type: ignore[misc]


tables("delta", lambda data: {"_delta_log/00000000000000000000.json": b'{"metaData":' + data + b"}"}, JSONS)
tables("paimon", lambda data: {"snapshot/snapshot-1": data, "schema/schema-0": data}, JSONS)
tables("iceberg", lambda data: {"metadata/v1.metadata.json": data}, JSONS)
tables(
    "lance",
    lambda data: {f"_versions/{lance.manifest_name(1)}": lance_file(data)},
    {what: SEQUENCES[what] for what in ("length_of_an_exabyte", "varint_without_an_end", "groups_in_groups")},
)

ACCEPTED = {
    "delta.decode of the native layout: empty bitmaps",  # what they take is what they are
    "sniff: count",  # tells what it is by its first bytes
    "vellum: deep",
    "vellum: deep and wide",
    "puffin: blobs over one another",  # each is asked for by itself
}
"""Cases that end in a value, soon and in little memory."""


def _spin() -> None:
    while True:
        pass


CONTROLS: dict[str, Callable[[], Run]] = {
    "control: memory": lambda: lambda: np.empty(300 * MEGA, np.uint8),
    "control: time": lambda: _spin,
    "control: another error": lambda: lambda: int("x"),
}
"""What is to be caught: cases that take too much, too long, or raise another error."""
