"""What a metadata file costs is bounded by its size: twice the input, at most twice the work and the memory.

Work is counted in calls of functions, and memory in bytes that Python allocates, so that the machine has no say.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from battery import lowered
from calls import calls_of
from dvcodec import (
    CardinalityMismatch,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    Unsupported,
    delta,
    iceberg,
    paimon,
    puffin,
)
from dvcodec.core.cursor import Cursor
from dvcodec.core.limits import Budget
from dvcodec.iceberg import read_position_deletes
from dvcodec.io import Storage, open_source
from dvcodec.lance import decode_row_addr_map, decode_row_ids, decode_versions, read_deletion_file, read_operation
from dvcodec.lance.deletions import encode_deletion_file
from dvcodec.lance.manifest import read_manifest as read_lance
from dvcodec.paimon.manifest import SCHEMA as INDEX_SCHEMA
from dvcodec.tables.avro_rows import open_avro_rows
from dvcodec.tables.delta.actions import AddFile, parse_lines
from dvcodec.tables.delta.checkpoint import read_checkpoint
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg.deletes import read_deletes
from dvcodec.tables.iceberg.manifest_list import Manifest, read_list
from dvcodec.tables.iceberg.manifests import read_manifest
from dvcodec.tables.iceberg.metadata import read_members
from dvcodec.tables.paimon.manifests import read_manifest as paimon_manifest
from dvcodec.tables.paimon.manifests import read_manifest_list
from dvcodec.tables.paimon.metadata import read_schema, read_snapshot
from dvcodec.tables.parquet import open_metadata, physical_batches
from dvcodec.tables.scorch.bolt import read_bolt
from dvcodec.zap import Segment
from dvcodec.zap.vellum import Fst, build
from samples import avro, bitmaps
from samples.bolt import Bolt
from samples.lance import field
from samples.zap.segments import minimal

pytest.importorskip("fastavro")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
orc = pytest.importorskip("pyarrow.orc")

LITTLE = Limits(max_base_work=2**16)
"""So that a few records are a bomb."""


def fields_of(*fields: tuple[str, Any, int]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": f"r{fields[0][2] if fields else 0}",
        "fields": [{"name": name, "type": kind, "field-id": number} for name, kind, number in fields],
    }


POSITION_DELETE = fields_of(("file_path", "string", 2147483546), ("pos", "long", 2147483545))
FILE = fields_of(
    ("content", "int", 134),
    ("file_path", "string", 100),
    ("file_format", "string", 101),
    ("partition", {"type": "record", "name": "p", "fields": []}, 102),
    ("record_count", "long", 103),
    ("file_size_in_bytes", "long", 104),
)
ENTRY = fields_of(("status", "int", 0), ("snapshot_id", "long", 1), ("data_file", FILE, 2))
DATA_FILE = avro.zigzag(1) * 2 + avro.zigzag(0) + avro.sized(b"a") + avro.sized(b"b") + avro.zigzag(1) * 2
INDEX = {
    "_VERSION": 1,
    "_KIND": 0,
    "_PARTITION": b"",
    "_BUCKET": 0,
    "_INDEX_TYPE": "D",
    "_FILE_NAME": "a",
    "_FILE_SIZE": 1,
    "_ROW_COUNT": 1,
}
NAMES = fields_of(("_VERSION", "int", 0), ("_FILE_NAME", "string", 1))


BOUND = fields_of(("key", "int", 126), ("value", "bytes", 127))
BOUNDED = fields_of(
    ("status", "int", 0),
    ("snapshot_id", "long", 1),
    (
        "data_file",
        FILE | {"fields": [*FILE["fields"], {"name": "b", "type": {"type": "array", "items": BOUND}, "field-id": 125}]},
        2,
    ),
)
LISTS = fields_of(("a", {"type": "array", "items": "int", "element-id": 2}, 1))


def avro_file(schema: Any, records: bytes, count: int, codec: str) -> bytes:
    return avro.header(schema, codec) + avro.block(count, avro.packed(records, codec))


def iceberg_manifest(path: Path) -> object:
    listed = Manifest(str(path), str(path), 0, 0, 1, 1, encrypted=False)
    return read_manifest(listed, (), lambda name: name, storage=Storage())


def index_records(count: int) -> bytes:
    return avro.records(INDEX_SCHEMA, INDEX) * count


def items(count: int, item: bytes) -> bytes:
    return avro.zigzag(count) + item * count + avro.zigzag(0)


def index_of_vectors(count: int) -> bytes:
    """Vectors of as many data files, 50 in a file."""
    ranges = [{"f0": f"{i:x}", "f1": 0, "f2": 0, "_CARDINALITY": None} for i in range(50)]
    record = avro.records(INDEX_SCHEMA, INDEX | {"_DELETIONS_VECTORS_RANGES": ranges})
    files = -(-count // 5)
    return avro_file(INDEX_SCHEMA, record * files, files, "zstandard")


def bounds_of_columns(count: int) -> bytes:
    """Ten bounds for each, 200 in an entry."""
    entries = -(-count // 20)
    return avro_file(BOUNDED, (DATA_FILE + items(200, bytes(2))) * entries, entries, "deflate")


def rows_of_lists(count: int) -> bytes:
    rows = -(-count // 10)
    return avro_file(LISTS, items(200, bytes(1)) * rows, rows, "deflate")


def read_lists(path: Path) -> object:
    with open_avro_rows(str(path), Storage()) as file:
        return sum(batch.num_rows for _, batch in file.read(["a"], 1 << 16, ()))


def delta_log(path: Path) -> object:
    return [AddFile.parse(action) for action in parse_lines(path.read_bytes(), "log")]


def bolt(path: Path) -> object:
    with open_source(path) as source:
        return read_bolt(source)


def lance_manifest(count: int) -> bytes:
    body = field(2) * count
    return len(body).to_bytes(4, "little") + body + bytes(8) + bytes((0, 0, 2, 0)) + b"LANC"


def by_bytes(decode: Callable[[bytes], object]) -> Callable[[Path], object]:
    return lambda path: decode(path.read_bytes())


def far_apart(count: int) -> bytes:
    """A container for every row: ten bytes."""
    return iceberg.encode(RowSet(np.arange(count) << 16))


def lance_bitmap(count: int) -> bytes:
    return encode_deletion_file(RowSet(np.arange(count) << 16), "bin")


def puffin_file(count: int) -> bytes:
    blob = {"type": "a", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": 1}
    payload = json.dumps({"blobs": [blob] * count}, separators=(",", ":")).encode()
    return b"PFA1" + b"PFA1" + payload + len(payload).to_bytes(4, "little") + bytes(4) + b"PFA1"


def placed(name: str, read: Callable[[Folder], object]) -> Callable[[Path], object]:
    """A reader of a file of that name in a table's folder: the file has it too."""

    def at(path: Path) -> object:
        place = path.parent / f"{path.stem}-table" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.hardlink_to(path)
        return read(Folder(str(path.parent / f"{path.stem}-table")))

    return at


