"""The data source writes containers that the rest of the library reads, and manifests that name every vector."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from dvcodec import DecodeError, DvLocation, RowSet, UsageError, convert, decode_at, delta, iceberg, paimon, sniff
from dvcodec.io import Storage
from dvcodec.spark import register
from dvcodec.spark.sources import read_manifest, storage, vacuum
from dvcodec.spark.sources import writer as writing
from dvcodec.spark.sources.manifest import SCHEMA, committed_in
from dvcodec.spark.sources.options import TARGETS, WriteOptions
from dvcodec.spark.sources.writer import VectorWriter, Written, writer_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VECTORS = StructType([StructField("data_file", StringType()), StructField("dv", BinaryType())])


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def row_sets(count: int = 40, seed: int = 1) -> dict[str, RowSet]:
    chance = np.random.default_rng(seed)
    rows = {f"s3://lake/t/é #{i}.parquet": RowSet(chance.integers(0, 1 << 20, 60 * i)) for i in range(count)}
    return rows | {"runs": RowSet.from_ranges([(10, 200_000)]), "many": RowSet(range(0, 300_000, 3))}


def frames(rows: dict[str, RowSet]) -> dict[str, bytes]:
    """One frame each, in all three layouts and one that is not canonical."""
    encoders: list[Callable[[RowSet], bytes]] = [
        iceberg.encode,
        lambda one: delta.encode(one, layout="native"),
        paimon.encode,
        lambda one: iceberg.encode(one, run_optimize=False),
    ]
    return {name: encoders[i % 4](one) for i, (name, one) in enumerate(rows.items())}


def vectors(spark: SparkSession, dvs: dict[str, bytes], tasks: int = 2) -> DataFrame:
    items = [(name, bytearray(dv)) for name, dv in dvs.items()]
    return (
        spark.createDataFrame(items, VECTORS).repartitionByRange(tasks, "data_file").sortWithinPartitions("data_file")
    )


def write(df: DataFrame, path: Path | str, target: str = "puffin", **options: object) -> None:
    writer = df.write.format("dvcodec").mode("append").option("target", target)
    for name, value in options.items():
        writer = writer.option(name.replace("_", "-"), str(value))
    writer.save(str(path))


def shown(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def containers(folder: Path) -> list[Path]:
    return [folder / name for name in shown(folder) if not name.startswith(("_", "."))]


def expected_entry(row: dict[str, Any], root: str) -> dict[str, Any]:
    location = DvLocation(*(row[name] for name in SCHEMA.names[:-1]))
    if location.format == "iceberg":
        return iceberg.manifest_entry(location)
    if location.format == "delta":
        found: dict[str, Any] = json.loads(delta.Descriptor.from_location(location, root).to_json())
        return found
    meta = paimon.DeletionVectorMeta.from_location(location)
    return {name: getattr(meta, name) for name in ("data_file", "offset", "length", "cardinality")}


def check_manifest(folder: Path, rows: dict[str, RowSet], root: str | None = None) -> list[dict[str, Any]]:
    """Every vector is named once, where it is, with what its format's commit says; nothing else is there."""
    found: list[dict[str, Any]] = read_manifest(str(folder)).to_pylist()
    assert Counter(row["data_file"] for row in found) == Counter(rows.keys())
    for row in found:
        rowset = rows[row["data_file"]]
        assert decode_at(row["path"], row["offset"], row["size"], cardinality=row["cardinality"]) == rowset
        assert row["file_size"] == Path(row["path"]).stat().st_size
        assert json.loads(row["entry"]) == expected_entry(row, root or str(folder))
    assert {row["path"] for row in found} == set(map(str, containers(folder)))
    assert all(
        name.startswith("_manifest-") for name in set(shown(folder)) - {path.name for path in containers(folder)}
    )
    return found


# ---------------------------------------------------------------------- what is written


