"""pylance (Rust inside) beside dvcodec: sequences of row ids, and deletion files of a dataset."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dvcodec import RowSet, lance
from dvcodec.core import roaring
from fuzz import mend
from fuzz.peers.bitmaps import BITMAP_KINDS, TRAILING
from fuzz.peers.comparison import Comparison, Kind
from fuzz.target import LIMITS, Target
from fuzz.targets import lance as decoders

MANY = 1 << 14
PHYSICAL_ROWS = 70_000


def _told(sequence: Any) -> list[int] | int:
    """The ids; of many, how many: Rust would put them all into memory."""
    try:
        count = len(sequence)
    except OverflowError:
        return 2**63
    return count if count > MANY else sequence.to_pyarrow().to_numpy().tolist()


def _theirs_ids(data: bytes) -> list[int] | int:
    from lance.fragment import RowIdMeta, RowIdSequence

    return _told(RowIdSequence.from_inline_metadata(RowIdMeta.from_json(json.dumps({"Inline": list(data)}))))


def _ours_ids(data: bytes) -> list[int] | int:
    found = lance.decode_row_ids(data)
    if found.count > MANY:
        return min(found.count, 2**63)
    ids: list[int] = found.to_numpy().tolist()
    return ids


pylance_row_ids = Comparison(
    "pylance",
    (
        Kind(
            "a segment kind that is not known yet",
            "RangeWithRuns is read by newer versions; pylance 14 passes over it where another segment is beside it",
            r"^Unsupported: ",
        ),
    ),
)


def _run_row_ids(data: bytes) -> None:
    pylance_row_ids.compare(data, _ours_ids, _theirs_ids)


@lru_cache(maxsize=1)
def _dataset() -> tuple[str, dict[str, Path]]:
    """Two datasets of one fragment with a deletion file each."""
    import lance as pylance
    import pyarrow as pa

    folder = Path(tempfile.mkdtemp(prefix="fuzz-lance-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = {}
    for kind, rows in (("arrow", 10), ("bin", 6000)):
        path = str(folder / kind)
        dataset = pylance.write_dataset(pa.table({"i": np.arange(PHYSICAL_ROWS, dtype=np.int32)}), path)
        dataset.delete(f"i % {PHYSICAL_ROWS // rows} = 0")
        (files[kind],) = Path(path, "_deletions").iterdir()
    return str(folder), files


def _theirs_deletions(data: bytes) -> RowSet:
    import lance as pylance

    folder, files = _dataset()
    kind = "arrow" if data[:6] == b"ARROW1" else "bin"
    files[kind].write_bytes(data)
    (fragment,) = pylance.dataset(f"{folder}/{kind}").get_fragments()
    live = fragment.to_table(columns=[], with_row_address=True)["_rowaddr"].to_numpy()
    mask = np.ones(PHYSICAL_ROWS, np.bool_)
    mask[live & np.uint64(2**32 - 1)] = False
    return RowSet.from_mask(mask)


def _ours_deletions(data: bytes) -> RowSet:
    return lance.read_deletion_file(data, limits=LIMITS)


def _differing(ours: RowSet, theirs: RowSet) -> str | None:
    """A scan shows the physical rows only."""
    inside = RowSet._wrap(ours._bitmaps) & RowSet.from_ranges([(0, PHYSICAL_ROWS)])
    return "rows that the fragment does not have" if inside == theirs else None


pylance_deletions = Comparison(
    "pylance",
    (TRAILING, *BITMAP_KINDS),
    {
        "rows that the fragment does not have": "a scan leaves them out; dvcodec refuses them where it is told "
        "`physical_rows`, which it was not here",
    },
)


def _run_deletions(data: bytes) -> None:
    pylance_deletions.compare(data, _ours_deletions, _theirs_deletions, differing=_differing)


def _files() -> list[bytes]:
    bitmaps = [roaring.serialize(rows._bitmaps[0], run_optimize=False) for rows in decoders.small_row_sets() if rows]
    return [*decoders._arrow_files(), *(data for data in bitmaps if len(data) < 2048)]


TARGETS = (
    Target(
        "pylance-row-ids", "pylance's RowIdSequence", _run_row_ids, decoders._row_ids, mutate=mend.message, max_len=256,
        needs_space=True, kinds=pylance_row_ids.kinds,
    ),
    Target(
        "pylance-deletions", "a scan of pylance over a deletion file", _run_deletions, _files, max_len=2048,
        needs_space=True, kinds=pylance_deletions.kinds, keeps_size=True,
    ),
)  # fmt: skip
