"""What root.bolt says: keys, times, and everything that can be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables.scorch import table as module
from dvcodec.tables.scorch.bolt import read_bolt
from dvcodec.tables.scorch.table import Root, encode_key, read_root
from samples.bolt import Bolt, Inline

META = {b"type": b"zap", b"version": b"\0\0\0\x10\0", b"timeStamp": b"2026-01-02T03:04:05.678901234Z"}


def read(tmp_path: Path, tree: dict[bytes, Any], **options: int) -> Root:
    path = tmp_path / "root.bolt"
    path.write_bytes(Bolt(tree).data(**options))
    return read_root(str(path), Storage())


def snapshot(meta: dict[bytes, bytes] | None = None, **segment: bytes) -> dict[bytes, Any]:
    entries = {name.encode(): value for name, value in segment.items()}
    return {
        b"m": Inline(META | (meta or {})),
        b"i": Inline({b"_mapping": b"{}"}),
        b"\x8a": Inline({b"p": b"000000000002.zap"} | entries),
    }


# ---------------------------------------------------------------------- keys


@each(
    ("value", "key"),
    [
        (0, "88"),
        (109, "f5"),
        (110, "f66e"),
        (256, "f70100"),
        (2**64 - 1, "fdffffffffffffffff"),
    ],
)
def test_keys(value: int, key: str, tmp_path: Path) -> None:
    assert encode_key(value).hex() == key
    found = read(tmp_path, {b"s": {bytes.fromhex(key): snapshot()}})
    assert [epoch.id for epoch in found.epochs] == [value]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_keys_sort_as_numbers(a: int, b: int) -> None:
    assert (a < b) == (encode_key(a) < encode_key(b))


@each("key", ["01", "87", "8800", "f6", "f66d", "f60001", "f700ff", "fd00", "fe", "ff01"])
def test_keys_that_are_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(NotCanonical, match="epoch of a snapshot: expected an ordered integer, found"):
        read(tmp_path, {b"s": {bytes.fromhex(key): snapshot()}})
    with pytest.raises(NotCanonical, match="number of a segment: expected an ordered integer, found"):
        read(tmp_path, {b"s": {b"\x88": snapshot() | {bytes.fromhex(key): Inline({b"p": b"a"})}}})


# ---------------------------------------------------------------------- snapshots


def test_a_snapshot(tmp_path: Path) -> None:
    found = read(tmp_path, {b"s": {b"\x89": snapshot(d=b"any"), b"t": Inline({b"c": b"x"})}})
    (epoch,) = found.epochs
    assert (found.transaction, epoch.id, epoch.version, epoch.writer_id) == (7, 1, 16, b"")
    assert epoch.timestamp_ms == 1767323045678
    (segment,) = epoch.segments
    assert (segment.id, segment.file_name, segment.dropped_fields) == (2, "000000000002.zap", frozenset())
    assert segment.deleted is not None
    data = (tmp_path / "root.bolt").read_bytes()
    assert data[segment.deleted.offset :][:3] == bytes(segment.deleted.data) == b"any"


@each(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2026-01-02T03:04:05.6Z", 1767323045600),
        ("2026-01-02T03:04:05.678901234+02:30", 1767323045678 - 9_000_000),
        ("2026-01-02T03:04:05-07:00", 1767323045000 + 25_200_000),
    ],
)
def test_times(text: str, milliseconds: int, tmp_path: Path) -> None:
    found = read(tmp_path, {b"s": {b"\x88": snapshot({b"timeStamp": text.encode()})}})
    assert found.epochs[0].timestamp_ms == milliseconds


@each("text", [b"2026-01-02", b"2026-13-02T03:04:05Z", b"2026-01-02T03:04:05", b"\xff"])
def test_times_that_are_refused(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(NotCanonical, match="time of a snapshot"):
        read(tmp_path, {b"s": {b"\x88": snapshot({b"timeStamp": text})}})


@each(
    ("tree", "error", "text"),
    [
        ({b"s": b"x"}, NotCanonical, "snapshots: expected a bucket, found a value"),
        ({b"s": {b"\x88": {}}}, NotCanonical, "meta data of snapshot 0: expected key b'm', found none"),
        ({b"s": {b"\x88": {b"m": Inline()}}}, NotCanonical, "type of the segments: expected key b'type'"),
        ({b"s": {b"\x88": snapshot({b"type": b"ice"})}}, Unsupported, "type of the segments: expected zap"),
        ({b"s": {b"\x88": snapshot({b"version": b"\0\0\0"})}}, Unsupported, "version of the segments"),
        ({b"s": {b"\x88": snapshot({b"version": b"\0\0\0\x12\0"})}}, Unsupported, "version of the segments"),
        (
            {b"s": {b"\x88": snapshot() | {b"\x8b": Inline()}}},
            NotCanonical,
            "file name of segment 3: expected key b'p'",
        ),
        ({b"s": {b"\x88": snapshot() | {b"\x8b": {b"p": b"a", b"d": {}}}}}, NotCanonical, "deleted documents"),
        ({b"s": {b"\x88": snapshot(p=b"../a.zap")}}, NotCanonical, "file name of a segment: expected a bare name"),
        ({b"s": {b"\x88": snapshot(p=b"a\\b")}}, NotCanonical, "file name of a segment: expected a bare name"),
        ({b"s": {b"\x88": snapshot(p=b"")}}, NotCanonical, "file name of a segment: expected a bare name"),
        ({b"s": {b"\x88": snapshot(p=b"\xff")}}, NotCanonical, "file name of a segment: expected UTF-8"),
    ],
)
def test_what_is_refused(tree: dict[bytes, Any], error: type[DecodeError], text: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=text) as found:
        read(tmp_path, tree)
    assert found.value.source == str(tmp_path / "root.bolt")


@each(
    ("fields", "dropped"),
    [
        ({}, set()),
        (None, set()),
        ({"a": {"Deleted": True}, "b": {"Store": True}, "c": {"Index": True, "DocValues": True}}, {"a", "b"}),
        ({"a": {"Deleted": False, "Store": False}, "b": {"Deleted": "yes"}}, set()),
    ],
)
def test_dropped_fields(fields: Any, dropped: set[str], tmp_path: Path) -> None:
    found = read(tmp_path, {b"s": {b"\x88": snapshot(fields=json.dumps(fields).encode())}})
    assert found.epochs[0].segments[0].dropped_fields == dropped


@each("fields", [b"", b"{", b"[]", b"1", b'{"a": 1}', b"\xff", b"[" * 60_000])
def test_dropped_fields_that_are_refused(fields: bytes, tmp_path: Path) -> None:
    with pytest.raises(NotCanonical, match="dropped fields"):
        read(tmp_path, {b"s": {b"\x88": snapshot(fields=fields)}})


# ---------------------------------------------------------------------- a writer at work


def test_a_transaction_while_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "root.bolt"
    read(tmp_path, {b"s": {b"\x88": snapshot()}})
    later = [
        Bolt({b"s": {b"\x89": snapshot()}}).data(transaction=8),
        Bolt({b"s": {b"\x8a": snapshot()}}).data(transaction=9),
    ]

    def disturbed(source: Any, **_: Any) -> Any:
        found = read_bolt(source)
        if later:
            path.write_bytes(later.pop(0))
        return found

    monkeypatch.setattr(module, "read_bolt", disturbed)
    found = read_root(str(path), Storage())
    assert (found.transaction, [epoch.id for epoch in found.epochs]) == (9, [2])


def test_pages_that_a_transaction_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "root.bolt"
    read(tmp_path, {b"s": {b"\x88": snapshot()}})
    tries = []

    def torn(source: Any, **_: Any) -> Any:
        tries.append(source)
        if len(tries) == 1:
            path.write_bytes(Bolt({b"s": {b"\x89": snapshot()}}).data(transaction=8))
            raise NotCanonical("page", source=source.name)
        return read_bolt(source)

    monkeypatch.setattr(module, "read_bolt", torn)
    assert [epoch.id for epoch in read_root(str(path), Storage()).epochs] == [1]
    tries.clear()
    path.write_bytes(Bolt({}).data(transaction=8))
    with pytest.raises(NotCanonical, match="page"):
        read_root(str(path), Storage())
    assert len(tries) == 1


def test_a_writer_that_does_not_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "root.bolt"
    read(tmp_path, {})
    count = [7]

    def disturbed(source: Any, **_: Any) -> Any:
        found = read_bolt(source)
        count[0] += 1
        path.write_bytes(Bolt({}).data(transaction=count[0]))
        return found

    monkeypatch.setattr(module, "read_bolt", disturbed)
    with pytest.raises(NotCanonical, match="transactions: expected none while the file is read"):
        read_root(str(path), Storage())
