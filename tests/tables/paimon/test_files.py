"""Where data files and index files are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec import NotCanonical, paimon
from dvcodec.tables import Folder
from dvcodec.tables.paimon.manifests import ManifestEntry, read_manifest
from dvcodec.tables.paimon.metadata import TableSchema, read_schema
from dvcodec.tables.paimon.partition import Layout, external_path
from samples.paimon_table import PaimonFile, build_paimon

ROWS = pa.table({"a": pa.array([1], pa.int32()), "p": ["x y"]})
FILE = PaimonFile("f.parquet", ROWS, partition=("x y",), folder="p=x y", bucket=4, more={"_EXTRA_FILES": ["f.index"]})
INDEX = paimon.IndexManifestEntry(paimon.DELETION_VECTORS, "index-1", 1, 0)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Folder, TableSchema, ManifestEntry]:
    folder = Folder(
        str(build_paimon(tmp_path / "t", [(0, "a", "INT"), (1, "p", "STRING")], [[FILE]], partition_keys=["p"]))
    )
    return folder, read_schema(folder, 0), read_manifest(folder, "manifest-1-0")[0]


@each("path", ["", "f.parquet", "../f", "/a/../../etc/x", "s3://a/../b", "/a\0"])
def test_external_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(NotCanonical, match="m: _EXTERNAL_PATH: expected an absolute path"):
        external_path(path, "m")


def test_index_files_are_stored_together_or_beside_the_data(made: tuple[Folder, TableSchema, ManifestEntry]) -> None:
    folder, schema, entry = made
    beside = replace(schema, options={"index-file-in-data-file-dir": "true"})
    index = replace(INDEX, partition=entry.file.partition, bucket=4)
    assert Layout(folder, schema).index_file(index, "m") == "index/index-1"
    assert Layout(folder, beside).index_file(index, "m") == "p=x y/bucket-4/index-1"
    whole = replace(index, external_path="oss://b/index-1")
    assert Layout(folder, schema).index_file(whole, "m") == "oss://b/index-1"
    glob = replace(index, vectors=None, global_index=paimon.GlobalIndexMeta(0, 1, 0))
    assert Layout(folder, beside).index_file(glob, "m") == "index/index-1"


@pytest.mark.parametrize("changes", [{"file_name": "../../x"}, {"file_name": "a/b"}, {"external_path": "x"}])
def test_index_file_that_leads_elsewhere_is_refused(
    made: tuple[Folder, TableSchema, ManifestEntry], changes: dict[str, Any]
) -> None:
    folder, schema, _ = made
    with pytest.raises(NotCanonical, match="m: _"):
        Layout(folder, schema).index_file(replace(INDEX, **changes), "m")
