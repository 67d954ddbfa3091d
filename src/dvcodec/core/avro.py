"""Avro object container files, read strictly and within limits; fastavro (extra ``tables``) decodes the records.

Specification: Avro 1.12, "Object Container Files". fastavro's reader does not limit the decompressed size of
blocks, and its errors have no file offsets; so the container itself is read here::

    "Obj" 1 | map of metadata: avro.schema (JSON), avro.codec | sync, 16 bytes
    varint records | varint bytes | block | sync | ...
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dvcodec.core import avro_codecs
from dvcodec.core.avro_codecs import CODECS
from dvcodec.core.avro_schema import SchemaError, check_shape, without_annotations
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, DecodeError, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import require_extra
from dvcodec.core.json_text import parse_json
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.varints import uvarints

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
        size = records = 0
        decoder = _Decoder.of(self.schema, self._blocks, None if by_block else self._limits)
        for count, block in self._each():
            content = avro_codecs.decompress(block, self.codec, self._limits)
            if count > len(content):
                most = f"at most {len(content)} in {len(content)} bytes"
                raise block.error(NotCanonical, "record count", at=0, expected=most, actual=count)
            if not by_block:
                size, records = size + len(content), records + count
                self._limits.check("max_metadata_bytes", size, block, 0)
                self._limits.check("max_records", records, block, 0)
            yield from decoder.records(content, count, block)

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


@dataclass(frozen=True, slots=True, eq=False)
class _Decoder:
    """Decodes the records of one schema.

    Attributes:
        read: reads a record.
        limits: of bytes that a record may have; None for a data file.
    """

    read: Callable[[io.BytesIO], Any]
    limits: Limits | None

    @classmethod
    def of(cls, schema: Any, cursor: Cursor, limits: Limits | None) -> _Decoder:
        fastavro = require_extra("fastavro", "tables")
        try:
            plain = without_annotations(schema)
        except RecursionError as err:
            raise _invalid_schema(cursor, err) from None
        try:
            parsed = fastavro.parse_schema(plain)
        except MemoryError:
            raise
        except Exception as err:  # noqa: BLE001  (fastavro does not document what it raises here)
            raise _invalid_schema(cursor, err) from None
        try:
            check_shape(plain)
        except (SchemaError, RecursionError) as err:
            raise _invalid_schema(cursor, err) from None
        return cls(lambda stream: fastavro.schemaless_reader(stream, parsed, None), limits)

    def records(self, content: memoryview, count: int, block: Cursor) -> Iterator[Any]:
        """Decode the records of a block, which must fill it; fastavro sees at most the bytes that a record may have."""
        read = self.read
        most = len(content) if self.limits is None else self.limits.max_record_bytes
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
                if self.limits is not None and base + most < len(content) and not stream.read(1):
                    found = f"more than {most} bytes in {wanted}"
                    raise self.limits.exceeded("max_record_bytes", found, block, 0) from None
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
        block = avro_codecs.compress(stream.getvalue(), codec)
        out += [_put_zigzag(count), _put_zigzag(len(block)), block, sync]
    return b"".join(out)


def _invalid_schema(cursor: Cursor, err: Exception) -> DecodeError:
    return cursor.error(NotCanonical, "Avro schema", expected="a valid schema", actual=_text(err))


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