@pytest.mark.everywhere
@pytest.mark.parametrize("target", TARGETS)
def test_every_target(target: str, spark: SparkSession, tmp_path: Path) -> None:
    rows = row_sets()
    dvs = frames(rows)
    write(vectors(spark, dvs), tmp_path / "out", target, table_root=tmp_path / "out")
    found = check_manifest(tmp_path / "out", rows)
    formats = {"puffin": "iceberg", "delta": "delta"}
    assert {row["format"] for row in found} == {formats.get(target, target)}
    assert len({row["path"] for row in found}) == 2
    names = {
        "puffin": r"[0-9a-f]{32}-\d{5}-\d+-0\.puffin",
        "delta": r"deletion_vector_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin",
    }.get(target, r"index-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-0")
    assert all(re.fullmatch(names, path.name) for path in containers(tmp_path / "out"))
    for row in found:  # the bytes of `convert`: copied where the layout is the one wanted
        blob, path = tmp_path / "blob", Path(row["path"])
        blob.write_bytes(dvs[row["data_file"]])
        (location,) = convert(blob, target, tmp_path / "one", data_files=[row["data_file"]])  # type: ignore[arg-type]
        want = (tmp_path / "one").read_bytes()[location.offset :][: location.size]
        assert path.read_bytes()[row["offset"] :][: row["size"]] == want


@pytest.mark.everywhere
@pytest.mark.parametrize("target", TARGETS)
def test_what_was_written_is_read(target: str, spark: SparkSession, tmp_path: Path) -> None:
    rows = row_sets(20)
    form = "jsonl" if target in ("delta", "paimon32") else "parquet"
    write(vectors(spark, frames(rows)), tmp_path, target, manifest=form)
    found = spark.read.format("dvcodec").load(str(tmp_path)).collect()
    assert {row["data_file"]: decode_at(bytes(row["dv"])) for row in found} == rows  # by the manifest, if need be
    assert all(row["error"] is None and row["cardinality"] == len(rows[row["data_file"]]) for row in found)
    assert len(found) == len(rows)
    split = spark.read.format("dvcodec").option("partition-bytes", "10k").load(str(tmp_path))
    assert Counter(row["data_file"] for row in split.select("data_file").collect()) == Counter(rows.keys())
    check_manifest(tmp_path, rows)


def test_puffin_files_are_those_of_the_library(spark: SparkSession, tmp_path: Path) -> None:
    rows = {f'{i} "é\\ü\x01': RowSet([i]) for i in range(9)}
    dvs = {name: iceberg.encode(one) for name, one in rows.items()}
    write(vectors(spark, dvs, 1), tmp_path / "out")
    iceberg.write_deletion_vectors(tmp_path / "one", dict(sorted(rows.items())), order="given")
    (path,) = containers(tmp_path / "out")
    assert path.read_bytes() == (tmp_path / "one").read_bytes()


def test_containers_have_a_size(spark: SparkSession, tmp_path: Path) -> None:
    rows = {f"{i:03d}": RowSet(range(0, 4000, i + 2)) for i in range(60)}
    dvs = {name: iceberg.encode(one) for name, one in rows.items()}
    for target in TARGETS:
        folder = tmp_path / target
        write(vectors(spark, dvs, 1), folder, target, target_bytes="8k")
        check_manifest(folder, rows)
        sizes = [sum(ref.size for ref in sniff(path).vectors) for path in containers(folder)]
        largest = max(map(len, dvs.values()))
        assert sum(sizes) == sum(ref.size for path in containers(folder) for ref in sniff(path).vectors)
        assert all(size < 8192 + largest for size in sizes)
        assert sum(size < 8192 for size in sizes) <= 1
        assert len(sizes) > 2
    write(vectors(spark, dvs, 1), tmp_path / "few", max_vectors=25)
    counts = sorted(len(sniff(path).vectors) for path in containers(tmp_path / "few"))
    assert counts == [10, 25, 25]


def test_a_footer_ends_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_FOOTER_BYTES", 4000)
    rows = {"x" * 300 + str(i): RowSet([i]) for i in range(20)}
    commit(writer(tmp_path), [batches(rows)])
    check_manifest(tmp_path, rows)
    assert [len(sniff(path).vectors) for path in containers(tmp_path)] == [5, 5, 5, 5]


