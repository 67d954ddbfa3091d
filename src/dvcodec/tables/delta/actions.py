"""Actions of checkpoints and commits, in columns where they are many.

Checkpoints are all actions of a version in a few files, mostly Parquet ("Checkpoint Specs", "Checkpoint Schema"): a
column for each kind of action, a struct that is null in the rows of all others. A V2 checkpoint may be JSON, and may
leave ``add`` and ``remove`` to *sidecars*, Parquet files in ``_sidecars`` that it names.

Statistics that a checkpoint has as columns only (``stats_parsed``, of tables with
``delta.checkpoint.writeStatsAsJson=false``) become the JSON text of ``add.stats``, as Delta Spark makes it by Spark's
``to_json``: nulls are left out, times are cut down to milliseconds.

Commits have a JSON object in each line; data files that are added one after another become columns, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from itertools import groupby, islice
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np

from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.extras import json_reader, pa, pc, pq
from dvcodec.core.json_text import parse_json
from dvcodec.core.ragged import Flags, Index
from dvcodec.delta import MEMBERS
from dvcodec.io.parquet import column_chunks
from dvcodec.tables.columns import MOST_NUMBER, ODD, UNKNOWN
from dvcodec.tables.delta.log import (
    FIRST_ROWS,
    LOG,
    SIDECARS,
    FileKey,
    actions_in,
    lines_of,
    parse_lines,
    plain_path,
    vector_path,
)
from dvcodec.tables.folder import MOST_CHARACTERS, Folder
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.rows.bounds import Range
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


def _object(values: pa.StructArray) -> pa.Array:
    members = [
        pc.binary_join_element_wise(f",{json.dumps(field.name, ensure_ascii=False)}:", json_text(child), "")
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
_BATCH_ROWS, _PARSED_BATCH_ROWS = 1 << 12, 1 << 8
"""Rows of a batch, whose statistics may have kilobytes each; and of one of which text is made, with all names in it."""


def read_batches(
    folder: Folder, names: tuple[str, ...], version: int, known: set[str] | None = None
) -> Iterator[Actions]:
    """Yield the actions of a checkpoint, those in its sidecars too, by kind in each batch of rows.

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
        for actions in _top(folder, name):
            where = kind_of(actions)
            kinds.add(where)
            for action in actions if where in ("sidecar", "checkpointMetadata") else ():
                if action.where == "checkpointMetadata":
                    if action.integer("version") != version:
                        action.fail("version", version, action.integer("version"))
                    continue
                location = _sidecar(folder, action)
                if location in sidecars:
                    action.fail("path", "each sidecar once", f"{action.text('path')!r:.80} twice")
                sidecars.add(location)
                if known is None or location not in known:
                    yield from _actions(folder, location, ("add", "remove"))
            yield actions
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
    for actions in _top(folder, name, ("sidecar",)):
        if kind_of(actions) == "sidecar":
            yield from (_sidecar(folder, action) for action in actions)


def _top(folder: Folder, name: str, kinds: tuple[str, ...] = tuple(_MEMBERS)) -> Iterator[Actions]:
    location = folder.join(f"{LOG}/{name}")
    if name.endswith(".json"):
        return ([action] for action in parse_lines(folder.read(f"{LOG}/{name}"), location))
    return _actions(folder, location, kinds)


def _sidecar(folder: Folder, action: JsonFields) -> str:
    """Return the location of a sidecar: in the log's own folder, whether recorded by bare name or absolute path."""
    path = plain_path(action)
    above, _, name = path.rpartition("/")
    if name in ("", ".", "..") or (above and not f"/{above}".endswith(f"/{SIDECARS}")):
        action.fail("path", f"a file in {SIDECARS}", repr(path)[:80])
    return folder.join(f"{SIDECARS}/{name}")


def _actions(folder: Folder, location: str, kinds: tuple[str, ...]) -> Iterator[Actions]:
    """Yield the actions of a Parquet file, by kind in each batch."""
    with open_metadata(location, folder.storage) as file:
        folder.storage.limits.check("max_records", file.metadata.num_rows, location)
        schema = file.schema_arrow
        columns = _columns_of(schema, kinds, location)
        rows, all_, batch_rows = f"add.{_PARSED_ROWS}", f"add.{_PARSED}", _BATCH_ROWS
        if rows in columns and not _has_json(file):
            columns[columns.index(rows)] = all_
            batch_rows = _PARSED_BATCH_ROWS
        for start, batch in physical_batches(file, columns, batch_rows=batch_rows):
            for name in batch.schema.names:
                column = batch.column(name)
                if column.null_count < len(column):
                    yield Columns(column, name, start, location)


