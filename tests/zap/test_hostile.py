"""Damaged segments: whatever the bytes are, they end in values or a `DecodeError`, soon and in little memory."""

from __future__ import annotations

import io
import random
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import amounts
from dvcodec import DecodeError, UsageError
from dvcodec.core.errors import Truncated
from dvcodec.zap import Segment, merge_segments, verify_segment
from dvcodec.zap.columns import SCHEMAS
from samples.zap.segments import VERSIONS

MUTANTS = amounts.of(40, 400)
"""Random damages to each file."""
FLIPS = (1, 1, 1, 2, 4, 8, 32)
"""Bits that are flipped in one file."""
PATIENCE = 600
"""Seconds that nothing here comes near to; a hang ends then."""
FILES = [f"v{version}/tiny" for version in VERSIONS]
FILES += [f"v{version}/nofreqloc" for version in (15, 16, 17)]
FILES += [f"v{version}/syn" for version in (16, 17)]


class Hang(BaseException):
    """Nothing catches it."""


@contextmanager
def patience() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def everything(segment: Segment) -> Iterator[Callable[[], object]]:
    """Every way to read every part of a segment."""
    for table in SCHEMAS:
        yield lambda table=table: list(segment.to_arrow(table))  # type: ignore[misc]
    for info in segment.fields:
        for read in (
            lambda name: [segment.postings(name, term) for term, _ in [*segment.terms(name)][:3]],
            lambda name: list(segment.doc_values(name)),
            segment.thesaurus,
            segment.vectors,
        ):
            yield lambda name=info.name, read=read: read(name)  # type: ignore[misc]
    yield lambda: segment.edges
    for doc in {0, segment.num_docs - 1} & set(range(segment.num_docs)):
        yield lambda doc=doc: segment.stored(doc)  # type: ignore[misc]


def read_all(segment: Segment) -> int:
    """Read every part of a segment; return how many parts are valid."""
    valid = 0
    for read in everything(segment):
        try:
            read()
            valid += 1
        except DecodeError as error:
            assert str(error)
    return valid


def attack(raw: bytes, *, thorough: bool = True) -> int:
    """Verify damaged bytes, and read all of them in every way; return how many parts were valid, -1 for none at all."""
    with patience(), warnings.catch_warnings():
        warnings.simplefilter("error")
        report = verify_segment(raw)
        report.to_dict()
        try:
            with Segment.open(raw, verify_checksum=False) as segment:
                return read_all(segment) if thorough else 0
        except DecodeError as error:
            assert str(error)
            assert not report.ok
            return -1


@pytest.fixture(params=FILES)
def raw(request: pytest.FixtureRequest, vectors: Path) -> bytes:
    return (vectors / "zap" / f"{request.param}.zap").read_bytes()


def version_of(raw: bytes) -> int:
    return int.from_bytes(raw[-8:-4], "big")


# ------------------------------------------------------------------ truncations


def test_a_truncated_file_is_not_opened(raw: bytes) -> None:
    for size in range(len(raw)):
        with pytest.raises(DecodeError) as caught:
            Segment.open(raw[:size], verify_checksum=False)
        assert size > 11 or type(caught.value) is Truncated
    assert attack(raw[:-1]) == -1


# ------------------------------------------------------------------ random damage


def flipped(raw: bytes, dice: random.Random) -> bytes:
    """One bit flipped, sometimes a few; or bytes replaced by those that hurt."""
    out = bytearray(raw)
    for _ in range(dice.choice(FLIPS)):
        at = dice.randrange(len(out))
        out[at] ^= 1 << dice.randrange(8)
    if dice.random() < 0.2:
        at, size = dice.randrange(len(out) - 12), dice.randrange(1, 11)
        out[at : at + size] = dice.choice((b"\xff", b"\x80", b"\x00", b"\x7f")) * size
    return bytes(out)


def test_flipped_bits_end_in_values_or_decode_errors(raw: bytes, request: pytest.FixtureRequest) -> None:
    """Some 10,000 flips in all."""
    dice = random.Random(request.node.name)
    opened = 0
    for i in range(MUTANTS):
        opened += attack(flipped(raw, dice), thorough=i % 8 == 0) >= 0
    assert opened > MUTANTS // 4, "most damage is behind the fields"


def test_what_is_merged_of_damage_is_valid(raw: bytes, request: pytest.FixtureRequest) -> None:
    dice = random.Random(request.node.name)
    for _ in range(10):
        sink = io.BytesIO()
        with patience():
            try:
                segment = Segment.open(flipped(raw, dice), verify_checksum=False)
                merge_segments(sink, [segment, segment], None, version_of(raw))
            except (DecodeError, UsageError):
                continue
            found = {check.name for check in verify_segment(sink.getvalue()).findings}
        assert found <= {"ids"}, "a document may have lost its id"
