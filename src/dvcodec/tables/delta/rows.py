"""Rows of a data file in the columns of the table, by physical position.

Partition values are those of the log, which serializes them as text: Delta's PROTOCOL.md, "Partition Value
Serialization".

Bounds of the columns of data files, by which files are skipped: "Per-file Statistics", JSON text in ``add.stats``, by
physical names of columns. They may be wide: once rows are deleted, they and the counts of nulls are those of the file
as it was written. Text is cut off, times are cut down to milliseconds. What the specification leaves open counts as
unknown:

- NaN: writers leave it out of bounds of floats, or not. So floats have none.
- delta-rs writes decimals as 64-bit floats: those that such a float may not hold are widened.
- Days and times before 1583 may be in another calendar than the data file's.
- Offsets of time zones had seconds once, the last until 1972. Delta Spark 3.2 and 3.3 leave them out (``+00:53`` for
  ``+00:53:28``), so that a time is up to 59 seconds off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from dvcodec.core.errors import DecodeError, NotCanonical
from dvcodec.core.extras import pa, types
from dvcodec.core.json_text import parse_json
from dvcodec.io import Storage
from dvcodec.tables.delta.protocol import TableSchema
from dvcodec.tables.metadata.json_fields import PartitionValue, parse_decimal
from dvcodec.tables.model import WHOLE, DataFile, Part, PhysicalRows
from dvcodec.tables.rows.bounds import ColumnBounds, RowGroupFilter, ending_text, safe_text
from dvcodec.tables.rows.columns import Column, Evolution, check_related, file_columns, is_text
from dvcodec.tables.rows.data_file import open_parquet, physical_batches, skipped_groups

_FLOAT_DIGITS = 15
"""Decimals of up to this many digits survive the conversion to a 64-bit float and back."""
_FLOAT_ERROR = Decimal("1e-15")
_WIDE = Context(prec=100)
_MICROSECONDS = 999
"""How far a time may be beyond its recorded millisecond."""
_GREGORIAN_YEARS = 1583
_LEFT_OUT, _WHOLE_MINUTES = 59_000_000, 94_694_400_000_000
"""Microseconds that an offset may lack, and the time from which on offsets have no seconds: 1973."""
SHORT_OFFSET = re.compile(r'"1(?:[5-8]|9[0-6]|97[0-2])[^"]{2,24}T[0-9:.]+[+-][0-9]{2}:(?!00|15|30|45)[0-9]{2}"')
"""A time in statistics whose offset had seconds, most probably."""
MAY_BE_SHORT_OFFSET = r'T[0-9:.]+[+-][0-9]{2}:[0-9]{2}"'
"""A time with an offset, for RE2, which finds all of `SHORT_OFFSET`."""
_ENDS = "\ufffd\U0010ffff"
"""What writers append to truncated text, so that it stays an upper bound."""


def parse_statistics(text: Any) -> Mapping[str, Any]:
    """Return the statistics of a data file; unreadable ones count as unknown."""
    if not isinstance(text, str):
        return {}
    try:
        found = parse_json(text, None, "statistics", parse_float=Decimal)
    except (DecodeError, ArithmeticError):
        return {}
    return found if isinstance(found, dict) else {}


def bounds_of(column: Column, statistics: Mapping[str, Any]) -> ColumnBounds:
    """Return the bounds of a column, not of the partition, by the statistics."""
    if column.children:
        return ColumnBounds()
    name = column.stored_name
    lower, upper, count = (_member(statistics, member, name) for member in ("minValues", "maxValues", "nullCount"))
    rows = statistics.get("numRecords")
    whole = type(count) is int and type(rows) is int
    return ColumnBounds(
        _scalar(column, lower, up=False),
        _scalar(column, upper, up=True),
        nulls=not (whole and count == 0),
        values=not (whole and count == rows),
    )


def _member(statistics: Mapping[str, Any], member: str, name: str) -> Any:
    found = statistics.get(member)
    return found.get(name) if isinstance(found, dict) else None


def _scalar(column: Column, value: Any, *, up: bool) -> pa.Scalar[Any] | None:
    types, kind = pa.types, column.type
    try:
        if types.is_integer(kind) or types.is_boolean(kind):
            return pa.scalar(value, kind) if type(value) is (bool if types.is_boolean(kind) else int) else None
        if types.is_decimal(kind):
            return _decimal(value, kind, up=up) if type(value) in (int, Decimal) else None
        if not isinstance(value, str):
            return None
        if types.is_string(kind):
            text = ending_text(value.rstrip(_ENDS)) if up else value
            return pa.scalar(text, kind) if text is not None and safe_text(text) else None
        if types.is_date(kind) or types.is_timestamp(kind):
            return _moment(value, kind, up=up)
    except (pa.ArrowException, ValueError, OverflowError, ArithmeticError):
        pass
    return None


def _decimal(value: int | Decimal, kind: pa.DataType, *, up: bool) -> pa.Scalar[Any] | None:
    number = Decimal(value)
    if kind.precision > _FLOAT_DIGITS:
        more = _WIDE.multiply(abs(number), _FLOAT_ERROR)
        number = _WIDE.add(number, more if up else -more)
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return pa.scalar(number.quantize(Decimal(1).scaleb(-kind.scale), rounding, _WIDE), kind)


def _moment(text: str, kind: pa.DataType, *, up: bool) -> pa.Scalar[Any] | None:
    if not text[:4].isdigit() or text[4:5] != "-" or int(text[:4]) < _GREGORIAN_YEARS:
        return None
    value = pa.scalar(text).cast(kind)
    if not pa.types.is_timestamp(kind):
        return value
    off = _LEFT_OUT if kind.tz is not None and value.value < _WHOLE_MINUTES else 0
    return pa.scalar(value.value + off + _MICROSECONDS if up else value.value - off, kind)


_BLANK = re.compile(r"[ \t\r\n]*")


def loosened(stats: str | None, rows: int, source: str) -> str:
    """Return statistics that are valid for a data file with deleted rows.

    ``tightBounds`` becomes false and ``numRecords`` the physical rows; every other member keeps its text: bounds are
    still bounds, and decimals are not read as floats.

    Args:
        stats: JSON text; None for none.
        rows: physical rows of the data file.
        source: of the action, for errors.

    Raises:
        NotCanonical: it is not a JSON object.

    >>> loosened('{"numRecords":2,"minValues":{"d":1.10},"tightBounds":true}', 2, "log")
    '{"numRecords":2,"minValues":{"d":1.10},"tightBounds":false}'
    """
    members = _members(stats, source) if stats else {}
    members |= {"numRecords": str(rows), "tightBounds": "false"}
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items()) + "}"


def _members(text: str, source: str) -> dict[str, str]:
    """Return the members of a JSON object with the text of their values."""
    decoder = json.JSONDecoder()
    found: dict[str, str] = {}
    try:
        at = _after(text, 0, "{")
        while text[at] != "}":
            if found:
                at = _after(text, at, ",")
            name, at = decoder.raw_decode(text, at)
            at = _after(text, at, ":")
            _, stop = decoder.raw_decode(text, at)
            found[str(name)] = text[at:stop]
            at = _skip(text, stop)
    except (ValueError, IndexError, RecursionError):
        raise NotCanonical("add.stats", source=source, expected="a JSON object", actual=repr(text)[:80]) from None
    return found


def _after(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if text[at] != sign:
        raise ValueError
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""Name of folders whose partition value is null."""


