"""Values, arguments and records that all formats share; what a table shows after commits; a lost answer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import CommitConflict, CommitUnknown, RowSet, UsageError
from dvcodec.core.vector import DvLocation
from dvcodec.io import Storage, storage
from dvcodec.io.store import Reason
from dvcodec.io.store.errors import store_error
from dvcodec.tables import DataFile, DeletionVector, Snapshot, Table, audit, live_batches, open_table
from dvcodec.tables.delta import AddFile
from dvcodec.tables.iceberg import ManifestEntry
from dvcodec.tables.metadata import Cache
from dvcodec.tables.metadata.json_fields import MAX_DIGITS, parse_decimal
from dvcodec.tables.writing import put_once
from samples.delta_table import build_delta
from samples.iceberg_table import Commit, build_iceberg
from samples.memory_store import MemoryStore
from samples.paimon_table import PaimonFile, build_paimon
from tables.deleting.random_tables import FORMATS
from tables.deleting.random_where import random_rows


def snapshots(folder: Path) -> Iterator[Snapshot]:
    for name in ("one", "two"):
        deletes = {f"{name}.parquet": RowSet([1])}
        yield open_table(build_iceberg(folder / f"i{name}", Commit({f"{name}.parquet": 9}, deletes)).folder).snapshot()
    yield open_table(build_delta(folder / "d").root).snapshot()
    files = [[PaimonFile("p.parquet", pa.table({"a": pa.array([1, 2], pa.int32())}), RowSet([1]))]]
    yield open_table(build_paimon(folder / "p", [(0, "a", "INT")], files)).snapshot()


def test_vectors_and_data_files_of_other_tables(tmp_path: Path) -> None:
    made = list(snapshots(tmp_path))
    for own in made:
        assert own.read(own.vectors[0])
        for other in made:
            if other is not own:
                with pytest.raises(UsageError, match=f"no vector of snapshot {own.info.id} of "):
                    own.read(other.vectors[0])
                with pytest.raises(UsageError, match=f"no data file of snapshot {own.info.id} of "):
                    list(own.rows(other.data_files[0]))


def test_records_are_of_one_format(tmp_path: Path) -> None:
    file = open_table(build_delta(tmp_path / "d").root).snapshot().data_files[0]
    assert AddFile.of(file).path == file.path
    with pytest.raises(UsageError, match=r"its record is AddFile\(.*, not ManifestEntry"):
        ManifestEntry.of(file)
    with pytest.raises(UsageError, match="its record is None, not AddFile"):
        AddFile.of(DataFile("a", "/t/a", 1))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=40))
def test_it_is_a_bounded_cache_of_what_was_used_last(uses: list[tuple[int, int]]) -> None:
    cache: Cache[int, int] = Cache(10, lambda value: value)
    kept: dict[int, int] = {}
    for key, size in uses:
        made: list[int] = []

        def make(size: int = size, made: list[int] = made) -> int:
            made.append(size)
            return size

        found = cache.get(key, make)
        assert bool(made) == (key not in kept)
        assert found == kept.get(key, size)
        if key in kept or size <= 10:
            kept[key] = kept.pop(key, size)
        while sum(kept.values()) > 10:
            del kept[next(iter(kept))]


NINES = "9" * MAX_DIGITS


@given(st.integers(-(10**MAX_DIGITS) + 1, 10**MAX_DIGITS - 1), st.integers(0, MAX_DIGITS))
def test_all_digits_are_kept(unscaled: int, scale: int) -> None:
    number = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    assert parse_decimal(f"{number:f}").as_tuple() == number.as_tuple()
    written = parse_decimal(f"{number:E}")
    assert (written, int(written.as_tuple().exponent) <= 0) == (number, True)


@each(
    "text",
    [
        *("", "x", "NaN", "Infinity", "1_0", " 1", ".5", "1.", "\u0661", f"1{NINES}", f"0.1{NINES}"),
        *("1E38", "1E-39", "1E-999999999", "1E+999999999"),
    ],
)
def test_invalid_decimals_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a decimal number|has more than 38 digits"):
        parse_decimal(text)


LOCATED = DeletionVector("iceberg", "a.parquet", "v.puffin", "/t/v.puffin", 4, 40, 5, 99)


def test_the_location_of_a_vector() -> None:
    assert LOCATED.to_location() == DvLocation("iceberg", "v.puffin", 4, 40, 5, "a.parquet", 99)
    for lacking in ({"path": ""}, {"offset": None}, {"size": None}, {"cardinality": None}):
        with pytest.raises(UsageError, match="not a recorded byte range"):
            replace(LOCATED, **lacking).to_location()


# -------------------------------------------------- what a table object shows after commits, through it and by others


FILES = [random_rows(random.Random(number), 300 * number, 300) for number in range(3)]


def live(table: Table) -> int:
    return sum(batch.num_rows for batch in live_batches(table, columns=["key"]))


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_deletes_through_a_table_and_by_another(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    FORMATS[kind][0](folder, FILES)
    table, other = open_table(folder), open_table(folder)
    before, snapshots = table.snapshot(), len(table.snapshots())
    assert table.delete(pc.field("key") < 10, dry_run=True).rows == 10
    assert (table.snapshot().info, live(table)) == (before.info, 900)
    done = table.delete(pc.field("key") < 10)
    assert (table.snapshot().info.id, live(table)) == (done.snapshot, 890)
    assert [info.id for info in table.snapshots()][snapshots:] == [done.snapshot]
    assert audit(table).info.id == done.snapshot
    if kind in ("delta", "iceberg"):
        assert (other.snapshot().info, live(other)) == (before.info, 900)
    other.refresh()
    assert (other.snapshot().info.id, live(other)) == (done.snapshot, 890)
    still = (part.batch for file in before.data_files for part in before.rows(file, columns=["key"]))
    assert sum(batch.num_rows for batch in still) == 900
    assert not before.vectors


@pytest.mark.parametrize("error", [CommitConflict, CommitUnknown, UsageError, OSError])
def test_after_a_delete_that_fails(error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table shows what is there now if that made a commit fail, or if it may be in; else it stays as it was."""
    folder = build_iceberg(tmp_path / "t", Commit({"a": 20, "b": 20})).folder
    table, other = open_table(folder), open_table(folder)
    before, path = table.snapshot().info, table.snapshot().data_files[0].path
    done = other.delete(positions={path: RowSet([1])})
    monkeypatch.setattr("dvcodec.tables.iceberg.folder_place.put_once", Mock(side_effect=error("no")))
    with pytest.raises(error):
        table.delete(positions={path: RowSet([2])}, retries=0)
    is_new = error in (CommitConflict, CommitUnknown)
    assert table.snapshot().info.id == (done.snapshot if is_new else before.id)


