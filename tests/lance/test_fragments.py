"""Data files and overlays of fragments; sequences and deletion files are in test_manifest."""

from __future__ import annotations

from typing import Any

import pytest

from cases import each
from dvcodec import NotCanonical, lance
from dvcodec.core.cursor import Cursor
from dvcodec.lance.manifest import decode_fragment
from samples.lance import message


def fragment(**values: Any) -> lance.Fragment:
    return decode_fragment(Cursor(message("DataFragment", **values).SerializeToString()))


def test_data_files() -> None:
    found = fragment(
        id=7,
        files=[
            message("DataFile", path="a.lance", fields=[0, 1], column_indices=[0, -1], major=2, size=700),
            message("DataFile", path="b.lance", fields=[-2], base_id=0),
            message("DataFile"),
        ],
    )
    assert found.files == (
        lance.FragmentFile("a.lance", 700),
        lance.FragmentFile("b.lance", 0, 0),
        lance.FragmentFile(""),
    )
    assert found.overlays == ()


def test_overlays() -> None:
    overlays = [
        message("Overlay", data_file=message("DataFile", path="o.lance", size=3), shared_offset_bitmap=b"x"),
        message("Overlay", committed_version=4),
        message("Overlay", data_file=message("DataFile", path="p.lance", base_id=2)),
    ]
    assert fragment(overlays=overlays).overlays == (
        lance.FragmentFile("o.lance", 3),
        lance.FragmentFile("p.lance", 0, 2),
    )


@each(
    ("data", "text"),
    [
        (b"\x10\x01", "data file"),
        (b"\x12\x02\x08\x01", "path of a data file"),
        (b"\x12\x03\x0a\x01\xff", "path of a data file.*UTF-8"),
        (b"\x12\x02\x32\x00", "size of a data file"),
        (b"\x12\x02\x3a\x00", "base path of a data file"),
        (b"\x58\x01", "overlay"),
        (b"\x5a\x02\x08\x01", "data file"),
    ],
)
def test_fields_of_another_type(data: bytes, text: str) -> None:
    with pytest.raises(NotCanonical, match=text):
        decode_fragment(Cursor(data))