LISTED = fields_of(("manifest_path", "string", 500), ("partition_spec_id", "int", 502))
PAIMON_FILE = {
    "type": "record",
    "name": "file",
    "fields": [
        {"name": "_FILE_NAME", "type": "string"},
        *({"name": name, "type": "long"} for name in ("_FILE_SIZE", "_ROW_COUNT", "_SCHEMA_ID")),
        {"name": "_LEVEL", "type": "int"},
        {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
    ],
}
PAIMON_ENTRY = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_FILE", "type": PAIMON_FILE},
    ],
}
PAIMON_RECORD = avro.zigzag(2) + bytes(3) + avro.sized(b"a") + avro.zigzag(1) * 2 + bytes(3)
DELETES = fields_of(("file_path", "string", 2147483546), ("pos", "long", 2147483545))
ROWS = fields_of(("a", "int", 1))


def listed(count: int, record: Callable[[bytes], bytes], schema: Any) -> bytes:
    """A list of files, each named once."""
    return avro_file(schema, b"".join(record(b"%x" % i) for i in range(count)), count, "null")


def paimon_schema(count: int) -> bytes:
    fields = [{"id": i, "name": f"f{i}", "type": "INT"} for i in range(count)]
    members = {"version": 3, "id": 0, "fields": fields, "highestFieldId": count, "partitionKeys": [], "primaryKeys": []}
    return json.dumps({**members, "options": {}, "timeMillis": 1}, separators=(",", ":")).encode()


