"""Delta's vectors: files of frames, inline text, and what a descriptor points at."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import Recorder, check_all, check_truncations, outcome
from cases import each
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    DvLocation,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    Truncated,
    UsageError,
    delta,
    iceberg,
)
from dvcodec.core.frame import StoredFrame
from dvcodec.delta import EMPTY, Descriptor, z85
from dvcodec.delta.vectors import INLINE_ADVICE, read_vector
from dvcodec.io import open_source
from dvcodec.io.frames import MAX_FILE_BYTES

KEY = 1 << 32
PORTABLE, NATIVE = b"\xd1\xd3\x39\x64", b"\xd0\xd3\x39\x64"
INLINE = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
INLINE_ROWS = RowSet([3, 4, 7, 11, 18, 29])
CDF, SMALL, LOGS = "cdf-table-with-cdc-and-dvs", "table-with-dv-small", "table_with_deletion_logs"

# Identity of each vector that the tables' logs name -> its rows; predicates and change data below confirm them.
LOGGED: dict[tuple[str, str], list[int]] = {
    (CDF, "uxXKMQm7kW?Gxtg1Fc8gx@1"): [1],
    (CDF, "umJ2cF>/b}cNH0FOIH=-S@1"): [2, 3],
    (CDF, "u)ii3umnMG[TGOi6^Mkdw@1"): [0],
    (CDF, "u<&<2bjpjObOJ4wv3^ejz@1"): [0],
    (CDF, "uF0u+Uo^@EuVa@tFk))2D@1"): [0],
    (CDF, "uF0u+Uo^@EuVa@tFk))2D@43"): [1],
    (CDF, "u>[cU:b<XlcQr-qen5gRk@1"): [5],
    (CDF, "u9o*B3A9$@MU{2@BJ{d6N@1"): [6],
    (CDF, "u<4$go)s!dkVsxG*vpLez@1"): [7],
    (CDF, "uXq<G^UbT+TGkmx<+7Y=5@1"): [0, 1, 2, 3, 4, 6],
    (SMALL, "uvBn[lx{q8@P<9BNH/isA@1"): [0, 9],
    (LOGS, "uJ.Dy=B})x<YARTP5LcO1@1"): [2],
    (LOGS, "uQ6Kt3y1b)0MgZSWwPunr@1"): [2, 79],
}
VECTOR_FILES: dict[tuple[str, str], dict[int, list[int]]] = {
    (CDF, "1ce95453-7060-40c9-b121-a5578ee90f54"): {1: [6]},
    (CDF, "46195376-e8c6-421a-9a08-657f8a811c0e"): {1: [2, 3]},
    (CDF, "68db1dd2-44b7-47ae-83e6-395d80029aae"): {1: [1]},
    (CDF, "7f94a4d4-4d29-440e-b1c0-387e410aeded"): {1: [0], 43: [1]},
    (CDF, "7fa0092e-8d05-4cac-8343-c6c5f25826f6"): {1: [0, 1, 2]},
    (CDF, "b88e5353-aeaa-40f2-836b-a7b2ca85fcb7"): {1: [0, 1, 2, 3, 4, 6]},
    (CDF, "e3507e10-ed85-4a01-b263-9ee6616389d4"): {1: [7], 43: [7]},
    (CDF, "e5cc9617-3c0a-4728-9d38-15de0bcaf7aa"): {1: [0]},
    (CDF, "e9114df7-24ec-4d58-a2ce-f1aa47c09bc5"): {1: [5], 43: [5]},
    (CDF, "ed220e55-4550-4770-acaf-9e0bd23abfa8"): {1: [0]},
    (SMALL, "61d16c75-6994-46b7-a15b-8b538852e50e"): {1: [0, 9]},
    (LOGS, "8e4ca8be-7615-43cf-bc06-5d131148683f"): {1: [2]},
    (LOGS, "a2084964-69d4-4e1e-95f5-9bbd6571d5c3"): {1: [2, 79]},
}


def actions(table: Path, *names: str) -> list[tuple[int, str, dict[str, Any]]]:
    """The log's actions of some kinds, with the version they stand in."""
    return [
        (int(log.stem), name, action[name])
        for log in sorted((table / "_delta_log").glob("*.json"))
        for action in map(json.loads, log.read_text().splitlines())
        for name in names
        if name in action
    ]