def _columns_of(schema: pa.Schema, kinds: tuple[str, ...], location: str) -> list[str]:
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
    """Whether all data files of a checkpoint have statistics as text, by the counts of nulls in its footer."""
    path, text = wanted = ("add", "path"), ("add", "stats")
    known = column_chunks(file, wanted)
    if len(known) < len(wanted):
        return False
    counts = ((paths.nulls, texts.nulls) for paths, texts in zip(known[path], known[text], strict=True))
    return all(paths is not None and texts is not None and texts <= paths for paths, texts in counts)


class Columns:
    """Actions of one kind in a batch of rows: most are never looked at one by one.

    Attributes:
        where: the kind.
        are_usual: whether they are `add` or `remove` as engines write them: `AddFile.parse` finds nothing wrong with
            them, and each path is its own `file_key`. What else is known of data files is known of usual ones alone.
        paths: those of the data files.
        ids: the unique ids of their vectors, null without one.

    Args:
        column: null in the rows of other actions.
        where: the kind.
        start: number of the first row in the file.
        location: the file, for errors.

    Raises:
        NotCanonical: text is not UTF-8.
    """

    def __init__(self, column: pa.StructArray, where: str, start: int, location: str) -> None:
        self.where = where
        self._start, self._location = start, location
        there = column.is_valid()
        self._numbers = pc.indices_nonzero(there)
        self._column = column.filter(there)
        with self._readable():
            self._column.validate(full=True)
        usual = _usual_files(self._column, where) if where in ("add", "remove") else None
        self.are_usual = usual is not None
        self.paths, self.ids = usual or ([], pa.nulls(0, pa.string()))

    def __len__(self) -> int:
        return len(self._column)

    def __iter__(self) -> Iterator[JsonFields]:
        yield from map(self.__getitem__, range(len(self._column)))

    def __getitem__(self, number: int) -> JsonFields:
        names, records, numbers = self._records
        record = {key: value for key, value in zip(names, records[number], strict=True) if value is not None}
        return JsonFields(record, f"{self._location}, row {self._start + numbers[number]}", self.where)

    def key(self, number: int) -> FileKey:
        """Return the identity of a logical file."""
        return self.paths[number], self.ids[number].as_py()

    @property
    def keys(self) -> Iterator[FileKey]:
        """The identities of the logical files."""
        return zip(self.paths, self.ids.to_pylist(), strict=True)

    @cached_property
    def partitions(self) -> tuple[Index, Sequence[Partition]]:
        """The different partition values, and which of them each data file has: int64[n]."""
        return _partitions_of(self._column.field("partitionValues"))

    @cached_property
    def sizes(self) -> Index:
        """Bytes of the data files: int64[n]."""
        return as_numbers(self._column.field("size"))

    @cached_property
    def rows(self) -> Index:
        """Rows of the data files: int64[n], `UNKNOWN` if they are not recorded."""
        return as_numbers(_rows_of(self._column))

    @cached_property
    def has_vector(self) -> Flags:
        """Which data files have a vector: bool[n]."""
        return np.asarray(self.ids.is_valid().to_numpy(zero_copy_only=False))

    def vector_member(self, name: str, rows: Index) -> pa.Array:
        """Return a member of the descriptors of those of some data files that have a vector."""
        if not self.has_vector.any():  # there may be no column of them
            return pa.nulls(0, pa.int64())
        vectors = self._column.field("deletionVector").take(pa.array(rows[self.has_vector[rows]]))
        return vectors.flatten()[vectors.type.get_field_index(name)]

    def vector_paths(self) -> list[str]:
        """Return the different paths of the vectors."""
        texts = self.vector_member("pathOrInlineDv", np.arange(len(self)))
        return [vector_path("u", text) for text in pc.unique(texts).to_pylist()]

    @property
    def statistics(self) -> pa.Array | None:
        """The statistics of data files as text, null where there are none; None if there is no such column."""
        text = self._column.field("stats") if self._column.type.get_field_index("stats") >= 0 else None
        return text if text is not None and pa.types.is_string(text.type) else None

    @property
    def may_have_statistics(self) -> Flags:
        """Which data files may have statistics."""
        text = self.statistics
        if text is None or self._column.type.get_field_index(_PARSED) >= 0:
            return np.ones(len(self), np.bool_)
        return np.asarray(text.is_valid())

    def may_have(self, name: str, kind: pa.DataType, wanted: Range) -> Flags | None:
        """Return which of the data files may have values in a range, by their statistics; None if they do not say.

        Args:
            name: the physical name of the column.
            kind: its type, an integer.
            wanted: the range.
        """
        if name not in self._bounds:
            self._bounds[name] = integer_bounds(self.statistics, name, kind)
        return may_be_between(self._bounds[name], wanted)

    @cached_property
    def _bounds(self) -> dict[str, tuple[pa.Array, pa.Array] | None]:
        return {}

    @cached_property
    def _records(self) -> tuple[list[str], list[tuple[Any, ...]], list[int]]:
        """All values, by column: row by row pyarrow is far slower."""
        with self._readable():
            values = {member: _values(array) for member, array in _members(self._column).items()}
        records = list(zip(*values.values(), strict=True))
        return list(values), records, self._numbers.to_pylist()  # numpy would have pyarrow import pandas

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, ValueError, OverflowError) as err:  # text that is not UTF-8, a date out of range
            message = str(err)[:80]
            what = f"column {self.where}"
            raise NotCanonical(what, source=self._location, expected="readable values", actual=message) from None


