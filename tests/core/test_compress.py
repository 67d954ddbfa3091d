from __future__ import annotations

import struct
import sys
import tracemalloc
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import answers_limited, check_buffers, check_truncations, outcome
from cases import each
from dvcodec.core.compress import CODECS, compress, decompress
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import BadMagic, DecodeError, LimitExceeded, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import Limits

LZ4_MAGIC = bytes.fromhex("04224d18")
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
TEXT = b"deletion vectors " * 40

Block = tuple[bytes, bool]
"""Stored bytes of an LZ4 block, and whether they are compressed."""


def xxh32(data: bytes) -> int:
    """XXH32 of fewer than 16 bytes, as the header checksum of an LZ4 frame needs it."""
    primes = (2654435761, 2246822519, 3266489917, 668265263, 374761393)

    def step(value: int, bits: int, prime: int) -> int:
        value &= 0xFFFFFFFF
        return (value << bits | value >> (32 - bits)) * prime & 0xFFFFFFFF

    hashed = primes[4] + len(data)
    words = len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: 4 * words]):
        hashed = step(hashed + word * primes[2], 17, primes[3])
    for byte in data[4 * words :]:
        hashed = step(hashed + byte * primes[4], 11, primes[0])
    hashed = (hashed ^ hashed >> 15) * primes[1] & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * primes[2] & 0xFFFFFFFF
    return hashed ^ hashed >> 16


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
def test_frames_that_state_their_size_are_decompressed(codec: str, frame: bytes, content: bytes) -> None:
    assert unpack(codec)(frame) == content
    check_buffers(unpack(codec), frame)


@frames
def test_cut_frames_are_refused(codec: str, frame: bytes, content: bytes) -> None:
    check_truncations(unpack(codec), frame)


@frames
def test_nothing_may_follow_not_even_an_empty_frame(codec: str, frame: bytes, content: bytes) -> None:
    skippable = struct.pack("<II", 0x184D2A50, 2) + b"ab"
    for tail in (b"\x00", b"trailing", frame, FRAMES[f"{codec} of nothing"][1], skippable):
        with pytest.raises(NotCanonical) as caught:
            unpack(codec)(frame + tail)
        assert caught.value.what == f"bytes after the end of the {codec} frame"
        assert (caught.value.offset, caught.value.actual) == (len(frame), str(len(tail)))


@frames
def test_the_stated_size_is_held_against_the_limit_before_anything_else(
    codec: str, frame: bytes, content: bytes
) -> None:
    assert unpack(codec, Limits(max_blob_bytes=len(content)))(frame) == content
    if content:
        cursor = Cursor(b"??" + frame, source="x.puffin", base=100)
        cursor.seek(2, "the frame")
        with pytest.raises(LimitExceeded) as caught:
            decompress(cursor, codec, limits=Limits(max_blob_bytes=len(content) - 1))
        assert caught.value.what == "Limits.max_blob_bytes"
        assert (caught.value.source, caught.value.offset) == ("x.puffin", 102)
        assert str(caught.value.expected).startswith(f"at most {len(content) - 1} (")
        assert caught.value.actual == len(content)


def test_the_caller_names_the_limit() -> None:
    codec, frame, content = FRAMES["zstd"]
    limits = Limits(max_blob_bytes=0, max_metadata_bytes=len(content))
    assert bytes(decompress(Cursor(frame), codec, limit="max_metadata_bytes", limits=limits)) == content
    with pytest.raises(LimitExceeded, match="max_metadata_bytes"):
        decompress(Cursor(frame), codec, limit="max_metadata_bytes", limits=Limits(max_metadata_bytes=1))


def test_only_the_window_is_decompressed() -> None:
    frame = FRAMES["zstd"][1]
    cursor = Cursor(b"<<" + frame + b">>")
    cursor.seek(2, "the frame")
    with pytest.raises(NotCanonical), cursor.restrict_to(len(frame) + 1, "too much"):
        decompress(cursor, "zstd")
    cursor.seek(2, "the frame")
    cursor.end = 2 + len(frame)
    assert bytes(decompress(cursor, "zstd")) == TEXT


