"""The Puffin container: blobs and a JSON footer. Other modules decode the blobs.

Specification: Apache Iceberg, "Puffin file format", version 1::

    "PFA1" | blob | blob | ... | footer
    footer = "PFA1" | payload | i32 LE payload size | 4 flag bytes | "PFA1"

The payload is a UTF-8 JSON object, LZ4-compressed if bit 0 of the first flag byte is set. It locates the blobs by
`offset` and `length`; the reader fetches the footer and the requested blobs, never the whole file. Unknown blob types
are kept and copied unchanged.

A long payload whose blobs, but for a few, differ only in offset, length and property values is read as columns
(`read_uniform`).
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dvcodec.core.compress import CODECS, compress, decompress
from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import BadMagic, DecodeError, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.ragged import Bytes, Index
from dvcodec.core.usage import check_type
from dvcodec.io import (
    Sink,
    SinkTarget,
    Source,
    SourceTarget,
    StorageOptions,
    open_sink,
    open_source,
    read_window,
    read_within,
)
from dvcodec.io.target import file_key

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "CREATED_BY",
    "MAGIC",
    "REFERENCED_DATA_FILE",
    "BlobMetadata",
    "Footer",
    "PuffinReader",
    "PuffinWriter",
    "decode_footer",
    "encode_footer",
    "open_puffin",
    "rewrite_paths",
]


MAGIC = b"PFA1"
"""At the start of the file and at both ends of the footer (section "File structure")."""
CREATED_BY = "created-by"
"""File property that names the writer."""
REFERENCED_DATA_FILE = "referenced-data-file"
"""Blob property of deletion-vector-v1: the data file whose rows the vector deletes."""
DUCKLAKE_SNAPSHOT = "ducklake-snapshot-id"
"""Blob property of DuckLake: the snapshot whose deleted rows a vector has."""


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """One blob as the footer describes it (section "BlobMetadata").

    Attributes:
        type: blob type, such as ``deletion-vector-v1``.
        fields: field ids the blob was computed for.
        snapshot_id: snapshot it belongs to; -1 for deletion vectors.
        sequence_number: that snapshot's; -1 for deletion vectors.
        offset: first byte in the file.
        length: bytes in the file (compressed, if the blob is).
        compression_codec: None, ``lz4`` or ``zstd``.
        properties: further properties of the blob.
        unknown: members of the JSON object that are not in the specification; kept on rewrite.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    unknown: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Footer:
    """The decoded footer (section "FileMetadata").

    Attributes:
        blobs: in footer order; a tuple, or for large uniform footers `UniformBlobs`, which compares equal to one.
        properties: file properties, ``created-by`` among them.
        offset: byte offset of the footer in the file; blobs end before it.
        compressed: whether the payload is stored LZ4-compressed.
        unknown: members that are not in the specification.
    """

    blobs: Sequence[BlobMetadata] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    offset: int = len(MAGIC)
    compressed: bool = False
    unknown: Mapping[str, Any] = field(default_factory=dict, hash=False)


_QUOTE = ord('"')
_MAX_NAMES = 16
"""Properties of a blob; each is compared by itself, which pays if there are more blobs than names."""
_MAX_DIGITS = 18
"""Decimal digits that always fit a signed 64-bit integer."""


