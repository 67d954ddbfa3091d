"""Footers of blobs that are all described alike: read as columns, and never otherwise than by the JSON parser."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cases import each
from dvcodec import DecodeError, LimitExceeded, Limits
from dvcodec import puffin as payloads
from dvcodec.core.limits import DEFAULT_LIMITS
from dvcodec.puffin import BlobMetadata, Footer, UniformBlobs, encode_footer
from samples.puffin import decode as decode_file
from samples.puffin import puffin


def decode(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> Footer:
    return decode_file(puffin(payload), limits)


def outcome(payload: bytes) -> Footer | str:
    try:
        return decode(payload)
    except DecodeError as err:
        return f"{type(err).__name__}: {err}"


def same(payload: bytes) -> Footer | str:
    """Return what becomes of a payload; the JSON parser makes the same of it."""
    found = outcome(payload)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payloads, "_LONG", 1 << 40)
        assert found == outcome(payload)
    return found


def blob(i: int, **changes: Any) -> BlobMetadata:
    path = f"s3://b/t/data/{i:05d}.parquet"
    properties = {"referenced-data-file": path, "cardinality": str(i * i)}
    return replace(
        BlobMetadata("deletion-vector-v1", (2147483645,), -1, -1, 4 + 17 * i, 9 + i, None, properties), **changes
    )


def payload_of(blobs: list[BlobMetadata], **more: Any) -> bytes:
    return encode_footer(Footer(tuple(blobs), {"created-by": "x"}, **more))[4:-12]


@pytest.fixture(autouse=True)
def _short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "_LONG", 1)


def test_columns_equal_a_tuple() -> None:
    blobs = [blob(i) for i in range(40)]
    footer = decode(payload_of(blobs))
    found = footer.blobs
    assert isinstance(found, UniformBlobs)
    assert found == tuple(blobs)
    assert tuple(blobs) == tuple(found)
    assert (len(found), found[3], found[-1], found[5:7]) == (40, blobs[3], blobs[-1], tuple(blobs[5:7]))
    assert found[3] is found[3]
    assert (hash(found), repr(found)) == (hash(tuple(blobs)), repr(tuple(blobs)))
    assert found != tuple(blobs[:-1])
    assert found != blobs
    assert found.offsets.tolist() == [one.offset for one in blobs]
    assert found.lengths.tolist() == [one.length for one in blobs]
    assert found.texts("referenced-data-file") == [one.properties["referenced-data-file"] for one in blobs]
    assert (found.texts("other"), found.numbers("other"), found.numbers("referenced-data-file")) == (None, None, None)
    numbers = found.numbers("cardinality")
    assert numbers is not None
    assert numbers.tolist() == [i * i for i in range(40)]
    assert (footer.properties, footer.unknown) == ({"created-by": "x"}, {})


SKETCH = BlobMetadata(
    "apache-datasketches-theta-v1", (1, 2), 7, 3, 4, 9, "zstd", {"ndv": "5"}, {"odd": [{"type": "x"}]}
)
SIXTEEN = blob(0, properties={f"name-{i}": str(i) for i in range(16)})


@each(
    ("blobs", "unknown"),
    [
        ([blob(0)], {}),
        ([blob(i, type="u", fields=(), snapshot_id=7) for i in range(5)], {"more": [{"a": 1}]}),
        ([blob(i, properties={"a": "b"}) for i in range(5)], {}),
        ([blob(i, properties={"é": "ü" * i, "": "", "x": "]},{"}) for i in range(5)], {}),
        ([SIXTEEN, SIXTEEN], {}),
    ],
)
def test_blobs_alike_are_columns(blobs: list[BlobMetadata], unknown: dict[str, Any]) -> None:
    payload = payload_of(blobs, unknown=unknown)
    assert isinstance(decode(payload).blobs, UniformBlobs)
    same(payload)


@each("at", [(0,), (9,), (99,), (100,), (0, 0), (0, 0, 3, 3, 100, 100), (5,) * 64])
def test_few_others_among_blobs_alike(at: tuple[int, ...]) -> None:
    blobs = [blob(i) for i in range(100)]
    for i in reversed(at):
        blobs.insert(i, SKETCH)
    payload = payload_of(blobs, unknown={"more": 1})
    found = decode(payload).blobs
    assert isinstance(found, UniformBlobs)
    assert [i for i, one in enumerate(found) if one.type == SKETCH.type] == list(found.others)
    assert (len(found), len(found.offsets), found[-1]) == (len(blobs), 100, blobs[-1])
    same(payload)


LIKE_A_BLOB = {"type": "x", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": 9}


@each(
    ("blobs", "unknown"),
    [
        ([blob(i) for i in range(5)], {"more": [7, LIKE_A_BLOB]}),
        *(
            (blobs, {})
            for blobs in (
                [],
                [*(blob(i) for i in range(100)), *[SKETCH] * 65],
                [SKETCH] * 3,
                [blob(0), replace(SKETCH, properties={"a": "}"}), blob(1)],
                [blob(0), replace(SKETCH, properties={"a": 'a "name"'}), blob(1)],
                [blob(0), blob(1), blob(2, compression_codec="zstd")],
                [blob(0), blob(1, unknown={"odd": 1})],
                [blob(i, unknown={"odd": 1}) for i in range(3)],
                [blob(i, properties={}) for i in range(3)],
                [blob(0), blob(1, properties={"cardinality": "1", "referenced-data-file": "x"})],
                [blob(0), blob(1, properties={"a": 'say "hello"'})],
                [blob(0), blob(1, properties={})],
                [blob(0, properties={"a" * 200: "b"}), blob(1, properties={"c": "b"})],
                [blob(0), blob(1, offset=-4)],
                [blob(0), blob(1, length=2**63 - 1)],
                [blob(0, properties={"a": "}}"}), blob(1, properties={"a": "}}"})],
                [replace(SIXTEEN, properties={**SIXTEEN.properties, "one-more": ""})] * 2,
            )
        ),
    ],
)
def test_blobs_that_differ_are_left_to_the_parser(blobs: list[BlobMetadata], unknown: dict[str, Any]) -> None:
    payload = payload_of(blobs, unknown=unknown)
    assert isinstance(decode(payload).blobs, tuple)
    same(payload)


@pytest.mark.parametrize("others", [(), (SKETCH,)], ids=["alike", "and another"])
def test_damage_gives_the_same_errors(others: tuple[BlobMetadata, ...]) -> None:
    alike = [blob(i, properties={"a": f"ä{i}", "cardinality": str(i)}) for i in range(6)]
    valid = payload_of([*alike[:4], *others, *alike[4:]])
    chance = random.Random(3)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(valid)
        for _ in range(chance.choice([1, 1, 1, 2])):
            at = chance.randrange(len(damaged))
            what = chance.choice(
                [b'"', b"\\", b",", b"}", b"]", b"{", b"0", b" ", b"", b"}]", b'"}},{', b"\xff", b"\n"]
            )
            damaged[at : at + chance.choice([0, 1, 1, 5])] = what
        refused += isinstance(same(bytes(damaged)), str)
    assert 500 < refused < 2000


FIVE = payload_of([blob(i) for i in range(5)])


@each(
    ("change", "what"),
    [
        (lambda payload: payload[:-1] + b',"blobs":[]}', "'blobs' twice"),
        (lambda payload: payload[:-1] + b',"properties":{}}', "'properties' twice"),
        (lambda payload: payload.replace(b'"offset":21', b'"offset":2:'), "footer payload"),
    ],
)
def test_wrong_members(change: Callable[[bytes], bytes], what: str) -> None:
    assert what in str(same(change(FIVE)))


def test_every_joint_of_blobs_is_looked_at() -> None:
    other = blob(9, type="x")
    payload = payload_of([other, other, *(blob(i) for i in range(5)), other])
    joints = [at for at in range(len(payload)) if payload.startswith(b'}},{"type"', at)]
    assert len(joints) == 7
    for at in joints:
        assert isinstance(same(payload[: at + 2] + b";" + payload[at + 3 :]), str)


def test_limits_hold() -> None:
    assert len(decode(FIVE, Limits(max_records=5)).blobs) == 5
    with pytest.raises(LimitExceeded, match="max_records"):
        decode(FIVE, Limits(max_records=4))
