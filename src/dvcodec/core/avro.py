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
from dvcodec.core.avro_work import (
    MAX_DENSITY,
    ItemCounter,
    SchemaError,
    density,
    item_counter,
    record_work,
    without_annotations,
)
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, DecodeError, LimitExceeded, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import require_extra
from dvcodec.core.json_text import parse_json
from dvcodec.core.limits import DEFAULT_LIMITS, Budget, Limits, SharedWork
from dvcodec.core.varints import uvarints

__all__ = ["CODECS", "MAGIC", "AvroFile", "decode", "encode"]

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
    _shared: SharedWork | None = None

    def records(
        self, work: int = Budget.RECORD, *, by_block: bool = False, budget: Budget | None = None
    ) -> Iterator[Any]:
        """Decode the records, block by block.

        Args:
            work: cost of what the caller builds from a record, as `Budget` counts it.
            by_block: True applies `Limits.max_manifest_bytes` to each block, not to all together: for files that are
                larger than memory.
            budget: the budget of the file, if the caller charges it too.

        Values are returned as stored, whatever their logical types. The items of arrays and maps are charged when their
        record is decoded; the more a schema can make of a byte, the fewer bytes a record may have.

        Not checked: the schema. Compare it with a known one first (see `avro_schema`), as records of a hostile schema
        may take no bytes, or contain themselves.

        Raises:
            DecodeError: a block is damaged, or its records do not match the schema.
            LimitExceeded: more than `Limits.max_manifest_bytes` after decompression, a record of more than
                `Limits.max_record_bytes`, or more than the file's `Budget`.
            MissingExtra: fastavro is not installed.
        """
        total = 0
        if budget is None:
            budget = Budget(self._blocks.end, self._blocks.source, self._limits, self._shared)
        decoder = _Decoder.of(self.schema, self._blocks, self._limits)
        work = max(work, decoder.work)
        for count, block in self._each():
            content = avro_codecs.decompress(block, self.codec, self._limits)
            total = len(content) + (0 if by_block else total)
            self._limits.check("max_manifest_bytes", total, block, 0)
            if count > len(content):
                most = f"at most {len(content)} in {len(content)} bytes"
                raise block.error(NotCanonical, "record count", at=0, expected=most, actual=count)
            budget.charge(len(content) + work * count, "records", block.base)
            yield from decoder.records(content, count, block, budget)

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
        work: of a record without the items of its arrays and maps.
        most: bytes that a record may have.
        count: returns the work of the items of a record; None if it has none.
    """

    read: Callable[[io.BytesIO], Any]
    work: int
    most: int
    count: ItemCounter | None

    @classmethod
    def of(cls, schema: Any, cursor: Cursor, limits: Limits) -> _Decoder:
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
            work, densest, count = record_work(plain), density(plain), item_counter(plain)
        except (SchemaError, RecursionError) as err:
            raise _invalid_schema(cursor, err) from None
        if densest > MAX_DENSITY:
            what, expected = "items of an array or a map", "members that take bytes"
            raise cursor.error(NotCanonical, what, expected=expected, actual="too many that take none")
        most = limits.max_record_bytes * Budget.ROW // max(densest, Budget.ROW)
        return cls(lambda stream: fastavro.schemaless_reader(stream, parsed, None), work, most, count)

    def records(self, content: memoryview, count: int, block: Cursor, budget: Budget) -> Iterator[Any]:
        """Decode the records of a block, which must fill it; fastavro sees at most the bytes that a record may have."""
        read, most, items_of = self.read, self.most, self.count
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
                if base + most < len(content) and not stream.read(1):
                    limit = f"at most {most} bytes in {wanted}"
                    raise block.error(
                        LimitExceeded, "Limits.max_record_bytes", at=0, expected=limit, actual="more"
                    ) from None
                raise block.error(NotCanonical, "Avro record", at=0, expected=wanted, actual=_text(err)) from None
            if items_of is not None:
                budget.charge(items_of(record), "items", block.base)
            yield record
        left = len(content) - base - stream.tell()
        if left:
            raise block.error(NotCanonical, "bytes after the last record", at=0, expected="0 left", actual=left)


def decode(cursor: Cursor, *, limits: Limits = DEFAULT_LIMITS, shared: SharedWork | None = None) -> AvroFile:
    """Read the header of a container file; `AvroFile.records` reads the rest of the window.

    Args:
        cursor: the file.
        limits: bounds on what the bytes may claim.
        shared: the base work of all metadata files of a table, if this is one of them.

    Raises:
        LimitExceeded: more bytes than `Limits.max_manifest_bytes`.
        BadMagic: not a container file.
        Truncated: the window ends in the header.
        NotCanonical: invalid metadata.
        Unsupported: a codec that is not one of `CODECS`.
    """
    limits.check("max_manifest_bytes", cursor.remaining, cursor)
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
    return AvroFile(schema, codec, cursor, sync, limits, shared)


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
