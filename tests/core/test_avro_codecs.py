"""Blocks of Avro files that are damaged, or expand to more than they may."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import cramjam
import pytest

from cases import each
from core.test_avro import DATA, SCHEMA, decoded, one_block
from core.test_compress import zstd_frame
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError, LimitExceeded, NotCanonical, Truncated
from dvcodec.core.limits import Limits
from samples.avro import block, header, packed


@each(
    ("codec", "body", "kind"),
    [
        ("zstandard", DATA, BadMagic),
        ("zstandard", b"", Truncated),
        ("zstandard", packed(DATA, "zstandard")[:-1], Truncated),
        ("zstandard", packed(DATA, "zstandard") + b"\0", NotCanonical),
        ("deflate", b"", NotCanonical),
        ("deflate", b"\xff" * 9, NotCanonical),
        ("deflate", packed(DATA, "deflate")[:-1], NotCanonical),
        ("deflate", packed(DATA, "deflate") + b"\0", NotCanonical),
        ("deflate", zlib.compress(DATA), NotCanonical),
        ("snappy", b"", Truncated),
        ("snappy", b"\0\0\0", Truncated),
        ("snappy", b"\0\0\0\0", Truncated),
        ("snappy", packed(DATA, "snappy")[:-1], DecodeError),
        ("snappy", packed(DATA, "snappy") + b"\0", DecodeError),
        ("snappy", packed(DATA, "snappy")[:-4] + bytes(4), ChecksumMismatch),
        ("snappy", bytes(cramjam.snappy.compress_raw(DATA)), DecodeError),
    ],
)
def test_damaged_block_is_refused(codec: str, body: bytes, kind: type[DecodeError]) -> None:
    with pytest.raises(kind) as caught:
        decoded(one_block(codec, body))
    assert caught.value.source == "x.avro"
    assert (caught.value.offset or 0) >= len(header(SCHEMA, codec))


def test_deflate_says_what_is_wrong_with_the_stream() -> None:
    for body, said in (
        (packed(DATA, "deflate")[:-1], "no end"),
        (packed(DATA, "deflate") + b"\0", "1 bytes after it"),
    ):
        with pytest.raises(NotCanonical) as caught:
            decoded(one_block("deflate", body))
        assert (caught.value.what, caught.value.actual) == ("deflate block", said)


ZEROS = 200 << 20


def bomb(codec: str) -> bytes:
    """200 MiB of zeros in a few bytes (but for snappy, which cannot)."""
    if codec == "zstandard":
        return zstd_frame(*[1 << 17] * (ZEROS >> 17), header=b"\x00\x38")
    if codec == "deflate":
        deflater = zlib.compressobj(9, wbits=-15)
        return b"".join([*(deflater.compress(bytes(1 << 20)) for _ in range(ZEROS >> 20)), deflater.flush()])
    return packed(bytes(2 << 20), codec)


@pytest.mark.parametrize("codec", ["zstandard", "deflate", "snappy"])
def test_bomb_takes_no_more_than_the_limit(codec: str) -> None:
    data = header(SCHEMA, codec) + block(1, bomb(codec))
    assert len(data) < 1 << 18
    tracemalloc.start()
    try:
        with pytest.raises((LimitExceeded, NotCanonical)):
            decoded(data, Limits(max_metadata_bytes=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_stated_size_of_a_zstandard_bomb_is_held_against_the_limit() -> None:
    frame = zstd_frame(*[1 << 17] * 1600, header=b"\x80\x38" + struct.pack("<I", ZEROS))
    with pytest.raises(LimitExceeded) as caught:
        decoded(header(SCHEMA, "zstandard") + block(1, frame), Limits(max_metadata_bytes=1 << 20))
    assert (caught.value.what, caught.value.actual) == ("Limits.max_metadata_bytes", ZEROS)
