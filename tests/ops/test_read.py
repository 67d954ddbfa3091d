"""Vectors of containers, read one by one: what was found, and whatever lies at a byte offset."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

import amounts
from battery import Recorder, flipped
from cases import each
from dvcodec import (
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    LimitExceeded,
    Limits,
    Truncated,
    Unsupported,
    UsageError,
    VectorRef,
    convert,
    decode,
    decode_at,
    delta,
    iceberg,
    paimon,
    sniff,
    verify,
)
from dvcodec.io import Source, open_source
from dvcodec.ops.convert import TARGETS
from dvcodec.ops.convert import ConvertTarget as Target
from dvcodec.ops.read import survey_vectors
from samples.containers import BARE, FRAMED, SAMPLES, A

NATIVE, PAIMON32 = delta.encode(A, layout="native"), paimon.encode(A)


# ---------------------------------------------------------------------- decode


ALONE = {
    "framed": iceberg.encode(A),
    "native": NATIVE,
    "32-bit": PAIMON32,
    "without a frame": iceberg.encode(A)[4:-4],
    **{name: SAMPLES[name].data for name in BARE},
}


@each("name", ALONE)
def test_a_vector_of_any_format_is_decoded(name: str) -> None:
    data = ALONE[name]
    rows = SAMPLES[name].rows[0] if name in BARE else A
    assert decode(bytearray(data), cardinality=len(rows)) == rows
    with pytest.raises(CardinalityMismatch):
        decode(data, cardinality=len(rows) + 1)
    with pytest.raises(LimitExceeded):
        decode(data, limits=Limits(max_vector_bytes=len(data) - 1))
    with pytest.raises(DecodeError):
        decode(data[:-1])


def test_errors_of_decode_say_where() -> None:
    data = iceberg.encode(A)
    with pytest.raises(ChecksumMismatch, match=r"f.puffin at byte 1\d\d"):
        decode(flipped(data, 8 * len(data) - 1), source="f.puffin", base=100)
    assert decode(flipped(data, 8 * len(data) - 1), verify_checksum=False) == A
    with pytest.raises(ChecksumMismatch, match=f"^at byte {len(data) - 4}: "):
        decode(flipped(data, 8 * len(data) - 1))
    for damaged in (flipped(data, 40), b"", b"hello, world", bytes(100)):
        with pytest.raises(DecodeError, match=r"f.puffin at byte 1\d\d"):
            decode(damaged, source="f.puffin", base=100)
    with pytest.raises(Unsupported, match=r"expected the bytes of one vector, found a file of vectors \(puffin\)"):
        decode(SAMPLES["puffin"].data)


# ---------------------------------------------------------------------- decode_at


@each("name", FRAMED)
def test_vector_is_decoded_by_both_conventions_of_size(name: str) -> None:
    for convention in ["whole frame", "magic and bitmap", "what the frame says"]:
        sample = SAMPLES[name]
        for at, (whole, rows) in sample.vectors.items():
            size = {"whole frame": whole, "magic and bitmap": whole - 8, "what the frame says": None}[convention]
            assert decode_at(sample.data, at, size) == rows
            assert decode_at(sample.data, at, size, cardinality=len(rows)) == rows


def test_decode_at_reads_one_frame_only() -> None:
    blob = iceberg.encode(A)
    source = Recorder(bytes(1_000_000) + blob + bytes(1_000_000))
    assert decode_at(source, 1_000_000) == A
    assert source.reads == [(1_000_000, 4), (1_000_000, len(blob))]
    source.reads.clear()
    assert decode_at(source, 1_000_000, len(blob) - 8) == A
    assert source.reads == [(1_000_000, len(blob))]


@each("cut", [1, 4, 20])
def test_a_vector_that_is_cut_off_is_refused_where_it_begins(cut: int) -> None:
    data = bytes(50) + iceberg.encode(A)
    with pytest.raises(Truncated, match=r"at byte 50: length field"):
        decode_at(data[:-cut], 50)


# ---------------------------------------------------------------------- many at once


def alone(_: Source, refs: Sequence[VectorRef], **__: Any) -> Iterator[tuple[VectorRef, None]]:
    """Stand in for `survey_vectors`, so that every vector is read by itself."""
    yield from ((ref, None) for ref in refs)


def answers(data: bytes) -> list[object]:
    """What comes of a file: the report with all its places, and the bytes or the error of every conversion."""
    found: list[object] = [verify(data).to_dict(), verify(data, cardinality=3, row_count=6).to_dict()]
    for to in TARGETS:
        out = io.BytesIO()
        try:
            convert(data, cast("Target", to), out, data_files=[f"{i}" for i in range(len(sniff(data).vectors))])
        except (DecodeError, UsageError) as error:
            found.append((type(error), str(error)))
        else:
            found.append(out.getvalue())
    return found


@each("name", SAMPLES)
def test_vectors_read_in_bulk_equal_vectors_read_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SAMPLES[name].data
    files = [data, *(flipped(data, bit) for bit in range(0, 8 * len(data), amounts.of(101, 13)))]
    together = [answers(file) for file in files]
    monkeypatch.setattr("dvcodec.ops.verify.survey_vectors", alone)
    monkeypatch.setattr("dvcodec.ops.convert.survey_vectors", alone)
    assert [answers(file) for file in files] == together


@each("name", FRAMED)
def test_valid_frames_are_found(name: str) -> None:
    sample = SAMPLES[name]
    refs = sniff(sample.data).vectors
    with open_source(sample.data) as source:
        found = list(survey_vectors(source, refs))
        for some in ([*refs, replace(refs[-1], size=10**12)], [replace(refs[0], offset=-1)]):
            assert list(survey_vectors(source, some)) == [(ref, None) for ref in some]
    assert [ref for ref, _ in found] == list(refs)
    if len(refs) == 1:  # together with nothing
        assert found == [(refs[0], None)]
        return
    for (_, valid), rows in zip(found, sample.rows, strict=True):
        assert valid is not None
        assert (valid.cardinality, valid.max) == (rows.cardinality, rows.max)
        assert decode_at(valid.data) == rows
