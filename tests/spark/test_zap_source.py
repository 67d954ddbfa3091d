"""The data source ``zap``, against `Segment.to_arrow`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from dvcodec import ChecksumMismatch, DecodeError, LimitExceeded, UsageError
from dvcodec.spark.compat import to_arrow
from dvcodec.spark.sources import zap as source
from dvcodec.spark.sources.options import OPEN_COST_BYTES
from dvcodec.spark.sources.zap import (
    SegmentOptions,
    SegmentPart,
    SegmentReader,
    plan,
    shares,
    table_schema,
)
from dvcodec.zap import Document, Field, FieldOptions, Location, Segment, Term, text_field, write_segment
from dvcodec.zap.columns import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
TABLES = sorted(SCHEMAS)
SOME = ["zapx-15.4.3/instances", "zapx-15.4.3/none", "zapx-17.2.3/geo", "zapx-17.2.3/options"]
KEPT = FieldOptions.INDEXED | FieldOptions.STORED | FieldOptions.TERM_VECTORS | FieldOptions.DOC_VALUES


@pytest.fixture(scope="module")
def registered(sources: SparkSession) -> SparkSession:
    return sources


@pytest.fixture(scope="module")
def some() -> list[str]:
    """Some of the committed segments."""
    folder = Path(__file__).parents[1] / "vectors" / "zap"
    return [str(folder / f"{name}.zap") for name in SOME]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index' folder: a segment of each version, and what lies beside them."""
    place = tmp_path_factory.mktemp("index") / "store #1"
    (place / "deeper").mkdir(parents=True)
    for version in range(11, 18):
        write_segment(str(place / f"{version:012x}.zap"), documents(version), version)
    write_segment(str(place / "deeper" / "a.zap"), documents(1), 15)
    (place / "root.bolt").write_bytes(b"not a segment")
    return place


def documents(seed: int, count: int = 6) -> list[Document]:
    found = []
    for i in range(count):
        words = [f"w{(seed * i + k) % 7}" for k in range(i + 1)]
        fields = (
            text_field("body", " ".join(words)),
            text_field("title", f"title {seed} {i}"),
            Field("tags", b"x", "t", KEPT, (Term(b"x", 1, (Location(1, 0, 1, "", (i, 2)),)),), 1, (i,)),
        )
        found.append(Document(b"%d-%d" % (seed, i), fields))
    return found


def read(spark: SparkSession, table: str, *paths: str | Path, **options: object) -> DataFrame:
    reader = spark.read.format("zap").option("table", table)
    for name, value in options.items():
        reader = reader.option(name.replace("_", "-"), str(value))
    return reader.load([str(path) for path in paths] if len(paths) > 1 else str(paths[0]))


def rows_of(frame: DataFrame) -> list[Row]:
    found: list[Row] = to_arrow(frame).to_pylist()
    return found


def expected(table: str, paths: Sequence[str | Path], fields: list[str] | None = None) -> list[Row]:
    found: list[Row] = []
    for path in paths:
        with Segment.open(path) as segment:
            names = None if fields is None else [info.name for info in segment.fields if info.name in fields]
            for batch in segment.to_arrow(table, names):
                found += [{"segment": str(path), **row, "error": None} for row in batch.to_pylist()]
    return found


def read_directly(table: str, *paths: str | Path, schema: StructType | None = None, **options: object) -> list[Row]:
    """What the reader gives, without Spark."""
    given = {name.replace("_", "-"): str(value) for name, value in options.items()}
    given |= {"table": table, "paths": json.dumps([str(path) for path in paths])}
    reader = SegmentReader(SegmentOptions.parse(given), schema or table_schema(table))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


# ---------------------------------------------------------------------- in Spark


@pytest.mark.everywhere
@pytest.mark.parametrize("table", TABLES)
def test_tables_are_those_of_the_segments(registered: SparkSession, some: list[str], folder: Path, table: str) -> None:
    paths = [*some, str(folder / f"{17:012x}.zap")]
    frame = read(registered, table, *paths)
    assert frame.columns == ["segment", *SCHEMAS[table].names, "error"]
    assert frame.schema == table_schema(table)
    found = rows_of(frame)
    assert found == expected(table, paths)
    assert len({row["segment"] for row in found}) >= (4 if table == "fields" else 2)