def paimon_snapshot(count: int) -> bytes:
    names = {"baseManifestList": "a", "deltaManifestList": "b", "commitKind": "APPEND", "commitUser": "u"}
    members = {"version": 3, "id": 1, "schemaId": 0, **names, "commitIdentifier": 1, "timeMillis": 1}
    return json.dumps({**members, "properties": {f"{i:x}": "" for i in range(count)}}, separators=(",", ":")).encode()


def plain_parquet(columns: Any) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), out, use_dictionary=False, compression="none", write_statistics=False)
    return bytes(out.getvalue())


def plain_checkpoint(count: int) -> bytes:
    kind = pa.struct([("path", pa.string()), ("size", pa.int64())])
    return plain_parquet({"add": pa.array([{"path": "a", "size": 1}] * count, kind)})


def plain_deletes(count: int) -> bytes:
    return plain_parquet({"file_path": ["a"] * count, "pos": pa.array(range(count), pa.int64())})


def deletes_of(kind: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        count = 0 if kind == "avro" else pq.ParquetFile(path).metadata.num_rows
        with suppress(CardinalityMismatch):
            return read_deletes(str(path), kind, count, Storage())
        return None

    return read


def avro_rows(path: Path) -> object:
    with open_avro_rows(str(path), Storage()) as file:
        return sum(batch.num_rows for _, batch in file.read(["a"], 1 << 16, ()))


def plain_arrow(count: int) -> bytes:
    return encode_deletion_file(RowSet(range(0, 2 * count, 2)), "arrow")


def addresses(count: int) -> bytes:
    one = bitmaps.bitmap(bitmaps.array(0, [1]))
    return struct.pack("<I", count) + b"".join(struct.pack("<II", i, len(one)) + one for i in range(count))


def inline(path: Path) -> object:
    return delta.Descriptor.from_json(path.read_bytes()).unique_id, delta.load(
        delta.Descriptor.from_json(path.read_bytes()), "t"
    )


def zap_segment(count: int, *, docs: int = 1, fields: int = 0, terms: int = 0) -> bytes:
    """A segment with so many documents, fields or terms (of one document each)."""
    made = minimal(15, docs * count if docs > 1 else 1)
    for i in range(fields * count):
        made.field(f"{i:x}")
    if terms:
        made.field("t", made.dictionary({b"%06x" % i: made.postings([0]) for i in range(terms * count)}))
    return made.finish()


def zap_table(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        with Segment.open(path, verify_checksum=False) as segment:
            return sum(batch.num_rows for batch in segment.to_arrow(name))

    return read


def fst(count: int) -> bytes:
    """Keys that share few states: what those of one dictionary share is charged where a segment opens it."""
    chance = random.Random(1)
    return build(sorted(chance.randbytes(6) for _ in range(count)), np.arange(count, dtype=np.uint64))


class Decoder(NamedTuple):
    """A decoder of metadata.

    Attributes:
        make: gives a file of so many of the smallest things that it can hold.
        read: reads it.
        memory: c: bytes of memory for each byte of the file, at most.
        calls: c: calls of functions for each byte of the file, at most.
    """

    make: Callable[[int], bytes]
    read: Callable[[Path], object]
    memory: int
    calls: int


STORED = {
    "iceberg manifest": Decoder(lambda n: avro_file(ENTRY, DATA_FILE * n, n, "null"), iceberg_manifest, 100, 8),
    "paimon index manifest": Decoder(
        lambda n: avro_file(INDEX_SCHEMA, index_records(n), n, "null"), paimon.read_index_manifest, 40, 4
    ),
    "delta commit": Decoder(lambda n: b'{"add":{"path":"a","size":1,"partitionValues":{}}}\n' * n, delta_log, 40, 2),
    "iceberg metadata": Decoder(
        lambda n: b'{"a":[' + b'{"b":123456789},' * n + b"1]}", lambda path: read_members(str(path), Storage()), 40, 1
    ),
    "lance manifest": Decoder(lance_manifest, read_lance, 200, 30),
    "vector": Decoder(far_apart, by_bytes(iceberg.decode), 40, 1),
    "file of vectors": Decoder(lambda n: b"\1" + delta.encode(RowSet([1])) * n, delta.load_frames, 40, 2),
    "puffin footer": Decoder(puffin_file, puffin.decode_footer, 40, 1),
    "hash index": Decoder(lambda n: bytes(4 * n), by_bytes(paimon.decode_hash_index), 40, 1),
    "lance deletions": Decoder(lance_bitmap, read_deletion_file, 40, 1),
    "lance row ids": Decoder(lambda n: bytes.fromhex("0a020a00") * n, by_bytes(decode_row_ids), 200, 30),
    "lance versions": Decoder(lambda n: bytes.fromhex("0a060a040a021001") * n, by_bytes(decode_versions), 200, 30),
    "lance transaction": Decoder(lambda n: bytes.fromhex("aa0600") * n, read_operation, 40, 30),
    "iceberg manifest list": Decoder(
        lambda n: listed(n, lambda name: avro.sized(name) + avro.zigzag(0), LISTED),
        lambda path: read_list(str(path), str, Storage()),
        100,
        8,
    ),
    "paimon manifest": Decoder(
        lambda n: avro_file(PAIMON_ENTRY, PAIMON_RECORD * n, n, "null"),
        placed("manifest/m", lambda folder: paimon_manifest(folder, "m")),
        100,
        8,
    ),
    "paimon manifest list": Decoder(
        lambda n: listed(n, lambda name: avro.zigzag(2) + avro.sized(name), NAMES),
        placed("manifest/m", lambda folder: read_manifest_list(folder, "m")),
        100,
        8,
    ),
    "paimon snapshot": Decoder(
        paimon_snapshot,
        placed("snapshot/snapshot-1", lambda folder: read_snapshot(folder, "snapshot/snapshot-1")),
        40,
        1,
    ),
    "paimon schema": Decoder(paimon_schema, placed("schema/schema-0", lambda folder: read_schema(folder, 0)), 40, 2),
    "delta checkpoint": Decoder(
        plain_checkpoint,
        placed("_delta_log/c.parquet", lambda folder: list(read_checkpoint(folder, ("c.parquet",), 0))),
        100,
        2,
    ),
    "position deletes, Parquet": Decoder(plain_deletes, deletes_of("parquet"), 40, 1),
    "position deletes, Avro": Decoder(
        lambda n: avro_file(DELETES, (avro.sized(b"a") + avro.zigzag(1)) * n, n, "null"), deletes_of("avro"), 200, 4
    ),
    "avro rows": Decoder(lambda n: avro_file(ROWS, bytes(n), n, "null"), avro_rows, 500, 8),
    "inline vector": Decoder(
        lambda n: delta.encode_inline(RowSet(np.arange(n) << 16)).to_json().encode(), inline, 40, 1
    ),
    "lance deletions, Arrow": Decoder(plain_arrow, read_deletion_file, 40, 1),
    "lance row addresses": Decoder(addresses, by_bytes(decode_row_addr_map), 60, 10),
    "zap fields": Decoder(lambda n: zap_segment(n, fields=1), zap_table("fields"), 60, 8),
    "zap stored": Decoder(lambda n: zap_segment(n, docs=2), zap_table("stored"), 40, 1),
    "zap postings": Decoder(lambda n: zap_segment(n, terms=1), zap_table("postings"), 60, 1),
    "vellum": Decoder(fst, lambda path: Fst.open(Cursor(path.read_bytes()), Limits()).to_block(), 100, 2),
    "root.bolt": Decoder(lambda n: Bolt({i.to_bytes(4, "big"): b"" for i in range(n)}).data(), bolt, 40, 2),
}
"""Files that are stored as they are, of their format's cheapest bytes."""


def cost(decoder: Decoder, count: int, path: Path) -> tuple[int, int, int]:
    """The bytes of a file, and what reading it takes: bytes of memory, and calls of functions."""
    path.write_bytes(decoder.make(count))
    decoder.read(path)  # what is imported and cached
    tracemalloc.start()
    decoder.read(path)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return path.stat().st_size, memory, calls_of(lambda: decoder.read(path))


@pytest.mark.parametrize("name", STORED)
def test_twice_the_input_is_at_most_twice_the_work(name: str, tmp_path: Path) -> None:
    decoder = STORED[name]
    size, memory, calls = cost(decoder, 400, tmp_path / "once.metadata.json")
    larger, more_memory, more_calls = cost(decoder, 800, tmp_path / "twice.metadata.json")
    grown = larger - size
    assert grown > 0
    # The difference of the two has no constant part.
    assert more_calls - calls <= decoder.calls * grown, (more_calls - calls) / grown
    assert more_memory - memory <= decoder.memory * grown, (more_memory - memory) / grown


def main(folder: Path) -> None:
    """Print the table of factors: ``PYTHONPATH=tests python -m limits.test_work FOLDER``."""
    print("| decoder | memory | calls | time |\n| --- | --- | --- | --- |")
    for name, decoder in STORED.items():
        once, twice = (cost(decoder, count, folder / f"{count}.metadata.json") for count in (2000, 4000))
        grown = twice[0] - once[0]
        took = []
        for count in (2000, 4000):
            path = folder / f"{count}.metadata.json"
            best = 9.0
            for _ in range(5):
                start = time.process_time()
                decoder.read(path)
                best = min(best, time.process_time() - start)
            took.append(best)
        memory, calls = ((twice[i] - once[i]) / grown for i in (1, 2))
        micros = max(took[1] - took[0], 0) * 1e6 / grown
        print(f"| {name} | {memory:.1f} bytes | {calls:.2f} | {micros:.2f} µs |", flush=True)


def zipped(path: Path) -> object:
    return read_members(str(path), Storage())


def checkpoint(count: int) -> bytes:
    kind = pa.struct([("path", pa.string()), ("size", pa.int64())])
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"add": pa.array([{"path": "a", "size": 1}] * count, kind)}), out, compression="zstd")
    return bytes(out.getvalue())


