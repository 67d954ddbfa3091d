"""From one container to another: frames are copied, verified, never re-encoded unless the layout is another."""

from __future__ import annotations

import io
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
    Container,
    ContainerKind,
    DecodeError,
    DvLocation,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    Unsupported,
    UsageError,
    convert,
    decode_at,
    delta,
    iceberg,
    paimon,
    read_rows,
    sniff,
)
from dvcodec.ops.convert import TARGETS, write
from dvcodec.ops.convert import ConvertTarget as Target
from dvcodec.puffin import open_puffin
from samples.bitmaps import framed
from samples.containers import FRAMED, SAMPLES, A, B, C, puffin_file

RE_ENCODED = ("delta native", "native blob", "paimon 32", "paimon mixed", "paimon blob")
COPIED = [name for name in FRAMED if name not in RE_ENCODED]
COPIED_TO_32_BITS = ("paimon 32", "paimon blob")
TO: tuple[Target, ...] = ("puffin", "delta", "paimon32", "paimon64", "blob")
PORTABLE: tuple[Target, ...] = ("puffin", "delta", "paimon64", "blob")
"""The targets whose vectors are the frames of Iceberg."""


def encoded(rows: RowSet, to: Target) -> bytes:
    return paimon.encode(rows) if to == "paimon32" else iceberg.encode(rows)


def fits(rows: RowSet, to: Target) -> bool:
    return to != "paimon32" or (rows.max or 0) < 2**31


def run(data: bytes | Path, to: Target, **options: Any) -> tuple[bytes, list[DvLocation]]:
    out = io.BytesIO()
    written = convert(data, to, out, **options)
    return out.getvalue(), written


def names_for(name: str) -> list[str]:
    return [f"file-{i}" for i in range(len(SAMPLES[name].vectors))]


def stored(data: bytes, written: Sequence[DvLocation]) -> list[bytes]:
    return [data[location.offset : location.offset + location.size] for location in written]


# ---------------------------------------------------------------------- any to any


def test_targets_are_the_documented_ones() -> None:
    assert TARGETS == TO


@each("to", TO)
@each("name", [name for name, sample in SAMPLES.items() if sample.vectors])
def test_every_container_becomes_every_other(name: str, to: Target) -> None:
    sample = SAMPLES[name]
    names = names_for(name)
    if to == "blob" and len(names) != 1:
        with pytest.raises(UsageError, match=f"exactly one vector, found {len(names)}"):
            run(sample.data, to)
        return
    if not all(fits(rows, to) for rows in sample.rows):
        with pytest.raises(UsageError, match="does not fit a 32-bit vector"):
            run(sample.data, to, data_files=names)
        return
    data, written = run(sample.data, to, data_files=names)
    found = sniff(data)
    expected = {"puffin": "puffin", "delta": "delta", "paimon32": "paimon", "paimon64": "delta", "blob": "blob"}[to]
    assert found.kind.value == expected
    assert stored(data, written) == [encoded(rows, to) for rows in sample.rows]
    assert [(at.offset, at.size) for at in written] == [(ref.offset, ref.size) for ref in found.vectors]
    assert [at.cardinality for at in written] == [len(rows) for rows in sample.rows]
    assert [at.data_file for at in written] == names
    assert {at.file_size for at in written} == {len(data)}
    formats = {"puffin": "iceberg", "delta": "delta", "paimon32": "paimon32", "paimon64": "paimon64", "blob": "iceberg"}
    assert {at.format for at in written} == {formats[to]}


@each(
    "name",
    [
        "iceberg/java-main/one-small.puffin",
        "iceberg/java-main/three-files.puffin",
        "iceberg/java-main/gap-keys.puffin",
    ],
)
@each("via", ["delta", "paimon64"])
def test_java_puffin_survives_the_way_through_another_file(vectors: Path, name: str, via: Target) -> None:
    original = (vectors / name).read_bytes()
    with open_puffin(original) as reader:
        created_by = reader.footer.properties["created-by"]
        names = [blob.properties["referenced-data-file"] for blob in reader.blobs]
        blobs = [bytes(reader.read_stored(blob).view) for blob in reader.blobs]
    between, written = run(original, via)
    assert between == b"\1" + b"".join(blobs)
    assert [location.data_file for location in written] == names
    assert stored(between, written) == blobs
    assert run(between, "puffin", data_files=names, created_by=created_by)[0] == original
    by_offset = {location.offset: location.data_file for location in written}
    assert run(between, "puffin", data_files=by_offset, created_by=created_by)[0] == original


