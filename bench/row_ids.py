"""Lance row-id sequences beside pylance, on the same ids, in one run: `make bench`.

Rounds are interleaved; the medians are printed in milliseconds. pylance's decoder hands out an Arrow array.
"""

from __future__ import annotations

import json

import numpy as np

from dvcodec import lance
from dvcodec.lance.arrays import Values
from side_by_side import Task, medians


def data_sets() -> dict[str, Values]:
    """A million ids of each kind."""
    random = np.random.default_rng(1)
    count = 1_000_000
    everything = np.arange(count + 1000, dtype=np.uint64)
    return {
        "range": everything[:count],
        "range with holes": np.delete(everything, random.choice(count, 1000, replace=False))[:count],
        "range with bitmap": np.sort(random.choice(3 * count, count, replace=False)).astype(np.uint64),
        "sorted array": np.sort(random.choice(2**31, count, replace=False)).astype(np.uint64),
        "array": random.permutation(count).astype(np.uint64),
    }


def main() -> None:
    import pyarrow as pa
    from lance.fragment import RowIdMeta, RowIdSequence

    for name, ids in data_sets().items():
        ours = lance.RowIdSequence.from_values(ids)
        data = ours.encode()
        theirs = RowIdSequence(pa.array(ids))
        meta = theirs.to_inline_metadata()
        assert bytes(json.loads(meta.json())["Inline"]) == data
        assert isinstance(meta, RowIdMeta)
        middle = int(ids[len(ids) // 2])
        tasks: dict[str, Task] = {
            "decode to uint64": lambda d=data: lance.decode_row_ids(d).to_numpy(),  # type: ignore[misc]
            "  pylance, to Arrow": lambda m=meta: RowIdSequence.from_inline_metadata(m).to_pyarrow(),  # type: ignore[misc]
            "encode ids": lambda v=ids: lance.RowIdSequence.from_values(v).encode(),  # type: ignore[misc]
            "  pylance": lambda v=ids: RowIdSequence(pa.array(v)).to_inline_metadata(),  # type: ignore[misc]
            "position of one id": lambda s=ours, i=middle: s.position(i),  # type: ignore[misc]
        }
        print(f"{name}: {len(ids):,} ids, {len(data):,} bytes")
        for task, median in medians(tasks).items():
            print(f"  {task:46} {median:10.2f} ms")


if __name__ == "__main__":
    main()