def position_deletes(count: int) -> bytes:
    """One row whose path is long: pages of kilobytes unpack to megabytes."""
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"file_path": ["a" * 400 * count], "pos": [1]}), out, compression="zstd")
    return bytes(out.getvalue())


def repeated_positions(count: int) -> bytes:
    """Runs of equal values take a few bytes, however long they are."""
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"file_path": ["a"] * 80 * count, "pos": [1] * 80 * count}), out)
    return bytes(out.getvalue())


def repeated_orc(count: int) -> bytes:
    """The same in ORC."""
    out = pa.BufferOutputStream()
    orc.write_table(pa.table({"file_path": ["a"] * 80 * count, "pos": [1] * 80 * count}), out, compression="zstd")
    return bytes(out.getvalue())


def long_orc(count: int) -> bytes:
    """Paths that are long and different: a few kilobytes unpack to 400 bytes for each of `count`."""
    out = pa.BufferOutputStream()
    paths = [f"{i:06d}" + "a" * 40_000 for i in range(count // 100 + 1)]
    orc.write_table(pa.table({"file_path": paths, "pos": [1] * len(paths)}), out, compression="zstd")
    return bytes(out.getvalue())


def avro_deletes(count: int) -> bytes:
    return avro_file(POSITION_DELETE, (avro.sized(b"a") + avro.zigzag(1)) * 8 * count, 8 * count, "zstandard")


def deletes_as(file_format: str) -> Callable[[Path], object]:
    """Reads position deletes, however many rows they have."""

    def read(path: Path) -> object:
        with suppress(CardinalityMismatch):
            read_deletes(str(path), file_format, 0, Storage())
        return None

    return read


def spark_manifest(count: int) -> bytes:
    """Rows that a few bytes repeat."""
    pytest.importorskip("pyspark")
    from dvcodec.spark.sources.manifest import SCHEMA

    out = pa.BufferOutputStream()
    pq.write_table(pa.table({column.name: pa.array([None] * 100 * count, column.type) for column in SCHEMA}), out)
    return bytes(out.getvalue())


def read_spark_manifest(path: Path) -> object:
    from dvcodec.spark.sources import manifest

    named = path.with_name(f"_manifest-{'0' * 32}.parquet")
    named.write_bytes(path.read_bytes())
    return manifest.read_manifest(str(named))


def arrow_deletions(count: int) -> bytes:
    rows = pa.record_batch(
        [pa.array([1] * 40 * count, pa.uint32())], pa.schema([pa.field("row_id", pa.uint32(), False)])
    )
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
        file.write_batch(rows)
    return bytes(out.getvalue())


def read_log_checkpoint(path: Path) -> object:
    log = path.parent / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / "c.parquet").write_bytes(path.read_bytes())
    return list(read_checkpoint(Folder(str(path.parent)), ("c.parquet",), 0))


BOMBS: dict[str, tuple[Callable[[int], bytes], Callable[[Path], object]]] = {
    "iceberg manifest": (lambda n: avro_file(ENTRY, DATA_FILE * n, n, "deflate"), iceberg_manifest),
    "paimon index manifest": (
        lambda n: avro_file(INDEX_SCHEMA, index_records(n), n, "zstandard"),
        paimon.read_index_manifest,
    ),
    "vectors of a paimon index manifest": (index_of_vectors, paimon.read_index_manifest),
    "bounds of an iceberg manifest": (bounds_of_columns, iceberg_manifest),
    "lists of an Avro data file": (rows_of_lists, read_lists),
    "delta checkpoint": (checkpoint, read_log_checkpoint),
    "pages of position deletes": (position_deletes, read_position_deletes),
    "rows of position deletes": (repeated_positions, read_position_deletes),
    "rows of position deletes in ORC": (repeated_orc, deletes_as("orc")),
    "paths of position deletes in ORC": (long_orc, deletes_as("orc")),
    "rows of position deletes in Avro": (avro_deletes, deletes_as("avro")),
    "manifest of a Spark write": (spark_manifest, read_spark_manifest),
    "lance deletions": (arrow_deletions, read_deletion_file),
    "gzip metadata": (lambda n: gzip.compress(b'{"a":[' + b'"aaaaaaaaaaaaaa",' * 40 * n + b"1]}"), zipped),
}
"""Files of kilobytes that are made into much more."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_anything_is_made_of_it(name: str, tmp_path: Path) -> None:
    make, read = BOMBS[name]
    path = tmp_path / "v1.metadata.json.gz"
    peaks = []
    with lowered(LITTLE):
        path.write_bytes(make(20))
        read(path)
        for count in (6_000, 12_000):
            path.write_bytes(make(count))
            tracemalloc.start()
            with pytest.raises(LimitExceeded, match=r"work for .* \(Limits\.max_base_work and max_work_per_byte\)"):
                read(path)
            peaks.append(tracemalloc.get_traced_memory()[1] / count)
            tracemalloc.stop()
    # The content may be there, at most four times; not a record of it.
    assert max(peaks) <= 4 * 17 * 40


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_with_the_limits_that_callers_have(name: str, tmp_path: Path) -> None:
    """Kilobytes, which would be made into a hundred thousand things. At most three times the budget is in memory."""
    make, read = BOMBS[name]
    why = r"work for .* \(Limits\.max_base_work and max_work_per_byte\)"
    if "ORC" in name:  # its reader may need more than that for the first rows already
        why += "|memory to decode ORC"
    path = tmp_path / "v1.metadata.json.gz"
    path.write_bytes(make(100_000))
    size = path.stat().st_size
    assert size < 200_000
    tracemalloc.start()
    with pytest.raises(LimitExceeded, match=why):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 3 * (2**24 + 256 * size)


def test_a_decimal_in_a_manifest_is_not_computed(tmp_path: Path) -> None:
    """A number of a million bytes is quadratic work; nothing in a manifest needs it as a number."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0}
    path = tmp_path / "m"
    digits = avro.sized(b"\1" + b"7" * 2**20)
    index = INDEX_SCHEMA | {"fields": [*INDEX_SCHEMA["fields"], {"name": "x", "type": decimal}]}
    path.write_bytes(avro_file(index, index_records(1) + digits, 1, "deflate"))
    assert path.stat().st_size < 5_000
    with pytest.raises(Unsupported, match="x of entry 0"):
        paimon.read_index_manifest(path)
    file = FILE | {"fields": [*FILE["fields"], {"name": "x", "type": decimal, "field-id": 999}]}
    entry = fields_of(("status", "int", 0), ("snapshot_id", "long", 1), ("data_file", file, 2))
    path.write_bytes(avro_file(entry, DATA_FILE + digits, 1, "deflate"))
    assert len(iceberg_manifest(path)) == 1  # type: ignore[arg-type]


def test_a_table_of_a_million_files_is_within_the_budget() -> None:
    """What a file takes at least where writers number their names: 12 bytes of a compressed manifest."""
    budget = Budget(12 * 10**6, "m")
    budget.charge((Budget.RECORD + 500) * 10**6, "records")
    with pytest.raises(LimitExceeded, match=r"m at byte 7: work for records"):
        budget.charge(3 * 10**9, "records", 7)


def test_a_value_that_every_row_repeats_is_read_in_small_batches(tmp_path: Path) -> None:
    """A dictionary stores it once, and a batch has it in every row."""
    path = tmp_path / "a.parquet"
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * 3000), ["a" * 2**18])
    pq.write_table(pa.table({"path": paths}), path, store_schema=False)
    most = 2**24 + 256 * path.stat().st_size
    with open_metadata(str(path), Storage(), 1) as (_, batch_rows, _):
        assert most // 2 < batch_rows * 2**18 <= most
    with open_metadata(str(path), Storage(), 1, dictionary="path") as (file, batch_rows, _):
        batch = next(batch for _, batch in physical_batches(file, ["path"], batch_rows=batch_rows))
        assert batch.nbytes < 2**19


def test_numbers_that_rows_repeat_are_read_in_large_batches(tmp_path: Path) -> None:
    """Most writers have a dictionary of the positions, too; batches of 128 rows took a hundred times as long."""
    path = tmp_path / "a.parquet"
    columns = {"file_path": ["a"] * 100_000, "pos": range(100_000), "mod": pa.array(range(100_000), pa.timestamp("us"))}
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(pq.read_metadata(path).row_group(0).column(1).encodings)
    with open_metadata(str(path), Storage(), 1, batch_rows=1 << 16) as (_, batch_rows, _):
        assert batch_rows == 1 << 16


def test_a_list_names_a_manifest_once(tmp_path: Path) -> None:
    folder = tmp_path / "manifest"
    folder.mkdir()
    for names in (b"ab", b"aa"):
        records = b"".join(avro.zigzag(2) + avro.sized(bytes([name])) for name in names)
        (folder / "list").write_bytes(avro_file(NAMES, records, 2, "null"))
        if names == b"ab":
            assert read_manifest_list(Folder(str(tmp_path)), "list") == ["a", "b"]
    with pytest.raises(NotCanonical, match="expected each manifest once, found 'a' twice"):
        read_manifest_list(Folder(str(tmp_path)), "list")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
