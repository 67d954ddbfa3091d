"""Footers of all versions, and what a damaged one may not do."""

from __future__ import annotations

import pytest

from cases import each
from dvcodec import NotCanonical
from dvcodec.core.errors import ChecksumMismatch, Truncated, Unsupported
from dvcodec.io import open_source
from dvcodec.io.source import Source
from dvcodec.zap import Footer, Segment
from dvcodec.zap import footer as module
from dvcodec.zap.footer import decode_footer, verify_checksum
from samples.zap.segments import NOT, VERSIONS, footer_of, minimal, sealed


def source_of(raw: bytes) -> Source:
    with open_source(raw, name="x.zap") as source:
        return source


def decode(raw: bytes) -> Footer:
    return decode_footer(source_of(raw))


def with_footer(
    version: int, body: int, docs: int, stored: int, fields: int, table: int = 0, writer: bytes = b""
) -> bytes:
    """A file of so many bytes, and a footer."""
    return sealed(bytes(body) + footer_of(version, docs, stored, fields, table, writer=writer))


# ------------------------------------------------------------------ checksum


@each("piece", [7, 1 << 20])
def test_the_checksum_is_taken_piece_by_piece(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CRC_PIECE", piece)
    raw = minimal(16).finish()
    verify_checksum(source_of(raw), decode(raw))
    with pytest.raises(ChecksumMismatch):
        verify_checksum(source_of(b"\xff" + raw[1:]), decode(raw))


# ------------------------------------------------------------------ hazards


@each("version", VERSIONS)
def test_hazard_too_short(version: int) -> None:
    raw = with_footer(version, 0, 0, 0, 0)
    assert decode(raw).num_docs == 0
    for size in range(1, len(raw)):
        with pytest.raises(Truncated) as caught:
            decode(raw[size:])
        assert caught.value.offset == 0
    with pytest.raises(Truncated):
        decode(b"")


@each("version", VERSIONS)
@each("wrong", [93, 101, 2**64 - 8, 2**64 - 1])
def test_hazard_addresses_outside(version: int, wrong: int) -> None:
    assert decode(with_footer(version, 100, 1, 92, 100, 100)).stored_index == 92
    with pytest.raises(NotCanonical, match="stored index"):
        decode(with_footer(version, 100, 1, wrong, 0))
    if wrong < 100:
        return
    with pytest.raises(NotCanonical, match="sections index" if version > 15 else "fields index"):
        decode(with_footer(version, 100, 1, 0, wrong))
    if version < 16 and wrong != NOT:
        with pytest.raises(NotCanonical, match="doc value table"):
            decode(with_footer(version, 100, 1, 0, 0, wrong))


# ------------------------------------------------------------------ writer id


def test_a_writer_id_has_a_largest_size() -> None:
    most = footer_of(17, 0, 0, 0, writer=b"x" * (1 << 16)) + bytes(4)
    assert len(decode(most).writer_id) == 1 << 16
    more = footer_of(17, 0, 0, 0, writer=b"x" * ((1 << 16) + 1)) + bytes(4)
    with pytest.raises(NotCanonical, match="expected at most 65536 bytes, found 65537") as caught:
        decode(more)
    assert caught.value.offset == len(more) - 40


def test_a_writer_id_is_exposed_and_its_contents_are_not_read() -> None:
    craft = minimal(17)
    raw = craft.finish()
    body, tail = raw[:-40], raw[-36:-4]
    for name in (b"x", b"crypt\xff", b"w" * 10_000):
        bad = sealed(body + name + len(name).to_bytes(4, "big") + tail)
        footer = decode(bad)
        assert (footer.writer_id, footer.size) == (name, 40 + len(name))
        verify_checksum(source_of(bad), footer)
        with pytest.raises(Unsupported) as caught:
            Segment.open(bad)
        assert caught.value.offset == len(body)
        assert len(str(caught.value)) < 300
