"""The commands that show and check files: inspect, stats, positions, ranges, verify.

Manifests that are named themselves are targets too: Paimon's index manifests and Lance's manifests.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray

from dvcodec import iceberg, lance, paimon
from dvcodec.cli.common import storage
from dvcodec.cli.render import Table, density_strip, print_json, say
from dvcodec.cli.targets import (
    DataFile,
    Json,
    Names,
    Opened,
    Part,
    Rows,
    Target,
    Tour,
    check_text,
    label,
    open_source_of,
    open_target,
)
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.report import Check, Report, Status
from dvcodec.core.roaring import ContainerMix
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import NOTHING, bytes_text, counted, number, plain, share_text
from dvcodec.formats import ContainerKind, VectorRef
from dvcodec.io import is_url, open_source, read_within
from dvcodec.io.store import StoreError
from dvcodec.io.target import named_as
from dvcodec.ops.convert import VectorStats, measure
from dvcodec.ops.read import format_of
from dvcodec.ops.verify import verify_source
from dvcodec.puffin import BlobMetadata
from dvcodec.tables.folder import Folder

_Seen: TypeAlias = tuple[VectorRef, VectorStats | DecodeError, RowSet]
"""A vector, its statistics or error, and its rows."""


def inspect(targets: Names, rows: Rows = None, as_json: Json = False) -> None:
    """Show a file's container, footer and vectors, and where the deleted rows are; a segment's fields; a manifest.

    A manifest is a Paimon index manifest or a Lance manifest; those of folders are skipped.
    """
    results: list[dict[str, Any]] = []
    tour = Tour(targets, "inspecting", silent=as_json)
    for target in tour:
        with tour.turn():
            manifest = read_manifest(target)
            if manifest is not None:
                results.append(manifest.to_dict()) if as_json else manifest.show()
                continue
            with open_target(target, segments=True) as found:
                if found is None:
                    tour.skipped += 1
                elif found.container.kind is ContainerKind.ZAP:
                    results += _segment(found, tour, as_json)
                else:
                    results += _vectors(found, tour, rows, as_json)
    if as_json:
        print_json(results)
    tour.finish()


def _vectors(opened: Opened, tour: Tour, rows: int | None, as_json: bool) -> list[dict[str, Any]]:
    vectors: list[_Seen] = []
    for ref in opened.container.vectors:
        with tour.turn():
            try:
                vector = opened.read(ref)
                vectors.append((ref, measure(vector, row_count=rows, size=ref.size), vector.load()))
            except DecodeError as err:
                vectors.append((ref, err, RowSet()))
                raise
    marks = [tour.tables.seen(opened.source.name, ref.offset) for ref, *_ in vectors]
    if as_json:
        return [_inspect_json(opened, vectors, marks)]
    _inspect_text(opened, vectors)
    return []


def _segment(opened: Opened, tour: Tour, as_json: bool) -> list[dict[str, Any]]:
    from dvcodec.cli.zap.inspect import inspect_segment

    @contextmanager
    def turn() -> Iterator[None]:
        with tour.turn(), opened.errors_of_file():
            yield

    with opened.errors_of_file():
        found = inspect_segment(opened.named, turn=turn, as_json=as_json, limits=storage().limits)
    return [] if found is None else [found]


def _inspect_json(opened: Opened, vectors: list[_Seen], marks: list[dict[str, bool | None]]) -> dict[str, Any]:
    container = opened.container
    found: dict[str, Any] = {"source": container.source, "kind": container.kind.value, "size": container.size}
    if container.footer is not None:
        found["properties"] = dict(container.footer.properties)
        found["blobs"] = [{name: getattr(blob, name) for name in _OF_BLOB} for blob in container.footer.blobs]
    found["vectors"] = [
        {"data_file": ref.data_file, "offset": ref.offset, "stored_cardinality": ref.cardinality}
        | mark
        | ({"error": str(stats)} if isinstance(stats, DecodeError) else stats.to_dict())
        for (ref, stats, _), mark in zip(vectors, marks, strict=True)
    ]
    return found


_OF_BLOB = [field.name for field in fields(BlobMetadata) if field.name != "unknown"]


def _inspect_text(opened: Opened, vectors: list[_Seen]) -> None:
    container = opened.container
    what = f"{format_of(container.kind.value).title}, {bytes_text(container.size)}, {counted(len(vectors), 'vector')}"
    say((container.source, "bold"), f"  {what}")
    if container.footer is not None:
        for name, value in container.footer.properties.items():
            say(f"  {name}: {value}")
        others = [blob for blob in container.footer.blobs if blob.type != iceberg.BLOB_TYPE]
        for blob in others:
            say(f"  {blob.type} at {blob.offset}, {bytes_text(blob.length)}, not a deletion vector")
    columns = ("vector", "offset", "size", "rows", "first", "last", "containers", "B/row", "where")
    shown = Table(*columns, right=("offset", "size", "rows", "first", "last", "B/row"))
    for ref, stats, rows in vectors:
        name = ref.data_file or NOTHING
        if isinstance(stats, DecodeError):
            shown.add(name, number(ref.offset), number(ref.size), *[NOTHING] * 5, "damaged")
            continue
        shown.add(
            name,
            number(ref.offset),
            number(stats.size),
            number(stats.cardinality),
            number(stats.min),
            number(stats.max),
            _mix_text(stats.containers),
            _per_row_text(stats),
            density_strip(rows, stats.row_count),
        )
    shown.show()
    print()


def _mix_text(mix: ContainerMix) -> str:
    """Return the containers in words: 2 array, 1 run."""
    kinds = (("array", mix.arrays), ("bitset", mix.bitsets), ("run", mix.runs))
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds if count) or NOTHING


def _per_row_text(stats: VectorStats) -> str:
    return NOTHING if stats.bytes_per_row is None else f"{stats.bytes_per_row:.3g}"


def stats(targets: Names, rows: Rows = None, as_json: Json = False) -> None:
    """Show rows, bytes, density and container mix of vectors, without expanding them."""
    items: list[tuple[str, dict[str, Any], VectorStats]] = []
    tour = Tour(targets, "reading", silent=True)
    for found in tour.containers():
        for ref in found.container.vectors:
            with tour.turn():
                numbers = measure(found.read(ref), row_count=rows, size=ref.size)
                items.append((label(found, ref, len(tour.targets)), _where(tour, found, ref), numbers))
    if as_json or items or not (tour.failed or tour.found_nothing):
        _show_stats(items, as_json)
    tour.finish()


def _where(tour: Tour, found: Opened, ref: VectorRef) -> dict[str, Any]:
    where = {"source": found.source.name, "data_file": ref.data_file, "offset": ref.offset}
    return where | tour.tables.seen(found.source.name, ref.offset)


def _show_stats(items: list[tuple[str, dict[str, Any], VectorStats]], as_json: bool) -> None:
    total = sum(item.cardinality for *_, item in items)
    size = sum(item.size for *_, item in items)
    if as_json:
        vectors = [where | item.to_dict() for _, where, item in items]
        print_json({"vectors": vectors, "total": {"vectors": len(items), "cardinality": total, "size": size}})
        return
    columns = ("vector", "deleted", "share", "density", "size", "B/row", "arrays", "bitsets", "runs", "gaps")
    shown = Table(*columns, right=columns[1:])
    for name, _, item in items:
        shown.add(
            name,
            number(item.cardinality),
            share_text(item.deleted_share),
            share_text(item.density),
            bytes_text(item.size),
            _per_row_text(item),
            *map(number, item.containers),
            number(item.gaps),
        )
    shown.show()
    print(f"{counted(len(items), 'vector')}, {counted(total, 'row')}, {bytes_text(size)}")


def positions(
    targets: Names,
    data_file: DataFile = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most this many rows per vector.")] = None,
    as_json: Json = False,
) -> None:
    """Print deleted row positions, one per line, after the vector's name if there are several."""

    def show(found: Opened, ref: VectorRef, prefix: str) -> dict[str, Any]:
        parts = _first(found.read(ref).load().chunks(), limit)
        if as_json:
            return {"positions": chain.from_iterable(parts)}  # printed as they are read: there may be billions
        for values in parts:
            sys.stdout.write(prefix + f"\n{prefix}".join(map(str, values)) + "\n")
        return {}

    _list(targets, data_file, as_json, show)


