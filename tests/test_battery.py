"""Every decoder through the battery, with a small real vector of each format."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from battery import CHECKS, Format, flip_bits
from conftest import FLIPS
from core import crafting
from dvcodec import RowSet, delta, iceberg, lance, paimon, puffin, read_rows, sniff
from dvcodec.core import avro, roaring, roaring64
from dvcodec.core.cursor import Cursor
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.zap import Segment, verify_segment
from dvcodec.zap.vellum import Fst, build

HERE = Path(__file__).parent / "vectors"
ICEBERG, DELTA = HERE / "iceberg/java-1.12.0", HERE / "delta/spark-4.4.0"
JAVA, PYTHON = HERE / "paimon/java-1.3.1", HERE / "paimon/pypaimon-2.1.0"
LANCE, ZAP = HERE / "lance/pylance-14.0.2", HERE / "zap"


def rows_of(value: RowSet) -> Any:
    return value.to_numpy().tolist(), value.ranges().tolist(), value.cardinality, value.min, value.max


def dict_of(value: Any) -> Any:
    return {key: rows_of(rows) for key, rows in value.items()}


def bitmap32(buf: Any) -> list[int]:
    cursor = Cursor(buf)
    view = roaring.walk(cursor)
    cursor.expect_end("the bitmap")
    return list(view.load())


def bitmap64(buf: Any, *, limits: Limits = DEFAULT_LIMITS) -> dict[int, list[int]]:
    cursor = Cursor(buf)
    found = roaring64.decode(cursor, limits=limits)
    cursor.expect_end("the bitmap")
    return {key: list(bits) for key, bits in found.items()}


def encode64(value: dict[int, list[int]]) -> bytes:
    return iceberg.encode(RowSet([(key << 32) + low for key, lows in value.items() for low in lows]))[8:-4]


def records(buf: Any, *, limits: Limits = DEFAULT_LIMITS) -> list[Any]:
    return list(avro.decode(Cursor(buf), limits=limits).records())


def blobs(buf: Any, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    with puffin.open_puffin(buf, limits=limits) as reader:
        return reader.footer, tuple(bytes(reader.read(blob)) for blob in reader.footer.blobs)


def footer(buf: Any, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    return blobs(buf, limits=limits)[0]


def segment_of(segment: Segment) -> Any:
    tables = [batch.to_pylist() for name in ("stored", "postings", "fields") for batch in segment.to_arrow(name)]
    return segment.version, segment.num_docs, tables


def terms(fst: Fst) -> list[tuple[bytes, int]]:
    assert [fst.get(key) for key, _ in fst.range()] == [value for _, value in fst.range()]
    return list(fst.range())


def inline(buf: Any, *, limits: Limits = DEFAULT_LIMITS) -> RowSet:
    return delta.decode_inline(bytes(buf).decode("latin-1"), INLINE.size_in_bytes, limits=limits)


def numbers_of(value: Any) -> Any:
    return value.to_numpy().tolist(), value.encode()


def addresses_of(value: lance.RowAddrMap) -> Any:
    return lance.encode_row_addr_map(value)


# ------------------------------------------------------------------------------------------------------- the formats

BORDER = RowSet([1, 5, (1 << 32) - 1, 1 << 32, (1 << 32) + 7])
SEQUENCES = {item["name"]: item for item in json.loads((LANCE / "manifest.json").read_text())["sequences"]}
VERSIONS = lance.RowDatasetVersionSequence.from_versions(np.array([3] * 5 + [9] * 4, np.uint64)).encode()
FST = build([b"abra", b"abracadabra", b"cadabra", b"dab"], np.array([1, 2, 300, 1 << 40], np.uint64))
BITMAP = crafting.bitmap(crafting.array(0, [1, 5, 9]), crafting.runs(3, [(2, 10), (100, 1)]))


def small(folder: Path, pattern: str) -> bytes:
    """The smallest of the files that match."""
    return min((path.read_bytes() for path in folder.glob(pattern)), key=len)


def vector(name: str, decode: Any, encode: Any, data: bytes) -> Format:
    """One framed vector; only one of two rows or more comes near all limits, and 32-bit ones have one bitmap."""
    low = {"max_vector_bytes": 10, "max_bitmaps": 0, "max_cardinality": 1}
    if "32-bit" in name:
        del low["max_bitmaps"]
    return Format(
        name, decode, data, encode, rows_of, checksum=True, limits=low if decode(data).cardinality > 1 else {}
    )


def framed(path: Path) -> bytes:
    """Java's vector in the frame of a file."""
    data = path.read_bytes()
    return crafting.frame(data[:4], data[4:])


