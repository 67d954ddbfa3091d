"""Paimon's metadata files as records, in Avro, ORC and Parquet: the same values, and the same strictness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from battery import check_truncations, outcome
from cases import each
from dvcodec import DecodeError, LimitExceeded, Limits, NotCanonical, Unsupported, UsageError
from dvcodec.core import avro
from dvcodec.io import open_source
from dvcodec.paimon import FILE_FORMATS, MetadataFormat, arrow_schema, encode_records, read_records

ARROW = [name for name in FILE_FORMATS if name != "avro"]
KNOWN = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "_KIND", "type": "int"},
        {"name": "name", "type": "string"},
        {
            "name": "file",
            "type": ["null", {"type": "record", "name": "f", "fields": [{"name": "size", "type": "long"}]}],
        },
        {"name": "texts", "type": {"type": "array", "items": "string"}},
        {"name": "raw", "type": ["null", "bytes"], "default": None},
    ],
}
RECORD = {"_KIND": 1, "name": "a", "file": {"size": 2**40}, "texts": ["x", ""], "raw": None}
RECORDS = [RECORD, {"_KIND": 0, "name": "ż", "file": None, "texts": [], "raw": b"\0"}]


def encoded(form: str, records: Sequence[Any], schema: Any = None) -> bytes:
    schema = schema or (KNOWN if form == "avro" else arrow_schema(KNOWN))
    return encode_records(MetadataFormat(form), schema, records)


def decoded(data: bytes, known: Any = KNOWN, **options: Any) -> list[dict[str, Any]]:
    with open_source(data) as source:
        return list(read_records(source, known, "a test", **options).records)


@pytest.mark.parametrize("form", FILE_FORMATS)
def test_records_are_read_as_they_were_written(form: str) -> None:
    for records in (RECORDS, RECORDS[:1], []):
        assert decoded(encoded(form, records)) == records
    with open_source(encoded(form, RECORDS)) as source:
        found = read_records(source, KNOWN, "a test")
        assert (found.format.name, found.field_names()) == (
            form,
            {"._KIND", ".name", ".file", ".file.size", ".texts", ".raw"},
        )
        # What was read is written again.
        assert decoded(encode_records(found.format, found.schema, list(found.records))) == RECORDS


@pytest.mark.parametrize("form", ARROW)
def test_times_stay_numbers(form: str) -> None:
    unit = {"orc": "ns", "parquet": "ms"}[form]
    schema = arrow_schema(KNOWN)
    inner = pa.struct([pa.field("size", pa.int64()), pa.field("at", pa.timestamp(unit))])
    schema = schema.set(2, pa.field("file", inner))
    records = [{**RECORD, "file": {"size": 1, "at": 1_700_000_000_123_000_001 if unit == "ns" else 1_700_000_000_123}}]
    with open_source(encoded(form, records, schema)) as source:
        found = read_records(source, KNOWN, "a test")
        again = list(found.records)
    assert again == records
    assert decoded(encode_records(found.format, found.schema, again)) == records


def test_an_avro_root_may_be_nullable_but_not_a_record() -> None:
    root = ["null", KNOWN]
    assert decoded(avro.encode(root, RECORDS)) == RECORDS
    with pytest.raises(NotCanonical, match="at byte 0: Avro record: expected a record, found null"):
        decoded(avro.encode(root, [None]))  # type: ignore[list-item]


def _without(name: str) -> Callable[[Any], Any]:
    return lambda schema: schema.remove(schema.get_field_index(name))


def _as(name: str, kind: pa.DataType) -> Callable[[Any], Any]:
    return lambda schema: schema.set(schema.get_field_index(name), pa.field(name, kind))


_SIZE = pa.struct([pa.field("size", pa.int64())])


@each("form", ARROW)
@each(
    ("change", "record", "kind", "message"),
    [
        (_without("name"), {}, Unsupported, "found no field name"),
        (_as("name", pa.int64()), {"name": 5}, Unsupported, "field name: 'long' in place of string"),
        (_as("texts", pa.string()), {"texts": "x"}, Unsupported, "field texts: 'string' in place of a array"),
        (_as("_KIND", pa.timestamp("ms")), {"_KIND": 5}, Unsupported, "field _KIND: .*in place of int"),
        (_as("name", pa.string()), {"name": None}, NotCanonical, "name: expected a value, found null"),
        (_as("file", _SIZE), {"file": {"size": None}}, NotCanonical, "size: expected a value, found null"),
        (_as("texts", pa.list_(pa.string())), {"texts": None}, NotCanonical, "texts: expected a value, found null"),
        (_as("texts", pa.list_(pa.string())), {"texts": [None]}, NotCanonical, "texts: expected a value, found null"),
        (_as("name", pa.binary()), {"name": b"a"}, Unsupported, "field name: 'bytes' in place of string"),
    ],
)
def test_other_fields_and_nulls_are_refused(
    form: str, change: Callable[[Any], Any], record: dict[str, Any], kind: type[DecodeError], message: str
) -> None:
    data = encoded(form, [RECORD | record], change(arrow_schema(KNOWN)))
    what = f"{'ORC' if form == 'orc' else 'Parquet'} schema: .*" if kind is Unsupported else ""
    with pytest.raises(kind, match=f"at byte 0: {what}{message}"):
        decoded(data)


@pytest.mark.parametrize("form", ARROW)
def test_fields_that_older_writers_lack_and_newer_ones_add(form: str) -> None:
    schema = arrow_schema(KNOWN)
    assert decoded(encoded(form, [RECORD], _without("raw")(schema))) == [
        {name: value for name, value in RECORD.items() if name != "raw"}
    ]
    for kind, value in ((pa.list_(pa.int64()), [5]), (pa.date32(), date(2026, 1, 2))):
        newer = schema.append(pa.field("new", kind))
        assert decoded(encoded(form, [RECORD | {"new": value}], newer)) == [RECORD | {"new": value}]


@pytest.mark.parametrize("form", ARROW)
def test_damage_ends_in_a_value_or_a_decode_error(form: str) -> None:
    data = encoded(form, RECORDS)
    check_truncations(decoded, data)
    for at in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        outcome(decoded, bytes(damaged))


@pytest.mark.parametrize("form", ARROW)
def test_limits_hold_after_decompression(form: str) -> None:
    data = encoded(form, [RECORD | {"texts": ["y" * 1000] * 50}] * 100)
    assert len(data) < 100_000
    with pytest.raises(LimitExceeded, match=r"at byte 0: Limits\.max_metadata_bytes"):
        decoded(data, limits=Limits(max_metadata_bytes=1_000_000))
    data = encoded(form, [RECORD] * 50_000)
    assert len(decoded(data, limits=Limits(max_records=50_000))) == 50_000
    with pytest.raises(LimitExceeded, match=r"at byte 0: Limits\.max_records"):
        decoded(data, limits=Limits(max_records=49_999))


@pytest.mark.parametrize("form", ARROW)
def test_what_is_wrong_is_said_in_one_line(form: str, tmp_path: Path) -> None:
    """Text that is not UTF-8 and a record that does not fit; of a damaged file, which one it is."""
    schema = arrow_schema(KNOWN)
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"], pa.binary()).buffers())
    arrays = [text if field.name == "name" else pa.array([RECORD[field.name]], field.type) for field in schema]
    path = tmp_path / "x"
    (orc if form == "orc" else pq).write_table(pa.Table.from_arrays(arrays, schema=schema), path)
    with pytest.raises(NotCanonical, match=r"at byte 0: record: expected readable values, found \S"):
        decoded(path.read_bytes())
    with pytest.raises(UsageError, match=rf"^a record does not fit the schema of the {form} file: \S.*$"):
        encoded(form, [RECORD | {"name": 5}])
    path.write_bytes(path.read_bytes()[:-20] + bytes(12) + path.read_bytes()[-8:])
    with pytest.raises(DecodeError) as caught, open_source(path) as source:
        list(read_records(source, KNOWN, "a test").records)
    assert caught.value.source == str(path)


def test_names_that_are_no_utf_8_are_a_fault_of_the_file() -> None:
    with pytest.raises(NotCanonical, match=r"^<bytes>: Parquet file: expected a readable footer, found 'utf-8' codec"):
        decoded(encoded("parquet", [RECORD]).replace(b"name", b"n\xffme"))
