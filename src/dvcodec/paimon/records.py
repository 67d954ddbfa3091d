"""Paimon's metadata files as records: manifests, manifest lists and index manifests, in Avro, ORC or Parquet.

Releases up to 1.4 write the format that the table option ``manifest.format`` names; paimon-cpp writes ORC by default.
Later releases read and write Avro alone. The first bytes of a file show its format. Fields have the same names in all
three, so the known schemas are Avro's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dvcodec.core import avro
from dvcodec.core.avro import differs, unwrapped
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import pa, pc, pq, require_extra, types
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.io.orc import open_orc
from dvcodec.io.parquet import arrow_damage, parquet_metadata
from dvcodec.io.source import Source, object_source, read_within

FORMATS = ("avro", "orc", "parquet")
_ORC, _PARQUET = b"ORC", b"PAR1"
MAGICS = (avro.MAGIC, _ORC, _PARQUET)
"""How files of these formats begin."""
_NUMBERS = {"int": "int32", "long": "int64", "bytes": "binary"}
_TINY = "_KIND"
"""The field of the known schemas that is a byte in ORC and Parquet."""


@dataclass(frozen=True, slots=True)
class MetadataFormat:
    """How a metadata file is written.

    Attributes:
        name: ``avro``, ``orc`` or ``parquet``.
        codec: of Avro's blocks; ORC and Parquet are compressed by Zstandard.
    """

    name: str = "avro"
    codec: str = "zstandard"


@dataclass(frozen=True, slots=True)
class Records:
    """A metadata file.

    Attributes:
        source: the file, for errors.
        format: how it is written.
        schema: that it was written with: Avro's as parsed JSON, otherwise one of Arrow.
        records: with all fields, times as stored; can be iterated over once.
    """

    source: str
    format: MetadataFormat
    schema: Any
    records: Iterator[dict[str, Any]]

    def field_names(self) -> set[str]:
        """Return the names of all fields; those inside of others follow the other's name and a point."""
        return _names(self.schema if self.format.name == "avro" else _avro_type(pa.struct(list(self.schema))))


def read_records(
    source: Source,
    known: Mapping[str, Any],
    what: str,
    *,
    required: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Records:
    """Read a metadata file.

    Args:
        source: the file.
        known: the known fields of a record, as an Avro schema.
        what: kind of the file, for errors.
        required: see `differs`.
        limits: bounds on what the bytes may claim.

    Raises:
        DecodeError: it is corrupt, or its fields have other types than the known ones.
        MissingExtra: fastavro, or pyarrow for ORC and Parquet, is not installed.
        OSError: it cannot be read.
    """
    cursor = read_within(source, "max_metadata_bytes", limits)
    head = bytes(cursor.view[: len(_PARQUET)])

    def check(title: str, schema: Any) -> None:
        # Early releases of Paimon write the record as nullable.
        problem = differs(schema, ["null", known], required=required)
        if problem:
            raise cursor.error(Unsupported, f"{title} schema", at=0, expected=what, actual=problem)

    if head.startswith(_ORC) or head == _PARQUET:
        name = "parquet" if head == _PARQUET else "orc"
        found = (_parquet if name == "parquet" else _orc)(object_source(cursor.view, source.name))
        schema = next(found)
        title = "Parquet" if name == "parquet" else "ORC"
        try:
            check(title, _avro_type(pa.struct(list(schema))))
        except UnicodeDecodeError as err:
            expected = "names in UTF-8"
            raise cursor.error(NotCanonical, f"{title} schema", at=0, expected=expected, actual=err.reason) from None
        batches = list(_within(found, cursor, limits))  # ends what `found` holds
        return Records(source.name, MetadataFormat(name), schema, _of_batches(batches, known, cursor))
    file = avro.decode(cursor, limits=limits)
    check("Avro", file.schema)
    return Records(source.name, MetadataFormat("avro", file.codec), file.schema, _of_avro(file, cursor))


def _of_avro(file: avro.AvroFile, cursor: Cursor) -> Iterator[dict[str, Any]]:
    for record in file.records():
        if record is None:
            raise cursor.error(NotCanonical, "Avro record", at=0, expected="a record", actual="null")
        yield record


def _orc(source: Source) -> Iterator[Any]:
    """Yield the schema and the batches of a file."""
    with open_orc(source) as file:
        yield file.schema
        yield from file.batches([])


def _parquet(source: Source) -> Iterator[Any]:
    try:
        with arrow_damage("Parquet file", "a readable footer"):
            file = parquet_metadata(source)
            schema = file.schema_arrow
        yield schema.remove_metadata()
        with arrow_damage("Parquet file", "readable pages"):
            yield from file.iter_batches(1 << 12)
    except DecodeError as err:
        err.source = err.source or source.name
        raise


def _within(batches: Iterator[Any], cursor: Cursor, limits: Limits) -> Iterator[Any]:
    size = records = 0
    for batch in batches:
        size, records = size + batch.nbytes, records + batch.num_rows
        limits.check("max_metadata_bytes", size, cursor, 0)
        limits.check("max_records", records, cursor, 0)
        yield batch


def _of_batches(batches: list[Any], known: Mapping[str, Any], cursor: Cursor) -> Iterator[dict[str, Any]]:
    for batch in batches:
        try:
            rows = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
            _check_nulls(rows, known, "record", cursor)
            yield from _values(rows)
        except (pa.ArrowException, UnicodeDecodeError) as err:
            actual = str(err).partition("\n")[0]
            raise cursor.error(NotCanonical, "record", at=0, expected="readable values", actual=actual) from None


def _check_nulls(array: Any, known: Any, name: str, cursor: Cursor) -> None:
    """Refuse a null in a field that always has a value."""
    known, nullable = unwrapped(known)
    if array.null_count and not nullable:
        raise cursor.error(NotCanonical, name, at=0, expected="a value", actual="null")
    if isinstance(known, dict) and known["type"] == "array":
        _check_nulls(array.flatten(), known["items"], name, cursor)
    elif isinstance(known, dict):
        present = array.drop_null()
        for field in known["fields"]:
            at = array.type.get_field_index(field["name"])
            if at >= 0:
                _check_nulls(pc.struct_field(present, at), field["type"], field["name"], cursor)


def _values(array: Any) -> list[Any]:
    """Return the values of an array; times as numbers, for pyarrow's own objects need pandas."""
    if types.is_struct(array.type):
        names = [field.name for field in array.type]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*map(_values, array.flatten()), strict=True)]
        if not array.null_count:
            return rows
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    found: list[Any] = array.to_pylist()
    return found


