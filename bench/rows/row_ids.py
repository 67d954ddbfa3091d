"""Lance row ids, every kind of segment, compared with pylance's Rust, on the same ids and the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np

from data import MILLION
from dvcodec import lance
from dvcodec.core.ragged import Values
from harness import Comparison, Peer, timed

_WHY = (
    "pylance finds repeated ids with a hash set. dvcodec sorts ids that share their low bits, after four NumPy passes "
    "with random access, which depend on the caches if ids are far apart."
)


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """Encode ids from NumPy, and decode bytes to ids, with all checks. pylance reads and returns Arrow.

    pylance takes the bytes from JSON, which is not timed: its metadata object is created beforehand.
    """
    del stack
    if short:
        return
    import pyarrow as pa
    from lance.fragment import RowIdSequence

    for name, ids in data_sets().items():
        data = lance.encode_row_ids(lance.RowIdSequence.from_values(ids))
        array = pa.array(ids)
        meta = RowIdSequence(array).to_inline_metadata()
        assert bytes(json.loads(meta.json())["Inline"]) == data
        assert (RowIdSequence.from_inline_metadata(meta).to_pyarrow().to_numpy() == ids).all()
        assert (lance.decode_row_ids(data).to_numpy() == ids).all()
        yield Comparison(
            "Lance: encode row ids",
            name,
            len(ids),
            "ids",
            timed(lambda ids=ids: lance.encode_row_ids(lance.RowIdSequence.from_values(ids))),  # type: ignore[misc]
            (
                Peer(
                    "pylance",
                    timed(lambda array=array: RowIdSequence(array).to_inline_metadata()),  # type: ignore[misc]
                    at_least=1.0,
                ),
            ),
            why_missed=_WHY,
        )
        yield Comparison(
            "Lance: decode and expand row ids",
            name,
            len(ids),
            "ids",
            timed(lambda data=data: lance.decode_row_ids(data).to_numpy()),  # type: ignore[misc]
            (
                Peer(
                    "pylance",
                    timed(lambda meta=meta: RowIdSequence.from_inline_metadata(meta).to_pyarrow()),  # type: ignore[misc]
                    at_least=1.0,
                ),
            ),
        )


def data_sets() -> dict[str, Values]:
    """A million ids of each kind."""
    random = np.random.default_rng(1)
    everything = np.arange(MILLION + 1000, dtype=np.uint64)
    return {
        "range": everything[:MILLION],
        "range with holes": np.delete(everything, random.choice(MILLION, 1000, replace=False))[:MILLION],
        "range with bitmap": np.sort(random.choice(3 * MILLION, MILLION, replace=False)).astype(np.uint64),
        "sorted array": np.sort(random.choice(2**31, MILLION, replace=False)).astype(np.uint64),
        "array": random.permutation(MILLION).astype(np.uint64),
        "array of 64 bits": random.integers(2**40, 2**62, MILLION, np.uint64),
    }
