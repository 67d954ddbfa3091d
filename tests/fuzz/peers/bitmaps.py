"""pyroaring, pyiceberg and pypaimon beside dvcodec: bitmaps and framed vectors."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from pathlib import Path

from pyroaring import AbstractBitMap, BitMap, BitMap64

from dvcodec import DecodeError, RowSet, iceberg, paimon
from dvcodec.core import roaring
from dvcodec.core.cursor import Cursor
from dvcodec.core.roaring import MAX_KEY
from fuzz import mend
from fuzz.peers.comparison import Comparison, Kind
from fuzz.peers.serve import Server
from fuzz.target import LIMITS, Target
from fuzz.targets import containers, frames

PYPAIMON = Path(__file__).parents[3] / "interop" / "pypaimon" / ".venv" / "bin" / "python"
FAR_KEY = 1 << 12
"""pyiceberg fills a list up to a bitmap's key, one entry a gap: beyond this one it is not asked."""

TRAILING = Kind(
    "bytes after the end",
    "a vector fills its frame and a bitmap its buffer: bytes after it mean a wrong length",
    r"NotCanonical: bytes after the end",
)
BITMAP_KINDS = (
    Kind(
        "offset table",
        "offsets are part of the format: a reader that seeks by them would read wrong rows",
        r"NotCanonical: offset of container",
    ),
    Kind(
        "padding of the run flags",
        "bits for missing containers have no meaning, and no writer sets them",
        r"NotCanonical: padding bits of the run flags",
    ),
    Kind(
        "run cookie without a run",
        "the specification requires the other cookie: there is one form for every bitmap",
        r"NotCanonical: run cookie without a run container",
    ),
    Kind(
        "runs that touch",
        "runs are maximal by the specification: two that touch are one",
        r"NotCanonical: .*runs unsorted, overlapping or unmerged",
    ),
    Kind(
        "cardinality of a run container",
        "the header states a container's cardinality, and a count from it would be wrong",
        r"NotCanonical: .*run lengths do not add up",
    ),
    Kind("a run container without a run", "it holds nothing, and is not written", r"NotCanonical: .*no run"),
    Kind("limits", "low ones, for the fuzzer: larger vectors are read", r"^LimitExceeded"),
)


def _ours_32(data: bytes) -> AbstractBitMap:
    cursor = Cursor(data)
    view = roaring.walk(cursor)
    cursor.expect_end("the bitmap")
    return view.load()


pyroaring_32 = Comparison("pyroaring.BitMap", (TRAILING, *BITMAP_KINDS))


def _run_32(data: bytes) -> None:
    pyroaring_32.compare(data, _ours_32, BitMap.deserialize)


def _ours_64(data: bytes) -> Mapping[int, AbstractBitMap]:
    cursor = Cursor(data)
    found = roaring.walk64(cursor, limits=LIMITS, max_key=MAX_KEY).load()
    cursor.expect_end("the vector")
    return found


def _theirs_64(data: bytes) -> Mapping[int, AbstractBitMap]:
    found = BitMap64.deserialize(data)
    bitmaps = roaring.walk64(Cursor(found.serialize()), max_key=MAX_KEY).load()
    assert sum(map(len, bitmaps.values())) == len(found)
    return bitmaps


pyroaring_64 = Comparison("pyroaring.BitMap64", (TRAILING, *BITMAP_KINDS))


def _run_64(data: bytes) -> None:
    pyroaring_64.compare(data, _ours_64, _theirs_64)


# ---------------------------------------------------------------------- Puffin