def _avro_type(kind: pa.DataType) -> Any:
    """Return an Arrow type as Avro's schemas name it."""
    if types.is_signed_integer(kind):
        return "long" if kind.bit_width == 64 else "int"
    if types.is_list(kind):
        return {"type": "array", "items": _avro_type(kind.value_type)}
    if types.is_struct(kind):
        return {"type": "record", "fields": [{"name": one.name, "type": _avro_type(one.type)} for one in kind]}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp"}
    return {"binary": "bytes", "bool": "boolean"}.get(str(kind), str(kind))


def arrow_schema(known: Mapping[str, Any]) -> pa.Schema:
    """Return a known schema as one of Arrow."""

    def field(name: str, kind: Any) -> pa.Field:
        kind, nullable = unwrapped(kind)
        if isinstance(kind, str):
            return pa.field(name, pa.type_for_alias("int8" if name == _TINY else _NUMBERS.get(kind, kind)), nullable)
        if kind["type"] == "array":
            return pa.field(name, pa.list_(field("element", kind["items"])), nullable)
        return pa.field(name, pa.struct([field(one["name"], one["type"]) for one in kind["fields"]]), nullable)

    return pa.schema([field(one["name"], one["type"]) for one in known["fields"]])


def encode_records(file_format: MetadataFormat, schema: Any, records: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the bytes of a metadata file.

    Args:
        file_format: how it is written.
        schema: see `Records`.
        records: as in `Records`.

    Raises:
        UsageError: a record does not fit the schema, or the codec is unknown.
        MissingExtra: fastavro, or pyarrow for ORC and Parquet, is not installed.
    """
    if file_format.name == "avro":
        return avro.encode(schema, records, codec=file_format.codec)
    orc = require_extra("pyarrow.orc", "tables")
    sink = pa.BufferOutputStream()
    try:
        rows = pa.Table.from_pylist(list(records), schema=schema)
    except (pa.ArrowException, OverflowError) as err:
        actual = str(err).partition("\n")[0]
        raise UsageError(f"a record does not fit the schema of the {file_format.name} file: {actual:.200}") from None
    if file_format.name == "orc":
        orc.write_table(rows, sink, compression="zstd")
    else:
        pq.write_table(rows, sink, compression="zstd", store_schema=False)
    return bytes(sink.getvalue())


def _names(schema: Any, path: str = "") -> set[str]:
    if isinstance(schema, list):
        return {name for option in schema for name in _names(option, path)}
    if not isinstance(schema, dict):
        return set()
    inner = {name for key in ("items", "values", "type") for name in _names(schema.get(key), path)}
    for field in schema.get("fields") or ():
        name = f"{path}.{field['name']}"
        inner |= {name} | _names(field["type"], name)
    return inner
