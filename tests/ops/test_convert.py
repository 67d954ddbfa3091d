"""From one container to another: frames are copied, verified, never re-encoded unless the layout is another."""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import flipped
from cases import each
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    DvLocation,
    NotCanonical,
    RowSet,
    Unsupported,
    UsageError,
    convert,
    delta,
    iceberg,
    mumbling,
    paimon,
    read_rows,
    sniff,
)
from dvcodec.core.vector import Magic
from dvcodec.ops.convert import ConvertTarget as Target
from dvcodec.ops.convert import write
from dvcodec.ops.read import format_of
from samples.bitmaps import array, bitmap, framed
from samples.containers import FRAMED, SAMPLES, A, B

RE_ENCODED = ("delta native", "native blob", "paimon 32", "paimon mixed", "paimon blob")
COPIED = [name for name in FRAMED if name not in RE_ENCODED]
TO: tuple[Target, ...] = ("iceberg", "delta", "paimon32", "paimon64", "blob", "mumbling")
PORTABLE: tuple[Target, ...] = ("iceberg", "delta", "paimon64", "blob")
"""The targets whose vectors are the frames of Iceberg."""


def encoded(rows: RowSet, to: Target) -> bytes:
    return {"paimon32": paimon.encode, "mumbling": mumbling.encode}.get(to, iceberg.encode)(rows)


def fits(rows: RowSet, to: Target) -> bool:
    return (rows.max or 0) < {"paimon32": 2**31, "mumbling": mumbling.MAX_POSITIONS}.get(to, 2**63)


def run(data: bytes | Path, to: Target, **options: Any) -> tuple[bytes, list[DvLocation]]:
    out = io.BytesIO()
    written = convert(data, to, out, **options)
    return out.getvalue(), written


def names_for(name: str) -> list[str]:
    return [f"file-{i}" for i in range(len(SAMPLES[name].vectors))]


def stored(data: bytes, written: Sequence[DvLocation]) -> list[bytes]:
    return [data[location.offset : location.offset + location.size] for location in written]


# ---------------------------------------------------------------------- any to any


@each("to", TO)
@each("name", [name for name, sample in SAMPLES.items() if sample.vectors])
def test_every_container_becomes_every_other(name: str, to: Target) -> None:
    sample = SAMPLES[name]
    names = names_for(name)
    if to in ("blob", "mumbling") and len(names) != 1:
        with pytest.raises(UsageError, match=f"exactly one vector, found {len(names)}"):
            run(sample.data, to)
        return
    if not all(fits(rows, to) for rows in sample.rows):
        with pytest.raises(UsageError, match=r"does not fit a (32-bit vector|Mumbling bitmap)"):
            run(sample.data, to, data_files=names)
        return
    data, written = run(sample.data, to, data_files=names)
    found = sniff(data)
    expected = {"iceberg": "puffin", "paimon32": "paimon", "paimon64": "delta"}.get(to, to)
    assert found.kind.value == expected
    assert stored(data, written) == [encoded(rows, to) for rows in sample.rows]
    assert [(at.offset, at.size) for at in written] == [(ref.offset, ref.size) for ref in found.vectors]
    assert [at.cardinality for at in written] == [len(rows) for rows in sample.rows]
    assert [at.data_file for at in written] == names
    assert {at.file_size for at in written} == {len(data)}
    assert {at.format for at in written} == {"iceberg" if to == "blob" else to}


RUN_AS_ARRAY = bitmap(array(0, range(100)))
FOREIGN: dict[Target, bytes] = {
    "paimon32": framed(Magic.PAIMON32.value + RUN_AS_ARRAY),
    "iceberg": framed(Magic.PORTABLE64.value + struct.pack("<QI", 1, 0) + RUN_AS_ARRAY),
}
"""A run in an array, as other writers may store it."""


@each("count", [1, 2, 3])
@each("to", FOREIGN)
def test_frames_of_another_writer_are_copied_where_the_layout_is_the_same(to: Target, count: int) -> None:
    rows, frame = RowSet(range(100)), FOREIGN[to]
    data = b"\1" + frame * count
    names = [f"{i}" for i in range(count)]
    for other in TO[:4]:
        out, written = run(data, other, data_files=names)
        shared = (other == "paimon32") == (to == "paimon32")
        assert stored(out, written) == [frame if shared else encoded(rows, other)] * count
    if count == 1:
        assert run(data, "mumbling")[0] == mumbling.encode(rows)


