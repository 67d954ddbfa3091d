"""One vector's blob, decoded: to positions, and to the packed keep mask of its data file. CRC and structure checked.

Iceberg Java also checks the CRC; pyiceberg, deltalake's `to_vector` and pyroaring do not. The table that deltalake
reads is opened before the clock starts.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from numpy.typing import NDArray
from pyiceberg.table.deletion_vector import DeletionVector
from pyroaring import BitMap

from data import REALISTIC, THREE, Positions
from dvcodec import RowSet, iceberg
from harness import Comparison, Peer, timed
from peers import PeerProcess, java
from samples.delta_log import OLD, SCHEMA, commit, descriptor

HEAD, TAIL = 20, 4
"""Bytes around the 32-bit bitmap of a blob whose positions are all below 2**32."""
FRAME_HEAD = 8
INVENTED = ("a", "b", "c")
WHY = {
    "d": "Expanding takes two thirds of the time, in pyroaring and NumPy as for the peer, and building the bitmap a "
    "tenth. The rest is calls of Python around them, which take three times as long where the caches hold positions.",
    **dict.fromkeys(
        INVENTED,
        "Two thirds of the time of b and c is their output: the system clears 64 and 80 MB of fresh memory, and they "
        "are written once. Expanding bitmaps takes the rest, in pieces that stay in the processor's cache. Half of a's "
        "time is pyroaring's: it builds 1526 array containers, each in its own allocation.",
    ),
}
"""Why a target may be missed, by data set."""


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """Sets as deletes leave them, and the three invented ones."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    there = None if short else java(stack)
    for make in THREE if short else (*REALISTIC, *THREE):
        found = make()
        rows = RowSet(found.positions)
        blob = iceberg.encode(rows)
        yield to_positions(found, blob, there, folder)
        yield keep_mask(found, blob, folder)
        if found.name in "bc" and not short:
            yield Comparison(
                "packed keep mask, rows a second",
                found.name,
                found.rows,
                "rows",
                timed(lambda blob=blob, rows=found.rows: mask(blob, rows)),  # type: ignore[misc]
                per_second=5e9,
            )


def to_positions(found: Positions, blob: bytes, there: PeerProcess | None, folder: Path) -> Comparison:
    """Decode to sorted int64."""

    def ours() -> object:
        return iceberg.decode(blob).to_numpy()

    def pyiceberg() -> pa.ChunkedArray:
        bitmaps = DeletionVector._deserialize_bitmap(blob[FRAME_HEAD:-TAIL])  # noqa: SLF001  (the only way)
        return DeletionVector("data.parquet", bitmaps).to_vector()

    def pyroaring() -> NDArray[np.int64]:
        bitmap = BitMap.deserialize(blob[HEAD:-TAIL])
        return np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64)

    assert np.array_equal(iceberg.decode(blob).to_numpy(), found.positions)
    assert np.array_equal(pyroaring(), found.positions)
    peers = [
        Peer("pyiceberg's to_vector", timed(pyiceberg), at_least=80.0 if found.name in INVENTED else None),
        Peer("pyroaring, 32 bits, unchecked", timed(pyroaring), 0.8 if found.name == "d" else None, guards=True),
    ]
    if there is not None:
        file = folder / f"{found.name}.blob"
        file.write_bytes(blob)
        task = there.task("decode", path=str(file), count=len(found.positions))
        peers.insert(0, Peer("Iceberg's Java, to a long[]", task, at_least=1.0 if found.name in WHY else None))
    return Comparison(
        "decode to positions",
        found.name,
        len(found.positions),
        "positions",
        timed(ours),
        tuple(peers),
        why_missed=WHY.get(found.name, ""),
    )


def mask(blob: bytes, rows: int) -> NDArray[np.uint8]:
    """Return the packed keep mask of a data file with that many rows."""
    return iceberg.decode(blob).packed_mask(0, rows, keep=True)


def keep_mask(found: Positions, blob: bytes, folder: Path) -> Comparison:
    """Decode to the remaining rows, one bit per row; deltalake returns one boolean per row."""
    table = DeltaTable(str(delta_table(folder / f"{found.name}-table", found)))
    selected = pa.table(table.deletion_vectors()).column("selection_vector").combine_chunks().values
    packed = mask(blob, found.rows)
    bits = np.unpackbits(packed, count=found.rows, bitorder="little").view(np.bool_)
    known = selected.to_numpy(zero_copy_only=False)
    assert np.array_equal(bits[: len(known)], known)
    assert bits[len(known) :].all()
    keep = np.ones(found.rows, np.bool_)

    def numpy() -> object:
        keep[found.positions] = False
        return pa.array(keep)

    def theirs() -> object:
        return table.deletion_vectors().read_all()

    peers = (
        Peer("deltalake's deletion_vectors()", timed(theirs), at_least=50.0 if found.name in INVENTED else None),
        Peer("NumPy and pyarrow, from positions", timed(numpy), guards=True),
    )
    work = timed(lambda: mask(blob, found.rows))
    return Comparison("packed keep mask of the file", found.name, found.rows, "rows", work, peers)


def delta_table(folder: Path, found: Positions) -> Path:
    """Write the log of a table of one data file and its vector; the data file itself is never opened."""
    (folder / "_delta_log").mkdir(parents=True)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    metadata = {
        "id": "0",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(SCHEMA),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "true"},
    }
    file = {
        "path": "a.parquet",
        "partitionValues": {},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps({"numRecords": found.rows}),
        "deletionVector": descriptor(folder, OLD, RowSet(found.positions)),
    }
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    commit(folder, 0, "WRITE", protocol, {"metaData": metadata}, {"add": file})
    return folder