def _first(chunks: Iterable[NDArray[np.int64]], limit: int | None) -> Iterator[list[int]]:
    """Yield the positions in chunks, at most `limit` in all."""
    left = limit
    for chunk in chunks:
        if left == 0:
            break
        values = chunk[:left].tolist()
        left = None if left is None else left - len(values)
        yield values


def ranges(targets: Names, data_file: DataFile = None, as_json: Json = False) -> None:
    """Print deleted rows as ranges, one per line: start, stop (exclusive)."""

    def show(found: Opened, ref: VectorRef, prefix: str) -> dict[str, Any]:
        spans = found.read(ref).load().ranges().tolist()
        if not as_json:
            sys.stdout.writelines(f"{prefix}{start}\t{stop}\n" for start, stop in spans)
        return {"ranges": spans}

    _list(targets, data_file, as_json, show)


def _list(
    targets: list[str],
    data_file: str | None,
    as_json: bool,
    show: Callable[[Opened, VectorRef, str], dict[str, Any]],
) -> None:
    """Show every chosen vector; if there are several, each line begins with the vector's name.

    Raises:
        UsageError: no file holds a vector of `data_file`.
    """
    results: list[dict[str, Any]] = []
    chosen = 0
    tour = Tour(targets, "reading", silent=as_json)
    for found in tour.containers():
        refs = [ref for ref in found.container.vectors if named_as(ref.data_file, data_file)]
        chosen += len(refs)
        for ref in refs:
            alone = len(tour.targets) == len(refs) == 1
            prefix = "" if alone else f"{plain(label(found, ref, len(tour.targets)))}\t"
            with tour.turn():
                listed = show(found, ref, prefix)
                results.append(_where(tour, found, ref) | listed)
    if as_json:
        print_json(results)
    if data_file is not None and not chosen and not tour.failed:
        raise UsageError(f"no vector of {data_file} in {counted(len(tour.targets) - tour.skipped, 'file')}")
    tour.finish()


