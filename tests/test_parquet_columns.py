"""What footers of Parquet files say of columns: as pyarrow reads it, or nothing."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dvcodec.io import open_source
from dvcodec.io.parquet import ColumnChunk, column_chunks, parquet_file
from samples.parquet_footer import META_DATA, STATISTICS, Tree, altered, rewritten

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

VECTORS = Path(__file__).parent / "vectors"


def opened(data: bytes) -> Any:
    with open_source(data) as source:
        return parquet_file(source)


def by_pyarrow(file: Any, leaf: int) -> Iterator[ColumnChunk]:
    for group in range(file.num_row_groups):
        chunk = file.metadata.row_group(group).column(leaf)
        known = chunk.statistics
        low, high = (known.min_raw, known.max_raw) if known is not None and known.has_min_max else (None, None)
        nulls = known.null_count if known is not None and known.has_null_count else None
        yield ColumnChunk(chunk.num_values, chunk.total_compressed_size, low, high, nulls)


def stored(value: Any, kind: str) -> Any:
    """A bound of pyarrow's, as it is stored."""
    widths = {"INT32": 4, "INT64": 8}
    return value.to_bytes(widths[kind], "little", signed=True) if kind in widths and value is not None else value


def assert_as_pyarrow(data: bytes) -> None:
    file = opened(data)
    leaves = {tuple(file.schema.column(i).path.split(".")): i for i in range(len(file.schema))}
    found = column_chunks(file, leaves)
    assert found.keys() == {names for names in leaves if len(names) <= 4}
    for names, chunks in found.items():
        kind = file.schema.column(leaves[names]).physical_type
        for ours, theirs in zip(chunks, by_pyarrow(file, leaves[names]), strict=True):
            assert (ours.values, ours.size) == (theirs.values, theirs.size)
            assert theirs.nulls in (None, ours.nulls)
            if kind in ("INT32", "INT64", "BYTE_ARRAY") and theirs.low is not None:
                assert (ours.low, ours.high) == (stored(theirs.low, kind), stored(theirs.high, kind))


def test_files_of_spark_and_others() -> None:
    for path in VECTORS.rglob("*.parquet"):
        assert_as_pyarrow(path.read_bytes())


ROWS = {
    "id": [1, 2, -3, 4, 5],
    "": ["x", None, "y", "z", "z"],
    "name of a longer column, with spaces": [b"\1", b"", b"a", b"b", b"c"],
}


def by_arrow(rows: Any, folder: Path) -> bytes:
    pq.write_table(rows, folder / "f", row_group_size=2, data_page_version="2.0", write_page_index=True)
    return (folder / "f").read_bytes()


def by_duckdb(rows: Any, folder: Path) -> bytes:
    duckdb = pytest.importorskip("duckdb")
    duckdb.from_arrow(rows).write_parquet(str(folder / "f"), row_group_size=2)
    return (folder / "f").read_bytes()


def by_polars(rows: Any, folder: Path) -> bytes:
    pytest.importorskip("polars").from_arrow(rows).write_parquet(folder / "f", row_group_size=2)
    return (folder / "f").read_bytes()


def by_deltalake(rows: Any, folder: Path) -> bytes:
    """parquet-rs"""
    pytest.importorskip("deltalake").write_deltalake(str(folder / "t"), rows)
    (path,) = (folder / "t").glob("*.parquet")
    return path.read_bytes()


@pytest.mark.parametrize("write", [by_arrow, by_duckdb, by_polars, by_deltalake])
def test_other_writers(write: Callable[[Any, Path], bytes], tmp_path: Path) -> None:
    assert_as_pyarrow(write(pa.table(ROWS), tmp_path))


PATH = ("id",)


def of_id(change: Callable[[Tree], object], **options: Any) -> list[ColumnChunk] | None:
    """What is known of a column of one row group after a change of its metadata."""
    out = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2], "s": ["x", "y"]}), out, **options)
    data = altered(out.getvalue(), lambda columns: change(columns[0][META_DATA][1]))
    return column_chunks(opened(data), [PATH, ("missing",)]).get(PATH)


def statistics(metadata: Tree, **fields: Any) -> None:
    metadata[STATISTICS] = 12, {int(number[1:]): value for number, value in fields.items()}


LOW, HIGH = (1).to_bytes(8, "little"), (2).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: None, (2, LOW, HIGH, 0)),
        (lambda data: data.pop(STATISTICS), (2, None, None, None)),
        (statistics, (2, None, None, None)),
        (lambda data: statistics(data, _1=(8, b"max"), _2=(8, b"min")), (2, None, None, None)),
        (lambda data: statistics(data, _3=(6, 5), _6=(8, b"low"), _7=(1, None), _8=(2, None)), (2, b"low", None, -3)),
        (lambda data: statistics(data, _3=(8, b"\0"), _5=(6, 0), _6=(6, 0)), (2, None, None, None)),
        (lambda data: statistics(data, _3=(6, 2), _4=(9, (6, [1])), _5=(8, b"high")), (2, None, None, 1)),
        (lambda data: data.update({12: (6, 7)}), (2, None, None, None)),
        (lambda data: data.update({8: (9, (12, []))}), (2, None, None, None)),
        (lambda data: data.update({3: (9, (8, [b"s"]))}), None),
        (lambda data: data.update({3: (9, (8, [b"id", b"id"]))}), None),
        (lambda data: data[STATISTICS][1].update({6: (8, b"\x19\x18\2id\x15")}), None),
    ],
)
def test_what_a_column_does_not_record_is_unknown(
    change: Callable[[Tree], object], expected: tuple[Any, ...] | None
) -> None:
    """Among others: bounds whose order is not known, fields of another type, and what another column's path hides."""
    found = of_id(change)
    known = None if found is None else [(one.values, one.low, one.high, one.nulls) for one in found]
    assert known == (None if expected is None else [expected])


@pytest.mark.parametrize(
    ("orders", "columns", "known"),
    [
        ([1, 1], 2, [True, True]),
        ([2, 1], 2, [False, True]),
        (None, 2, [False, False]),
        ([1] * 20, 20, [True] * 20),
        ([1] * 19 + [2], 20, [True] * 19 + [False]),
    ],
)
def test_bounds_without_an_order_are_unknown(orders: list[int] | None, columns: int, known: list[bool]) -> None:
    def change(footer: Tree) -> None:
        del footer[7]
        if orders is not None:
            footer[7] = 9, (12, [{order: (12, {})} for order in orders])

    out = io.BytesIO()
    names = [f"c{i}" for i in range(columns)]
    pq.write_table(pa.table({name: [7] for name in names}), out)
    found = column_chunks(opened(rewritten(out.getvalue(), change)), [(name,) for name in names])
    assert [found[name,][0].low is not None for name in names] == known
    assert all(chunk.nulls == 0 for (chunk,) in found.values())
