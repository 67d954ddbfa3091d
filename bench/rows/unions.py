"""Union of many vectors, compared with pyroaring's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
from pyroaring import BitMap

from data import MILLION
from dvcodec import RowSet
from harness import Comparison, Peer, timed


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """100 vectors of 100,000 random rows of 20 million each."""
    del stack
    vectors, rows = 100, 10_000 if short else 100_000
    chance = np.random.default_rng(1)
    sets = [chance.integers(0, 20 * MILLION, rows) for _ in range(vectors)]
    ours = [RowSet(one) for one in sets]
    theirs = [BitMap(one.astype(np.uint32)) for one in sets]
    assert list(RowSet().union(*ours).to_numpy()[:1000]) == list(BitMap.union(*theirs)[:1000])
    yield Comparison(
        "union of 100 vectors",
        f"{rows:,} rows each",
        vectors * rows,
        "positions",
        timed(lambda: RowSet().union(*ours)),
        (Peer("pyroaring", timed(lambda: BitMap.union(*theirs)), at_least=1.0, guards=True),),
    )
