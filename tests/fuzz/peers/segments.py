"""zapx (Go) beside dvcodec: a whole segment, as the dump of interop/go has it."""

from __future__ import annotations

import atexit
import json
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from dvcodec import zap
from fuzz import mend
from fuzz.peers.bitmaps import BITMAP_KINDS, TRAILING
from fuzz.peers.comparison import Comparison, Kind
from fuzz.peers.serve import Process, Refused
from fuzz.target import LIMITS, Target
from fuzz.targets.zap import small_segments
from interop.driver import GO
from samples.zap.golden import dump

TIMEOUT_S = 2.0
"""Damaged segments make Go's readers loop."""
VERSION = slice(-8, -4)

_scratch = tempfile.TemporaryDirectory(prefix="fuzz-zapx-")
atexit.register(_scratch.cleanup)


@cache
def _program(version: int) -> Process:
    program = Process([GO / "bin" / f"zap{version}"], timeout_s=TIMEOUT_S, limited=True)
    atexit.register(program.close)
    return program


def _ours(data: bytes) -> dict[str, Any]:
    # zapx looks at no checksum.
    return _plain(dump(zap.Segment.open(data, verify_checksum=False, limits=LIMITS)))


def _theirs(data: bytes) -> dict[str, Any]:
    version = int.from_bytes(data[VERSION], "big")
    if version not in zap.VERSIONS:
        raise Refused("no version of zapx")
    path, out = Path(_scratch.name, "segment"), Path(_scratch.name, "dump")
    path.write_bytes(data)
    command = {"op": "dump", "path": str(path), "out": str(out), "true_counts": True}
    answer = json.loads(_program(version).exchange(json.dumps(command).encode() + b"\n", lambda pipe: pipe.readline()))
    if "error" in answer:
        raise Refused(answer["error"])
    found: dict[str, Any] = json.loads(out.read_bytes())
    found.pop("geo", None)  # which dvcodec does not read
    return _plain(found)


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    """Norms in the text of Python: damaged ones are numbers of any size, and none."""
    for posting in _postings(found["dicts"]):
        posting[2] = str(float(posting[2]))
    return found


def _postings(dictionaries: dict[str, Any]) -> Iterator[list[Any]]:
    for terms in dictionaries.values():
        for _, _, postings in terms or ():
            yield from postings or ()


def _of(*what: str) -> str:
    """Errors about one of these."""
    return rf"^\w+: ({'|'.join(what)})$"


zapx_segment = Comparison(
    "zapx",
    (
        Kind(
            "addresses in the footer",
            "zapx finds no field, document or doc value there, and treats the segment as having none",
            _of("(fields|sections|stored) index", "doc value table"),
        ),
        Kind(
            "fields",
            "names are unique and the first is `_id`: zapx takes the last of a name, and finds no document by its id; "
            "here a name has to be UTF-8",
            _of("fields", "number of fields", "first field", "field name"),
        ),
        Kind(
            "records of a field",
            "addresses outside the segment, invalid sections, overlapping records: zapx follows them only when needed",
            _of(
                "address of a (dictionary|section|thesaurus)",
                "((start|end) of a )?doc value block",
                "number of sections",
                "type of a section",
                "options of a field",
                "start of a synonym section",
                "field records?( overlap)?",
                "text section",
            ),
        ),
        Kind("chunk mode", "a mode that no writer uses: zapx takes it for a size", r"^NotCanonical: chunk mode"),
        Kind(
            "states of a dictionary",
            "vellum reads a state only when it visits it, and does not check the order of its bytes",
            _of("(input bytes|number of transitions|lowest address|pack sizes|target) of a state", "root address"),
        ),
        Kind(
            "number of keys",
            "the dictionary states its count; vellum does not count. Above the fuzzer's limit none is read here",
            _of("number of keys", "Limits.max_keys"),
        ),
        Kind(
            "stored documents",
            "a record gives the location and field of a value: zapx returns whatever is there",
            _of(
                "(address|data bytes|metadata|metadata bytes|lengths) of a stored document",
                "stored (document|values)",
                "(field|type|start|length) of a stored value",
                "length of an id",
                "content size of stored values",
            ),
        ),
        Kind(
            "lists of postings",
            "every term is in some document, and a bitmap has only documents of the segment",
            _of(
                "postings (of a term|with locations|record)",
                "(bytes of a )?bitmap",
                "address of a (freq/norm|location) block",
                "document number",
                "document of a 1-hit",
                "dictionary value",
                "bitmaps of a dictionary",
            ),
        ),
        Kind(
            "chunks of postings",
            "chunks state their bytes and values: zapx reads what it needs and ignores the rest",
            _of(
                "((numbers|entries|end) of a |number of )?(freq/norm|location)( chunks?)?",
                "norm",
                "bytes of a location entry",
                "locations of a posting",
                "field of a location",
            ),
        ),
        Kind(
            "chunks of doc values",
            "sizes, documents in order, a mark after every term: zapx looks only for the requested document",
            _of(
                r"doc values( of document \d+)?",
                "(end of the last|(end|documents?) of a|number of) doc value chunks?",
                "bytes of chunk ends",
                "ends of doc value chunks",
                "content size of doc values",
                "end of (a|the last) document's values",
            ),
        ),
        Kind(
            "synonyms",
            "ids are in order and have a text, documents exist, lists follow one another",
            _of(
                "((documents?|ids?|bytes) of (a |the ))?synonyms?( of a term)?",
                "number of synonyms( of a term)?",
                "((address|bytes) of a )?synonym list",
            ),
        ),
        Kind(
            "nested documents",
            "a parent precedes its child, and there are no more edges than documents",
            _of("number of edges", "parent of a nested document", "nested document", "edge list"),
        ),
        Kind(
            "order of an array container",
            "values are strictly ascending by the specification",
            r"^NotCanonical: values not strictly ascending",
        ),
        TRAILING,
        *BITMAP_KINDS,
    ),
)


def _run(data: bytes) -> None:
    zapx_segment.compare(data, _ours, _theirs)


TARGETS = (
    Target(
        "zapx-segment",
        "a whole segment, read by zapx of its version",
        _run,
        small_segments,
        mend.segment,
        max_len=1024,
        keeps_size=True,
        needs_space=True,
        kinds=zapx_segment.kinds,
    ),
)
