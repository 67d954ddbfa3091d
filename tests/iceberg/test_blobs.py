"""What the footer says of vectors."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from dvcodec import (
    DecodeError,
    NotCanonical,
    RowSet,
    iceberg,
    read_rows,
    sniff,
    verify,
)
from dvcodec.puffin import Footer, encode_footer, open_puffin
from samples.puffin import GOOD, file_of


@pytest.mark.parametrize("kind", ["apache-datasketches-theta-v1", "delete-vector-v1", "DELETION-VECTOR-V1", ""])
def test_other_blobs_are_left_alone(kind: str) -> None:
    other = (b"anything", {"type": kind, "compression_codec": "brotli"})
    assert iceberg.read_deletion_vectors(file_of(other, GOOD, other)) == {"a": RowSet([1, 3])}


@pytest.mark.parametrize(("count", "length"), [(3, None), (10, 0), (10, -1)])
def test_many_names_for_the_same_bytes_are_refused(count: int, length: int | None) -> None:
    """Or for none: 45,000 of them, in a footer of kilobytes, took 15 seconds to verify."""
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, {"a": RowSet([1])})
    with open_puffin(out.getvalue()) as reader:
        (blob,) = reader.blobs
    names = ({**blob.properties, "referenced-data-file": str(i)} for i in range(count))
    blobs = tuple(replace(blob, properties=name, length=blob.length if length is None else length) for name in names)
    data = out.getvalue()[: 4 + blob.length] + encode_footer(Footer(blobs))
    for read in (iceberg.read_deletion_vectors, sniff, read_rows):
        with pytest.raises(NotCanonical, match="lengths of all vectors"):
            read(data)
    assert "container" in {check.name for check in verify(data).findings}


def test_lengths_are_refused_together_only_above_the_size_of_the_file() -> None:
    """All but the longest: it is refused by itself."""
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, {"a": RowSet([1])})
    with open_puffin(out.getvalue()) as reader:
        (blob,) = reader.blobs
    for more, what in ((0, "length field"), (1, "lengths of all vectors")):
        lengths = (12, blob.length - 8 + more, blob.length)
        names = ({**blob.properties, "referenced-data-file": str(length)} for length in lengths)
        blobs = tuple(
            replace(blob, properties=name, length=length) for name, length in zip(names, lengths, strict=True)
        )
        with pytest.raises(DecodeError, match=what):
            iceberg.read_deletion_vectors(out.getvalue()[: 4 + blob.length] + encode_footer(Footer(blobs)))
