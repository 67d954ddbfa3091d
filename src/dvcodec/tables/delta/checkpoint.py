"""Checkpoints: all actions of a version in a few files, mostly Parquet.

Specification: Delta's PROTOCOL.md, "Checkpoint Specs" and "Checkpoint Schema". A column for each kind of action, a
struct that is null in the rows of all others. A V2 checkpoint may be JSON, and may leave ``add`` and ``remove`` to
*sidecars*, Parquet files in ``_sidecars`` that it names.

Statistics that a checkpoint has as columns only (``stats_parsed``), as the JSON text of ``add.stats``.

Specification: Delta's PROTOCOL.md, "Per-file Statistics" and "Checkpoint Schema". Tables with the properties
``delta.checkpoint.writeStatsAsJson=false`` and ``delta.checkpoint.writeStatsAsStruct=true`` have such checkpoints. The
text is what Delta Spark makes of them, by Spark's ``to_json``: nulls are left out, times are cut down to milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dvcodec.core.errors import NotCanonical
from dvcodec.core.extras import pa, pc, pq
from dvcodec.io.parquet import column_chunks
from dvcodec.tables.delta.actions import parse_lines, plain_path
from dvcodec.tables.delta.log import LOG, SIDECARS
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.rows.data_file import open_metadata, physical_batches

_ESCAPED = r'["\\\x00-\x1f]'
_YEARS = ("0001-01-01", "9999-12-31")
"""Years that JSON writes in four digits; dates and times beyond are left out, as unknown."""


def json_text(values: pa.Array) -> pa.Array:
    r"""Return values as JSON text, a column at a time; null for nulls, and for types that have no statistics.

    >>> import pyarrow as pa
    >>> json_text(pa.array([{"minValues": {"a": 'x"', "b": None}}]))[0].as_py()
    '{"minValues":{"a":"x\\""}}'
    """
    types, kind = pa.types, values.type
    if types.is_struct(kind):
        return _object(values)
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return values.cast(pa.string())
    if types.is_floating(kind):
        text = values.cast(pa.string())
        for found, name in (("nan", '"NaN"'), ("-nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
            text = pc.if_else(pc.equal(text, found), name, text)
        return text
    if types.is_string(kind) or types.is_large_string(kind):
        return _quoted(_escaped(values.cast(pa.string())))
    if types.is_date(kind):
        return _quoted(_in_years(values.cast(pa.date32())).cast(pa.string()))
    if types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        moments = pc.floor_temporal(_in_years(values.cast(pa.timestamp(kind.unit))), unit="millisecond")
        text = moments.cast(pa.timestamp("ms")).cast(pa.string())
        return _quoted(pc.replace_substring(text, " ", "T"), zone)
    return pa.nulls(len(values), pa.string())


def name_bytes(kind: pa.DataType) -> int:
    r"""Return how many bytes the names of members are in the text of a value that has them all.

    >>> import pyarrow as pa
    >>> name_bytes(pa.struct([("minValues", pa.struct([("a", pa.int32()), ("\u00e9", pa.int32())]))]))
    24
    """
    if not pa.types.is_struct(kind):
        return 0
    return sum(len(_name(field)) + name_bytes(field.type) for field in kind)


def _name(field: pa.Field) -> bytes:
    """Return what is in front of the value of a member, in UTF-8."""
    return f",{json.dumps(field.name, ensure_ascii=False)}:".encode()


def _object(values: pa.StructArray) -> pa.Array:
    members = [
        pc.binary_join_element_wise(_name(field).decode(), json_text(child), "")
        for field, child in zip(values.type, values.flatten(), strict=True)
    ]
    opening = pa.repeat(pa.scalar("{"), len(values))
    # Not joined by commas: where all members are null, pyarrow 26 then leaves out the row.
    text = pc.binary_join_element_wise(opening, *members, "}", "", null_handling="replace", null_replacement="")
    text = pc.replace_substring(text, "{,", "{", max_replacements=1)
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))


def _quoted(text: Any, end: str = "") -> Any:
    return pc.binary_join_element_wise('"', text, f'{end}"', "")


def _escaped(text: Any) -> Any:
    if not pc.any(pc.match_substring_regex(text, _ESCAPED)).as_py():
        return text
    for sign in ("\\", '"', *map(chr, range(0x20))):
        text = pc.replace_substring(text, sign, json.dumps(sign)[1:-1])
    return text


def _in_years(values: Any) -> Any:
    days = values.cast(pa.date32(), safe=False)
    first, last = (pa.scalar(text).cast(pa.date32()) for text in _YEARS)
    there = pc.and_(pc.greater_equal(days, first), pc.less_equal(days, last))
    return pc.if_else(there, values, pa.scalar(None, values.type))


_PARSED, _PARSED_ROWS = "stats_parsed", "stats_parsed.numRecords"
_FILE = (
    *("path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector"),
    *("baseRowId", "defaultRowCommitVersion", "clusteringProvider"),
)
_MEMBERS = {
    "add": (*_FILE, _PARSED_ROWS),
    "remove": (*_FILE, "deletionTimestamp", "extendedFileMetadata"),
    "metaData": (),
    "protocol": (),
    "sidecar": ("path",),
    "checkpointMetadata": ("version",),
    "txn": ("appId", "version"),
}
"""Members to read, by action; all if none is named. Column statistics are most of a checkpoint: they are read as text,
and as columns where there is no text."""
_BATCH_ROWS, _BATCH_BYTES = 1 << 12, 1 << 26
"""Rows of a batch, whose statistics may have kilobytes each; and the names in the text that is made of statistics."""


def read_checkpoint(
    folder: Folder, names: tuple[str, ...], version: int, known: set[str] | None = None
) -> Iterator[JsonFields]:
    """Yield the actions of a checkpoint, those in its sidecars too.

    Args:
        folder: the table's.
        names: names of its files in the log.
        version: the version that it must have.
        known: locations of sidecars to leave out, because their actions are known; those that are read are added.

    Raises:
        DecodeError: a file is corrupt.
        OSError: a file cannot be read.
    """
    sidecars, kinds = set(), set()
    for name in names:
        for action in _top(folder, name):
            kinds.add(action.where)
            if action.where == "sidecar":
                location = _sidecar(folder, action)
                if location in sidecars:
                    action.fail("path", "each sidecar once", f"{action.text('path')!r:.80} twice")
                sidecars.add(location)
                if known is None or location not in known:
                    yield from _actions(folder, location, ("add", "remove"))
            elif action.where == "checkpointMetadata" and action.integer("version") != version:
                action.fail("version", version, action.integer("version"))
            yield action
    if not kinds:
        raise NotCanonical("checkpoint", source=folder.join(f"{LOG}/{names[0]}"), expected="actions", actual="none")
    if known is not None:
        known |= sidecars


def read_sidecars(folder: Folder, name: str) -> Iterator[str]:
    """Yield the locations of the sidecars that a file of a checkpoint names.

    Raises:
        DecodeError: it is corrupt.
        OSError: it cannot be read.
    """
    for action in _top(folder, name, ("sidecar",)):
        if action.where == "sidecar":
            yield _sidecar(folder, action)


def _top(folder: Folder, name: str, kinds: tuple[str, ...] = tuple(_MEMBERS)) -> Iterator[JsonFields]:
    location = folder.join(f"{LOG}/{name}")
    if name.endswith(".json"):
        return parse_lines(folder.read(f"{LOG}/{name}"), location)
    return _actions(folder, location, kinds)


def _sidecar(folder: Folder, action: JsonFields) -> str:
    """Return the location of a sidecar: in the log's own folder, whether recorded by bare name or absolute path."""
    path = plain_path(action)
    above, _, name = path.rpartition("/")
    if name in ("", ".", "..") or (above and not f"/{above}".endswith(f"/{SIDECARS}")):
        action.fail("path", f"a file in {SIDECARS}", repr(path)[:80])
    return folder.join(f"{SIDECARS}/{name}")