Actions: TypeAlias = "Columns | list[JsonFields]"
"""Actions of one kind: in columns, or one of a JSON file."""


def kind_of(actions: Actions) -> str:
    """Return the kind of actions, of which there is at least one."""
    return actions.where if isinstance(actions, Columns) else actions[0].where


_STEP = r"[A-Za-z0-9_=-][ -.0-\[\]-~]*"
_USUAL_PATH = rf"^[A-Za-z0-9_=-][A-Za-z0-9_.,+ -]*(?:=[ -.0-\[\]-~]*)?(?:/{_STEP})*$"
"""A relative path in its normal form: no URL, no drive, no step that is empty or begins with a dot."""
_MOST_INT32 = 2**31 - 1


def _usual_files(column: pa.StructArray, where: str) -> tuple[list[str], pa.Array] | None:
    """Return the paths and unique ids of logical files if all actions are as engines write them, else None.

    `AddFile.parse` finds nothing wrong with such actions, and all their files are below the table's folder.
    """
    fields = {field.name: column.field(field.name) for field in column.type}
    if where == "add" and not (_is_usual_file(fields) and _are_usual_statistics(fields)):
        return None
    paths, ids = _usual_paths(fields.get("path")), _usual_ids(fields.get("deletionVector"), len(column))
    return None if paths is None or ids is None else (paths, ids)


def _is_usual_file(fields: Mapping[str, pa.Array]) -> bool:
    size, values = fields.get("size"), fields.get("partitionValues")
    if size is None or values is None or size.null_count or values.null_count or not pa.types.is_map(values.type):
        return False
    of_text = pa.types.is_string(values.type.key_type) and pa.types.is_string(values.type.item_type)
    return of_text and pa.types.is_signed_integer(size.type) and _all(pc.greater_equal(size, 0))


def _are_usual_statistics(fields: Mapping[str, pa.Array]) -> bool:
    """Whether the row counts are known, or unknown, without parsing all statistics."""
    text, parsed = fields.get("stats"), fields.get(_PARSED)
    known = pa.scalar(False)
    if parsed is not None and not pa.types.is_struct(parsed.type):
        return False
    if parsed is not None and "numRecords" in parsed.type.names:
        rows = parsed.flatten()[parsed.type.get_field_index("numRecords")]
        if not pa.types.is_signed_integer(rows.type) or pc.any(pc.less(rows, 0)).as_py():
            return False
        known = pc.is_valid(rows)
    if text is None or not pa.types.is_string(text.type):
        return text is None
    is_first, counts = pc.match_substring_regex(text, FIRST_ROWS), pc.count_substring(text, '"numRecords"')
    usual = pc.and_(is_first, pc.equal(counts, 1))
    return _all(pc.or_(known, pc.fill_null(usual, True)))


def _usual_paths(path: pa.Array | None) -> list[str] | None:
    if path is None or not pa.types.is_string(path.type) or path.null_count:
        return None
    texts: list[str] = path.to_pylist()
    if pc.any(pc.match_substring(path, "%")).as_py():
        try:
            texts = [unquote(text, errors="strict") for text in texts]
        except UnicodeDecodeError:
            return None
        path = pa.array(texts, pa.string())
    usual = pc.and_not(pc.match_substring_regex(path, _USUAL_PATH), pc.match_substring(path, "::"))
    return texts if _all(pc.and_(usual, pc.less_equal(pc.binary_length(path), MOST_CHARACTERS))) else None


