"""pypaimon's reader, timed: the peer of bench/rows/apply.py, asked by the line protocol of bench/peers.py.

``{"op": "apply", "positions": "positions.npy", "rows": n}``: a vector of these positions, as pypaimon writes it, is
decoded and applied to a table of two int64 columns of n rows, which is in memory, in batches of 65,536 rows.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pypaimon.deletionvectors.apply_deletion_vector_reader import ApplyDeletionVectorReader
from pypaimon.deletionvectors.bitmap_deletion_vector import BitmapDeletionVector

BATCH_ROWS = 1 << 16
"""More than the 1,024 that pypaimon reads by custom: what a batch costs by itself hardly counts then."""


class Batches:
    """Record batches that are there already, as the reader under pypaimon's."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._left = iter(batches)

    def read_arrow_batch(self) -> pa.RecordBatch | None:
        return next(self._left, None)


def apply(*, positions: str, rows: int) -> Callable[[], int]:
    deleted = np.load(positions)
    table = pa.table({"id": np.arange(rows), "value": np.arange(rows) * 3})
    batches = table.to_batches(BATCH_ROWS)
    vector = BitmapDeletionVector()
    for position in deleted.tolist():
        vector.delete(position)
    data = vector.serialize()[8:-4]

    def work() -> int:
        reader = ApplyDeletionVectorReader(Batches(batches), BitmapDeletionVector.deserialize_from_bytes(data))
        live = 0
        while (batch := reader.read_arrow_batch()) is not None:
            live += batch.num_rows
        return live

    assert work() == rows - len(deleted)
    return work


OPS: dict[str, Callable[..., Callable[[], int]]] = {"apply": apply}


def main() -> None:
    made: dict[str, Callable[[], int]] = {}
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        op, times, warm = asked.pop("op"), asked.pop("times"), asked.pop("warm")
        key = json.dumps([op, asked], sort_keys=True)
        try:
            if key not in made:
                made[key] = OPS[op](**asked)
            work, until = made[key], time.perf_counter() + warm
            while time.perf_counter() < until:
                work()
            start = time.perf_counter()
            for _ in range(times):
                work()
            answer: dict[str, Any] = {"seconds": (time.perf_counter() - start) / times}
        except Exception as err:  # noqa: BLE001  (who asked is told)
            answer = {"error": f"{type(err).__name__}: {err}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