def verify(
    targets: Names,
    rows: Rows = None,
    cardinality: Annotated[
        int | None,
        typer.Option(
            "--cardinality",
            min=0,
            help="Rows according to the manifest or log, for one vector: choose it by --data-file or path@offset.",
        ),
    ] = None,
    data_file: DataFile = None,
    every: Annotated[bool, typer.Option("--all", help="Show the checks that passed too.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Show only files with findings.")] = False,
    as_json: Json = False,
) -> None:
    """Check files: length, CRC, magic, structure, cardinality, Puffin's rules; all parts of a segment; a manifest.

    A Paimon index manifest or a Lance manifest is checked against the files that it references; those of folders are
    skipped.
    """
    results: list[tuple[Report, dict[str, int | None]]] = []

    def add(report: Report, superseded: dict[str, int | None]) -> None:
        results.append((report, superseded))
        if not as_json and not (failed and report.ok):
            _print_report(report, every)

    tour = Tour(targets, "verifying", silent=as_json)
    for target in tour:
        with tour.turn():
            manifest = read_manifest(target)
            if manifest is not None:
                add(manifest.verify(), {})
                continue
            refs = _vectors_in(target) if target.found else ()
            if refs is None:
                tour.skipped += 1
                continue
            report = _verify(target, rows, cardinality, data_file)
            add(report, _superseded(tour, target, refs))
    with tour.turn():
        for report in tour.tables.missing():
            add(report, {})
    bad = sum(not report.ok for report, _ in results)
    if as_json:
        shown = [(report, superseded) for report, superseded in results if not (failed and report.ok)]
        print_json([report.to_dict() | superseded for report, superseded in shown])
    elif results:
        print(f"{counted(len(results), 'file')}, {bad or 'none'} with findings")
    tour.finish(1 if bad else 0)


