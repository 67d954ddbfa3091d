"""Lance's messages by the protobuf runtime, and a naive model of segments: lists of Python integers.

Nothing here uses dvcodec's own writer: `message_of` builds the bytes, `expand` and `write` say what they stand for.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import strategies as st

from dvcodec import lance
from samples.zap.segments import uv

TOP = 2**64 - 1
WIDTHS = (2, 4, 8)
BORDERS = (0, 1, 127, 128, 2**16 - 3, 2**32 - 3, 2**40, 2**63 - 5, 2**64 - 400)

# ---------------------------------------------------------------------- messages

_TYPES = {"u64": 4, "u32": 13, "i32": 5, "i64": 3, "str": 9, "bytes": 12, "bool": 8}
_FILE = {
    "Range": "start=1:u64 end=2:u64",
    "RangeWithHoles": "start=1:u64 end=2:u64 holes=3:EncodedU64Array",
    "RangeWithBitmap": "start=1:u64 end=2:u64 bitmap=3:bytes",
    "U16Array": "base=1:u64 offsets=2:bytes",
    "U32Array": "base=1:u64 offsets=2:bytes",
    "U64Array": "values=2:bytes",
    "EncodedU64Array": "*u16=1:U16Array *u32=2:U32Array *u64=3:U64Array",
    "U64Segment": "*range=1:Range *holes=2:RangeWithHoles *bitmap=3:RangeWithBitmap"
    " *sorted=4:EncodedU64Array *array=5:EncodedU64Array",
    "RowIdSequence": "+segments=1:U64Segment",
    "VersionRun": "span=1:U64Segment version=2:u64",
    "VersionSequence": "+runs=1:VersionRun",
    "External": "path=1:str offset=2:u64 size=3:u64",
    "Marker": "",
    "DataFile": "path=1:str +fields=2:i32 +column_indices=3:i32 major=4:u32 minor=5:u32 size=6:u64 ?base_id=7:u32",
    "Overlay": "data_file=1:DataFile shared_offset_bitmap=2:bytes committed_version=3:u64",
    "DeletionFile": "file_type=1:u32 read_version=2:u64 id=3:u64 num_deleted_rows=4:u64 ?base_id=7:u32",
    "DataFragment": "id=1:u64 +files=2:DataFile deletion_file=3:DeletionFile physical_rows=4:u64"
    " *row_ids=5:bytes *external_row_ids=6:External"
    " *updated=7:bytes *external_updated=8:External *created=9:bytes *external_created=10:External"
    " +overlays=11:Overlay row_ids_column=12:Marker updated_column=13:Marker created_column=14:Marker",
    "WriterVersion": "library=1:str version=2:str",
    "Timestamp": "seconds=1:i64 nanos=2:i32",
    "BasePath": "id=1:u32 is_dataset_root=3:bool path=4:str",
    "Manifest": "+fragments=2:DataFragment version=3:u64 timestamp=7:Timestamp reader_flags=9:u64 writer_flags=10:u64"
    " max_fragment_id=11:u32 transaction_file=12:str writer=13:WriterVersion next_row_id=14:u64"
    " +base_paths=18:BasePath ?transaction=21:u64 ?transaction_v14=23:u64",
    "Transaction": "read_version=1:u64 uuid=2:str *append=100:Marker *delete=101:Marker *update=108:Marker"
    " *fri=116:Marker *later=117:Marker",
}
"""Messages as `name=number:type`: + is repeated, ? has presence, * is one of the fields that exclude each other."""


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="lance.proto", package="l", syntax="proto3")
    for name, body in _FILE.items():
        message = file.message_type.add(name=name)
        alone: list[Any] = []
        for word in body.split():
            mark = word[0] if word[0] in "+?*" else ""
            field_name, _, rest = word.lstrip("+?*").partition("=")
            number, _, kind = rest.partition(":")
            field = message.field.add(name=field_name, number=int(number), label=3 if mark == "+" else 1)
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type, field.type_name = 11, f".l.{kind}"
            if mark == "*":
                # Fields of a fragment come in pairs, those of the other messages all exclude each other.
                group = f"group{(int(number) - 1) // 2 if name == 'DataFragment' else 0}"
                known = [entry.name for entry in message.oneof_decl]
                if group not in known:
                    message.oneof_decl.add(name=group)
                    known.append(group)
                field.oneof_index = known.index(group)
            elif mark == "?":
                alone.append(field)
        for field in alone:
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"l.{name}")) for name in _FILE}


MESSAGES = _build()


def message(name: str, **values: Any) -> Any:
    """A message of the protobuf runtime."""
    return MESSAGES[name](**values)


# ---------------------------------------------------------------------- segments


class Arr(NamedTuple):
    """An encoded array: bytes of a value, base, offsets."""

    width: int
    base: int
    offsets: tuple[int, ...]

    def values(self) -> list[int]:
        return [self.base + offset for offset in self.offsets]

    def data(self) -> bytes:
        return b"".join(offset.to_bytes(self.width, "little") for offset in self.offsets)

    def message(self) -> Any:
        if self.width == 8:
            return message("EncodedU64Array", u64=message("U64Array", values=self.data()))
        name = f"U{8 * self.width}Array"
        return message("EncodedU64Array", **{name[:3].lower(): message(name, base=self.base, offsets=self.data())})

    def ours(self) -> lance.EncodedArray:
        return lance.EncodedArray(self.width, self.base, self.data())


class Seg(NamedTuple):
    """A segment: its kind, and what that kind has of start, end, array (holes or values) and bits."""

    kind: str
    start: int = 0
    end: int = 0
    array: Arr = Arr(8, 0, ())
    bits: tuple[int, ...] = ()

    def bitmap(self) -> bytes:
        """Least significant bit first."""
        out = bytearray(-(-len(self.bits) // 8))
        for i, bit in enumerate(self.bits):
            out[i // 8] |= bit << i % 8
        return bytes(out)

    def values(self) -> list[int]:
        """The values, one by one."""
        if self.kind == "range":
            return list(range(self.start, self.end))
        if self.kind == "holes":
            holes = set(self.array.values())
            return [value for value in range(self.start, self.end) if value not in holes]
        if self.kind == "bitmap":
            return [self.start + i for i, bit in enumerate(self.bits) if bit]
        return self.array.values()

    def message(self) -> Any:
        if self.kind == "range":
            inner = message("Range", start=self.start, end=self.end)
        elif self.kind == "holes":
            inner = message("RangeWithHoles", start=self.start, end=self.end, holes=self.array.message())
        elif self.kind == "bitmap":
            inner = message("RangeWithBitmap", start=self.start, end=self.end, bitmap=self.bitmap())
        else:
            inner = self.array.message()
        return message("U64Segment", **{self.kind: inner})

    def ours(self) -> lance.Segment:
        if self.kind == "range":
            return lance.RangeSegment(self.start, self.end)
        if self.kind == "holes":
            return lance.RangeWithHoles(self.start, self.end, self.array.ours())
        if self.kind == "bitmap":
            return lance.RangeWithBitmap(self.start, self.end, self.bitmap())
        return (lance.SortedArray if self.kind == "sorted" else lance.ArraySegment)(self.array.ours())


def expand(segments: list[Seg]) -> list[int]:
    """All values of a sequence."""
    return [value for segment in segments for value in segment.values()]


def sequence_bytes(segments: list[Seg]) -> bytes:
    """A row-id sequence, by the protobuf runtime."""
    data: bytes = message("RowIdSequence", segments=[segment.message() for segment in segments]).SerializeToString()
    return data


# ---------------------------------------------------------------------- the writer's rule, on lists


def write_array(values: list[int]) -> Arr:
    """The narrowest encoding, from the minimum."""
    if not values:
        return Arr(8, 0, ())
    low, spread = min(values), max(values) - min(values)
    if spread <= 65535:
        return Arr(2, low, tuple(value - low for value in values))
    if spread <= 2**32 - 1:
        return Arr(4, low, tuple(value - low for value in values))
    return Arr(8, 0, tuple(values))


def write(values: list[int]) -> Seg:
    """The segment of section 2: a descent, the top value, no holes, then the smallest of three estimates."""
    if not values:
        return Seg("range", 0, 0)
    if any(b <= a for a, b in itertools.pairwise(values)):
        return Seg("array", array=write_array(values))
    low, high, count = values[0], values[-1], len(values)
    if high == TOP:
        return Seg("sorted", array=write_array(values))
    slots = high - low + 1
    missing = slots - count
    if missing == 0:
        return Seg("range", low, high + 1)
    by_holes, by_bitmap, by_values = 4 * missing, (slots + 7) // 8, 2 * count
    if by_holes <= by_bitmap and by_holes <= by_values:
        present = set(values)
        return Seg("holes", low, high + 1, write_array([v for v in range(low, high + 1) if v not in present]))
    if by_bitmap <= by_values:
        present = set(values)
        return Seg("bitmap", low, high + 1, bits=tuple(int(v in present) for v in range(low, high + 1)))
    return Seg("sorted", array=write_array(values))


def join(pieces: list[Seg]) -> list[Seg]:
    """Ranges that touch become one; pieces without values leave."""
    out: list[Seg] = []
    for piece in pieces:
        if not piece.values():
            continue
        if out and piece.kind == out[-1].kind == "range" and out[-1].end == piece.start:
            out[-1] = Seg("range", out[-1].start, piece.end)
        else:
            out.append(piece)
    return out


# ---------------------------------------------------------------------- strategies

KINDS = [
    ("range", 8),
    ("bitmap", 8),
    *((kind, width) for kind in ("holes", "sorted", "array") for width in WIDTHS),
]
"""Every kind of segment, and the arrays' widths where it has one."""