def logged(table: Path) -> list[tuple[int, Descriptor, dict[str, Any]]]:
    return [
        (version, Descriptor.from_json(action["deletionVector"]), action)
        for version, _, action in actions(table, "add", "remove")
        if action.get("deletionVector")
    ]


# ---------------------------------------------------------------------- real tables


@pytest.mark.parametrize("name", [CDF, SMALL, LOGS])
def test_every_logged_vector_loads(vectors: Path, name: str) -> None:
    table = vectors / "delta" / name
    found = logged(table)
    assert {(name, descriptor.unique_id) for _, descriptor, _ in found} == {key for key in LOGGED if key[0] == name}
    for _, descriptor, action in found:
        rows = delta.load(descriptor, str(table))
        assert list(rows) == LOGGED[name, descriptor.unique_id]
        if "stats" in action:
            assert (rows.max or 0) < json.loads(action["stats"])["numRecords"]


@each(
    ("name", "version", "predicate", "column", "matches"),
    [
        (SMALL, 1, "value IN (0, 9)", "value", lambda value: value in (0, 9)),
        (LOGS, 3, "(id#9466L = 12)", "id", lambda value: value == 12),
        (LOGS, 4, "(id#9938L = 89)", "id", lambda value: value in (12, 89)),
        (CDF, 2, "(id#1325 = 3)", "id", lambda value: value == 3),
        (CDF, 5, "(id#1936 > 3)", "id", lambda value: value > 3),
        (CDF, 10, "(id#3096 = 1)", "id", lambda value: value == 1),
        (CDF, 16, "((id#4468 > 6) AND (id#4468 < 9))", "id", lambda value: 6 < value < 9),
        (CDF, 24, "(id#7407 < 10)", "id", lambda value: value < 10),
    ],
)
def test_deleted_rows_are_those_of_the_predicate(
    vectors: Path, name: str, version: int, predicate: str, column: str, matches: Callable[[int], bool]
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    table = vectors / "delta" / name
    (info,) = [action for at, _, action in actions(table, "commitInfo") if at == version]
    assert predicate in info["operationParameters"]["predicate"]
    added = [action for at, _, action in actions(table, "add") if at == version and action.get("deletionVector")]
    assert added
    for add in added:
        values = pq.read_table(table / add["path"]).column(column).to_pylist()
        rows = delta.load(Descriptor.from_json(add["deletionVector"]), str(table))
        assert list(rows) == [row for row, value in enumerate(values) if matches(value)]


def test_deleted_rows_are_those_of_the_change_data(vectors: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    table = vectors / "delta" / CDF
    seen = 0
    for version, descriptor, action in logged(table):
        changes = [
            row
            for at, _, cdc in actions(table, "cdc")
            if at == version
            for row in pq.read_table(table / cdc["path"]).to_pylist()
        ]
        if not changes:
            continue
        gone = {(r["id"], r["comment"]) for r in changes if r["_change_type"] in ("update_preimage", "delete")}
        held = pq.read_table(table / action["path"]).to_pylist()
        rows = delta.load(descriptor, str(table))
        assert {(held[row]["id"], held[row]["comment"]) for row in rows} == gone
        seen += 1
    assert seen == 4


def vector_file(vectors: Path, table: str, name: str) -> Path:
    return vectors / "delta" / table / f"deletion_vector_{name}.bin"


@each(("table", "name"), VECTOR_FILES)
def test_vector_file_holds_its_frames(vectors: Path, table: str, name: str) -> None:
    found = delta.load_frames(vector_file(vectors, table, name))
    assert {at: list(rows) for at, rows in found.items()} == VECTOR_FILES[table, name]


@each(("table", "name"), VECTOR_FILES)
def test_spark_file_is_written_byte_for_byte(vectors: Path, table: str, name: str) -> None:
    data = vector_file(vectors, table, name).read_bytes()
    sets = {str(at): rows for at, rows in delta.load_frames(data).items()}
    out = io.BytesIO()
    locations = delta.write_deletion_vectors(out, sets)
    assert out.getvalue() == data
    assert [str(location.offset) for location in locations] == list(sets)


@each(("table", "name"), VECTOR_FILES)
def test_frame_is_an_iceberg_blob(vectors: Path, table: str, name: str) -> None:
    data = vector_file(vectors, table, name).read_bytes()
    with open_source(data) as source:
        frames = list(delta.read_frames(source))
    assert b"\1" + b"".join(bytes(cursor.view) for cursor in frames) == data
    for cursor, rows in zip(frames, VECTOR_FILES[table, name].values(), strict=True):
        assert list(iceberg.decode(cursor.view)) == rows


# ---------------------------------------------------------------------- one frame


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def native(*bitmaps: bytes, count: int | None = None, sizes: tuple[int, ...] | None = None) -> bytes:
    """Delta's native array, framed; its counts can be wrong."""
    stated = sizes or tuple(map(len, bitmaps))
    entries = b"".join(struct.pack("<i", size) + data for size, data in zip(stated, bitmaps, strict=True))
    return framed(NATIVE + struct.pack("<i", len(bitmaps) if count is None else count) + entries)


def bitmap(*values: int) -> bytes:
    if not values:
        return struct.pack("<II", 12346, 0)
    return struct.pack(f"<IIHHI{len(values)}H", 12346, 1, 0, len(values) - 1, 16, *values)


SETS = {
    "empty": RowSet(),
    "array": RowSet([1, 3, 5]),
    "run": RowSet(range(500)),
    "gap": RowSet([5, 2 * KEY + 7]),
}


@each("layout", ["portable", "native"])
@each("name", SETS)
def test_frame_passes_the_battery(layout: str, name: str) -> None:
    check_all(delta.decode, delta.encode(SETS[name], layout=layout))


@pytest.mark.parametrize("name", SETS)
def test_portable_frame_is_an_iceberg_blob_byte_for_byte(name: str) -> None:
    assert delta.encode(SETS[name]) == iceberg.encode(SETS[name])
    options = {"run_optimize": False, "gap_keys": False}
    assert delta.encode(SETS[name], **options) == iceberg.encode(SETS[name], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "frame"),
    [
        (RowSet(), native()),
        (RowSet([1, 3]), native(bitmap(1, 3))),
        (RowSet([1, KEY + 2]), native(bitmap(1), bitmap(2))),
        (RowSet([2 * KEY]), native(bitmap(), bitmap(), bitmap(0))),
    ],
)
def test_native_layout(rows: RowSet, frame: bytes) -> None:
    assert delta.encode(rows, layout="native") == frame
    assert delta.decode(frame, cardinality=len(rows)) == rows


@each(
    ("frame", "kind", "what"),
    [
        (native(count=-1), Truncated, "bitmap count"),
        (native(bitmap(1), count=0), NotCanonical, "bytes after the end"),
        (native(bitmap(1), count=2), Truncated, ""),
        (native(bitmap(1), count=2**31 - 1), Truncated, "bitmap count"),
        (native(bitmap(1), sizes=(-1,)), DecodeError, "bitmap"),
        (native(bitmap(1), sizes=(17,)), DecodeError, ""),
        (native(bitmap(1), sizes=(19,)), Truncated, "bitmap 0"),
        (native(bitmap(1), bitmap(2), sizes=(19, 18)), NotCanonical, "bytes after the end of bitmap 0"),
        (native(bitmap(3, 1)), NotCanonical, "values not strictly ascending"),
        (framed(NATIVE), Truncated, "bitmap count"),
    ],
)
def test_corrupt_native_array_is_refused(frame: bytes, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind) as caught:
        delta.decode(frame, source="x.bin")
    assert what in caught.value.what
    assert "x.bin" in str(caught.value)


def test_paimon_magic_is_refused() -> None:
    with pytest.raises(BadMagic) as caught:
        delta.decode(framed(b"\x5e\x43\xf2\xd0" + bitmap(1)), base=100)
    assert caught.value.offset == 104
    assert caught.value.expected == "d1 d3 39 64 or d0 d3 39 64"


@pytest.mark.parametrize("layout", ["", "Portable", "big-endian"])
def test_unknown_layout_is_a_usage_error(layout: str) -> None:
    for encode in (delta.encode, delta.encode_inline):
        with pytest.raises(UsageError, match="portable or native"):
            encode(RowSet([1]), layout=layout)


def test_native_vector_of_a_high_key_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="more than"):
        delta.encode(RowSet([(2**31 - 2) << 32]), layout="native")