def _verify(target: Target, rows: int | None, cardinality: int | None, data_file: str | None) -> Report:
    try:
        with open_source_of(target) as source:
            base = source.base if isinstance(source, Part) else 0
            report = verify_source(
                source, cardinality=cardinality, row_count=rows, data_file=data_file, limits=storage().limits, base=base
            )
    except DecodeError as err:  # the part is not within the file
        return Report(err.source or target.path, None, (Check.from_error("container", "file", err),))
    return _moved(report, base) if base else report


def _superseded(tour: Tour, target: Target, refs: tuple[VectorRef, ...]) -> dict[str, int | None]:
    """Count, for JSON, the vectors of a file that are not in the table's current snapshot; {} outside of tables."""
    marks = [mark for ref in refs for mark in tour.tables.seen(target.path, ref.offset).values()]
    return {"superseded": None if None in marks else sum(map(bool, marks))} if marks else {}


def _moved(report: Report, base: int) -> Report:
    """Make the offsets of a part's report relative to the file."""
    checks = (check if check.offset is None else replace(check, offset=check.offset + base) for check in report.checks)
    return Report(f"{report.source}@{base}", report.kind, tuple(checks))


def _vectors_in(target: Target) -> tuple[VectorRef, ...] | None:
    """Return the vectors in a file of a folder: () if it is corrupt, None if it is not a container."""
    try:
        with open_target(target, segments=True) as found:
            return None if found is None else found.container.vectors
    except DecodeError:
        return ()


_STATUS = {
    Status.PASS: ("pass", "green"),
    Status.FAIL: ("FAIL", "bold red"),
    Status.NOT_APPLICABLE: ("n/a", "dim"),
}


def _print_report(report: Report, every: bool) -> None:
    made = counted(sum(check.status is not Status.NOT_APPLICABLE for check in report.checks), "check")
    result = f"{made} passed" if report.ok else f"{len(report.findings)} of {made} failed"
    sign = ("ok    ", "green") if report.ok else ("FAIL  ", "bold red")
    say(sign, (report.source, "bold"), f"  {report.kind or 'unknown container'}, {result}")
    for check in report.checks if every else report.findings:
        say("  ", _STATUS[check.status], f"  {check_text(check)}")


def read_manifest(target: Target) -> PaimonManifest | LanceManifest | None:
    """Read a manifest that was named itself; None for other targets, and for the files of a folder.

    Raises:
        DecodeError: it is corrupt.
        OSError: it cannot be read.
    """
    if target.found or target.offset is not None:
        return None
    name = target.path.replace("\\", "/").rpartition("/")[2]
    if name.startswith("index-manifest-"):
        return PaimonManifest(target.path)
    return LanceManifest(target.path) if name.endswith(".manifest") else None


