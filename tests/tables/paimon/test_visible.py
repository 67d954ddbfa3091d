"""Which records of a data file are rows: Java's decision for a batch read."""

from __future__ import annotations

from typing import Any

from cases import each
from dvcodec.tables import DataFile
from dvcodec.tables.paimon.manifests import DataFileMeta
from dvcodec.tables.paimon.metadata import TableSchema
from dvcodec.tables.paimon.rows import Visible, visible_records

DV = {"deletion-vectors.enabled": "true"}
APPEND: tuple[str, ...] = ()
KEYED = ("id",)


def file(name: str, level: int = 0, bucket: int = 0, **more: Any) -> DataFile:
    return DataFile(name, name, 10, record=DataFileMeta(b"", bucket, name, 99, 10, 0, level, **more))


def visible(keys: tuple[str, ...], options: dict[str, str], *files: DataFile) -> list[Any]:
    found = visible_records(TableSchema("schema/schema-0", 0, (), (), keys, options), files)
    assert set(found) == {file.path for file in files}
    return [value if isinstance(value := found[file.path], Visible) else "unsupported" for file in files]


ALL, KINDS, NONE, NOT = Visible.ALL, Visible.KINDS, Visible.NONE, "unsupported"


@each(
    ("keys", "options", "levels", "expected"),
    [
        (APPEND, {}, [0, 0, 1], [ALL, ALL, ALL]),
        (APPEND, DV, [0, 5], [ALL, ALL]),
        (APPEND, DV | {"row-tracking.enabled": "true"}, [0, 0], [ALL, ALL]),
        (KEYED, DV, [0, 3, 5], [NONE, KINDS, KINDS]),
        (KEYED, DV | {"merge-engine": "partial-update"}, [0, 3, 5], [NONE, KINDS, KINDS]),
        (KEYED, DV | {"deletion-vectors.merge-on-read": "true"}, [0, 3], [NOT, NOT]),
        (KEYED, DV | {"deletion-vectors.merge-on-read": "true"}, [3, 3], [KINDS, KINDS]),
        (KEYED, {"merge-engine": "first-row"}, [0, 3, 5], [NONE, KINDS, KINDS]),
        (KEYED, {}, [0], [KINDS]),
        (KEYED, {}, [5, 5, 5], [KINDS, KINDS, KINDS]),
        (KEYED, {}, [0, 0], [NOT, NOT]),
        (KEYED, {}, [4, 5], [NOT, NOT]),
        (KEYED, {"merge-engine": "aggregation"}, [0, 5], [NOT, NOT]),
        (APPEND, {"chain-table.enabled": "true"}, [0], [NOT]),
        (KEYED, {"chain-table.enabled": "false"}, [0], [KINDS]),
        (APPEND, {"scan.fallback-branch": "other"}, [0], [NOT]),
    ],
)
def test_tables_levels_and_engines(
    keys: tuple[str, ...], options: dict[str, str], levels: list[int], expected: list[Any]
) -> None:
    assert visible(keys, options, *(file(f"f{i}", level) for i, level in enumerate(levels))) == expected


def test_postponed_records_are_merged_if_the_table_says_so() -> None:
    files = [file("a", 5), file("b", 0, -2)]
    assert visible(KEYED, DV, *files) == [KINDS, NONE]
    merged = DV | {"postpone.merge-on-read": "true"}
    assert visible(KEYED, merged, *files) == [NOT, NOT]
    assert visible(KEYED, merged, files[0]) == [KINDS]


def test_buckets_are_decided_each_by_itself() -> None:
    files = [file("a", 0, 0), file("b", 0, 1), file("c", 5, 1), file("d", 0, -2)]
    assert visible(KEYED, {}, *files[:1], files[3]) == [KINDS, NONE]
    reasons = visible_records(TableSchema("s", 0, (), (), KEYED, {}), files)
    assert reasons["a"] is KINDS
    assert reasons["b"] == (
        "its records have to be merged by key with those of 1 more files of bucket 1 (merge engine deduplicate)"
    )


def test_columns_spread_over_files() -> None:
    options = {"data-evolution.enabled": "true"}
    alone = [file("a", first_row_id=0), file("b", first_row_id=10), file("c", first_row_id=20)]
    assert visible(APPEND, options, *alone) == [ALL, ALL, ALL]
    shared = [*alone, file("b2", first_row_id=10, write_cols=("x",))]
    assert visible(APPEND, options, *shared) == [ALL, NOT, ALL, NOT]
    assert visible(APPEND, options, file("a"), file("b", first_row_id=5)) == [NOT, ALL]
    assert visible(APPEND, {}, *shared) == [ALL, ALL, ALL, ALL]


def test_metadata_that_is_not_known_here() -> None:
    files = [file("a", unknown=("_NEW",)), file("b"), file("c", unknown=("_NEW", "_MORE"))]
    found = visible_records(TableSchema("s", 0, (), (), (), {}), files)
    assert found["a"] == "its metadata has _NEW, which is not known here"
    assert found["b"] is ALL
    assert found["c"] == "its metadata has _NEW, _MORE, which is not known here"
