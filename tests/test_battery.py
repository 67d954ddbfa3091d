"""Every decoder through the battery, with a small real vector of each format."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amounts
from battery import CHECKS, Format, Without, flip_bits, lowered
from conftest import FLIPS
from dvcodec import RowSet, delta, describe, iceberg, lance, mumbling, paimon, puffin, read_rows, sniff
from dvcodec.core import avro, roaring
from dvcodec.core.cursor import Cursor
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.io import Storage
from dvcodec.tables.delta.log import Log
from dvcodec.tables.delta.replay import rebuild
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg.deletes import read_deletes
from dvcodec.tables.iceberg.entries import DELETES, Manifest, read_list, read_manifest
from dvcodec.tables.iceberg.metadata import read_metadata
from dvcodec.tables.paimon import manifests as paimon_manifests
from dvcodec.tables.paimon.metadata import parse_type, read_schema, read_snapshot
from dvcodec.tables.paimon.partition import decode_row
from dvcodec.tables.scorch.table import read_root
from dvcodec.zap import Segment, verify_segment
from dvcodec.zap.vellum import Fst, build
from fuzz.target import held
from samples import bitmaps
from samples.bolt import scorch_root
from samples.position_deletes import position_deletes

HERE = Path(__file__).parent / "vectors"
ICEBERG, DELTA = HERE / "iceberg/java-1.12.0", HERE / "delta/spark-4.4.0"
JAVA, PYTHON = HERE / "paimon/java-1.3.1", HERE / "paimon/pypaimon-2.1.0"
LANCE, ZAP, TABLES = HERE / "lance/pylance-14.0.2", HERE / "zap", HERE / "tables"


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
    found = roaring.walk64(cursor, limits=limits).load()
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
    encode = lance.encode_row_ids if isinstance(value, lance.RowIdSequence) else lance.encode_versions
    return value.to_numpy().tolist(), encode(value)


def addresses_of(value: lance.RowAddrMap) -> Any:
    return lance.encode_row_addr_map(value)


# ------------------------------------------------------------------------------------------------------- the formats

BORDER = RowSet([1, 5, (1 << 32) - 1, 1 << 32, (1 << 32) + 7])
SEQUENCES = {item["name"]: item for item in json.loads((LANCE / "manifest.json").read_text())["sequences"]}
VERSIONS = lance.encode_versions(lance.RowDatasetVersionSequence.from_versions(np.array([3] * 5 + [9] * 4, np.uint64)))
FST = build([b"abra", b"abracadabra", b"cadabra", b"dab"], np.array([1, 2, 300, 1 << 40], np.uint64))
BITMAP = bitmaps.bitmap(bitmaps.array(0, [1, 5, 9]), bitmaps.runs(3, [(2, 10), (100, 1)]))


def by_size(folder: Path, pattern: str) -> list[bytes]:
    """The files that match, smallest first."""
    return sorted((path.read_bytes() for path in folder.glob(pattern)), key=len)


def small(folder: Path, pattern: str) -> bytes:
    """The smallest of the files that match."""
    return by_size(folder, pattern)[0]


def vector(name: str, decode: Any, encode: Any, data: bytes) -> Format:
    """One framed vector; one without rows comes near one limit only."""
    low = {"max_vector_bytes": 3}
    if decode(data):
        low |= {"max_cardinality": 0}
    return Format(name, decode, data, encode, rows_of, checksum=True, limits=low)


def framed(path: Path) -> bytes:
    """Java's vector in the frame of a file."""
    data = path.read_bytes()
    return bitmaps.frame(data[:4], data[4:])


