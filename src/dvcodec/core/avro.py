"""Avro object container files, read strictly and within limits; fastavro (extra ``tables``) decodes the records.

Specification: Avro 1.12, "Object Container Files". fastavro's reader does not limit the decompressed size of
blocks, and its errors have no file offsets; so the container itself is read here::

    "Obj" 1 | map of metadata: avro.schema (JSON), avro.codec | sync, 16 bytes
    varint records | varint bytes | block | sync | ...

Blocks: Avro 1.12, "Required Codecs" and "Optional Codecs": deflate blocks have no zlib header, snappy blocks end
with the big-endian CRC-32 of their content.

A hostile file can have a schema of records without bytes, or without end: the number of items in an array is stored
before them, and if they take no bytes, any number of them takes none. A schema that passes bounds what reading the
records takes, and has the expected type for every known field.
"""

from __future__ import annotations

import io
import json
import secrets
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import cramjam

from dvcodec.core import compress as zstd
from dvcodec.core.cursor import Cursor, check_crc, crc32
from dvcodec.core.errors import BadMagic, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import require_extra
from dvcodec.core.json_text import parse_json
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory
from dvcodec.core.varints import uvarints

CODECS = ("zstandard", "deflate", "snappy", "null")
_CRC_BYTES = 4


def decompress(cursor: Cursor, codec: str, limits: Limits) -> memoryview:
    """Return the content of a block, the whole window of the cursor.

    Raises:
        DecodeError: the block is damaged.
        LimitExceeded: content of more than `Limits.max_metadata_bytes`, or more than the memory.
    """
    if codec == "null":
        return cursor.view
    if codec == "zstandard":
        return zstd.decompress(cursor, "zstd", limit="max_metadata_bytes", limits=limits, sized=False)
    if codec == "deflate":
        return _inflate(cursor, limits)
    return _unsnap(cursor, limits)


def _inflate(cursor: Cursor, limits: Limits) -> memoryview:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    most = limits.max_metadata_bytes
    try:
        with enough_memory("the content of a deflate block", cursor.source):
            content = inflater.decompress(cursor.view, min(most + 1, sys.maxsize))
    except zlib.error as err:
        raise cursor.error(NotCanonical, "deflate block", expected="a valid block", actual=str(err)) from None
    if len(content) > most:
        raise limits.exceeded("max_metadata_bytes", f"more than {most}", cursor)
    if not inflater.eof:
        raise cursor.error(NotCanonical, "deflate block", expected="one whole stream", actual="no end")
    rest = inflater.unused_data
    if rest and rest != zlib.adler32(content).to_bytes(4, "big")[:3]:  # fastavro appends these three bytes
        raise cursor.error(NotCanonical, "deflate block", expected="one stream", actual=f"{len(rest)} bytes after it")
    return memoryview(content)


def _unsnap(cursor: Cursor, limits: Limits) -> memoryview:
    """Decompress a raw snappy block and check the CRC-32 of its content, big-endian after the block."""
    body = cursor.take(max(cursor.remaining - _CRC_BYTES, 0), "snappy block")
    crc_pos = cursor.pos
    stored = cursor.u32be("CRC-32 of a snappy block")
    size = Cursor(body, source=cursor.source, base=cursor.base).uvarint("snappy content size")
    limits.check("max_metadata_bytes", size, cursor, 0)
    most = len(body) * 64  # a copy of 64 bytes takes at least 2
    if size > most:
        raise cursor.error(NotCanonical, "snappy content size", at=0, expected=f"at most {most}", actual=size)
    with enough_memory("the content of a snappy block", cursor.source):
        out = memoryview(bytearray(size))
    try:
        found = cramjam.snappy.decompress_raw_into(body, out)
    except cramjam.DecompressionError as err:
        raise cursor.error(NotCanonical, "snappy block", at=0, expected="a valid block", actual=str(err)) from None
    if found != size:
        raise cursor.error(NotCanonical, "snappy content size", at=0, expected=size, actual=found)
    check_crc(cursor, crc_pos, "a snappy block", stored, out)
    return out


def compress(data: bytes, codec: str) -> bytes:
    """Return a block with this content."""
    if codec == "zstandard":
        return zstd.compress(data, "zstd")
    if codec == "deflate":
        deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        return deflater.compress(data) + deflater.flush()
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data)) + crc32(data).to_bytes(_CRC_BYTES, "big")
    return data