def test_manifests_of_both_forms_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    dvs = frames(row_sets(8))
    for form in ("parquet", "jsonl"):
        write(vectors(spark, dvs), tmp_path / form, "delta", manifest=form)
    tables = [read_manifest(str(tmp_path / form)) for form in ("parquet", "jsonl")]
    assert tables[0].schema.equals(tables[1].schema)
    columns = ["format", "offset", "size", "cardinality", "data_file", "file_size"]
    assert tables[0].select(columns).sort_by("data_file") == tables[1].select(columns).sort_by("data_file")
    (path,) = (tmp_path / "jsonl").glob("_manifest-*.jsonl")
    assert read_manifest(str(path)) == tables[1]
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == tables[1].to_pylist()
    df = spark.createDataFrame(tables[0])
    assert {tuple(row) for row in df.collect()} == {tuple(row.values()) for row in tables[0].to_pylist()}


def test_nothing_to_write(spark: SparkSession, tmp_path: Path) -> None:
    for form in ("parquet", "jsonl"):
        write(spark.createDataFrame([], VECTORS), tmp_path / form, manifest=form)
        assert len(shown(tmp_path / form)) == 1
        assert read_manifest(str(tmp_path / form)) == SCHEMA.empty_table()
        assert spark.read.format("dvcodec").load(str(tmp_path / form)).collect() == []


def test_folders_are_spelled_as_the_user_does(spark: SparkSession, tmp_path: Path) -> None:
    rows = {"a": RowSet([1])}
    for folder in (f"file:{tmp_path}/a%20b", f"local://{tmp_path}/c d", f"{tmp_path}/e%/"):
        write(vectors(spark, frames(rows), 1), folder, "delta")
        (row,) = read_manifest(folder).to_pylist()
        assert row["path"].startswith(folder.rstrip("/") + "/deletion_vector_")
        assert decode_at(row["path"], row["offset"], row["size"]) == rows["a"]
        assert json.loads(row["entry"])["storageType"] == "u"
        (found,) = spark.read.format("dvcodec").load(folder).collect()
        assert (found["container"], found["data_file"]) == (row["path"], "a")
    assert shown(tmp_path) == ["a b", "c d", "e%"]


