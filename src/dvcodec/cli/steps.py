"""Shared by the demonstrations: timed steps, checked claims, a table of vectors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dvcodec import iceberg
from dvcodec.cli.render import Table, bytes_text, density_strip, number, say, share_text
from dvcodec.core.rowset import RowSet

__all__ = ["expect", "show_vectors", "step"]


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print what was done, and how long it took."""
    start = time.perf_counter()
    yield
    say(("*", "green"), f" {what}  ", (f"{time.perf_counter() - start:.2f} s", "dim"))


def expect(holds: bool, what: str) -> None:
    """Check a claim.

    Raises:
        AssertionError: it does not hold.
    """
    if not holds:
        raise AssertionError(f"the demo's claim does not hold: {what}")


def show_vectors(vectors: Mapping[str, RowSet], row_count: int) -> None:
    """Show the deleted rows of data files, of `row_count` rows each."""
    shown = Table("data file", "deleted", "share", "encoded", "where", right=("deleted", "share", "encoded"))
    for path, rows in vectors.items():
        size = bytes_text(len(iceberg.encode(rows)))
        share = share_text(rows.cardinality / row_count)
        shown.add(path, number(rows.cardinality), share, size, density_strip(rows, row_count))
    shown.show()
