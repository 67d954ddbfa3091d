"""What an Arrow IPC file asks for: found without pyarrow, and refused before pyarrow allocates it."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cases import each
from dvcodec import BadMagic, DecodeError, LimitExceeded, Limits, NotCanonical
from dvcodec.core.cursor import Cursor
from dvcodec.lance import read_deletion_file
from dvcodec.lance.deletions import batch_lengths

SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])


def arrow(*batches: Any, schema: pa.Schema = SCHEMA, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(pa.record_batch([batch], schema=schema))
    return bytes(sink.getvalue())


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