def test_spark_file_survives_the_way_through_puffin(vectors: Path) -> None:
    path = vectors / "delta/cdf-table-with-cdc-and-dvs/deletion_vector_7f94a4d4-4d29-440e-b1c0-387e410aeded.bin"
    between, _ = run(path, "puffin", data_files=["a", "b"])
    assert iceberg.read_deletion_vectors(between) == {"a": RowSet([0]), "b": RowSet([1])}
    assert run(between, "delta")[0] == path.read_bytes()


def test_range_delete_of_java_keeps_its_containers(vectors: Path) -> None:
    blob = (vectors / "iceberg/java-main/range0-3.dv").read_bytes()
    assert blob != iceberg.encode(RowSet(range(3)))
    data, (location,) = run(blob, "delta")
    assert stored(data, [location]) == [blob]
    assert run(data, "blob")[0] == blob


def test_order_of_the_file_is_kept() -> None:
    source = puffin_file({"Aa": A, "BB": B, "a": C})
    assert [location.data_file for location in run(source, "puffin")[1]] == ["Aa", "BB", "a"]


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
    monkeypatch.setattr("dvcodec.core.bitmap.BitmapView.load", refuse)
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


@pytest.mark.usefixtures("no_bitmaps")
@pytest.mark.parametrize("name", COPIED_TO_32_BITS)
def test_32_bit_frame_is_copied_to_32_bits_without_building_a_bitmap(name: str) -> None:
    source = SAMPLES[name].data
    data, written = run(source, "paimon32")
    assert stored(data, written) == [source[at : at + size] for at, (size, _) in SAMPLES[name].vectors.items()]


@pytest.mark.usefixtures("no_bitmaps")
@pytest.mark.parametrize("to", PORTABLE)
def test_bare_64_bit_map_gets_a_frame_without_building_a_bitmap(to: Target) -> None:
    bare = SAMPLES["roaring 64"].data
    data, written = run(bare, to, data_files=["a"])
    assert stored(data, written) == [framed(b"\xd1\xd3\x39\x64" + bare)]


@pytest.mark.usefixtures("no_bitmaps")
@pytest.mark.parametrize("name", [*RE_ENCODED, "roaring 32"])
def test_other_layouts_have_to_be_decoded(name: str) -> None:
    with pytest.raises(BitmapBuilt):
        run(SAMPLES[name].data, "delta")


@pytest.mark.usefixtures("no_bitmaps")
@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in COPIED_TO_32_BITS and SAMPLES[name].vectors])
def test_other_layouts_have_to_be_decoded_for_32_bits(name: str) -> None:
    with pytest.raises(BitmapBuilt):
        run(SAMPLES[name].data, "paimon32")


# ---------------------------------------------------------------------- verified on the way

UNSORTED = bytes.fromhex("0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0900 0700")


@each("to", ["puffin", "delta", "paimon32", "paimon64"])
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