@pytest.mark.parametrize("stated", [0, 1, len(TEXT) - 1, len(TEXT) + 1, 2**20])
def test_an_lz4_frame_with_a_wrong_size_is_refused(stated: int) -> None:
    for block in ((TEXT, False), packed(TEXT)):
        with pytest.raises(NotCanonical) as caught:
            unpack("lz4")(lz4_frame(block, size=stated))
        assert caught.value.offset == 0


@pytest.mark.parametrize("stated", [0, 1, 299, 301, 2**20])
def test_a_zstd_frame_with_a_wrong_size_is_refused(stated: int) -> None:
    with pytest.raises(NotCanonical) as caught:
        unpack("zstd")(zstd_frame(300, header=b"\x80\x38" + struct.pack("<I", stated)))
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("codec", "frame"),
    [
        ("lz4", lz4_frame((b"x", False), size=2**30)),
        ("zstd", zstd_frame(10, header=b"\x80\x38" + struct.pack("<I", 2**30))),
    ],
    ids=CODECS,
)
def test_a_size_that_the_frame_cannot_hold_is_refused_before_it_is_allocated(codec: str, frame: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(NotCanonical) as caught:
            unpack(codec)(frame)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.what == f"{codec} content size"
    assert (caught.value.offset, caught.value.actual) == (0, 2**30)
    assert f"in {len(frame)} bytes" in str(caught.value)


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


def test_frames_without_a_content_size_are_refused() -> None:
    plain = bytes(cramjam.lz4.compress(TEXT))
    assert not plain[4] & 0x08
    windowed = zstd_frame(300, header=b"\x00\x38")
    named = LZ4_MAGIC + b"\x61\x70" + bytes(60)
    for codec, frame in (
        ("lz4", plain),
        ("lz4", named),
        ("lz4", lz4_frame((TEXT, False), size=None)),
        ("zstd", windowed),
    ):
        with pytest.raises(NotCanonical) as caught:
            unpack(codec)(frame)
        assert caught.value.offset == 0
        assert caught.value.expected == "a content size in its header"


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


@each("name", [name for name in FRAMES if name.startswith("zstd")])
def test_content_size_that_is_stated_is_still_held_against_the_frame(name: str) -> None:
    _, frame, content = FRAMES[name]
    assert unsized(frame) == content
    if content:
        with pytest.raises(LimitExceeded):
            unsized(frame, Limits(max_blob_bytes=len(content) - 1))
    for stated in (0, 299, 301):
        with pytest.raises(NotCanonical):
            unsized(zstd_frame(300, header=b"\x80\x38" + struct.pack("<I", stated)))


def test_frame_without_a_content_size_has_room_up_to_the_limit() -> None:
    frame = zstd_frame(1 << 17, 5, header=b"\x00\x38")
    size = (1 << 17) + 5
    assert unsized(frame, Limits(max_blob_bytes=size)) == bytes(size)
    for limit in (size - 1, 1 << 17, 1, 0):
        with pytest.raises((LimitExceeded, NotCanonical)):
            unsized(frame, Limits(max_blob_bytes=limit))


def test_lz4_frames_need_their_content_size_in_any_case() -> None:
    with pytest.raises(NotCanonical, match="a content size in its header"):
        decompress(Cursor(lz4_frame((TEXT, False), size=None)), "lz4", sized=False)
    assert bytes(decompress(Cursor(FRAMES["lz4 stored"][1]), "lz4", sized=False)) == TEXT


def test_damaged_frame_without_a_content_size_is_refused() -> None:
    block = struct.pack("<I", 4 << 3 | 2 << 1 | 1)[:3]
    for frame in (
        ZSTD_MAGIC + b"\x00\x38" + block + b"\xff" * 4,
        ZSTD_MAGIC + b"\x00\x38" + struct.pack("<I", 3 << 1 | 1)[:3],
        zstd_frame((1 << 17) + 1, header=b"\x00\x38"),
        ZSTD_MAGIC + b"\x04\x38" + struct.pack("<I", 1 << 3 | 1)[:3] + b"x" + bytes(4),
    ):
        with pytest.raises(NotCanonical, match="zstd frame"):
            unsized(frame)


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


@given(st.binary(max_size=200))
def test_any_frame_without_a_content_size_ends_in_a_value_or_a_decode_error(data: bytes) -> None:
    limits = Limits(max_blob_bytes=1 << 16)
    for attempt in (data, ZSTD_MAGIC + data, ZSTD_MAGIC + b"\x00\x38" + data):
        outcome(lambda frame: unsized(frame, limits), attempt)


@pytest.mark.parametrize(("codec", "other"), [("lz4", "zstd"), ("zstd", "lz4 stored")])
def test_the_frame_of_another_codec_is_a_bad_magic(codec: str, other: str) -> None:
    with pytest.raises(BadMagic) as caught:
        unpack(codec)(FRAMES[other][1])
    assert caught.value.offset == 0
    assert caught.value.actual == {"lz4": "0xfd2fb528", "zstd": "0x184d2204"}[codec]


@pytest.mark.parametrize("codec", CODECS)
def test_no_bytes_are_truncated(codec: str) -> None:
    with pytest.raises(Truncated):
        unpack(codec)(b"")


@pytest.mark.parametrize(("flag", "size"), [(0, 0), (1, 1), (2, 2), (3, 4)])
def test_a_dictionary_id_in_the_header_is_stepped_over(flag: int, size: int) -> None:
    with pytest.raises(LimitExceeded) as caught:
        unpack("zstd", Limits(max_blob_bytes=10))(zstd_frame(99, header=bytes([0x20 | flag, *[7] * size, 99])))
    assert caught.value.actual == 99


def test_compressing_gives_one_frame_that_states_its_size() -> None:
    for content in (b"", b"x", TEXT, bytes(100_000)):
        frame = compress(content, "zstd")
        assert unpack("zstd")(frame) == content
        assert compress(memoryview(content), "zstd") == frame


@pytest.mark.parametrize("codec", ["lz4", "gzip", "ZSTD", ""])
def test_only_zstd_is_written(codec: str) -> None:
    with pytest.raises(UsageError, match="not as"):
        compress(b"x", codec)


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_any_bytes_end_in_a_value_or_a_decode_error(codec: str, data: bytes) -> None:
    magic = LZ4_MAGIC if codec == "lz4" else ZSTD_MAGIC
    limits = Limits(max_blob_bytes=1 << 16)
    for attempt in (data, magic + data):
        outcome(unpack(codec, limits), attempt)


@given(st.sampled_from(sorted(FRAMES)), st.data())
def test_damaged_frames_end_in_a_value_or_a_decode_error(name: str, data: st.DataObject) -> None:
    codec, frame, _ = FRAMES[name]
    damaged = bytearray(frame)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(frame) - 1), st.integers(0, 255)), max_size=4)):
        damaged[at] = byte
    found = outcome(unpack(codec, Limits(max_blob_bytes=1 << 16)), bytes(damaged))
    assert isinstance(found, DecodeError) or len(found) <= 1 << 16


