"""Blocks of Avro files that are damaged, or expand to more than they may."""

from __future__ import annotations

import zlib

import cramjam
import pytest

from cases import each
from core.test_avro import DATA, SCHEMA, decoded, one_block
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError, NotCanonical, Truncated
from samples.avro import header, packed


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
