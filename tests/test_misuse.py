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
    """Functions that need no file, with the arguments that they need; their options are tried too."""
    blob, inline = iceberg.encode(ROWS), delta.encode_inline(ROWS)
    addresses = lance.RowAddrMap.from_row_set(ROWS)
    every: dict[Callable[..., Any], tuple[Any, ...]] = {
        dvcodec.decode: (blob,),
        dvcodec.diff: (ROWS, ROWS),
        dvcodec.merge: ([{"a": ROWS}],),
        iceberg.decode: (blob,),
        iceberg.encode: (ROWS,),
        iceberg.java_blob_order: ({"a": 3},),
        delta.decode: (blob,),
        delta.encode: (ROWS,),
        delta.encode_inline: (ROWS,),
        delta.decode_inline: (inline.path_or_inline_dv, inline.size_in_bytes),
        delta.Descriptor: ("p", "/a", 3, 3, 1),
        delta.Descriptor.from_json: (inline.to_json(),),
        delta.Descriptor("r", "a", 34, 2, 1).path: ("/x",),
        delta.new_file: ("/x",),
        paimon.decode: (paimon.encode(ROWS),),
        paimon.encode: (ROWS,),
        paimon.DeletionVectorMeta: ("a", 1, 2, 3),
        paimon.decode_hash_index: (bytes(8),),
        paimon.encode_hash_index: ([1, 2],),
        lance.decode_row_ids: (lance.encode_row_ids(IDS),),
        lance.encode_row_ids: (IDS,),
        lance.decode_versions: (lance.encode_versions(VERSIONS),),
        lance.encode_versions: (VERSIONS,),
        lance.decode_row_addr_map: (lance.encode_row_addr_map(addresses),),
        lance.encode_row_addr_map: (addresses,),
        lance.RowAddrMap: ({1: ROWS, 2: None},),
        lance.RowAddrMap.from_row_set: (ROWS,),
        lance.row_addresses: (1, [1, 2]),
        lance.split_row_addresses: ([1, 2],),
        lance.live_row_ids: (IDS, RowSet([1])),
        lance.check_row_ids: ([lance.FragmentIds(0, IDS)],),
        lance.rechunk: ([IDS], [1, 2]),
        lance.choose_kind: (3,),
        lance.manifest_name: (1, "V2"),
        lance.manifest_version: ("1.manifest",),
        lance.RowIdSequence.from_values: ([1, 2],),
        IDS.to_numpy: (),
        IDS.position: (1,),
        IDS.get: (1,),
        IDS.slice: (1, 1),
        IDS.mask: ([1],),
        lance.RowDatasetVersionSequence.from_versions: ([1, 2],),
        VERSIONS.get: (1,),
        VERSIONS.to_numpy: (),
        zap.composite_field: ([zap.text_field("a", "b")],),
        zap.text_field: ("a", "b c"),
        Limits: (),
        RowSet: ([1],),
        RowSet.from_ranges: ([(1, 2)],),
        RowSet.from_mask: ([True],),
        RowSet.from_bitmaps: (dict(ROWS.bitmaps),),
        ROWS.count: (0, 3),
        ROWS.histogram: (3, 2),
        ROWS.contains: (np.array([1]),),
        ROWS.to_numpy: (),
        ROWS.chunks: (),
        ROWS.mask: (0, 3),
        ROWS.packed_mask: (0, 3),
        (lambda others: (ROWS | others, ROWS - others, others >= ROWS, others > ROWS)): ([1],),
    }
    return dict(door(function, given) for function, given in every.items())


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
    segment = zap.Segment.open(Path(names["zap"]).read_bytes())
    new, vectors = New(), {"a": ROWS}
    every: dict[Callable[..., Any], tuple[Any, ...]] = {
        dvcodec.sniff: (names["puffin"],),
        dvcodec.verify: (names["puffin"],),
        dvcodec.convert: (names["puffin"], "delta", new),
        dvcodec.decode_at: (names["puffin"], 4, in_puffin[0].size),
        dvcodec.read_rows: (names["puffin"],),
        dvcodec.describe: (names["puffin"],),
        iceberg.load: (in_puffin[0],),
        iceberg.manifest_entry: (in_puffin[0],),
        iceberg.lint: (footer,),
        iceberg.read_deletion_vectors: (names["puffin"],),
        iceberg.write_deletion_vectors: (new, vectors),
        iceberg.write_position_deletes: (new, vectors),
        iceberg.write_stored_vectors: (new, frames),
        delta.load: (in_delta[0],),
        delta.Descriptor.from_location: (in_delta[0],),
        delta.read_deletion_vectors: (names["delta"], in_delta),
        delta.load_frames: (names["delta"],),
        delta.read_frames: (names["delta"],),
        delta.write_deletion_vectors: (new, vectors),
        delta.write_stored_vectors: (new, frames),
        paimon.load: (in_paimon[0],),
        paimon.read_deletion_vectors: (names["paimon"], in_paimon),
        paimon.load_frames: (names["paimon"],),
        paimon.write_deletion_vectors: (new, vectors),
        paimon.write_stored_vectors: (new, in_index),
        paimon.write_index_files: (str(folder), vectors),
        paimon.DeletionVectorMeta.from_location: (in_paimon[0],),
        paimon.IndexFile.of: (in_paimon,),
        paimon.IndexManifestEntry.from_index_file: (index,),
        puffin.open_puffin: (names["puffin"],),
        puffin.decode_footer: (names["puffin"],),
        puffin.encode_footer: (footer,),
        puffin.rewrite_paths: (names["puffin"], new, {"a": "b"}),
        lance.read_deletion_file: (deleted,),
        zap.write_segment: (new, [zap.Document(b"a")]),
        zap.merge_segments: (new, [segment]),
        zap.verify_segment: (names["zap"],),
        zap.Segment.open: (names["zap"],),
        segment.terms: ("f",),
        segment.postings: ("f", "b"),
        segment.stored: (0,),
        segment.doc_values: ("f",),
    }
    by_entry = door(iceberg.load, (iceberg.manifest_entry(in_puffin[0]),), "of an entry")
    by_descriptor = door(delta.load, (delta.Descriptor.from_location(in_delta[0]),), "by a descriptor", folder="/x")
    written = door(lance.write_deletion_file, (str(folder), ROWS), fragment=0, read_version=1, kind="bin")
    return dict([*(door(*one) for one in every.items()), by_entry, by_descriptor, written])


