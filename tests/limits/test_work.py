"""What a metadata file costs is bounded by its size: twice the input, at most twice the work and the memory.

Work is counted in calls of functions, and memory in bytes that Python allocates, so that the machine has no say.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from battery import lowered
from dvcodec import LimitExceeded, Limits, NotCanonical, RowSet, delta, iceberg, paimon, puffin
from dvcodec.core.avro import decode as decode_avro
from dvcodec.core.cursor import Cursor
from dvcodec.core.limits import Budget
from dvcodec.iceberg import read_position_deletes
from dvcodec.io import Storage, open_source
from dvcodec.lance import decode_row_ids, decode_versions, read_deletion_file, read_operation
from dvcodec.lance.deletions import encode_deletion_file
from dvcodec.lance.manifest import read_manifest as read_lance
from dvcodec.paimon.manifest import SCHEMA as INDEX_SCHEMA
from dvcodec.tables.delta.actions import AddFile, parse_lines
from dvcodec.tables.delta.checkpoint import read_checkpoint
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg.manifest_list import Manifest
from dvcodec.tables.iceberg.manifests import read_manifest
from dvcodec.tables.iceberg.metadata import read_members
from dvcodec.tables.paimon.manifests import read_manifest_list
from dvcodec.tables.parquet import open_metadata, physical_batches
from dvcodec.tables.scorch.bolt import read_bolt
from samples import avro
from samples.bolt import Bolt
from samples.lance import field

pytest.importorskip("fastavro")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

LITTLE = Limits(max_base_work=2**16)
"""So that a few records are a bomb."""


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


def avro_file(schema: Any, records: bytes, count: int, codec: str) -> bytes:
    return avro.header(schema, codec) + avro.block(count, avro.packed(records, codec))


def iceberg_manifest(path: Path) -> object:
    listed = Manifest(str(path), str(path), 0, 0, 1, 1, encrypted=False)
    return read_manifest(listed, (), lambda name: name, storage=Storage())


def index_records(count: int) -> bytes:
    return avro.records(INDEX_SCHEMA, INDEX) * count


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
    calls = 0

    def count_call(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        decoder.read(path)
    finally:
        sys.setprofile(None)
    return path.stat().st_size, memory, calls


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
    "delta checkpoint": (checkpoint, read_log_checkpoint),
    "pages of position deletes": (position_deletes, read_position_deletes),
    "rows of position deletes": (repeated_positions, read_position_deletes),
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


def test_records_have_a_limit_of_their_own() -> None:
    """A record of megabytes is not read, wherever it is in its block."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}
    little = avro.zigzag(1) + avro.zigzag(5) + avro.zigzag(0)
    large = avro.zigzag(500) + avro.zigzag(5) * 500 + avro.zigzag(0)
    limits = Limits(max_record_bytes=100)

    def read(*records: bytes, bound: Limits = limits) -> list[Any]:
        data = avro.header(schema) + avro.block(len(records), b"".join(records))
        return [record["a"] for record in decode_avro(Cursor(data), limits=bound).records()]

    assert read(*[little] * 300) == [[5]] * 300
    assert read(*[little] * 300, large, bound=Limits())[-1] == [5] * 500
    assert read(*[little] * 299, large, bound=Limits(max_record_bytes=503))[-1] == [5] * 500
    for before in (0, 1, 30, 60):
        with pytest.raises(LimitExceeded, match=r"max_record_bytes: expected at most 100 bytes"):
            read(*[little] * before, large)
    with pytest.raises(NotCanonical, match="Avro record: expected record 300 of 301"):
        read(*[little] * 300, avro.zigzag(9))


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
    with open_metadata(str(path), Storage(), 1) as (_, batch_rows, _):
        assert 2**26 < batch_rows * 2**18 <= 2**27
    with open_metadata(str(path), Storage(), 1, dictionary="path") as (file, batch_rows, _):
        batch = next(batch for _, batch in physical_batches(file, ["path"], batch_rows=batch_rows))
        assert batch.nbytes < 2**19


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