NAMES = ("alternating", "empty", "one-row", "run", "tie-array", "border-32")
PUFFIN = (ICEBERG / "one.puffin").read_bytes()
DELTA_FILE = b"\1" + b"".join(framed(DELTA / f"{name}.portable") for name in NAMES)
PAIMON_FILE = b"\1" + b"".join((PYTHON / f"{name}.dv").read_bytes() for name in ("alternating", "run", "one-row"))
AVRO = (JAVA / "index-manifest-0").read_bytes()
MANIFEST = small(LANCE, "life/_versions/*.manifest")
TRANSACTION = small(TABLES / "lance/pylance-14.0.2", "*/_transactions/*.txn")
PAIMON_ROW = (
    struct.pack(">i8xq", 3, 5) + b"abc".ljust(7, b"\0") + b"\x83" + struct.pack("<ii", 9, 32) + b"a longer " * 2
)
INLINE = delta.encode_inline(BORDER)
COUNTED = Without("it holds nothing that it does not spell: what it asks for is what it has")
EXPANDED = Without("what it stands for is expanded where a caller asks for rows, and says how many (max_rows)")
TEXT, PATH = Without("it takes text"), Without("it takes a path")
LOW_MANIFEST = {"max_metadata_bytes": 100}
LOW = {"max_vector_bytes": 10, "max_cardinality": 1}
PAIMON64 = partial(paimon.encode, layout="bitmap64")


def at(path: str, read: Callable[[], Any]) -> Callable[..., Any]:
    """A decoder of what lies at a path; it takes no limits, so these are lowered for all."""

    def decode(buf: Any, *, limits: Limits = DEFAULT_LIMITS) -> Any:
        with held({path: bytes(buf)}), lowered(limits):
            return read()

    return decode


def of_table(
    name: str, path: str, read: Callable[[], Any], data: bytes, *, low: int = 100, every: int = 1, lazy: bool = False
) -> Format:
    """Metadata of a table: whole files, read by their paths, whose size is bounded."""
    limits = {"max_metadata_bytes": low}
    return Format(name, at(path, read), data, framed=False, limits=limits, buffers=PATH, every=every, lazy=lazy)


FOLDER = Folder("/t", recorded="s3://lake/t")
LOG = "/t/_delta_log/00000000000000000000.json"
SPARK_ICEBERG, JAVA_PAIMON = TABLES / "iceberg/spark-1.12.0", TABLES / "paimon/java-1.4.2"


def iceberg_manifest() -> list[Any]:
    manifest = Manifest("m.avro", "/t/m.avro", 0, DELETES, 3, 7, encrypted=False)
    return list(read_manifest(manifest, (), FOLDER.locate, Storage()))


def delta_state() -> Any:
    state = rebuild(Folder("/t"), Log.from_names("/t/_delta_log", [LOG.rpartition("/")[2]]), 0)
    return state.protocol, state.metadata, dict(state.files), state.transactions, state.checks


