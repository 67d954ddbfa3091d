"""Deletion files of both kinds, and what an Arrow file may ask for."""

from __future__ import annotations

import json
import struct
import tempfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    DecodeError,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    UsageError,
    sniff,
)
from dvcodec.core.cursor import Cursor
from dvcodec.lance import choose_kind, read_deletion_file, write_deletion_file
from dvcodec.lance.deletions import Kind, batch_lengths

SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])


def arrow(*columns: Any, schema: pa.Schema = SCHEMA, batches: int = 1, stream: bool = False, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch(list(columns), schema=schema))
    return bytes(sink.getvalue())


VALUES = pa.array([9, 3, 70_000], pa.uint32())
ZSTD = arrow(pa.array(range(1000), pa.uint32()), compression="zstd")


def test_real_files(vectors: Path) -> None:
    folder = vectors / "lance" / "deletions"
    seen = 0
    for truth in sorted(folder.glob("*.json")):
        about = json.loads(truth.read_text())
        path = next(path for path in folder.glob(f"{truth.stem}.*") if path.suffix != ".json")
        rows = read_deletion_file(
            path, num_deleted_rows=about["num_deleted_rows"], physical_rows=about["physical_rows"]
        )
        assert rows == set(about["deleted"])
        assert sniff(path).kind.value == ("lance-arrow" if path.suffix == ".arrow" else "roaring32")
        seen += 1
    assert seen == 5


@each(
    ("data", "said"),
    [
        (arrow(VALUES, batches=2), "record batches: expected 1, found 2"),
        (arrow(VALUES, batches=0), "record batches: expected 1, found 0"),
        (arrow(VALUES, schema=pa.schema([pa.field("row_id", pa.uint32())])), "schema"),
        (arrow(VALUES, schema=pa.schema([pa.field("id", pa.uint32(), nullable=False)])), "schema"),
        (arrow(VALUES, schema=SCHEMA.with_metadata({"a": "b"})), "schema"),
        (arrow(VALUES.cast(pa.int64()), schema=pa.schema([pa.field("row_id", pa.int64(), nullable=False)])), "schema"),
        (arrow(pa.array([1, None], pa.uint32())), "row_id: expected no nulls, found 1|Arrow IPC file"),
        (ZSTD.replace(b"\x28\xb5\x2f\xfd", bytes(4)), "Arrow IPC file: expected a valid file, found "),
    ],
)
def test_other_arrow_files_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(NotCanonical, match=f"at byte 0: (?:{said})"):
        read_deletion_file(data)


@given(st.sets(st.integers(0, 2**32 - 1), min_size=1), st.sampled_from(["arrow", "bin"]))
def test_round_trip(rows: set[int], kind: Kind) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "_deletions").mkdir()
        file = write_deletion_file(folder, RowSet(rows), fragment=3, read_version=8, kind=kind)
        assert (file.kind, file.fragment, file.read_version, file.num_deleted_rows) == (kind, 3, 8, len(rows))
        (path,) = Path(folder, "_deletions").iterdir()
        assert str(path) == file.path(folder)
        assert path.name == f"3-8-{file.id}.{kind}"
        assert read_deletion_file(path, num_deleted_rows=len(rows), physical_rows=2**32) == rows


@pytest.mark.parametrize(
    ("rows", "previous", "kind"),
    [(1, None, "arrow"), (4999, None, "arrow"), (5000, None, "bin"), (5000, "arrow", "arrow"), (5001, "arrow", "bin")],
)
def test_kind_by_the_number_of_rows(rows: int, previous: Kind | None, kind: Kind) -> None:
    assert choose_kind(rows, previous) == kind
    assert choose_kind(rows, "bin") == "bin"


