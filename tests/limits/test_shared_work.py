"""A table of many small metadata files, each of which becomes as much as one file may: together they are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec import RowSet, delta
from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded
from dvcodec.core.limits import DEFAULT_LIMITS, Budget, SharedWork
from dvcodec.io import Storage
from dvcodec.lance import read_deletion_file
from dvcodec.tables import live_batches, open_table
from dvcodec.tables.iceberg.avro_rows import open_avro_rows
from dvcodec.tables.model import DataFile, DeletionVector
from dvcodec.tables.repeats import charge_equality, charge_repeats, charge_same_deletes, charge_same_files
from dvcodec.tables.scanning import scan
from fuzz import many as tables
from limits.test_work import BOMBS, POSITION_DELETE, avro_file
from samples import avro as sample_avro
from samples.delta_log import empty_table
from samples.iceberg_table import Commit, build_iceberg, field_ids
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


def wide_table(folder: Path, columns: int, files: int, stored: int) -> None:
    """A table of many columns, whose data files have some of them; only the first has values."""
    names = [f"c{i}" for i in range(columns)]
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    empty_table(folder)
    log = folder / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    data = pa.table({name: pa.array([None if i else 7], pa.int64()) for i, name in enumerate(names[:stored])})
    for i in range(files):
        pq.write_table(data, folder / f"{i}.parquet")
        add = {"path": f"{i}.parquet", "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
        actions.append({"add": add | {"stats": '{"numRecords":1}'}})
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_columns_that_data_files_lack_are_charged_together(tmp_path: Path) -> None:
    wide_table(tmp_path / "few", 2_000, 40, 1)
    table = open_table(tmp_path / "few")
    for _ in range(3):  # reading a file again draws nothing
        assert sum(batch.num_rows for batch in live_batches(table)) == 40
    wide_table(tmp_path / "many", 2_000, 300, 1)
    table = open_table(tmp_path / "many")
    with pytest.raises(
        LimitExceeded, match=r"\d\.parquet: work for columns that data files lack .* in all metadata files"
    ):
        list(live_batches(table))
    assert len(list(live_batches(table, columns=[f"c{i}" for i in range(100)]))) == 300


def test_columns_that_data_files_have_draw_nothing(tmp_path: Path) -> None:
    """Nor do a hundred that they lack, in a table that has grown."""
    wide_table(tmp_path, 2_000, 6, 1_900)
    table = open_table(tmp_path)
    table.folder.storage.metadata_work.most = 0
    assert sum(batch.num_rows for batch in live_batches(table)) == 6


def test_values_that_data_files_lack_are_charged(tmp_path: Path) -> None:
    """A default of 20 kB in every row; short ones, of any number of rows, are not."""
    for default, rows in (("x" * 20_000, 10_000), ("x" * 20_000, 40_000), ("x" * 200, 100_000)):
        ids = field_ids(pa.schema([pa.field("id", pa.int64())]), (1,))
        late = {"id": 2, "name": "late", "required": False, "type": "string", "initial-default": default}
        fields = [{"id": 1, "name": "id", "required": False, "type": "long"}, late]
        folder = tmp_path / f"{len(default)}-{rows}"
        build_iceberg(folder, Commit(data={"a": pa.table([pa.array([7] * rows, pa.int64())], ids)}), fields=fields)
        table, seen = open_table(folder), 0
        with pytest.raises(LimitExceeded, match="columns that data files lack") if rows == 40_000 else nullcontext():
            for batch in live_batches(table):
                seen += batch.num_rows
                assert batch.nbytes < 20_000_000
                assert batch["late"][0].as_py() == default
        assert seen == rows or 15_000 < seen < rows == 40_000


def vectors_of(count: int, *, offset: int | None = 4, path: str = "v", size: int = 100) -> list[DeletionVector]:
    return [DeletionVector("iceberg", f"{i}", path, path, offset, size, 1) for i in range(count)]


def test_vectors_that_are_recorded_more_than_once_are_charged() -> None:
    charge_repeats(vectors_of(2000), SharedWork())
    with pytest.raises(LimitExceeded, match=r"^vectors of v: work for vectors that are recorded more than once"):
        charge_repeats(vectors_of(2100), SharedWork())
    with pytest.raises(LimitExceeded):
        charge_repeats(vectors_of(20, size=2**21), SharedWork())
    with pytest.raises(LimitExceeded):
        charge_repeats(vectors_of(2100, offset=None), SharedWork())
    charge_repeats(vectors_of(4, size=2**16), SharedWork())  # it may have thousands of bitmaps
    with pytest.raises(LimitExceeded):
        charge_repeats(vectors_of(6, size=2**16), SharedWork())
    shared = SharedWork()
    for _ in range(3):  # the same snapshot again
        charge_repeats(vectors_of(2000), shared)
    with pytest.raises(LimitExceeded):
        charge_repeats(vectors_of(200, path="w"), shared)


def test_vectors_of_their_own_are_not_charged() -> None:
    nothing = SharedWork(0)
    charge_repeats([replace(vector, offset=i) for i, vector in enumerate(vectors_of(10_000))], nothing)
    charge_repeats([one for i in range(10_000) for one in vectors_of(1, offset=None, path=f"{i}")], nothing)
    charge_repeats(vectors_of(10_000, offset=None, path=""), nothing)  # inline


def test_data_files_in_several_spellings_are_charged() -> None:
    def files(count: int) -> list[DataFile]:
        return [DataFile(f"{i}", f"/t/{'/' * (i // 2)}{'./' * (i % 2)}a", 1) for i in range(count)]

    charge_same_files(files(250), SharedWork())
    with pytest.raises(LimitExceeded, match=r"^data files at /t/a: work for data files in several spellings"):
        charge_same_files(files(260), SharedWork())
    charge_same_files([DataFile(f"{i}", f"/t/{i}", 1) for i in range(1000)], SharedWork(0))


def test_equality_deletes_are_charged_by_what_they_compare() -> None:
    """Eight columns of 2,000 data files; twice as many have the bytes of twice the metadata."""
    charge_equality("v1", 8_000, SharedWork())
    with pytest.raises(LimitExceeded, match=r"^equality deletes of v1: work for columns that equality deletes compare"):
        charge_equality("v1", 16_000, SharedWork())
    nothing = SharedWork(0)
    nothing.note("manifest", 16_000 * 8)
    charge_equality("v1", 16_000, nothing)


def test_equality_deletes_in_several_spellings_are_charged() -> None:
    charge_same_deletes([f"/t/{'/' * i}a" for i in range(60)], SharedWork())
    with pytest.raises(LimitExceeded, match=r"^equality deletes at /t/a: work for equality deletes of one file"):
        charge_same_deletes([f"/t/{'/' * i}a" for i in range(70)], SharedWork())
    charge_same_deletes([f"/t/{i}" for i in range(1000)], SharedWork(0))


@pytest.mark.parametrize("kind", ["delta-vectors", "iceberg-vectors", "paimon-vectors"])
def test_a_table_whose_vectors_are_one_is_refused(kind: str, tmp_path: Path) -> None:
    few, many = (tmp_path / name for name in ("few", "many"))
    tables.TABLES[kind](few, 500, step=0)
    assert len(open_table(few).snapshot().vectors) == 500
    tables.TABLES[kind](many, 2500, step=0)
    assert sum(path.stat().st_size for path in many.rglob("*") if path.is_file()) < 64_000
    with pytest.raises(LimitExceeded, match="vectors that are recorded more than once"):
        open_table(many).snapshot()


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
