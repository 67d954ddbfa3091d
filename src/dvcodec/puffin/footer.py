"""The footer: magics, flags and sizes around a JSON payload that describes the blobs.

A long payload whose blobs differ only in offset, length and property values is read as columns (`read_uniform`).
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np

from dvcodec.core.compress import decompress
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, DecodeError, NotCanonical, Truncated, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.ragged import Bytes, Index
from dvcodec.core.usage import check_type
from dvcodec.io import Source, SourceTarget, StorageOptions, open_source, read_window

MAGIC = b"PFA1"
"""At the start of the file and at both ends of the footer (section "File structure")."""
CREATED_BY = "created-by"
"""File property that names the writer."""
REFERENCED_DATA_FILE = "referenced-data-file"
"""Blob property of deletion-vector-v1: the data file whose rows the vector deletes."""


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
"""Bytes per step: they fit the CPU caches."""
_MAX_NAMES = 16
"""Properties of a blob; each is compared by itself, which pays if there are more blobs than names."""
_MAX_DIGITS = 18
"""Decimal digits that always fit a signed 64-bit integer."""


class UniformBlobs(Sequence["BlobMetadata"]):
    """Blobs that differ only in offset, length and property values, as columns; equal to a tuple of the same blobs.

    Attributes:
        first: the first blob.
        offsets: int64[n], first byte of each in the file.
        lengths: int64[n], bytes of each in the file.
    """

    __slots__ = ("_all", "_spans", "_text", "first", "lengths", "offsets")

    def __init__(
        self, text: bytes, first: BlobMetadata, offsets: Index, lengths: Index, spans: dict[str, tuple[Index, Index]]
    ) -> None:
        self.first = first
        self.offsets = offsets
        self.lengths = lengths
        self._text = text
        self._spans = spans
        self._all: tuple[BlobMetadata, ...] | None = None

    def texts(self, name: str) -> list[str] | None:
        """Return a property of all blobs; None if they lack it."""
        if name not in self._spans:
            return None
        starts, stops = (at.tolist() for at in self._spans[name])
        if not self._text.isascii():
            return [self._text[a:b].decode() for a, b in zip(starts, stops, strict=True)]
        text = self._text.decode()  # decoding each slice would take three times as long
        return [text[a:b] for a, b in zip(starts, stops, strict=True)]

    def numbers(self, name: str) -> Index | None:
        """Return a property of all blobs, int64[n]; None if they lack it, or a value is not a plain number."""
        return _numbers(np.frombuffer(self._text, np.uint8), *self._spans[name]) if name in self._spans else None

    def _blobs(self) -> tuple[BlobMetadata, ...]:
        """Return the blobs as a tuple, built once."""
        if self._all is None:
            values = [self.texts(name) or () for name in self._spans]
            self._all = tuple(
                replace(self.first, offset=offset, length=length, properties=dict(zip(self._spans, texts, strict=True)))
                for offset, length, *texts in zip(self.offsets.tolist(), self.lengths.tolist(), *values, strict=True)
            )
        return self._all

    def __len__(self) -> int:
        return len(self.offsets)

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


def read_uniform(text: bytes, start: int, first: BlobMetadata) -> tuple[UniformBlobs, int] | None:
    """Read blobs whose entries have the same form as the first one.

    Args:
        text: a footer's payload.
        start: offset of the first blob's object in `text`.
        first: the first blob. It is written as `encode_footer` writes it, and has at least one property.

    Returns:
        The blobs, and the offset of the bracket after the last one; None if the entries are not uniform.
    """
    data = np.frombuffer(text, np.uint8)
    if b"\\" in text or int(data.min()) < ord(" "):  # then every quotation mark begins or ends a string
        return None
    names = list(first.properties)
    if len(names) > _MAX_NAMES:
        return None
    marks = 16 + 4 * len(names)
    head = text[start : text.index(b'"offset":', start) + len(b'"offset":')]
    count = text.count(head, start, len(text))
    quotes = np.concatenate(
        [i + np.flatnonzero(data[i : i + _PIECE] == _QUOTE) for i in range(start, len(data), _PIECE)]
    )[: count * marks]
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
    if offsets is None or lengths is None:
        return None
    return UniformBlobs(text, first, offsets, lengths, spans), int(ends[-1])


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


_USUAL = ("type", "fields", "snapshot-id", "sequence-number", "offset", "length", "properties")
"""Members of an uncompressed blob, in Java's order."""
_usual_members = itemgetter(*_USUAL)
_BLOBS = b'{"blobs":['
"""Start of a minified footer with blobs."""
_PIECE = 1 << 16
_LONG = 1 << 14
"""`read_uniform` is tried for footers of at least this many bytes."""
_MAX_NESTING = 64
"""Maximum depth of unknown members, which a rewrite keeps."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_JSON_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def decode_payload(text: bytes, payload: Cursor, offset: int, compressed: bool, limits: Limits) -> Footer:
    """Parse a payload.

    Args:
        text: the JSON.
        payload: the stored payload; errors have its offset.
        offset: offset of the footer, for the result.
        compressed: whether it was compressed, for the result.
        limits: bounds on the number of blobs.

    Raises:
        NotCanonical: not JSON as specified.
        LimitExceeded: more than `Limits.max_records` blobs.
    """
    return _Parser(payload, limits).parse(text, offset, compressed)


def encode_payload(footer: Footer) -> bytes:
    """Write a payload with the bytes of Iceberg Java."""
    members: dict[str, Any] = {"blobs": [_blob_json(blob) for blob in footer.blobs]}
    if footer.properties:
        members["properties"] = dict(footer.properties)
    return _java_json(members | dict(footer.unknown)).encode()


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
    return text if "\\u" not in text and not _SURROGATES.search(text) else _java_json_by_parts(value)


def _java_json_by_parts(value: Any) -> str:
    """Write JSON with strings that json and Jackson escape differently, or with lone surrogates."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_java_string(k)}:{_java_json_by_parts(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_java_json_by_parts, value)) + "]"
    return _java_string(value) if isinstance(value, str) else json.dumps(value)