starts = st.one_of(st.integers(0, 300), st.sampled_from(BORDERS))


def _array(draw: st.DrawFn, width: int, values: list[int]) -> Arr:
    """An array of these values with a base that need not be the minimum; the width has to hold them."""
    if width == 8 or not values:
        return Arr(width, 0 if width == 8 else draw(starts), tuple(values))
    lowest = max(max(values) - (1 << 8 * width) + 1, 0)
    base = draw(st.integers(lowest, min(values)))
    return Arr(width, base, tuple(value - base for value in values))


@st.composite
def segments_of(draw: st.DrawFn, kind: str, width: int) -> Seg:
    """A segment of a kind, also in forms that no writer chooses."""
    start = draw(starts)
    if kind in ("sorted", "array"):
        reach = draw(st.sampled_from([3, 80, 65535, 2**32 - 1, TOP]))
        reach = min(reach, TOP - start, (1 << 8 * width) - 1)
        offsets = draw(st.lists(st.integers(0, reach), max_size=25, unique=kind == "sorted"))
        if draw(st.booleans()) and start + reach == TOP and TOP - start not in offsets:
            offsets.append(reach)
        values = [start + offset for offset in offsets]
        return Seg(kind, array=_array(draw, width, sorted(values) if kind == "sorted" else values))
    end = start + draw(st.integers(0, 200))
    if kind == "range":
        return Seg("range", start, end)
    flags = draw(st.integers(0, (1 << end - start) - 1))
    if kind == "bitmap":
        return Seg("bitmap", start, end, bits=tuple(flags >> i & 1 for i in range(end - start)))
    if draw(st.booleans()):
        flags &= draw(st.integers(0, (1 << end - start) - 1)) & draw(st.integers(0, (1 << end - start) - 1))
    return Seg("holes", start, end, _array(draw, width, [start + i for i in range(end - start) if flags >> i & 1]))


