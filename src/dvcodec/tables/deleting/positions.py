"""Rows to delete by their positions, as the caller knows them; and rows that a caller hands over.

These are Arrow in any of its forms, Parquet or CSV, read batch by batch. A folder of Parquet files that is not a table
is listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import csv_reader, ds, pa, pc, types
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_type
from dvcodec.iceberg import FILE_PATH, POS, vectors_from_arrow
from dvcodec.io import Listed, Source, Storage
from dvcodec.io.source import RandomAccess
from dvcodec.io.target import local_path
from dvcodec.tables.deleting.run import Finder, Found
from dvcodec.tables.model import DataFile
from dvcodec.tables.rows.data_file import open_parquet, physical_batches
from dvcodec.tables.table import Snapshot

if TYPE_CHECKING:
    from dvcodec.core.rowset import Positions


def list_parquet(folder: str, storage: Storage) -> list[Listed]:
    """List the files that Spark reads from a folder of Parquet files, and from folders in it, in order.

    These are all files, whatever their names (Hive's have no suffix), except hidden ones (Spark's
    ``HadoopFSUtils.shouldFilterOutPathName``): what a write has not committed yet is in ``_temporary``. Empty
    files are skipped, too, because they mark folders in a store; not those named ``*.parquet``, which are corrupt.

    Args:
        folder: path or URL without a slash at its end.
        storage: lists it.

    Raises:
        UsageError: a folder in it is a link, whose files would be left out.
        OSError: it cannot be listed.
    """
    _refuse_links(folder)
    below = len(folder) + 1
    seen = (file for file in storage.walk(folder) if not any(map(_is_hidden, file.location[below:].split("/"))))
    files = (file for file in seen if file.size or file.location.endswith(".parquet"))
    return sorted(files, key=lambda file: file.location)


def _is_hidden(name: str) -> bool:
    """Whether Spark skips a file or folder of this name.

    >>> [_is_hidden(name) for name in ("_temporary", "_year=2024", ".part-0.crc", "part-0", "part-0._COPYING_")]
    [True, False, True, False, True]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _refuse_links(folder: str) -> None:
    local = local_path(folder)
    if local is None:
        return
    for here, folders, _ in os.walk(local):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        for name in folders:
            if (link := Path(here, name)).is_symlink():
                raise UsageError(f"{link}: a link to a folder, and links are not followed")


ArrowInput: TypeAlias = "pa.Table | pa.RecordBatch | pa.RecordBatchReader | ds.Dataset | str | os.PathLike[str] | Any"


_DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_OTHER_TEXT = (".txt", ".json", ".jsonl", ".ndjson")