def test_the_table_root_of_descriptors(spark: SparkSession, tmp_path: Path) -> None:
    rows = {"a": RowSet([1])}
    write(vectors(spark, frames(rows), 1), tmp_path / "t" / "ab", "delta", table_root=tmp_path / "t")
    check_manifest(tmp_path / "t" / "ab", rows, str(tmp_path / "t"))
    write(vectors(spark, frames(rows), 1), tmp_path / "u", "delta", table_root="s3://elsewhere")
    (row,) = check_manifest(tmp_path / "u", rows, "s3://elsewhere")
    assert json.loads(row["entry"])["storageType"] == "p"
    with pytest.raises(UsageError, match="neither below the table's folder nor an absolute path"):
        writer_of(WriteOptions.parse({"path": "here", "target": "delta", "table-root": "/t"}), VECTORS, overwrite=False)


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", None)], "'a' has no vector"),
        ([(None, iceberg.encode(RowSet([1])))], "name no data file"),
        ([("a", iceberg.encode(RowSet([1])))] * 2, "two vectors for the data file 'a' in one container"),
        ([("a", iceberg.encode(RowSet([1]))[:-1] + b"x")], "vector of a at byte 38: CRC-32"),
        ([("ok", iceberg.encode(RowSet([1]))), ("a", b"")], "vector of a at byte 0: length field"),
        ([("a", iceberg.encode(RowSet([2**31])))], "'a': position 2147483648 does not fit"),
    ],
)
def test_vectors_that_are_refused(rows: list[tuple[str | None, bytes | None]], message: str, tmp_path: Path) -> None:
    to = writer(tmp_path, target="paimon32", max_vectors=5)
    names, dvs = zip(*rows, strict=True)
    valid = batches({"first": RowSet([7])})
    whole = pa.record_batch({"data_file": pa.array(names, pa.string()), "dv": pa.array(dvs, pa.binary())})
    for later in ([whole], [whole.slice(i, 1) for i in range(len(rows))]):
        with pytest.raises((UsageError, DecodeError), match=message):
            to.write(chain(valid, later))
        assert shown(Path(to.staging)) == []  # what was begun is gone at once
    to.abort([None])
    assert shown(tmp_path) == []


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_data_file_in_two_containers(form: str, tmp_path: Path) -> None:
    first, second = batches({"a": RowSet([1]), "b": RowSet([2])}), batches({"b": RowSet([2])})
    to = writer(tmp_path, max_vectors=1, manifest=form)
    written = to.write(chain(first, second))
    assert len(written.containers) == 3
    with pytest.raises(UsageError, match="two vectors for the data file 'b': merge them first"):
        to.commit([written])
    assert shown(tmp_path) == [Path(to.staging).name]  # nothing was moved; the abort that follows removes this too


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_data_file_in_two_spellings(form: str, tmp_path: Path) -> None:
    both = list(batches({"s3://b/x": RowSet([1]), "s3a://b//x": RowSet([2])}))
    with pytest.raises(UsageError, match="two vectors for the data file 's3a://b//x' in one container"):
        writer(tmp_path / "one", manifest=form).write(iter(both))
    to = writer(tmp_path / "two", max_vectors=1, manifest=form)
    written = to.write(iter(both))
    with pytest.raises(UsageError, match="'s3a://b//x', also spelled 's3://b/x': merge them first"):
        to.commit([written])


@pytest.mark.everywhere
def test_a_vector_that_is_refused_fails_the_job(spark: SparkSession, tmp_path: Path) -> None:
    kind = "data_file string, dv binary, cardinality int, error string"
    lost = spark.createDataFrame([("a", None, 3, "it was damaged")], kind)
    with pytest.raises(PySparkException, match=r"UsageError: data file 'a' has no vector \(it was damaged\)"):
        write(lost, tmp_path)
    assert shown(tmp_path) == []


def test_a_cardinality_is_checked(tmp_path: Path) -> None:
    to = writer(tmp_path)
    dvs = pa.array([iceberg.encode(RowSet([1, 2])), iceberg.encode(RowSet())])
    for kind in (pa.int64(), pa.int32(), pa.uint8()):
        batch = pa.record_batch({"data_file": ["a", "b"], "dv": dvs, "cardinality": pa.array([2, None], kind)})
        assert to.write(iter([batch])).vectors == 2
    batch = pa.record_batch({"cardinality": pa.array([2, 3]), "dv": dvs, "data_file": ["a", "b"]})
    with pytest.raises(DecodeError, match=r"vector of b at byte 0: cardinality: expected 3 \(metadata\), found 0"):
        to.write(iter([batch]))
    batch = pa.record_batch({"data_file": ["a", "b"], "dv": dvs, "cardinality": ["2", "0"]})
    with pytest.raises(UsageError, match="column cardinality: expected integers, found string"):
        to.write(iter([batch]))


@pytest.mark.everywhere
def test_usage_errors(spark: SparkSession, tmp_path: Path) -> None:
    df = vectors(spark, frames({"a": RowSet([1])}))
    out = tmp_path / "out"
    for what, message in (
        (df.write.format("dvcodec").mode("overwrite"), "UsageError: mode overwrite is not supported"),
        (
            df.write.format("dvcodec").mode("append").option("target", "blob"),
            "option target: expected one of puffin, delta",
        ),
        (df.write.format("dvcodec").mode("append").option("targets", "x"), "unknown option 'targets'"),
        (df.write.format("dvcodec").mode("append").option("max-vectors", "99999"), "holds at most 65536 vectors"),
        (df.select("dv").write.format("dvcodec").mode("append"), "data_file is not one of them"),
        (df.selectExpr("data_file", "'x' as dv").write.format("dvcodec").mode("append"), "dv is not one of them"),
    ):
        with pytest.raises(PySparkException, match=message):
            what.save(str(out))
    with pytest.raises(PySparkException, match="a write needs one folder"):
        df.write.format("dvcodec").mode("append").save()
    assert not out.exists()