UNSORTED32 = framed(b"\x5e\x43\xf2\xd0" + UNSORTED[12:])


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (b"\1" + paimon.encode(A) + UNSORTED32, NotCanonical),
        (UNSORTED32, NotCanonical),
        (b"\1" + paimon.encode(A) + flipped(paimon.encode(A), 8 * 30), ChecksumMismatch),
        (b"\1" + paimon.encode(A) + delta.encode(A, layout="native"), BadMagic),
    ],
)
def test_32_bit_frame_is_verified_before_it_is_copied(tmp_path: Path, source: bytes, kind: type[DecodeError]) -> None:
    with pytest.raises(kind):
        convert(source, "paimon32", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_corrupt_blob_leaves_no_file(tmp_path: Path) -> None:
    for source in (flipped(iceberg.encode(A), 8 * 20), framed(b"\xd1\xd3\x39\x64" + UNSORTED)):
        with pytest.raises(DecodeError):
            convert(source, "blob", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_limits_are_kept() -> None:
    for to in ("paimon32", "paimon64"):
        for limits in (Limits(max_cardinality=100), Limits(max_records=2)):
            with pytest.raises(LimitExceeded):
                run(SAMPLES["delta"].data, to, limits=limits)


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["delta", "blob", "paimon 32", "roaring 64"])
def test_puffin_needs_the_data_files(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown data file"):
        convert(SAMPLES[name].data, "puffin", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


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
        run(SAMPLES["delta"].data, "puffin", data_files=data_files)


def test_given_names_replace_those_of_the_source() -> None:
    source = SAMPLES["puffin"].data
    second = list(SAMPLES["puffin"].vectors)[1]
    assert [at.data_file for at in run(source, "puffin", data_files={second: "new"})[1]] == ["a", "new", "c"]
    assert [at.data_file for at in run(source, "delta", data_files=["x", "y", "z"])[1]] == ["x", "y", "z"]
    assert [at.data_file for at in run(source, "paimon64")[1]] == ["a", "b", "c"]


def test_created_by_is_a_choice() -> None:
    for created_by in ("me", "\u00e9"):
        with open_puffin(run(SAMPLES["puffin"].data, "puffin", created_by=created_by)[0]) as reader:
            assert reader.footer.properties == {"created-by": created_by}


@each("to", ["puffin", "delta", "paimon32", "paimon64"])
@each("source", [SAMPLES["delta without vectors"].data, b'PFA1PFA1{"blobs":[]}\x0c' + bytes(7) + b"PFA1"])
def test_no_vectors_make_no_file_but_one_of_paimon(source: bytes, to: Target, tmp_path: Path) -> None:
    assert convert(source, to, tmp_path / "out") == []
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([b"\1"] if to.startswith("paimon") else [])
    (tmp_path / "out").unlink(missing_ok=True)
    with pytest.raises(UsageError, match="exactly one vector, found 0"):
        convert(source, "blob", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["", "iceberg", "paimon", "PUFFIN", "roaring64"])
def test_unknown_target_is_a_usage_error(to: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="puffin, delta, paimon32, paimon64, blob"):
        convert(SAMPLES["blob"].data, to, tmp_path / "out")
    with pytest.raises(UsageError, match="puffin, delta, paimon32, paimon64, blob"):
        write(to, tmp_path / "out", {"a": A})
    assert list(tmp_path.iterdir()) == []


def test_file_is_converted_in_place(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(SAMPLES["puffin"].data)
    written = convert(path, "delta", path)
    assert sniff(path).kind is ContainerKind.DELTA
    assert {location.path for location in written} == {str(path)}
    assert list(tmp_path.iterdir()) == [path]


def test_bare_map_up_to_the_highest_position_is_copied() -> None:
    highest = 0x7FFFFFFE80000000
    for position, fits in ((highest, True), (highest + 1, False)):
        low = (position & 0xFFFFFFFF).to_bytes(4, "little")
        bitmap = bytes.fromhex("3a30000001000000") + low[2:] + bytes(2) + bytes.fromhex("10000000") + low[:2]
        bare = (1).to_bytes(8, "little") + (position >> 32).to_bytes(4, "little") + bitmap
        if fits:
            assert iceberg.decode(run(bare, "blob")[0]) == RowSet([position])
        else:
            with pytest.raises(UsageError, match="highest in a deletion vector"):
                run(bare, "blob")


def test_bare_map_above_the_vectors_of_iceberg_is_a_usage_error(vectors: Path) -> None:
    with pytest.raises(UsageError, match="highest in a deletion vector"):
        run(vectors / "roaring/croaring/64maphighvals.bin", "blob")


# ---------------------------------------------------------------------- write


@pytest.mark.parametrize("to", ["puffin", "delta", "paimon32", "paimon64"])
def test_row_sets_are_written(to: Target) -> None:
    sets = {"Aa": A, "BB": B, "empty": RowSet()}
    out = io.BytesIO()
    written = write(to, out, sets)
    assert {location.data_file: location.cardinality for location in written} == {k: len(v) for k, v in sets.items()}
    order = ["BB", "Aa"] if to == "puffin" else ["Aa", "BB"]
    assert [location.data_file for location in written if location.data_file != "empty"] == order
    for location in written:
        assert location.data_file is not None
        (blob,) = stored(out.getvalue(), [location])
        assert blob == encoded(sets[location.data_file], to)
    kind = sniff(out.getvalue())
    assert isinstance(kind, Container)
    kinds = {"puffin": ContainerKind.PUFFIN, "paimon32": ContainerKind.PAIMON}
    assert kind.kind is kinds.get(to, ContainerKind.DELTA)


def test_one_row_set_is_written_as_a_blob() -> None:
    out = io.BytesIO()
    (location,) = write("blob", out, {"a": A})
    assert out.getvalue() == iceberg.encode(A)
    assert (location.offset, location.size, location.data_file) == (0, 46, "a")
    for sets in ({}, {"a": A, "b": B}):
        with pytest.raises(UsageError, match="exactly one vector"):
            write("blob", io.BytesIO(), sets)


def test_row_set_without_a_name_is_written_where_no_name_is_needed() -> None:
    sets: dict[str | None, RowSet] = {None: A}
    for to in ("delta", "paimon32", "paimon64", "blob"):
        (location,) = write(to, io.BytesIO(), sets)
        assert location.data_file is None
    with pytest.raises(UsageError, match="data file of every vector"):
        write("puffin", io.BytesIO(), sets)


def test_nothing_is_written_of_nothing_but_the_one_byte_of_paimon(tmp_path: Path) -> None:
    for to in ("puffin", "delta"):
        assert write(to, tmp_path / "out", {}) == []
    assert list(tmp_path.iterdir()) == []
    for kind in ("paimon32", "paimon64"):
        assert write(kind, tmp_path / kind, {}) == []
        assert (tmp_path / kind).read_bytes() == b"\1"


@each(("position", "gaps"), [((1 << 48) - 1, True), (1 << 48, False), ((2**31 - 2) << 32, False)])
@each("to", PORTABLE)
def test_gap_keys_are_left_out_of_row_sets_that_reach_far(to: Target, position: int, gaps: bool) -> None:
    rows = RowSet([position])
    out = io.BytesIO()
    written = write(to, out, {"a": rows})
    assert stored(out.getvalue(), written) == [iceberg.encode(rows, gap_keys=gaps)]


@pytest.mark.parametrize("to", ["puffin", "delta", "paimon64"])
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


def test_rows_that_do_not_fit_leave_no_file(tmp_path: Path) -> None:
    for to in TO:
        with pytest.raises(UsageError):
            write(to, tmp_path / "out", {"a": RowSet([2**63])})
    assert list(tmp_path.iterdir()) == []


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 1 << 34)
SETS = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.lists(POSITIONS).map(RowSet), min_size=1, max_size=4)


# ---------------------------------------------------------------------- Paimon, 32 bits


def with_higher_rows(to_write: Target) -> bytes:
    out = io.BytesIO()
    write(to_write, out, {"a": A, "b": RowSet([7, 2**31]), "c": B})
    return out.getvalue()


@pytest.mark.parametrize("kind", ["puffin", "delta", "paimon64"])
def test_rows_above_31_bits_name_their_vector_and_leave_no_file(kind: Target, tmp_path: Path) -> None:
    source = with_higher_rows(kind)
    offset = sniff(source).vectors[1].offset
    name = "b" if kind == "puffin" else f"at byte {offset}"
    said = "position 2147483648 does not fit a 32-bit vector (at most 2147483647): use 64 bits"
    namings: list[tuple[Any, str]] = [(None, name), (["x", "y", "z"], "y"), ({offset: "w"}, "w")]
    for data_files, named in namings:
        with pytest.raises(UsageError) as caught:
            convert(source, "paimon32", tmp_path / "out", data_files=data_files)
        assert str(caught.value) == f"vector {named}: {said}"
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(UsageError):
        convert(source, "paimon32", tmp_path / "out")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize("name", ["native blob", "roaring 64"])
def test_rows_above_31_bits_of_a_lone_vector_are_a_usage_error(name: str, tmp_path: Path) -> None:
    assert SAMPLES[name].rows == [C]
    with pytest.raises(UsageError, match=r"^vector at byte 0: position 8589934599 does not fit"):
        convert(SAMPLES[name].data, "paimon32", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_row_set_above_31_bits_names_its_data_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^vector b: position 2147483648 does not fit"):
        write("paimon32", tmp_path / "out", {"a": A, "b": RowSet([2**31])})
    nameless: dict[str | None, RowSet] = {None: RowSet([2**31])}
    with pytest.raises(UsageError, match=r"^position 2147483648 does not fit"):
        write("paimon32", tmp_path / "out", nameless)
    assert list(tmp_path.iterdir()) == []


def test_highest_row_of_31_bits_is_converted() -> None:
    rows = RowSet([0, 2**31 - 1])
    data, (location,) = run(iceberg.encode(rows), "paimon32", data_files=["a"])
    assert data == b"\1" + paimon.encode(rows)
    assert paimon.load(paimon.DeletionVectorMeta.from_location(location), data) == rows


def test_vectors_of_both_kinds_become_32_bits() -> None:
    source = b"\1" + paimon.encode(B, run_optimize=False) + paimon.encode(A, layout="bitmap64") + paimon.encode(A)
    data, written = run(source, "paimon32", data_files=["a", "b", "c"])
    assert data == b"\1" + paimon.encode(B, run_optimize=False) + paimon.encode(A) * 2
    metas = map(paimon.DeletionVectorMeta.from_location, written)
    assert paimon.read_deletion_vectors(data, metas) == {"a": B, "b": A, "c": A}


@pytest.mark.parametrize(
    "name",
    [
        "java-0.9.0/index-java09-2097152-0",
        "java-2.1-snapshot/index-java21src-32-100-1",
        "pypaimon-2.1.0/db.db/t1/index/index-4a578b78-f49c-4071-be9d-a87eb3d73a88-1",
    ],
)
def test_real_32_bit_file_is_copied_and_survives_the_way_through_64_bits(vectors: Path, name: str) -> None:
    path = vectors / "paimon" / name
    original = path.read_bytes()
    assert run(path, "paimon32")[0] == original
    between, _ = run(path, "paimon64")
    rows = list(paimon.load_frames(path).values())
    assert between == b"\1" + b"".join(paimon.encode(part, layout="bitmap64") for part in rows)
    back, _ = run(between, "paimon32")
    assert back == b"\1" + b"".join(map(paimon.encode, rows))
    assert (back == original) is name.startswith("java"), "pypaimon writes no runs"


def test_java_file_of_32_bits_becomes_that_of_64(vectors: Path) -> None:
    folder = vectors / "paimon/java-2.1-snapshot"
    short = folder / "index-java21src-32-2097152-0"
    long = (folder / "index-java21src-64-2097152-0").read_bytes()
    data, written = run(short, "paimon64")
    assert long.startswith(data)
    assert len(written) == 5
    assert run(data, "paimon32")[0] == short.read_bytes()
    with pytest.raises(UsageError, match=r"^vector at byte 8396: position"):
        run(long, "paimon32")


LOW = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.lists(st.integers(0, 300) | st.integers(0, 2**31 - 1)).map(RowSet),
    min_size=1,
    max_size=4,
)


@given(LOW, st.sampled_from(["puffin", "delta", "paimon64", "paimon32"]))
def test_rows_below_31_bits_survive_the_way_through_32_bits(sets: dict[str, RowSet], kind: Target) -> None:
    out = io.BytesIO()
    names = [location.data_file or "" for location in write(kind, out, sets)]
    between, written = run(out.getvalue(), "paimon32", data_files=names)
    assert stored(between, written) == [paimon.encode(sets[name]) for name in names]
    back, _ = run(between, kind, data_files=names, created_by="x")
    found = sniff(back)
    assert [decode_at(back, ref.offset, ref.size) for ref in found.vectors] == [sets[name] for name in names]


@given(SETS, st.sampled_from(["puffin", "delta", "paimon64"]), st.sampled_from(["puffin", "delta", "paimon64"]))
def test_rows_survive_any_two_conversions(sets: dict[str, RowSet], first: Target, second: Target) -> None:
    out = io.BytesIO()
    names = [location.data_file or "" for location in write(first, out, sets)]
    between, written = run(out.getvalue(), second, data_files=names)
    back, again = run(between, "puffin", data_files=[location.data_file or "" for location in written])
    assert read_rows(back) == sets
    assert stored(back, again) == [iceberg.encode(sets[name]) for name in names]
    assert delta.load_frames(run(back, "delta")[0]) == {
        location.offset: sets[name] for location, name in zip(run(back, "delta")[1], names, strict=True)
    }
