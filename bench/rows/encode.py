"""Positions encoded to one vector's blob, run-optimised, with its CRC.

All start from int64 positions. pyroaring gets them in the form that it reads fastest, and the time includes creating
that form; it writes no frame. Iceberg Java deletes them one by one, as its writers do.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from data import REALISTIC, THREE
from dvcodec import RowSet, iceberg
from harness import Comparison, Peer, timed
from peers import java

HEAD, TAIL = 20, 4
"""Bytes around the 32-bit bitmap of a blob whose positions are all below 2**32."""


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """The same sets as for decoding, sorted and in random order."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    there = None if short else java(stack)
    for make in THREE if short else (*REALISTIC, *THREE):
        found = make()
        ordered = found.positions
        mixed = np.random.default_rng(2).permutation(ordered)
        for order, positions in (("sorted", ordered), ("unsorted", mixed)):
            theirs = pyroaring(positions)
            assert theirs() == iceberg.encode(RowSet(positions))[HEAD:-TAIL]
            peers = [Peer("pyroaring, no frame", timed(theirs), at_least=1.5, guards=True)]
            if there is not None and order == "sorted":
                file = folder / found.name
                positions.astype("<i8").tofile(file)
                task = there.task("encode", path=str(file), count=len(positions))
                peers.insert(0, Peer("Iceberg's Java", task, at_least=1.0))
            work = timed(lambda positions=positions: iceberg.encode(RowSet(positions)))  # type: ignore[misc]
            yield Comparison(f"encode {order} positions", found.name, len(positions), "positions", work, tuple(peers))


def pyroaring(positions: NDArray[np.int64]) -> Callable[[], bytes]:
    """Add, run_optimize and serialize with pyroaring alone."""

    def encode() -> bytes:
        items = array("I")
        items.frombytes(positions.astype(np.uint32).view(np.uint8).data)
        bitmap = BitMap(items, optimize=False)
        bitmap.run_optimize()
        return bitmap.serialize()

    return encode