@pytest.mark.skipif(sys.platform != "linux", reason="caps the address space")
def test_a_gigabyte_behind_a_small_stated_size_is_never_unpacked() -> None:
    bombs = [
        ("zstd", "zstd_frame(*[131072] * 8000, header=b'\\x80\\x38' + struct.pack('<I', 0))"),
        ("zstd", "zstd_frame(*[131072] * 8000, header=b'\\x80\\x38' + struct.pack('<I', 10))"),
        ("zstd", "zstd_frame(0, header=b'\\x20\\x00') + zstd_frame(*[131072] * 8000, header=b'\\x00\\x38')"),
        ("lz4", "lz4_frame(*[packed(bytes(65536))] * 16000, size=0)"),
        ("lz4", "lz4_frame(*[packed(bytes(65536))] * 16000, size=10)"),
        ("lz4", "lz4_frame(size=0) + lz4_frame(*[packed(bytes(65536))] * 16000, size=1000 << 20)"),
    ]
    names = "import struct; from core.test_compress import lz4_frame, packed, zstd_frame"
    asked = [(f"{names}; bomb = {bomb}", f"compress.decompress(Cursor(bomb), {codec!r})") for codec, bomb in bombs]
    assert answers_limited(asked) == ["NotCanonical"] * len(bombs)