class PartitionReader:
    """Reads the partitions of data files; those that are equal are one object.

    Args:
        names: of the partition columns -> their names in ``partitionValues``.
        source: the log, for errors.
    """

    def __init__(self, names: Mapping[str, str], source: str) -> None:
        self.names = names
        self._source = source
        self._known: dict[tuple[tuple[str, str | None], ...], tuple[str | None, tuple[PartitionValue, ...]]] = {}

    def read(self, key: tuple[tuple[str, str | None], ...], path: str) -> tuple[str | None, tuple[PartitionValue, ...]]:
        """Return the partition of a data file, spelled like its folders (None without), and its values.

        Args:
            key: ``partitionValues`` of the file.
            path: of the file, for errors.

        Raises:
            NotCanonical: a value is missing.
        """
        found = self._known.get(key)
        if found is None:
            stored = dict(key)
            missing = self.names.values() - stored.keys()
            if missing:
                what, actual = f"add.partitionValues of {path}", f"no {min(missing)!r:.80}"
                raise NotCanonical(what, source=self._source, expected="all partition columns", actual=actual)
            values = {name: stored[physical] for name, physical in self.names.items()}
            label = "/".join(f"{name}={value or NULL_FOLDER}" for name, value in values.items())
            found = self._known[key] = (
                label or None,
                tuple(PartitionValue(name, "serialized", value) for name, value in key),
            )
        return found


def partition_scalar(values: Mapping[str, str | None], column: Column, source: str) -> pa.Scalar:
    """Return the value of a partition column in a data file.

    Timestamps without a zone are in the writer's zone, which is not recorded: they are read as UTC.

    Args:
        values: ``partitionValues`` of the file, which `PartitionReader.read` has found to be there.
        column: the partition column.
        source: the data file, for errors.

    Raises:
        NotCanonical: its text is not a value of the column's type.
    """
    text = values[column.stored_name]
    if not text:
        return pa.scalar(None, column.type)
    types, wanted = pa.types, column.type
    try:
        if types.is_binary(wanted):
            return pa.scalar(text.encode(), wanted)
        if types.is_timestamp(wanted) and wanted.tz is not None and not text.endswith("Z"):
            return pa.scalar(text).cast(pa.timestamp("us")).cast(wanted)
        if types.is_decimal(wanted):
            return pa.scalar(parse_decimal(text), wanted)
        return pa.scalar(text).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        what = f"partitionValues.{column.stored_name}"
        raise NotCanonical(what, source=source, expected=wanted, actual=repr(text)[:80]) from None


