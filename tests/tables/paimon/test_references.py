"""Files that some state still needs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from dvcodec.tables import Folder
from dvcodec.tables.paimon.manifests import Manifests
from dvcodec.tables.paimon.table import referenced_files
from samples.paimon_table import PaimonFile, build_paimon, rewrite_json

ROWS = pa.table({"id": pa.array(range(10))})
COLUMNS = [(0, "id", "BIGINT")]
A = PaimonFile("a.parquet", ROWS, [1], more={"_EXTRA_FILES": ["a.parquet.index"]})
B = PaimonFile("b.parquet", ROWS)
C = PaimonFile("c.parquet", ROWS, [2])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return build_paimon(tmp_path / "t", COLUMNS, [[A], [A, B], [B, C]])


def referenced(table: Path) -> frozenset[str]:
    folder = Folder(str(table))
    return referenced_files(folder, Manifests(folder))


def needed(table: Path) -> set[str]:
    found = referenced(table)
    assert all(name.startswith(f"{table}/") for name in found)
    return {name.removeprefix(f"{table}/") for name in found}


def stored(table: Path) -> set[str]:
    return {file.location.removeprefix(f"{table}/") for file in Folder(str(table)).walk()}


def test_expired_states_need_nothing(table: Path) -> None:
    (table / "snapshot/snapshot-1").unlink()
    (table / "snapshot/snapshot-2").unlink()
    assert stored(table) - needed(table) == {
        "bucket-0/a.parquet",
        "bucket-0/a.parquet.index",
        "index/index-1-0",
        "index/index-2-0",
        *(f"manifest/{name}" for name in ("index-manifest-1-0", "index-manifest-2-0")),
        *(f"manifest/manifest-list-{i}-{j}" for i in (1, 2) for j in (0, 1)),
    }


def test_tag_keeps_what_has_expired(table: Path) -> None:
    (table / "tag").mkdir()
    (table / "snapshot/snapshot-1").rename(table / "tag/tag-first")
    (table / "snapshot/snapshot-2").unlink()
    gone = {
        "index/index-2-0",
        "manifest/index-manifest-2-0",
        "manifest/manifest-list-2-0",
        "manifest/manifest-list-2-1",
    }
    assert stored(table) - needed(table) == gone


def test_changelog_keeps_what_its_snapshot_added(table: Path) -> None:
    (table / "changelog").mkdir()
    (table / "snapshot/snapshot-1").rename(table / "changelog/changelog-1")
    (table / "snapshot/snapshot-2").unlink()
    assert {"bucket-0/a.parquet", "changelog/changelog-1"} <= needed(table)


def test_changelog_files_and_statistics(table: Path) -> None:
    path = table / "snapshot/snapshot-3"
    changes = {"changelogManifestList": "manifest-list-1-1", "statistics": "stat-1"}
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    (table / "snapshot/snapshot-1").unlink()
    (table / "snapshot/snapshot-2").unlink()
    assert {"manifest/manifest-list-1-1", "bucket-0/a.parquet", "statistics/stat-1"} <= needed(table)


def test_branch_has_states_of_its_own_and_the_tables_files(table: Path) -> None:
    branch = table / "branch/branch-b"
    shutil.copytree(table / "schema", branch / "schema")
    (branch / "snapshot").mkdir()
    (table / "snapshot/snapshot-1").rename(branch / "snapshot/snapshot-1")
    (table / "snapshot/snapshot-2").unlink()
    found = needed(table)
    assert {"branch/branch-b/snapshot/snapshot-1", "branch/branch-b/schema/schema-0"} <= found
    assert {"bucket-0/a.parquet", "index/index-1-0", "manifest/manifest-list-1-1"} <= found


def test_each_layout_has_its_own_paths(table: Path) -> None:
    schema = json.loads((table / "schema/schema-0").read_text())
    options = schema["options"] | {"data-file.path-directory": "data"}
    (table / "schema/schema-1").write_text(json.dumps(schema | {"id": 1, "options": options}))
    before = needed(table)
    rewrite_json(table / "snapshot/snapshot-1", schemaId=1)
    assert needed(table) == before | {
        *("schema/schema-1", "data/bucket-0/a.parquet", "data/bucket-0/a.parquet.index"),
    }


def test_real_tables_hold_no_file_that_is_not_needed(vectors: Path) -> None:
    for name in ("java-0.9.0-tables/db.db/dv", "java-0.9.0-tables/db.db/dyn", "pypaimon-2.1.0/db.db/t1"):
        table = vectors / "paimon" / name
        assert needed(table) == stored(table)