@given(st.binary(max_size=80))
def test_any_bytes_end_in_a_value_or_a_decode_error(data: bytes) -> None:
    for frame in (data, framed(data), framed(NATIVE + data), native(data), framed(PORTABLE + data)):
        outcome(delta.decode, frame)


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 3 * KEY)


@given(st.lists(POSITIONS, max_size=60), st.sampled_from(["portable", "native"]), st.booleans())
def test_round_trip(positions: list[int], layout: str, run_optimize: bool) -> None:
    rows = RowSet(positions)
    frame = delta.encode(rows, layout=layout, run_optimize=run_optimize)
    assert delta.decode(frame, cardinality=len(rows)) == rows
    found = delta.encode_inline(rows, layout=layout, run_optimize=run_optimize)
    assert delta.load(found) == rows
    if rows:
        assert z85.decode(found.path_or_inline_dv, found.size_in_bytes) == frame[4:-4]


# ---------------------------------------------------------------------- inline


def test_an_inline_vector_is_in_no_file() -> None:
    with pytest.raises(UsageError, match=r"a\.parquet: the vector is inline, not in"):
        delta.read_deletion_vectors(b"\1" + FRAME, {"a.parquet": delta.encode_inline(ROWS)})


def test_a_vector_of_many_data_files_is_read_once() -> None:
    one = Descriptor("p", "file:///v.bin", len(FRAME) - 8, len(ROWS), offset=1)
    places = [DvLocation("delta", "v.bin", 1, len(FRAME), len(ROWS), name) for name in "abc"]
    for found in (
        delta.read_deletion_vectors(b"\1" + FRAME, dict.fromkeys("abc", one)),
        delta.read_deletion_vectors(b"\1" + FRAME, places),
    ):
        assert found == dict.fromkeys("abc", ROWS)
        assert found["a"] is found["b"] is found["c"]
    with pytest.raises(CardinalityMismatch):
        delta.read_deletion_vectors(b"\1" + FRAME, [*places, replace(places[0], cardinality=9, data_file="d")])