class UniformBlobs(Sequence["BlobMetadata"]):
    """Blobs that differ only in offset, length and property values, as columns, and few others among them.

    As a sequence it has all of them, in the order of the footer, and is equal to a tuple of the same blobs.

    Attributes:
        sample: one of the blobs that are alike.
        offsets: int64[n], first byte of each that is alike in the file.
        lengths: int64[n], bytes of each that is alike in the file.
        others: index in the sequence -> blob that is not alike; ascending.
    """

    __slots__ = ("_all", "_spans", "_text", "lengths", "offsets", "others", "sample")

    def __init__(
        self,
        text: bytes,
        sample: BlobMetadata,
        offsets: Index,
        lengths: Index,
        spans: dict[str, tuple[Index, Index]],
        others: Mapping[int, BlobMetadata],
    ) -> None:
        self.sample = sample
        self.offsets = offsets
        self.lengths = lengths
        self.others = others
        self._text = text
        self._spans = spans
        self._all: tuple[BlobMetadata, ...] | None = None

    def texts(self, name: str) -> list[str] | None:
        """Return a property of all blobs that are alike; None if they lack it."""
        if name not in self._spans:
            return None
        starts, stops = (at.tolist() for at in self._spans[name])
        if not self._text.isascii():
            return [self._text[a:b].decode() for a, b in zip(starts, stops, strict=True)]
        text = self._text.decode()  # decoding each slice would take three times as long
        return [text[a:b] for a, b in zip(starts, stops, strict=True)]

    def numbers(self, name: str) -> Index | None:
        """Return a property of all that are alike, int64[n]; None if they lack it, or a value is not a plain number."""
        return _numbers(np.frombuffer(self._text, np.uint8), *self._spans[name]) if name in self._spans else None

    def _blobs(self) -> tuple[BlobMetadata, ...]:
        """Return the blobs as a tuple, built once."""
        if self._all is None:
            values = [self.texts(name) or () for name in self._spans]
            blobs = [
                replace(
                    self.sample, offset=offset, length=length, properties=dict(zip(self._spans, texts, strict=True))
                )
                for offset, length, *texts in zip(self.offsets.tolist(), self.lengths.tolist(), *values, strict=True)
            ]
            for i, blob in self.others.items():
                blobs.insert(i, blob)
            self._all = tuple(blobs)
        return self._all

    def __len__(self) -> int:
        return len(self.offsets) + len(self.others)

    def __getitem__(self, i: Any) -> Any:
        return self._blobs()[i]

    def __iter__(self) -> Iterator[BlobMetadata]:
        return iter(self._blobs())

    def __eq__(self, other: object) -> bool:
        return self._blobs() == tuple(other) if isinstance(other, (tuple, UniformBlobs)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._blobs())

    def __repr__(self) -> str:
        return repr(self._blobs())


def read_uniform(
    text: bytes, head: bytes, sample: BlobMetadata, parse: Callable[[bytes], BlobMetadata]
) -> tuple[UniformBlobs, bytes] | None:
    """Read blobs whose entries have the same form as that of one of them, and few others among them.

    Args:
        text: a footer's payload, which begins with a list of blobs.
        head: the entry of `sample` up to its offset.
        sample: one of the blobs. It is written as `encode_footer` writes it, and has at least one property.
        parse: reads the entry of another blob.

    Returns:
        The blobs, and the text from the bracket after the last one; None if the entries are not uniform.
    """
    if b"\\" in text:  # without, every quotation mark begins or ends a string
        return None
    cut = _cut_others(text, head)
    if cut is None:
        return None
    text, others = cut
    start = len(_BLOBS)
    data = np.frombuffer(text, np.uint8)
    if int(data.min()) < ord(" ") or not text.startswith(head, start):
        return None
    names = list(sample.properties)
    if len(names) > _MAX_NAMES:
        return None
    marks = 16 + 4 * len(names)
    count = text.count(head, start, len(text))
    quotes = start + np.flatnonzero(data[start:] == _QUOTE)[: count * marks]
    if len(quotes) < count * marks:
        return None
    mark = quotes.reshape(count, marks).T  # mark[i]: offset of the i-th quotation mark in every blob
    fixed = [(head, mark[0] - 1), (b',"length":', mark[12] - 1), (b"}}", mark[-1] + 1)]
    spans: dict[str, tuple[Index, Index]] = {}
    for i, name in enumerate(names):
        before = b',"properties":{"' if i == 0 else b'","'
        fixed.append((before + name.encode() + b'":"', mark[14] - 1 if i == 0 else mark[15 + 4 * i]))
        spans[name] = mark[18 + 4 * i] + 1, mark[19 + 4 * i]
    ends = mark[-1] + 3
    if not (ends[:-1] + 2 == mark[0][1:]).all() or not all(_matches(data, *words) for words in fixed):
        return None
    if not _matches(data, b",{", ends[:-1]) or not _matches(data, b"]", ends[-1:]):
        return None
    offsets, lengths = _numbers(data, mark[11] + 2, mark[12] - 1), _numbers(data, mark[13] + 2, mark[14] - 1)
    if offsets is None or lengths is None or (others and others[-1][0] > ends[-1]):
        return None
    before = np.searchsorted(mark[0] - 1, [at for at, _ in others]).tolist()
    placed = {n + i: parse(entry) for i, (n, (_, entry)) in enumerate(zip(before, others, strict=True))}
    return UniformBlobs(text, sample, offsets, lengths, spans, placed), text[int(ends[-1]) :]