class PaimonManifest:
    """An index manifest: the index files of a snapshot, and the vectors in them.

    Args:
        path: file or URL.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.entries = paimon.read_index_manifest(path, storage_options=storage())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"source": self.path, "kind": "paimon-index-manifest", "entries": list(map(_entry_json, self.entries))}

    def show(self) -> None:
        """Print the index files, and the vectors in them."""
        say((self.path, "bold"), f"  Paimon index manifest, {counted(len(self.entries), 'index file')}")
        shown = Table("index file", "type", "size", "rows", "bucket", "partition", right=("size", "rows", "bucket"))
        for entry in self.entries:
            partition = NOTHING if entry.partition == paimon.EMPTY_PARTITION else entry.partition.hex()
            name = entry.external_path or entry.file_name
            kind = entry.index_type if entry.kind == "ADD" else f"{entry.index_type} ({entry.kind})"
            shown.add(name, kind, bytes_text(entry.file_size), number(entry.row_count), number(entry.bucket), partition)
        shown.show()
        print()
        shown = Table("data file", "index file", "offset", "length", "rows", right=("offset", "length", "rows"))
        for entry in self.entries:
            for meta in entry.vectors or ():
                numbers = (number(meta.offset), number(meta.length), number(meta.cardinality))
                shown.add(meta.data_file, entry.file_name, *numbers)
        shown.show()

    def verify(self) -> Report:
        """Check the index files: vectors against offset, length, CRC and cardinality, hash indexes against their count.

        Raises:
            UsageError: the manifest is not in a table's folder.
        """
        root = _root(self.path, "manifest")
        checks = tuple(check for entry in self.entries for check in check_entry(entry, root))
        return Report(self.path, "paimon-index-manifest", checks)


def _entry_json(entry: paimon.IndexManifestEntry) -> dict[str, Any]:
    vectors = None if entry.vectors is None else list(map(_members, entry.vectors))
    return _members(entry) | {"vectors": vectors}


def _members(value: paimon.IndexManifestEntry | paimon.DeletionVectorMeta) -> dict[str, Any]:
    """Return the fields of a value; ``asdict`` copies what is in them, too, which takes ten times as long."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def check_entry(entry: paimon.IndexManifestEntry, root: str) -> Iterator[Check]:
    """Check an index file of the table at `root` against the manifest."""
    try:
        folder = Folder(root, storage=storage())
        location = folder.locate(entry.path(root))
        if entry.index_type == paimon.HASH:
            with open_source(location, storage_options=folder.storage) as source:
                data = read_within(source, "max_metadata_bytes").view
                paimon.decode_hash_index(data, row_count=entry.row_count, source=entry.file_name)
            yield Check.passed("index-file", entry.file_name)
        if entry.vectors:
            with folder.storage.hold(location):
                for meta in entry.vectors:
                    subject = f"{entry.file_name}: vector of {meta.data_file}"
                    try:
                        paimon.load(meta, location, storage_options=folder.storage)
                        yield Check.passed("vector", subject, meta.offset)
                    except DecodeError as err:
                        yield Check.from_error("vector", subject, err)
    except (DecodeError, OSError) as err:
        yield _failed("index-file", entry.file_name, err)
    if entry.vectors is not None and entry.row_count != len(entry.vectors):
        expected = f"{len(entry.vectors)} (vectors)"
        yield Check.failed("row-count", entry.file_name, None, "_ROW_COUNT", expected, entry.row_count)


def _root(path: str, folder: str) -> str:
    """Return the table's folder, two levels above the manifest."""
    parts = path.replace("\\", "/").rsplit("/", 2) if is_url(path) else Path(path).absolute().parts
    if len(parts) < 3 or parts[-2] != folder:
        raise UsageError(f"{path}: expected a manifest in a folder {folder!r}, to locate the files that it references")
    return str(parts[0]) if is_url(path) else str(Path(*parts[:-2]))


def _failed(name: str, subject: str, err: DecodeError | OSError) -> Check:
    if isinstance(err, DecodeError):
        return Check.from_error(name, subject, err)
    words = str(err) if isinstance(err, StoreError) else str(err.strerror or err)
    return Check.failed(name, subject, None, words, "a file that can be read", "none")


