"""The data source reads every container as the rest of the library does, one vector at a time."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from dvcodec import DecodeError, RowSet, UsageError, decode_at, delta, iceberg, paimon
from dvcodec.io import open_source
from dvcodec.ops.convert import GapKeys, portable_frame
from dvcodec.ops.read import ALLOWED, read_vector, refuse_segment, sniff_source
from dvcodec.spark.columns import STORED_VECTORS
from dvcodec.spark.sources import vectors as reading
from dvcodec.spark.sources.options import ReadOptions
from dvcodec.spark.sources.vectors import reader_of, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def _registered(sources: SparkSession) -> None:
    pass


def read(spark: SparkSession, *paths: Path | str, **options: object) -> DataFrame:
    reader = spark.read.format("dvcodec")
    for name, value in options.items():
        reader = reader.option(name.replace("_", "-"), str(value).lower() if isinstance(value, bool) else str(value))
    return reader.load(list(map(str, paths)) if len(paths) > 1 else str(paths[0]))


def rows_of(df: DataFrame) -> Rows:
    return [
        {name: bytes(value) if name == "dv" and value is not None else value for name, value in row.items()}
        for row in (row.asDict(recursive=True) for row in df.collect())
    ]


def plainly(*paths: Path | str, verify_checksum: bool = True) -> Iterator[dict[str, Any]]:
    """What the data source has to give for containers, by the library's own functions, one vector at a time."""
    nothing = dict.fromkeys(STORED_VECTORS.names)
    for path in paths:
        row = nothing | {"container": str(path)}
        with open_source(str(path)) as source:
            try:
                container = refuse_segment(sniff_source(source))
            except DecodeError as err:
                yield row | {"error": str(err)}
                continue
            for ref in container.vectors:
                row |= {"format": ref.kind.value, "data_file": ref.data_file, "size": ref.size}
                row["offset"] = ref.offset if ref.offset >= 0 else None
                framed = ref.kind in ALLOWED
                try:
                    found = read_vector(source, ref, verify_checksum=verify_checksum)
                    found.check()
                    frame = bytes(portable_frame(found, GapKeys())) if found.frame is None else bytes(found.frame.data)
                except (DecodeError, UsageError) as err:
                    yield row | {"error": str(err), "crc_ok": ..., "dv": None}
                    continue
                yield row | {
                    "cardinality": found.cardinality,
                    "min": found.view.min,
                    "max": found.view.max,
                    "containers": dict(zip(("arrays", "bitsets", "runs"), found.view.mix, strict=True)),
                    "crc_ok": True if framed and verify_checksum else None,
                    "dv": frame,
                }


def assert_same(found: Rows, want: list[dict[str, Any]]) -> None:
    def place(row: dict[str, Any]) -> tuple[object, ...]:
        return row["container"], -1 if row["offset"] is None else row["offset"], row["data_file"] or ""

    assert Counter(map(place, found)) == Counter(map(place, want))
    for row, expected in zip(sorted(found, key=place), sorted(want, key=place), strict=True):
        if expected["crc_ok"] is ...:
            error = row["error"] or ""
            assert row["crc_ok"] is (False if "CRC-32" in error else row["crc_ok"]), expected
            expected["crc_ok"] = row["crc_ok"]
        assert row == expected


def containers_of(own_vectors: Path) -> list[Path]:
    found = [path for path in own_vectors.rglob("*") if path.is_file()]
    shown = [path for path in found if not any(part.startswith(("_", ".")) for part in path.parts)]
    return [path for path in shown if path.stat().st_size < 1 << 20]


# ---------------------------------------------------------------------- what is in the files


@pytest.mark.everywhere
def test_real_files(spark: SparkSession, own_vectors: Path) -> None:
    paths = containers_of(own_vectors)
    assert_same(rows_of(read(spark, *paths)), list(plainly(*paths)))


