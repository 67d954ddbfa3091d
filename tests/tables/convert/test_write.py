"""Files of a conversion: how many vectors each takes."""

from __future__ import annotations

from cases import each
from dvcodec.core.frame import StoredFrame
from dvcodec.tables.convert.write import _until

FRAMES = [StoredFrame(f"{i}.parquet", 1, bytes(3)) for i in range(4)]


@each(("size", "taken"), [(-1, 0), (0, 0), (1, 1), (3, 1), (4, 2), (7, 3), (100, 4)])
def test_frames_until_a_file_is_full(size: int, taken: int) -> None:
    frames = iter(FRAMES)
    assert list(_until(frames, size)) == FRAMES[:taken]
    assert list(frames) == FRAMES[taken:], "the others are for the next file"