class LanceManifest:
    """A version of a Lance dataset: its fragments, their deletion files and row ids.

    Args:
        path: file or URL.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.manifest = lance.read_manifest(path, storage_options=storage())

    @cached_property
    def row_ids(self) -> list[lance.RowIdSequence | DecodeError | None]:
        """The row ids of each fragment, or why they cannot be read."""
        return list(map(_row_ids, self.manifest.fragments))

    @property
    def fragments(self) -> list[dict[str, Any]]:
        """Each fragment as plain values."""
        return list(map(_fragment, self.manifest.fragments, self.row_ids))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "source": self.path,
            "kind": "lance-manifest",
            "version": self.manifest.version,
            "next_row_id": self.manifest.next_row_id,
            "stable_row_ids": self.manifest.has_stable_row_ids,
            "reader_flags": self.manifest.reader_flags,
            "writer_flags": self.manifest.writer_flags,
            "writer": self.manifest.writer,
            "fragments": self.fragments,
        }

    def show(self) -> None:
        """Print the fragments."""
        found = self.manifest
        ids = f"stable row ids, next {found.next_row_id:,}" if found.has_stable_row_ids else "no stable row ids"
        about = f"version {found.version}, {counted(len(found.fragments), 'fragment')}, {ids}"
        say((self.path, "bold"), f"  Lance manifest, {about}" + (f", by {found.writer}" if found.writer else ""))
        columns = ("fragment", "rows", "deleted", "deletion file", "row ids", "as", "bytes")
        shown = Table(*columns, right=("fragment", "rows", "deleted", "bytes"))
        for item in self.fragments:
            file = item["deletion_file"]
            ids = item["row_ids"]
            shown.add(
                number(item["id"]),
                number(item["physical_rows"]),
                NOTHING if file is None else number(file["num_deleted_rows"] or None),
                NOTHING if file is None else file["path"],
                NOTHING if ids is None else ids.get("error") or f"{number(ids['first'])} .. {number(ids['last'])}",
                NOTHING if ids is None else ", ".join(ids.get("segments", ())) or NOTHING,
                NOTHING if ids is None else number(ids.get("size")),
            )
        shown.show()
        print()

    def verify(self) -> Report:
        """Check deletion files against their counts, and row ids of live rows against those of all other fragments.

        Raises:
            UsageError: the manifest is not in a dataset's folder.
        """
        root = _root(self.path, "_versions")
        checks: list[Check] = []
        parts = []
        named: set[tuple[int | None, str]] = set()
        for fragment, ids in zip(self.manifest.fragments, self.row_ids, strict=True):
            deleted = RowSet()
            subject = f"fragment {fragment.id}"
            file = fragment.deletion_file
            place = None if file is None else (file.base_id, file.path(""))
            if place in named:  # and it was read
                what, actual = "deletion file", f"that of another fragment: {place[1]}"
                checks.append(Check.failed("deletion-file", subject, None, what, "one of its own", actual))
            else:
                named |= set() if place is None else {place}
                try:
                    deleted = fragment.deleted_rows(root, storage_options=storage().of_table(root))
                    checks.append(Check.passed("deletion-file", subject))
                except (DecodeError, OSError) as err:
                    checks.append(_failed("deletion-file", subject, err))
            if isinstance(ids, DecodeError):
                checks.append(Check.from_error("sequence", subject, ids))
            elif ids is not None:
                parts.append(lance.FragmentIds(fragment.id, ids, deleted, fragment.physical_rows or None))
            try:
                if fragment.created_at is not None:
                    fragment.created_at_versions()
                if fragment.last_updated_at is not None:
                    fragment.last_updated_at_versions()
            except DecodeError as err:
                checks.append(Check.from_error("sequence", subject, err))
        report = lance.check_row_ids(parts, next_row_id=self.manifest.next_row_id if parts else None)
        return Report(self.path, "lance-manifest", (*checks, *report.checks))


def _row_ids(fragment: lance.Fragment) -> lance.RowIdSequence | DecodeError | None:
    try:
        return None if fragment.row_ids is None else fragment.row_id_sequence()
    except DecodeError as err:
        return err


def _fragment(fragment: lance.Fragment, row_ids: lance.RowIdSequence | DecodeError | None) -> dict[str, Any]:
    file = fragment.deletion_file
    ids: dict[str, Any] | None = None
    if isinstance(row_ids, DecodeError):
        ids = {"error": str(row_ids)}
    elif row_ids is not None:
        count = row_ids.count
        ids = {
            "count": count,
            "first": row_ids.get(0),
            "last": row_ids.get(count - 1),
            "segments": [type(segment).__name__.removesuffix("Segment") for segment in row_ids.segments],
            "size": len(lance.encode_row_ids(row_ids)),
        }
    return {
        "id": fragment.id,
        "physical_rows": fragment.physical_rows,
        "row_ids": ids,
        "deletion_file": None if file is None else asdict(file) | {"path": file.path("").lstrip("/")},
    }
