"""A vector applied to an Arrow table, compared with pyarrow with a ready mask, pypaimon's reader and pylance's scan.

dvcodec decodes the vector (with CRC and structure checks), builds the mask and filters. Each peer:

- pyarrow filters the same table with a ready mask: the least time that applying can take.
- pypaimon decodes its own bytes, unchecked, and asks the vector for every row of the same table in memory.
- pylance can only scan. What counts is how much longer a scan of the same table takes, with all cores and from the page
  cache, when the rows are deleted: the time to decode and apply the deletions.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data import MILLION
from dvcodec import RowSet, iceberg
from dvcodec.arrow import live_rows, row_mask
from harness import Comparison, Peer, Timed, timed
from peers import ROOT, PeerProcess

_PYPAIMON = ROOT / "interop" / "pypaimon"
_SCANS = 5
"""Number of scans of each kind whose medians are compared."""


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """Two int64 columns in one chunk; 1 % and 20 % of the rows at random, and 20 % in runs of 4000."""
    rows = MILLION if short else 4 * MILLION
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    python = _PYPAIMON / ".venv" / "bin" / "python"
    pypaimon = None
    if not short and python.exists():
        pypaimon = PeerProcess([str(python), str(_PYPAIMON / "bench.py")])
        stack.callback(pypaimon.close)
    for name, positions in deletions(rows).items():
        deleted = RowSet(positions)
        blob = iceberg.encode(deleted)
        table = table_of(rows, positions)
        mask = row_mask(deleted, start=0, length=rows)

        def ours(blob: bytes = blob, table: pa.Table = table) -> pa.Table:
            return live_rows(table, iceberg.decode(blob), start=0)

        def ready(mask: pa.BooleanArray = mask, table: pa.Table = table) -> pa.Table:
            return table.filter(mask)

        assert ours().equals(ready())
        row, work = "apply to an Arrow table", timed(ours)
        yield Comparison(
            row, name, rows, "rows", work, (Peer("pyarrow, mask ready", timed(ready), at_least=1 / 1.3, guards=True),)
        )
        if short:
            continue
        peers = [Peer("pylance's scan difference", scan_difference(table, folder / name), at_least=1.0)]
        if pypaimon is not None:
            task = pypaimon.task("apply", positions=str(folder / f"{name}.npy"), rows=rows)
            np.save(folder / f"{name}.npy", positions)
            peers.append(Peer("pypaimon's reader", task, at_least=50.0))
        yield Comparison(row, name, rows, "rows", work, tuple(peers))  # apart: other work leaves a cold cache


def deletions(rows: int) -> dict[str, NDArray[np.int64]]:
    """Positions to delete, by name."""
    shuffled = np.random.default_rng(1).permutation(rows)
    clustered = (np.arange(rows // 20_000)[:, None] * 20_000 + np.arange(4000)).ravel()
    return {
        "1 % at random": np.sort(shuffled[: rows // 100]),
        "20 % at random": np.sort(shuffled[: rows // 5]),
        "20 % in runs of 4000": clustered,
    }


def table_of(rows: int, deleted: NDArray[np.int64]) -> pa.Table:
    """Two int64 columns; the second is negative in rows to be deleted, so that pylance can select them."""
    value = np.arange(rows) * 3
    value[deleted] = -1
    return pa.table({"id": np.arange(rows), "value": value})


def scan_difference(table: pa.Table, folder: Path) -> Timed:
    """How much longer a scan takes once the rows are deleted; the number of runs is ignored."""
    import lance

    folder.mkdir()
    for name in ("whole", "deleted"):
        lance.write_dataset(table, str(folder / name), max_rows_per_file=len(table))
    lance.dataset(str(folder / "deleted")).delete("value < 0")

    def scan(name: str) -> float:
        start = time.perf_counter()
        found: Any = lance.dataset(str(folder / name)).to_table()
        took = time.perf_counter() - start
        assert len(found) == (len(table) if name == "whole" else lance.dataset(str(folder / name)).count_rows())
        return took

    def run(times: int) -> float:
        del times
        pairs = [(scan("deleted"), scan("whole")) for _ in range(_SCANS)]
        return statistics.median(a for a, _ in pairs) - statistics.median(b for _, b in pairs)

    return run
