"""Rows of Avro data files as Arrow batches.

Specification: Iceberg table spec, appendix A, "Avro"; Paimon's class ``AvroSchemaConverter``, whose files have no field
ids. Records are decoded as they are stored; their logical types come with Arrow, a column at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from dvcodec.core.avro import AvroFile
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa, types
from dvcodec.io import Storage
from dvcodec.tables.metadata.avro_fields import Logical, fields_of, not_null, open_avro
from dvcodec.tables.rows.columns import parts_of
from dvcodec.tables.rows.data_file import OpenFile
from dvcodec.tables.rows.schema_evolution import FIELD_ID

_DECIMAL_BYTES = 16
_CHUNK_VALUES = 1 << 20
"""Values that are decoded at a time: as Python's objects, a hundred bytes each."""


@contextmanager
def open_avro_rows(location: str, storage: Storage) -> Iterator[OpenFile]:
    """Open an Avro data file, whose columns have the field ids that it records.

    Raises:
        DecodeError: see `avro_fields.open_avro`.
        Unsupported: a union of several types, or a decimal without a precision.
        OSError: it cannot be read.
    """
    with open_avro(location, storage, rows=True) as (file, cursor):
        items = fields_of(file.schema, "Avro schema of a data file", cursor)
        stored = [_field(item["name"], item, item["type"], item["logical"], "field-id", cursor) for item in items]
        rows = file.count()
        yield OpenFile(
            pa.schema([_meant(field) for field in stored]),
            rows,
            lambda names, batch_rows, skip: iter(()) if skip else _batches(file, cursor, stored, names, batch_rows),
            lambda _evolution, _wanted, part: () if part.has(0, rows) else (0,),
        )