_NUMBERS = ("int", "long")
_PRIMITIVES = (*_NUMBERS, "float", "double", "boolean", "string", "bytes")


def differs(found: Any, known: Any) -> str | None:
    """Describe the first difference between a type and the known one; None if there is none.

    Numbers may be int or long, nullable types may be found without null, and fields may be in any order. Unknown fields
    may be of any type: what reading them takes is bounded by `check_shape`.

    Args:
        found: the type in the file.
        known: a record of primitives, records and arrays; fields with a default may be missing.
    """
    found, nullable = unwrapped(found)
    known, may_be_null = unwrapped(known)
    if nullable and not may_be_null:
        return "nullable"
    if isinstance(known, str):
        same = found == known or (known in _NUMBERS and found in _NUMBERS)
        return None if same else f"{found!r:.60} in place of {known}"
    if not isinstance(found, dict) or found.get("type") != known["type"]:
        return f"{found!r:.60} in place of a {known['type']}"
    if known["type"] == "array":
        return differs(found.get("items"), known["items"])
    fields = _fields(found)
    if fields is None:
        return "a record without fields"
    if len(set(fields)) < len(found["fields"]):
        return "fields without names, or two of one name"
    for entry in known["fields"]:
        if entry["name"] not in fields:
            if "default" in entry:
                continue
            return f"no field {entry['name']}"
        problem = differs(fields[entry["name"]], entry["type"])
        if problem:
            return f"field {entry['name']}: {problem}"
    return None


def unwrapped(kind: Any) -> tuple[Any, bool]:
    """Return the non-null type of a nullable union, and whether it was one; primitives as plain names."""
    nullable = isinstance(kind, list) and len(kind) == 2 and "null" in kind
    if nullable:
        kind = next((option for option in kind if option != "null"), "null")
    if isinstance(kind, dict) and kind.get("type") in _PRIMITIVES and "logicalType" not in kind:
        kind = kind["type"]
    return kind, nullable


