"""The JSON payload of the footer: decoded with all types checked, encoded with Java's bytes."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical
from dvcodec.core.limits import Limits
from dvcodec.puffin.metadata import BlobMetadata, Footer
from dvcodec.puffin.uniform_footer import UniformBlobs, read_uniform

__all__ = ["decode_payload", "encodable", "encode_payload"]

_FREE_STRUCTURE = 1 << 16
"""Brackets and commas allowed in addition to one per 8 bytes, because each may take 64 bytes of memory."""
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
        LimitExceeded: more than `Limits.max_blobs` blobs, or too many values for the size.
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


def _count(text: bytes, marks: bytes) -> int:
    """Count frequent characters, in pieces that fit the CPU caches; faster than `bytes.count`."""
    data = np.frombuffer(text, np.uint8)
    pieces = (data[i : i + _PIECE] for i in range(0, len(data), _PIECE))
    return sum(int(np.count_nonzero(piece == mark)) for piece in pieces for mark in marks)


class _Parser:
    """Parses JSON to a `Footer` and checks all types; errors have the offset of the payload."""

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
        members, uniform = self._uniform(text) or (self._json(text), None)
        items = self._typed(members.pop("blobs", None), list, "blobs")
        self._limits.check("max_blobs", len(items if uniform is None else uniform), self._payload, 0)
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
