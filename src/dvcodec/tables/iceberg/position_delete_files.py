"""New files of position deletes, which delete rows in tables of format version 2.

Specification: Iceberg table spec, "Position Delete Files"; where it leaves a choice, files and their entries are those
of Iceberg Java's ``PositionDeleteWriter``: an entry has no counts of values, and bounds only if it is for one data
file.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.core.extras import pq
from dvcodec.core.rowset import RowSet
from dvcodec.iceberg import write_position_deletes
from dvcodec.iceberg.position_deletes import FILE_PATH, POS, vectors_from_arrow
from dvcodec.io import Storage
from dvcodec.io.parquet import arrow_damage, parquet_metadata
from dvcodec.tables.deleting.committer import check_read_back
from dvcodec.tables.iceberg.deletes import POS_ID
from dvcodec.tables.iceberg.manifests import FILE_PATH_ID, POSITION_DELETES
from dvcodec.tables.model import FileDelete

_FORMAT = ("write.delete.format.default", "write.format.default")
_GRANULARITY = "write.delete.granularity"
_COMPRESSION = ("write.delete.parquet.compression-codec", "write.parquet.compression-codec")
_CODECS = {"uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "brotli": "brotli", "zstd": "zstd", "lz4": "lz4"}


@dataclass(frozen=True, slots=True)
class PositionDeleteFile:
    """A new file of position deletes.

    Attributes:
        data_files: the data files that it has rows of; all in one partition.
        entry: its ``data_file`` struct in a manifest, without the partition.
    """

    data_files: tuple[str, ...]
    entry: Mapping[str, Any]


def compression_of(properties: Mapping[str, str], source: str) -> str:
    """Return the codec that a table's properties set for Parquet files of deletes.

    Args:
        properties: of the table.
        source: its metadata file, for errors.

    Raises:
        Unsupported: its deletes are to be written in another format than Parquet, or an unknown codec.
    """
    name = next((name for name in _FORMAT if name in properties), _FORMAT[0])
    if properties.get(name, "parquet").lower() != "parquet":
        expected = "parquet, for position deletes"
        raise Unsupported(f"property {name}", source=source, expected=expected, actual=properties[name])
    codec = next((properties[name] for name in _COMPRESSION if name in properties), "zstd").lower()
    if codec not in _CODECS:
        raise Unsupported("compression of Parquet", source=source, expected=", ".join(_CODECS), actual=codec)
    return _CODECS[codec]


def new_rows(deletes: Sequence[FileDelete], properties: Mapping[str, str], source: str) -> list[dict[str, RowSet]]:
    """Return the rows of each file to write; rows that are deleted already are not deleted again.

    There is a file for each data file, or for each partition, as the property ``write.delete.granularity`` says.

    Args:
        deletes: one for each data file.
        properties: of the table.
        source: its metadata file, for errors.

    Raises:
        UsageError: the property has another value.
    """
    granularity = properties.get(_GRANULARITY, "file").lower()
    if granularity not in ("file", "partition"):
        raise UsageError(f"{source}: property {_GRANULARITY} is {granularity}: expected file or partition")
    files: dict[Hashable, dict[str, RowSet]] = defaultdict(dict)
    for one in deletes:
        path = one.data_file.path
        files[path if granularity == "file" else one.data_file.partition_key][path] = one.rows - one.before
    return list(files.values())


def write_file(
    path: str, location: str, rows: Mapping[str, RowSet], codec: str, storage: Storage
) -> PositionDeleteFile:
    """Write a file of position deletes and read it back.

    Args:
        path: as it will be recorded.
        location: where it is written.
        rows: data file -> rows.
        codec: compression, see `iceberg.write_position_deletes`.
        storage: of the table.

    Raises:
        NotCanonical: it was read back otherwise.
        OSError: it cannot be written.
    """
    count = write_position_deletes(location, rows, compression=codec, storage_options=storage)
    with storage.open(location) as source, arrow_damage("position deletes", "a readable file"):
        size = source.size
        with parquet_metadata(source, dictionary=FILE_PATH) as file:
            check_read_back(location, rows, vectors_from_arrow(file.iter_batches(columns=[FILE_PATH, POS])))
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    ids = (FILE_PATH_ID, POS_ID)
    sizes = {key: sum(one.column(i).total_compressed_size for one in groups) for i, key in enumerate(ids)}
    entry: dict[str, Any] = {
        "content": POSITION_DELETES,
        "file_path": path,
        "file_format": "PARQUET",
        "record_count": count,
        "file_size_in_bytes": size,
        "column_sizes": _map(sizes),
        "split_offsets": [_first_byte(group) for group in groups],
    }
    if len(rows) == 1:
        ((data_file, deleted),) = rows.items()
        entry["referenced_data_file"] = data_file
        for name, position in (("lower_bounds", deleted.min), ("upper_bounds", deleted.max)):
            entry[name] = _map({FILE_PATH_ID: data_file.encode(), POS_ID: struct.pack("<q", position)})
    return PositionDeleteFile(tuple(rows), entry)


def _map(values: Mapping[int, Any]) -> list[dict[str, Any]]:
    """Return a map as Avro has it in manifests."""
    return [{"key": key, "value": value} for key, value in values.items()]


def _first_byte(group: pq.RowGroupMetaData) -> int:
    column = group.column(0)
    return int(column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset)