def _usual_ids(vector: pa.Array | None, count: int) -> pa.Array | None:
    """Return the unique ids of the vectors in files of their own names; null for actions without one."""
    if vector is None:
        return pa.nulls(count, pa.string())
    kinds = {field.name: field.type for field in vector.type} if pa.types.is_struct(vector.type) else {}
    numbers = ("sizeInBytes", "cardinality", "offset")
    of_text = all(name in kinds and pa.types.is_string(kinds[name]) for name in ("storageType", "pathOrInlineDv"))
    if not of_text or not all(name in kinds and pa.types.is_signed_integer(kinds[name]) for name in numbers):
        return None
    members = dict(zip(kinds, vector.flatten(), strict=True))
    storage, text, size, cardinality, offset = (members[name] for name in ("storageType", "pathOrInlineDv", *numbers))
    absent = reduce(pc.and_, (pc.is_null(member) for member in members.values()))
    usual = reduce(
        pc.and_kleene,
        (
            pc.equal(storage, "u"),
            pc.is_valid(text),
            _between(size, _MOST_INT32),
            pc.greater_equal(cardinality, 0),
            pc.fill_null(_between(offset, _MOST_INT32), True),
        ),
    )
    if not _all(pc.or_(absent, pc.fill_null(usual, False))):
        return None
    try:
        paths = [vector_path("u", one) for one in pc.unique(text.filter(pc.is_valid(storage))).to_pylist()]
    except (DecodeError, UsageError):
        return None
    if not all(re.fullmatch(_USUAL_PATH, path) for path in paths):
        return None
    place = pc.if_else(pc.is_null(offset), "", pc.binary_join_element_wise("@", offset.cast(pa.string()), ""))
    return pc.binary_join_element_wise("u", text, place, "")


def _rows_of(column: pa.StructArray) -> pa.Array:
    """Return the row counts of actions with usual statistics."""
    fields = {field.name: column.field(field.name) for field in column.type}
    text, parsed = fields.get("stats"), fields.get(_PARSED)
    rows = pa.nulls(len(column), pa.int64())
    if parsed is not None and "numRecords" in parsed.type.names:
        rows = parsed.flatten()[parsed.type.get_field_index("numRecords")].cast(pa.int64())
    if text is None or rows.null_count == 0:
        return rows
    first = pc.struct_field(pc.extract_regex(text, FIRST_ROWS), [0])
    return pc.coalesce(rows, first.cast(pa.int64()))


Partition: TypeAlias = "tuple[tuple[str, str | None], ...]"
"""``partitionValues``, by physical name of the column."""


def _partitions_of(column: pa.MapArray) -> tuple[Index, Sequence[Partition]]:
    """Return the different values of a column, without nulls, and which of them each row has."""
    offsets = column.offsets.to_numpy()
    counts = np.diff(offsets)
    most = int(counts.max()) if len(counts) else 0
    ends = int(offsets[0]), int(offsets[-1])
    codes = np.zeros(len(column), np.int64)
    for part in (column.keys, column.items):
        values = part.slice(ends[0], ends[1] - ends[0]).dictionary_encode()
        each = pc.fill_null(values.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        for place in range(most):
            there = counts > place
            code = np.zeros(len(column), np.int64)
            code[there] = each[offsets[:-1][there] - ends[0] + place] + 1
            codes = np.unique(codes * (len(values.dictionary) + 2) + code, return_inverse=True)[1].reshape(-1)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    found: list[list[tuple[str, str | None]]] = column.take(pa.array(first)).to_pylist()
    return codes.reshape(-1).astype(np.int64), [tuple(dict(values).items()) for values in found]


def as_numbers(values: pa.Array) -> Index:
    """Return whole numbers that are not negative as int64; see `UNKNOWN` and `ODD`."""
    found = pc.fill_null(values.cast(pa.int64(), safe=False), UNKNOWN).to_numpy(zero_copy_only=False)
    return np.where(found > MOST_NUMBER, ODD, found)


def may_be_between(bounds: tuple[pa.Array, pa.Array] | None, wanted: Range) -> Flags | None:
    """Return which data files may have values in a range; None if the bounds do not say.

    Args:
        bounds: see `integer_bounds`.
        wanted: the range.
    """
    if bounds is None:
        return None
    lower, upper = bounds
    may = [pc.fill_null(pc.less_equal(lower, wanted.high), True)] if wanted.high is not None else []
    may += [pc.fill_null(pc.greater_equal(upper, wanted.low), True)] if wanted.low is not None else []
    return np.asarray(reduce(pc.and_, may)) if may else None


def integer_bounds(text: pa.Array | None, name: str, kind: pa.DataType) -> tuple[pa.Array, pa.Array] | None:
    """Return the least and the greatest value of a column in each data file, null where it is not known; None: never.

    One reader for all of a batch takes a tenth of the time of a parser for each text. Where it stumbles, over one
    number that the type does not have, the texts are left to be parsed one by one.
    """
    if text is None or text.null_count == len(text):
        return None
    of_name = pa.struct([(name, kind)])
    options = json_reader.ParseOptions(
        explicit_schema=pa.schema([("minValues", of_name), ("maxValues", of_name)]), unexpected_field_behavior="ignore"
    )
    lines = "\n".join(pc.fill_null(text, "{}").to_pylist()).encode()
    try:
        read = json_reader.read_json(
            pa.BufferReader(lines), json_reader.ReadOptions(use_threads=False, block_size=len(lines) + 1), options
        )
    except pa.ArrowException:
        return None
    if len(read) != len(text):
        return None
    lower, upper = (pc.struct_field(read.column(member), [0]) for member in ("minValues", "maxValues"))
    return lower, upper


def _between(values: pa.Array, most: int) -> pa.Array:
    return pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, most))