def _fields(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a record, name -> type; None if they are missing or invalid."""
    fields = record.get("fields")
    if not isinstance(fields, list) or not all(isinstance(entry, dict) for entry in fields):
        return None
    return {entry["name"]: entry.get("type") for entry in fields if isinstance(entry.get("name"), str)}


_LEAST = {"null": 0, "float": 4, "double": 8} | dict.fromkeys((*_NUMBERS, "boolean", "string", "bytes"), 1)
"""Minimum bytes of values of a primitive type."""
_MOST_EMPTY, _MOST_EMPTY_OF_RECORD = 8, 4096
"""Members without bytes: for each byte of an item; of a record. Columns of type unknown are of Avro's type null."""
_MOST_LEVELS = 250
"""Of types in types: fastavro goes down them in C, where a stack that is too high ends the process."""


class SchemaError(ValueError):
    """A schema is invalid, in a way that fastavro does not notice."""


def without_annotations(kind: Any) -> Any:
    """Return a schema with nothing but what decoding needs.

    Logical types are removed: a decimal of 2 MB takes minutes. So is what fastavro puts into a schema that it parsed,
    because such a schema is not checked again.

    Raises:
        SchemaError: a record without fields, to which fastavro gives none.
    """
    if isinstance(kind, list):
        return [without_annotations(option) for option in kind]
    if not isinstance(kind, dict):
        return kind
    found = {name: kind[name] for name in _KEPT if name in kind}
    for name in _INNER:
        if name in found:
            found[name] = without_annotations(found[name])
    fields = kind.get("fields")
    if isinstance(fields, list):
        found["fields"] = [
            {name: without_annotations(value) for name, value in entry.items() if name in ("name", "type")}
            if isinstance(entry, dict)
            else entry
            for entry in fields
        ]
    elif kind.get("type") in _RECORDS:
        raise SchemaError("a record without fields")
    return found


_INNER = ("type", "items", "values")
_RECORDS = ("record", "error")
_KEPT = (*_INNER, "name", "namespace", "fields", "size", "symbols")


class _Shape(NamedTuple):
    """What is known of all values of a type.

    Attributes:
        least: minimum bytes.
        empty: maximum number of members without bytes, not counting items.
        levels: of types in it.
    """

    least: int
    empty: int = 0
    levels: int = 1


def check_shape(kind: Any) -> None:
    """Check that what a record is decoded to is not much larger than its bytes, and not too deep.

    Args:
        kind: a schema as fastavro parsed it, which has all names in full.

    Raises:
        SchemaError: items of an array take no bytes; items or records have many members that take none; or a type is
            within itself, or within very many others.
    """
    if _shape(kind, {}).empty > _MOST_EMPTY_OF_RECORD:
        raise SchemaError("too many members that take no bytes")


def _shape(kind: Any, known: dict[str, _Shape]) -> _Shape:
    """Return the shape of a type, and add those of the types in it to the `known` ones, by name."""
    if isinstance(kind, list):
        return _within(1, [_shape(option, known) for option in kind])
    if not isinstance(kind, dict):
        if kind in _LEAST:
            return _Shape(_LEAST[kind])
        if kind not in known:  # the definition that fastavro knows has not ended
            raise SchemaError(f"type {kind!r:.60} within itself, or without a definition")
        return known[kind]
    name = kind["type"]
    if name in ("array", "map"):
        items = _shape(kind["items" if name == "array" else "values"], known)
        least = items.least + (name == "map")
        if not least or items.empty > _MOST_EMPTY * least:
            raise SchemaError("items of an array or a map that take too few bytes")
        return _within(1, [items])._replace(empty=0)
    if name in _RECORDS:
        parts = [_shape(entry["type"], known) for entry in kind["fields"]]
        found = _within(sum(part.least for part in parts), parts)
        found = found._replace(empty=sum(part.empty + (not part.least) for part in parts))
    elif name == "fixed":
        size = kind.get("size")
        if not isinstance(size, int) or size < 0:
            raise SchemaError("a fixed type without a size")
        found = _Shape(size)
    elif name == "enum":
        found = _Shape(1)
    else:
        return _shape(name, known)
    known[kind["name"]] = found
    return found


def _within(least: int, parts: list[_Shape]) -> _Shape:
    """Return the shape of a type of these parts."""
    levels = 1 + max((part.levels for part in parts), default=0)
    if levels > _MOST_LEVELS:
        raise SchemaError(f"more than {_MOST_LEVELS} types in one another")
    return _Shape(least, max((part.empty for part in parts), default=0), levels)


MAGIC = b"Obj\x01"
SYNC_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class AvroFile:
    """A container file: the header is decoded, the blocks are not yet read.

    Attributes:
        schema: the writer's schema, parsed from JSON.
        codec: compression of the blocks.
    """

    schema: Any
    codec: str
    _blocks: Cursor
    _sync: bytes
    _limits: Limits

    def records(self, *, by_block: bool = False) -> Iterator[Any]:
        """Decode the records, block by block; values are returned as stored, whatever their logical types.

        Args:
            by_block: True for a data file, which may have any number of records of any size:
                `Limits.max_metadata_bytes` applies to each block by itself.

        Raises:
            DecodeError: a block is damaged, or its records do not match the schema, whose records and items must take
                bytes (see `check_shape`) and not contain themselves.
            LimitExceeded: see `Limits.max_metadata_bytes`, `Limits.max_records` and `Limits.max_record_bytes`.
            MissingExtra: fastavro is not installed.
        """
        read, limits = self.reader(), None if by_block else self._limits
        for count, content, block in self.contents(by_block=by_block):
            yield from _decoded(read, content, count, block, limits)

    def contents(self, *, by_block: bool = False) -> Iterator[tuple[int, memoryview, Cursor]]:
        """Yield the number of records of each block, its content, and the block; see `records`.

        Raises:
            DecodeError: see `records`.
        """
        size = records = 0
        for count, block in self._each():
            content = decompress(block, self.codec, self._limits)
            if count > len(content):
                most = f"at most {len(content)} in {len(content)} bytes"
                raise block.error(NotCanonical, "record count", at=0, expected=most, actual=count)
            if not by_block:
                size, records = size + len(content), records + count
                self._limits.check("max_metadata_bytes", size, block, 0)
                self._limits.check("max_records", records, block, 0)
            yield count, content, block

    @property
    def most_bytes(self) -> int:
        """Of a record: see `Limits.max_record_bytes`."""
        return self._limits.max_record_bytes

    def reader(self, kind: Any = None) -> Callable[[io.BytesIO], Any]:
        """Return what reads one record of a stream, and raises anything if it is damaged.

        Args:
            kind: type of a record inside of the file's; None = that of the file.

        Raises:
            DecodeError: the schema is one that `records` refuses.
            MissingExtra: fastavro is not installed.
        """
        fastavro = require_extra("fastavro", "tables")
        try:
            parsed = fastavro.parse_schema(without_annotations(self.schema if kind is None else kind))
            check_shape(parsed)
        except MemoryError:
            raise
        except Exception as err:  # noqa: BLE001  (fastavro does not document what it raises here)
            expected, cursor = "a valid schema", self._blocks
            raise cursor.error(NotCanonical, "Avro schema", expected=expected, actual=_text(err)) from None
        return lambda stream: fastavro.schemaless_reader(stream, parsed, None)

    def count(self) -> int:
        """Return the number of records that the headers of the blocks state; no block is decompressed.

        Raises:
            DecodeError: a header is damaged.
        """
        return sum(count for count, _ in self._each())

    def _each(self) -> Iterator[tuple[int, Cursor]]:
        """Yield the number of records and the bytes of each block."""
        after = self._blocks
        cursor = Cursor(after.view[after.pos : after.end], source=after.source, base=after.base + after.pos)
        while cursor.remaining:
            start = cursor.pos
            count, size = _zigzag(cursor, "record count"), _zigzag(cursor, "block size")
            if count < 0 or size < 0:
                raise cursor.error(
                    NotCanonical, "block header", at=start, expected="0 or more", actual=min(count, size)
                )
            base = cursor.base + cursor.pos
            block = Cursor(cursor.take(size, "block"), source=cursor.source, base=base)
            start = cursor.pos
            sync = bytes(cursor.take(SYNC_BYTES, "sync marker"))
            if sync != self._sync:
                raise cursor.error(NotCanonical, "sync marker", at=start, expected=self._sync.hex(), actual=sync.hex())
            yield count, block


def _decoded(
    read: Callable[[io.BytesIO], Any], content: memoryview, count: int, block: Cursor, limits: Limits | None
) -> Iterator[Any]:
    """Decode the records of a block, which must fill it; fastavro sees at most the bytes that a record may have.

    Args:
        read: reads a record.
        content: of the block.
        count: number of records.
        block: as it is stored, for errors.
        limits: of bytes that a record may have; None for a data file.
    """
    most = len(content) if limits is None else limits.max_record_bytes
    base, stream = 0, io.BytesIO(content[:most])
    large = len(content) > most
    for i in range(count):
        start = base + stream.tell() if large else base
        try:
            try:
                record = read(stream)
            except Exception:  # the record may be longer than what is left of the piece
                if start == base or base + most >= len(content):
                    raise
                base, stream = start, io.BytesIO(content[start : start + most])
                record = read(stream)
        except MemoryError:
            raise
        except Exception as err:  # noqa: BLE001
            wanted = f"record {i} of {count} in this block"
            if limits is not None and base + most < len(content) and not stream.read(1):
                found = f"more than {most} bytes in {wanted}"
                raise limits.exceeded("max_record_bytes", found, block, 0) from None
            raise block.error(NotCanonical, "Avro record", at=0, expected=wanted, actual=_text(err)) from None
        yield record
    left = len(content) - base - stream.tell()
    if left:
        raise block.error(NotCanonical, "bytes after the last record", at=0, expected="0 left", actual=left)


def decode(cursor: Cursor, *, limits: Limits = DEFAULT_LIMITS) -> AvroFile:
    """Read the header of a container file; `AvroFile.records` reads the rest of the window.

    Args:
        cursor: the file.
        limits: bounds on what the bytes may claim.

    Raises:
        LimitExceeded: more bytes than `Limits.max_metadata_bytes`.
        BadMagic: not a container file.
        Truncated: the window ends in the header.
        NotCanonical: invalid metadata.
        Unsupported: a codec that is not one of `CODECS`.
    """
    limits.check("max_metadata_bytes", cursor.remaining, cursor)
    magic = bytes(cursor.take(min(len(MAGIC), cursor.remaining), "Avro magic"))
    if magic != MAGIC:
        raise cursor.error(BadMagic, "Avro magic", at=0, expected=MAGIC.hex(" "), actual=magic.hex(" ") or "no bytes")
    start = cursor.pos
    metadata = _metadata(cursor)
    sync = bytes(cursor.take(SYNC_BYTES, "sync marker"))
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in CODECS:
        raise cursor.error(Unsupported, "Avro codec", at=start, expected=" or ".join(CODECS), actual=repr(codec)[:60])
    text = metadata.get("avro.schema", b"")
    schema = parse_json(text, cursor.source, "avro.schema", offset=cursor.base + start)
    return AvroFile(schema, codec, cursor, sync, limits)


def encode(
    schema: Any,
    records: Iterable[Mapping[str, Any]],
    *,
    codec: str = "zstandard",
    metadata: Mapping[str, str] | None = None,
    validate: bool = True,
) -> bytes:
    """Build a container file of one block.

    Args:
        schema: of the records, as parsed JSON.
        records: the records; values of logical types may be in their stored form.
        codec: compression of the block.
        metadata: entries of the header besides schema and codec.
        validate: False skips checking the records against the schema, which takes milliseconds for a large one.

    Raises:
        UsageError: a codec that is not one of `CODECS`, an invalid schema, or a record that does not fit it.
        MissingExtra: fastavro is not installed.
    """
    if codec not in CODECS:
        raise UsageError(f"Avro blocks are written with {', '.join(CODECS)}, not {codec!r}")
    fastavro = require_extra("fastavro", "tables")
    try:
        parsed = fastavro.parse_schema(schema)
    except Exception as err:  # noqa: BLE001  (fastavro raises any exception here)
        raise UsageError(f"an Avro schema that fastavro does not write: {_text(err)}") from None
    stream = io.BytesIO()
    count = 0
    for record in records:
        try:
            if validate:
                fastavro.validate(record, parsed)  # the writer does not check the range of numbers
            fastavro.schemaless_writer(stream, parsed, record)
        except Exception as err:  # noqa: BLE001  (fastavro raises any exception here)
            raise UsageError(f"record {count} does not fit the Avro schema: {_text(err)}") from None
        count += 1
    header = {key: value.encode() for key, value in (metadata or {}).items()}
    header |= {"avro.schema": json.dumps(schema, separators=(",", ":")).encode(), "avro.codec": codec.encode()}
    sync = secrets.token_bytes(SYNC_BYTES)
    out = [MAGIC, _put_zigzag(len(header))]
    for key, value in header.items():
        out += [_put_zigzag(len(key)), key.encode(), _put_zigzag(len(value)), value]
    out += [_put_zigzag(0), sync]
    if count:
        block = compress(stream.getvalue(), codec)
        out += [_put_zigzag(count), _put_zigzag(len(block)), block, sync]
    return b"".join(out)


def _text(err: Exception) -> str:
    """Return type and message of an error of fastavro or json, shortened."""
    text = " ".join(str(err).split())
    return f"{type(err).__name__}{': ' if text else ''}{text[:120]}"


def _metadata(cursor: Cursor) -> dict[str, bytes]:
    """Read the metadata map: blocks of entries up to an empty one; a negative count is followed by a byte size."""
    found: dict[str, bytes] = {}
    while count := _zigzag(cursor, "metadata count"):
        if count < 0:
            _zigzag(cursor, "metadata bytes")
        for _ in range(abs(count)):
            key = _sized(cursor, "metadata key")
            found[key.decode("utf-8", "replace")] = _sized(cursor, "metadata value")
    return found


def _sized(cursor: Cursor, what: str) -> bytes:
    start = cursor.pos
    size = _zigzag(cursor, f"size of {what}")
    if size < 0:
        raise cursor.error(NotCanonical, f"size of {what}", at=start, expected="0 or more", actual=size)
    return bytes(cursor.take(size, what))


def _zigzag(cursor: Cursor, what: str) -> int:
    value = cursor.uvarint(what)
    return value >> 1 ^ -(value & 1)


def _put_zigzag(value: int) -> bytes:
    return uvarints(value << 1 ^ value >> 63)
