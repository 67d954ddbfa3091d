from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable

import cramjam
import pytest

from battery import check_buffers, check_truncations
from dvcodec.core.compress import CODECS, compress, decompress
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.limits import Limits
from samples.puffin import xxh32

LZ4_MAGIC = bytes.fromhex("04224d18")
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
TEXT = b"deletion vectors " * 40

Block = tuple[bytes, bool]
"""Stored bytes of an LZ4 block, and whether they are compressed."""


def lz4_frame(*blocks: Block, size: int | None, checksums: bool = False) -> bytes:
    """An LZ4 frame of these blocks that states `size` as its content size; checksums are for short stored blocks."""
    flags = 0x60 | (0 if size is None else 0x08) | (0x14 if checksums else 0)
    descriptor = bytes([flags, 0x70]) + (b"" if size is None else struct.pack("<Q", size))
    parts = [LZ4_MAGIC, descriptor, bytes([xxh32(descriptor) >> 8 & 0xFF])]
    for data, packed in blocks:
        parts += (struct.pack("<I", len(data) | (0 if packed else 1 << 31)), data)
        parts.append(struct.pack("<I", xxh32(data)) if checksums else b"")
    parts += (bytes(4), struct.pack("<I", xxh32(b"".join(data for data, _ in blocks))) if checksums else b"")
    return b"".join(parts)


def zstd_frame(*runs: int, header: bytes) -> bytes:
    """A Zstandard frame of one RLE block of zeros per run; `header` follows the magic."""
    blocks = [
        struct.pack("<I", length << 3 | 1 << 1 | (i == len(runs) - 1))[:3] + b"\x00" for i, length in enumerate(runs)
    ]
    return b"".join([ZSTD_MAGIC, header, *blocks])


def packed(data: bytes) -> Block:
    return bytes(cramjam.lz4.compress_block(data, store_size=False)), True


FRAMES = {
    "lz4 stored": ("lz4", lz4_frame((TEXT, False), size=len(TEXT)), TEXT),
    "lz4 compressed": ("lz4", lz4_frame(packed(TEXT), size=len(TEXT)), TEXT),
    "lz4 of two blocks": ("lz4", lz4_frame(packed(TEXT), (b"!", False), size=len(TEXT) + 1), TEXT + b"!"),
    "lz4 of nothing": ("lz4", lz4_frame(size=0), b""),
    "lz4 with checksums": ("lz4", lz4_frame((b"rows", False), (b"!", False), size=5, checksums=True), b"rows!"),
    "zstd with a checksum": (
        "zstd",
        bytes.fromhex("28b52ffd2410810000") + b"deletion vectors" + bytes.fromhex("d967388d"),
        b"deletion vectors",
    ),
    "zstd": ("zstd", bytes(cramjam.zstd.compress(TEXT)), TEXT),
    "zstd of nothing": ("zstd", bytes(cramjam.zstd.compress(b"")), b""),
    "zstd, size in 1 byte": ("zstd", zstd_frame(9, header=b"\x20\x09"), bytes(9)),
    "zstd, size in 2 bytes": ("zstd", zstd_frame(300, header=b"\x60" + struct.pack("<H", 300 - 256)), bytes(300)),
    "zstd, size in 4 bytes": ("zstd", zstd_frame(300, header=b"\xa0" + struct.pack("<I", 300)), bytes(300)),
    "zstd, size in 8 bytes": ("zstd", zstd_frame(300, header=b"\xe0" + struct.pack("<Q", 300)), bytes(300)),
    "zstd with a window": ("zstd", zstd_frame(300, header=b"\x80\x38" + struct.pack("<I", 300)), bytes(300)),
    "zstd of nothing with a window": ("zstd", zstd_frame(0, header=b"\x80\x38" + bytes(4)), b""),
}
frames = pytest.mark.parametrize(("codec", "frame", "content"), FRAMES.values(), ids=FRAMES)


def unpack(codec: str, limits: Limits | None = None) -> Callable[[BytesLike], bytes]:
    return lambda data: bytes(decompress(Cursor(data), codec, limits=limits or Limits()))


@frames
def test_frames_that_state_their_size(codec: str, frame: bytes, content: bytes) -> None:
    """Read from any buffer, refused if cut, and held against the limit before anything else."""
    assert unpack(codec, Limits(max_blob_bytes=len(content)))(frame) == content
    check_buffers(unpack(codec), frame)
    check_truncations(unpack(codec), frame)
    if content:
        cursor = Cursor(b"??" + frame, source="x.puffin", base=100)
        cursor.seek(2, "the frame")
        with pytest.raises(LimitExceeded) as caught:
            decompress(cursor, codec, limits=Limits(max_blob_bytes=len(content) - 1))
        assert caught.value.what == "Limits.max_blob_bytes"
        assert (caught.value.source, caught.value.offset, caught.value.actual) == ("x.puffin", 102, len(content))


@pytest.mark.parametrize(
    ("codec", "frame"),
    [
        ("lz4", lz4_frame(*[packed(bytes(4 << 20))] * 4, size=16 << 20)),
        ("zstd", zstd_frame(*[1 << 17] * 128, header=b"\x80\x38" + struct.pack("<I", 16 << 20))),
    ],
    ids=CODECS,
)
def test_the_densest_frames_are_read(codec: str, frame: bytes) -> None:
    assert unpack(codec)(frame) == bytes(16 << 20)


WINDOWED = {
    "of nothing": ((0,), b""),
    "of one block": ((300,), bytes(300)),
    "of a full block": ((1 << 17,), bytes(1 << 17)),
    "of many blocks": ((1 << 17, 1 << 17, 5), bytes((2 << 17) + 5)),
    "of short blocks": ((1, 2, 3, 0, 4), bytes(10)),
}
"""Blocks of zstd frames that do not state their content size, as Java writes them, and what is in them."""


def unsized(data: BytesLike, limits: Limits | None = None) -> bytes:
    return bytes(decompress(Cursor(data), "zstd", limits=limits or Limits(), sized=False))


@pytest.mark.parametrize(("runs", "content"), WINDOWED.values(), ids=WINDOWED)
def test_zstd_frames_need_no_content_size_on_demand(runs: tuple[int, ...], content: bytes) -> None:
    frame = zstd_frame(*runs, header=b"\x00\x38")
    assert unsized(frame) == content
    check_buffers(unsized, frame)
    check_truncations(unsized, frame)
    for tail in (b"\x00", frame, FRAMES["zstd of nothing"][1]):
        with pytest.raises(NotCanonical, match="bytes after the end of the zstd frame"):
            unsized(frame + tail)
    with pytest.raises(NotCanonical, match="a content size in its header"):
        unpack("zstd")(frame)


def test_bomb_without_a_content_size_takes_no_more_than_the_limit() -> None:
    bomb = zstd_frame(*[1 << 17] * 1600, header=b"\x00\x38")
    assert len(bomb) < 7000
    tracemalloc.start()
    try:
        with pytest.raises((LimitExceeded, NotCanonical)):
            unsized(bomb, Limits(max_blob_bytes=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert len(unsized(bomb, Limits())) == 1600 << 17


def test_compressing_gives_one_frame_that_states_its_size() -> None:
    for content in (b"", b"x", TEXT, bytes(100_000)):
        frame = compress(content, "zstd")
        assert unpack("zstd")(frame) == content
        assert compress(memoryview(content), "zstd") == frame
