"""A table of many small metadata files, each of which becomes as much as one file may: together they are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec import Limits, RowSet, delta, verify
from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded
from dvcodec.core.limits import DEFAULT_LIMITS, Budget, SharedWork
from dvcodec.io import Storage
from dvcodec.lance import read_deletion_file
from dvcodec.tables import live_batches, open_table
from dvcodec.tables.avro_rows import open_avro_rows
from dvcodec.tables.scanning import scan
from fuzz import many as tables
from limits.test_work import BOMBS, POSITION_DELETE, avro_file
from samples import avro as sample_avro
from samples.iceberg_table import Commit, build_iceberg
from samples.paimon_table import PaimonFile, build_paimon

FILES, RECORDS = 20, 8_000
"""Small files, and the records in each: alone, a file of a few kilobytes may have so many."""


def records_of(path: Path) -> tuple[Any, list[dict[str, Any]]]:
    file = avro.decode(Cursor(path.read_bytes()))
    return file.schema, list(file.records())


def encoded(schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> bytes:
    return avro.encode(schema, records, validate=False)


def iceberg_table(folder: Path, files: int) -> None:
    """Manifests of deleted entries, which no snapshot shows."""
    made = build_iceberg(folder, Commit(data={"a": 20}), codec="null", parquet=False)
    (manifest_list,) = (folder / "metadata").glob("snap-*")
    schema, (manifest,) = records_of(manifest_list)
    entries, (entry,) = records_of(Path(manifest["manifest_path"]))
    entry |= {"status": 2, "snapshot_id": made.snapshots[0], "sequence_number": 1, "file_sequence_number": 1}
    listed = [manifest]
    bomb = encoded(entries, repeat(entry, RECORDS))
    for i in range(files):
        path = folder / f"metadata/deleted-{i}.avro"
        listed.append(manifest | {"manifest_path": str(path), "manifest_length": path.write_bytes(bomb)})
    manifest_list.write_bytes(encoded(schema, listed))


def paimon_table(folder: Path, files: int) -> None:
    """Manifests that delete one file over and over."""
    rows = pa.table({"id": [1, 2]})
    build_paimon(folder, [(0, "id", "BIGINT")], [[PaimonFile("a.parquet", rows)]])
    schema, (manifest,) = records_of(folder / "manifest/manifest-list-1-1")
    entries, (entry,) = records_of(folder / "manifest/manifest-1-0")
    entry["_KIND"] = 1
    entry["_FILE"]["_FILE_NAME"] = "b.parquet"
    listed = [manifest]
    bomb = encoded(entries, repeat(entry, RECORDS))
    for i in range(files):
        (folder / f"manifest/manifest-2-{i}").write_bytes(bomb)
        listed.append(manifest | {"_FILE_NAME": f"manifest-2-{i}"})
    (folder / "manifest/manifest-list-1-1").write_bytes(encoded(schema, listed))


def delta_table(folder: Path, files: int) -> None:
    """A checkpoint whose sidecars remove one file over and over."""
    log = folder / "_delta_log"
    (log / "_sidecars").mkdir(parents=True)
    features = ["v2Checkpoint", "deletionVectors"]
    columns = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    actions: list[dict[str, Any]] = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        },
        {
            "metaData": {
                "id": "t",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(columns),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    action = {"path": "a.parquet", "deletionTimestamp": 1, "dataChange": True}
    removed = pa.table({"remove": pa.array([action] * RECORDS)})
    for i in range(files):
        pq.write_table(removed, log / f"_sidecars/{i}.parquet", compression="zstd")
        actions.append({"sidecar": {"path": f"{i}.parquet", "sizeInBytes": 1, "modificationTime": 1}})
    actions.append({"checkpointMetadata": {"version": 0}})
    (log / f"{0:020}.checkpoint.{UUID(int=1)}.json").write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize("build", [iceberg_table, paimon_table, delta_table])
def test_small_files_of_a_table_are_charged_together(build: Callable[[Path, int], None], tmp_path: Path) -> None:
    build(tmp_path / "one", 1)
    table = open_table(tmp_path / "one")
    for _ in range(3):  # re-reading a file draws nothing
        table.snapshot()
    build(tmp_path / "many", FILES)
    assert sum(path.stat().st_size for path in (tmp_path / "many").rglob("*") if path.is_file()) < 64_000
    with pytest.raises(LimitExceeded, match="in all metadata files of the table"):
        open_table(tmp_path / "many").snapshot()


def test_work_that_the_bytes_of_a_file_allow_is_not_shared() -> None:
    shared = SharedWork(100)
    stored = 12 * 10**6
    for _ in range(1000):
        Budget(stored, "m", shared=shared).charge(DEFAULT_LIMITS.max_work_per_byte * stored, "records")
    Budget(stored, "m", shared=shared).charge(DEFAULT_LIMITS.max_work_per_byte * stored + 100, "records")
    with pytest.raises(LimitExceeded, match=r"n: work for records in all .* of the table: expected at most 100"):
        Budget(0, "n", shared=shared).charge(1, "records")


def test_a_file_that_is_read_again_draws_nothing_more() -> None:
    shared = SharedWork(100)
    for _ in range(3):
        budget = Budget(0, "m", shared=shared)
        for _ in range(6):
            budget.charge(10, "records")
    Budget(0, "n", shared=shared).charge(40, "records")
    with pytest.raises(LimitExceeded, match="found 101"):
        Budget(0, "m", shared=shared).charge(61, "records")


def test_deletion_files_of_lance_are_charged_together(tmp_path: Path) -> None:
    make, read = BOMBS["lance deletions"]
    data, storage = make(20_000), Storage()
    assert len(data) < 4_000
    paths = [tmp_path / f"{i}-1-7.arrow" for i in range(FILES)]
    for path in paths:
        path.write_bytes(data)
        read(path)  # with a storage of its own
    with pytest.raises(LimitExceeded, match="in all metadata files of the table"):
        [read_deletion_file(str(path), storage_options=storage) for path in paths]


def position_deletes(folder: Path, files: int) -> None:
    """Files of position deletes in Avro, each of 300 bytes and 60,000 rows."""
    build_iceberg(folder, Commit(data={"a": 20}, deletes=[{"a": RowSet([1])}]), parquet=False, version=2)
    for manifest in (folder / "metadata").glob("manifest-*"):
        schema, (entry,) = records_of(manifest)
        file = entry["data_file"]
        if file["content"] == 0:
            path = file["file_path"]
            manifest.write_bytes(encoded(schema, [entry | {"data_file": file | {"record_count": 10**6}}]))
            continue
        record = sample_avro.sized(path.encode()) + sample_avro.zigzag(1)
        data = avro_file(POSITION_DELETE, record * 60_000, 60_000, "zstandard")
        file |= {"file_format": "AVRO", "record_count": 60_000, "file_size_in_bytes": len(data)}
        listed = []
        for i in range(files):
            one = folder / f"data/{i}.avro"
            one.write_bytes(data)
            listed.append(entry | {"data_file": file | {"file_path": str(one)}})
        manifest.write_bytes(encoded(schema, listed))


def test_position_deletes_of_a_table_are_charged_together(tmp_path: Path) -> None:
    for files, lost in ((1, 0), (FILES, FILES - 1)):
        position_deletes(tmp_path / f"{files}", files)
        assert sum(path.stat().st_size for path in (tmp_path / f"{files}").rglob("*") if path.is_file()) < 64_000
        found = scan(open_table(tmp_path / f"{files}"))
        assert lost <= len(found.lost) <= files * lost
        assert all("in all metadata files of the table" in message for _, message in found.lost)


def avro_data(folder: Path, files: int, rows: int) -> None:
    """Avro data files of 200 bytes and many equal rows."""
    build_iceberg(folder, Commit(data={f"{i}": rows for i in range(files)}), parquet=False, tweak_entry=as_avro)
    column = {"name": "id", "type": "long", "field-id": 1}
    data = avro_file({"type": "record", "name": "r", "fields": [column]}, bytes(rows), rows, "zstandard")
    (folder / "data").mkdir(exist_ok=True)
    for i in range(files):
        (folder / f"data/{i}").write_bytes(data)


def as_avro(entry: dict[str, Any]) -> dict[str, Any]:
    entry["data_file"]["file_format"] = "AVRO"
    return entry


def test_rows_of_avro_data_files_are_charged_together(tmp_path: Path) -> None:
    avro_data(tmp_path / "few", 3, 20_000)
    table = open_table(tmp_path / "few")
    for _ in range(6):  # reading a file again draws nothing
        assert sum(batch.num_rows for batch in live_batches(table, columns=["id"])) == 60_000
    avro_data(tmp_path / "many", 13, 20_000)
    assert sum(path.stat().st_size for path in (tmp_path / "many").rglob("*") if path.is_file()) < 64_000
    with pytest.raises(LimitExceeded, match=r"data/11: work for records in all metadata files of the table"):
        list(live_batches(open_table(tmp_path / "many"), columns=["id"]))
    avro_data(tmp_path / "one", 1, 240_000)
    with pytest.raises(LimitExceeded, match=r"data/0 at byte \d+: work for records \(Limits.max_base_work"):
        list(live_batches(open_table(tmp_path / "one"), columns=["id"]))


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
@pytest.mark.parametrize(("nulls", "constants"), [(0, 0), (9, 0), (0, 9), (9, 9), (0, 20)])
def test_rows_of_real_avro_data_files_draw_nothing(nulls: int, constants: int, codec: str, tmp_path: Path) -> None:
    """A number that counts, and columns that compress to nothing."""
    empty = {f"n{i}": None for i in range(nulls)} | {f"c{i}": "constant" for i in range(constants)}
    fields: list[dict[str, Any]] = [{"name": "id", "type": "long"}]
    fields += [{"name": name, "type": ["null", "string"]} for name in empty]
    schema = {"type": "record", "name": "r", "fields": fields}
    records = ({"id": 10**6 + i, **empty} for i in range(8_000))
    path = tmp_path / "data.avro"
    path.write_bytes(avro.encode(schema, records, codec=codec, validate=False))
    storage = Storage()
    storage.metadata_work.most = 0
    with open_avro_rows(str(path), storage) as file:
        assert sum(batch.num_rows for _, batch in file.read(["id"], 1 << 16, ())) == 8_000


def test_inline_vectors_that_rows_repeat_are_charged_by_their_text(tmp_path: Path) -> None:
    """One of a hundred bitmaps; real ones have few rows, and each its own text."""
    for count in (20, 200):
        checkpoint = tables.TABLES["delta-vectors"](tmp_path / f"{count}", count)
        stored = pq.read_table(checkpoint).to_pylist()
        inline = delta.encode_inline(RowSet(i << 32 for i in range(100)))
        descriptor = {"storageType": "i", "pathOrInlineDv": inline.path_or_inline_dv, "offset": None,
                      "sizeInBytes": inline.size_in_bytes, "cardinality": 100}  # fmt: skip
        for row in stored:
            if row["add"] is not None:
                row["add"]["deletionVector"] = descriptor
        pq.write_table(pa.Table.from_pylist(stored, pq.read_schema(checkpoint)), checkpoint, compression="zstd")
        table = open_table(tmp_path / f"{count}")
        if count == 20:
            assert {vector.cardinality for vector in table.snapshot().vectors} == {100}
        else:
            with pytest.raises(LimitExceeded, match=r"work for vectors \(Limits"):
                table.snapshot()


@pytest.mark.parametrize(("kind", "count"), [("delta-vectors", 6_000), ("paimon-vectors", 30_000)])
def test_vectors_are_charged_by_the_bytes_of_the_metadata(kind: str, count: int, tmp_path: Path) -> None:
    """Each is opened, read and reported, wherever it is."""
    tables.TABLES[kind](tmp_path, count, step=0)
    with pytest.raises(LimitExceeded, match=r"work for vectors \(Limits"):
        open_table(tmp_path).snapshot()


def test_real_files_need_no_base_work(own_vectors: Path) -> None:
    """So the files of a command may share it, and thousands of real ones are read as one is."""
    none = Limits(max_base_work=0)
    files = [path for path in own_vectors.rglob("*") if path.is_file()]
    assert len(files) > 1000
    for path in files:
        assert verify(path, limits=none).ok == verify(path).ok, path
