"""Mumbling bitmaps, decoded to positions and encoded, beside vectors of the same rows, and beside Iceberg Java.

Java's reader answers for one position at a time, so its time is that of asking for all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from dvcodec import RowSet, iceberg, mumbling
from harness import Comparison, Peer, timed
from peers import java

COUNT = 100_000
WHY = (
    "A vector's array containers are copied as they are. Here 8,192 descriptors are unpacked (0.13 ms), and each byte "
    "gets the number of its container (0.08 ms, of which NumPy's repeat takes 0.07): more than the whole vector takes."
)


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """100,000 positions, at random and in runs."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    there = None if short else java(stack)
    random = np.random.default_rng(1)
    scattered = np.sort(random.choice(mumbling.MAX_POSITIONS, COUNT, replace=False))
    starts = np.sort(random.choice(mumbling.MAX_POSITIONS // 400, COUNT // 200, replace=False)) * 400
    for name, positions in (("at random", scattered), ("runs of 200", (starts[:, None] + np.arange(200)).reshape(-1))):
        rows = RowSet(positions)
        bitmap, blob = mumbling.encode(rows), iceberg.encode(rows)
        assert np.array_equal(mumbling.decode(bitmap).to_numpy(), positions)
        peers = [
            Peer("the vector", timed(lambda blob=blob: iceberg.decode(blob).to_numpy()), at_least=1.0)  # type: ignore[misc]
        ]
        if there is not None:
            file = folder / f"{name}.bitmap"
            file.write_bytes(bitmap)
            peers.append(
                Peer("Iceberg's Java, asked", there.task("mumbling", path=str(file), count=COUNT), at_least=1.0)
            )
        work = timed(lambda bitmap=bitmap: mumbling.decode(bitmap).to_numpy())  # type: ignore[misc]
        yield Comparison("Mumbling: decode to positions", name, COUNT, "positions", work, tuple(peers), why_missed=WHY)
