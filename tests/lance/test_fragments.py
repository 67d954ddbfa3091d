"""Data files and overlays of fragments; sequences and deletion files are in test_manifest."""

from __future__ import annotations

from typing import Any

from dvcodec import lance
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
