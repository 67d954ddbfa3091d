"""The deletion-vector-v1 blob."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import (
    RowSet,
    iceberg,
)

KEY = 1 << 32

# Written out from Iceberg's TestBitmapPositionDeleteIndex: containers 0, 1 and 2 of keys 0 and 1.
ALL_CONTAINERS = RowSet([5, 7, KEY + 10, KEY + 20]) | RowSet.from_ranges(
    [
        (65537, 66536),
        (131073, 196607),
        (KEY + 65536 + 10, KEY + 65536 + 500),
        (KEY + 131072 + 1, KEY + 131072 + 65535),
    ]
)
JAVA_BLOBS = {
    "java-resources/empty-position-index.bin": RowSet(),
    "java-resources/small-alternating-values-position-index.bin": RowSet([1, 3, 5, 7, 9]),
    "java-resources/small-and-large-values-position-index.bin": RowSet([100, 101, 2**31 + 99, 2**31 + 100]),
    "java-resources/all-container-types-position-index.bin": ALL_CONTAINERS,
    "java-main/range0-1.dv": RowSet(range(1)),
    "java-main/range0-2.dv": RowSet(range(2)),
    "java-main/range0-4.dv": RowSet(range(4)),
    "iceberg-go/deletion-vector-v1-payload.bin": RowSet([1, 3, 5, 7, 9]),
}
# ---------------------------------------------------------------------- real blobs


@each("name", JAVA_BLOBS)
def test_java_blob_decodes_to_its_rows(vectors: Path, name: str) -> None:
    rows = JAVA_BLOBS[name]
    assert iceberg.decode((vectors / "iceberg" / name).read_bytes(), cardinality=len(rows)) == rows


@each("name", JAVA_BLOBS)
def test_java_blob_is_encoded_byte_for_byte(vectors: Path, name: str) -> None:
    assert iceberg.encode(JAVA_BLOBS[name]) == (vectors / "iceberg" / name).read_bytes()


# ---------------------------------------------------------------------- battery


# ---------------------------------------------------------------------- encode


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 5 * KEY)
RANGES = st.tuples(POSITIONS, st.integers(1, 5000)).map(lambda pair: (pair[0], pair[0] + pair[1]))
ROW_SETS = st.builds(
    lambda singles, ranges: RowSet(singles) | RowSet.from_ranges(ranges),
    st.lists(POSITIONS, max_size=50),
    st.lists(RANGES, max_size=4),
)


@given(ROW_SETS, st.booleans(), st.booleans())
def test_round_trip(rows: RowSet, run_optimize: bool, gap_keys: bool) -> None:
    blob = iceberg.encode(rows, run_optimize=run_optimize, gap_keys=gap_keys)
    assert iceberg.decode(blob, cardinality=len(rows)) == rows
    assert struct.unpack(">I", blob[:4])[0] == len(blob) - 8
