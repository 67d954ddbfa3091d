"""Many small vectors in one Puffin file: opened, every vector checked and decoded, compared with pyiceberg's parse.

pyiceberg builds every bitmap and checks nothing. dvcodec checks everything (footer, lengths, CRCs, structure, values,
cardinalities), and builds a vector's bitmap from its checked bytes when the vector is first used; further lines are the
same with every vector used, and with every vector expanded to positions.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from pyiceberg.table.deletion_vector import DeletionVector, deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from data import MILLION
from dvcodec import RowSet, iceberg
from harness import Comparison, Peer, timed


def path(i: int) -> str:
    """A data file's path like those of Iceberg's writers, of 105 characters."""
    name = f"{i % 100:05d}-{i:07d}-3f2a77b1-5a2e-4c58-9d0e-{i:012x}-00001.parquet"
    return f"s3://lake/warehouse/sales.db/orders/data/day=2026-11-{i % 28 + 1:02d}/{name}"


def puffin(vectors: int) -> bytes:
    """A Puffin file of vectors of 1 to 1000 random rows of a million each."""
    chance = np.random.default_rng(1)
    counts = chance.integers(1, 1001, vectors).tolist()
    sets = {path(i): RowSet(chance.integers(0, MILLION, rows)) for i, rows in enumerate(counts)}
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, sets)
    return out.getvalue()


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """10,000 vectors of 1 to 1000 rows."""
    del stack
    if short:
        return
    vectors = 10_000
    data = puffin(vectors)
    work = timed(lambda: iceberg.read_deletion_vectors(data))

    def parse() -> list[DeletionVector]:
        return deletion_vectors_from_puffin_file(PuffinFile(data))

    def used() -> int:
        return sum(map(len, iceberg.read_deletion_vectors(data).values()))

    def expanded() -> int:
        return sum(len(rows.to_numpy()) for rows in iceberg.read_deletion_vectors(data).values())

    def pyiceberg_expanded() -> int:
        return sum(len(one.to_vector()) for one in parse())

    ours = iceberg.read_deletion_vectors(data)
    assert [list(one.to_vector().to_numpy()) for one in parse()[:100]] == [
        ours[one.referenced_data_file].to_numpy().tolist() for one in parse()[:100]
    ]
    row, about = "small vectors: open, decode and verify all", f"{vectors:,} of 1 to 1000 rows"
    why = (
        "A fifth of the time is spent on separating the footer's blobs, a third on walking containers and comparing "
        "values, a fifth on 10,000 CRCs and slices, and a fifth on 10,000 paths and row sets, each a Python object."
    )
    peer = Peer("pyiceberg's parse, unchecked", timed(parse), at_least=5.0)
    yield Comparison(row, about, vectors, "vectors", work, per_second=150_000.0, why_missed=why)
    yield Comparison(row, about, vectors, "vectors", work, (peer,), why_missed=why)
    yield Comparison(f"{row}, use each", about, vectors, "vectors", timed(used), (replace(peer, at_least=None),))
    to_vector = Peer("pyiceberg's to_vector, unchecked", timed(pyiceberg_expanded), at_least=2.0)
    yield Comparison(f"{row}, expand each", about, vectors, "vectors", timed(expanded), (to_vector,))