NAMES = ("alternating", "empty", "one-row", "run", "tie-array", "border-32")
PUFFIN = (ICEBERG / "one.puffin").read_bytes()
DELTA_FILE = b"\1" + b"".join(framed(DELTA / f"{name}.portable") for name in NAMES)
PAIMON_FILE = b"\1" + b"".join((PYTHON / f"{name}.dv").read_bytes() for name in ("alternating", "run", "one-row"))
AVRO = (JAVA / "index-manifest-0").read_bytes()
MANIFEST = small(LANCE, "life/_versions/*.manifest")
INLINE = delta.encode_inline(BORDER)

FORMATS = [
    *(
        vector(f"Iceberg blob, {name}", iceberg.decode, iceberg.encode, (ICEBERG / f"{name}.dv").read_bytes())
        for name in (*NAMES, "four-runs", "gap-keys")
    ),
    *(
        vector(
            f"Delta frame, {name}.{layout}",
            delta.decode,
            partial(delta.encode, layout=layout),
            framed(DELTA / f"{name}.{layout}"),
        )
        for name in NAMES
        for layout in ("portable", "native")
    ),
    *(
        vector(
            f"Paimon 32-bit, {name}",
            paimon.decode,
            partial(paimon.encode, run_optimize=False),
            (PYTHON / f"{name}.dv").read_bytes(),
        )
        for name in NAMES[:-1]
    ),
    vector("Paimon 64-bit", paimon.decode, partial(paimon.encode, bits=64), paimon.encode(BORDER, bits=64)),
    Format("whatever it is", read_rows, framed(DELTA / "run.native"), None, dict_of, checksum=True),
    Format(
        "Delta inline",
        inline,
        INLINE.path_or_inline_dv.encode(),
        lambda rows: delta.encode_inline(rows).path_or_inline_dv.encode(),
        rows_of,
        framed=False,
        limits={"max_bitmaps": 0, "max_cardinality": 1},
        text=True,
    ),
    Format("Delta file", delta.read_deletion_vectors, DELTA_FILE, None, dict_of, checksum=True, framed=False),
    Format(
        "Paimon index file",
        paimon.read_deletion_vectors,
        PAIMON_FILE,
        None,
        dict_of,
        checksum=True,
        framed=False,
        limits={"max_blobs": 1, "max_vector_bytes": 10},
    ),
    Format(
        "Paimon hash index",
        paimon.decode_hash_index,
        (JAVA / "hashes-0").read_bytes(),
        paimon.encode_hash_index,
        lambda value: value.tolist(),
        framed=False,
    ),
    Format("Paimon index manifest", paimon.read_index_manifest, AVRO, framed=False, limits={"max_manifest_bytes": 100}),
    Format("Avro", records, AVRO, framed=False, limits={"max_manifest_bytes": 100}),
    Format("Puffin", blobs, PUFFIN, framed=False, limits={"max_footer_bytes": 20, "max_blobs": 0}),
    Format(
        "Puffin footer",
        lambda buf, **more: blobs(buf, **more)[0],
        PUFFIN,
        from_end=True,
        limits={"max_footer_bytes": 20},
    ),
    Format(
        "Iceberg Puffin",
        iceberg.read_deletion_vectors,
        PUFFIN,
        None,
        dict_of,
        from_end=True,
        limits={"max_vector_bytes": 9},
    ),
    Format("what is it", sniff, PUFFIN, framed=False),
    *(
        Format(
            f"Lance row ids, {name}",
            lance.decode_row_ids,
            bytes.fromhex(SEQUENCES[name]["hex"]),
            lambda value: value.encode(),
            numbers_of,
            framed=False,
        )
        for name in ("range", "tie-holes", "tie-bitmap", "holes-32", "sorted-32", "array-64")
    ),
    Format("Lance versions", lance.decode_versions, VERSIONS, lambda value: value.encode(), numbers_of, framed=False),
    Format(
        "Lance deletions, Arrow",
        lance.read_deletion_file,
        small(LANCE, "life/_deletions/*.arrow"),
        None,
        rows_of,
        from_end=True,
        limits={"max_vector_bytes": 100, "max_cardinality": 0},
    ),
    Format(
        "Lance deletions, bitmap",
        lance.read_deletion_file,
        BITMAP,
        None,
        rows_of,
        limits={"max_vector_bytes": 10, "max_cardinality": 0},
    ),
    Format(
        "Lance row addresses",
        lance.decode_row_addr_map,
        small(LANCE, "row-addresses-ids-*.bin"),
        lance.encode_row_addr_map,
        addresses_of,
        limits={"max_bitmaps": 0, "max_cardinality": 1},
    ),
    Format("Lance manifest", lance.read_manifest, MANIFEST, limits={"max_manifest_bytes": 100}),
    *(
        Format(
            f"zap segment {folder}",
            Segment.open,
            (ZAP / folder / "frequencies.zap").read_bytes(),
            None,
            segment_of,
            checksum=True,
            lazy=True,
        )
        for folder in (
            "zapx-11.4.3",
            "zapx-12.4.3",
            "zapx-13.4.3",
            "zapx-14.4.3",
            "zapx-15.4.3",
            "zapx-16.3.4",
            "zapx-17.2.3",
        )
    ),
    Format(
        "zap report",
        verify_segment,
        (ZAP / "zapx-15.4.3/none.zap").read_bytes(),
        None,
        lambda report: report.to_dict(),
        framed=False,
    ),
    Format(
        "vellum",
        lambda buf, limits=DEFAULT_LIMITS: Fst.open(Cursor(buf), limits),
        FST,
        None,
        terms,
        framed=False,
        limits={"max_keys": 1},
        lazy=True,
    ),
    Format("roaring 32", bitmap32, BITMAP),
    Format(
        "roaring 64",
        bitmap64,
        (DELTA / "border-32.portable").read_bytes()[4:],
        encode64,
        limits={"max_bitmaps": 0, "max_cardinality": 1},
    ),
]
WITH_CHECKSUM = [item for item in FORMATS if item.checksum]
WITHOUT = [item for item in FORMATS if not item.checksum]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("item", FORMATS, ids=lambda item: item.name)
def test_every_format_passes_the_battery(item: Format, check: str) -> None:
    CHECKS[check](item)


