"""Values, arguments and records that all formats share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.core.vector import DvLocation
from dvcodec.tables import DataFile, DeletionVector, Snapshot, open_table
from dvcodec.tables.delta import AddFile
from dvcodec.tables.iceberg import ManifestEntry
from dvcodec.tables.metadata.cache import Cache
from dvcodec.tables.metadata.json_fields import MAX_DIGITS, parse_decimal
from samples.delta_table import build_delta
from samples.iceberg_table import Commit, build_iceberg
from samples.paimon_table import PaimonFile, build_paimon


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


def test_nothing_is_kept_of_an_error() -> None:
    cache: Cache[str, int] = Cache(10, lambda value: value)
    with pytest.raises(ValueError, match="invalid literal"):
        cache.get("a", lambda: int("x"))
    assert cache.get("a", lambda: 1) == 1


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


@pytest.mark.parametrize(
    ("text", "written"),
    [("2E+3", "2000"), ("-1.5e2", "-150"), ("+1E-3", "0.001"), (f"{NINES}.{NINES}", f"{NINES}.{NINES}"), ("0E2", "0")],
)
def test_exponents_are_written_out(text: str, written: str) -> None:
    number = parse_decimal(text)
    assert number == Decimal(written)
    assert int(number.as_tuple().exponent) <= 0


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


VECTOR = DeletionVector("iceberg", "a.parquet", "v.puffin", "/t/v.puffin", 4, 40, 5, 99)


def test_the_location_of_a_vector() -> None:
    assert VECTOR.to_location() == DvLocation("iceberg", "v.puffin", 4, 40, 5, "a.parquet", 99)


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        ({"path": ""}, "inline vector of a.parquet"),
        ({"offset": None}, "v.puffin"),
        ({"size": None}, "v.puffin@4"),
        ({"cardinality": None}, "v.puffin@4"),
    ],
)
def test_a_vector_without_a_recorded_byte_range(lacking: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}: not a recorded byte range$"):
        replace(VECTOR, **lacking).to_location()