def _batches(
    file: AvroFile, cursor: Cursor, stored: Sequence[pa.Field], names: Sequence[str], batch_rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches with the position of their first row."""
    by_name = {field.name: field for field in stored}
    fields = [by_name[name] for name in names]
    values = sum(map(_values, stored))
    records = file.records(by_block=True)
    most = max(min(batch_rows, _CHUNK_VALUES // max(values, 1)), 1)
    start = 0
    while chunk := list(islice(records, most)):
        columns = []
        for field in fields:
            try:
                column = _with_meaning(pa.array([row[field.name] for row in chunk], field.type), _meant(field).type)
            except (pa.ArrowException, OverflowError, ValueError) as err:
                message = str(err).partition("\n")[0][:200]
                what, expected = f"column {field.name:.80}", f"values of {_meant(field).type!s:.80}"
                raise cursor.error(NotCanonical, what, at=0, expected=expected, actual=message) from None
            columns.append(column)
        yield start, pa.record_batch(columns, list(names)) if names else _without_columns(len(chunk))
        start += len(chunk)


def _values(field: pa.Field) -> int:
    """Return the values of a row in a field, without more items than one of lists and maps."""
    return 1 + sum(map(_values, parts_of(field.type)))


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


_DECIMAL = b"dvcodec.decimal"
"""Metadata of a field of bytes that are a decimal: precision and scale."""


def _field(name: str, item: Any, kind: Any, logical: Logical | None, number: str, cursor: Cursor) -> pa.Field:
    """Return a field as its values are decoded, with its field id.

    Args:
        name: of the field.
        item: what has its id: a field of a record, an array or a map.
        kind: its type, cleaned.
        logical: its logical type.
        number: the attribute that is its id.
        cursor: for errors.
    """
    plain = not_null(kind)
    if isinstance(plain, list):
        expected = "unions of null and one type"
        raise cursor.error(
            Unsupported, f"Avro type of {name:.60}", at=0, expected=expected, actual=f"{len(plain)} types"
        )
    metadata = {FIELD_ID: str(item[number]).encode()} if isinstance(item.get(number), int) else {}
    what = plain["type"] if isinstance(plain, dict) else plain
    if logical is not None and logical.name == "decimal" and what in ("bytes", "fixed"):
        if not logical.precision:
            raise cursor.error(Unsupported, f"decimal {name:.60}", at=0, expected="1 to 38 digits", actual="others")
        metadata[_DECIMAL] = f"{logical.precision} {logical.scale}".encode()
    if what == "record":
        type_ = pa.struct([_field(x["name"], x, x["type"], x["logical"], "field-id", cursor) for x in plain["fields"]])
    elif what == "array" and logical is not None and logical.name == "map":
        entries = fields_of(plain["items"], f"entries of the map {name:.60}", cursor)
        if [entry["name"] for entry in entries] != ["key", "value"]:
            raise cursor.error(NotCanonical, f"map {name:.60}", at=0, expected="key and value", actual="other fields")
        inner = [_field(x["name"], x, x["type"], x["logical"], "field-id", cursor) for x in entries]
        type_, metadata[_MAP] = pa.list_(pa.field("entries", pa.struct(inner), False)), b""
    elif what == "array":
        type_ = pa.list_(_field("element", plain, plain["items"], plain["logical"], "element-id", cursor))
    elif what == "map":
        key = _field("key", plain, "string", None, "key-id", cursor)
        type_ = pa.map_(key, _field("value", plain, plain["values"], plain["logical"], "value-id", cursor))
    else:
        type_ = _primitive(what, plain, logical)
    return pa.field(name, type_, isinstance(kind, list) or kind == "null", metadata or None)


_MAP = b"dvcodec.map"
"""Metadata of a field of lists of entries that are a map, whose keys are not text."""


def _primitive(what: str, plain: Any, logical: Logical | None) -> pa.DataType:
    zone = "UTC" if logical is not None and logical.utc else None
    meant = {
        ("int", "date"): pa.date32(),
        ("int", "time-millis"): pa.time32("ms"),
        ("long", "time-micros"): pa.time64("us"),
        ("long", "timestamp-millis"): pa.timestamp("ms", zone),
        ("long", "timestamp-micros"): pa.timestamp("us", zone),
        ("long", "timestamp-nanos"): pa.timestamp("ns", zone),
        ("long", "local-timestamp-millis"): pa.timestamp("ms"),  # Paimon's, of instants
        ("long", "local-timestamp-micros"): pa.timestamp("us"),
    }.get((what, "" if logical is None else logical.name))
    if meant is not None:
        return meant
    if what == "fixed":
        return pa.binary(plain["size"])
    return {
        "null": pa.null(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "bytes": pa.binary(),
        "string": pa.string(),
    }[what]


def _meant(field: pa.Field) -> pa.Field:
    """Return a field in its final type, with decimals and maps."""
    metadata, kind = dict(field.metadata or {}), field.type
    digits, is_map = metadata.pop(_DECIMAL, None), metadata.pop(_MAP, None) is not None
    if digits is not None:
        kind = pa.decimal128(*map(int, digits.split()))
    elif is_map:
        key, value = map(_meant, kind.value_type)
        kind = pa.map_(key.with_nullable(False), value)
    elif types.is_struct(kind):
        kind = pa.struct([_meant(part) for part in kind])
    elif types.is_map(kind):
        kind = pa.map_(_meant(kind.key_field), _meant(kind.item_field))
    elif types.is_list(kind):
        kind = pa.list_(_meant(kind.value_field))
    return pa.field(field.name, kind, field.nullable, metadata or None)


def _with_meaning(array: Any, meant: pa.DataType) -> Any:
    """Convert decoded values to their logical type."""
    if array.type.equals(meant):
        return array
    if types.is_decimal(meant):
        return _decimals(array, meant)
    nulls = array.is_null() if array.null_count else None
    if types.is_struct(meant):
        parts = [_with_meaning(array.field(i), part.type) for i, part in enumerate(meant)]
        return pa.StructArray.from_arrays(parts, fields=list(meant), mask=nulls)
    if types.is_map(meant):
        flat = isinstance(array, pa.MapArray)
        keys, values = (array.keys, array.items) if flat else (array.values.field(0), array.values.field(1))
        keys, values = _with_meaning(keys, meant.key_type), _with_meaning(values, meant.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, values, type=meant, mask=nulls)
    return pa.ListArray.from_arrays(
        array.offsets, _with_meaning(array.values, meant.value_type), type=meant, mask=nulls
    )


def _decimals(array: Any, kind: Any) -> Any:
    """Return decimals of the bytes of their unscaled values, big-endian in two's complement.

    Raises:
        ValueError: one has more bytes, or more digits, than the type has.
    """
    count = len(array)
    if types.is_fixed_size_binary(array.type):
        bounds = np.arange(count + 1, dtype=np.int64) * array.type.byte_width
    else:
        bounds = np.frombuffer(array.buffers()[1], np.int32)[: count + 1].astype(np.int64)
    content = array.buffers()[-1]
    data = np.frombuffer(b"" if content is None else content, np.uint8)
    sizes = np.diff(bounds)
    out = np.zeros((count, _DECIMAL_BYTES), np.uint8)
    for size in np.unique(sizes).tolist():
        if size > _DECIMAL_BYTES:
            raise ValueError(f"a decimal of {size} bytes")
        chosen = np.flatnonzero(sizes == size)
        little = data[bounds[chosen][:, None] + np.arange(size)][:, ::-1]
        out[chosen, :size] = little
        if size:
            out[chosen, size:] = np.where(little[:, -1:] >= 128, 255, 0)
    found = pa.Array.from_buffers(kind, count, [array.buffers()[0], pa.py_buffer(out)], array.null_count)
    found.validate(full=True)
    return found
