"""What the footer says of vectors."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from dvcodec import (
    DecodeError,
    RowSet,
    iceberg,
    verify,
)
from dvcodec.puffin import Footer, encode_footer, open_puffin
from samples.puffin import GOOD, file_of


@pytest.mark.parametrize("kind", ["apache-datasketches-theta-v1", "delete-vector-v1", "DELETION-VECTOR-V1", ""])
def test_other_blobs_are_left_alone(kind: str) -> None:
    other = (b"anything", {"type": kind, "compression_codec": "brotli"})
    assert iceberg.read_deletion_vectors(file_of(other, GOOD, other)) == {"a": RowSet([1, 3])}


def test_lengths_are_refused_together_only_above_the_size_of_the_file() -> None:
    """All but the longest: it is refused by itself. 45,000 names for the same bytes took 15 seconds to verify."""
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, {"a": RowSet([1])})
    with open_puffin(out.getvalue()) as reader:
        (blob,) = reader.blobs
    together = "lengths of all vectors"
    for lengths, what in (
        ((12, blob.length - 8, blob.length), "length field"),
        ((12, blob.length - 7, blob.length), together),
        ((blob.length,) * 3, together),
        ((0,) * 10, together),
        ((-1,) * 10, together),
    ):
        names = ({**blob.properties, "referenced-data-file": str(number)} for number in range(len(lengths)))
        blobs = tuple(
            replace(blob, properties=name, length=length) for name, length in zip(names, lengths, strict=True)
        )
        with pytest.raises(DecodeError, match=what):
            iceberg.read_deletion_vectors(data := out.getvalue()[: 4 + blob.length] + encode_footer(Footer(blobs)))
        assert what != together or "container" in {check.name for check in verify(data).findings}
