"""From rows to one vector a data file, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from dvcodec import RowSet, UsageError, iceberg
from samples.position_rows import gathered, reference, rows


def test_dictionaries_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows("random", 5_000)
    want = reference(table)
    for kind in (
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    ):
        column = table["file_path"]
        column = column.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column.cast(kind)
        assert {path: data for path, _, data in gathered(pa.table({"f": column, "p": table["pos"]}))} == want


def test_positions_of_any_integer_type() -> None:
    for kind in (pa.int16(), pa.int32(), pa.uint32(), pa.uint64()):
        table = pa.table({"f": ["a", "b", "a"], "p": pa.array([3, 1, 2], kind)})
        assert gathered(table) == [("a", 2, iceberg.encode(RowSet([2, 3]))), ("b", 1, iceberg.encode(RowSet([1])))]


def test_positions_above_two_to_the_forty() -> None:
    table = pa.table({"f": ["a", "a", "b"], "p": [1 << 41, 1, (1 << 41) + 5]})
    found = gathered(table)
    assert [iceberg.decode(data) for _, _, data in found] == [RowSet([1, 1 << 41]), RowSet([(1 << 41) + 5])]


@pytest.mark.parametrize(
    ("files", "positions", "message"),
    [
        (["a", None], [1, 2], "1 rows name no data file"),
        (["a", "b"], [1, None], "1 rows have no position"),
        (["a", "b"], [1, -2], "position -2 is negative"),
        (["a", "b"], [1.0, 2.0], "integers, not double"),
    ],
)
def test_rows_that_are_none(files: list[str | None], positions: list[object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gathered(pa.table({"f": files, "p": positions}))


def test_a_null_in_a_dictionary() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    with pytest.raises(UsageError, match="null"):
        gathered(pa.table({"f": column, "p": [1, 2]}))