def test_damaged_files(spark: SparkSession, own_vectors: Path, tmp_path: Path) -> None:
    chance = random.Random(8)
    for i, path in enumerate(containers_of(own_vectors)):
        data = bytearray(path.read_bytes())
        if not 12 < len(data) < 100_000 or path.suffix in (".parquet", ".json", ".gz", ".md", ".zap"):
            continue
        (tmp_path / f"{i}-cut").write_bytes(data[: chance.randrange(len(data))])
        for k in range(3):
            flipped = bytearray(data)
            flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            (tmp_path / f"{i}-flip{k}").write_bytes(flipped)
    paths = sorted(tmp_path.iterdir())
    assert len(paths) > 200
    want = list(plainly(*paths))
    assert sum(row["error"] is not None for row in want) > 100
    assert_same(rows_of(read(spark, tmp_path)), want)


@pytest.mark.everywhere
def test_checksums_can_be_skipped(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "v.puffin"
    first, second = iceberg.write_deletion_vectors(path, {"a": RowSet([1, 2, 9]), "b": RowSet(range(0, 500, 7))})
    data = bytearray(path.read_bytes())
    data[second.offset + second.size - 1] ^= 1  # the CRC
    data[first.offset + 40] ^= 1  # the values, and so the CRC
    path.write_bytes(data)
    checked, unchecked = list(plainly(path)), list(plainly(path, verify_checksum=False))
    assert ["CRC-32" in row["error"] for row in checked] == [True, True]
    assert [row["error"] for row in unchecked] == [None, None]
    assert_same(rows_of(read(spark, path)), checked)
    assert_same(rows_of(read(spark, path, verify_checksum=False)), unchecked)


def test_many_small_files_under_strange_names(spark: SparkSession, tmp_path: Path) -> None:
    want = {}
    for i in range(1000):
        folder = tmp_path / ("a b%20#" if i % 2 else "dé+ü")
        folder.mkdir(exist_ok=True)
        path = folder / f"{i} ?[x] 100%25.dv"
        rows = RowSet([i, i + 70_000])
        path.write_bytes(iceberg.encode(rows))
        want[str(path)] = rows
    found = rows_of(read(spark, tmp_path))
    assert {row["container"]: decode_at(row["dv"]) for row in found} == want
    assert {row["format"] for row in found} == {"blob"}
    # Packed by bytes and what opening costs: tasks of some hundred files each.
    partitions = reading.plan(ReadOptions.parse({"path": str(tmp_path)}))
    assert [len(partition.splits) for partition in partitions] == [511, 489]
    assert reading.plan(ReadOptions.parse({"path": str(tmp_path)}))[1].splits == partitions[1].splits


@pytest.mark.parametrize("kind", ["puffin", "delta", "paimon"])
def test_large_containers_are_split_between_vectors(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    vectors = {f"f{i}": RowSet(chance.integers(0, 1 << 20, int(chance.integers(0, 900)))) for i in range(300)}
    path = tmp_path / "x"
    if kind == "puffin":
        iceberg.write_deletion_vectors(path, vectors)
    elif kind == "delta":
        delta.write_deletion_vectors(path, vectors)
    else:
        paimon.write_deletion_vectors(path, vectors)
    options = ReadOptions.parse({"path": str(path), "partition-bytes": "20k"})
    assert len(reading.plan(options)) == (-(-path.stat().st_size // (20 << 10)) if kind == "puffin" else 1)
    assert_same(rows_of(read(spark, path, partition_bytes="20k")), list(plainly(path)))
    data = path.read_bytes()
    path.write_bytes(data[:-3])  # one row with an error, however often it would be split
    assert_same(rows_of(read(spark, path, partition_bytes="20k")), list(plainly(path)))


# ---------------------------------------------------------------------- what is asked for


@pytest.mark.everywhere
def test_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.puffin"
    (location,) = iceberg.write_deletion_vectors(path, {"a": RowSet([3, 5])})
    given = spark.read.format("dvcodec").schema("max long, data_file string").load(str(path))
    assert given.columns == ["max", "data_file"]
    assert [tuple(row) for row in given.collect()] == [(5, "a")]
    assert [tuple(row) for row in read(spark, path, columns="cardinality, dv").collect()] == [
        (2, bytearray(path.read_bytes()[location.offset :][: location.size]))
    ]
    # Without a column that needs it, the vector is not looked at.
    data = path.read_bytes()
    path.write_bytes(data[: location.offset] + bytes(location.size) + data[location.offset + location.size :])
    assert [tuple(row) for row in read(spark, path, columns="size,data_file").collect()] == [(location.size, "a")]
    assert read(spark, path, columns="size,error").collect()[0]["error"]


@pytest.mark.everywhere
def test_usage_errors_reach_the_user(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="UsageError: no column 'rows'"):
        read(spark, tmp_path, columns="rows").collect()
    with pytest.raises(PySparkException, match="UsageError: column 'size': expected bigint, found int"):
        spark.read.format("dvcodec").schema("size int").load(str(tmp_path)).collect()
    with pytest.raises(PySparkException, match="gone: no such file or folder"):
        read(spark, tmp_path / "gone").collect()
    with pytest.raises(PySparkException, match=r"gone\*: no such file or folder"):
        read(spark, tmp_path / "gone*").collect()
    with pytest.raises(PySparkException, match="nothing to read"):
        spark.read.format("dvcodec").load().collect()
    with pytest.raises(PySparkException, match="the schema has the columns size, the option max"):
        spark.read.format("dvcodec").schema("size long").option("columns", "max").load(str(tmp_path)).collect()
    assert read(spark, tmp_path).collect() == []
    for options, message in (
        ({"columns": "size,size"}, "column 'size' twice"),
        ({"format": "zap"}, "option format: expected one of puffin, delta"),
        ({"ignore-other": "true"}, "unknown option 'ignore-other', known are: columns, committed"),
        ({"partition-bytes": "0"}, "option partition-bytes: expected a positive size"),
        ({"paths": "x"}, "option paths: expected a JSON array of strings"),
        ({"path": ""}, "a path is empty"),
    ):
        with pytest.raises(UsageError, match=message):
            schema_of(ReadOptions.parse({"path": "x"} | options))


def test_an_expected_kind(spark: SparkSession, tmp_path: Path) -> None:
    rows = {"a": RowSet([1, 2])}
    iceberg.write_deletion_vectors(tmp_path / "1", rows)
    delta.write_deletion_vectors(tmp_path / "2", rows)
    paimon.write_deletion_vectors(tmp_path / "3", rows)
    (tmp_path / "4").write_bytes(b"\x01" + delta.encode(RowSet([5]), layout="native"))
    for kind, valid in {"puffin": "1", "delta": "24", "paimon": "23", "roaring32": ""}.items():
        found = {Path(row["container"]).name: row for row in rows_of(read(spark, tmp_path, format=kind))}
        assert [name for name, row in sorted(found.items()) if row["error"] is None] == list(valid), kind
        assert {found[name]["format"] for name in valid} <= {kind}
        if kind in ("puffin", "roaring32"):
            assert found["2"]["error"].endswith(f"container: expected {kind}, found delta")
        left = read(spark, tmp_path, format=kind, ignore_others=True).collect()
        others = {"paimon": "4"}.get(kind, "")  # a Paimon file as far as can be seen, but for the vector in it
        assert {Path(row["container"]).name for row in left} == {*valid, *others}
    (native,) = rows_of(read(spark, tmp_path / "4", format="paimon"))
    assert "magic: expected" in native["error"]


def test_unknown_containers_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "data.parquet")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "up").symlink_to(tmp_path)
    (tmp_path / "v").write_bytes(iceberg.encode(RowSet([1])))
    for name in ("_SUCCESS", ".v.crc", "_log/v", ".tmp/v"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(iceberg.encode(RowSet([1])))
    found = {Path(row["container"]).name: row for row in rows_of(read(spark, tmp_path))}
    assert set(found) == {"data.parquet", "empty", "gone", "v"}
    assert "container: expected a Puffin file" in found["data.parquet"]["error"]
    assert "no such file" in found["gone"]["error"]
    left = rows_of(read(spark, tmp_path, ignore_others=True))
    assert {Path(row["container"]).name for row in left} == {"gone", "v"}
    named = rows_of(read(spark, tmp_path / "data.parquet", tmp_path / "_log/v", ignore_others=True))
    assert [row["error"] is None for row in named] == [False, True]


def test_paths(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    for i, name in enumerate(("1.dv", "2.dv", "sub/3.dv", "sub/[4].dv")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(iceberg.encode(RowSet([i])))

    def names(*paths: Path | str) -> list[str]:
        return [row["container"] for row in read(spark, *paths, columns="container,min").collect()]

    plain = [f"{folder}/{name}" for name in ("1.dv", "2.dv", "sub/3.dv", "sub/[4].dv")]
    url = f"file:{tmp_path}/a%20b"
    assert names(folder) == plain
    assert names(f"{folder}/") == plain
    assert names(folder / "*.dv") == plain[:2]
    assert names(folder / "**" / "[34].dv") == plain[2:3]
    assert names(folder / "s*") == plain[2:]
    assert names(folder / "sub" / "[4].dv") == plain[3:]
    assert names(folder / "2.dv", folder) == [plain[1], plain[0], *plain[2:]]
    assert names(url) == [f"{url}/1.dv", f"{url}/2.dv", f"{url}/sub/%5B4%5D.dv", f"{url}/sub/3.dv"]
    assert names(f"{url}/*.dv") == [f"{url}/1.dv", f"{url}/2.dv"]
    other = f"local://{folder}"  # another URL, read through fsspec
    assert names(other) == [f"{other}/{name}" for name in ("1.dv", "2.dv", "sub/3.dv", "sub/[4].dv")]
    assert names(f"{other}/*.dv", f"{other}/sub/3.dv") == [f"{other}/1.dv", f"{other}/2.dv", f"{other}/sub/3.dv"]
    asked = spark.read.format("dvcodec").option("paths", json.dumps([str(folder / "2.dv")])).load()
    assert [row["min"] for row in asked.collect()] == [1]


def test_a_file_that_grows_shorter_is_a_row(tmp_path: Path) -> None:
    iceberg.write_deletion_vectors(tmp_path / "x", {"a": RowSet([1]), "b": RowSet([2])})
    options = ReadOptions.parse({"path": str(tmp_path)})
    reader = reader_of(options, schema_of(options))
    partitions = reader.partitions()
    (tmp_path / "x").write_bytes(b"")
    (batch,) = reader.read(partitions[0])
    assert batch.column("error")[0].as_py()
    (tmp_path / "x").unlink()
    with pytest.raises(FileNotFoundError):
        list(reader.read(partitions[0]))


@pytest.mark.everywhere
def test_chosen_data_files(spark: SparkSession, tmp_path: Path) -> None:
    iceberg.write_deletion_vectors(tmp_path / "x", {f"f{i}": RowSet([i]) for i in range(50)})
    iceberg.write_deletion_vectors(tmp_path / "y", {"[z": RowSet([99]), "s3://b/x": RowSet([77])})
    cases: tuple[tuple[str, list[int]], ...] = (
        ('["f7", "f30", "none"]', [7, 30]),
        ("f9", [9]),
        ('["[z"]', [99]),
        ("[]", []),
        ("s3a://b//x", [77]),
    )
    for value, want in cases:
        found = read(spark, tmp_path, data_files=value).select("min").collect()
        assert sorted(row["min"] for row in found) == want


def test_windows_and_pools_do_not_change_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    for k in range(6):
        vectors = {f"{k}-{i}": RowSet(chance.integers(0, 1 << 18, 40 * i)) for i in range(20)}
        iceberg.write_deletion_vectors(tmp_path / f"{k}.puffin", vectors)
        delta.write_deletion_vectors(tmp_path / f"{k}.bin", vectors)
    damaged = bytearray((tmp_path / "3.puffin").read_bytes())
    for at in (500, 3000):
        damaged[at] ^= 8
    (tmp_path / "3.puffin").write_bytes(damaged)
    want = list(plainly(*sorted(tmp_path.iterdir())))
    options = ReadOptions.parse({"path": str(tmp_path)})
    for size, count, gap in ((1 << 24, 1 << 15, 1 << 17), (3000, 7, 0), (1, 1, 0), (1 << 24, 3, 1 << 17)):
        monkeypatch.setattr("dvcodec.spark.sources.vectors.WINDOW_BYTES", size)
        monkeypatch.setattr("dvcodec.io.source.WINDOW_BYTES", size)
        monkeypatch.setattr("dvcodec.io.source.WINDOW_VECTORS", count)
        monkeypatch.setattr("dvcodec.io.source._GAP", gap)
        monkeypatch.setattr("dvcodec.spark.sources.vectors.BATCH_BYTES", size)
        reader = reader_of(options, schema_of(options))
        found = [
            row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()
        ]
        assert_same(found, [dict(row) for row in want])


def test_a_wrong_footer(spark: SparkSession, tmp_path: Path) -> None:
    """Ranges outside of the file, a codec, a cardinality that is not a number: rows with errors beside valid ones."""
    iceberg.write_deletion_vectors(tmp_path / "good", {name: RowSet([1]) for name in "abcdefgh"})
    data = (tmp_path / "good").read_bytes()
    at = data.index(b"PFA1", 4)
    footer = json.loads(data[at + 4 : -12])
    blobs = {blob["properties"]["referenced-data-file"]: blob for blob in footer["blobs"]}
    blobs["a"]["offset"] = 10**9
    blobs["b"]["offset"] = -5
    blobs["c"]["length"] += 1
    blobs["d"]["compression-codec"] = "zstd"
    blobs["e"]["properties"]["cardinality"] = "many"
    blobs["f"]["properties"]["cardinality"] = "2"
    blobs["g"]["offset"] = blobs["h"]["offset"]
    text = json.dumps(footer).encode()
    path = tmp_path / "bad"
    path.write_bytes(data[:at] + b"PFA1" + text + len(text).to_bytes(4, "little") + bytes(4) + b"PFA1")
    want = list(plainly(path))
    assert [row["data_file"] for row in want if row["error"] is None] == ["g", "h"]
    assert_same(rows_of(read(spark, path)), [dict(row) for row in want])
    assert_same(rows_of(read(spark, path, partition_bytes=100)), want)


def test_limits_are_an_option_that_messages_name(tmp_path: Path) -> None:
    delta.write_deletion_vectors(tmp_path / "v.bin", {"a": RowSet(range(0, 99, 2))})

    def errors(**more: str) -> list[str | None]:
        options = ReadOptions.parse({"path": str(tmp_path / "v.bin"), "columns": "error", **more})
        reader = reader_of(options, schema_of(options))
        found = [batch for share in reader.partitions() for batch in reader.read(share)]
        return [error for batch in found for error in batch["error"].to_pylist()]

    assert errors(limits="max_records=5, max_cardinality=50") == [None]
    (error,) = errors(limits="max_records=5, max_cardinality=49")
    assert error is not None
    assert 'expected at most 49 (option("limits", "max_cardinality=...") raises it), found 50' in error
    with pytest.raises(UsageError, match=r"option limits: max_rows=3: expected NAME=VALUE with a name of max_vector"):
        errors(limits="max_rows=3")