def test_inline_example_of_the_protocol_as_corrected() -> None:
    descriptor = Descriptor("i", INLINE, 44, 6)
    assert delta.encode_inline(INLINE_ROWS) == descriptor
    assert delta.load(descriptor) == INLINE_ROWS
    assert delta.decode_inline(INLINE, 44, cardinality=6) == INLINE_ROWS
    assert delta.decode_inline(INLINE) == INLINE_ROWS


def test_inline_example_of_the_protocol_as_printed_is_refused() -> None:
    text = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    assert z85.decode(text)[:12].hex() == "6439d3d0000000010000001c"
    with pytest.raises(BadMagic):
        delta.load(Descriptor("i", text, 40, 6))


def test_rust_padding_is_row_3() -> None:
    data = delta.encode(RowSet([3]))[4:-4]
    assert (len(data), data[-2:]) == (34, b"\3\0")
    text = z85.encode(data[:32]) + "##093"
    assert delta.load(Descriptor("i", text, 34, 1)) == RowSet([3])
    assert delta.decode_inline(text) == RowSet([3])
    assert delta.load(delta.encode_inline(RowSet([3]))) == RowSet([3])
    assert delta.encode_inline(RowSet([3])).path_or_inline_dv == z85.encode(data[:32]) + "0@@r3"


