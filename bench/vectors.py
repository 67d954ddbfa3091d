"""Decode, encode and mask beside pyroaring and pyiceberg, on the same bytes, in one run: `make bench`.

Rounds are interleaved; the medians are printed in milliseconds. Ratios are what to look at, machines differ.
"""

from __future__ import annotations

import warnings
from array import array

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from dvcodec import RowSet, iceberg
from side_by_side import Task, medians


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    ordered = np.sort(values)
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])])


def data_sets() -> dict[str, tuple[NDArray[np.int64], int]]:
    """Positions and the number of rows of the data file."""
    random = np.random.default_rng(1)
    runs = (np.arange(2500)[:, None] * 8000 + np.arange(4000)).ravel()
    return {
        "a: 1 M random of 100 M": (distinct(random.integers(0, 100_000_000, 1_005_000))[:1_000_000], 100_000_000),
        "b: 8 M random of 20 M": (np.sort(random.permutation(20_000_000)[:8_000_000]), 20_000_000),
        "c: 10 M in 2500 runs": (runs, 20_000_000),
    }


def pyiceberg_to_vector(blob: bytes) -> Task:
    """What pyiceberg does to a blob once it has found it: bitmaps, then a list of Python ints. It checks no CRC."""
    from pyiceberg.table import deletion_vector as theirs

    payload = blob[8:-4]
    return lambda: theirs.DeletionVector._bitmaps_to_chunked_array(theirs.DeletionVector._deserialize_bitmap(payload))


def raw_encode(positions: NDArray[np.int64]) -> Task:
    """The bytes of the bitmap by pyroaring alone, without a frame."""

    def encode() -> bytes:
        items = array("I")
        items.frombytes(positions.astype(np.uint32).view(np.uint8).data)
        bitmap = BitMap(items, optimize=False)
        bitmap.run_optimize()
        return bitmap.serialize()

    return encode


def main() -> None:
    warnings.simplefilter("ignore")
    for name, (positions, rows) in data_sets().items():
        blob = iceberg.encode(RowSet(positions))
        vector = blob[8:-4]
        tasks: dict[str, Task] = {
            "decode to int64, CRC and structure checked": lambda blob=blob: iceberg.decode(blob).to_numpy(),  # type: ignore[misc]
            "  pyroaring BitMap64 to uint64, unchecked": lambda v=vector: np.frombuffer(  # type: ignore[misc]
                BitMap64.deserialize(v).to_array(), np.uint64
            ),
            "  pyiceberg, no CRC": pyiceberg_to_vector(blob),
            "packed keep mask of the file": lambda blob=blob, n=rows: iceberg.decode(blob).packed_mask(0, n, keep=True),  # type: ignore[misc]
            "encode sorted positions": lambda p=positions: iceberg.encode(RowSet(p)),  # type: ignore[misc]
            "  pyroaring, no frame": raw_encode(positions),
        }
        print(f"{name} rows, {len(blob):,} bytes")
        for task, median in medians(tasks).items():
            print(f"  {task:46} {median:10.2f} ms")


if __name__ == "__main__":
    main()