def test_metadata_is_held_against_the_file() -> None:
    data = arrow(VALUES)
    with pytest.raises(CardinalityMismatch, match="expected 4, found 3"):
        read_deletion_file(data, num_deleted_rows=4)
    assert read_deletion_file(data, num_deleted_rows=0) == {3, 9, 70_000}
    with pytest.raises(NotCanonical, match="below 70000"):
        read_deletion_file(data, physical_rows=70_000)
    assert read_deletion_file(data, physical_rows=70_001)
    second = arrow(pa.array([1], pa.uint32()))
    assert read_deletion_file(second, physical_rows=2) == {1}
    with pytest.raises(NotCanonical, match=r"row offset: expected below 1 \(physical rows\), found 1"):
        read_deletion_file(second, physical_rows=1)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    for rows in (RowSet(), RowSet([2**32])):
        with pytest.raises(UsageError):
            write_deletion_file(str(tmp_path), rows, fragment=0, read_version=1)
    with pytest.raises(UsageError, match="kind must be arrow or bin, not 'csv'"):
        write_deletion_file(str(tmp_path), RowSet([1]), fragment=0, read_version=1, kind=cast("Kind", "csv"))
    with pytest.raises(LimitExceeded, match="expected at most 8388608: use the kind bin, found 8388609"):
        write_deletion_file(str(tmp_path), RowSet(range(2**23 + 1)), fragment=0, read_version=1, kind="arrow")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="folder"):
        write_deletion_file("", RowSet([1]), fragment=0, read_version=1)
    with pytest.raises(OSError, match="_deletions"):
        write_deletion_file(str(tmp_path), RowSet([1]), fragment=0, read_version=1)
    assert list(tmp_path.iterdir()) == []


def test_codec_named_outside_of_the_batch_is_refused() -> None:
    """Before metadata V5 the codec stood in the message's own metadata; pyarrow allocates what such a file claims."""
    words = struct.unpack("<4I", struct.pack("<q", 1 << 34) + b"\x28\xb5\x2f\xfd....")
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.MetadataVersion.V4)
    with pa.ipc.new_file(sink, SCHEMA, options=options) as writer:
        batch = pa.record_batch([pa.array(words, pa.uint32())], schema=SCHEMA)
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "zstd"})
    with pytest.raises(NotCanonical, match="metadata of a record batch"):
        read_deletion_file(bytes(sink.getvalue()))
    assert pa.default_memory_pool().max_memory() < 1 << 33


# ------------------- what an Arrow IPC file asks for: found without pyarrow, and refused before pyarrow allocates it


def rows(count: int) -> Any:
    return pa.array(np.arange(count, dtype=np.uint32))


def lengths(data: bytes) -> list[tuple[int, list[int]]]:
    return batch_lengths(Cursor(data))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_what_compressed_files_ask_for(compression: str) -> None:
    assert lengths(arrow(rows(100_000), compression=compression)) == [(100_000, [0, 400_000])]
    # Nine values are not worth it: -1 and the bytes as they are, or a size and a frame that is larger.
    ((count, sizes),) = lengths(arrow(rows(9), compression=compression))
    assert (count, sizes[0]) == (9, 0)
    assert 36 <= sizes[1] <= 44


@each(
    ("data", "kind", "what"),
    [
        (b"", BadMagic, "magic at the end"),
        (b"ARROW1", BadMagic, "magic at the end"),
        (b"ARROW1" + bytes(3) + b"ARROW1", BadMagic, "magic at the end"),
        (b"ARROW1" + bytes(50), BadMagic, "magic at the end"),
        (b"ARROW1" + struct.pack("<i", -1) + b"ARROW1", NotCanonical, "footer size"),
        (b"ARROW1" + struct.pack("<i", 2**31 - 1) + b"ARROW1", NotCanonical, "footer size"),
        (b"ARROW1" + struct.pack("<i", 11) + b"ARROW1", NotCanonical, "footer size"),
        (b"ARROW1" + b"\xff" * 8 + struct.pack("<i", 8) + b"ARROW1", NotCanonical, "offset in the metadata"),
    ],
)
def test_refused_with_what(data: bytes, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(DecodeError) as caught:
        lengths(data)
    assert type(caught.value) is kind
    assert caught.value.what == what


def test_rows_that_the_metadata_claims() -> None:
    data = arrow(rows(100_000))
    assert data.count(struct.pack("<q", 100_000)) == 2  # of the batch, and of its column
    for claimed in (2**40, 2**62, 2**63 - 1):
        lying = data.replace(struct.pack("<q", 100_000), struct.pack("<q", claimed))
        assert lengths(lying) == [(claimed, [0, 400_000])]
        with pytest.raises(DecodeError):
            read_deletion_file(lying)
    with pytest.raises(LimitExceeded, match="max_cardinality"):
        read_deletion_file(data.replace(struct.pack("<q", 100_000), struct.pack("<q", 2**40 + 1)))
    with pytest.raises(NotCanonical, match="rows of a record batch"):
        read_deletion_file(data.replace(struct.pack("<q", 100_000), struct.pack("<q", -1)))
    with pytest.raises(LimitExceeded):
        read_deletion_file(data, limits=Limits(max_vector_bytes=1000))