def tables() -> Iterator[Format]:
    """What whole tables keep beside vectors and data."""
    metadata = small(SPARK_ICEBERG, "*/table/metadata/*.metadata.json")
    path = "/t/m.json"
    yield of_table("Iceberg metadata", path, lambda: read_metadata("/t/m.json", Storage()), metadata, every=13)
    packed = gzip.compress(metadata, mtime=0)
    yield of_table(
        "Iceberg metadata, gzip", path, lambda: read_metadata("/t/m.json", Storage()), packed, low=len(packed), every=13
    )
    data = small(SPARK_ICEBERG, "*/table/metadata/snap-*.avro")
    yield of_table(
        "Iceberg manifest list", "/t/l.avro", lambda: read_list("/t/l.avro", FOLDER.locate, Storage()), data, every=61
    )
    data = next(data for data in by_size(SPARK_ICEBERG, "*/table/metadata/*-m[0-9].avro") if b"deletes" in data)
    yield of_table("Iceberg manifest", "/t/m.avro", iceberg_manifest, data, every=61)
    for kind in ("parquet", "avro", "orc"):
        yield Format(
            f"Iceberg position deletes, {kind}",
            at("/t/d", lambda kind=kind: read_deletes("/t/d", kind, 5, Storage())),  # type: ignore[misc]
            position_deletes(kind),
            read=lambda found: (found.count, dict_of(found.rows)),
            framed=False,
            limits=LOW_MANIFEST if kind == "avro" else Without("Arrow reads it; rows are counted by the manifest"),
            buffers=PATH,
            every=1 if kind == "avro" else 23,
        )
    commit = small(TABLES / "delta/spark-4.4.0", "*/table/_delta_log/00000000000000000000.json")
    yield of_table("Delta log", LOG, delta_state, commit, every=3)
    path, data = "/t/snapshot/snapshot-1", small(JAVA_PAIMON, "*/table/snapshot/snapshot-1")
    yield of_table("Paimon snapshot", path, lambda: read_snapshot(Folder("/t"), "snapshot/snapshot-1"), data)
    data = small(JAVA_PAIMON, "*/table/schema/schema-0")
    yield of_table("Paimon schema", "/t/schema/schema-0", lambda: read_schema(Folder("/t"), 0), data)
    for what, pattern, read in (
        ("manifest list", "manifest-list-*", paimon_manifests.read_manifest_list),
        ("manifest", "manifest-[0-9a-f]*", lambda folder, name: list(paimon_manifests.read_manifest(folder, name))),
    ):
        data = small(JAVA_PAIMON, f"*/table/manifest/{pattern}")
        yield of_table(f"Paimon {what}", "/t/manifest/m", partial(read, Folder("/t"), "m"), data, every=13)
    yield of_table(
        "scorch root",
        "/t/root.bolt",
        lambda: read_root("/t/root.bolt", Storage()),
        scorch_root(BITMAP),
        lazy=True,
        every=31,
    )