def test_java_padding_needs_the_size() -> None:
    descriptor = delta.encode_inline(RowSet([3]))
    with pytest.raises(NotCanonical, match="bytes after the end"):
        delta.decode_inline(descriptor.path_or_inline_dv)


def test_no_rows_are_the_empty_descriptor() -> None:
    assert delta.encode_inline(RowSet()) == EMPTY == Descriptor("i", "", 0, 0)
    assert delta.load(EMPTY) == RowSet()
    stored = delta.encode(RowSet())[4:-4]
    assert delta.load(Descriptor("i", z85.encode(stored), len(stored), 0)) == RowSet()


@each(
    ("text", "size", "cardinality", "kind"),
    [
        (INLINE, 44, 5, CardinalityMismatch),
        (INLINE, 43, 6, Truncated),
        (INLINE, 42, 6, NotCanonical),
        (INLINE, 48, 6, Truncated),
        (INLINE[:-5], 44, 6, Truncated),
        (INLINE[:-5], 40, 6, Truncated),
        (INLINE[:-1], 44, 6, NotCanonical),
        (INLINE[:-1] + "~", 44, 6, NotCanonical),
        (INLINE[:-5] + "#####", 44, 6, NotCanonical),
        ("", 0, 6, Truncated),
        ("", 4, 0, Truncated),
        (z85.encode(b"\x5e\x43\xf2\xd0" + bitmap(1, 3)), 24, 2, BadMagic),
    ],
)
def test_corrupt_inline_vector_is_refused(text: str, size: int, cardinality: int, kind: type[DecodeError]) -> None:
    with pytest.raises(kind) as caught:
        delta.load(Descriptor("i", text, size, cardinality))
    assert type(caught.value) is kind
    assert str(caught.value).startswith("<inline>")


def test_inline_limits_are_kept() -> None:
    with pytest.raises(LimitExceeded):
        delta.load(Descriptor("i", INLINE, 44, 6), limits=Limits(max_cardinality=5))


def test_inline_vector_has_runs_by_default() -> None:
    rows = RowSet(range(500))
    assert delta.encode_inline(rows).size_in_bytes == len(delta.encode(rows)) - 8
    plain = delta.encode_inline(rows, run_optimize=False)
    assert plain.size_in_bytes == len(delta.encode(rows, run_optimize=False)) - 8
    assert delta.load(plain) == rows


def test_inline_vectors_that_break_modified_utf8_readers_are_longer_than_advised() -> None:
    assert len(delta.encode_inline(RowSet([0])).path_or_inline_dv) < INLINE_ADVICE
    long = delta.encode_inline(RowSet([i << 16 for i in range(6000)]))
    assert len(long.path_or_inline_dv) > INLINE_ADVICE
    assert delta.load(long) == RowSet([i << 16 for i in range(6000)])


@given(st.text(max_size=30), st.integers(0, 40), st.integers(0, 3))
def test_any_inline_text_ends_in_a_value_or_a_decode_error(text: str, size: int, cardinality: int) -> None:
    outcome(lambda _: delta.load(Descriptor("i", text, size, cardinality)), b"")


# ---------------------------------------------------------------------- load

ROWS = RowSet([1, 3, 5])
FRAME = delta.encode(ROWS)
SIZE = len(FRAME) - 8
UUID_TEXT = "-aqEH.-t@S}K{vb[*k^"
NAME = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
U = "^" + UUID_TEXT


