"""Position deletes of Iceberg v2: rows of (file_path, pos), which deletion vectors replace in v3.

Specification: Iceberg table spec, "Position Delete Files": ``file_path`` string (field id 2147483546), ``pos`` long
(2147483545), 0-based; sorted by both (not required of files that are read).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import DecodeError, MissingExtra, NotCanonical, UsageError
from dvcodec.core.extras import pa, pq
from dvcodec.core.roaring import MAX_DV_POSITION
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count, check_choice, check_type
from dvcodec.io import SinkTarget, SourceTarget, StorageOptions, open_sink, open_source
from dvcodec.io.parquet import arrow_damage, parquet_metadata
from dvcodec.io.sink import SinkFile

if TYPE_CHECKING:
    ArrowData: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]

FILE_PATH = "file_path"
POS = "pos"
FILE_PATH_ID, POS_ID = 2147483546, 2147483545
CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
_ROW_GROUP = 1 << 20
"""Rows of a row group, at most."""


def read_position_deletes(
    source: SourceTarget, *, batch_rows: int = 1 << 20, storage_options: StorageOptions = None
) -> dict[str, RowSet]:
    """Read a Parquet position delete file: data file -> deleted rows (extra ``arrow``).

    The file is streamed; memory is bounded by a batch and the row sets.

    Args:
        source: bytes, path, URL or open file of Parquet.
        batch_rows: rows read at a time.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        MissingExtra: pyarrow is not installed.
        UsageError: not a source, or `batch_rows` is less than 1.
        OSError: the file cannot be opened or read.
        NotCanonical: not a Parquet file, a damaged one, or one without columns ``file_path`` and ``pos``; a null in
            them, or a position below 0 or above 0x7ffffffe80000000.
        Unsupported: a Parquet feature that pyarrow does not support.
    """
    batch_rows = as_count(batch_rows, "batch_rows", 1)
    with open_source(source, storage_options=storage_options) as opened:
        try:
            with arrow_damage("Parquet file", "a readable footer"):
                # Paths repeat: reading them as a dictionary keeps one string per file.
                file = parquet_metadata(opened, dictionary=FILE_PATH, pre_buffer=False)
            with file, arrow_damage("Parquet file", "readable values"), data_errors(opened.name):
                check_columns(file.schema_arrow, FILE_PATH, POS)
                return vectors_from_arrow(file.iter_batches(batch_rows, columns=[FILE_PATH, POS]))
        except DecodeError as err:
            err.source = err.source or opened.name
            raise


def write_position_deletes(
    target: SinkTarget,
    vectors: Mapping[str, RowSet],
    *,
    compression: str = "zstd",
    storage_options: StorageOptions = None,
) -> int:
    """Write a Parquet position delete file, whole or not at all (extra ``arrow``); return its number of rows.

    Rows are sorted by data file (as UTF-8 bytes) and position. Field ids, key-value metadata and required columns are
    those of Iceberg Java's writer. The bounds of ``file_path`` in the footer are whole paths, so that readers can match
    a file for a single data file with it.

    Args:
        target: path, URL or writable file; an existing file is replaced.
        vectors: data file, spelled as the table's metadata does -> deleted rows. Empty sets add nothing.
        compression: codec of Parquet: ``zstd``, ``snappy``, ``gzip``, ``lz4``, ``brotli`` or ``none``.
        storage_options: for URLs: how to reach the store.

    Raises:
        MissingExtra: pyarrow is not installed.
        UsageError: not a mapping of paths to row sets, an unknown codec, or a position above 0x7ffffffe80000000.
        OSError: the target cannot be written.
    """
    check_type(vectors, Mapping, "vectors", "a mapping of data files to row sets")
    for path, rows in vectors.items():
        check_type(path, str, "the path of a data file", "a str")
        check_type(rows, RowSet, f"the rows of {path:.200}", "a RowSet")
        if (rows.max or 0) > MAX_DV_POSITION:
            raise UsageError(f"{path:.200}: position {rows.max}, expected at most {MAX_DV_POSITION:#x}")
    check_choice(compression, CODECS, "compression")
    with open_sink(target, storage_options=storage_options) as sink:
        file = pa.PythonFile(SinkFile(sink), "w")
        with pq.ParquetWriter(file, _schema(), compression=compression) as writer:
            for rows in _row_groups(vectors):
                writer.write_table(rows, _ROW_GROUP)
    return sum(rows.cardinality for rows in vectors.values())


def _schema() -> pa.Schema:
    columns = [(FILE_PATH, FILE_PATH_ID, "string", pa.string()), (POS, POS_ID, "long", pa.int64())]
    fields = [{"id": number, "name": name, "required": True, "type": kind} for name, number, kind, _ in columns]
    return pa.schema(
        [
            pa.field(name, arrow, nullable=False, metadata={"PARQUET:field_id": str(number)})
            for name, number, _, arrow in columns
        ],
        metadata={
            "delete-type": "position",
            "iceberg.schema": json.dumps({"type": "struct", "schema-id": 0, "fields": fields}),
        },
    )


def _row_groups(vectors: Mapping[str, RowSet]) -> Iterator[pa.Table]:
    """Yield the sorted rows in tables of about a row group: thousands of data files may have a row each."""
    schema = _schema()
    paths: list[str] = []
    positions: list[NDArray[np.int64]] = []
    count = 0

    def gathered() -> pa.Table:
        codes = np.repeat(np.arange(len(paths), dtype=np.int32), [len(some) for some in positions])
        names = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(paths, pa.string())).cast(pa.string())
        return pa.table([names, pa.array(np.concatenate(positions))], schema=schema)

    for path in sorted(vectors, key=str.encode):
        for some in vectors[path].chunks(_ROW_GROUP):
            paths.append(path)
            positions.append(some)
            count += len(some)
            if count >= _ROW_GROUP:
                yield gathered()
                paths, positions, count = [], [], 0
    if paths:
        yield gathered()


@contextmanager
def data_errors(source: str) -> Iterator[None]:
    """Turn a `UsageError` about rows into `NotCanonical`: here they come from a file, not from the caller."""
    try:
        yield
    except MissingExtra:
        raise
    except UsageError as err:
        raise NotCanonical(
            "position deletes", source=source, expected="a path and a position in every row", actual=str(err)
        ) from None


def vectors_from_arrow(data: ArrowData, *, file_column: str = FILE_PATH, pos_column: str = POS) -> dict[str, RowSet]:
    """Build vectors from Arrow rows of (data file, position), in any order; duplicates are fine.

    Args:
        data: a Table, a RecordBatch, or an iterable of RecordBatches (then memory stays bounded).
        file_column: string column, dictionary-encoded or not.
        pos_column: integer column, 0-based physical row positions.

    Raises:
        UsageError: not Arrow rows; a column is missing, has nulls, or has values that are not positions (0 to
            0x7ffffffe80000000).
    """
    found: dict[str, list[RowSet]] = {}
    for batch in _batches(data):
        for path, rows in _split_batch(batch, file_column, pos_column):
            parts = found.setdefault(path, [])
            parts.append(rows)
            if len(parts) >= 16:  # merge now and then: many small parts take more memory than their union
                parts[:] = [RowSet().union(*parts)]
    return {path: parts[0] if len(parts) == 1 else RowSet().union(*parts) for path, parts in found.items()}


def _batches(data: Any) -> Iterator[Any]:
    if hasattr(data, "to_batches"):
        yield from data.to_batches()
    elif hasattr(data, "schema") and hasattr(data, "column"):
        yield data
    else:
        wanted = "an Arrow Table or RecordBatch, or an iterable of RecordBatches"
        check_type(data, Iterable, "data", wanted)
        for batch in data:
            if not hasattr(batch, "schema"):
                raise UsageError(f"data must be {wanted}, and one of them is {type(batch).__name__}")
            yield batch


def _split_batch(batch: pa.RecordBatch, file_column: str, pos_column: str) -> Iterator[tuple[str, RowSet]]:
    """Group one batch by data file: one stable sort by file code, then slices."""
    check_columns(batch.schema, file_column, pos_column)
    for name in (file_column, pos_column):
        if batch.column(name).null_count:
            raise UsageError(f"column {name!r} contains {batch.column(name).null_count} nulls")
    if not batch.num_rows:
        return
    paths = batch.column(file_column)
    if not hasattr(paths, "dictionary"):
        paths = paths.dictionary_encode()
    codes: NDArray[np.integer[Any]] = paths.indices.to_numpy(zero_copy_only=False)
    if int(codes.min()) < 0 or int(codes.max()) >= len(paths.dictionary):
        raise UsageError(f"column {file_column!r} has codes outside its dictionary")
    positions = batch.column(pos_column).to_numpy(zero_copy_only=False)
    if (codes[1:] < codes[:-1]).any():
        order = np.argsort(codes, kind="stable")
        codes, positions = codes[order], positions[order]
    cuts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
    for start, stop in itertools.pairwise(cuts):
        try:
            path = paths.dictionary[int(codes[start])].as_py()
        except UnicodeDecodeError as err:
            raise UsageError(f"column {file_column!r} has a path that is not valid UTF-8: {err}") from None
        if path is None:  # a null of the dictionary, which null_count does not see
            raise UsageError(f"column {file_column!r} has None in place of a string")
        rows = RowSet(positions[start:stop])
        if (rows.max or 0) > MAX_DV_POSITION:
            raise UsageError(f"column {pos_column!r} contains {rows.max}, expected at most {MAX_DV_POSITION:#x}")
        yield path, rows


def check_columns(schema: pa.Schema, file_column: str, pos_column: str, where: str = "") -> None:
    """Check that both columns exist exactly once, and that data files are strings, dictionary-encoded or not.

    Not checked: the type of the positions (`RowSet` does). `where` is the prefix of the message.

    Raises:
        UsageError: a column is missing or duplicated, or is not of strings; or a name is not valid UTF-8.
    """
    try:
        names = schema.names
    except UnicodeDecodeError as err:  # Arrow does not check names when it reads a schema
        raise UsageError(f"{where}a column has a name that is not valid UTF-8: {err}") from None
    for name in (file_column, pos_column):
        count = names.count(name)
        if count != 1:
            problem = f"{count} columns {name!r}" if count else f"no column {name!r}"
            raise UsageError(f"{where}{problem} among {', '.join(names)}")
    kind = schema.field(file_column).type
    kind = getattr(kind, "value_type", kind) if str(kind).startswith("dictionary") else kind
    if str(kind) not in ("string", "large_string", "string_view"):
        raise UsageError(f"{where}column {file_column!r} has type {kind}, expected strings")
