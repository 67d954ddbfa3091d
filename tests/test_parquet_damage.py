"""Parquet by pyarrow: what it says of damage, what a system says, and which files are read at once."""

from __future__ import annotations

import io

import pytest

from battery import Recorder
from dvcodec import DecodeError
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io.parquet import arrow_damage, parquet_metadata

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (pa.ArrowInvalid("bad page\nstack"), NotCanonical),
        (OSError("Couldn't deserialize thrift"), NotCanonical),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), NotCanonical),
        (pa.ArrowNotImplementedError("codec"), Unsupported),
    ],
)
def test_damage(raised: Exception, expected: type[DecodeError]) -> None:
    with (
        pytest.raises(expected, match=r"^a page: expected valid bytes, found ") as caught,
        arrow_damage("a page", "valid bytes"),
    ):
        raise raised
    assert "stack" not in str(caught.value)


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
def test_a_small_file_of_metadata_is_read_at_once(size: int) -> None:
    written = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), written)
    data = written.getvalue()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    source = Recorder(data[:footer] + bytes(size - len(data)) + data[footer:])
    file = parquet_metadata(source)
    assert file.read().to_pydict() == {"a": [1, 2]}
    assert (source.reads[0] == (0, size)) == (size <= 1 << 20)