def _actions(folder: Folder, location: str, kinds: tuple[str, ...]) -> Iterator[JsonFields]:
    """Yield the actions of a Parquet file, by kind in each batch."""
    with open_metadata(location, folder.storage) as file:
        folder.storage.limits.check("max_records", file.metadata.num_rows, location)
        schema = file.schema_arrow
        columns = _columns(schema, kinds, location)
        rows, all_, batch_rows = f"add.{_PARSED_ROWS}", f"add.{_PARSED}", _BATCH_ROWS
        if rows in columns and not _has_json(file):
            columns[columns.index(rows)] = all_
            names = name_bytes(schema.field("add").type.field(_PARSED).type)  # in the text of every row
            batch_rows = max(min(_BATCH_ROWS, _BATCH_BYTES // max(names, 1)), 1)
        for start, batch in physical_batches(file, columns, batch_rows=batch_rows):
            for name in batch.schema.names:
                yield from _rows(batch.column(name), name, start, location)


def _columns(schema: pa.Schema, kinds: tuple[str, ...], location: str) -> list[str]:
    """Choose the `_MEMBERS` that exist."""
    found = []
    for name in kinds:
        if schema.get_field_index(name) < 0:
            continue
        kind = schema.field(name).type
        if not pa.types.is_struct(kind):
            raise NotCanonical(f"column {name}", source=location, expected="a struct", actual=kind)
        there = {field.name for field in kind}
        wanted = _MEMBERS[name] or sorted(there)
        found += [f"{name}.{member}" for member in wanted if member.partition(".")[0] in there]
    return found


def _has_json(file: pq.ParquetFile) -> bool:
    """Whether all data files of a checkpoint have statistics as text."""
    leaves = {file.schema.column(i).path for i in range(len(file.schema))}
    wanted = ("add", "path"), ("add", "stats")
    if not leaves.issuperset(map(".".join, wanted)):
        return False
    known = column_chunks(file, wanted)
    for number in range(file.num_row_groups):
        paths, texts = (known[path][number].nulls if path in known else None for path in wanted)
        if paths is None or texts is None:
            paths = texts = 0
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[number], columns=["add.path", "add.stats"]):
                missing = [pc.struct_field(batch.column("add"), name).null_count for name in ("path", "stats")]
                paths, texts = paths + missing[0], texts + missing[1]
        if texts > paths:
            return False
    return True


def _rows(column: pa.StructArray, name: str, start: int, location: str) -> Iterator[JsonFields]:
    """Yield the rows of one kind of action that are not null, by column: row by row pyarrow is far slower."""
    there = column.is_valid()
    numbers = pc.indices_nonzero(there).to_pylist()  # numpy would have pyarrow import pandas
    column = column.filter(there)
    try:
        values = {member: _values(array) for member, array in _members(column).items()}
    except (pa.ArrowException, ValueError, OverflowError) as err:  # text that is not UTF-8, a date out of range
        message = str(err)[:80]
        raise NotCanonical(f"column {name}", source=location, expected="readable values", actual=message) from None
    for number, members in zip(numbers, zip(*values.values(), strict=True), strict=True):
        record = {key: value for key, value in zip(values, members, strict=True) if value is not None}
        yield JsonFields(record, f"{location}, row {start + number}", name)


def _members(column: pa.StructArray) -> dict[str, pa.Array]:
    """Return the members of actions; statistics that are stored only as columns are converted to text."""
    found = {field.name: column.field(field.name) for field in column.type}
    parsed, text = found.get(_PARSED), found.get("stats")
    if parsed is None or not pa.types.is_struct(parsed.type) or parsed.type.num_fields < 2:
        return found
    if text is None or pa.types.is_string(text.type):
        made = json_text(parsed)
        found["stats"] = made if text is None else pc.coalesce(text, made)
    kept = [name for name in parsed.type.names if name == "numRecords"]
    found[_PARSED] = pa.StructArray.from_arrays([parsed.field(name) for name in kept], kept, mask=parsed.is_null())
    return found


def _values(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    if pa.types.is_map(array.type):
        return [None if entries is None else dict(entries) for entries in values]
    if pa.types.is_struct(array.type) and any(pa.types.is_map(field.type) for field in array.type):
        members = {field.name: _values(array.field(field.name)) for field in array.type}
        rows = (dict(zip(members, row, strict=True)) for row in zip(*members.values(), strict=True))
        return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]
    return values
