"""Manifests: those of real datasets, ones built by hand, and their file names."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

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
    Truncated,
    Unsupported,
    UsageError,
    lance,
)
from dvcodec.lance import DeletionFile, Manifest
from dvcodec.lance.manifest import Stored, read_row_count
from samples.lance import TOP, Seg, field, message, scalar, sequence_bytes
from samples.zap.segments import uv

IDS = sequence_bytes([Seg("range", 0, 4)])


def file_of(content: Any, *, before: bytes = b"", version: tuple[int, int] = (0, 2)) -> bytes:
    """A manifest file around a message (or its bytes)."""
    body = content if isinstance(content, bytes) else content.SerializeToString()
    return before + struct.pack("<I", len(body)) + body + struct.pack("<qhh4s", len(before), *version, b"LANC")


def fragment(**values: Any) -> Any:
    return message("DataFragment", **({"id": 5, "physical_rows": 4} | values))


def manifest(*fragments: Any, **values: Any) -> Any:
    return message("Manifest", fragments=fragments, **({"version": 3} | values))


def read(content: Any) -> Manifest:
    return lance.read_manifest(file_of(content))


# ---------------------------------------------------------------------- real datasets


def truths(vectors: Path) -> list[tuple[Path, Path, dict[str, Any]]]:
    found = []
    for path in sorted((vectors / "lance").glob("*.v*.json")):
        truth = json.loads(path.read_text())
        dataset = path.parent / path.name.split(".")[0]
        found.append((dataset, dataset / truth["manifest"], truth))
    return found


def test_real_datasets(vectors: Path) -> None:
    cases = truths(vectors)
    assert len(cases) >= 9
    for dataset, path, truth in cases:
        found = lance.read_manifest(path)
        assert found.version == truth["version"]
        assert found.next_row_id == truth["next_row_id"]
        assert (found.reader_flags, found.writer_flags) == (truth["reader_flags"], truth["writer_flags"])
        assert found.writer == " ".join(truth["writer_version"])
        assert found.has_stable_row_ids
        assert lance.find_manifest(str(dataset), truth["version"]) == str(path)
        listed = [(entry["id"], entry["physical_rows"]) for entry in truth["fragments"]]
        assert [(entry.id, entry.physical_rows) for entry in found.fragments] == listed
        live = sum(one.row_id_sequence().count - one.deleted_rows(str(dataset)).cardinality for one in found.fragments)
        assert live == sum(entry["live_rows_checked"] for entry in truth["fragments"])


# ---------------------------------------------------------------------- crafted


def test_spilled_sequences_are_named() -> None:
    files = [
        message("DataFile", path="a.lance", fields=[0, 1], column_indices=[0, 1]),
        message("DataFile", path="b.lance", fields=[-3, -5], column_indices=[0, 1]),
        message("DataFile", path="c.lance", fields=[-4], column_indices=[0]),
    ]
    marker = message("Marker")
    columns = {"row_ids_column": marker, "updated_column": marker, "created_column": marker}
    (entry,) = read(manifest(fragment(files=files, **columns), reader_flags=2050)).fragments
    assert entry.row_ids == Stored(None, 0, "spilled to the column _rowid (field id -3) of data/b.lance")
    with pytest.raises(Unsupported, match=r"row ids of fragment 5: expected in the manifest, found .*data/b\.lance"):
        entry.row_id_sequence()
    with pytest.raises(Unsupported, match=r"_row_created_at_version \(field id -4\) of data/c\.lance"):
        entry.created_at_versions()
    with pytest.raises(Unsupported, match=r"_row_last_updated_at_version \(field id -5\) of data/b\.lance"):
        entry.last_updated_at_versions()
    (entry,) = read(manifest(fragment(**columns))).fragments
    with pytest.raises(Unsupported, match="no data file names it"):
        entry.row_id_sequence()


def test_deletion_file_of_a_manifest(tmp_path: Path) -> None:
    def entry_of(**values: Any) -> lance.Fragment:
        file = message("DeletionFile", **({"read_version": 8, "id": TOP} | values))
        return read(manifest(fragment(deletion_file=file, physical_rows=50))).fragments[0]

    with pytest.raises(Unsupported, match="base path 4"):
        entry_of(base_id=4).deleted_rows(str(tmp_path))
    with pytest.raises(Unsupported, match=r"0 \(arrow\) or 1 \(bitmap\), found 2"):
        entry_of(file_type=2)
    with pytest.raises(FileNotFoundError):
        entry_of().deleted_rows(str(tmp_path))
    (tmp_path / "_deletions").mkdir()
    file = lance.write_deletion_file(str(tmp_path), RowSet([4, 49]), fragment=5, read_version=8)
    values = {"id": file.id, "file_type": 0}
    assert entry_of(**values).deleted_rows(str(tmp_path)) == {4, 49}
    assert entry_of(num_deleted_rows=2, **values).deleted_rows(str(tmp_path)) == {4, 49}
    with pytest.raises(CardinalityMismatch, match=f"{file.id}.arrow"):
        entry_of(num_deleted_rows=3, **values).deleted_rows(str(tmp_path))
    with pytest.raises(NotCanonical, match=r"below 49 \(physical rows\), found 49"):
        replace(entry_of(**values), physical_rows=49).deleted_rows(str(tmp_path))


# ---------------------------------------------------------------------- the file


GOOD = file_of(manifest(fragment(row_ids=IDS)), before=b"before")
SIZE = len(GOOD)


def with_position(position: int) -> bytes:
    return GOOD[:-16] + struct.pack("<Q", position) + GOOD[-8:]


@each(
    ("data", "kind", "what", "offset"),
    [
        (b"", Truncated, "position", 0),
        (GOOD[-15:], Truncated, "magic", 12),
        (GOOD[-16:], Truncated, "position", 0),
        (with_position(0)[-19:], Truncated, "position", 3),
        (GOOD[:-1] + b"D", BadMagic, "magic", SIZE - 4),
        (GOOD + b"\0", BadMagic, "magic", SIZE - 3),
        (with_position(SIZE - 19), Truncated, "position", SIZE - 16),
        (with_position(TOP), Truncated, "position", SIZE - 16),
        (with_position(2**63), Truncated, "position", SIZE - 16),
        (with_position(7), NotCanonical, "size of the manifest", 7),
        (with_position(0), NotCanonical, "size of the manifest", 0),
        (GOOD[:-16] + b"\0" + GOOD[-16:], NotCanonical, "size of the manifest", 6),
        (file_of(b"\x12\x05a"), Truncated, "field 2", 6),
        (file_of(b"\x10\x05"), NotCanonical, "fragment", 4),
        (file_of(b"\x1a\x00"), NotCanonical, "field 3", 4),
        (file_of(b"\x12\x02\x0a\x00"), NotCanonical, "field 1 of a fragment", 6),
        (file_of(b"\x12\x02\x28\x00"), NotCanonical, "row_ids", 6),
        (file_of(b"\x12\x02\x18\x00"), NotCanonical, "deletion file", 6),
        (file_of(b"\x6a\x03\x0a\x01\xff"), NotCanonical, "writer", 8),
        # One that another follows is read too.
        (file_of(b"\x6a\x03\x0a\x01\xff\x6a\x00"), NotCanonical, "writer", 8),
        (file_of(b"\x12\x06\x32\x02\x08\x01\x32\x00"), NotCanonical, "path of a sequence", 8),
    ],
)
def test_refused_with_what_and_where(
    data: bytes, kind: type[DecodeError], what: str, offset: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.manifest"
    path.write_bytes(data)
    for source in (data, path):
        with pytest.raises(DecodeError) as caught:
            lance.read_manifest(source)
        assert type(caught.value) is kind
        assert what in caught.value.what
        assert caught.value.offset == offset
    assert caught.value.source == str(path)


files = st.builds(
    lambda **values: message("DeletionFile", **values),
    file_type=st.integers(0, 1),
    read_version=st.integers(0, TOP),
    id=st.integers(0, TOP),
    num_deleted_rows=st.integers(0, TOP),
    base_id=st.none() | st.integers(0, 2**32 - 1),
)
some_fragments = st.builds(
    fragment,
    id=st.integers(0, TOP),
    physical_rows=st.integers(0, TOP),
    row_ids=st.binary(max_size=20),
    created=st.binary(max_size=20),
    deletion_file=st.none() | files,
)


@given(st.lists(some_fragments, max_size=4), st.integers(0, TOP))
def test_messages_of_protobuf(fragments: list[Any], number: int) -> None:
    found = read(manifest(*fragments, version=number, next_row_id=number))
    assert found.version == found.next_row_id == number
    for entry, wanted in zip(found.fragments, fragments, strict=True):
        assert (entry.id, entry.physical_rows, entry.last_updated_at) == (wanted.id, wanted.physical_rows, None)
        inline = [None if stored is None else stored.inline for stored in (entry.row_ids, entry.created_at)]
        assert inline == [wanted.row_ids, wanted.created]
        if wanted.HasField("deletion_file"):
            file = wanted.deletion_file
            base_id = file.base_id if file.HasField("base_id") else None
            values = (file.read_version, file.id, file.num_deleted_rows, base_id)
            assert entry.deletion_file == DeletionFile(("arrow", "bin")[file.file_type], wanted.id, *values)
        else:
            assert entry.deletion_file is None


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize("scheme", ["V1", "V2"])
def test_find_manifest(scheme: Any, tmp_path: Path) -> None:
    folder = tmp_path / "_versions"
    folder.mkdir()
    with pytest.raises(UsageError, match="no version of a Lance dataset"):
        lance.find_manifest(str(tmp_path))
    for name in ("d9.manifest", f"{2**63 + 7}.manifest", "latest_version_hint.json", "12.manifest.tmp"):
        (folder / name).touch()
    with pytest.raises(UsageError, match="no version of a Lance dataset"):
        lance.find_manifest(str(tmp_path))
    for version in (9, 10, 2):
        (folder / lance.manifest_name(version, scheme)).touch()
    for place in (str(tmp_path), f"{tmp_path}/"):
        assert lance.find_manifest(place) == str(folder / lance.manifest_name(10, scheme))
        assert lance.find_manifest(place, 2) == str(folder / lance.manifest_name(2, scheme))
    for version in (1, 3, 11, 0):
        with pytest.raises(UsageError, match=f"no version {version} "):
            lance.find_manifest(str(tmp_path), version)


# ---------------------------------------------------------------------- time, transaction, base paths


def test_timestamps() -> None:
    times = {(0, 0): 0, (1_700_000_000, 123_456_789): 1_700_000_000_123, (-1, 999_999_999): -1, (-2, 0): -2000}
    for (seconds, nanos), expected in times.items():
        found = read(manifest(timestamp=message("Timestamp", seconds=seconds, nanos=nanos)))
        assert found.timestamp_ms == expected
    assert read(manifest()).timestamp_ms is None


# ---------------------------------------------------------------------- files of fragments, operations


def decoded(**values: Any) -> lance.Fragment:
    (found,) = read(manifest(fragment(**values))).fragments
    return found


def test_data_files_and_overlays() -> None:
    found = decoded(
        files=[
            message("DataFile", path="a.lance", fields=[0, 1], column_indices=[0, -1], major=2, size=700),
            message("DataFile", path="b.lance", fields=[-2], base_id=0),
            message("DataFile"),
        ],
        overlays=[
            message("Overlay", data_file=message("DataFile", path="o.lance", size=3), shared_offset_bitmap=b"x"),
            message("Overlay", committed_version=4),
            message("Overlay", data_file=message("DataFile", path="p.lance", base_id=2)),
        ],
    )
    of = lance.FragmentFile
    assert found.files == (of("a.lance", 700), of("b.lance", 0, 0), of(""))
    assert found.overlays == (of("o.lance", 3), of("p.lance", 0, 2))


def test_what_is_given_again_wins() -> None:
    """As in prost: the last of fields that exclude each other, of numbers and of texts; parts are joined."""
    external = message("External", path="x", offset=3, size=9).SerializeToString()
    file = field(1, b"a.lance") + field(1, b"b.lance") + field(2, uv(2**64 - 3)) + b"\x10" + uv(2**64 - 5)
    (entry,) = read(
        field(2, field(6, external), field(5, b"ids"), field(9, b"made"), field(10, external), field(7, b""), field(13))
    ).fragments
    assert entry.row_ids is not None
    assert entry.row_ids.inline == b"ids"
    assert entry.created_at == Stored(elsewhere="in the file x, 9 bytes at byte 3")
    with pytest.raises(Unsupported, match="no data file names it"):
        entry.last_updated_at_versions()
    found = read(
        scalar(9, 1)
        + scalar(9, 2)
        + field(12, b"old")
        + field(12, b"new")
        + scalar(21, 7)
        + field(7, scalar(1, 5))
        + field(7, scalar(2, 7_000_000))
        + field(18, scalar(1, 4), field(4, b"s3://b"))
        + field(18, scalar(3, 1), field(4, b"s3://r"))
        + field(2, field(2, file), field(12), field(14))
    )
    assert (found.reader_flags, found.transaction_file, found.transaction_offset) == (2, "new", 7)
    assert found.timestamp_ms == 5007
    assert found.base_paths == {4: lance.BasePath("s3://b"), 0: lance.BasePath("s3://r", True)}
    (entry,) = found.fragments
    assert entry.files == (lance.FragmentFile("b.lance"),)
    assert entry.row_ids == Stored(elsewhere="spilled to the column _rowid (field id -3) of data/b.lance")
    both = field(101, b"") + field(100, b"")
    assert (lance.read_operation(both), lance.read_operation(field(99) + field(117))) == ("Append", None)


def test_operations_that_are_refused() -> None:
    data = message("Transaction", read_version=4, uuid="u", delete=message("Marker")).SerializeToString()
    with pytest.raises(NotCanonical, match="operation"):
        lance.read_operation(b"\xa0\x06\x01")
    with pytest.raises(Truncated):
        lance.read_operation(data[:-1])
    with pytest.raises(Truncated):
        lance.read_operation(struct.pack("<I", len(data) + 1) + data, 0)
    with pytest.raises(Truncated):
        lance.read_operation(data, 2**40)
    with pytest.raises(LimitExceeded, match="max_metadata_bytes"):
        lance.read_operation(data, limits=Limits(max_metadata_bytes=3))


# ----------------------------------------------------------------------- row counts from the footers of data files


def footer(table: int, buffers: int = 1, version: tuple[int, int] = (2, 2)) -> bytes:
    numbers = b"".join(number.to_bytes(8, "little") for number in (0, 0, table))
    counts = buffers.to_bytes(4, "little") + (1).to_bytes(4, "little")
    return numbers + counts + b"".join(part.to_bytes(2, "little") for part in version) + b"LANC"


def made(descriptor: bytes, buffers: int = 1) -> bytes:
    entry = (0).to_bytes(8, "little") + len(descriptor).to_bytes(8, "little")
    return descriptor + entry + footer(len(descriptor), buffers)


def test_row_counts() -> None:
    assert read_row_count(made(b"\x0a\x00\x10\xac\x02")) == 300
    assert read_row_count(made(b"")) == 0  # protobuf leaves a zero out
    assert read_row_count(made(b"", buffers=2)) == 0


@pytest.mark.parametrize("version", [(0, 1), (0, 2), (3, 0)])
def test_row_counts_of_other_formats(version: tuple[int, int]) -> None:
    assert read_row_count(footer(0, version=version)) is None


def test_damaged_footers() -> None:
    good = made(b"\x10\x64")
    with pytest.raises(BadMagic, match="magic"):
        read_row_count(good[:-1] + b"X")
    with pytest.raises(NotCanonical, match="number of global buffers: expected 1 or more, found 0"):
        read_row_count(made(b"\x10\x64", buffers=0))
    with pytest.raises(Truncated):
        read_row_count(footer(10**9))
    with pytest.raises(Truncated):
        read_row_count(good[-20:])
    with pytest.raises(NotCanonical, match="rows of the file"):
        read_row_count(made(b"\x12\x00"))
    with pytest.raises(LimitExceeded, match="max_metadata_bytes"):
        read_row_count(good, limits=Limits(max_metadata_bytes=1))
