"""A zap segment of 100,000 documents, read by column, written and merged; compared with Go's zapx, on one core each.

The text field has 20 tokens with locations and doc values, its words distributed by Zipf's law; the tag field has doc
values. dvcodec returns a whole table as Arrow batches, with every check; zapx returns one item at a time through its
public API, as in a search, and its values are summed up (`interop/go/shared/segments/bench.go`). Both have the file
open and mapped. Postings lists are looked up by term, because zapx has no other way.

Analysed documents are written to memory: Python objects here, bleve's there. Merges run from file to file, both synced.
zapx 15 does both on one core, garbage collection included.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec import RowSet, zap
from harness import Comparison, Peer, Timed, timed
from peers import ROOT, PeerProcess

_DOCS, _TOKENS, _WORDS = 100_000, 20, 20_000
_VERSION = 15
_GO = ROOT / "interop" / "go" / "bin" / f"zap{_VERSION}"
_TEXT, _TAG = zap.FieldOptions(15), zap.FieldOptions(11)
_WRITE_SHARE = 1 / 3
_WHY = {
    "terms": (
        "The keys of a dictionary are enumerated one byte position at a time, for all keys at once, and every record "
        "and bitmap header is checked, which zapx does not do: some 200 NumPy calls on arrays of 100,000 items."
    ),
    "locations": (
        "NumPy goes over the five numbers of a location some twenty times (varints, entry sizes, columns, Arrow); each "
        "pass is at the speed of memory, so the ratio falls where other processes use it too."
    ),
    "stored": (
        "Each document is its own snappy block, and one decompression call from Python costs 0.45 us, twice what zapx "
        "takes for a whole document. Joined, the blocks take 0.13 us each, but a copy that reaches in front of its own "
        "block would then be accepted."
    ),
    "doc_values": (
        "Arrow needs the terms without the byte after each: finding and dropping these bytes takes three passes over "
        "all content, where zapx returns slices of it."
    ),
}


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """Every table of the segment, then writing and merging."""
    if short:
        return
    words = tokens()
    made = documents(words)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    path, merged, merged_by_go, given = (folder / name for name in ("a.zap", "b.zap", "c.zap", "docs.json"))
    zap.write_segment(path, made, _VERSION)
    segment = stack.enter_context(zap.Segment.open(path))
    go = Go(stack, given, words)

    def read(table: str, unit: str) -> Comparison:
        rows = drain(segment, table)
        peers = go.peers(1.0, table, path=str(path))
        run = timed(lambda: drain(segment, table))
        return Comparison(f"zap: {table} to Arrow", data, rows, unit, run, peers, why_missed=_WHY.get(table, ""))

    data = f"{_DOCS:,} documents"
    yield read("terms", "terms")
    yield read("postings", "postings")
    yield read("locations", "locations")
    yield read("stored", "values")
    yield read("doc_values", "values")
    yield Comparison(
        "zap: write",
        data,
        _DOCS,
        "documents",
        timed(lambda: zap.write_segment(io.BytesIO(), made, _VERSION)),
        go.peers(_WRITE_SHARE, "write", path=str(given)),
    )
    drops = RowSet(range(0, _DOCS, 10))
    yield Comparison(
        "zap: merge",
        f"{data}, a tenth dropped",
        _DOCS,
        "documents",
        timed(lambda: zap.merge_segments(merged, [segment], [drops])),
        go.peers(_WRITE_SHARE, "merge", path=str(path), out=str(merged_by_go), drops=drops.to_numpy().tolist()),
    )


class Go:
    """zapx, if `make interop-go` has built it."""

    def __init__(self, stack: ExitStack, documents: Path, words: list[list[str]]) -> None:
        self._process = PeerProcess([str(_GO)]) if _GO.exists() else None
        if self._process:
            stack.callback(self._process.close)
            # Analysed there, with the same result: the words have six letters, and one space between them.
            options = {"opt": int(_TEXT), "tv": True}
            given = [
                {
                    "id": f"doc-{i:08}",
                    "fields": [
                        {"name": "body", "value": " ".join(one), **options},
                        {"name": "tag", "value": f"tag{i % 7}", "opt": int(_TAG), "keyword": True},
                    ],
                }
                for i, one in enumerate(words)
            ]
            documents.write_text(json.dumps(given))

    def peers(self, at_least: float, what: str, **arguments: Any) -> tuple[Peer, ...]:
        """Return zapx for one task, or no peer."""
        if not self._process:
            return ()
        run: Timed = self._process.task("bench", what=what, **arguments)
        return (Peer("zapx in Go", run, at_least=at_least),)


def tokens() -> list[list[str]]:
    """The words of each document."""
    found: NDArray[np.int64] = np.random.default_rng(1).zipf(1.3, (_DOCS, _TOKENS)) - 1
    return [[f"w{word:05}" for word in one] for one in np.minimum(found, _WORDS - 1).tolist()]


def documents(words: list[list[str]]) -> list[zap.Document]:
    """Documents of one text field, one tag, and an id."""
    found = []
    for i, one in enumerate(words):
        places: dict[str, list[int]] = {}
        for position, word in enumerate(one):
            places.setdefault(word, []).append(position)
        terms = tuple(
            zap.Term(word.encode(), len(at), tuple(zap.Location(p + 1, 7 * p, 7 * p + 6) for p in at))
            for word, at in places.items()
        )
        tag = b"tag%d" % (i % 7)
        fields = (
            zap.Field("body", " ".join(one).encode(), options=_TEXT, terms=terms, length=len(one)),
            zap.Field("tag", tag, options=_TAG, terms=(zap.Term(tag),), length=1),
        )
        found.append(zap.Document(b"doc-%08d" % i, fields))
    return found


def drain(segment: zap.Segment, table: str) -> int:
    """Read one table; return its number of rows."""
    return sum(batch.num_rows for batch in segment.to_arrow(table))
