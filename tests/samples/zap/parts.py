"""Pieces of segments: real ones, ones laid out by hand, and what comparing them takes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import cramjam
import numpy as np

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
