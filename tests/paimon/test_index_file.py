"""Paimon's vectors, and index files of them: read in order and by metadata, written one or many."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import BadMagic, DvLocation, LimitExceeded, Limits, NotCanonical, RowSet, UsageError, delta, paimon
from dvcodec.core.vector import StoredFrame
from dvcodec.paimon import DeletionVectorMeta, IndexFile
from samples.bitmaps import framed
from samples.paimon_index import BITMAP_ROWS, INDEX_FILES, MAGIC32, PYPAIMON_FILES, metas_of

Bits = Literal[32, 64]
A, B, C = RowSet([1, 3, 5]), RowSet(range(500)), RowSet([7, 70000])
FRAMES: dict[Bits, bytes] = {32: paimon.encode(A), 64: paimon.encode(A, layout="bitmap64")}
LENGTHS: dict[Bits, int] = {32: len(FRAMES[32]) - 8, 64: len(FRAMES[64])}
BOTH: tuple[Bits, Bits] = (32, 64)
POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 2**31 - 1)
both = pytest.mark.parametrize("bits", BOTH)


def metas_beside(index: Path) -> list[DeletionVectorMeta]:
    return [DeletionVectorMeta(*meta) for meta in metas_of(index)]


def bits_of(name: str) -> Bits:
    return 32 if INDEX_FILES[name] == 32 else 64


# ---------------------------------------------------------------------- real files


@each("name", INDEX_FILES)
def test_file_of_java_is_read_in_order_and_by_metadata(vectors: Path, name: str) -> None:
    path = vectors / "paimon" / name
    metas = metas_beside(path)
    expected = {meta.data_file: BITMAP_ROWS[meta.data_file] for meta in metas}
    assert paimon.read_deletion_vectors(path, metas) == expected
    assert paimon.load_frames(path) == {meta.offset: BITMAP_ROWS[meta.data_file] for meta in metas}
    assert list(paimon.read_deletion_vectors(path, metas[::-1])) == [meta.data_file for meta in metas[::-1]]
    repeated = [replace(metas[0], data_file=f"{i}") for i in range(3)]
    found = paimon.read_deletion_vectors(path, [*metas, *repeated])
    assert found == expected | dict.fromkeys("012", expected[metas[0].data_file])
    assert found["0"] is found["2"]  # read once
    for meta in metas:
        assert paimon.load(meta, path) == BITMAP_ROWS[meta.data_file]


@each("name", INDEX_FILES)
def test_one_file_of_java_is_written_byte_for_byte(vectors: Path, name: str) -> None:
    path = vectors / "paimon" / name
    metas = metas_beside(path)
    out = io.BytesIO()
    written = paimon.write_deletion_vectors(
        out, {meta.data_file: BITMAP_ROWS[meta.data_file] for meta in metas}, layout=f"bitmap{bits_of(name)}"
    )
    assert out.getvalue() == path.read_bytes()
    for location, meta in zip(written, metas, strict=True):
        counted = DeletionVectorMeta(meta.data_file, meta.offset, meta.length, BITMAP_ROWS[meta.data_file].cardinality)
        assert DeletionVectorMeta.from_location(location) == counted
        assert meta.cardinality in (None, counted.cardinality)
        assert location.file_size == path.stat().st_size


@each(
    ("prefix", "target"),
    [
        ("java-0.9.0/index-java09", 100),
        ("java-0.9.0/index-java09", 2097152),
        ("java-2.1-snapshot/index-java21src-32", 100),
        ("java-2.1-snapshot/index-java21src-32", 2097152),
        ("java-2.1-snapshot/index-java21src-64", 100),
        ("java-2.1-snapshot/index-java21src-64", 2097152),
    ],
)
def test_files_of_java_are_rolled_as_java_does(vectors: Path, tmp_path: Path, prefix: str, target: int) -> None:
    names = sorted(name for name in INDEX_FILES if name.startswith(f"{prefix}-{target}-"))
    paths = [vectors / "paimon" / name for name in names]
    metas = [metas_beside(path) for path in paths]
    sets = {meta.data_file: BITMAP_ROWS[meta.data_file] for part in metas for meta in part}
    files = paimon.write_index_files(str(tmp_path), sets, layout=f"bitmap{bits_of(names[0])}", target_size=target)
    assert [Path(file.path).read_bytes() for file in files] == [path.read_bytes() for path in paths]
    counted = [[replace(meta, cardinality=len(BITMAP_ROWS[meta.data_file])) for meta in part] for part in metas]
    assert [list(file.vectors) for file in files] == counted
    assert target in (100, paimon.TARGET_SIZE)


@pytest.mark.parametrize("name", PYPAIMON_FILES)
def test_file_of_pypaimon_is_written_byte_for_byte_without_runs(vectors: Path, name: str) -> None:
    path = vectors / "paimon" / name
    sets = {str(at): rows for at, rows in paimon.load_frames(path).items()}
    out = io.BytesIO()
    written = paimon.write_deletion_vectors(out, sets, run_optimize=False)
    assert out.getvalue() == path.read_bytes()
    assert [str(location.offset) for location in written] == list(sets)


# ---------------------------------------------------------------------- one frame


@given(st.lists(POSITIONS, max_size=80), st.sampled_from(BOTH), st.booleans())
def test_round_trip(positions: list[int], bits: Bits, run_optimize: bool) -> None:
    rows = RowSet(positions)
    frame = paimon.encode(rows, layout=f"bitmap{bits}", run_optimize=run_optimize)
    assert paimon.decode(frame, cardinality=len(rows)) == rows


@pytest.mark.parametrize("position", [2**31, 2**40])
def test_position_above_31_bits_needs_64(position: int) -> None:
    rows = RowSet([position])
    with pytest.raises(UsageError, match="use 64 bits"):
        paimon.encode(rows)
    assert paimon.decode(paimon.encode(rows, layout="bitmap64")) == rows


# ---------------------------------------------------------------------- metadata


@each(
    ("kind", "data_file"),
    [("delta", "a"), ("paimon", "a"), ("paimon32", None)],
)
def test_location_of_another_format_or_without_a_name_is_a_usage_error(kind: str, data_file: str | None) -> None:
    with pytest.raises(UsageError, match="index-0 at byte 7"):
        DeletionVectorMeta.from_location(DvLocation(kind, "index-0", 7, 50, 3, data_file, 100))


@each("name", ["offset", "length", "cardinality"])
def test_metadata_is_held_against_the_types_of_the_manifest(name: str) -> None:
    values = {"offset": 1, "length": 12, "cardinality": 0}
    top = 2**63 if name == "cardinality" else 2**31
    for value in (0, top - 1):
        assert getattr(DeletionVectorMeta("a", **{**values, name: value}), name) == value
    for value in (top, -1):
        with pytest.raises(UsageError, match=f"vector of 'a': {name} {value} is not between 0 and {top - 1}"):
            DeletionVectorMeta("a", **{**values, name: value})
    with pytest.raises(UsageError, match=f"{name} must be an int"):
        DeletionVectorMeta("a", **{**values, name: 1.0})  # type: ignore[arg-type]


def test_arguments_that_are_missing() -> None:
    with pytest.raises(UsageError, match="written must not be empty"):
        IndexFile.of([])
    with pytest.raises(UsageError, match="vector of 'a': the index file is missing"):
        paimon.load(DeletionVectorMeta("a", 1, 24, 3))
    with pytest.raises(UsageError, match="folder must not be empty"):
        paimon.write_index_files("", {})


# ---------------------------------------------------------------------- one vector by its metadata


@both
@pytest.mark.parametrize("difference", [-8, 8, 1])
def test_length_of_the_other_convention_is_refused(bits: Bits, difference: int) -> None:
    data = b"\1" + FRAMES[bits] + FRAMES[bits]
    with pytest.raises(NotCanonical) as caught:
        paimon.load(DeletionVectorMeta("a", 1, LENGTHS[bits] + difference, 3), data)
    assert caught.value.what == "length in the metadata"
    counted = {32: "magic and bitmap of a 32-bit vector", 64: "the whole frame of a 64-bit vector"}[bits]
    assert caught.value.expected == f"{LENGTHS[bits]} ({counted}, from its length field)"
    assert caught.value.actual == LENGTHS[bits] + difference
    assert caught.value.offset == 1


def test_magic_of_another_format_is_refused() -> None:
    native = delta.encode(A, layout="native")
    for frame in (native, framed(bytes(20)), framed(MAGIC32[::-1] + bytes(20))):
        with pytest.raises(BadMagic) as caught:
            paimon.load(DeletionVectorMeta("a", 1, len(frame), 3), b"\1" + frame)
        assert caught.value.offset == 5
        assert caught.value.expected == "5e 43 f2 d0 or d1 d3 39 64"
        with pytest.raises(BadMagic):
            paimon.load_frames(b"\1" + frame)


# ---------------------------------------------------------------------- whole files


# ---------------------------------------------------------------------- writing one file


@pytest.mark.parametrize("frame", [delta.encode(A, layout="native"), b""])
def test_frame_of_another_format_is_a_usage_error(tmp_path: Path, frame: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(UsageError, match="32- and 64-bit vectors only"):
        paimon.write_stored_vectors(path, [StoredFrame("a", 3, FRAMES[32]), StoredFrame("b", 3, frame)])
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


# ---------------------------------------------------------------------- writing as many files as it takes


SETS = st.dictionaries(
    st.text("abcd", min_size=1, max_size=3), st.lists(POSITIONS, max_size=30).map(RowSet), max_size=6
)


@given(sets=SETS, bits=st.sampled_from(BOTH), run_optimize=st.booleans(), target=st.integers(0, 400))
def test_rolled_files_hold_all_vectors_in_order(
    tmp_path_factory: pytest.TempPathFactory, sets: dict[str, RowSet], bits: Bits, run_optimize: bool, target: int
) -> None:
    folder = tmp_path_factory.mktemp("index")
    files = paimon.write_index_files(
        str(folder), sets, layout=f"bitmap{bits}", run_optimize=run_optimize, target_size=target
    )
    assert {file.path for file in files} == {str(path) for path in folder.iterdir()}
    found: dict[str, RowSet] = {}
    for file in files:
        found |= paimon.read_deletion_vectors(file.path, file.vectors)
        assert file.vectors[-1].offset <= max(target, 1), "the vector before would have closed it"
        assert file is files[-1] or file.file_size > target
        assert list(paimon.load_frames(file.path)) == [meta.offset for meta in file.vectors]
    assert found == sets
    assert list(found) == list(sets)
    whole = b"".join(paimon.encode(rows, layout=f"bitmap{bits}", run_optimize=run_optimize) for rows in sets.values())
    assert b"".join(Path(file.path).read_bytes()[1:] for file in files) == whole


@both
def test_a_vector_may_be_as_large_as_the_limit(bits: Bits, tmp_path: Path) -> None:
    (location,) = paimon.write_deletion_vectors(tmp_path / "index", {"a": B}, layout=f"bitmap{bits}")
    assert paimon.load(location, limits=Limits(max_vector_bytes=location.size)) == B
    with pytest.raises(LimitExceeded, match=f"max_vector_bytes: expected at most {location.size - 1}"):
        paimon.load(location, limits=Limits(max_vector_bytes=location.size - 1))