pyiceberg_puffin = Comparison(
    "pyiceberg",
    (
        Kind("unchecked CRC", "a damaged vector deletes wrong rows", r"^ChecksumMismatch"),
        Kind(
            "unchecked length or magic of the frame",
            "the frame has a length and a magic: pyiceberg cuts by the length, and ignores the magic",
            r"^(Truncated|NotCanonical): length field|^BadMagic: magic$",
        ),
        Kind(
            "a frame without a bitmap",
            "even the count of bitmaps is missing: pyiceberg reads no bytes as zero, and deletes no row",
            r"^Truncated: bitmap count",
        ),
        Kind(
            "unchecked magic or size of the footer",
            "the three magics and the payload's size show whether the file is complete",
            r"^BadMagic: magic (before|at)|^Truncated: (footer payload size|Puffin file)",
        ),
        Kind("unknown footer flags", "an unknown flag may change what follows", r"^Unsupported: footer flags"),
        Kind(
            "JSON of the footer",
            "duplicate or missing members, or of another type: pydantic converts, or takes the last",
            r"^NotCanonical: footer (payload|member)",
        ),
        Kind(
            "properties of the blob",
            "cardinality and referenced-data-file are required, and compared with the vector",
            r"^NotCanonical: blob property|^CardinalityMismatch",
        ),
        Kind(
            "compressed vector",
            "the specification says that vectors are not compressed in Puffin, and readers by offset rely on it",
            r"compression",
        ),
        Kind(
            "place of the blob",
            "a Python slice that starts or ends outside the file is another slice: here it is an error",
            r"^(Truncated|NotCanonical): (byte range|range of the)",
        ),
        Kind(
            "blobs that overlap",
            "vectors of more bytes than the file has: one that is named often would make much of little",
            r"^NotCanonical: lengths of all vectors",
        ),
        Kind(
            "two vectors of one data file",
            "it is ambiguous which one is live; pyiceberg takes the last",
            r"^NotCanonical: referenced-data-file",
        ),
        TRAILING,
        *BITMAP_KINDS,
    ),
)


def _theirs_puffin(data: bytes) -> dict[str, Mapping[int, AbstractBitMap]]:
    from pyiceberg.table import deletion_vector
    from pyiceberg.table.puffin import PuffinFile

    deletion_vector.MAX_JAVA_SIGNED = FAR_KEY
    file = PuffinFile(data)
    blobs = [blob for blob in file.footer.blobs if blob.type == iceberg.BLOB_TYPE]
    if len(blobs) < len(file.footer.blobs):
        reason = "pyiceberg takes every blob for a vector; it is given only those that are"
        pyiceberg_puffin.note("blobs of other types", reason, data)
        file.footer = file.footer.model_copy(update={"blobs": blobs})
    return {
        vector.referenced_data_file: {key: part for key, part in enumerate(vector._bitmaps) if part}
        for vector in deletion_vector.deletion_vectors_from_puffin_file(file)
    }


def _ours_puffin(data: bytes) -> dict[str, Mapping[int, AbstractBitMap]]:
    found = iceberg.read_deletion_vectors(data, limits=LIMITS)
    return {name: dict(rows.bitmaps) for name, rows in found.items()}


def _run_puffin(data: bytes) -> None:
    pyiceberg_puffin.compare(data, _ours_puffin, _theirs_puffin)


# ---------------------------------------------------------------------- Paimon

pypaimon_32 = Comparison(
    "pypaimon",
    (
        Kind("unchecked CRC", "a damaged vector deletes wrong rows", r"^ChecksumMismatch"),
        Kind(
            "unchecked length of the frame",
            "a frame that is truncated, or followed by other bytes: pypaimon reads what is there",
            r"^(Truncated|NotCanonical): (length field|CRC)",
        ),
        TRAILING,
        *BITMAP_KINDS,
    ),
)


_pypaimon = Server(PYPAIMON, "fuzz.peers.serve_pypaimon")
atexit.register(_pypaimon.close)


def _theirs_paimon(data: bytes) -> RowSet:
    bitmap = BitMap.deserialize(_pypaimon.ask(data))
    return RowSet.from_bitmaps({0: bitmap} if bitmap else {})


def _ours_paimon(data: bytes) -> RowSet:
    if data[4:8] != paimon.encode(RowSet([1]))[4:8]:
        raise DecodeError("64-bit vectors are not compared: pypaimon reads none")
    return paimon.decode(data, limits=LIMITS)


def _run_paimon(data: bytes) -> None:
    pypaimon_32.compare(data, _ours_paimon, _theirs_paimon)


TARGETS = (
    Target(
        "pyroaring-32", "pyroaring's BitMap", _run_32, frames._roaring32, needs_space=True, kinds=pyroaring_32.kinds,
        keeps_size=True,
    ),
    Target(
        "pyroaring-64", "pyroaring's BitMap64", _run_64, frames._roaring64, needs_space=True, kinds=pyroaring_64.kinds,
        keeps_size=True,
    ),
    Target(
        "pyiceberg-puffin", "pyiceberg's PuffinFile", _run_puffin, containers._puffins, mend.puffin, max_len=2048,
        needs_space=True, kinds=pyiceberg_puffin.kinds, keeps_size=True,
    ),
    Target(
        "pypaimon-32", "pypaimon's DeletionVector", _run_paimon, frames._frames_32, mend.frame, needs_space=True,
        kinds=pypaimon_32.kinds, keeps_size=True,
    ),
)  # fmt: skip