# ---------------------------------------------------------- what is known of a commit whose file could not be created


KEY = "t/_delta_log/00000000000000000001.json"
URL = f"s3://lake/{KEY}"


class Existing(MemoryStore):
    """A store that answers every commit so; an earlier request of it may have been done."""

    is_done: bool = False

    def put_if_absent(self, key: str, data: bytes) -> None:
        if self.is_done:
            self.put(key, data)
        raise store_error(self.url(key), "write", "412", Reason.EXISTS)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Existing:
    found = Existing()
    monkeypatch.setattr(storage, "open_store", found.opened)
    return found


def test_an_earlier_request_was_done(store: Existing) -> None:
    store.put(KEY, b"theirs")
    with pytest.raises(CommitConflict, match="another writer committed it first"):
        put_once(Storage(), URL, b"mine")
    store.is_done = True
    put_once(Storage(), URL, b"mine")


@pytest.mark.parametrize("is_done", [False, True])
def test_a_file_that_cannot_be_read_may_be_of_either(store: Existing, is_done: bool) -> None:
    """As a conflict, the vectors of a commit that is in would be removed."""
    store.put(KEY, b"theirs")
    store.is_done = is_done
    store.refused = dict.fromkeys(("get", "head", "list"), Reason.UNAVAILABLE)
    with pytest.raises(CommitUnknown, match="exists, and could not be read"):
        put_once(Storage(), URL, b"mine")
