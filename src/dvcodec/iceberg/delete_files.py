"""New files of position deletes, read back, with their entries in a manifest.

Specification: Iceberg table spec, "Position Delete Files"; where it leaves a choice, files and their entries are those
of Iceberg Java's ``PositionDeleteWriter``: an entry has no counts of values, and bounds only if it is for one data
file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dvcodec.core.errors import NotCanonical
from dvcodec.core.extras import pq
from dvcodec.core.rowset import RowSet
from dvcodec.iceberg.position_deletes import (
    FILE_PATH,
    FILE_PATH_ID,
    POS,
    POS_ID,
    vectors_from_arrow,
    write_position_deletes,
)
from dvcodec.io import Storage
from dvcodec.io.parquet import arrow_damage, parquet_metadata

_POSITION_DELETES = 1
"""Their ``content`` in a manifest."""


@dataclass(frozen=True, slots=True)
class PositionDeleteFile:
    """A new file of position deletes.

    Attributes:
        data_files: the data files that it has rows of; all in one partition.
        entry: its ``data_file`` struct in a manifest, without the partition.
    """

    data_files: tuple[str, ...]
    entry: Mapping[str, Any]

    def entry_in_json(self) -> dict[str, Any]:
        """Return the entry with its bounds as hexadecimal text, as JSON has no bytes."""
        return {
            name: [{**pair, "value": pair["value"].hex()} for pair in value] if name.endswith("_bounds") else value
            for name, value in self.entry.items()
        }


def write_file(
    path: str, location: str, rows: Mapping[str, RowSet], codec: str, storage: Storage
) -> PositionDeleteFile:
    """Write a file of position deletes and read it back.

    Args:
        path: as it will be recorded.
        location: where it is written.
        rows: data file -> rows.
        codec: compression, see `write_position_deletes`.
        storage: of the table.

    Raises:
        NotCanonical: it was read back otherwise.
        OSError: it cannot be written.
    """
    count = write_position_deletes(location, rows, compression=codec, storage_options=storage)
    with storage.open(location) as source, arrow_damage("position deletes", "a readable file"):
        size = source.size
        with parquet_metadata(source, dictionary=FILE_PATH) as file:
            if vectors_from_arrow(file.iter_batches(columns=[FILE_PATH, POS])) != rows:
                expected = "the rows that were written"
                raise NotCanonical("position deletes as read back", source=location, expected=expected, actual="others")
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    ids = (FILE_PATH_ID, POS_ID)
    sizes = {key: sum(one.column(i).total_compressed_size for one in groups) for i, key in enumerate(ids)}
    entry: dict[str, Any] = {
        "content": _POSITION_DELETES,
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
