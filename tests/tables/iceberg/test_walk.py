"""Snapshots one after another, by the manifests that differ: the same as whole snapshots, compared."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import fastavro
import pytest

from cases import each
from dvcodec import DecodeError, RowSet
from dvcodec.tables import Table, history, open_table
from dvcodec.tables.iceberg import table as reading
from dvcodec.tables.iceberg.table import ManifestWalk
from samples.changes import sorted_values
from samples.iceberg_table import Commit, build_iceberg, list_schema, write_avro

NAMES = "abcdefgh"


def random_commits(chance: random.Random, count: int, version: int) -> list[Commit]:
    """Data files that come and go and are deleted in: by vectors, by position deletes of a file or of a partition."""
    live: set[str] = set()
    made: dict[str, int] = {}
    commits = []
    for number in range(count):
        walked = version == 3 or number < count // 2  # later ones have deletes that may be for any data file
        gone = {name for name in live if chance.random() < 0.1} if version == 3 or not walked else set()
        live -= gone
        fresh = [f"{name}{made.get(name, 0)}" for name in chance.sample(NAMES, chance.randrange(3))]
        made |= {name[0]: made.get(name[0], 0) + 1 for name in fresh}
        live |= set(fresh)
        deleted = {
            name: RowSet(chance.sample(range(20), chance.randrange(1, 5)))
            for name in chance.sample(sorted(live), min(len(live), chance.randrange(3)))
        }
        data = dict.fromkeys(fresh, 20)
        if version == 3:
            commits.append(Commit(data, vectors=deleted, remove=gone))
        else:
            scope = chance.choice(["referenced", "bounds", *([] if walked else [None])])
            deletes = [{name: rows} for name, rows in deleted.items()]
            commits.append(Commit(data, deletes=deletes, remove=gone, scope=scope))
    return commits


@each(("version", "seed"), [(3, 1), (3, 2), (3, 3), (2, 4), (2, 5), (2, 6)])
def test_random_commits(version: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = random_commits(random.Random(seed), 25, version)
    build_iceberg(tmp_path, *commits, version=version, parquet=False)
    steps = []
    plain = ManifestWalk.step

    def counted(self: ManifestWalk, *rest: Any) -> Any:
        steps.append(plain(self, *rest))
        return steps[-1]

    monkeypatch.setattr(ManifestWalk, "step", counted)
    found = [sorted_values(change) for change in history(open_table(tmp_path), keep_rows=True)]
    assert len(steps) == 24
    assert any(step is not None for step in steps)
    assert version == 3 or None in steps
    monkeypatch.setattr(reading.IcebergTable, "walk_from", Table.walk_from)
    assert found == [sorted_values(change) for change in history(open_table(tmp_path), keep_rows=True)]
    assert sum(change["deleted"] for change in found) > 10


def test_a_data_file_that_comes_twice(tmp_path: Path) -> None:
    made = build_iceberg(tmp_path, Commit(data={"a": 20}), Commit(data={"b": 20}))
    lists = [tmp_path / f"metadata/snap-{number}.avro" for number in (101, 102)]
    listed: list[dict[str, Any]] = []
    for path in lists:
        with path.open("rb") as file:
            listed += [dict(record) for record in fastavro.reader(file) if isinstance(record, dict)]
    write_avro(lists[1], list_schema(3), listed, "null")
    changes = history(open_table(made.folder))
    assert len(next(changes).added) == 1
    with pytest.raises(DecodeError, match=r"snap-102\.avro: manifests: expected each data file once, found .*/a twice"):
        next(changes)


def test_a_snapshot_is_held_against_its_parent(tmp_path: Path) -> None:
    """Which need not be the one that was looked at before."""

    def other_parent(metadata: dict[str, Any]) -> dict[str, Any]:
        metadata["snapshots"][2]["parent-snapshot-id"] = 101
        return metadata

    made = build_iceberg(tmp_path, *(Commit(data={name: 20}) for name in "abc"), tweak=other_parent)
    found = [[Path(file.path).name for file in change.added] for change in history(open_table(made.folder))]
    assert [sorted(names) for names in found] == [["a"], ["b"], ["b", "c"]]