def _java_string(text: str) -> str:
    escaped = re.sub(r'["\\\x00-\x1f]', lambda m: _JSON_ESCAPES.get(m[0], f"\\u{ord(m[0]):04X}"), text)
    return f'"{encodable(escaped)}"'


def encodable(text: str) -> str:
    """Return text as Java writes it: with ``?`` for lone surrogates, which UTF-8 cannot encode."""
    return _SURROGATES.sub("?", text)


def _usual_blob(item: Any) -> BlobMetadata | None:
    """Return the blob if it has exactly the members of a deletion vector, with the right types: a fast path."""
    if type(item) is not dict or len(item) != len(_USUAL):
        return None
    try:
        kind, fields, snapshot_id, sequence_number, offset, length, properties = _usual_members(item)
    except KeyError:
        return None
    if type(kind) is not str or type(fields) is not list or type(properties) is not dict:
        return None
    for value in (snapshot_id, sequence_number, offset, length, *fields):
        if type(value) is not int or not -(2**63) <= value < 2**63:
            return None
    for text in properties.values():
        if type(text) is not str:
            return None
    return BlobMetadata(kind, tuple(fields), snapshot_id, sequence_number, offset, length, None, properties)


class _Parser:
    """Parses JSON to a `Footer` and checks all types; errors have the offset of the payload."""

    def __init__(self, payload: Cursor, limits: Limits) -> None:
        self._payload = payload
        self._limits = limits

    def parse(self, text: bytes, offset: int, compressed: bool) -> Footer:
        members, uniform = self._uniform(text) or (self._json(text), None)
        items = self._typed(members.pop("blobs", None), list, "blobs")
        self._limits.check("max_records", len(items if uniform is None else uniform), self._payload, 0)
        blobs = tuple(self._blob(item, i) for i, item in enumerate(items)) if uniform is None else uniform
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
        start, stop = len(_BLOBS), text.find(b"}}", len(_BLOBS)) + 2
        if len(text) < _LONG or not text.startswith(_BLOBS):
            return None
        try:
            first = self._blob(self._json(text[start:stop]), 0)
            if not first.properties or _java_json(_blob_json(first)).encode() != text[start:stop]:
                return None
            found = read_uniform(text, start, first)
            if found is None:
                return None
            if not text.isascii():
                text.decode()
            return self._json(_BLOBS + text[found[1] :]), found[0]
        except (DecodeError, UnicodeError):
            return None

    def _blob(self, item: Any, i: int) -> BlobMetadata:
        return _usual_blob(item) or self._any_blob(item, f"blobs[{i}]")

    def _any_blob(self, item: Any, path: str) -> BlobMetadata:
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
    return decode_payload(bytes(text), payload, start, compressed, limits)


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
    payload = encode_payload(footer)
    return b"".join([MAGIC, payload, _TAIL.pack(len(payload), bytes(4), MAGIC)])