@contextmanager
def open_batches(
    source: ArrowInput, columns: Sequence[str], kinds: Sequence[pa.DataType], what: str
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Open rows for reading once.

    Args:
        source: a table, batch, reader or dataset of pyarrow's; a data frame that exports Arrow (polars, pandas);
            the path or URL of a Parquet or CSV file, or a local folder of Parquet files.
        columns: to read, in this order.
        kinds: their types, in which the text of a CSV file is read; others are returned as they are.
        what: what they are, for errors.

    Raises:
        UsageError: something else, or without one of the columns.
        MissingExtra: pyarrow is not installed.
        DecodeError, OSError: a file cannot be read.
    """
    names = list(columns)
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        delimiter = next((sign for end, sign in _DELIMITERS.items() if path.lower().endswith(end)), None)
        if delimiter is None:
            yield _of_files(path, names, what)
        else:
            with Storage().open(path) as file:
                yield _of_text(file, dict(zip(names, kinds, strict=True)), delimiter, f"{what} {path}")
        return
    if isinstance(source, ds.Dataset):
        _check(source.schema, names, what)
        yield source.to_batches(columns=names, batch_readahead=1, fragment_readahead=1)
        return
    if not isinstance(source, pa.RecordBatchReader):
        if not hasattr(source, "__arrow_c_stream__"):
            also = ", or a mapping of data files to row sets" if what == "positions" else ""
            expected = f"Arrow data or the path of a Parquet or CSV file{also}"
            raise UsageError(f"{what}: expected {expected}, not {type(source).__name__}")
        source = pa.RecordBatchReader.from_stream(source)
    _check(source.schema, names, what)
    yield (batch.select(names) for batch in source)


def _of_files(path: str, names: Sequence[str], what: str) -> Iterator[pa.RecordBatch]:
    if path.lower().endswith(_OTHER_TEXT):
        how = f"COPY (FROM '{path}') TO '{what}.parquet' in DuckDB writes one, with a type for each column"
        raise UsageError(f"{what} {path}: expected a Parquet or CSV file; {how}")
    storage, local = Storage(), local_path(path)
    files = [path]
    if local is not None and local.is_dir():
        files = [file.location for file in list_parquet(str(local), storage)]
        if not files:
            raise UsageError(f"{what} {path}: no Parquet files in this folder")
    for location in files:
        with open_parquet(location, storage) as file:
            _check(file.schema_arrow, names, f"{what} {location}")
            yield from (batch.select(names) for _, batch in physical_batches(file, names))


_INTEGER = r"^[+-]?[0-9]+$"


def _of_text(file: Source, kinds: Mapping[str, pa.DataType], delimiter: str, what: str) -> Iterator[pa.RecordBatch]:
    """Read the columns of a CSV file, whose first line has their names, as the types that the caller wants.

    So no type is guessed. An empty field is a null, and ``""`` is empty text, as DuckDB and pyarrow write them.

    Raises:
        UsageError: no such column, a field that is not exactly of its type, or one with a line break: then a quote may
            be missing.
    """
    how = f"COPY (FROM '{file.name}') TO 'keys.parquet' in DuckDB writes Parquet, with the types that you name"
    parse = csv_reader.ParseOptions(delimiter=delimiter)

    def opened() -> pa.NativeFile:
        return pa.input_stream(pa.PythonFile(RandomAccess(file), "r"), "gzip" if what.endswith(".gz") else None)

    def column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
        found = batch[name]
        if not types.is_integer(kind):
            return found
        if pc.all(pc.match_substring_regex(found, _INTEGER), min_count=0).as_py() is False:
            raise UsageError(f"{what}: column {name} has a field that is not an integer; {how}")
        return found.cast(kind)

    for name, kind in kinds.items():
        if types.is_floating(kind):
            raise UsageError(f"{what}: column {name} is {kind}, to which text is rounded; {how}")
    try:
        schema = csv_reader.open_csv(opened(), parse_options=parse).schema
        _check(schema, list(kinds), what)
        as_text = dict.fromkeys(schema.names, pa.string())
        exact = {name: kind for name, kind in kinds.items() if not types.is_integer(kind)}
        convert = csv_reader.ConvertOptions(
            column_types=as_text | exact, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        for batch in csv_reader.open_csv(opened(), parse_options=parse, convert_options=convert):
            for field, values in zip(batch.schema, batch.columns, strict=True):
                if types.is_string(field.type) and pc.any(pc.match_substring(values, "\n")).as_py():
                    raise UsageError(f"{what}: column {field.name} has a field with a line break; {how}")
            yield pa.record_batch([column(batch, *one) for one in kinds.items()], list(kinds))
    except (pa.ArrowException, UnicodeDecodeError, EOFError) as err:
        raise UsageError(f"{what}: {(str(err) or 'the file is cut').splitlines()[0]:.200}; {how}") from None


def _check(schema: pa.Schema, names: Sequence[str], what: str) -> None:
    for name in names:
        count = schema.names.count(name)
        if count != 1:
            found = ", ".join(schema.names)
            raise UsageError(f"{what}: expected a column {name!r}, found {count} of that name in {found:.300}")


PositionsInput: TypeAlias = "Mapping[str, Positions] | ArrowInput"


def positions_finder(positions: PositionsInput) -> Finder:
    """Find rows by data file and position.

    Args:
        positions: data file (see `FileNames.find` for its spellings) -> 0-based physical positions; or Arrow, Parquet
            or CSV with columns ``file_path`` and ``pos``, as Iceberg v2 has them, in any order.

    Raises:
        UsageError: no such columns, a null or a negative position.
        MissingExtra: pyarrow is not installed.
        DecodeError, OSError: a file cannot be read.
    """
    if not isinstance(positions, Mapping):
        with open_batches(positions, [FILE_PATH, POS], [pa.string(), pa.int64()], "positions") as batches:
            return _PositionsFinder(vectors_from_arrow(batches))
    for name in positions:
        check_type(name, str, "a data file in positions", "a str")
    return _PositionsFinder({name: RowSet(rows) for name, rows in positions.items()})


class _PositionsFinder(Finder):
    can_search_again = False
    counts_rows = False

    def __init__(self, positions: Mapping[str, RowSet]) -> None:
        self._positions = positions
        self._rows: Mapping[str, RowSet] = {}

    def prepare(self, snapshot: Snapshot) -> None:
        found: dict[str, RowSet] = {}
        for name, rows in self._positions.items():
            for file in snapshot.file_names.find(name):
                found[file.path] = found.get(file.path, RowSet()) | rows
        for path, rows in found.items():
            _check_positions(snapshot, snapshot.files[path], rows)
        self._rows = found

    def may_match(self, snapshot: Snapshot, data_file: DataFile) -> bool:  # noqa: ARG002
        return bool(self._rows.get(data_file.path))

    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:  # noqa: ARG002
        return Found(self._rows.get(data_file.path, RowSet()))


def _check_positions(snapshot: Snapshot, file: DataFile, rows: RowSet) -> None:
    """Refuse positions beyond the rows of a data file."""
    if rows.max is None:
        return
    count = snapshot.stored_rows(file) if file.physical_rows is None else file.physical_rows
    if count is None:
        raise UsageError(f"{file.path}: its number of rows is not known, positions cannot be checked")
    if rows.max >= count:
        raise UsageError(f"{file.path}: position {rows.max} is beyond its {count} rows")