segments = st.sampled_from(KINDS).flatmap(lambda kind: segments_of(*kind))
sequences = st.lists(segments, max_size=5)


@st.composite
def id_lists(draw: st.DrawFn) -> list[int]:
    """Distinct ids in any order: dense, sparse, with gaps, up to the last one."""
    start = draw(st.one_of(starts, st.integers(0, TOP)))
    reach = draw(st.sampled_from([1, 8, 70, 150, 1000, 70000, 2**33, TOP]))
    ids = draw(st.lists(st.integers(start, min(start + reach, TOP)), max_size=60, unique=True))
    if draw(st.booleans()):
        ids = sorted({*ids, *range(start, min(start + draw(st.integers(0, 150)), TOP + 1))})
        gone = draw(st.sets(st.sampled_from(ids), max_size=6)) if ids else set()
        ids = [value for value in ids if value not in gone]
    return sorted(ids) if draw(st.integers(0, 3)) else ids


def as_array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """NumPy's form of a list."""
    return np.array(values, np.uint64)


# ---------------------------------------------------------------------- messages by hand


def field(number: int, *parts: bytes, wire: int = 2) -> bytes:
    content = b"".join(parts)
    return uv(number << 3 | wire) + (uv(len(content)) if wire == 2 else b"") + content


def scalar(number: int, value: int) -> bytes:
    return uv(number << 3) + uv(value)


def segment(number: int, *content: bytes) -> bytes:
    return field(1, field(number, *content))


def span(start: int, end: int) -> bytes:
    return scalar(1, start) + scalar(2, end)


def u16(*offsets: int, base: int = 0) -> bytes:
    return field(1, scalar(1, base), field(2, as_array(list(offsets)).astype("<u2").tobytes()))


def u64(*values: int) -> bytes:
    return field(3, field(2, as_array(list(values)).astype("<u8").tobytes()))