def paimon_row(buf: Any) -> tuple[object, ...]:
    """A serialized row of an integer, a short text and a long one."""
    types = [parse_type(kind, source="s", what="c") for kind in ("BIGINT", "STRING", "STRING")]
    return tuple(decode_row(bytes(buf), types, source="s", what="row"))


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
    vector("Paimon 64-bit", paimon.decode, PAIMON64, PAIMON64(BORDER)),
    *(
        Format(
            f"Mumbling, {name}",
            mumbling.decode,
            mumbling.encode(rows),
            mumbling.encode,
            rows_of,
            limits={"max_vector_bytes": 3, "max_cardinality": 0},
        )
        for name, rows in (
            ("sparse", RowSet([1, 5, 600])),
            ("dense", RowSet(range(250, 400))),
            ("exceptions", RowSet([3, *range(700, 730), *range(40_000, 200_000, 150)])),
        )
    ),
    Format("whatever it is", read_rows, framed(DELTA / "run.native"), None, dict_of, checksum=True, limits=LOW),
    Format("whatever it is, described", describe, framed(DELTA / "run.native"), checksum=True, limits=LOW),
    Format(
        "Delta inline",
        inline,
        INLINE.path_or_inline_dv.encode(),
        lambda rows: delta.encode_inline(rows).path_or_inline_dv.encode(),
        rows_of,
        framed=False,
        limits={"max_cardinality": 1},
        buffers=TEXT,
    ),
    Format(
        "Delta descriptor",
        lambda buf: delta.Descriptor.from_json(bytes(buf)),
        INLINE.to_json().encode(),
        lambda found: found.to_json().encode(),
        limits=COUNTED,
        buffers=TEXT,
    ),
    Format(
        "Delta file",
        delta.load_frames,
        DELTA_FILE,
        None,
        dict_of,
        checksum=True,
        framed=False,
        limits={"max_records": 1, "max_vector_bytes": 10, "max_cardinality": 1},
    ),
    Format(
        "Paimon index file",
        paimon.load_frames,
        PAIMON_FILE,
        None,
        dict_of,
        checksum=True,
        framed=False,
        limits={"max_records": 1, "max_vector_bytes": 10},
    ),
    Format(
        "Paimon hash index",
        paimon.decode_hash_index,
        (JAVA / "hashes-0").read_bytes(),
        paimon.encode_hash_index,
        lambda value: value.tolist(),
        framed=False,
        limits=COUNTED,
    ),
    Format("Paimon index manifest", paimon.read_index_manifest, AVRO, framed=False, limits=LOW_MANIFEST),
    Format("Paimon row", paimon_row, PAIMON_ROW, framed=False, limits=COUNTED, buffers=Without("it takes bytes alone")),
    Format("Avro", records, AVRO, framed=False, limits=LOW_MANIFEST),
    Format("Puffin", blobs, PUFFIN, framed=False, limits={"max_metadata_bytes": 20, "max_records": 0}),
    Format("Puffin footer", footer, PUFFIN, from_end=True, limits={"max_metadata_bytes": 20}),
    Format(
        "Iceberg Puffin",
        iceberg.read_deletion_vectors,
        PUFFIN,
        None,
        dict_of,
        from_end=True,
        limits={"max_vector_bytes": 9},
    ),
    Format("what is it", sniff, PUFFIN, framed=False, limits={"max_metadata_bytes": 20}),
    *(
        Format(
            f"Lance row ids, {name}",
            lance.decode_row_ids,
            bytes.fromhex(SEQUENCES[name]["hex"]),
            lance.encode_row_ids,
            numbers_of,
            framed=False,
            limits=EXPANDED,
        )
        for name in ("range", "tie-holes", "tie-bitmap", "holes-32", "sorted-32", "array-64")
    ),
    Format(
        "Lance versions",
        lance.decode_versions,
        VERSIONS,
        lance.encode_versions,
        numbers_of,
        framed=False,
        limits=EXPANDED,
    ),
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
        limits={"max_cardinality": 1},
    ),
    Format("Lance manifest", lance.read_manifest, MANIFEST, limits=LOW_MANIFEST),
    Format("Lance transaction", lance.read_operation, TRANSACTION, framed=False, limits={"max_metadata_bytes": 10}),
    *tables(),
    *(
        Format(
            f"zap segment {folder.name}",
            Segment.open,
            (folder / "frequencies.zap").read_bytes(),
            None,
            segment_of,
            checksum=True,
            lazy=True,
            limits=Without("each byte of a segment allows a key, and a byte of one"),
        )
        for folder in sorted(ZAP.glob("zapx-*"))
    ),
    Format(
        "zap report",
        verify_segment,
        (ZAP / "zapx-15.4.3/none.zap").read_bytes(),
        None,
        lambda report: report.to_dict(),
        framed=False,
        limits=Without("what the limits refuse is a finding of the report"),
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
    Format("roaring 32", bitmap32, BITMAP, limits=Without("2**32 rows at most, which are counted by its callers")),
    Format(
        "roaring 64", bitmap64, (DELTA / "border-32.portable").read_bytes()[4:], encode64, limits={"max_cardinality": 1}
    ),
]
WITH_CHECKSUM = [item for item in FORMATS if item.checksum]
WITHOUT = [item for item in FORMATS if not item.checksum]


@pytest.mark.parametrize("item", FORMATS, ids=lambda item: item.name)
def test_every_format_passes_the_battery(item: Format) -> None:
    for check in CHECKS.values():
        check(item)


@pytest.mark.parametrize("item", WITH_CHECKSUM, ids=lambda item: item.name)
def test_every_single_bit_flip_is_found_or_harmless(
    item: Format, record_property: Callable[[str, object], None]
) -> None:
    found = flip_bits(item.value, item.data)
    record_property(FLIPS, list(found))
    assert found.refused + found.harmless == 8 * len(item.data)


@pytest.mark.parametrize("item", WITHOUT, ids=lambda item: item.name)
def test_without_a_checksum_a_flip_is_an_error_or_a_value(item: Format) -> None:
    every = item.every * amounts.of(3, 1)
    found = flip_bits(item.value, item.data, every=every)
    assert sum(found) == len(range(0, 8 * len(item.data), every))
