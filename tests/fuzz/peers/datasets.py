"""pylance (Rust inside) beside dvcodec: sequences of row ids, and deletion files of a dataset."""

from __future__ import annotations

import atexit
import json
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from dvcodec import DecodeError, RowSet, lance
from dvcodec.core import roaring
from dvcodec.core.cursor import Cursor
from dvcodec.lance.deletions import ARROW_MAGIC, batch_lengths
from fuzz import mend
from fuzz.peers.bitmaps import BITMAP_KINDS, TRAILING
from fuzz.peers.comparison import Comparison, Kind
from fuzz.peers.serve import Refused, Server
from fuzz.seeds import small_row_sets
from fuzz.target import LIMITS, Target
from fuzz.targets import lance as decoders

MANY = 1 << 14
PHYSICAL_ROWS = 70_000
MOST = 1 << 26
"""Bytes of a buffer beyond which pylance is not asked."""


def _ids_or_count(sequence: Any) -> list[int] | int:
    """The ids; of many, how many: Rust would put them all into memory."""
    try:
        count = len(sequence)
    except OverflowError:
        return 2**63
    return count if count > MANY else sequence.to_pyarrow().to_numpy().tolist()


def _theirs_ids(data: bytes) -> list[int] | int:
    from lance.fragment import RowIdMeta, RowIdSequence

    return _ids_or_count(RowIdSequence.from_inline_metadata(RowIdMeta.from_json(json.dumps({"Inline": list(data)}))))


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
            "newer versions read RangeWithRuns; pylance 14 skips it if there is another segment",
            r"^Unsupported: ",
        ),
    ),
)


def _run_row_ids(data: bytes) -> None:
    pylance_row_ids.compare(data, _ours_ids, _theirs_ids)


_pylance = Server(sys.executable, "fuzz.peers.serve_pylance", str(PHYSICAL_ROWS))
atexit.register(_pylance.close)


def _theirs_deletions(data: bytes) -> RowSet:
    if data[: len(ARROW_MAGIC)] == ARROW_MAGIC:
        with suppress(DecodeError):
            if any(size > MOST for _, sizes in batch_lengths(Cursor(data)) for size in sizes):
                raise Refused("not asked: it allocates what a length says, and that ends its process")
    return RowSet(np.frombuffer(_pylance.ask(data), "<u4"))


def _ours_deletions(data: bytes) -> RowSet:
    return lance.read_deletion_file(data, limits=LIMITS)


def _differing(ours: RowSet, theirs: RowSet) -> str | None:
    """A scan shows the physical rows only."""
    inside = RowSet.from_bitmaps(ours.bitmaps) & RowSet.from_ranges([(0, PHYSICAL_ROWS)])
    return "rows that the fragment does not have" if inside == theirs else None


_ARROW_KINDS = (
    Kind(
        "footer or metadata of the Arrow file",
        "lengths and offsets beyond the file, dictionaries, a codec named twice: Rust's reader reads what it needs and "
        "ignores the rest",
        r"^(BadMagic: magic at the end|NotCanonical: (footer size|dictionaries|metadata|header of a message|"
        r"offset in the metadata|rows of a record batch))",
    ),
    Kind(
        "body of the Arrow file",
        "buffers that are too short for their rows, or damaged",
        r"^NotCanonical: (buffer|Arrow IPC file)",
    ),
    Kind(
        "schema of the Arrow file",
        "Lance writes one batch of one column, row_id, without nulls: another file is no deletion file",
        r"^NotCanonical: (schema|record batches|row_id)",
    ),
)
pylance_deletions = Comparison(
    "pylance",
    (TRAILING, *BITMAP_KINDS, *_ARROW_KINDS),
    {
        "rows that the fragment does not have": "a scan drops them; dvcodec refuses them if `physical_rows` "
        "is passed, which it was not here",
    },
)


def _run_deletions(data: bytes) -> None:
    pylance_deletions.compare(data, _ours_deletions, _theirs_deletions, differing=_differing)


def _files() -> list[bytes]:
    bitmaps = [roaring.serialize(rows.bitmaps[0], run_optimize=False) for rows in small_row_sets() if rows]
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
