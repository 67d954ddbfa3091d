"""live_batches, export_live and read_vectors: the rows that are left, and how vectors are read."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.core.errors import (
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    MissingExtra,
    NotCanonical,
    Unsupported,
)
from dvcodec.tables import DataFile, DeletedRows, DeletionVector, PhysicalRows, Snapshot
from dvcodec.tables.columns import VectorColumns
from dvcodec.tables.model import RowReader
from dvcodec.tables.snapshots import reading
from dvcodec.tables.snapshots.live import deleted_rows, export_live, live_batches
from dvcodec.tables.snapshots.reading import read_vectors
from samples.damages import beyond, flipped_bit, second_vector, stale_metadata, wrong_count
from samples.memory_table import ROWS, FakeSnapshot, FakeTable, beside, changed, make_table


def ids(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch.column("id").to_pylist()]


LIVE = [i for i in range(4 * ROWS) if i not in {1, 2, 500, 2000, 2007, 2999} and not ROWS <= i < 2 * ROWS]


def test_all_live_rows(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    batches = list(live_batches(table))
    assert ids(iter(batches)) == LIVE
    assert all(batch.schema.names == ["id", "name"] for batch in batches)
    assert [batch.num_rows for batch in batches] == [298, 299, 300, 100, 298, 300, 300, 99, 300, 300, 300, 100]
    assert ids(live_batches(table, batch_rows=7)) == LIVE


def test_deleted_rows_and_one_file(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    path = table.snapshot().data_files[0].path
    assert ids(live_batches(table, path, deleted=True)) == [1, 2, 500]
    assert ids(live_batches(table, path, columns=["id"])) == [i for i in LIVE if i < ROWS]
    assert deleted_rows(table, path) == RowSet([1, 2, 500])
    assert ids(live_batches(table, path, snapshot_id=1)) == list(range(ROWS))
    assert sorted(ids(live_batches(table)) + ids(live_batches(table, deleted=True))) == list(range(4 * ROWS))


def beyond_unknown_rows(table: FakeTable, folder: Path) -> None:
    beyond(table, folder, 0)
    state = table.states[-1]
    files = tuple(replace(file, physical_rows=None) for file in state.data_files)
    table.states[-1] = replace(state, data_files=files)


def stale_wide(table: FakeTable, folder: Path) -> None:
    """Position deletes of a partition, whose rows name a data file by another path."""
    path = table.snapshot().data_files[0].path
    changed(table, DeletionVector("position-deletes", None, "w", "w", None, 300, 1))
    table.unknown_files = lambda *_: (f"file:{path}", "s3://old/data/gone.parquet")  # type: ignore[method-assign]
    table.read = lambda *_: ()  # type: ignore[method-assign]


def other_rows(table: FakeTable, folder: Path) -> None:
    state = table.states[-1]
    files = (replace(state.data_files[0], physical_rows=ROWS + 1), *state.data_files[1:])
    table.states[-1] = replace(state, data_files=files)


@each(
    ("damage", "error", "message"),
    [
        (flipped_bit, ChecksumMismatch, "CRC"),
        (wrong_count, CardinalityMismatch, "cardinality"),
        (second_vector, NotCanonical, "vectors for one data file"),
        (beyond, NotCanonical, "below 1000"),
        (beyond_unknown_rows, NotCanonical, "below 1000"),
        (stale_metadata, NotCanonical, "data/a.parquet"),
        (stale_wide, NotCanonical, "w: path of the data file, .*: expected /"),
        (other_rows, NotCanonical, "rows of the data file"),
    ],
)
def test_damage_is_an_error(
    damage: Callable[[FakeTable, Path], None], error: type[DecodeError], message: str, tmp_path: Path
) -> None:
    table = make_table(tmp_path)
    damage(table, tmp_path)
    with pytest.raises(error, match=message):
        list(live_batches(table))
    out = beside(tmp_path) / "out.parquet"
    with pytest.raises(error, match=message):
        export_live(table, out)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches become few row groups."""
    table = make_table(tmp_path)
    steps: list[tuple[int, int]] = []
    out = beside(tmp_path) / "out.parquet"
    monkeypatch.setattr("dvcodec.tables.snapshots.live._GROUP_ROWS", 1000)
    count = export_live(table, out, batch_rows=90, progress=lambda done, total: steps.append((done, total)))
    written = pq.read_table(out)
    assert count == written.num_rows == len(LIVE)
    assert written.schema.equals(table.snapshot().schema())
    assert written["id"].to_pylist() == LIVE
    sink = io.BytesIO()
    assert export_live(table, sink, snapshot_id=1, columns=["name", "id"], compression="none") == 4 * ROWS
    assert pq.read_table(io.BytesIO(sink.getvalue())).schema.names == ["name", "id"]
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    groups = pq.ParquetFile(out).metadata
    rows = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
    assert len(rows) == 3
    assert all(1000 <= group < 1090 for group in rows[:-1])


