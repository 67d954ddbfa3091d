"""Every dictionary that zapx wrote: to the keys that Go's reader sees, and back to the same bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases import each
from dvcodec.core.cursor import Cursor
from dvcodec.zap.vellum import Fst, build

OWN = Path(__file__).parents[2] / "vectors" / "zap"
NOT = 2**64 - 1
Found = tuple[str, int, memoryview]


def varint(data: bytes, at: int) -> tuple[int, int]:
    cursor = Cursor(data)
    cursor.seek(at, "varint")
    return cursor.uvarint("varint"), cursor.pos


def sized(data: bytes, at: int) -> memoryview:
    size, at = varint(data, at)
    return memoryview(data)[at : at + size]


def dictionaries(data: bytes) -> Iterator[Found]:
    """Field, kind of section and vellum of each dictionary: sections 1 and 2 of the notes on the format."""
    version = struct.unpack(">I", data[-8:-4])[0]
    if version < 16:
        _, _, index = struct.unpack(">QQQ", data[-44:-20])
        for (record,) in struct.iter_unpack(">Q", data[index:-44]):
            place, at = varint(data, record)
            if place:
                yield bytes(sized(data, at)).decode(), 0, sized(data, place)
        return
    (index,) = struct.unpack(">Q", data[-20:-12] if version == 17 else data[-28:-20])
    fields, at = varint(data, index)
    for i in range(fields):
        (record,) = struct.unpack_from(">Q", data, at + 8 * i)
        name = sized(data, record)
        here = record + len(name) + (varint(data, record)[1] - record)
        if version == 17:
            _, here = varint(data, here)
        sections, here = varint(data, here)
        for kind, place in struct.iter_unpack(">HQ", data[here : here + 10 * sections]):
            if kind in (0, 2) and place:
                _, second = varint(data, place)
                _, third = varint(data, second)
                yield bytes(name).decode(), kind, sized(data, varint(data, third)[0])


def check(data: bytes) -> dict[tuple[str, int], list[bytes]]:
    """Read every dictionary in every way and write it anew."""
    found = {}
    for field, kind, vellum in dictionaries(data):
        fst = Fst.open(Cursor(vellum))
        block = fst.to_block()
        keys = block.keys.to_list()
        assert list(fst.range()) == list(zip(keys, block.values.tolist(), strict=True))
        assert [fst.get(key) for key in keys] == block.values.tolist()
        assert build(block.keys, block.values) == vellum
        found[field, kind] = keys
    return found


VERSIONS = range(11, 18)


@each("version", VERSIONS)
def test_shared_segments(version: int, vectors: Path) -> None:
    paths = sorted((vectors / "zap" / f"v{version}").glob("*.zap"))
    assert paths
    for path in paths:
        dump: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
        found = check(path.read_bytes())
        wanted = {(name, 0): [term.encode() for term, *_ in terms or []] for name, terms in dump["dicts"].items()}
        wanted |= {(name, 2): sorted(map(str.encode, terms)) for name, terms in (dump.get("thesauri") or {}).items()}
        assert {name: keys for name, keys in found.items() if keys} == {k: v for k, v in wanted.items() if v}


@each("folder", sorted(OWN.glob("zapx-*")), ids=lambda folder: folder.name)
def test_committed_segments(folder: Path) -> None:
    paths = sorted(folder.glob("*.zap"))
    assert paths
    for path in paths:
        found = check(path.read_bytes())
        assert found.get(("_id", 0)) or path.stem == "none", path
