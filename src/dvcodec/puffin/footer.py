"""The footer: what it says of the blobs, from bytes and to bytes."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np

from dvcodec.core.compress import decompress
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, DecodeError, LimitExceeded, NotCanonical, Truncated, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.io import Source, read_window
from dvcodec.puffin.alike import BlobsAlike, read_alike

__all__ = ["CREATED_BY", "MAGIC", "REFERENCED_DATA_FILE", "BlobMetadata", "Footer", "decode_footer", "encode_footer"]

MAGIC = b"PFA1"
"""At the start of the file and at both ends of the footer (section "File structure")."""
TAIL_BYTES = 12
"""Payload size, flags and magic at the end of the footer."""
MIN_FILE_BYTES = len(MAGIC) + len(MAGIC) + TAIL_BYTES
FLAG_LZ4 = 0x01
"""Bit 0 of flag byte 0: the footer payload is one LZ4 frame."""
CREATED_BY = "created-by"
"""File property that names the writer."""
REFERENCED_DATA_FILE = "referenced-data-file"
"""Blob property of deletion-vector-v1: the data file whose rows the vector deletes."""

_TAIL = struct.Struct("<i4s4s")
_TAIL_READ = 8192
"""Bytes of the first read at the end of the file: one request gets most footers whole."""
_FREE_STRUCTURE = 1 << 16
"""Brackets and commas that a footer may hold besides one in 8 bytes: each may cost 64 bytes of memory."""
_USUAL = ("type", "fields", "snapshot-id", "sequence-number", "offset", "length", "properties")
"""Members of a blob that is not compressed; like Java's, in this order."""
_usual_members = itemgetter(*_USUAL)
_BLOBS = b'{"blobs":['
"""What a footer begins with that holds blobs and is written without spaces."""
_PIECE = 1 << 16
_LONG = 1 << 14
"""Bytes of a footer from which it is worth asking whether all blobs are described alike."""
_MAX_NESTING = 64
"""Depth of members that the specification does not name: what is kept has to be written again."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_JSON_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """One blob as the footer describes it (section "BlobMetadata").

    Attributes:
        type: blob type, such as ``deletion-vector-v1``.
        fields: field ids the blob was computed for.
        snapshot_id: snapshot it belongs to; -1 for deletion vectors.
        sequence_number: that snapshot's; -1 for deletion vectors.
        offset: first byte in the file.
        length: bytes in the file (compressed, if it is).
        compression_codec: None, ``lz4`` or ``zstd``.
        properties: further properties of the blob.
        unknown: members of the JSON object that the specification does not name; kept on rewrite.
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
        blobs: in the order of the footer; a tuple, or what equals one (those of a file of thousands are columns).
        properties: file properties, ``created-by`` among them.
        offset: where the footer begins in the file: blobs end before it.
        compressed: whether the payload is stored LZ4-compressed.
        unknown: members the specification does not name.
    """

    blobs: Sequence[BlobMetadata] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    offset: int = len(MAGIC)
    compressed: bool = False
    unknown: Mapping[str, Any] = field(default_factory=dict, hash=False)


def decode_footer(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> Footer:
    """Read and decode the footer of a Puffin file by byte ranges.

    Checked: the three magics, flags, sizes, the JSON and the types of its members. Not checked: whether blobs lie
    inside the file (reading one does) or overlap, and what they mean (`iceberg.lint` does).

    Raises:
        Truncated: too short for a Puffin file, or for its footer.
        BadMagic: no ``PFA1`` at the start, at the end, or before the footer payload.
        Unsupported: a flag that the specification does not define.
        NotCanonical: the payload is not the JSON the specification asks for.
        LimitExceeded: see `Limits.max_footer_bytes` and `Limits.max_blobs`.
    """
    if source.size < MIN_FILE_BYTES:
        raise Truncated(
            "Puffin file", source=source.name, expected=f"at least {MIN_FILE_BYTES} bytes", actual=source.size
        )
    tail = read_window(source, max(0, source.size - _TAIL_READ))
    tail.seek(tail.end - TAIL_BYTES, "footer tail")
    at = tail.pos
    size, flags, magic = _TAIL.unpack(tail.take(TAIL_BYTES, "footer tail"))
    _expect_magic(tail, at + 8, magic, "magic at the end of the file")
    if flags[0] & ~FLAG_LZ4 or any(flags[1:]):
        raise tail.error(
            Unsupported, "footer flags", at=at + 4, expected="00 00 00 00 or 01 00 00 00", actual=flags.hex(" ")
        )
    room = source.size - MIN_FILE_BYTES
    if not 0 <= size <= room:
        raise tail.error(Truncated, "footer payload size", at=at, expected=f"0 to {room}", actual=size)
    limits.check("max_footer_bytes", size, tail, at)
    start = source.size - TAIL_BYTES - size - len(MAGIC)
    footer = tail if start >= tail.base else read_window(source, start)
    footer.seek(start - footer.base, "footer")
    _expect_magic(footer, footer.pos, bytes(footer.take(len(MAGIC), "magic")), "magic before the footer payload")
    head = footer if footer.base == 0 else read_window(source, 0, len(MAGIC))
    _expect_magic(head, 0, bytes(head.view[: len(MAGIC)]), "magic at the start of the file")
    payload = Cursor(footer.take(size, "footer payload"), source=source.name, base=start + len(MAGIC))
    compressed = bool(flags[0] & FLAG_LZ4)
    text = decompress(payload, "lz4", limit="max_footer_bytes", limits=limits) if compressed else payload.view
    return _FooterParser(payload, limits).parse(bytes(text), start, compressed)


def _expect_magic(cursor: Cursor, at: int, found: bytes, what: str) -> None:
    if found != MAGIC:
        raise cursor.error(BadMagic, what, at=at, expected=f"{MAGIC.hex(' ')} (PFA1)", actual=found.hex(" "))


def encode_footer(footer: Footer) -> bytes:
    """Encode a footer, magic to magic, with the bytes that Iceberg Java writes for it (uncompressed)."""
    members: dict[str, Any] = {"blobs": [_blob_json(blob) for blob in footer.blobs]}
    if footer.properties:
        members["properties"] = dict(footer.properties)
    payload = _java_json(members | dict(footer.unknown)).encode()
    return b"".join([MAGIC, payload, _TAIL.pack(len(payload), bytes(4), MAGIC)])


def _blob_json(blob: BlobMetadata) -> dict[str, Any]:
    """Return the members in the order of Iceberg's ``FileMetadataParser``; what is absent there is left out."""
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
    """Write the strings by themselves that json spells in another way: some escapes, and lone surrogates."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_java_string(k)}:{_java_json_by_parts(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_java_json_by_parts, value)) + "]"
    return _java_string(value) if isinstance(value, str) else json.dumps(value)


def _java_string(text: str) -> str:
    escaped = re.sub(r'["\\\x00-\x1f]', lambda m: _JSON_ESCAPES.get(m[0], f"\\u{ord(m[0]):04X}"), text)
    return f'"{encodable(escaped)}"'


def encodable(text: str) -> str:
    """Return text as it is written: Java puts ``?`` in the place of a lone surrogate, which UTF-8 cannot hold."""
    return _SURROGATES.sub("?", text)


def _usual_blob(item: Any) -> BlobMetadata | None:
    """Take a blob with the members that deletion vectors have, all of the right type; a file has thousands of them."""
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


def _count(text: bytes, marks: bytes) -> int:
    """Count some characters, in pieces that stay in the cache: they are every tenth, too many for `bytes.count`."""
    data = np.frombuffer(text, np.uint8)
    pieces = (data[i : i + _PIECE] for i in range(0, len(data), _PIECE))
    return sum(int(np.count_nonzero(piece == mark)) for piece in pieces for mark in marks)


class _FooterParser:
    """JSON to `Footer`, every member's type checked; errors point at the footer payload."""

    def __init__(self, payload: Cursor, limits: Limits) -> None:
        self._payload = payload
        self._limits = limits

    def parse(self, text: bytes, offset: int, compressed: bool) -> Footer:
        structure = _count(text, b"[{,")
        most = _FREE_STRUCTURE + len(text) // 8
        if structure > most:
            raise self._payload.error(
                LimitExceeded, "values in the footer payload", at=0, expected=f"at most {most}", actual=structure
            )
        members, alike = self._alike(text) or (self._json(text), None)
        items = self._typed(members.pop("blobs", None), list, "blobs")
        self._limits.check("max_blobs", len(items if alike is None else alike), self._payload, 0)
        blobs = tuple(self._blob(item, i) for i, item in enumerate(items)) if alike is None else alike
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

    def _alike(self, text: bytes) -> tuple[dict[str, Any], BlobsAlike] | None:
        """Read a long footer whose blobs are all described alike: its members without the blobs, and these.

        None where it is not such a footer, or wrong: then the whole text is parsed, and that tells what is wrong.
        """
        start, stop = len(_BLOBS), text.find(b"}}", len(_BLOBS)) + 2
        if len(text) < _LONG or not text.startswith(_BLOBS):
            return None
        try:
            first = self._blob(self._json(text[start:stop]), 0)
            if not first.properties or _java_json(_blob_json(first)).encode() != text[start:stop]:
                return None
            found = read_alike(text, start, first)
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
            names = [name for name, _ in pairs]
            twice = next(name for i, name in enumerate(names) if name in names[:i])
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