TOO_FAR = pa.array([2**60] * ROWS, pa.timestamp("s"))
INTERVALS = pa.nulls(ROWS, pa.month_day_nano_interval())
NULLS = pa.nulls(ROWS, pa.int64())
FIELDLESS = pa.array([[{}]] * ROWS, pa.list_(pa.struct([])))


@pytest.mark.parametrize(
    ("values", "nullable", "message"),
    [
        (TOO_FAR, True, "Casting from timestamp.s. to timestamp.ms. would result in out of bounds timestamp"),
        (INTERVALS, True, "Unhandled type"),
        (NULLS, False, "Column 'z' is declared non-nullable but contains nulls"),
        (FIELDLESS, True, "Cannot write struct"),
    ],
)
def test_what_the_parquet_writer_refuses_is_one_line(
    tmp_path: Path, values: pa.Array, nullable: bool, message: str
) -> None:
    class Refused(FakeSnapshot):
        def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
            whole = super().schema().append(pa.field("z", values.type, nullable))
            return whole if columns is None else pa.schema([whole.field(name) for name in columns])

        def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
            schema = self.schema(columns)

            def read(*, batch_rows: int, **_: Any) -> Iterator[PhysicalRows]:
                for part in self.table.rows(data_file, ["id", "name"], batch_rows):
                    whole = part.batch.append_column("z", values[: part.batch.num_rows])
                    arrays = whole.select(schema.names).columns
                    yield replace(part, batch=pa.RecordBatch.from_arrays(arrays, schema=schema))

            return RowReader(read)

    table = make_table(tmp_path)
    last = table.states[-1]
    table.states[-1] = Refused(table, last.info, last.data_files, last.vectors)
    sink = beside(tmp_path) / "out.parquet"
    for columns in (None, ["z"]):
        with pytest.raises(Unsupported, match=f"column z: expected what a Parquet file can hold.*{message}") as caught:
            export_live(table, sink, columns=columns)
        assert "\n" not in str(caught.value)
        assert not list(sink.parent.iterdir())
    assert export_live(table, sink, columns=["id"]) == len(LIVE)


# ---------------------------------------------- read_vectors: threads, order, and how often a file is opened and read


def test_tasks_are_of_bounded_size() -> None:
    def sizes(location: str, *of: int) -> list[list[int | None]]:
        vectors = [DeletionVector("delta", "a", location, location, i, size) for i, size in enumerate(of)]
        return [[vectors[number].size for number in task] for task in reading._tasks(VectorColumns(vectors, {}))]

    mega = 1 << 20
    assert sizes("/t/v", mega, 7 * mega, mega, 9 * mega, mega) == [[mega, 7 * mega], [mega], [9 * mega], [mega]]
    assert sizes("/t/v", 1 << 40, -(1 << 40), mega) == [[1 << 40], [-(1 << 40)], [mega]]
    assert [len(task) for name in ("/t/v", "s3://b/v") for task in sizes(name, *[1] * 300)] == [256, 44] + [64] * 4 + [
        44
    ]


def test_a_wrong_range_is_an_error_of_its_vector_alone(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    a, b, c = table.snapshot().vectors
    wrong = replace(b, size=1 << 40)
    found = list(read_vectors(table.snapshot(), (a, wrong, c), threads=1))
    assert [read.error is None for read in found] == [True, False, True]
    gone, odd = replace(a, location=str(tmp_path / "none")), replace(a, location="file://elsewhere/x")
    found = list(read_vectors(table.snapshot(), (gone, c, odd), threads=2))
    assert [type(read.error) for read in found] == [FileNotFoundError, type(None), UsageError]


def test_a_missing_extra_is_raised(tmp_path: Path) -> None:
    class Bare(FakeTable):
        def read(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[DeletedRows, ...]:  # noqa: ARG002
            raise MissingExtra("pyarrow", "tables")

    made = make_table(tmp_path)
    table = Bare(str(tmp_path), made.states)
    with pytest.raises(MissingExtra):
        list(read_vectors(table.snapshot(), table.snapshot().vectors))
