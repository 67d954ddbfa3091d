"""Rows that a caller hands over: Arrow in any of its forms, or Parquet, read batch by batch.

A folder of Parquet files that is not a table is listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import ds, pa
from dvcodec.io import Listed, Storage
from dvcodec.io.target import local_path
from dvcodec.tables.rows.data_file import open_parquet, physical_batches


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


@contextmanager
def open_batches(source: ArrowInput, columns: Sequence[str], what: str) -> Iterator[Iterator[pa.RecordBatch]]:
    """Open rows for reading once.

    Args:
        source: a table, batch, reader or dataset of pyarrow's; a data frame that exports Arrow (polars, pandas);
            the path or URL of a Parquet file, or a local folder of them.
        columns: to read, in this order.
        what: what they are, for errors.

    Raises:
        UsageError: something else, or without one of the columns.
        MissingExtra: pyarrow is not installed.
        DecodeError, OSError: a file cannot be read.
    """
    names = list(columns)
    if isinstance(source, (str, os.PathLike)):
        yield _of_files(os.fspath(source), names, what)
        return
    if isinstance(source, ds.Dataset):
        _check(source.schema, names, what)
        yield source.to_batches(columns=names, batch_readahead=1, fragment_readahead=1)
        return
    if not isinstance(source, pa.RecordBatchReader):
        if not hasattr(source, "__arrow_c_stream__"):
            also = ", or a mapping of data files to row sets" if what == "positions" else ""
            expected = f"Arrow data or the path of Parquet{also}"
            raise UsageError(f"{what}: expected {expected}, not {type(source).__name__}")
        source = pa.RecordBatchReader.from_stream(source)
    _check(source.schema, names, what)
    yield (batch.select(names) for batch in source)


def _of_files(path: str, names: Sequence[str], what: str) -> Iterator[pa.RecordBatch]:
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


def _check(schema: pa.Schema, names: Sequence[str], what: str) -> None:
    for name in names:
        count = schema.names.count(name)
        if count != 1:
            found = ", ".join(schema.names)
            raise UsageError(f"{what}: expected a column {name!r}, found {count} of that name in {found:.300}")
