"""Delta: vectors of both layouts, inline ones, files of them, descriptors, the log, tables."""

from __future__ import annotations

import struct
from functools import partial
from itertools import chain
from pathlib import Path

from dvcodec import Limits, delta
from dvcodec.tables import open_table
from dvcodec.tables.delta.actions import read_batches
from dvcodec.tables.folder import Folder
from limits.cases.parquet import LARGE_FOOTER
from limits.cases.vectors import FULL, LARGE_FRAME, MORE_BITMAPS
from limits.making import case, cases, drained, large, large_file, limit
from samples import bitmaps
from samples.bombs import MEGA


def native(vector: bytes) -> bytes:
    return bitmaps.frame(bitmaps.NATIVE, vector)


def of(kind: str, path: str) -> delta.Descriptor:
    return delta.Descriptor(kind, path, 290 * MEGA, 1, offset=1)


def checkpoint(path: str) -> None:
    drained(chain.from_iterable(read_batches(Folder(str(Path(path).parent.parent)), (Path(path).name,), 0)))


SOME = bitmaps.bitmap(bitmaps.array(0, [1]))

CASES = [
    *cases(
        "delta.decode of the native layout",
        delta.decode,
        {
            "count": lambda: native(struct.pack("<i", 2**31 - 1) + bytes(100)),
            "size": lambda: native(struct.pack("<ii", 1, 2**31 - 1) + bitmaps.EMPTY),
        },
    ),
    *cases(
        "delta.decode of the native layout",
        delta.decode,
        {
            "empty bitmaps": lambda: native(bitmaps.native64(*[bitmaps.EMPTY] * 80_000)),
            "more bitmaps than allowed": lambda: native(bitmaps.native64(*[SOME] * 20_000)),
        },
        MORE_BITMAPS,
    ),
    case(
        "delta.decode of the native layout",
        lambda data: delta.decode(data, limits=Limits(max_cardinality=2**33)),
        "rows beyond the limit",
        lambda: native(bitmaps.native64(*[FULL] * 3)),
        limit("max_cardinality", 2**33),
    ),
    case(
        "delta.decode_inline",
        lambda data: delta.decode_inline(data.decode(), Limits().max_vector_bytes),
        "size",
        lambda: b"wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    ),
    case("delta file", delta.load_frames, "length", lambda: b"\1" + struct.pack(">I", 2**31 - 1) + bytes(100)),
    large_file(
        "delta commit",
        lambda path: open_table(Path(path).parent.parent).snapshot(),
        lambda: large(b'{"metaData":{"id":"', f"_delta_log/{0:020}.json"),
        limit("max_metadata_bytes"),
    ),
    *(
        large_file(
            f"delta checkpoint, {kind}",
            checkpoint,
            partial(large, head, f"_delta_log/c.{kind}", tail=tail),
            limit("max_metadata_bytes"),
        )
        for kind, head, tail in (("parquet", b"PAR1", LARGE_FOOTER), ("json", b"{", b""))
    ),
    *(
        large_file(name, read, lambda: large(LARGE_FRAME, "d.bin"), limit("max_vector_bytes"))
        for name, read in (
            ("delta.read_deletion_vectors", lambda path: delta.read_deletion_vectors(path, {"a": of("r", "d.bin")})),
            ("delta file", delta.load_frames),
            ("delta.load", lambda path: delta.load(of("p", Path(path).as_uri()), allow=("file",))),
        )
    ),
]