# ---------------------------------------------------------------------- what readers see


def writer(folder: Path, **options: object) -> VectorWriter:
    given = {"path": str(folder)} | {name.replace("_", "-"): str(value) for name, value in options.items()}
    return writer_of(WriteOptions.parse(given), VECTORS, overwrite=False)


def batches(rows: dict[str, RowSet]) -> Iterator[pa.RecordBatch]:
    for name, one in rows.items():
        yield pa.record_batch({"data_file": [name], "dv": pa.array([iceberg.encode(one)])})


def commit(to: VectorWriter, tasks: list[Iterator[pa.RecordBatch]]) -> list[Written]:
    written = [to.write(task) for task in tasks]
    to.commit([*written])
    return written


def seen(spark: SparkSession, folder: Path | str, **options: str) -> dict[str | None, RowSet | None]:
    reader = spark.read.format("dvcodec").schema("data_file string, dv binary")
    found = reader.options(**options).load(str(folder)).collect()
    names = [row["data_file"] for row in found if row["data_file"]]
    assert len(names) == len(set(names))
    return {row["data_file"]: None if row["dv"] is None else decode_at(bytes(row["dv"])) for row in found}


def test_what_no_manifest_names_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{f"{i}{k}": RowSet([i, k]) for k in range(3)} for i in range(4)]
    folder = tmp_path / "out"
    folder.mkdir()
    iceberg.write_deletion_vectors(folder / "by hand.puffin", rows[0])
    assert seen(spark, folder) == rows[0]
    commit(writer(folder), [batches(rows[1])])
    write(vectors(spark, frames(rows[2])), folder, "delta", manifest="jsonl")
    assert seen(spark, folder) == rows[1] | rows[2]
    assert seen(spark, folder / "*.*") == rows[1] | rows[2]
    assert seen(spark, folder / "*.puffin") == rows[1]
    assert seen(spark, tmp_path / "*") == rows[1] | rows[2]
    assert seen(spark, folder / "by hand.puffin") == rows[0]
    assert len(seen(spark, folder, committed="false")) == 7  # a name for Delta's vectors is in the manifest alone
    running = writer(folder)
    running.write(batches(rows[3]))
    assert seen(spark, folder) == rows[1] | rows[2]
    running.abort([])
    assert seen(spark, f"local://{folder}") == rows[1] | rows[2]


def test_a_container_that_is_gone_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    commit(writer(tmp_path, max_vectors=1), [batches({"a": RowSet([1]), "b": RowSet([2])})])
    gone = next(row for row in read_manifest(str(tmp_path)).to_pylist() if row["data_file"] == "a")
    Path(gone["path"]).unlink()
    found = {row["error"] is None: row for row in spark.read.format("dvcodec").load(str(tmp_path)).collect()}
    assert found[True]["data_file"] == "b"
    assert found[False]["container"] == gone["path"]
    assert "no such file" in found[False]["error"]


def test_a_manifest_that_is_damaged_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    commit(writer(tmp_path), [batches({"a": RowSet([1])})])
    (path,) = tmp_path.glob("_manifest-*")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DecodeError, match="manifest: expected a manifest of a write"):
        read_manifest(str(tmp_path))
    with pytest.raises(PySparkException, match=r"NotCanonical: .*: manifest: expected a manifest of a write"):
        seen(spark, tmp_path)
    with pytest.raises(UsageError, match="no manifest"):
        read_manifest(str(tmp_path / "nowhere"))


def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: dict[str, RowSet], **options: object) -> VectorWriter:
    """A commit whose process ends between the last move and the manifest: nobody aborts."""
    to = writer(tmp_path, max_vectors=2, **options)
    written = to.write(batches(rows))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writing, "merge_parts", die)
        with pytest.raises(KeyboardInterrupt):
            to.commit([written])
    assert {path.name for path in containers(tmp_path)} >= set(written.containers)
    return to


