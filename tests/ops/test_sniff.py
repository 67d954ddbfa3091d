"""What is in this file?"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from pyroaring import BitMap, BitMap64

from battery import Recorder, check_truncations, flipped, outcome
from cases import each
from dvcodec import (
    Container,
    ContainerKind,
    Limits,
    RowSet,
    Unsupported,
    convert,
    delta,
    describe,
    mumbling,
    read_rows,
    sniff,
    zap,
)
from dvcodec.core.vector import Magic
from dvcodec.io import open_source
from dvcodec.lance.deletions import encode_deletion_file
from dvcodec.ops.read import read_vector
from samples.bitmaps import framed
from samples.containers import SAMPLES, A

REAL_FILES = {
    "iceberg/java-main/three-files.puffin": ("puffin", 3),
    "iceberg/puffin-v1/empty-puffin-uncompressed.bin": ("puffin", 0),
    "iceberg/java-resources/all-container-types-position-index.bin": ("blob", 1),
    "iceberg/java-resources/64mapempty.bin": ("roaring64", 1),
    "roaring/croaring/64maphighvals.bin": ("roaring64", 1),
    "roaring/format-spec/portable_bitmap64.bin": ("roaring64", 1),
    "roaring/format-spec/bitmapwithruns.bin": ("roaring32", 1),
    "roaring/java/003.jrb": ("roaring32", 1),
    "delta/cdf-table-with-cdc-and-dvs/deletion_vector_7f94a4d4-4d29-440e-b1c0-387e410aeded.bin": ("delta", 2),
    "paimon/java-0.9.0/index-java09-2097152-0": ("paimon", 5),
    "paimon/java-2.1-snapshot/index-java21src-64-2097152-0": ("delta", 8),
    "paimon/pypaimon-2.1.0/db.db/t1/index/index-4a578b78-f49c-4071-be9d-a87eb3d73a88-1": ("paimon", 2),
    **{f"zap/v{version}/{name}.zap": ("zap", 0) for version in (11, 16, 17) for name in ("tiny", "idonly")},
}


# ---------------------------------------------------------------------- kinds


@each("name", SAMPLES)
def test_container_is_recognised_by_its_bytes(name: str) -> None:
    sample = SAMPLES[name]
    found = sniff(sample.data)
    assert (found.kind, found.source, found.size) == (sample.kind, "<bytes>", len(sample.data))
    assert [(ref.kind, ref.offset, ref.size) for ref in found.vectors] == [
        (sample.kind, at, size) for at, (size, _) in sample.vectors.items()
    ]
    assert tuple(ref.data_file for ref in found.vectors if ref.data_file) == sample.data_files
    assert (found.footer is not None) == (sample.kind is ContainerKind.PUFFIN)


@each("name", REAL_FILES)
def test_real_file_is_recognised(vectors: Path, name: str) -> None:
    kind, count = REAL_FILES[name]
    found = sniff(vectors / name)
    assert (found.kind.value, len(found.vectors)) == (kind, count)


@each("data", [b"", b"\2", b"{}", b"PAR1....PAR1", bytes(7), bytes(9), b"\xff" * 100, b"PK\3\4" * 9])
def test_other_bytes_are_unsupported(data: bytes) -> None:
    with pytest.raises(Unsupported) as caught:
        sniff(data)
    assert str(caught.value.actual).startswith(data[:12].hex(" ") or "no bytes")
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    "keys",
    [
        12_346,  # the count is the cookie of a 32-bit bitmap without runs
        12_347,  # and of one with runs
        12_347 + 65_536,
        16_385,
    ],
)
def test_bare_64_bit_map_with_any_number_of_keys(keys: int) -> None:
    data = BitMap64(range(0, keys << 32, 1 << 32)).serialize()
    found = sniff(data)
    assert found.kind is ContainerKind.ROARING64
    with open_source(data) as source:
        assert read_vector(source, found.vectors[0]).cardinality == keys


def test_bare_32_bit_map_that_begins_like_a_64_bit_one() -> None:
    """A run in the last of 33 containers only: zeros after the cookie. Then a cardinality and a key like a cookie."""
    rows = BitMap(range(0, 2 * 0x3B01, 2)) | BitMap(key << 16 for key in range(0x30, 0x30 + 31))
    rows.add_range(99 << 16, (99 << 16) + 5000)
    rows.run_optimize()
    data = rows.serialize()
    assert (data[4:8], data[12:14]) == (bytes(4), data[:2])
    with open_source(data) as source:
        (ref,) = sniff(data).vectors
        assert (ref.kind, read_vector(source, ref).cardinality) == (ContainerKind.ROARING32, len(rows))
    for less, kind in ((0, ContainerKind.ROARING32), (1, ContainerKind.ROARING64)):  # too large to be looked through
        assert sniff(data, limits=Limits(max_vector_bytes=len(data) - less)).kind is kind


@each(
    ("head", "what"),
    [(b"PAR1", "a Parquet file"), (b"Obj\x01", "an Avro file"), (b"\x00\x05\x16\x07", "macOS"), (b"{", "JSON")],
)
def test_other_files_are_named(head: bytes, what: str) -> None:
    with pytest.raises(Unsupported, match=what):
        sniff(head + b"x" * 40)


# ---------------------------------------------------------------------- search segments


def segment(*documents: zap.Document, version: int = 15) -> bytes:
    out = io.BytesIO()
    zap.write_segment(out, documents, version)
    return out.getvalue()


@each("version", range(11, 18))
def test_segment_is_recognised_by_its_footer(version: int) -> None:
    data = segment(zap.Document(b"a"), version=version)
    assert sniff(data) == Container(ContainerKind.ZAP, "<bytes>", len(data), ())
    with pytest.raises(Unsupported, match="or a zap segment"):
        sniff(data[:-1])


def stored_field(value: bytes = b"", arrays: int = 0) -> zap.Field:
    return zap.Field("f", value, options=zap.FieldOptions.STORED, array_positions=(1,) * arrays)


def test_segment_is_not_taken_for_the_vector_file_that_its_first_document_looks_like() -> None:
    large = stored_field(np.random.default_rng(1).bytes(1 << 25))
    data = segment(zap.Document(b""), zap.Document(b"x", (large,)))
    claimed = int.from_bytes(data[1:5], "big")
    assert data[0] == 1, "as a vector file begins"
    assert claimed + 8 < len(data), "a frame of that length would fit"
    assert sniff(data).kind is ContainerKind.ZAP


def test_segment_holds_no_vectors() -> None:
    for read in (read_rows, describe, lambda data: convert(data, "delta", io.BytesIO())):
        with pytest.raises(Unsupported, match="<bytes>: a search segment has no deletion vectors: see dvcodec"):
            read(segment(zap.Document(b"a")))


# ---------------------------------------------------------------------- damage


def test_vector_file_without_a_magic_is_known_by_a_length_that_fits() -> None:
    frame = delta.encode(A)
    data = b"\1" + frame[:4] + bytes(4) + frame[8:]
    assert [ref.size for ref in sniff(data).vectors] == [len(frame)]
    assert sniff(b"\1" + frame[:4] + b"none" + frame[8:]).kind is ContainerKind.DELTA
    with pytest.raises(Unsupported):
        sniff(b"\1" + frame[:4] + b"none" + frame[8:-1])


@each(
    ("header", "kind"),
    [
        ((1, 1, 1), ContainerKind.MUMBLING),
        ((1, 0, 1), None),
        ((2, 1, 1), None),
        ((1, mumbling.MAX_POSITIONS, 8192), ContainerKind.MUMBLING),
        ((1, mumbling.MAX_POSITIONS + 1, 8192), None),
        ((1, 1, 8193), None),
        ((1, 1, 256), ContainerKind.MUMBLING),
        ((1, 1, 33), ContainerKind.MUMBLING),
    ],
)
def test_damaged_mumbling_bitmap_is_known_by_its_header(
    header: tuple[int, int, int], kind: ContainerKind | None
) -> None:
    version, rows, containers = header
    data = bytes([version]) + rows.to_bytes(3, "little") + containers.to_bytes(2, "little") + b"\xff" * 6
    if kind is None:
        with pytest.raises(Unsupported):
            sniff(data)
    else:
        assert sniff(data).kind is kind


@pytest.mark.parametrize("name", ["delta", "delta native", "paimon 32", "paimon 64"])
def test_vector_file_with_a_damaged_length_is_not_called_unsupported(name: str) -> None:
    sample = SAMPLES[name]
    for bit in range(32):
        found = outcome(sniff, flipped(sample.data, 8 + bit))
        if isinstance(found, Container):
            assert found.kind is sample.kind
        else:
            assert found.what == "length field"


@each("name", SAMPLES)
def test_no_cut_of_a_file_is_a_file_of_other_vectors(name: str) -> None:
    sample = SAMPLES[name]

    def allowed(found: Container, size: int) -> bool:
        known = {(at, count) for at, (count, _) in sample.vectors.items()}
        refs = {(ref.offset, ref.size) for ref in found.vectors}
        return refs <= known if found.kind in (ContainerKind.DELTA, ContainerKind.PAIMON) else refs == {(0, size)}

    if sample.kind is ContainerKind.PUFFIN:
        check_truncations(sniff, sample.data)
    else:
        check_truncations(sniff, sample.data, allowed=allowed)


# ---------------------------------------------------------------------- cost and limits


def test_blob_is_sniffed_by_its_ends() -> None:
    source = Recorder(framed(Magic.PORTABLE64.value + bytes(5_000_000)))
    assert sniff(source).kind is ContainerKind.BLOB
    assert sum(size for _, size in source.reads) <= 20


@each("rows", [A, RowSet(range(0, 9000, 3))])
def test_deletion_file_of_lance_is_known_by_its_schema(rows: RowSet) -> None:
    pytest.importorskip("pyarrow")
    data = encode_deletion_file(rows, "arrow")
    (ref,) = sniff(data).vectors
    with open_source(data) as source:
        assert (ref.kind, read_vector(source, ref).load()) == (ContainerKind.LANCE_ARROW, rows)
    with pytest.raises(Unsupported):
        sniff(data.replace(b"row_id", b"rowsid"))


def test_a_count_of_keys_has_32_bits() -> None:
    data = BitMap64([5]).serialize()
    assert sniff(data).kind is ContainerKind.ROARING64
    with pytest.raises(Unsupported):
        sniff(data[:4] + b"\1" + data[5:])


def test_length_field_that_fits_too_few_bytes_is_not_a_blob() -> None:
    for size, kind in ((16, None), (17, ContainerKind.BLOB)):
        found = outcome(sniff, (size - 8).to_bytes(4, "big") + b"\xff" * (size - 4))
        assert (found.kind if isinstance(found, Container) else None) is kind
