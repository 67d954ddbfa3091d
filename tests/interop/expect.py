"""What Java has to read of a vector, its own bug included."""

from __future__ import annotations

import numpy as np

from dvcodec import RowSet
from dvcodec.core.cursor import Cursor
from dvcodec.core.roaring import serialize, walk
from interop.cases import Positions
from interop.driver import Read


def seen_by_for_each(case: Positions) -> Positions:
    """The positions that Java's ``forEach`` visits in a run-optimised bitmap.

    ``RunContainer.forEach`` (RoaringBitmap 0.9.25 to 1.6.29) runs while ``value - length <= start``, in signed ints:
    in the container of key 0x8000, whose values begin at the lowest int, that overflows for a run that is longer than
    its start is far from the container's, and the run is passed over. Cardinality and ``contains`` do see it.
    """
    lost = []
    for key, bitmap in RowSet(case).bitmaps.items():
        view = walk(Cursor(serialize(bitmap)))
        starts, lengths, owner = view.runs()
        skipped = (view.keys[owner] == 0x8000) & (starts < lengths - 1)
        base = (key << 32) + 2**31
        lost += [(base + int(a), base + int(a + n)) for a, n in zip(starts[skipped], lengths[skipped], strict=True)]
    return case[~RowSet.from_ranges(lost).contains(case)] if lost else case


def assert_read(reads: list[Read], cases: list[Positions], *, for_each: bool = False) -> None:
    for i, (read, case) in enumerate(zip(reads, cases, strict=True)):
        assert read.error is None, f"case {i}: {read.error}"
        assert read.cardinality == len(case), f"case {i}"
        seen = seen_by_for_each(case) if for_each else case
        assert np.array_equal(read.positions, seen), f"case {i}"  # type: ignore[arg-type]
