"""What fuzzing led to, where the input that showed it is better written down than kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from dvcodec import DecodeError
from dvcodec.io import Storage
from dvcodec.tables.rows.data_file import open_data_file

pa = pytest.importorskip("pyarrow")


def test_names_of_columns_that_are_no_utf8_are_damage_in_orc_too(tmp_path: Path) -> None:
    from pyarrow import orc

    path = tmp_path / "a.orc"
    orc.write_table(pa.table({"nameX": [1, 2]}), path)
    data = path.read_bytes()
    assert b"nameX" in data
    path.write_bytes(data.replace(b"nameX", b"name\xff"))
    with pytest.raises(DecodeError, match="ORC file"), open_data_file(str(path), Storage(), "orc") as file:
        list(file.schema)
