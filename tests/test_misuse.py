"""A wrong argument is a `UsageError`, never an AttributeError or TypeError from inside."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dvcodec
from dvcodec import DvcodecError, Limits, RowSet, StoredFrame, UsageError, delta, iceberg, lance, paimon, puffin, zap

WRONG: tuple[Any, ...] = (None, 5, -1, 1.5, "abc", b"abc", [1], [None], {1: 2}, {"a": None}, object())
ROWS = RowSet([1, 2, 3])
IDS = lance.RowIdSequence.from_values([1, 2, 5])
VERSIONS = lance.RowDatasetVersionSequence.from_versions([1, 1, 2])
HAS_TABLES = find_spec("pyarrow") is not None and find_spec("fastavro") is not None
Doors = dict[str, tuple[Callable[..., Any], Mapping[str, Any]]]


class New:
    """Stands for a new path, another one for each call."""


def of_bytes() -> Doors:
    """Functions that need no file."""
    blob, inline = iceberg.encode(ROWS), delta.encode_inline(ROWS)
    decoding = {"buf": blob, "cardinality": 3, "limits": Limits(), "verify_checksum": True, "source": "x", "base": 0}
    encoding = {"rows": ROWS, "run_optimize": True}
    ids, versions = lance.encode_row_ids(IDS), lance.encode_versions(VERSIONS)
    addresses = lance.RowAddrMap.from_row_set(ROWS)
    number = {"source": "x", "base": 0}
    return {
        "decode": (dvcodec.decode, decoding),
        "iceberg.decode": (iceberg.decode, decoding),
        "iceberg.encode": (iceberg.encode, encoding | {"gap_keys": True}),
        "iceberg.java_blob_order": (iceberg.java_blob_order, {"deletes": {"a": 3}}),
        "delta.decode": (delta.decode, decoding),
        "delta.encode": (delta.encode, encoding | {"layout": "native", "gap_keys": True}),
        "delta.encode_inline": (delta.encode_inline, encoding | {"layout": "native"}),
        "delta.decode_inline": (
            delta.decode_inline,
            {
                "text": inline.path_or_inline_dv,
                "size_in_bytes": inline.size_in_bytes,
                "cardinality": 3,
                "limits": Limits(),
                "source": "x",
            },
        ),
        "delta.Descriptor": (
            delta.Descriptor,
            {"storage_type": "p", "path_or_inline_dv": "/a", "size_in_bytes": 3, "cardinality": 3, "offset": 1},
        ),
        "delta.Descriptor.from_json": (delta.Descriptor.from_json, {"text": inline.to_json(), "source": "x"}),
        "delta.Descriptor.path": (delta.Descriptor("r", "a", 34, 2, 1).path, {"folder": "/x"}),
        "delta.new_file": (delta.new_file, {"folder": "/x", "prefix": "a"}),
        "paimon.decode": (paimon.decode, decoding | {"buf": paimon.encode(ROWS)}),
        "paimon.encode": (paimon.encode, encoding | {"layout": "bitmap32"}),
        "paimon.DeletionVectorMeta": (
            paimon.DeletionVectorMeta,
            {"data_file": "a", "offset": 1, "length": 2, "cardinality": 3},
        ),
        "paimon.decode_hash_index": (paimon.decode_hash_index, {"buf": bytes(8), "row_count": 2, "source": "x"}),
        "paimon.encode_hash_index": (paimon.encode_hash_index, {"hashes": [1, 2]}),
        "lance.decode_row_ids": (lance.decode_row_ids, {"buf": ids, **number}),
        "lance.encode_row_ids": (lance.encode_row_ids, {"sequence": IDS}),
        "lance.decode_versions": (lance.decode_versions, {"buf": versions, **number}),
        "lance.encode_versions": (lance.encode_versions, {"sequence": VERSIONS}),
        "lance.decode_row_addr_map": (
            lance.decode_row_addr_map,
            {"buf": lance.encode_row_addr_map(addresses), "limits": Limits(), **number},
        ),
        "lance.encode_row_addr_map": (lance.encode_row_addr_map, {"rows": addresses}),
        "lance.RowAddrMap.from_row_set": (lance.RowAddrMap.from_row_set, {"addresses": ROWS}),
        "lance.row_addresses": (lance.row_addresses, {"fragment": 1, "offsets": [1, 2]}),
        "lance.split_row_addresses": (lance.split_row_addresses, {"addresses": [1, 2]}),
        "lance.live_row_ids": (lance.live_row_ids, {"row_ids": IDS, "deleted": RowSet([1])}),
        "lance.check_row_ids": (
            lance.check_row_ids,
            {"fragments": [lance.FragmentIds(0, IDS)], "next_row_id": 10, "source": "x"},
        ),
        "lance.rechunk": (lance.rechunk, {"sequences": [IDS], "sizes": [1, 2]}),
        "lance.choose_kind": (lance.choose_kind, {"rows": 3, "previous": "bin"}),
        "lance.manifest_name": (lance.manifest_name, {"version": 1, "scheme": "V2"}),
        "lance.manifest_version": (lance.manifest_version, {"name": "1.manifest"}),
        "lance.RowIdSequence.from_values": (lance.RowIdSequence.from_values, {"values": [1, 2]}),
        "lance.RowIdSequence.to_numpy": (IDS.to_numpy, {"max_rows": 10}),
        "lance.RowIdSequence.position": (IDS.position, {"row_id": 1}),
        "lance.RowIdSequence.get": (IDS.get, {"offset": 1}),
        "lance.RowIdSequence.slice": (IDS.slice, {"offset": 1, "length": 1}),
        "lance.RowIdSequence.mask": (IDS.mask, {"offsets": [1]}),
        "lance.RowDatasetVersionSequence.from_versions": (
            lance.RowDatasetVersionSequence.from_versions,
            {"versions": [1, 2]},
        ),
        "lance.RowDatasetVersionSequence.get": (VERSIONS.get, {"offset": 1}),
        "lance.RowDatasetVersionSequence.to_numpy": (VERSIONS.to_numpy, {"max_rows": 10}),
        "lance.RowAddrMap": (lance.RowAddrMap, {"fragments": {1: ROWS, 2: None}}),
        "zap.composite_field": (zap.composite_field, {"fields": [zap.text_field("a", "b")]}),
        "zap.text_field": (zap.text_field, {"name": "a", "text": "b c"}),
        "Limits": (Limits, {"max_records": 3, "max_vector_bytes": 3}),
        "diff": (dvcodec.diff, {"old": ROWS, "new": ROWS}),
        "merge": (dvcodec.merge, {"vectors": [{"a": ROWS}]}),
        "RowSet": (RowSet, {"positions": [1]}),
        "RowSet.from_ranges": (RowSet.from_ranges, {"ranges": [(1, 2)]}),
        "RowSet.from_mask": (RowSet.from_mask, {"mask": [True], "start": 0}),
        "RowSet.from_bitmaps": (RowSet.from_bitmaps, {"bitmaps": dict(ROWS.bitmaps)}),
        "RowSet.count": (ROWS.count, {"start": 0, "stop": 3}),
        "RowSet.histogram": (ROWS.histogram, {"stop": 3, "bins": 2}),
        "RowSet.contains": (ROWS.contains, {"positions": np.array([1])}),
        "RowSet.to_numpy": (ROWS.to_numpy, {"dtype": np.int64, "max_rows": 3}),
        "RowSet.chunks": (ROWS.chunks, {"rows": 65536}),
        "RowSet.mask": (ROWS.mask, {"start": 0, "stop": 3}),
        "RowSet.packed_mask": (ROWS.packed_mask, {"start": 0, "stop": 3}),
        "RowSet.union": (lambda others: (ROWS | others, ROWS - others), {"others": [1]}),
        "RowSet.issubset": (lambda others: (others >= ROWS, others > ROWS), {"others": [1]}),
    }


def of_files(folder: Path) -> Doors:
    """Functions that read or write files, which are in a folder."""
    names = {name: str(folder / name) for name in ("puffin", "delta", "paimon", "zap")}
    in_puffin = iceberg.write_deletion_vectors(names["puffin"], {"a": ROWS})
    in_delta = delta.write_deletion_vectors(names["delta"], {"a": ROWS})
    in_paimon = paimon.write_deletion_vectors(names["paimon"], {"a": ROWS})
    zap.write_segment(names["zap"], [zap.Document(b"a", fields=(zap.text_field("f", "b c"),))])
    (folder / "_deletions").mkdir()
    deleted = lance.write_deletion_file(str(folder), ROWS, fragment=0, read_version=1, kind="bin").path(str(folder))
    footer, index = puffin.decode_footer(names["puffin"]), paimon.IndexFile.of(in_paimon)
    frames, in_index = [StoredFrame("a", 3, iceberg.encode(ROWS))], [StoredFrame("a", 3, paimon.encode(ROWS))]
    store = {"storage_options": None}
    limits = {"limits": Limits(), **store}
    reading = {"verify_checksum": True, **limits}
    writing = {"target": New(), "vectors": {"a": ROWS}, "run_optimize": True, **store}
    segment = zap.Segment.open(Path(names["zap"]).read_bytes())
    return {
        "iceberg.load": (iceberg.load, {"location": in_puffin[0], "source": names["puffin"], "allow": (), **reading}),
        "iceberg.load of an entry": (
            iceberg.load,
            {"location": iceberg.manifest_entry(in_puffin[0]), "source": None, "allow": (), **reading},
        ),
        "iceberg.manifest_entry": (iceberg.manifest_entry, {"location": in_puffin[0]}),
        "iceberg.lint": (iceberg.lint, {"footer": footer}),
        "iceberg.read_deletion_vectors": (
            iceberg.read_deletion_vectors,
            {"source": names["puffin"], "duplicates": "last", **reading},
        ),
        "iceberg.write_deletion_vectors": (
            iceberg.write_deletion_vectors,
            writing | {"created_by": "x", "order": "java", "gap_keys": True},
        ),
        "iceberg.write_position_deletes": (
            iceberg.write_position_deletes,
            {"target": New(), "vectors": {"a": ROWS}, "compression": "snappy", **store},
        ),
        "iceberg.write_stored_vectors": (
            iceberg.write_stored_vectors,
            {"target": New(), "vectors": frames, "created_by": "x", **store},
        ),
        "delta.load": (delta.load, {"location": in_delta[0], "folder": None, "allow": (), **reading}),
        "delta.load by a descriptor": (
            delta.load,
            {"location": delta.Descriptor.from_location(in_delta[0]), "folder": "/x", "allow": (), **reading},
        ),
        "delta.Descriptor.from_location": (
            delta.Descriptor.from_location,
            {"location": in_delta[0], "folder": str(folder)},
        ),
        "delta.read_deletion_vectors": (
            delta.read_deletion_vectors,
            {"source": names["delta"], "locations": in_delta, **reading},
        ),
        "delta.load_frames": (delta.load_frames, {"source": names["delta"], **reading}),
        "delta.read_frames": (delta.read_frames, {"source": names["delta"], **limits}),
        "delta.write_deletion_vectors": (delta.write_deletion_vectors, writing | {"gap_keys": True}),
        "delta.write_stored_vectors": (delta.write_stored_vectors, {"target": New(), "vectors": frames, **store}),
        "paimon.load": (paimon.load, {"location": in_paimon[0], "source": names["paimon"], **reading}),
        "paimon.read_deletion_vectors": (
            paimon.read_deletion_vectors,
            {"source": names["paimon"], "locations": in_paimon, **reading},
        ),
        "paimon.load_frames": (paimon.load_frames, {"source": names["paimon"], **reading}),
        "paimon.write_deletion_vectors": (paimon.write_deletion_vectors, writing | {"layout": "bitmap64"}),
        "paimon.write_stored_vectors": (paimon.write_stored_vectors, {"target": New(), "vectors": in_index, **store}),
        "paimon.write_index_files": (
            paimon.write_index_files,
            {"folder": str(folder), "vectors": {"a": ROWS}, "layout": "bitmap32", "target_size": 9, **store},
        ),
        "paimon.DeletionVectorMeta.from_location": (
            paimon.DeletionVectorMeta.from_location,
            {"location": in_paimon[0]},
        ),
        "paimon.IndexFile.of": (paimon.IndexFile.of, {"written": in_paimon}),
        "paimon.IndexManifestEntry.from_index_file": (
            paimon.IndexManifestEntry.from_index_file,
            {"file": index, "partition": b"", "bucket": 0},
        ),
        "puffin.open_puffin": (puffin.open_puffin, {"source": names["puffin"], **limits}),
        "puffin.decode_footer": (puffin.decode_footer, {"source": names["puffin"], **limits}),
        "puffin.encode_footer": (puffin.encode_footer, {"footer": footer}),
        "puffin.rewrite_paths": (
            puffin.rewrite_paths,
            {"source": names["puffin"], "target": New(), "mapping": {"a": "b"}, **limits},
        ),
        "lance.read_deletion_file": (
            lance.read_deletion_file,
            {"source": deleted, "num_deleted_rows": 3, "physical_rows": 10, **limits},
        ),
        "lance.write_deletion_file": (
            lance.write_deletion_file,
            {
                "folder": str(folder),
                "rows": ROWS,
                "fragment": 0,
                "read_version": 1,
                "previous": "bin",
                "kind": "bin",
            },
        ),
        "zap.write_segment": (
            zap.write_segment,
            {"target": New(), "documents": [zap.Document(b"a")], "version": 15, "chunk_mode": None, **store},
        ),
        "zap.merge_segments": (
            zap.merge_segments,
            {
                "target": New(),
                "segments": [segment],
                "drops": [RowSet()],
                "version": 15,
                "chunk_mode": None,
                "progress": str,
                **store,
            },
        ),
        "zap.verify_segment": (zap.verify_segment, {"target": names["zap"], "progress": str, **limits}),
        "zap.Segment.terms": (segment.terms, {"name": "f", "prefix": b"b", "start": b"a", "stop": b"c"}),
        "zap.Segment.postings": (segment.postings, {"name": "f", "term": "b"}),
        "zap.Segment.stored": (segment.stored, {"doc": 0}),
        "zap.Segment.doc_values": (segment.doc_values, {"name": "f", "docs": [0]}),
        "zap.Segment.open": (zap.Segment.open, {"target": names["zap"], "verify_checksum": True, **limits}),
        "sniff": (dvcodec.sniff, {"source": names["puffin"], **limits}),
        "verify": (
            dvcodec.verify,
            {"source": names["puffin"], "cardinality": 3, "row_count": 10, "data_file": "a", **limits},
        ),
        "convert": (
            dvcodec.convert,
            {
                "source": names["delta"],
                "to": "iceberg",
                "target": New(),
                "data_files": ["a"],
                "created_by": "x",
                **limits,
            },
        ),
        "decode_at": (
            dvcodec.decode_at,
            {"source": names["puffin"], "offset": 4, "size": in_puffin[0].size, "cardinality": 3, **reading},
        ),
        "read_rows": (dvcodec.read_rows, {"source": names["puffin"], **limits}),
        "describe": (dvcodec.describe, {"source": names["puffin"], "row_count": 10, **limits}),
    }


def of_tables(folder: Path) -> Doors:
    """Functions on Arrow data and on whole tables."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from dvcodec import arrow, report, tables
    from samples.iceberg_table import VECTOR, build_iceberg

    built = build_iceberg(folder / "table", VECTOR)
    table = tables.open_table(built.folder)
    audited, scanned, snapshot = tables.audit(table), tables.scan(table), table.snapshot()
    data_file = snapshot.data_files[0]
    pairs = pa.table({"file_path": ["a", "a"], "pos": [1, 2]})
    store: dict[str, Any] = {"storage_options": None}
    reading = {"table": table, "snapshot_id": None, "threads": 1, "progress": None}
    deleting = {"table": table, "dry_run": True, "isolation": "snapshot", "retries": 1, "threads": 1, "progress": None}
    live = {"table": table, "data_file": data_file.path, "snapshot_id": None, "columns": ["id"], "batch_rows": 9}
    asked = {"columns": ["id"], "where": pc.field("id") > 1}
    in_duckdb: Doors = {}
    if find_spec("duckdb") is not None:
        import duckdb

        in_duckdb["Table.to_duckdb"] = table.to_duckdb, {"connection": duckdb.connect(), "name": "live"}
    return in_duckdb | {
        "iceberg.vectors_from_arrow": (
            iceberg.vectors_from_arrow,
            {"data": pairs, "file_column": "file_path", "pos_column": "pos"},
        ),
        "RowSet.arrow_mask": (ROWS.arrow_mask, {"start": 0, "stop": 3}),
        "RowSet.from_arrow": (RowSet.from_arrow, {"positions": pa.array([1])}),
        "arrow.row_mask": (arrow.row_mask, {"rows": ROWS, "start": 0, "length": 4}),
        "arrow.row_mask by positions": (arrow.row_mask, {"rows": ROWS, "positions": [1]}),
        "arrow.live_rows": (arrow.live_rows, {"data": pairs, "rows": ROWS, "start": 0}),
        "arrow.live_rows by a column": (arrow.live_rows, {"data": pairs, "rows": ROWS, "row_index": "pos"}),
        "tables.open_table": (
            tables.open_table,
            {"target": str(built.folder), "kind": None, "only_writer": False, "allow": (), **store},
        ),
        "tables.audit": (tables.audit, reading),
        "tables.scan": (tables.scan, reading),
        "tables.totals": (tables.totals, {"scan": scanned}),
        "tables.rewrite_candidates": (
            tables.rewrite_candidates,
            {"scan": scanned, "min_ratio": 0.1, "min_deleted": 1, "max_bytes_per_row": 1.0, "small_vector": 1},
        ),
        "tables.history": (tables.history, {"table": table, "since": None, "until": None, "threads": 1}),
        "tables.live_batches": (tables.live_batches, live | {"where": asked["where"]}),
        "tables.deleted_rows": (tables.deleted_rows, {"table": table, "data_file": data_file.path}),
        "tables.export_live": (
            tables.export_live,
            live | {"where": asked["where"], "sink": New(), "compression": "zstd", "progress": None, **store},
        ),
        "tables.repair_plan": (tables.repair_plan, {"audit": audited, "table": table}),
        "tables.commit_repair": (
            tables.commit_repair,
            {"plan": tables.repair_plan(audited, table), "table": table},
        ),
        "tables.delete": (tables.delete, deleting | {"positions": {data_file.path: [3]}}),
        "tables.delete by keys": (tables.delete, deleting | {"keys": pa.table({"id": [3]}), "on": ["id"]}),
        "tables.enable": (tables.enable, {"table": table}),
        "tables.upgrade_deletes": (tables.upgrade_deletes, {"table": table, "progress": None}),
        "tables.convert_table": (tables.convert_table, {"table": table, "to": "delta", "folder": New()}),
        "tables.copy_deletes": (tables.copy_deletes, {"table": table, "target": table}),
        "Table.snapshot": (table.snapshot, {"id": None}),
        "Table.to_reader": (table.to_reader, asked),
        "Table.to_pandas": (table.to_pandas, asked),
        "Snapshot.rows": (snapshot.rows, {"data_file": data_file, "columns": ["id"], "batch_rows": 3}),
        "Snapshot.schema": (snapshot.schema, {"columns": ["id"]}),
        "Snapshot.read": (snapshot.read, {"vector": snapshot.vectors[0]}),
        "report.render": (report.render, {"audit": audited, "made": None, "min_ratio": 0.1}),
        "report.write": (report.write, {"sink": New(), "audit": audited, "made": None, "min_ratio": 0.1, **store}),
    }


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test, and the current one: wrong targets may be names of files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(function: Callable[..., Any], arguments: Mapping[str, Any], folder: Path) -> None:
    """Call a function and use up what it returns."""
    new = (str(folder / f"new{number}") for number in itertools.count(len([*folder.iterdir()])))
    found = function(**{name: next(new) if isinstance(value, New) else value for name, value in arguments.items()})
    if isinstance(found, AbstractContextManager):
        with found:
            return
    if isinstance(found, Iterator):
        list(found)