@each("count", [1, 2])
@each(("position", "is_refused"), [(2**31 - 1, False), (2**31, True), (2**32 - 1, True)])
def test_positions_that_java_cannot_have_do_not_become_paimons(position: int, is_refused: bool, count: int) -> None:
    """A 32-bit bitmap holds them; Paimon's positions are signed."""
    frame = framed(Magic.PAIMON32.value + bitmap(array(position >> 16, [position & 0xFFFF])))
    data, names = b"\1" + frame * count, [f"{i}" for i in range(count)]
    if is_refused:
        with pytest.raises(UsageError, match=f"{position} does not fit a 32-bit vector"):
            run(data, "paimon32", data_files=names)
    else:
        assert stored(*run(data, "paimon32", data_files=names)) == [frame] * count


# ---------------------------------------------------------------------- no bitmap is built


class BitmapBuilt(Exception):
    """Somebody expanded a vector."""


@pytest.fixture
def no_bitmaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way from bytes to a bitmap or a row set raises."""

    class NoBitMap:
        def __init__(self, *_: object, **__: object) -> None:
            raise BitmapBuilt

        @staticmethod
        def deserialize(_: object) -> NoReturn:
            raise BitmapBuilt

    def refuse(*_: object, **__: object) -> NoReturn:
        raise BitmapBuilt

    for name, module in list(sys.modules.items()):
        for kind in ("BitMap", "FrozenBitMap"):
            if name.startswith("dvcodec.") and kind in vars(module):
                monkeypatch.setattr(module, kind, NoBitMap)
    monkeypatch.setattr("dvcodec.core.roaring.BitmapView.load", refuse)
    monkeypatch.setattr(RowSet, "__init__", refuse)


@pytest.mark.usefixtures("no_bitmaps")
@pytest.mark.parametrize("to", PORTABLE)
@pytest.mark.parametrize("name", COPIED)
def test_shared_frame_is_copied_without_building_a_bitmap(name: str, to: Target) -> None:
    if to == "blob" and len(SAMPLES[name].vectors) != 1:
        return
    data, written = run(SAMPLES[name].data, to, data_files=names_for(name))
    source = SAMPLES[name].data
    assert stored(data, written) == [source[at : at + size] for at, (size, _) in SAMPLES[name].vectors.items()]


# ---------------------------------------------------------------------- verified on the way

UNSORTED = bytes.fromhex("0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0900 0700")


@each("to", ["iceberg", "delta", "paimon32", "paimon64"])
@each(
    ("source", "kind"),
    [
        (flipped(SAMPLES["puffin"].data, 8 * (4 + 46 + 20)), ChecksumMismatch),
        (flipped(SAMPLES["delta"].data, 8 * len(SAMPLES["delta"].data) - 1), ChecksumMismatch),
        (flipped(SAMPLES["delta"].data, 8 * (1 + 46 + 4)), ChecksumMismatch),
        (SAMPLES["puffin"].data.replace(b'"cardinality":"2"', b'"cardinality":"7"'), CardinalityMismatch),
        (b"\1" + iceberg.encode(A) + framed(b"\xd1\xd3\x39\x64" + UNSORTED), NotCanonical),
        (b"\1" + iceberg.encode(A) + framed(b"\xff\xff\xff\xff" + UNSORTED), BadMagic),
        (b"\1" + iceberg.encode(A) + framed(iceberg.encode(A)[4:-4] + b"\0"), NotCanonical),
        (b"nothing we know", Unsupported),
    ],
)
def test_corrupt_source_leaves_no_file(tmp_path: Path, source: bytes, kind: type[DecodeError], to: Target) -> None:
    names = ["a", "b", "c"][: len(sniff(source).vectors)] if kind is not Unsupported else None
    path = tmp_path / "out"
    with pytest.raises(kind):
        convert(source, to, path, data_files=names)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"old")
    with pytest.raises(kind):
        convert(source, to, path, data_files=names)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


# ---------------------------------------------------------------------- names


@each(
    ("data_files", "match"),
    [
        (["a"], "3 vectors, but 1 data files given"),
        (["a", "b", "c", "d"], "3 vectors, but 4 data files given"),
        ([], "3 vectors, but 0 data files given"),
        ({0: "a"}, "no vector at byte 0"),
        ({1: "a", 2: "b"}, "no vector at byte 2"),
        ({1: "a"}, "vector at byte 47: unknown data file"),
    ],
)
def test_names_have_to_fit(data_files: Sequence[str] | Mapping[int, str], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        run(SAMPLES["delta"].data, "iceberg", data_files=data_files)


@each(
    ("to", "meant"),
    [
        ("", "hudi"),
        ("ICEBERG", "hudi"),
        (None, "hudi"),
        ("puffin", "; did you mean 'iceberg'\\?"),
        ("Paimon", "; did you mean 'paimon32' or 'paimon64'\\?"),
    ],
)
def test_unknown_target_is_a_usage_error(to: Any, meant: str) -> None:
    out, known = io.BytesIO(), f"iceberg, delta, paimon32, paimon64, blob, .*{meant}$"
    with pytest.raises(UsageError, match=known):
        convert(SAMPLES["blob"].data, to, out)
    with pytest.raises(UsageError, match=known):
        write(to, out, {"a": A})


# ---------------------------------------------------------------------- write


def test_what_a_target_needs_to_be_written() -> None:
    nameless: dict[str | None, RowSet] = {None: A}
    for to in ("delta", "paimon32", "paimon64", "blob"):
        (location,) = write(to, io.BytesIO(), nameless)
        assert (location.data_file, location.offset) == (None, int(to != "blob"))
    with pytest.raises(UsageError, match="data file of every vector"):
        write("iceberg", io.BytesIO(), nameless)
    for sets in ({}, {"a": A, "b": B}):
        with pytest.raises(UsageError, match="exactly one vector"):
            write("blob", io.BytesIO(), sets)


@pytest.mark.parametrize("to", ["iceberg", "delta", "paimon64"])
def test_gap_keys_of_all_vectors_are_counted(to: Target, tmp_path: Path) -> None:
    """Bytes of a Puffin file whose writer leaves them out become those of Java until there are too many."""
    far = RowSet([(2**16 - 1) << 32])
    vectors = {f"{i}": far for i in range(200)}
    assert write(to, tmp_path / "written", vectors)
    assert (tmp_path / "written").stat().st_size < 2**20
    delta.write_deletion_vectors(tmp_path / "few", vectors, gap_keys=False)
    native = delta.encode(RowSet([(2**15) << 32]), layout="native")
    (tmp_path / "native").write_bytes(b"\1" + native * 4)
    sizes = []
    for name in ("few", "native"):
        names = [f"{i}" for i in range(200 if name == "few" else 4)]
        written = convert(tmp_path / name, to, tmp_path / f"{name}.out", data_files=names)
        sizes.append([at.size for at in written])
    assert max(sizes[0]) < 100
    java, bare = (len(iceberg.encode(RowSet([(2**15) << 32]), gap_keys=gaps)) for gaps in (True, False))
    assert sizes[1] == [java, bare, bare, bare]


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 1 << 34)
SETS = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.lists(POSITIONS).map(RowSet), min_size=1, max_size=4)


def test_rows_above_31_bits_name_their_vector() -> None:
    write("delta", out := io.BytesIO(), {"a": A, "b": RowSet([7, 2**31])})
    offset = sniff(out.getvalue()).vectors[1].offset
    said = "position 2147483648 does not fit a 32-bit vector (at most 2147483647): use 64 bits"
    for data_files, named in ((None, f"at byte {offset}"), (["x", "y"], "y"), ({offset: "w"}, "w")):
        with pytest.raises(UsageError) as caught:
            run(out.getvalue(), "paimon32", data_files=data_files)
        assert str(caught.value) == f"vector {named}: {said}"


@given(SETS, st.sampled_from(["iceberg", "delta", "paimon64"]), st.sampled_from(["iceberg", "delta", "paimon64"]))
def test_rows_survive_any_two_conversions(sets: dict[str, RowSet], first: Target, second: Target) -> None:
    out = io.BytesIO()
    names = [location.data_file or "" for location in write(first, out, sets)]
    between, written = run(out.getvalue(), second, data_files=names)
    back, again = run(between, "iceberg", data_files=[location.data_file or "" for location in written])
    assert read_rows(back) == sets
    assert stored(back, again) == [iceberg.encode(sets[name]) for name in names]
    assert delta.load_frames(run(back, "delta")[0]) == {
        location.offset: sets[name] for location, name in zip(run(back, "delta")[1], names, strict=True)
    }


@each(("key", "has_gaps"), [(65_535, True), (65_536, False), (131_071, False)])
def test_a_far_key_is_written_without_the_empty_bitmaps_below_it(key: int, has_gaps: bool) -> None:
    encode = format_of("blob").encode
    assert encode is not None
    assert (len(encode(RowSet([key << 32]))) > 12 * key) is has_gaps


def test_a_format_of_a_package_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="format nowhere is not installed here"):
        format_of("nowhere")
