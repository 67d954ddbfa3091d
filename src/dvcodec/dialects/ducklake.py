"""DuckLake's deletion vectors of one data file: one as the bare frame, those of several snapshots in a Puffin file.

The vector of a snapshot has all rows that are deleted in it, so it has those of the snapshots before. In a Puffin file,
the property ``ducklake-snapshot-id`` of a vector says of which snapshot it is; the snapshot of a bare frame is in
DuckLake's catalog alone. Source: DuckLake, ``ducklake_puffin.cpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from dvcodec import iceberg
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import as_count, check_type
from dvcodec.io import SinkTarget, SourceTarget, StorageOptions, open_sink, open_source
from dvcodec.io.source import read_within
from dvcodec.io.target import check_data_file, file_key
from dvcodec.puffin import CREATED_BY, DUCKLAKE_SNAPSHOT, MAGIC, REFERENCED_DATA_FILE, PuffinReader, PuffinWriter

__all__ = ["read_snapshots", "write_snapshots"]

_LONGEST_ID = 20
"""Digits of an unsigned number of 64 bits."""


def read_snapshots(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> dict[int | None, RowSet]:
    """Read the vectors of one data file: snapshot -> rows that are deleted in it, ascending.

    Args:
        source: bytes, path, URL or open file.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The rows by snapshot; of a bare frame, one set of rows with None for its snapshot.

    Raises:
        DecodeError: the file is corrupt, a vector names no snapshot or one that another has, or they are of several
            data files.
        UsageError: not a source.
        OSError: it cannot be opened or read.
    """
    check_limits(limits)
    with open_source(source, storage_options=storage_options) as opened:
        start = bytes(opened.read(0, min(opened.size, len(MAGIC))))
        if start != MAGIC:
            frame = read_within(opened, "max_vector_bytes", limits)
            return {None: iceberg.decode(frame.view, limits=limits, source=opened.name)}
        reader = PuffinReader(opened, limits=limits)
        found: dict[int, RowSet] = {}
        files = set()
        for blob in iceberg.vector_blobs(reader.footer, opened.name):
            count = iceberg.check_blob(blob, opened.name)
            text = blob.properties.get(DUCKLAKE_SNAPSHOT, "")
            files.add(file_key(blob.properties.get(REFERENCED_DATA_FILE, "")))
            if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID) or int(text) in found:
                raise iceberg.corrupt(
                    blob, opened.name, f"blob property {DUCKLAKE_SNAPSHOT}", "a snapshot, once", repr(text)
                )
            if len(files) > 1:
                what = f"blob property {REFERENCED_DATA_FILE}"
                raise iceberg.corrupt(blob, opened.name, what, "the same data file", "another")
            data = reader.read_stored(blob, "max_vector_bytes")
            found[int(text)] = iceberg.decode(
                data.view, cardinality=count, limits=limits, source=opened.name, base=blob.offset
            )
        if not found:
            raise NotCanonical("deletion vectors", source=opened.name, expected="1 or more", actual=0)
        return {snapshot: found[snapshot] for snapshot in sorted(found)}


def write_snapshots(
    target: SinkTarget,
    data_file: str,
    snapshots: Mapping[int, RowSet],
    *,
    storage_options: StorageOptions = None,
) -> None:
    """Write the vectors of one data file: the bare frame for one snapshot, a Puffin file for several.

    Args:
        target: path, URL or writable file.
        data_file: its path, as DuckLake names it.
        snapshots: snapshot -> all rows that are deleted in it.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: not row sets by snapshot, none, or rows that a later snapshot has no more.
        OSError: the file cannot be written (an existing file is kept).
    """
    check_data_file(data_file)
    check_type(snapshots, Mapping, "snapshots", "a mapping of snapshots to row sets")
    ordered = sorted((as_count(snapshot, "snapshot"), rows) for snapshot, rows in snapshots.items())
    if not ordered:
        raise UsageError("snapshots: none, and a file has at least one vector")
    for _, rows in ordered:
        check_rows(rows)
    for (snapshot, rows), (later, more) in pairwise(ordered):
        if not rows <= more:
            raise UsageError(f"snapshots: {later} deletes not all rows of {snapshot}")
    if len(ordered) == 1:
        frame = iceberg.encode(ordered[0][1], gap_keys=False)
        with open_sink(target, storage_options=storage_options) as sink:
            sink.write(frame)
        return
    with PuffinWriter(target, {CREATED_BY: iceberg.DEFAULT_CREATED_BY}, storage_options=storage_options) as writer:
        for snapshot, rows in ordered:
            writer.add(
                iceberg.BLOB_TYPE,
                iceberg.encode(rows, gap_keys=False),
                fields=[],
                snapshot_id=iceberg.NO_ID,
                sequence_number=iceberg.NO_ID,
                properties={
                    REFERENCED_DATA_FILE: data_file,
                    iceberg.CARDINALITY: str(len(rows)),
                    DUCKLAKE_SNAPSHOT: str(snapshot),
                },
            )