def _all(values: pa.Array) -> bool:
    """Whether all are true, and none is null."""
    return bool(pc.all(values, skip_nulls=False).as_py())


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


# ---------------------------------------------------------------------- commits

_LEAST, _MOST = 64, 1 << 12
"""Lines that become columns together."""
_ADD = re.compile(r'\{ ?"add": ?\{')


def commit_actions(data: bytes, source: str) -> Iterator[Actions]:
    """Return the actions of a commit in order; other entries are ignored.

    Args:
        data: the commit.
        source: its file, for errors.

    Raises:
        NotCanonical: a line is not a JSON object.
    """
    lines, number = lines_of(data, source), 1
    while batch := list(islice(lines, _MOST)):
        for is_add, group in groupby(batch, lambda line: _ADD.match(line) is not None):
            some = list(group)
            columns = _added(some, source, number) if is_add and len(some) >= _LEAST else None
            if columns is None:
                yield from ([action] for action in actions_in(some, source, number))
            else:
                yield columns
            number += len(some)


class _Added(Columns):
    """Data files that a commit adds; their lines are parsed again when they are looked at."""

    def __init__(self, column: pa.StructArray, source: str, lines: Sequence[str], first: int) -> None:
        super().__init__(column, "add", first, source)
        self._lines = lines

    def __getitem__(self, number: int) -> JsonFields:
        where = f"{self._location}, line {self._start + number}"
        return JsonFields.of(parse_json(self._lines[number], where, "action")["add"], where, "add")


_REQUIRED = ("modificationTime", "dataChange")
_VECTOR = {name: kind for name, _, kind in MEMBERS}


def _added(lines: Sequence[str], source: str, first: int) -> Columns | None:
    """Return the actions in lines as columns; None if one of them is anything but an `add` as engines write it.

    `ActionChecks` finds nothing in such actions, and `AddFile.parse` nothing wrong with them; see `Columns`.
    """
    try:
        records = [json.loads(line) for line in lines]
        files: list[dict[str, Any]] = [record["add"] for record in records if len(record) == 1]
        if len(files) < len(lines) or any("stats_parsed" in file for file in files):
            return None
        if any(file[name] is None for file in files for name in _REQUIRED):
            return None
        names = ["path", "partitionValues", "size", "stats"]
        columns = [
            _array([file["path"] for file in files], str),
            pa.array([list(file["partitionValues"].items()) for file in files], pa.map_(pa.string(), pa.string())),
            _array([file["size"] for file in files], int),
            _array([file.get("stats") for file in files], str),
        ]
        vectors = [file.get("deletionVector") for file in files]
        if any(vector is not None for vector in vectors):
            names.append("deletionVector")
            columns.append(_vectors(vectors))
    except (pa.ArrowException, AttributeError, LookupError, RecursionError, TypeError, ValueError, OverflowError):
        return None  # each of them says so
    found = _Added(pa.StructArray.from_arrays(columns, names), source, lines, first)
    return found if found.are_usual else None


def _vectors(vectors: Sequence[Mapping[str, Any] | None]) -> pa.StructArray:
    """Return descriptors; one without values stands for none."""
    there = [{} if vector is None else vector for vector in vectors]
    if any(vector.keys() - _VECTOR.keys() for vector in there):
        raise ValueError("a member that the specification does not have")
    members = [_array([vector.get(name) for vector in there], kind) for name, kind in _VECTOR.items()]
    return pa.StructArray.from_arrays(members, list(_VECTOR))


def _array(values: Sequence[Any], kind: type) -> pa.Array:
    """Return values, each of a type or none: pyarrow takes truth values and fractions for integers."""
    if not {type(value) for value in values} <= {kind, type(None)}:
        raise TypeError(kind)
    return pa.array(values, pa.string() if kind is str else pa.int64())
