"""Delta's vectors: files of frames, inline text, and what a descriptor points at."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    DecodeError,
    DvLocation,
    NotCanonical,
    RowSet,
    Truncated,
    delta,
    paimon,
)
from dvcodec.delta import Descriptor

KEY = 1 << 32
INLINE = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
INLINE_ROWS = RowSet([3, 4, 7, 11, 18, 29])
CDF, SMALL, LOGS = "cdf-table-with-cdc-and-dvs", "table-with-dv-small", "table_with_deletion_logs"

# Identity of each vector that the tables' logs name -> its rows.
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


# ---------------------------------------------------------------------- real tables


@pytest.mark.parametrize("name", [CDF, SMALL, LOGS])
def test_every_logged_vector_loads(vectors: Path, name: str) -> None:
    """And its descriptor is written as it stands in the log."""
    table, seen = vectors / "delta" / name, set()
    lines = [line for log in (table / "_delta_log").glob("*.json") for line in log.read_text().splitlines()]
    for line in lines:
        action = next(iter(json.loads(line).values()))
        if members := action.get("deletionVector"):
            descriptor = Descriptor.from_json(members)
            assert f'"deletionVector":{descriptor.to_json()}' in line
            assert Descriptor.from_json(descriptor.to_json()) == descriptor
            seen.add((name, descriptor.unique_id))
            rows = delta.load(descriptor, str(table))
            assert list(rows) == LOGGED[name, descriptor.unique_id]
            if "stats" in action:
                assert (rows.max or 0) < json.loads(action["stats"])["numRecords"]
    assert seen == {key for key in LOGGED if key[0] == name}


def test_files_of_spark_are_written_byte_for_byte(vectors: Path) -> None:
    paths = list(vectors.glob("delta/*/deletion_vector_*.bin"))
    assert len(paths) >= 13
    for path in paths:
        sets = {str(at): rows for at, rows in delta.load_frames(path).items()}
        out = io.BytesIO()
        locations = delta.write_deletion_vectors(out, sets)
        assert out.getvalue() == path.read_bytes()
        assert [str(location.offset) for location in locations] == list(sets)


# ---------------------------------------------------------------------- one frame


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 3 * KEY)


@given(st.lists(POSITIONS, max_size=60), st.sampled_from(["portable", "native"]), st.booleans())
def test_round_trip(positions: list[int], layout: str, run_optimize: bool) -> None:
    rows = RowSet(positions)
    frame = delta.encode(rows, layout=layout, run_optimize=run_optimize)
    assert delta.decode(frame, cardinality=len(rows)) == rows
    found = delta.encode_inline(rows, layout=layout, run_optimize=run_optimize)
    assert delta.load(found) == rows
    if rows:
        assert delta.decode_z85(found.path_or_inline_dv, found.size_in_bytes) == frame[4:-4]


# ---------------------------------------------------------------------- inline


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


def test_rust_padding_is_row_3() -> None:
    data = delta.encode(RowSet([3]))[4:-4]
    assert (len(data), data[-2:]) == (34, b"\3\0")
    text = delta.encode_z85(data[:32]) + "##093"
    assert delta.load(Descriptor("i", text, 34, 1)) == RowSet([3])
    assert delta.decode_inline(text) == RowSet([3])
    assert delta.load(delta.encode_inline(RowSet([3]))) == RowSet([3])
    assert delta.encode_inline(RowSet([3])).path_or_inline_dv == delta.encode_z85(data[:32]) + "0@@r3"


@each(
    ("text", "size", "cardinality", "kind"),
    [
        (INLINE, 44, 5, CardinalityMismatch),
        (INLINE, 43, 6, Truncated),
        (INLINE, 42, 6, NotCanonical),
        (INLINE, 48, 6, Truncated),
        (INLINE[:-5], 40, 6, Truncated),
        (INLINE[:-1], 44, 6, NotCanonical),
        (INLINE[:-5] + "#####", 44, 6, NotCanonical),
        ("", 0, 6, Truncated),
        ("", 4, 0, Truncated),
        (delta.encode_z85(paimon.encode(RowSet([1, 3]))[4:-4]), 24, 2, BadMagic),
    ],
)
def test_corrupt_inline_vector_is_refused(text: str, size: int, cardinality: int, kind: type[DecodeError]) -> None:
    with pytest.raises(kind) as caught:
        delta.load(Descriptor("i", text, size, cardinality))
    assert type(caught.value) is kind
    assert str(caught.value).startswith("<inline>")


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


@pytest.mark.parametrize("kind", ["u", "p", "r"])
def test_paths_with_spaces_and_percent_signs_are_opened(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "my table%20" / "a b"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(b"\1" + FRAME)
    root = str(folder.parent)
    text = {"u": "a b" + U, "p": "file://" + quote(str(folder / NAME)), "r": f"a b/{NAME}"}[kind]
    for place in (root, root + "/"):
        assert delta.load(Descriptor(kind, text, SIZE, 3, 1), place) == ROWS