def _cut_others(text: bytes, head: bytes) -> tuple[bytes, list[tuple[int, bytes]]] | None:
    """Take the entries out of a list of blobs that do not begin with `head`: an NDV sketch among vectors.

    Args:
        text: a footer's payload, without backslashes.
        head: what most entries begin with.

    Returns:
        The payload without them; and the offset in it where each was, with its text. None if they are not few.
    """
    if text.count(_ENTRY) == text.count(head):
        return text, []
    start = done = size = len(_BLOBS)
    kept = [text[:start]]
    others: list[tuple[int, bytes]] = []
    for found in re.finditer(re.escape(_ENTRY) + b"(?!" + re.escape(head[len(_ENTRY) :]) + b")", text):
        start = found.start()
        if start < done:  # inside of the one before
            continue
        stop = _end_of_object(text, start)
        leads = start == done and size == len(_BLOBS)
        comma = stop if leads else start - 1
        if not stop or text[comma : comma + 1] != b"," or len(others) == _FEW_OTHERS:
            return None
        kept.append(text[done : start if leads else comma])
        size += len(kept[-1])
        others.append((size, text[start:stop]))
        done = stop + leads
    return b"".join([*kept, text[done:]]), others


def _end_of_object(text: bytes, start: int) -> int:
    """Return where a JSON object ends that has few others within it and no braces in strings; 0 if it is another."""
    stop = start
    for _ in range(_FEW_OTHERS):
        stop = text.find(b"}", stop) + 1
        if not stop or text.count(b"{", start, stop) == text.count(b"}", start, stop):
            return stop
    return 0


def _matches(data: Bytes, words: bytes, offsets: Index) -> bool:
    """Return whether `words` is at all of these offsets."""
    if len(offsets) and int(offsets.max()) > len(data) - len(words):
        return False
    windows = np.lib.stride_tricks.sliding_window_view(data, len(words))
    return bool((windows[offsets] == np.frombuffer(words, np.uint8)).all())


def _numbers(data: Bytes, starts: Index, stops: Index) -> Index | None:
    """Read decimal numbers without sign and leading zeros; None if one has another form."""
    widths = stops - starts
    if int(widths.min()) < 1 or int(widths.max()) > _MAX_DIGITS:
        return None
    values = np.zeros(len(starts), np.int64)
    for k in range(int(widths.max())):
        digits = data[starts + np.minimum(k, widths - 1)] - np.uint8(ord("0"))  # wraps to above 9
        if int(digits.max()) > 9:
            return None
        values = np.where(k < widths, 10 * values + digits, values)
    return None if ((data[starts] == ord("0")) & (widths > 1)).any() else values


_BLOBS = b'{"blobs":['
"""Start of a minified footer with blobs."""
_ENTRY = b'{"type":"'
"""Start of a minified blob."""
_OFFSET = b'"offset":'
_FEW_OTHERS = 64
"""Blobs of another form that `read_uniform` takes out of the list, and braces in one of them."""
_LONG = 1 << 14
"""`read_uniform` is tried for footers of at least this many bytes."""
_MAX_NESTING = 64
"""Maximum depth of unknown members, which a rewrite keeps."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_JSON_ESCAPES = re.compile(r"\\(?:u[0-9a-f]{4}|.)")


def _blob_json(blob: BlobMetadata) -> dict[str, Any]:
    """Return the members as Iceberg's ``FileMetadataParser`` writes them, in its order."""
    members: dict[str, Any] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.compression_codec is not None:
        members["compression-codec"] = blob.compression_codec
    if blob.properties:
        members["properties"] = dict(blob.properties)
    return members | dict(blob.unknown)