@each(
    ("data", "offset"),
    [
        (b"\1" + FRAME, 1),
        (b"\1" + FRAME, None),
        (FRAME, 0),
        (FRAME, None),
        (b"\1" + FRAME + FRAME, 1 + len(FRAME)),
        (b"PFA1 and more" + FRAME + b"tail", 13),
    ],
)
def test_frame_is_found_at_its_offset(tmp_path: Path, data: bytes, offset: int | None) -> None:
    (tmp_path / NAME).write_bytes(data)
    assert delta.load(Descriptor("u", U, SIZE, 3, offset), str(tmp_path)) == ROWS


@each(
    ("offset", "size", "cardinality", "kind"),
    [
        (0, SIZE, 3, DecodeError),
        (2, SIZE, 3, Truncated),
        (5, SIZE - 4, 3, DecodeError),
        (2**31 - 1, SIZE, 3, Truncated),
        (1, SIZE - 1, 3, Truncated),
        (1, SIZE + 1, 3, Truncated),
        (1, 0, 3, DecodeError),
        (1, 2**31 - 1, 3, Truncated),
        (1, SIZE, 2, CardinalityMismatch),
        (1, SIZE, 4, CardinalityMismatch),
        (1, SIZE, 0, CardinalityMismatch),
    ],
)
def test_descriptor_that_disagrees_with_the_file_is_refused(
    tmp_path: Path, offset: int, size: int, cardinality: int, kind: type[DecodeError]
) -> None:
    (tmp_path / NAME).write_bytes(b"\1" + FRAME)
    with pytest.raises(kind) as caught:
        delta.load(Descriptor("u", U, size, cardinality, offset), str(tmp_path))
    assert NAME in str(caught.value)


def test_size_that_reaches_into_the_next_frame_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\1" + FRAME + FRAME)
    with pytest.raises(NotCanonical) as caught:
        delta.load(Descriptor("u", U, SIZE + 1, 3, 1), str(tmp_path))
    assert (caught.value.what, caught.value.offset) == ("length field", 1)


