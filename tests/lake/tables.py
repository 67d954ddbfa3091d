"""Tables and files whose requests are counted: each is small in bytes, and large in objects or vectors.

Those of released writers are copies of the ones in tests/vectors. The others are written here, as no engine writes 300
files of vectors in less than minutes.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dvcodec import RowSet, delta, iceberg
from samples.delta_log import SCHEMA, commit, data_file, descriptor

VECTORS = Path(__file__).parents[1] / "vectors" / "tables"
NAMESPACE = uuid.UUID("4f8f6a7e-6f5e-4b62-a8f6-2d0f0b4d9b11")


def rows(number: int) -> RowSet:
    """Deleted rows of a data file of 128 rows: a few, others for each number."""
    return RowSet([number % 97, 100 + number % 20])


def puffin(folder: Path, count: int = 1000) -> Path:
    """One Puffin file of so many vectors."""
    path = folder / "vectors.puffin"
    iceberg.write_deletion_vectors(path, {f"data/{number:05}.parquet": rows(number) for number in range(count)})
    return path


def large_puffin(folder: Path, count: int = 200, rows_of_each: int = 60_000) -> Path:
    """One Puffin file of so many large vectors: 24 MB."""
    path, chance = folder / "large.puffin", np.random.default_rng(1)
    vectors = {
        f"data/{number:05}.parquet": RowSet(chance.integers(0, 4_000_000, rows_of_each)) for number in range(count)
    }
    iceberg.write_deletion_vectors(path, vectors)
    return path


def puffins(folder: Path, count: int = 300) -> Path:
    """So many Puffin files of one vector."""
    for number in range(count):
        name = f"data/{number:05}.parquet"
        iceberg.write_deletion_vectors(folder / f"deletes-{number:05}.puffin", {name: rows(number)})
    return folder


def delta_table(folder: Path, *, files: int = 300, one_bin: bool = False, commits: int = 1) -> Path:
    """A Delta table of so many data files, each with a vector.

    Args:
        folder: where to.
        files: data files of 128 rows.
        one_bin: all vectors in one file, instead of one file for each.
        commits: how many commits bring the vectors, with as many of them in each.
    """
    (folder / "_delta_log").mkdir(parents=True)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    metadata: dict[str, Any] = {"id": "0", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    metadata |= {"schemaString": json.dumps(SCHEMA), "configuration": {"delta.enableDeletionVectors": "true"}}
    first = data_file(folder, "part-00000.parquet", 0)
    adds = [first]
    for number in range(1, files):
        name = f"part-{number:05}.parquet"
        shutil.copyfile(folder / first["path"], folder / name)
        adds.append(first | {"path": name})
    commit(folder, 0, "WRITE", protocol, {"metaData": metadata}, *({"add": add} for add in adds))
    described = _in_one(folder, adds) if one_bin else _in_many(folder, adds)
    for version in range(1, commits + 1):
        actions = []
        for add, vector in list(zip(adds, described, strict=True))[version - 1 :: commits]:
            gone = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1, "extendedFileMetadata": False}
            actions += [{"remove": gone}, {"add": add | {"deletionVector": vector}}]
        commit(folder, version, "DELETE", *actions)
    return folder


def _in_one(folder: Path, adds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    path = folder / f"deletion_vector_{uuid.uuid5(NAMESPACE, 'all')}.bin"
    vectors = {add["path"]: rows(number) for number, add in enumerate(adds)}
    found = delta.write_deletion_vectors(path, vectors)
    return [json.loads(delta.Descriptor.from_location(one, str(folder)).to_json()) for one in found]


def _in_many(folder: Path, adds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        descriptor(folder, f"deletion_vector_{uuid.uuid5(NAMESPACE, add['path'])}.bin", rows(number))
        for number, add in enumerate(adds)
    ]


@cache
def copied(*parts: str) -> Callable[[Path], Path]:
    """A table of a released writer."""

    def copy(folder: Path) -> Path:
        shutil.copytree(VECTORS.joinpath(*parts), folder, dirs_exist_ok=True)
        return folder

    return copy
