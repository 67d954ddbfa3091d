"""The footer around its payload: what is read of it, and what is refused."""

from __future__ import annotations

from pathlib import Path

from battery import Recorder
from cases import each
from dvcodec import BadMagic, DecodeError, LimitExceeded, NotCanonical, Truncated, Unsupported
from dvcodec.puffin import decode_footer, encode_footer
from samples.puffin import BLOB, as_json, decode, lz4_frame, puffin, refused

REAL_FILES = (
    "java-main/one-small.puffin",
    "java-main/three-files.puffin",
    "java-main/gap-keys.puffin",
    "puffin-v1/empty-puffin-uncompressed.bin",
    "puffin-v1/sample-metric-data-uncompressed.bin",
    "puffin-v1/sample-metric-data-compressed-zstd.bin",
    "iceberg-go/deletion-vector-v1.puffin",
    "iceberg-go/single-blob-dv.puffin",
    "iceberg-go/multi-blob-dv.puffin",
)


# ---------------------------------------------------------------------- real files


@each("name", REAL_FILES)
def test_real_footer_is_written_back_byte_for_byte(vectors: Path, name: str) -> None:
    data = (vectors / "iceberg" / name).read_bytes()
    footer = decode(data)
    assert encode_footer(footer) == data[footer.offset :]


# ---------------------------------------------------------------------- envelope


@each(
    ("place", "what", "offset"),
    [(0, "magic at the start", 0), (1, "magic before the footer payload", 7), (2, "magic at the end", 31)],
)
def test_each_magic_is_checked(place: int, what: str, offset: int) -> None:
    for wrong in [b"PFA2", b"pfa1", b"\0\0\0\0", b"1AFP"]:
        magics = [b"PFA1", b"PFA1", b"PFA1"]
        magics[place] = wrong
        data = puffin(b'{"blobs":[]}', b"abc", magics=(magics[0], magics[1], magics[2]))
        with refused(BadMagic, what, offset):
            decode(data)


def test_unknown_flag_is_unsupported() -> None:
    for bit in range(1, 32):
        with refused(Unsupported, "footer flags", 24):
            decode(puffin(b'{"blobs":[]}', flags=(1 << bit).to_bytes(4, "little")))


@each("size", [-1, -(2**31), 13, 2**31 - 1])
def test_payload_size_has_to_fit_the_file(size: int) -> None:
    with refused(Truncated, "footer payload size", 20):
        decode(puffin(b'{"blobs":[]}', size=size))


# ---------------------------------------------------------------------- ranges


def test_large_footer_costs_one_more_read_and_no_blob() -> None:
    blobs = bytes(1_000_000)
    payload = as_json({"blobs": [{**BLOB, "length": len(blobs)}], "properties": {"x": "y" * 30_000}})
    source = Recorder(puffin(payload, blobs))
    footer = decode_footer(source)
    assert footer.offset == 4 + len(blobs)
    assert source.reads == [
        (source.size - 8192, 8192),
        (footer.offset, source.size - footer.offset),
        (0, 4),
    ]


def test_small_file_is_read_once() -> None:
    source = Recorder(puffin(b'{"blobs":[]}'))
    decode_footer(source)
    assert source.reads == [(0, 32)]


# ---------------------------------------------------------------------- LZ4


def test_lz4_footer_says_the_same() -> None:
    payload = as_json({"blobs": [BLOB], "properties": {"created-by": "me"}})
    plain, packed = decode(puffin(payload)), decode(puffin(lz4_frame(payload), flags=b"\1\0\0\0"))
    assert packed.compressed
    assert (packed.blobs, packed.properties) == (plain.blobs, plain.properties)
    assert encode_footer(packed) == encode_footer(plain)


LZ4_PAYLOAD = b'{"blobs":[]}'


@each(
    ("payload", "kind", "what"),
    [
        (LZ4_PAYLOAD, BadMagic, "lz4 frame magic"),
        (lz4_frame(LZ4_PAYLOAD)[:-1], Truncated, "lz4 block size"),
        (lz4_frame(LZ4_PAYLOAD, stated=2**30 + 1), LimitExceeded, "max_metadata_bytes"),
        (lz4_frame(b""), NotCanonical, "footer payload"),
    ],
)
def test_corrupt_lz4_footer_is_refused(payload: bytes, kind: type[DecodeError], what: str) -> None:
    with refused(kind, what, 8 + len(payload) - 3 if what == "lz4 block size" else 8):
        decode(puffin(payload, flags=b"\1\0\0\0"))
