"""Zap segments of real text, read by column, written and merged; compared with Go's zapx, on one core each.

bleve makes the segment with its default mapping: of 20,000 paragraphs (`real_text`) the title, the body, the language
and a tag, which is one term; with locations, doc values and a composite field of all. dvcodec returns a whole table as
Arrow batches, with every check; zapx returns one item at a time through its public API, as in a search, and its values
are summed up (`interop/go/shared/segments/bench.go`). Both have the file open and mapped. Postings lists are looked up
by term, because zapx has no other way.

Documents analysed by bleve are written to memory: Python objects here, bleve's there; 5,000, for they take much
memory. Merges run from file to file, both synced. Both sides count processor time, and zapx 15 runs on one core,
garbage collection included.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import starmap
from pathlib import Path
from typing import Any

from dvcodec import RowSet, zap
from harness import Comparison, Peer, Timed
from peers import ROOT, PeerProcess
from real_text import Paragraph, paragraphs

_DOCS, _WRITTEN = 20_000, 5_000
_VERSION = 15
_PROGRAMS = ROOT / "interop" / "go" / "bin"
_AT_LEAST = {"terms": 0.5, "postings": 0.9, "locations": 0.7, "stored": 0.4, "doc_values": 0.6}
_WRITE_SHARE = 0.6
_WHY = {
    "terms": "In a profile, a third of the time goes into reading states, level by level in some 200 steps of NumPy, a "
    "third into joining the keys from the levels, and a fifth into the records of all terms, which are checked.",
    "postings": "In a profile, two fifths are the terms; the rest is a few passes over each of bitmaps, frequencies "
    "and norms, where Go takes them from one list at a time.",
    "locations": "In a profile, nearly half of the time goes into the varints of the chunks, which are read in several "
    "passes over all, and a sixth is the terms.",
    "stored": "In a profile, three tenths go into 20,000 calls that decompress a document each; the rest are passes "
    "over half a million varints of metadata. zapx does both for one document after the other, without checks.",
    "doc_values": "In a profile, half of the time goes into finding and dropping the byte after each term, which Arrow "
    "must not have and zapx returns.",
    "merge": "In a profile, four tenths go into writing the dictionary, a loop over its states in Python, a quarter "
    "into reading and a fifth into encoding the postings. numba compiles that loop.",
    "write": "In a profile, four tenths go into sorting the terms of all documents, which are Python objects, and "
    "three tenths into writing the dictionary.",
}


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """Every table of the segment, then writing and merging."""
    if short:
        return
    if not (_PROGRAMS / "bleve").is_file():
        print("Segments are left out: `make interop-go` builds bleve, which makes them", file=sys.stderr)
        return
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    text = paragraphs(_DOCS)
    path = indexed(text, folder)
    analysed = folder / "analysed.json"
    analyse(text[:_WRITTEN], analysed)
    segment = stack.enter_context(zap.Segment.open(path))
    zapx = stack.enter_context(closing(PeerProcess([str(_PROGRAMS / f"zap{_VERSION}")])))

    def peers(what: str, at_least: float, **arguments: Any) -> tuple[Peer, ...]:
        return (Peer("zapx in Go", zapx.task("bench", what=what, **arguments), at_least=at_least),)

    def read(table: str, unit: str) -> Comparison:
        return Comparison(
            f"zap: {table} to Arrow",
            data,
            drain(segment, table),
            unit,
            worked(lambda: drain(segment, table)),
            peers(table, _AT_LEAST[table], path=str(path)),
            why_missed=_WHY[table],
        )

    data = f"{len(text):,} paragraphs"
    yield read("terms", "terms")
    yield read("postings", "postings")
    yield read("locations", "locations")
    yield read("stored", "values")
    yield read("doc_values", "values")
    drops = RowSet(range(0, len(text), 10))
    ours, theirs = folder / "ours.zap", folder / "theirs.zap"
    yield Comparison(
        "zap: merge",
        f"{data}, a tenth dropped",
        len(text),
        "documents",
        worked(lambda: zap.merge_segments(ours, [segment], [drops])),
        peers("merge", _WRITE_SHARE, path=str(path), out=str(theirs), drops=drops.to_numpy().tolist()),
        why_missed=_WHY["merge"],
    )
    made = read_documents(analysed)
    yield Comparison(
        "zap: write",
        f"{len(made):,} paragraphs",
        len(made),
        "documents",
        worked(lambda: zap.write_segment(io.BytesIO(), made, _VERSION)),
        peers("write", _WRITE_SHARE, path=str(analysed)),
        why_missed=_WHY["write"],
    )


def worked(work: Callable[[], object]) -> Timed:
    """Measure the processor time of work of this process, as `interop/go` does."""

    def run(times: int) -> float:
        start = time.process_time()
        for _ in range(times):
            work()
        return (time.process_time() - start) / times

    return run


def indexed(text: list[Paragraph], folder: Path) -> Path:
    """Have bleve index paragraphs; return its segment."""
    found = bleve("index", text, folder, path=str(folder / "index"), version=_VERSION)
    (path,) = found["segments"]
    return Path(path)


def analyse(text: list[Paragraph], out: Path) -> None:
    """Have bleve analyse paragraphs into documents for `zapx` and `read_documents`."""
    bleve("analyse", text, out.parent, out=str(out))


def bleve(op: str, text: list[Paragraph], folder: Path, **more: Any) -> dict[str, Any]:
    """Have bleve do something with paragraphs."""
    given = folder / "paragraphs.json"
    named = [{"id": f"{one.title.partition(' ')[0]}#{i:06}", "doc": one._asdict()} for i, one in enumerate(text)]
    given.write_text(json.dumps(named))
    with closing(PeerProcess([str(_PROGRAMS / "bleve")])) as process:
        return process.ask({"op": op, "docs": str(given), **more})


def read_documents(analysed: Path) -> list[zap.Document]:
    """Return documents as bleve analysed them."""
    gc.disable()  # there are millions of objects, and none is garbage
    try:
        return [_document(given["fields"]) for given in json.loads(analysed.read_bytes())]
    finally:
        gc.enable()


def _document(given: list[dict[str, Any]]) -> zap.Document:
    fields = {False: list[zap.Field](), True: list[zap.Field]()}
    name = b""
    for one in given:
        value = one["value"].encode()
        if one["name"] == "_id":
            name = value
            continue
        options, terms = zap.FieldOptions(one["opt"]), tuple(starmap(_term, one["tokens"]))
        fields[one.get("composite", False)].append(
            zap.Field(one["name"], value, one["type"], options, terms, one["length"], tuple(one["ap"]))
        )
    return zap.Document(name, tuple(fields[False]), tuple(fields[True]))


def _term(term: str, frequency: int, locations: list[list[Any]]) -> zap.Term:
    found = tuple(zap.Location(position, start, end, field) for field, position, start, end, _ in locations)
    return zap.Term(term.encode(), frequency, found)


def drain(segment: zap.Segment, table: str) -> int:
    """Read one table; return its number of rows."""
    return sum(batch.num_rows for batch in segment.to_arrow(table))
