"""Files of position deletes in the three formats, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from cases import each
from dvcodec import RowSet
from dvcodec.core.errors import CardinalityMismatch, NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables.iceberg.deletes import read_deletes

FORMATS = ("parquet", "avro", "orc")
PATHS = ["/t/b", "/t/a", "/t/b", "/t/b"]
POSITIONS = [7, 2**40, 0, 7]


def write(path: Path, file_format: str, columns: Mapping[str, list[Any]]) -> str:
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    if file_format == "parquet":
        pq.write_table(table, path, row_group_size=2)
    elif file_format == "orc":
        orc.write_table(table, path)
    else:
        kinds = {name: "long" if pa.types.is_integer(table[name].type) else "string" for name in columns}
        fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "d", "fields": fields}, table.to_pylist())
    return str(path)


@pytest.mark.parametrize("file_format", FORMATS)
def test_what_is_read(tmp_path: Path, file_format: str) -> None:
    path = write(tmp_path / "d", file_format, {"file_path": PATHS, "pos": POSITIONS, "row": ["x"] * 4})
    found = read_deletes(path, file_format, 4, Storage())
    assert found.rows == {"/t/b": RowSet([0, 7]), "/t/a": RowSet([2**40])}
    assert found.count == 4
    assert found.cost >= 4


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_wrong_count(tmp_path: Path, file_format: str) -> None:
    path = write(tmp_path / "d", file_format, {"file_path": PATHS, "pos": POSITIONS})
    with pytest.raises(CardinalityMismatch, match=r"/d: record_count: expected 5 \(manifest\), found 4 rows"):
        read_deletes(path, file_format, 5, Storage())


@each("file_format", FORMATS)
@each(
    "columns",
    [
        {"file_path": PATHS},
        {"pos": POSITIONS},
        {"file_path": PATHS, "pos": [1, 2, -3, 4]},
        {"file_path": PATHS, "pos": [1, None, 3, 4]},
        {"file_path": ["a", None, "b", "c"], "pos": POSITIONS},
        {"file_path": PATHS, "pos": PATHS},
        {"file_path": POSITIONS, "pos": POSITIONS},
    ],
)
def test_other_columns(tmp_path: Path, file_format: str, columns: Mapping[str, list[Any]]) -> None:
    path = write(tmp_path / "d", file_format, columns)
    with pytest.raises(NotCanonical, match="/d"):
        read_deletes(path, file_format, 4, Storage())


def test_another_format(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="x: format of position deletes: expected parquet, avro, orc, found lance"):
        read_deletes("x", "lance", 4, Storage())