@pytest.mark.parametrize("target", ["puffin", "delta"])
def test_a_commit_that_was_killed(
    target: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {str(i): RowSet([i]) for i in range(5)}
    other = tmp_path / f"deletion_vector_{'0' * 8}-0000-0000-0000-{'0' * 12}.bin"
    delta.write_deletion_vectors(other, {"x": RowSet([9])})
    killed(tmp_path, monkeypatch, rows, target=target)
    assert len(containers(tmp_path)) == 4
    assert seen(spark, tmp_path) == {None: RowSet([9])}  # what it moved is not there
    assert vacuum(str(tmp_path)) == []
    removed = vacuum(str(tmp_path), older_than=timedelta(0))
    assert len(removed) == 4
    assert shown(tmp_path) == [other.name]


def test_an_abort_removes_what_a_commit_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = killed(tmp_path, monkeypatch, {str(i): RowSet([i]) for i in range(5)})
    to.abort([])
    assert shown(tmp_path) == []
    written = commit(writer(tmp_path), [batches({"a": RowSet([1])})])
    late = writer(tmp_path)
    late.abort([late.write(batches({"b": RowSet([1])})), None])
    assert len(shown(tmp_path)) == 2
    assert committed_in(str(tmp_path), None, Storage()).containers.keys() == set(written[0].containers)


def test_vacuum(tmp_path: Path) -> None:
    rows = {str(i): RowSet([i]) for i in range(3)}
    commit(writer(tmp_path), [batches(rows)])
    kept = shown(tmp_path)
    orphans = commit(writer(tmp_path), [batches(rows)])[0].containers
    manifests = [name for name in shown(tmp_path) if name.startswith("_manifest") and name not in kept]
    (tmp_path / manifests[0]).unlink()
    stale = writer(tmp_path)
    stale.write(batches(rows))
    (tmp_path / f".{manifests[0]}.0123.partial").write_bytes(b"")
    for name in ("data.parquet", ".other.partial", f"{orphans[0]}x"):
        (tmp_path / name).write_bytes(b"")
    before = shown(tmp_path)
    assert vacuum(str(tmp_path)) == []
    assert shown(tmp_path) == before
    old = time.time() - 7200
    for path in (*tmp_path.rglob("*"), tmp_path):
        os.utime(path, (old, old))
    running = writer(tmp_path)
    running.write(batches(rows))
    removed = vacuum(str(tmp_path), older_than=timedelta(hours=1))
    assert removed == sorted(
        [*(f"{tmp_path}/{name}" for name in orphans), stale.staging, f"{tmp_path}/.{manifests[0]}.0123.partial"]
    )
    assert set(shown(tmp_path)) == {
        *kept,
        "data.parquet",
        ".other.partial",
        f"{orphans[0]}x",
        Path(running.staging).name,
    }
    assert vacuum(f"local://{tmp_path}", older_than=timedelta(0)) == [
        f"local://{tmp_path}/{Path(running.staging).name}"
    ]
    assert vacuum(str(tmp_path / "nowhere")) == []


def test_vacuum_beside_a_task_that_still_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a task renames or removes after the folder was listed does not end it."""
    stale = Path(writer(tmp_path).staging)
    for name in ("gone", "stays"):
        (stale / name).write_bytes(b"")
    scandir = os.scandir

    def and_then_one_goes(path: Path) -> Any:
        with scandir(path) as entries:
            found = list(entries)
        (stale / "gone").unlink(missing_ok=True)
        return nullcontext(found)

    monkeypatch.setattr(os, "scandir", and_then_one_goes)
    assert vacuum(str(tmp_path)) == []
    assert (shown(stale), storage.modified(str(tmp_path / "missing"), Storage())) == (["stays"], None)
    assert vacuum(str(tmp_path), older_than=timedelta(0)) == [str(stale)]