def test_a_folder_and_a_pattern_in_parts(registered: SparkSession, folder: Path) -> None:
    paths = sorted([*folder.glob("*.zap"), folder / "deeper" / "a.zap"])
    from_folder = rows_of(read(registered, "doc_values", folder))
    assert from_folder == expected("doc_values", paths)
    some = [path for path in paths if path.name[-5] in "cd"]
    frame = read(registered, "postings", folder / "*[cd].zap", partition_bytes=200)
    assert rows_of(frame) == expected("postings", some)
    parts = frame.selectExpr("spark_partition_id() AS part", "field").distinct().count()
    assert parts == len(some) * 4, "every field is a part of its own"
    narrow = registered.read.format("zap").option("table", "stored").schema("value binary, segment string, doc long")
    found = rows_of(narrow.load(str(paths[0])))
    assert found == [{name: row[name] for name in ("value", "segment", "doc")} for row in expected("stored", paths[:1])]
    (row,) = read_directly("fields", folder / "root.bolt")
    assert "zap" in row["error"], "a file that is named is read, whatever its name"


@pytest.mark.everywhere
def test_a_damaged_segment_is_a_row(registered: SparkSession, folder: Path, tmp_path: Path) -> None:
    valid, wrong, cut = (tmp_path / f"{name}.zap" for name in ("1", "2", "3"))
    raw = (folder / f"{16:012x}.zap").read_bytes()
    valid.write_bytes(raw)
    wrong.write_bytes(raw[:40] + bytes([raw[40] ^ 1]) + raw[41:])
    cut.write_bytes(raw[:30])
    found = rows_of(read(registered, "terms", tmp_path))
    assert [row for row in found if row["error"] is None] == expected("terms", [valid])
    complaints = {row.pop("segment"): row for row in found if row["error"]}
    assert sorted(complaints) == [str(wrong), str(cut)]
    assert "CRC-32 of the segment" in complaints[str(wrong)]["error"]
    assert str(cut) in complaints[str(cut)]["error"]
    assert all(value is None for row in complaints.values() for name, value in row.items() if name != "error")

    blind = registered.read.format("zap").option("table", "terms").schema("term binary")
    assert len(rows_of(blind.load(str(valid)))) > 0
    with pytest.raises(Exception, match="CRC-32 of the segment"):
        blind.load([str(valid), str(wrong)]).count()


# ---------------------------------------------------------------------- without Spark


def test_small_segments_share_tasks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = sorted(map(str, folder.rglob("*.zap")))
    options = SegmentOptions.parse({"table": "terms", "path": str(folder)})
    with monkeypatch.context() as patch:  # small ones are not even opened
        patch.delattr(Segment, "open")
        assert [[part.path for part in one.parts] for one in shares(plan(options), options)] == [paths]
    size = Path(paths[0]).stat().st_size
    monkeypatch.setattr(source, "PACKED_BYTES", 3 * (size + OPEN_COST_BYTES))
    packed = shares(plan(options), options)
    assert [part.path for one in packed for part in one.parts] == paths
    assert 2 <= max(len(one.parts) for one in packed) <= 3
    options = SegmentOptions.parse({"table": "terms", "path": str(folder), "partition-bytes": "1"})
    cut = shares(plan(options), options)
    assert all(len(one.parts) == 1 for one in cut)
    assert len(cut) > 2 * len(paths)
    remote = SegmentOptions(("x",), "terms")
    parts = [
        SegmentPart("s3://b/x.zap", size=10),
        SegmentPart("s3://b/y.zap", ("f",), None, 10),
        SegmentPart("s3://b/z.zap"),
    ]
    assert [len(one.parts) for one in shares(parts, remote)] == [1, 1, 1], "the part of a large one by itself"


@pytest.mark.parametrize("table", TABLES)
def test_parts_have_the_rows_in_order(folder: Path, some: list[str], table: str) -> None:
    paths = sorted(str(path) for path in folder.glob("*.zap")) + some
    for size in (1, 150, 700, 1 << 20):
        assert read_directly(table, *paths, partition_bytes=size) == expected(table, paths)
    given = read_directly(table, *paths, fields="title, _id,nowhere", partition_bytes=300)
    whole = expected(table, paths, ["title", "_id"])
    if table != "stored":  # by field, in the order asked for
        whole = sorted(whole, key=lambda row: (paths.index(row["segment"]), row["field"] != "title"))
    assert given == whole