def in_folders(file: DataFile, columns: Iterable[Column]) -> bool:
    """Whether the folders of a data file name the values of partition columns as in Hive, and Spark reads them alike.

    That is so for types whose text means the same there and in the log.
    """
    folders = [folder.partition("=") for folder in file.path.split("/")[:-1]]
    named = {name: _unescaped(value) for name, _, value in folders}
    values = {one.column: one.value or NULL_FOLDER for one in file.partition_values or ()}
    tests = (types.is_string, types.is_signed_integer, types.is_date32)
    return len(named) == len(folders) == len(values) and all(
        column.stored_name == column.name
        and named.get(column.name) == values.get(column.name)
        and any(test(column.type) for test in tests)
        for column in columns
    )


def _unescaped(folder: str) -> str:
    """Return the name of a folder without Hive's escapes, each of which is one sign."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), folder)


_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits before the point that a decimal needs to hold integers of that many bits. For bytes and shorts the
specification says 10; Delta Spark accepts these."""


def read_rows(
    location: str,
    storage: Storage,
    columns: Sequence[Column],
    partition_values: Mapping[str, str | None],
    partition_columns: frozenset[str],
    batch_rows: int,
    schema: TableSchema | None = None,
    part: Part = WHOLE,
    wanted: RowGroupFilter | None = None,
) -> Iterator[PhysicalRows]:
    """Read a data file; see `Table.physical_rows`.

    Missing columns are null. A file with rows but without any column of the table is refused, whatever columns are
    requested: its names or ids are not those of the schema. It is read as nulls, as in Delta Spark, if its field ids
    show that all its columns were dropped.

    Args:
        location: location of the file.
        storage: opens it.
        columns: columns of the table to read.
        partition_values: partition values of the file, by physical name.
        partition_columns: columns that take their values from `partition_values`, even if the file has them.
        batch_rows: maximum rows in a batch.
        schema: schema of the table; None skips the check that the file has one of its columns.
        part: of the file.
        wanted: see `Snapshot.rows`.

    Raises:
        DecodeError: the file is corrupt, or does not match the table's schema.
        OSError: it cannot be read.
    """
    constants = {
        column.name: partition_scalar(partition_values, column, location)
        for column in columns
        if column.name in partition_columns
    }
    with open_parquet(location, storage) as file:
        stored = file_columns(file.schema_arrow, location)
        read = [column for column in columns if column.name not in constants]
        if read and read[0].id is not None and all(column.id is None for column in stored):
            raise NotCanonical("field ids of columns", source=location, expected="some", actual="none")
        if schema is not None and file.metadata.num_rows:
            keys = [key for key in schema.stored_among(stored) if key.name not in partition_columns]
            if not keys and not (stored and all(map(schema.was_dropped, stored))):
                keys = [key for key in schema.stored if key.name not in partition_columns]  # for the error
            check_related(stored, keys, location, schema.was_dropped)
        evolution = DeltaEvolution(location, columns, stored, constants)
        skip = skipped_groups(file, evolution, wanted, part)
        for start, batch in physical_batches(file, evolution.names, batch_rows=batch_rows, skip=skip):
            yield PhysicalRows(start, evolution.apply(batch, start))


class DeltaEvolution(Evolution):
    """Reads types that Delta widens, and other ways to store a type in Parquet."""

    def promotes(self, found: pa.DataType, column: Column) -> bool:
        """Whether a type is read as another: one that Delta widens, or another way to store it in Parquet.

        Specification: Delta's PROTOCOL.md, "Type Widening" and "Delta Data Type to Parquet Type Mappings".
        """
        wanted = column.type
        if types.is_string(wanted) or types.is_binary(wanted):
            return is_text(found)
        if types.is_signed_integer(wanted):
            # Not every writer annotates the INT32 of bytes and shorts; the cast checks the values.
            return types.is_signed_integer(found) and bool(found.bit_width <= max(wanted.bit_width, 32))
        if types.is_float64(wanted):
            return types.is_float32(found) or (types.is_signed_integer(found) and bool(found.bit_width <= 32))
        if types.is_decimal(wanted):
            before = wanted.precision - wanted.scale
            if types.is_signed_integer(found):
                return bool(before >= _DIGITS[found.bit_width])
            return types.is_decimal(found) and bool(
                wanted.scale >= found.scale and before >= found.precision - found.scale
            )
        if types.is_timestamp(wanted):
            return types.is_timestamp(found) or (types.is_date(found) and wanted.tz is None)
        return False