def of_tables(folder: Path) -> Doors:
    """Functions on Arrow data and on whole tables."""
    import pyarrow as pa

    from dvcodec import arrow, report, tables
    from samples.iceberg_table import VECTOR, build_iceberg

    built = build_iceberg(folder / "table", VECTOR)
    table = tables.open_table(built.folder)
    audited, scanned, snapshot = tables.audit(table), tables.scan(table), table.snapshot()
    data_file = snapshot.data_files[0]
    pairs = pa.table({"file_path": ["a", "a"], "pos": [1, 2]})
    every: dict[Callable[..., Any], tuple[Any, ...]] = {
        iceberg.vectors_from_arrow: (pairs,),
        ROWS.arrow_mask: (0, 3),
        RowSet.from_arrow: (pa.array([1]),),
        tables.open_table: (str(built.folder),),
        tables.audit: (table,),
        tables.scan: (table,),
        tables.totals: (scanned,),
        tables.rewrite_candidates: (scanned,),
        tables.history: (table,),
        tables.live_batches: (table,),
        tables.deleted_rows: (table, data_file.path),
        tables.export_live: (table, New()),
        tables.repair_plan: (audited, table),
        tables.commit_repair: (tables.repair_plan(audited, table), table),
        tables.enable: (table,),
        tables.upgrade_deletes: (table,),
        tables.convert_table: (table, "delta", New()),
        tables.copy_deletes: (table, table),
        table.snapshot: (),
        table.to_reader: (),
        table.to_pandas: (),
        snapshot.rows: (data_file,),
        snapshot.schema: (),
        snapshot.read: (snapshot.vectors[0],),
        report.render: (audited,),
        report.write: (New(), audited),
    }
    if find_spec("duckdb") is not None:
        import duckdb

        every[table.to_duckdb] = duckdb.connect(), "live"
    deleting: dict[str, Any] = {"dry_run": True}
    several = [
        door(arrow.row_mask, (ROWS,), start=0, length=4),
        door(arrow.row_mask, (ROWS,), "by positions", positions=[1]),
        door(arrow.live_rows, (pairs, ROWS), start=0),
        door(arrow.live_rows, (pairs, ROWS), "by a column", row_index="pos"),
        door(tables.delete, (table,), "by positions", positions={data_file.path: [3]}, **deleting),
        door(tables.delete, (table,), "by keys", keys=pa.table({"id": [3]}), on=["id"], **deleting),
    ]
    return dict([*(door(*one) for one in every.items()), *several])


def door(
    function: Callable[..., Any], given: tuple[Any, ...], which: str = "", **options: Any
) -> tuple[str, tuple[Callable[..., Any], Mapping[str, Any]]]:
    """A function's name, and its arguments by name."""
    names = inspect.signature(function).parameters
    name = f"{function.__module__.removeprefix('dvcodec.')}.{function.__qualname__} {which}".strip()
    return name, (function, dict(zip(names, given, strict=False)) | options)


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
        if not door.endswith(("copy_deletes", "commit_repair")):  # of one table, or of nothing to do
            call(function, arguments, folder)
        for name, value in itertools.product(inspect.signature(function).parameters, WRONG):
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
    tried = {function for function, _ in (of_bytes() | of_files(here)).values()}
    for module in (iceberg, delta, paimon, lance, puffin, zap):
        name = module.__name__.rpartition(".")[2]
        functions = {f"{name}.{one}": getattr(module, one) for one in module.__all__}
        public = {one for one, value in functions.items() if inspect.isfunction(value) and value not in tried}
        assert public - left_out == set()
