"""What a file costs grows with its size and not faster: twice the input, twice the work and the memory.

Work is counted in calls of functions, and memory in bytes that Python allocates, so that the machine has no say.
"""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calls import calls_of
from dvcodec import (
    CardinalityMismatch,
    Limits,
    RowSet,
    delta,
    iceberg,
    puffin,
)
from dvcodec.core.cursor import Cursor
from dvcodec.io import Storage, open_source
from dvcodec.lance import decode_row_addr_map, decode_row_ids, decode_versions
from dvcodec.lance.manifest import read_manifest as read_lance
from dvcodec.tables.delta.actions import read_batches
from dvcodec.tables.delta.log import AddFile, parse_lines
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg.deletes import read_deletes
from dvcodec.tables.iceberg.entries import Manifest, read_list, read_manifest
from dvcodec.tables.iceberg.metadata import read_members
from dvcodec.tables.paimon.manifests import read_manifest as paimon_manifest
from dvcodec.tables.paimon.metadata import read_schema
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


def fields_of(*fields: tuple[str, Any, int]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": f"r{fields[0][2] if fields else 0}",
        "fields": [{"name": name, "type": kind, "field-id": number} for name, kind, number in fields],
    }


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


def avro_file(schema: Any, records: bytes, count: int) -> bytes:
    return avro.header(schema) + avro.block(count, records)


def iceberg_manifest(path: Path) -> object:
    listed = Manifest(str(path), str(path), 0, 0, 1, 1, encrypted=False)
    return read_manifest(listed, (), lambda name: name, storage=Storage())


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


def paimon_schema(count: int) -> bytes:
    fields = [{"id": i, "name": f"f{i}", "type": "INT"} for i in range(count)]
    members = {"version": 3, "id": 0, "fields": fields, "highestFieldId": count, "partitionKeys": [], "primaryKeys": []}
    return json.dumps({**members, "options": {}, "timeMillis": 1}, separators=(",", ":")).encode()


def plain_checkpoint(count: int) -> bytes:
    kind = pa.struct([("path", pa.string()), ("size", pa.int64())])
    out = pa.BufferOutputStream()
    table = pa.table({"add": pa.array([{"path": "a", "size": 1}] * count, kind)})
    pq.write_table(table, out, use_dictionary=False, compression="none", write_statistics=False)
    return bytes(out.getvalue())


def deletes_of_avro(path: Path) -> object:
    with suppress(CardinalityMismatch):
        return read_deletes(str(path), "avro", 0, Storage())
    return None


def addresses(count: int) -> bytes:
    one = bitmaps.bitmap(bitmaps.array(0, [1]))
    return struct.pack("<I", count) + b"".join(struct.pack("<II", i, len(one)) + one for i in range(count))


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


STORED: dict[str, tuple[Callable[[int], bytes], Callable[[Path], object]]] = {
    "iceberg manifest": (lambda n: avro_file(ENTRY, DATA_FILE * n, n), iceberg_manifest),
    "iceberg manifest list": (
        lambda n: avro_file(LISTED, b"".join(avro.sized(b"%x" % i) + avro.zigzag(0) for i in range(n)), n),
        lambda path: read_list(str(path), str, Storage()),
    ),
    "iceberg metadata": (
        lambda n: b'{"a":[' + b'{"b":123456789},' * n + b"1]}",
        lambda path: read_members(str(path), Storage()),
    ),
    "delta commit": (lambda n: b'{"add":{"path":"a","size":1,"partitionValues":{}}}\n' * n, delta_log),
    "delta checkpoint": (
        plain_checkpoint,
        placed(
            "_delta_log/c.parquet", lambda folder: list(chain.from_iterable(read_batches(folder, ("c.parquet",), 0)))
        ),
    ),
    "paimon manifest": (
        lambda n: avro_file(PAIMON_ENTRY, PAIMON_RECORD * n, n),
        placed("manifest/m", lambda folder: paimon_manifest(folder, "m")),
    ),
    "paimon schema": (paimon_schema, placed("schema/schema-0", lambda folder: read_schema(folder, 0))),
    "position deletes, Avro": (
        lambda n: avro_file(DELETES, (avro.sized(b"a") + avro.zigzag(1)) * n, n),
        deletes_of_avro,
    ),
    "vector": (lambda n: iceberg.encode(RowSet(np.arange(n) << 16)), by_bytes(iceberg.decode)),
    "file of vectors": (lambda n: b"\1" + delta.encode(RowSet([1])) * n, delta.load_frames),
    "puffin footer": (puffin_file, puffin.decode_footer),
    "lance manifest": (lance_manifest, read_lance),
    "lance row ids": (lambda n: bytes.fromhex("0a020a00") * n, by_bytes(decode_row_ids)),
    "lance versions": (lambda n: bytes.fromhex("0a060a040a021001") * n, by_bytes(decode_versions)),
    "lance row addresses": (addresses, by_bytes(decode_row_addr_map)),
    "zap fields": (lambda n: zap_segment(n, fields=1), zap_table("fields")),
    "zap stored": (lambda n: zap_segment(n, docs=2), zap_table("stored")),
    "zap postings": (lambda n: zap_segment(n, terms=1), zap_table("postings")),
    "vellum": (fst, lambda path: Fst.open(Cursor(path.read_bytes()), Limits()).to_block()),
    "root.bolt": (lambda n: Bolt({i.to_bytes(4, "big"): b"" for i in range(n)}).data(), bolt),
}
"""What makes a file of so many of the smallest things that it can hold, stored as they are, and what reads it."""


def cost(name: str, count: int, path: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """What reading a file takes: bytes of memory, and calls of functions."""
    make, read = STORED[name]
    path.write_bytes(make(count))
    read(path)  # what is imported and cached
    tracemalloc.start()
    read(path)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return np.array([memory, calls_of(lambda: read(path))])


@pytest.mark.parametrize("name", STORED)
def test_the_work_grows_as_the_input_does(name: str, tmp_path: Path) -> None:
    """Six times as much more input is about six times as much more work; where it is a square, twenty times."""
    some, twice, eight_times = (cost(name, count, tmp_path / f"{count}.metadata.json") for count in (400, 800, 3200))
    first, then = twice - some, eight_times - twice
    assert (then <= 12 * first + [4096, 1000]).all(), (first, then)
