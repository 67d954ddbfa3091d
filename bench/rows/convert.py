"""One format to another, every vector verified, compared with copying the bytes and computing their CRC.

That is the least a verified conversion can do. `zlib.crc32` is the standard library's; ISA-L's, which dvcodec uses if
it is installed, is an order of magnitude faster and hardly slower than the copy.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from isal import isal_zlib

from data import THREE
from dvcodec import RowSet, iceberg
from dvcodec.core.cursor import crc32
from dvcodec.ops.convert import ConvertTarget as Target
from dvcodec.ops.convert import convert
from harness import Comparison, Peer, timed

WHY = (
    "Besides copy and CRC, there is one more pass over the bytes (the order of arrays, the cardinality of bitsets), a "
    "second copy into the current file, and 0.2 ms of calls that find and walk a vector of any size: 50 times the cost "
    "of copying the 14 KB of c. Where ISA-L's CRC runs at 50 GB/s, that pass alone takes more than the 30 % left."
)
CIRCLE: tuple[tuple[str, Target], ...] = (("Iceberg", "delta"), ("Delta", "paimon64"), ("Paimon", "iceberg"))


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """Iceberg to Delta to Paimon 64 to Iceberg, bytes to bytes."""
    del stack
    if short:
        return
    for make in THREE:
        found = make()
        rows = RowSet(found.positions)
        blob = iceberg.encode(rows)
        out = io.BytesIO()
        iceberg.write_deletion_vectors(out, {"data.parquet": rows})
        data = out.getvalue()
        for origin, to in CIRCLE:
            work = conversion(data, to)
            yield Comparison(
                f"convert {origin} to {to}, verified",
                f"{found.name}: {found.about}",
                len(blob),
                "bytes",
                timed(work),
                (
                    Peer("copy and zlib's CRC", timed(copying(blob, zlib.crc32)), at_least=0.7),
                    Peer("copy and ISA-L's CRC", timed(copying(blob, isal_zlib.crc32)), at_least=0.7),
                ),
                why_missed=WHY,
            )
            data = work()
        assert crc32(blob) == zlib.crc32(blob)
        assert iceberg.read_deletion_vectors(data) == {"data.parquet": rows}


def conversion(data: bytes, to: Target) -> Callable[[], bytes]:
    """Convert a file from memory to memory."""

    def work() -> bytes:
        out = io.BytesIO()
        convert(data, to, out, data_files=["data.parquet"])
        return out.getvalue()

    return work


def copying(data: bytes, crc: Callable[[memoryview], int]) -> Callable[[], object]:
    """Copy bytes and compute their CRC."""
    view = memoryview(data)
    return lambda: (bytes(view), crc(view))