def test_what_is_valid_comes_before_the_error(folder: Path, tmp_path: Path) -> None:
    raw = bytearray((folder / f"{15:012x}.zap").read_bytes())
    with Segment.open(bytes(raw)) as segment:
        at = segment.field("title").dictionary
        assert at is not None
    raw[at : at + 12] = b"\xff" * 12
    path = tmp_path / "damaged.zap"
    path.write_bytes(raw)
    with pytest.raises(DecodeError), Segment.open(path, verify_checksum=False) as segment:
        list(segment.to_arrow("terms", ["title"]))
    whole = [{**row, "segment": str(path)} for row in expected("terms", [folder / f"{15:012x}.zap"])]
    valid = [row for row in whole if row["field"] != "title"]
    for size in (1, 1 << 20):
        *found, last = read_directly("terms", path, verify_checksum="false", partition_bytes=size)
        assert found == valid
        assert (last["segment"], last["field"]) == (str(path), None)
        assert "dictionary" in last["error"]
    narrow = StructType([StructField("field", StringType())])
    with pytest.raises(DecodeError, match="dictionary"):
        read_directly("terms", path, schema=narrow, verify_checksum="false")
    with pytest.raises(ChecksumMismatch):
        read_directly("terms", path, schema=narrow)
    errors = read_directly("terms", path, schema=StructType([StructField("error", StringType())]))
    assert [list(row) for row in errors] == [["error"]]
    # Every part that cannot be opened says so: none may go unseen.
    found = read_directly("stored", path, partition_bytes=1)
    assert len(found) == 6
    assert all("CRC-32" in row["error"] for row in found)


def test_batches_are_bounded_by_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A dictionary's term costs its bytes in every row once it is plain."""
    long = b"x" * 1000
    path = tmp_path / "long.zap"
    field = Field("f", options=FieldOptions.INDEXED, terms=(Term(long),), length=1)
    write_segment(str(path), [Document(b"%d" % i, (field,)) for i in range(100)], 15)
    monkeypatch.setattr(source, "_BATCH_BYTES", 10_000)
    reader = SegmentReader(SegmentOptions((str(path),), "postings", ("f",)), table_schema("postings"))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert sum(batch.num_rows for batch in batches) == 100
    assert all(0 < batch.num_rows <= 10 for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    for table in TABLES:
        monkeypatch.setattr(source, "_BATCH_BYTES", 1)
        assert read_directly(table, folder / f"{13:012x}.zap") == expected(table, [folder / f"{13:012x}.zap"])


def test_numbers_that_a_long_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "wide.zap"
    valid, wide = (Field("f", b"v", options=FieldOptions.STORED, array_positions=(n,)) for n in (7, 2**63))
    write_segment(str(path), [Document(b"a", (wide,)), Document(b"b", (valid,))], 15)
    (row,) = read_directly("stored", path)
    assert "column array_positions" in row["error"]
    assert "9223372036854775808" in row["error"]
    narrow = StructType([StructField("doc", LongType())])
    assert len(read_directly("stored", path, schema=narrow)) == 4, "a column that is not asked for does no harm"
    arrays = StructType([table_schema("stored")["array_positions"]])
    with pytest.raises(LimitExceeded, match="2\\*\\*63"):
        read_directly("stored", path, schema=arrays)


def test_what_is_refused(tmp_path: Path) -> None:
    for given, message in (
        ({}, "option table: expected one of terms, postings, locations, stored, doc_values, fields"),
        ({"table": "terms", "field": "body"}, "unknown option 'field'"),
        ({"table": "terms", "verify-checksum": "no"}, "option verify-checksum"),
        ({"table": "terms", "fields": "[1]"}, "option fields: expected a JSON array"),
        ({"table": "terms", "fields": "[nowhere"}, "option fields: expected a JSON array"),
    ):
        with pytest.raises(UsageError, match=message):
            SegmentOptions.parse(given)
    parsed = SegmentOptions.parse(
        {"Table": "TERMS", "fields": '["a,b", "c", "c"]', "path": "x", "PARTITION-bytes": "1m"}
    )
    assert parsed == SegmentOptions(("x",), "terms", ("a,b", "c"), 1 << 20)
    with pytest.raises(UsageError, match="needs a path"):
        plan(SegmentOptions((), "terms"))
    with pytest.raises(UsageError, match="no such file"):
        plan(SegmentOptions((str(tmp_path / "nothing"),), "terms"))
    (tmp_path / "root.bolt").write_bytes(b"")
    with pytest.raises(UsageError, match="no segments"):
        plan(SegmentOptions((str(tmp_path),), "terms"))
    options = SegmentOptions((str(tmp_path),), "terms")
    with pytest.raises(UsageError, match="found 'nothing'"):
        SegmentReader(options, StructType([StructField("nothing", StringType())]))
    with pytest.raises(UsageError, match="doc_count of the table terms is bigint, not string"):
        SegmentReader(options, StructType([StructField("doc_count", StringType())]))
