"""Puffin files: blobs read by range, files written whole or not at all, paths rewritten."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from battery import Recorder
from cases import each
from dvcodec import BadMagic, DecodeError, LimitExceeded, Limits, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.puffin import BlobMetadata, Footer, PuffinReader, PuffinWriter, encode_footer, open_puffin, rewrite_paths
from samples.puffin import lz4_frame, zstd_frame

SAMPLE = b"some blob \0 binary data \xf0\x9f\xa4\xaf that is not very very very very very very long, is it?"


def container(stored: bytes, codec: str | None = None, **changes: Any) -> bytes:
    """A file of one blob, its metadata changed as asked."""
    fields: dict[str, Any] = {"offset": 4, "length": len(stored), "compression_codec": codec, **changes}
    blob = BlobMetadata("t", (), -1, -1, **fields)
    return b"PFA1" + stored + encode_footer(Footer((blob,)))


def read_first(data: bytes, limits: Limits | None = None) -> bytes:
    with open_puffin(data, limits=limits or Limits()) as reader:
        return bytes(reader.read(reader.blobs[0]))


def add(writer: PuffinWriter, data: bytes = b"abc", **changes: Any) -> BlobMetadata:
    arguments: dict[str, Any] = {"fields": [1], "snapshot_id": 2, "sequence_number": 3, **changes}
    return writer.add("t", data, **arguments)


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize("name", ["sample-metric-data-uncompressed.bin", "sample-metric-data-compressed-zstd.bin"])
def test_java_sample_file_holds_two_blobs(vectors: Path, name: str) -> None:
    with open_puffin(vectors / "iceberg/puffin-v1" / name) as reader:
        assert [(blob.type, blob.fields, blob.snapshot_id, blob.sequence_number) for blob in reader.blobs] == [
            ("some-blob", (1,), 2, 1),
            ("some-other-blob", (2,), 2, 1),
        ]
        assert [bytes(reader.read(blob)) for blob in reader.blobs] == [b"abcdefghi", SAMPLE]


@pytest.mark.parametrize(
    "name",
    [
        "puffin-v1/sample-metric-data-compressed-zstd.bin",
        "java-main/three-files.puffin",
        "java-main/gap-keys.puffin",
        "iceberg-go/multi-blob-dv.puffin",
    ],
)
def test_stored_blobs_are_copied_byte_for_byte(vectors: Path, name: str) -> None:
    data = (vectors / "iceberg" / name).read_bytes()
    out = io.BytesIO()
    with open_puffin(data) as reader, PuffinWriter(out, reader.footer.properties) as writer:
        for blob in reader.blobs:
            assert writer.add_stored(blob, reader.read_stored(blob).view) == blob
    assert out.getvalue() == data


@each("size", [0, 1, 100_000])
@each("codec", ["zstd", "lz4"])
def test_compressed_blob_is_decompressed(codec: str, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    if codec == "lz4":
        data = container(lz4_frame(content), "lz4")
    else:
        out = io.BytesIO()
        with PuffinWriter(out) as writer:
            add(writer, content, compression="zstd")
        data = out.getvalue()
    assert read_first(data) == content


def test_unknown_codec_is_unsupported_and_its_bytes_can_still_be_read() -> None:
    data = container(b"xyz", "snappy")
    with open_puffin(data) as reader:
        with pytest.raises(Unsupported) as caught:
            reader.read(reader.blobs[0])
        assert (caught.value.what, caught.value.offset, caught.value.actual) == ("compression-codec", 4, "'snappy'")
        assert bytes(reader.read_stored(reader.blobs[0]).view) == b"xyz"


@each(
    ("offset", "length"),
    [(0, 3), (3, 1), (-1, 2), (4, -1), (4, 8), (11, 1), (12, 0), (4, 2**62), (2**62, 1), (2**63 - 1, 2**63 - 1)],
)
def test_blob_outside_of_the_blobs_is_refused(offset: int, length: int) -> None:
    data = container(b"payload", offset=offset, length=length)
    with pytest.raises(Truncated) as caught:
        read_first(data)
    assert caught.value.what == "range of the t blob"
    assert caught.value.offset == offset
    assert caught.value.expected == "a range within 4..11"
    assert caught.value.actual == f"{offset}..{offset + length}"


@each(
    ("codec", "stored", "kind"),
    [
        ("zstd", b"", Truncated),
        ("zstd", lz4_frame(b"x"), BadMagic),
        ("zstd", zstd_frame([(3, 65)], 3) + b"tail", NotCanonical),
        ("zstd", zstd_frame([(131072, 65)] * 40, 131072 * 40), LimitExceeded),
        ("lz4", lz4_frame(b"x", stated=1_000_001), LimitExceeded),
        ("lz4", lz4_frame(b"xyz") + b"tail", NotCanonical),
    ],
)
def test_corrupt_compression_is_refused(codec: str, stored: bytes, kind: type[DecodeError]) -> None:
    with pytest.raises(kind) as caught:
        read_first(container(stored, codec), Limits(max_blob_bytes=1_000_000))
    assert type(caught.value) is kind


def test_only_the_asked_blob_is_read() -> None:
    out = io.BytesIO()
    with PuffinWriter(out) as writer:
        blobs = [add(writer, bytes([i]) * 50_000) for i in range(3)]
    source = Recorder(out.getvalue())
    reader = PuffinReader(source)
    source.reads.clear()
    assert bytes(reader.read(blobs[1])) == b"\1" * 50_000
    assert source.reads == [(50_004, 50_000)]


# ---------------------------------------------------------------------- writing


def test_metadata_says_where_a_blob_went() -> None:
    out = io.BytesIO()
    with PuffinWriter(out, {"created-by": "me"}) as writer:
        first = add(writer, b"abc", properties={"k": "v"})
        second = add(writer, b"")
        third = add(writer, b"defg")
    assert [(blob.offset, blob.length) for blob in (first, second, third)] == [(4, 3), (7, 0), (7, 4)]
    with open_puffin(out.getvalue()) as reader:
        assert reader.blobs == (first, second, third)
        assert reader.footer.properties == {"created-by": "me"}
        assert [bytes(reader.read(blob)) for blob in reader.blobs] == [b"abc", b"", b"defg"]
    assert writer.file_size == len(out.getvalue())


def test_blobs_are_added_inside_the_block_only() -> None:
    writer = PuffinWriter(io.BytesIO())
    with pytest.raises(UsageError, match="with block"):
        add(writer)
    with writer:
        add(writer)
    with pytest.raises(UsageError, match="with block"):
        add(writer)


# ---------------------------------------------------------------------- rewrite_paths


def moved(path: str) -> str:
    return path.replace("s3://b/t/", "s3://new/")


F0, F1, F2 = (f"s3://b/t/data/f{i}.parquet" for i in range(3))


def paths_of(data: bytes) -> list[str | None]:
    with open_puffin(data) as reader:
        return [blob.properties.get("referenced-data-file") for blob in reader.blobs]


@each(
    ("mapping", "expected", "count"),
    [
        ({F1: "x"}, [F0, "x", F2], 1),
        ({F0: F2, F2: F0}, [F2, F1, F0], 2),
        ({F0: F0}, [F0, F1, F2], 0),
        ({}, [F0, F1, F2], 0),
        (moved, [moved(F0), moved(F1), moved(F2)], 3),
        (lambda path: path + "?" if path == F2 else path, [F0, F1, F2 + "?"], 1),
    ],
)
def test_paths_change_and_blobs_do_not(
    vectors: Path, mapping: dict[str, str] | Callable[[str], str], expected: list[str], count: int
) -> None:
    data = (vectors / "iceberg/java-main/three-files.puffin").read_bytes()
    out = io.BytesIO()
    assert rewrite_paths(data, out, mapping) == count
    assert paths_of(out.getvalue()) == expected
    assert out.getvalue()[:169] == data[:169]
    assert (out.getvalue() == data) == (count == 0)


def test_other_spellings_of_a_path_change_beside_blobs_without_one() -> None:
    blobs = [
        BlobMetadata("t", (), 1, 1, 4, 0, None, {} if path is None else {"referenced-data-file": path})
        for path in (None, F0, F1.replace("s3:", "s3n:"))
    ]
    out = io.BytesIO()
    mapping = {F0.replace("s3:", "s3a:"): "x", F1.replace("s3:", "s3a:"): "y"}
    assert rewrite_paths(b"PFA1" + encode_footer(Footer(tuple(blobs))), out, mapping) == 2
    assert paths_of(out.getvalue()) == [None, "x", "y"]


def test_two_blobs_of_one_file_stay_so() -> None:
    spelled = (F0, F0.replace("s3:", "s3a:"))
    blobs = [BlobMetadata("t", (), 1, 1, 4, 0, None, {"referenced-data-file": path}) for path in spelled]
    data = b"PFA1" + encode_footer(Footer(tuple(blobs)))
    assert rewrite_paths(data, out := io.BytesIO(), dict.fromkeys(spelled, "x")) == 2
    assert paths_of(out.getvalue()) == ["x", "x"]


@each(
    ("mapping", "problem"),
    [
        ({F0: "x", "s3://b/t/data/f9.parquet": "y"}, r"'s3://b/t/data/f9\.parquet'"),
        ({F0: F1}, "would both become"),
        ({F0: "x", F1: "x"}, "would both become"),
        ({F0: "\ud800", F2: "?"}, "would both become"),
        (lambda _: "same", "would both become"),
        ({F0: F1.replace("s3:", "s3a:")}, "would both become"),
        ({F0: "/t/x", F0.replace("s3:", "s3a:"): "/t/z"}, "cannot become both"),
    ],
)
def test_wrong_mappings_write_nothing(
    vectors: Path, tmp_path: Path, mapping: dict[str, str] | Callable[[str], str], problem: str
) -> None:
    source = vectors / "iceberg/java-main/three-files.puffin"
    with pytest.raises(UsageError, match=problem):
        rewrite_paths(source, tmp_path / "out.puffin", mapping)
    assert list(tmp_path.iterdir()) == []


def test_other_blobs_and_unknown_members_survive() -> None:
    vector = BlobMetadata(
        "deletion-vector-v1", (), -1, -1, 4, 3, None, {"extra": "1", "referenced-data-file": "a"}, {"odd": [1, {}]}
    )
    other = BlobMetadata("from-the-future-v9", (7,), 1, 2, 7, 5, "brotli", {"k": "v"}, {"more": None})
    footer = Footer((other, vector), {"created-by": "me"}, unknown={"top": "x"})
    blobs = b"PFA1" + b"abc" + b"\0\1\2\3\4" + b"between"
    out = io.BytesIO()
    assert rewrite_paths(blobs + encode_footer(footer), out, {"a": "b"}) == 1
    assert out.getvalue() == blobs + encode_footer(footer).replace(b'file":"a"', b'file":"b"')