def faults(doors: Doors, folder: Path) -> list[str]:
    """Replace each argument by each wrong value; return the calls that end in neither a result nor a named error."""
    found = []
    for door, (function, arguments) in doors.items():
        if not door.startswith(("tables.copy_deletes", "tables.commit_repair")):  # of one table, or of nothing to do
            call(function, arguments, folder)
        for name, value in itertools.product(arguments, WRONG):
            try:
                call(function, {**arguments, name: value}, folder)
            except (DvcodecError, OSError) as error:
                if isinstance(error, UsageError) and "\n" in str(error):
                    found.append(f"{door}({name}={value!r}): several lines: {error}")
            except Exception as error:  # noqa: BLE001  (which is what is looked for)
                found.append(f"{door}({name}={value!r}): {error!r}")
    return found


def test_wrong_arguments_of_functions_on_bytes(here: Path) -> None:
    assert not faults(of_bytes(), here)


def test_wrong_arguments_of_functions_on_files(here: Path) -> None:
    assert not faults(of_files(here), here)


@pytest.mark.skipif(not HAS_TABLES, reason="pyarrow or fastavro is missing")
def test_wrong_arguments_of_functions_on_tables(here: Path) -> None:
    assert not faults(of_tables(here), here)


def test_no_function_of_a_format_is_left_out(here: Path) -> None:
    left_out = {
        # of manifests, which are tested where samples of them are
        *("lance.find_manifest", "lance.read_manifest", "lance.read_operation"),
        *("paimon.read_index_manifest", "paimon.write_index_manifest"),
        # of Parquet and of analysed text
        *("iceberg.read_position_deletes", "iceberg.vectors_from_arrow"),
        *("zap.keyword_field", "zap.norm_values", "zap.number_field", "zap.number_value"),
    }
    tried = {door.partition(" ")[0] for door in (*of_bytes(), *of_files(here))}
    for module in (iceberg, delta, paimon, lance, puffin, zap):
        name = module.__name__.rpartition(".")[2]
        public = {f"{name}.{one}" for one in module.__all__ if inspect.isfunction(getattr(module, one))}
        assert public - tried - left_out == set()
