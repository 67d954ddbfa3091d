"""Segments of zap and the vellum dictionaries in them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dvcodec import Limits
from dvcodec.core.cursor import Cursor
from dvcodec.io import Source, open_source
from dvcodec.zap import Segment, verify_segment
from dvcodec.zap.vellum import Fst, build
from limits.making import (
    SMALL,
    Inputs,
    accepted,
    case,
    cases,
    drained,
    error,
    large,
    large_file,
    limit,
    no_memory,
    refuse,
)
from samples.bombs import BOMB, MEGA, snappy
from samples.zap.segments import SegmentBuilder, footer_of, uv
from samples.zap.vellum import blob, doubling, many, one


def everything(data: bytes | Source, limits: Limits = SMALL) -> None:
    """All of a segment."""
    with Segment.open(data, verify_checksum=False, limits=limits) as segment_:
        for table in ("stored", "terms", "postings", "doc_values", "fields"):
            drained(segment_.to_arrow(table))


def crafted(change: Callable[[SegmentBuilder], None], **more: Any) -> bytes:
    made = SegmentBuilder(15)
    change(made)
    return bytes(made.finish(**more))


def stored(size: int, block: bytes) -> Callable[[SegmentBuilder], None]:
    def change(made: SegmentBuilder) -> None:
        meta = uv(1, 1, 116, 0, size, 0)
        made.put(uv(len(meta), len(block) + 1) + meta + b"0" + block)
        made.docs, made.stored = 1, made.put(bytes(8))
        made.ids()
        made.field("f", made.dictionary({}))

    return change


def doc_values(size: int, block: bytes) -> Callable[[SegmentBuilder], None]:
    """One document with values of that size."""

    def change(made: SegmentBuilder) -> None:
        made.documents(1)
        made.ids()
        chunk = uv(1, 0, size) + block
        ends = uv(len(chunk))
        at = made.put(chunk + ends + struct.pack(">QQ", len(ends), 1))
        place = (at, len(made.out))
        made.field("f", made.dictionary({}), place)

    return change


def dictionary(data: bytes) -> bytes:
    def change(made: SegmentBuilder) -> None:
        made.docs = 1
        made.documents(1)
        made.ids()
        at = made.put(uv(len(data)) + data)
        made.field("f", at)

    return crafted(change)


def terms_of(data: bytes) -> int:
    limits = Limits(max_keys=100_000, max_blob_bytes=MEGA)
    return sum(len(block.keys) for block in Fst.open(Cursor(data), limits).blocks())


def of_source(path: str) -> None:
    """Without the checksum, which wants every byte."""
    with open_source(path) as source:
        everything(source)


def large_segment(version: int, **more: Any) -> str:
    """The path of a segment whose index of fields, or whose writer's name, is nearly all of it."""
    return large(b"", "1.zap", tail=footer_of(version, 0, 0, 0, **more) + bytes(4))


SNAPPIES: Inputs = {
    "snappy bomb": lambda: crafted(stored(BOMB, snappy(BOMB))),
    "snappy bomb of doc values": lambda: crafted(doc_values(BOMB, snappy(BOMB))),
}

CASES = [
    *cases("zap", everything, SNAPPIES, limit("max_blob_bytes")),
    *cases(
        "zap, default limits", lambda data: everything(data, Limits()), SNAPPIES, no_memory("max_blob_bytes is 1 GiB")
    ),
    *(
        large_file(
            f"zap segment, {what}", of_source, partial(large_segment, version, **more), error(f"NotCanonical: .*{what}")
        )
        for what, version, more in (
            ("number of fields", 15, {}),
            ("sections index", 16, {}),
            ("zap writer id", 17, {"writer_size": 290 * MEGA}),
        )
    ),
    case(
        "zap",
        everything,
        "dictionary that doubles",
        lambda: dictionary(doubling(60)),
        limit("max_keys", Limits().max_keys),
    ),
    case(
        "zap",
        everything,
        "snappy of four gigabytes",
        lambda: crafted(stored(2**32 - 1, uv(2**32 - 1) + bytes(60))),
        error("NotCanonical: .*content size of stored values: expected at most [0-9]+ in [0-9]+ bytes"),
    ),
    *cases(
        "zap.verify_segment",
        lambda data: refuse(verify_segment(data).ok),
        {
            "documents": lambda: crafted(lambda made: made.documents(3), docs=2**63, stored=0),
            "dictionary that doubles": lambda: dictionary(doubling(60)),
        },
    ),
    case("vellum", terms_of, "count of keys", lambda: blob(many([(97, 0, 1)]), 2**63), limit("max_keys", 100_000)),
    case(
        "vellum, all at once",
        lambda data: Fst.open(Cursor(data), Limits(max_blob_bytes=MEGA)).to_block(),
        "keys of megabytes",
        lambda: build([b"a" * n for n in range(1, 3000)], np.arange(2999, dtype=np.uint64)),
        limit("max_blob_bytes", MEGA),
    ),
    case("vellum", terms_of, "state that leads to itself", lambda: blob(one(97, 0) + one(98, 2**40, sizes=(6, 0)), 5)),
    case(
        "vellum",
        terms_of,
        "deep",
        lambda: build([b"a" * 300_000], np.array([1], np.uint64)),
        accepted("the blob is as long as its keys"),
    ),
]
