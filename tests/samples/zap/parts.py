"""Pieces of segments: real ones, ones laid out by hand, and what comparing them takes."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cramjam
import numpy as np

from battery import outcome
from dvcodec import DecodeError
from dvcodec.core.ragged import ByteStrings
from dvcodec.io import open_source
from dvcodec.zap.footer import FieldInfo, Footer, SegmentData, decode_fields, decode_footer

_EVERYWHERE = ("A", "B", "C", "idonly", "m_AB", "tiny")
SAMPLES = (
    [f"v{version}/{name}" for version in range(11, 18) for name in _EVERYWHERE]
    + [f"v{version}/nofreqloc" for version in range(15, 18)]
    + [f"v{version}/syn" for version in (16, 17)]
)
"""The files by zapx, and what its reader says about each in a JSON file beside it."""


@dataclasses.dataclass(frozen=True)
class Sample:
    raw: bytes
    dump: dict[str, Any]
    data: SegmentData
    footer: Footer
    fields: tuple[FieldInfo, ...]


def load_sample(path: Path) -> Sample:
    raw = path.read_bytes()
    with open_source(raw) as source:
        footer = decode_footer(source)
        data = SegmentData(source, source.size - footer.size)
    return Sample(raw, json.loads(path.with_suffix(".json").read_text()), data, footer, decode_fields(data, footer))


def segment(raw: bytes) -> SegmentData:
    """A segment of these bytes, without its footer."""
    with open_source(raw, name="crafted") as source:
        return SegmentData(source, len(raw))


def footer(version: int, num_docs: int, stored_index: int = 0, chunk_mode: int = 1024) -> Footer:
    return Footer(version, num_docs, stored_index, 0, None, chunk_mode)


def pack(content: bytes) -> bytes:
    """One snappy block."""
    return bytes(cramjam.snappy.compress_raw(content))


def unpack(block: bytes) -> bytes:
    return bytes(cramjam.snappy.decompress_raw(block))


def plain(value: Any) -> Any:
    """Arrays and byte strings as lists, so that they compare."""
    if isinstance(value, ByteStrings):
        return value.to_list()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, memoryview):
        return bytes(value)
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def damaged(raw: bytes, start: int, stop: int, flips: int = 400) -> Iterator[bytes]:
    """All prefixes that end in the region, every byte of it set to what hurts, and random flips of one bit or more."""
    for size in range(start, stop):
        yield raw[:size]
    for at in range(start, stop):
        for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF, raw[at] ^ 0x01, (raw[at] + 1) & 0xFF):
            yield raw[:at] + bytes([byte]) + raw[at + 1 :]
    dice = random.Random(7)
    for _ in range(flips):
        out = bytearray(raw)
        for _ in range(dice.choice((1, 1, 2, 5))):
            out[dice.randrange(start, stop)] ^= 1 << dice.randrange(8)
        yield bytes(out)


def survives(decode: Callable[[bytes], Any], again: Callable[[Any], Any], raw: bytes, start: int, stop: int) -> None:
    """Damage ends in a `DecodeError`, or in a value that can be written and read: `again` does both."""
    values = 0
    for bad in damaged(raw, start, stop):
        found = outcome(decode, bad)
        if not isinstance(found, DecodeError):
            assert plain(again(found)) == plain(found)
            values += 1
    assert values, "some damage makes another value"