@pytest.mark.parametrize("item", WITH_CHECKSUM, ids=lambda item: item.name)
def test_every_single_bit_flip_is_found_or_harmless(
    item: Format, record_property: Callable[[str, object], None]
) -> None:
    found = flip_bits(item.value, item.data)
    record_property(FLIPS, list(found))
    assert found.refused + found.harmless == 8 * len(item.data)


@pytest.mark.parametrize("item", WITHOUT, ids=lambda item: item.name)
def test_without_a_checksum_a_flip_is_an_error_or_a_value(item: Format) -> None:
    found = flip_bits(item.value, item.data)
    assert sum(found) == 8 * len(item.data)


# ------------------------------------------------------------------------------------------- the battery itself


class Sloppy:
    """A value that does everything wrong; `fault` says what its decoder does."""

    def __init__(self, data: Any, fault: str) -> None:
        self.data = data if fault == "independence" else bytes(data)
        self.fault = fault
        self.first = True

    def read(self) -> Any:
        if self.fault == "threads" and self.first:
            self.first = False
            return object()
        return bytes(self.data)

    def __reduce__(self) -> Any:
        if self.fault == "pickling":
            return Sloppy, (b"", "none")
        return Sloppy, (self.data, self.fault)

    def __repr__(self) -> str:
        return object.__repr__(self) if self.fault == "repr and hash" else "Sloppy()"


def sloppy(fault: str) -> Format:
    def decode(buf: Any, *, limits: Limits = DEFAULT_LIMITS) -> Sloppy:
        if fault == "buffers":
            assert isinstance(buf, bytes | bytearray)
        if fault in ("cut anywhere", "bytes more", "buffers", "independence", "pickling", "threads", "repr and hash"):
            return Sloppy(buf, fault)
        return Sloppy(b"", fault)

    return Format("sloppy", decode, b"sound", lambda _: b"other", Sloppy.read, limits={"max_blobs": 0})


@pytest.mark.parametrize("check", CHECKS)
def test_the_battery_finds_what_it_looks_for(check: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception, BufferError)):
        CHECKS[check](sloppy(check))


def test_flips_that_nobody_finds_are_counted() -> None:
    assert flip_bits(bytes, b"\0\0") == (0, 0, 16)
    assert flip_bits(lambda data: data[:1], b"\0\0") == (0, 8, 8)
    assert flip_bits(iceberg.decode, iceberg.encode(RowSet([1])))[1:] == (0, 0)