def _java_json(value: Any) -> str:
    """Write JSON as Jackson does: minified, raw UTF-8, control characters in upper-case hex."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encodable(_JSON_ESCAPES.sub(lambda found: found[0][:2] + found[0][2:].upper(), text))


def encodable(text: str) -> str:
    """Return text as Java writes it: with ``?`` for lone surrogates, which UTF-8 cannot encode."""
    return _SURROGATES.sub("?", text)


class _Parser:
    """Parses JSON to a `Footer` and checks all types; errors have the offset of the payload."""

    def __init__(self, payload: Cursor, limits: Limits) -> None:
        self._payload = payload
        self._limits = limits

    def parse(self, text: bytes, offset: int, compressed: bool) -> Footer:
        members, uniform = self._uniform(text) or (self._json(text), None)
        items = self._typed(members.pop("blobs", None), list, "blobs")
        self._limits.check("max_records", len(items if uniform is None else uniform), self._payload, 0)
        blobs = tuple(self._blob(item, f"blobs[{i}]") for i, item in enumerate(items)) if uniform is None else uniform
        properties = self._strings(members.pop("properties", None), "properties")
        return Footer(blobs, properties, offset, compressed, self._unknown(members))

    def _json(self, text: bytes) -> dict[str, Any]:
        try:
            root = json.loads(text.decode(), object_pairs_hook=self._object, parse_constant=self._constant)
        except DecodeError:
            raise
        except (ValueError, RecursionError) as err:
            self._fail("footer payload", "a JSON object in UTF-8", f"{type(err).__name__}: {err}")
        members: dict[str, Any] = self._typed(root, dict, "footer payload")
        return members

    def _uniform(self, text: bytes) -> tuple[dict[str, Any], UniformBlobs] | None:
        """Read a long uniform footer: its members without the blobs, and the blobs.

        None for other footers and corrupt ones, which are then parsed as a whole.
        """
        start = text.rfind(_ENTRY, 0, len(text) // 2)  # at both ends there may be others
        if len(text) < _LONG or not text.startswith(_BLOBS) or start < 0:
            return None
        entry = text[start : text.find(b"}}", start) + 2]
        try:
            sample = self._parsed(entry)
            if not sample.properties or _java_json(_blob_json(sample)).encode() != entry:
                return None
            found = read_uniform(text, entry[: entry.index(_OFFSET) + len(_OFFSET)], sample, self._parsed)
            if found is None:
                return None
            if not text.isascii():
                text.decode()
            return self._json(_BLOBS + found[1]), found[0]
        except (DecodeError, UnicodeError):
            return None

    def _parsed(self, entry: bytes) -> BlobMetadata:
        return self._blob(self._json(entry), "blobs[0]")

    def _blob(self, item: Any, path: str) -> BlobMetadata:
        members = self._typed(item, dict, path)
        codec = members.pop("compression-codec", None)
        fields = self._typed(members.pop("fields", None), list, f"{path}.fields")
        return BlobMetadata(
            type=self._typed(members.pop("type", None), str, f"{path}.type"),
            fields=tuple(self._integer(value, f"{path}.fields") for value in fields),
            snapshot_id=self._integer(members.pop("snapshot-id", None), f"{path}.snapshot-id"),
            sequence_number=self._integer(members.pop("sequence-number", None), f"{path}.sequence-number"),
            offset=self._integer(members.pop("offset", None), f"{path}.offset"),
            length=self._integer(members.pop("length", None), f"{path}.length"),
            compression_codec=None if codec is None else self._typed(codec, str, f"{path}.compression-codec"),
            properties=self._strings(members.pop("properties", None), f"{path}.properties"),
            unknown=self._unknown(members),
        )

    def _fail(self, what: str, expected: str, actual: object) -> NoReturn:
        raise self._payload.error(NotCanonical, what, at=0, expected=expected, actual=actual)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
            self._fail("footer payload", "distinct member names", f"{twice!r} twice")
        return members

    def _constant(self, name: str) -> NoReturn:
        self._fail("footer payload", "JSON", name)

    def _typed(self, value: Any, kind: type[Any], path: str) -> Any:
        if not isinstance(value, kind):
            names: dict[type[Any], str] = {dict: "an object", list: "an array", str: "a string"}
            self._fail(f"footer member {path}", names[kind], "nothing" if value is None else type(value).__name__)
        return value

    def _integer(self, value: Any, path: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
            actual = "nothing" if value is None else str(value)[:40]
            self._fail(f"footer member {path}", "a 64-bit integer", actual)
        return value

    def _unknown(self, value: Any, depth: int = 0) -> Any:
        if depth > _MAX_NESTING:
            self._fail("footer payload", f"at most {_MAX_NESTING} levels in an unknown member", "more")
        if isinstance(value, float) and not math.isfinite(value):
            self._fail("footer payload", "numbers of finite size", value)
        for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self._unknown(child, depth + 1)
        return value

    def _strings(self, value: Any, path: str) -> dict[str, str]:
        members = self._typed({} if value is None else value, dict, path)
        return {name: self._typed(text, str, f"{path}.{name}") for name, text in members.items()}


TAIL_BYTES = 12
"""Payload size, flags and magic at the end of the footer."""
MIN_FILE_BYTES = len(MAGIC) + len(MAGIC) + TAIL_BYTES
FLAG_LZ4 = 0x01
"""Bit 0 of flag byte 0: the footer payload is one LZ4 frame."""

_TAIL = struct.Struct("<i4s4s")
_TAIL_READ = 8192
"""Bytes of the first read at the end of the file: enough for most footers."""


def decode_footer(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> Footer:
    """Read and decode the footer of a Puffin file by byte ranges.

    Checked: the three magics, flags, sizes, the JSON and the types of its members. Not checked: whether blobs are
    inside the file (reading one does), overlap, or are valid vectors (`iceberg.lint`).

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        Truncated: too short for a Puffin file, or for its footer.
        BadMagic: no ``PFA1`` at the start, at the end, or before the footer payload.
        Unsupported: a flag that the specification does not define.
        NotCanonical: the payload is not JSON as specified.
        LimitExceeded: see `Limits.max_metadata_bytes` and `Limits.max_records`.
        UsageError: not a source, or `limits` is not `Limits`.
        OSError: the file cannot be opened or read.
    """
    check_limits(limits)
    with open_source(source, storage_options=storage_options) as opened:
        return _decode(opened, limits)


def _decode(source: Source, limits: Limits) -> Footer:
    if source.size < MIN_FILE_BYTES:
        raise Truncated(
            "Puffin file", source=source.name, expected=f"at least {MIN_FILE_BYTES} bytes", actual=source.size
        )
    tail = read_window(source, max(0, source.size - _TAIL_READ))
    tail.seek(tail.end - TAIL_BYTES, "footer tail")
    start = tail.pos
    size, flags, magic = _TAIL.unpack(tail.take(TAIL_BYTES, "footer tail"))
    _expect_magic(tail, start + 8, magic, "magic at the end of the file")
    if flags[0] & ~FLAG_LZ4 or any(flags[1:]):
        raise tail.error(
            Unsupported, "footer flags", at=start + 4, expected="00 00 00 00 or 01 00 00 00", actual=flags.hex(" ")
        )
    room = source.size - MIN_FILE_BYTES
    if not 0 <= size <= room:
        raise tail.error(Truncated, "footer payload size", at=start, expected=f"0 to {room}", actual=size)
    limits.check("max_metadata_bytes", size, tail, start)
    start = source.size - TAIL_BYTES - size - len(MAGIC)
    footer = tail if start >= tail.base else read_window(source, start)
    footer.seek(start - footer.base, "footer")
    _expect_magic(footer, footer.pos, bytes(footer.take(len(MAGIC), "magic")), "magic before the footer payload")
    head = footer if footer.base == 0 else read_window(source, 0, len(MAGIC))
    _expect_magic(head, 0, bytes(head.view[: len(MAGIC)]), "magic at the start of the file")
    payload = Cursor(footer.take(size, "footer payload"), source=source.name, base=start + len(MAGIC))
    compressed = bool(flags[0] & FLAG_LZ4)
    text = decompress(payload, "lz4", limit="max_metadata_bytes", limits=limits) if compressed else payload.view
    return _Parser(payload, limits).parse(bytes(text), start, compressed)


def _expect_magic(cursor: Cursor, offset: int, found: bytes, what: str) -> None:
    if found != MAGIC:
        raise cursor.error(BadMagic, what, at=offset, expected=f"{MAGIC.hex(' ')} (PFA1)", actual=found.hex(" "))


def encode_footer(footer: Footer) -> bytes:
    """Encode a footer, magic to magic, with the bytes that Iceberg Java writes for it (uncompressed).

    Not checked: whether its blobs are inside a file, and whether its numbers fit 64 bits.

    Raises:
        UsageError: not a `Footer`.
    """
    check_type(footer, Footer, "footer", "a Footer")
    members: dict[str, Any] = {"blobs": [_blob_json(blob) for blob in footer.blobs]}
    if footer.properties:
        members["properties"] = dict(footer.properties)
    payload = _java_json(members | dict(footer.unknown)).encode()
    return b"".join([MAGIC, payload, _TAIL.pack(len(payload), bytes(4), MAGIC)])


class PuffinReader:
    """Reads the blobs of a Puffin file by byte range.

    Args:
        source: the file; see `open_puffin` for paths and URLs.
        limits: bounds on footer and blobs.

    Raises:
        DecodeError: the footer is corrupt; see `decode_footer`.
        OSError: the source cannot be read.
    """

    def __init__(self, source: Source, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.source = source
        self.limits = limits
        self.footer = decode_footer(source, limits=limits)

    @property
    def blobs(self) -> Sequence[BlobMetadata]:
        """The blobs, in the order of the footer."""
        return self.footer.blobs

    def read_stored(self, blob: BlobMetadata, limit: str = "max_blob_bytes") -> Cursor:
        """Return the blob's stored bytes.

        Args:
            blob: of this file's footer.
            limit: the field of `Limits` that its length must be within.

        Raises:
            LimitExceeded: the blob is larger.
            Truncated: `offset` and `length` are not between the first magic and the footer.
            OSError: the file cannot be read.
        """
        self.check_range(blob)
        return read_within(self.source, limit, self.limits, offset=blob.offset, size=blob.length)

    def check_range(self, blob: BlobMetadata) -> None:
        """Check that a blob is between the first magic and the footer.

        Raises:
            Truncated: it is not.
        """
        if blob.offset < len(MAGIC) or blob.length < 0 or blob.offset + blob.length > self.footer.offset:
            raise Truncated(
                f"range of the {blob.type} blob",
                source=self.source.name,
                offset=blob.offset,
                expected=f"a range within {len(MAGIC)}..{self.footer.offset}",
                actual=f"{blob.offset}..{blob.offset + blob.length}",
            )

    def read(self, blob: BlobMetadata) -> memoryview:
        """Return the blob's content, decompressed.

        Raises:
            Truncated: the blob's range is outside the file, or its frame does not end there.
            Unsupported: an unknown codec.
            BadMagic: not a frame of that codec.
            NotCanonical: the frame is damaged, or its content size is missing or wrong.
            LimitExceeded: more bytes or content than `Limits.max_blob_bytes`, or than fits in memory.
            OSError: the file cannot be read.
        """
        stored = self.read_stored(blob)
        if blob.compression_codec is None:
            return stored.view
        if blob.compression_codec not in CODECS:
            raise stored.error(
                Unsupported, "compression-codec", expected=" or ".join(CODECS), actual=repr(blob.compression_codec)
            )
        return decompress(stored, blob.compression_codec, limits=self.limits)


@contextmanager
def open_puffin(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> Iterator[PuffinReader]:
    """Open a Puffin file.

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: bounds on footer and blobs.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the footer is corrupt; see `decode_footer`.
        UsageError: not a source.
        OSError: it cannot be opened or read.
    """
    with open_source(source, storage_options=storage_options) as opened:
        yield PuffinReader(opened, limits=limits)


class PuffinWriter:
    """Writes a Puffin file; a context manager. Bytes equal those of Iceberg Java's ``PuffinWriter`` for the same blobs.

    The file appears when the block ends without an exception, and not at all otherwise.

    Args:
        target: path, URL or writable binary file.
        properties: file properties; by default ``created-by`` names the writer.

    Raises:
        UsageError: not a target, or a property that is not text.
        OSError: the file cannot be written (an existing file is kept); raised when the block begins or ends.

    >>> import io
    >>> out = io.BytesIO()
    >>> with PuffinWriter(out, {"created-by": "docs"}) as writer:
    ...     blob = writer.add("note-v1", b"hello", fields=[1], snapshot_id=2, sequence_number=3)
    >>> blob.offset, blob.length, len(out.getvalue())
    (4, 5, 161)
    """

    def __init__(
        self, target: SinkTarget, properties: Mapping[str, str] | None = None, *, storage_options: StorageOptions = None
    ) -> None:
        self._target, self._storage_options = target, storage_options
        self._properties = _properties(properties)
        self._blobs: list[BlobMetadata] = []
        self._writing = self._write()
        self._sink: Sink | None = None
        self.file_size: int | None = None
        """Bytes of the file, once it is complete."""

    @contextmanager
    def _write(self) -> Iterator[None]:
        with open_sink(self._target, storage_options=self._storage_options) as sink:
            sink.write(MAGIC)
            self._sink = sink
            try:
                yield
            finally:
                self._sink = None
            sink.write(encode_footer(Footer(tuple(self._blobs), self._properties)))
            self.file_size = sink.position

    def __enter__(self) -> Self:
        self._writing.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:  # noqa: PYI036  (passed on as they are)
        self._writing.__exit__(*raised)

    def add(
        self,
        type: str,  # noqa: A002  (the specification's name)
        data: BytesLike,
        *,
        fields: Sequence[int],
        snapshot_id: int,
        sequence_number: int,
        properties: Mapping[str, str] | None = None,
        compression: str | None = None,
    ) -> BlobMetadata:
        """Append a blob; return its footer entry.

        Args:
            type: blob type.
            data: the content, not compressed.
            fields: field ids.
            snapshot_id: or -1.
            sequence_number: or -1.
            properties: blob properties, written in this order.
            compression: None or ``zstd``.

        Raises:
            UsageError: another compression, `data` is not a contiguous buffer, or the writer is closed.
            OSError: it cannot be written.
        """
        stored = as_view(data) if compression is None else compress(as_view(data), compression)
        metadata = BlobMetadata(
            type, tuple(fields), snapshot_id, sequence_number, 0, 0, compression, _properties(properties)
        )
        return self.add_stored(metadata, stored)

    def add_stored(self, metadata: BlobMetadata, stored: BytesLike) -> BlobMetadata:
        """Append the stored bytes of a blob unchanged; offset and length of `metadata` are replaced.

        Not checked: whether the bytes match `metadata`.

        Raises:
            UsageError: `stored` is not a contiguous buffer, or the writer is closed.
            OSError: it cannot be written.
        """
        view = as_view(stored)
        offset = self._open_sink().write(view)
        blob = replace(metadata, offset=offset, length=len(view))
        self._blobs.append(blob)
        return blob

    def _open_sink(self) -> Sink:
        if self._sink is None:
            raise UsageError("a PuffinWriter must be used in a with block")
        return self._sink


def rewrite_paths(
    source: SourceTarget,
    target: SinkTarget,
    mapping: Mapping[str, str] | Callable[[str], str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
) -> int:
    """Replace the ``referenced-data-file`` of the vectors of a moved table; blobs are copied unchanged.

    Args:
        source: a Puffin file.
        target: where the copy goes; may be the same path.
        mapping: old path -> new path, or a function of the old path. Other paths are kept. An old path that
            no blob has matches other spellings of the same data file (``s3a://`` for ``s3://``).
        limits: bounds on the footer.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The number of blobs that changed.

    Raises:
        UsageError: `mapping` is neither a mapping nor a function, names a path that no blob has, or gives two data
            files one path, or one file two (nothing is written then).
        DecodeError: the footer is corrupt. The blobs are not checked.
        OSError: a file cannot be opened, read or written.
    """
    if not callable(mapping):
        check_type(mapping, Mapping, "mapping", "a mapping of paths or a function")
    with open_puffin(source, limits=limits, storage_options=storage_options) as reader:
        footer = reader.footer
        old = [blob.properties.get(REFERENCED_DATA_FILE) for blob in footer.blobs]
        if isinstance(mapping, Mapping):
            for path in chain(mapping, mapping.values()):
                check_type(path, str, "a path in mapping", "a str")
            table = _by_stored_path(reader.source.name, mapping, old)
            new = [table.get(path, path) if path is not None else None for path in old]
        else:
            rename = mapping
            new = [rename(path) if path is not None else None for path in old]
            for renamed in new:
                check_type(renamed, (str, type(None)), "a path that mapping returns", "a str")
        blobs = tuple(
            blob if path is None else replace(blob, properties={**blob.properties, REFERENCED_DATA_FILE: path})
            for blob, path in zip(footer.blobs, new, strict=True)
        )
        _check_distinct(reader.source.name, old, new)
        with open_sink(target, storage_options=storage_options) as out:
            _copy(reader.source, out, footer.offset)
            out.write(encode_footer(replace(footer, blobs=blobs)))
    return sum(a != b for a, b in zip(old, new, strict=True))


def _properties(given: Mapping[str, str] | None) -> dict[str, str]:
    """Return a copy of properties, which must be text."""
    check_type(given, (Mapping, type(None)), "properties", "a mapping of str to str")
    found = dict(given or {})
    for name, value in found.items():
        check_type(name, str, "the name of a property", "a str")
        check_type(value, str, f"the property {name}", "a str")
    return found


def _by_stored_path(name: str, mapping: Mapping[str, str], old: Sequence[str | None]) -> Mapping[str, str]:
    """Return the mapping with its old paths spelled as the blobs spell them."""
    unmatched = mapping.keys() - set(old)
    if not unmatched:
        return mapping
    spelled: dict[str, set[str]] = {}
    for path in old:
        if path is not None:
            spelled.setdefault(file_key(path), set()).add(path)
    table: dict[str, str] = {}
    for path, new in mapping.items():
        known_as = spelled.get(file_key(path), ()) if path in unmatched else (path,)
        if not known_as:
            raise UsageError(f"{name}: no blob has the referenced-data-file {path!r}")
        for known in known_as:
            if table.setdefault(known, new) != new:
                raise UsageError(f"{name}: {known!r} cannot become both {table[known]!r} and {new!r}")
    return table


def _check_distinct(name: str, old: list[str | None], new: list[str | None]) -> None:
    """Raise if two data files would get the same path; duplicates that exist already are kept."""
    stored = [None if path is None else encodable(path) for path in new]
    owners: dict[str, str] = {}
    for before, after in zip(old, stored, strict=True):
        if after is None or before is None:
            continue
        owner = owners.setdefault(file_key(after), before)
        if owner != before and file_key(owner) != file_key(before):
            raise UsageError(f"{name}: {owner!r} and {before!r} would both become {after!r}")


def _copy(source: Source, sink: Sink, stop: int, step: int = 1 << 24) -> None:
    """Copy the first `stop` bytes, in pieces."""
    for start in range(0, stop, step):
        sink.write(source.read(start, min(step, stop - start)))