def test_wrong_crc_names_the_byte_in_the_file_and_is_skipped_on_demand(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\1" + FRAME + FRAME[:-4] + b"\0\0\0\x0a")
    descriptor = Descriptor("u", U, SIZE, 3, 1 + len(FRAME))
    with pytest.raises(ChecksumMismatch) as caught:
        delta.load(descriptor, str(tmp_path))
    assert caught.value.offset == 1 + 2 * len(FRAME) - 4
    assert caught.value.expected == "0x0000000a (stored)"
    assert delta.load(descriptor, str(tmp_path), verify_checksum=False) == ROWS


@pytest.mark.parametrize("kind", ["u", "p", "r"])
def test_paths_with_spaces_and_percent_signs_are_opened(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "my table%20" / "a b"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(b"\1" + FRAME)
    root = str(folder.parent)
    text = {"u": "a b" + U, "p": "file://" + quote(str(folder / NAME)), "r": f"a b/{NAME}"}[kind]
    for place in (root, root + "/"):
        assert delta.load(Descriptor(kind, text, SIZE, 3, 1), place) == ROWS


def test_table_may_be_a_file_url(tmp_path: Path) -> None:
    folder = tmp_path / "my table"
    folder.mkdir()
    (folder / NAME).write_bytes(b"\1" + FRAME)
    assert delta.load(Descriptor("u", U, SIZE, 3, 1), "file://" + quote(str(folder))) == ROWS


def test_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        delta.load(Descriptor("u", U, SIZE, 3, 1), str(tmp_path))


def test_empty_file_is_truncated(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    for offset in (None, 0, 1):
        with pytest.raises(Truncated):
            delta.load(Descriptor("u", U, SIZE, 3, offset), str(tmp_path))


def test_one_frame_costs_one_read_of_its_bytes() -> None:
    source = Recorder(b"\1" + bytes(1_000_000) + FRAME + bytes(1_000_000))
    assert read_vector(source, Descriptor("u", U, SIZE, 3, 1_000_001)).load() == ROWS
    assert source.reads == [(1_000_001, len(FRAME))]


def test_frame_over_the_limit_is_not_read() -> None:
    source = Recorder(b"\1" + bytes(1_000_000))
    with pytest.raises(LimitExceeded) as caught:
        read_vector(source, Descriptor("u", U, 500_000, 3, 1), limits=Limits(max_vector_bytes=1000))
    assert caught.value.offset == 1
    assert source.reads == []


# ---------------------------------------------------------------------- files of frames


def test_many_frames_are_read_in_few_pieces() -> None:
    sets = [RowSet(range(i, 70 * i + 1, 3)) for i in range(1500)]
    data = b"\1" + b"".join(map(delta.encode, sets))
    assert len(data) > 4 << 20
    source = Recorder(data)
    found = delta.load_frames(source)
    assert list(found.values()) == sets
    offset = 1
    for at, rows in zip(found, sets, strict=True):
        assert at == offset
        offset += len(delta.encode(rows))
    assert len(source.reads) < 20
    assert sum(size for _, size in source.reads) < 1.1 * len(data)


def test_frame_larger_than_a_piece_is_read_whole() -> None:
    large = RowSet(range(0, 1 << 24, 3))
    sets = [RowSet([1]), large, RowSet([2])]
    data = b"\1" + b"".join(map(delta.encode, sets))
    assert len(delta.encode(large)) > 1 << 20
    assert list(delta.load_frames(Recorder(data)).values()) == sets


def test_file_of_a_version_byte_alone_has_no_vectors() -> None:
    assert delta.load_frames(b"\1") == {}


@pytest.mark.parametrize("version", [0, 2, 0xD1, 255])
def test_other_version_is_refused(version: int) -> None:
    with pytest.raises(BadMagic) as caught:
        delta.load_frames(bytes([version]) + FRAME)
    assert (caught.value.what, caught.value.offset, caught.value.actual) == ("version byte", 0, version)


def test_file_cut_inside_a_frame_is_refused() -> None:
    data = b"\1" + FRAME + delta.encode(RowSet([9]), layout="native")
    borders = {1: 0, 1 + len(FRAME): 1}
    check_truncations(
        delta.load_frames, data, allowed=lambda found, size: size in borders and len(found) == borders[size]
    )


def test_cut_names_the_frame_it_falls_in() -> None:
    data = b"\1" + FRAME + FRAME[:-1]
    with pytest.raises(Truncated) as caught:
        delta.load_frames(data)
    assert (caught.value.what, caught.value.offset) == ("length field", 1 + len(FRAME))
    assert caught.value.actual == len(FRAME) - 8
    assert caught.value.expected == f"at most {len(FRAME) - 9} (bytes left for magic and bitmap)"


@each("tail", [b"\0", b"\0\0\0", b"\0\0\0\0", bytes(8), b"\xff" * 8, b"PFA1"])
def test_bytes_after_the_last_frame_are_refused(tail: bytes) -> None:
    with pytest.raises(DecodeError):
        delta.load_frames(b"\1" + FRAME + tail)


@pytest.mark.parametrize("length", [0, 3, 4, 7])
def test_length_too_small_for_any_vector_is_refused(length: int) -> None:
    data = b"\1" + FRAME + length.to_bytes(4, "big") + bytes(length + 4)
    with pytest.raises(NotCanonical) as caught:
        delta.load_frames(data)
    assert (caught.value.what, caught.value.offset, caught.value.actual) == ("length field", 1 + len(FRAME), length)


def test_frames_are_limited() -> None:
    data = b"\1" + FRAME * 3
    assert len(delta.load_frames(data, limits=Limits(max_records=3))) == 3
    for limits in (Limits(max_records=2), Limits(max_vector_bytes=len(FRAME) - 1), Limits(max_cardinality=2)):
        with pytest.raises(LimitExceeded):
            delta.load_frames(data, limits=limits)


def test_native_and_portable_frames_stand_in_one_file() -> None:
    second = delta.encode(RowSet([9]), layout="native")
    found = delta.load_frames(b"\1" + FRAME + second + FRAME)
    assert found == {1: ROWS, 1 + len(FRAME): RowSet([9]), 1 + len(FRAME) + len(second): ROWS}


def test_wrong_crc_in_a_file_is_read_on_demand() -> None:
    data = b"\1" + FRAME[:-1] + bytes([FRAME[-1] ^ 1])
    with pytest.raises(ChecksumMismatch):
        delta.load_frames(data)
    assert delta.load_frames(data, verify_checksum=False) == {1: ROWS}


@given(st.binary(max_size=60))
def test_any_file_ends_in_a_value_or_a_decode_error(data: bytes) -> None:
    outcome(delta.load_frames, data)
    outcome(delta.load_frames, b"\1" + data)
    outcome(delta.load_frames, b"\1" + FRAME + data)


# ---------------------------------------------------------------------- writing


def test_written_vectors_are_loaded_through_their_descriptors(tmp_path: Path) -> None:
    sets = {"b.parquet": RowSet([1, 2]), "a.parquet": RowSet(range(5000)), "c.parquet": RowSet([KEY])}
    path = delta.new_file(str(tmp_path), prefix="ab")
    Path(path).parent.mkdir()
    written = delta.write_deletion_vectors(path, sets)
    assert [location.data_file for location in written] == list(sets)
    size = Path(path).stat().st_size
    for location, rows in zip(written, sets.values(), strict=True):
        assert location == DvLocation(
            "delta", path, location.offset, len(delta.encode(rows)), len(rows), location.data_file, size
        )
        for root in (str(tmp_path), None):
            descriptor = Descriptor.from_location(location, root)
            assert descriptor.storage_type == ("u" if root else "p")
            assert delta.load(descriptor, root) == rows


def test_no_vectors_make_no_file(tmp_path: Path) -> None:
    assert delta.write_deletion_vectors(tmp_path / "x.bin", {}) == []
    assert delta.write_stored_vectors(tmp_path / "x.bin", []) == []
    assert list(tmp_path.iterdir()) == []


def test_rows_that_do_not_fit_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    with pytest.raises(UsageError):
        delta.write_deletion_vectors(path, {"a": RowSet([1]), "b": RowSet([2**63])})
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


def test_file_over_31_bits_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_FILE_BYTES == 2147483647
    monkeypatch.setattr("dvcodec.io.frames.MAX_FILE_BYTES", 1 + 2 * len(FRAME))
    assert len(delta.write_deletion_vectors(tmp_path / "fits.bin", {"a": ROWS, "b": ROWS})) == 2
    with pytest.raises(UsageError, match="write several files"):
        delta.write_deletion_vectors(tmp_path / "x.bin", {"a": ROWS, "b": ROWS, "c": ROWS})
    assert [file.name for file in tmp_path.iterdir()] == ["fits.bin"]


@pytest.mark.parametrize("options", [{"run_optimize": False}, {"gap_keys": False}])
def test_encoding_options_reach_the_frames(options: dict[str, Any]) -> None:
    rows = RowSet(range(KEY, KEY + 100))
    out = io.BytesIO()
    delta.write_deletion_vectors(out, {"a": rows}, **options)
    assert out.getvalue()[1:] == delta.encode(rows, **options) != delta.encode(rows)


def test_stored_vectors_are_written_as_they_are() -> None:
    out = io.BytesIO()
    written = delta.write_stored_vectors(out, [StoredFrame("a", 7, b"not looked at"), StoredFrame(None, 8, b"x")])
    assert out.getvalue() == b"\1not looked atx"
    assert [(at.offset, at.size, at.cardinality, at.data_file, at.file_size) for at in written] == [
        (1, 13, 7, "a", 15),
        (14, 1, 8, None, 15),
    ]
