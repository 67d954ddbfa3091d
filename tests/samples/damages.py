"""What may be wrong with the last state of `memory_table.make_table`: each function does one thing to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dvcodec import RowSet
from dvcodec.puffin import rewrite_paths
from samples.memory_table import ROWS, FakeTable, changed, flip, write_vectors


def flipped_bit(table: FakeTable, _: Path) -> None:
    vector = table.snapshot().vectors[0]
    flip(vector.location, (vector.offset or 0) + 20)


def wrong_count(table: FakeTable, _: Path) -> None:
    vector = table.snapshot().vectors[0]
    changed(table, replace(vector, cardinality=4), drop=[vector])


def wrong_size(table: FakeTable, _: Path, size: int = 77) -> None:
    """Of the file of vectors."""
    vectors = table.snapshot().vectors
    changed(table, *(replace(vector, file_size=size) for vector in vectors), drop=vectors)


def second_vector(table: FakeTable, folder: Path) -> None:
    changed(table, *write_vectors(folder, "more", {table.snapshot().data_files[0].path: RowSet([1, 9])}))


def equal_vector(table: FakeTable, folder: Path) -> None:
    """A second one of the same rows."""
    changed(table, *write_vectors(folder, "more", {table.snapshot().data_files[0].path: RowSet([1, 2, 500])}))


def beyond(table: FakeTable, folder: Path, number: int = 3) -> None:
    """A position that the data file does not have."""
    path = table.snapshot().data_files[number].path
    old = [vector for vector in table.snapshot().vectors if vector.data_file == path]
    changed(table, *write_vectors(folder, "more", {path: RowSet([5, ROWS])}), drop=old)


def gone_file(table: FakeTable, folder: Path) -> None:
    """A vector of a data file that is not there."""
    changed(table, *write_vectors(folder, "more", {"s3://old/data/z.parquet": RowSet([1])}))


def stale_metadata(table: FakeTable, _: Path) -> None:
    """Only the metadata names a path of before."""
    vector = table.snapshot().vectors[0]
    changed(table, replace(vector, data_file="s3://old/t/data/a.parquet"), drop=[vector])


def stale_blob(table: FakeTable, _: Path) -> None:
    """Only the Puffin file does."""
    vectors = table.snapshot().vectors
    first = vectors[0]
    rewrite_paths(first.location, first.location, {str(first.data_file): "s3://old/data/a.parquet"})
    grown = Path(first.location).stat().st_size
    changed(table, *(replace(one, file_size=grown) for one in vectors), drop=vectors)
