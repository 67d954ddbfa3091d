"""The commands that show vectors: inspect, stats, positions, ranges."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from itertools import chain
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray

from dvcodec import iceberg
from dvcodec.cli.json_text import print_json
from dvcodec.cli.manifest import read_manifest
from dvcodec.cli.render import Table, density_strip, say
from dvcodec.cli.shared import DataFile, Json, Names, Rows, Tour, label
from dvcodec.cli.storage import storage
from dvcodec.cli.targets import Opened, open_target
from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import NOTHING, bytes_text, counted, number, plain, share_text
from dvcodec.io.target import named_as
from dvcodec.ops.convert import VectorStats, measure
from dvcodec.ops.read import ContainerKind, VectorRef
from dvcodec.puffin import BlobMetadata

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
_KINDS = {
    "puffin": "Puffin file",
    "delta": "Delta or Paimon 64-bit vector file",
    "paimon": "Paimon vector file",
    "blob": "bare deletion vector",
    "roaring64": "bare 64-bit roaring bitmap",
    "roaring32": "bare 32-bit roaring bitmap, as in a Lance deletion file",
    "mumbling": "Mumbling bitmap, as in manifests of Iceberg v4",
    "lance-arrow": "Lance deletion file (Arrow)",
}


def _inspect_text(opened: Opened, vectors: list[_Seen]) -> None:
    container = opened.container
    what = f"{_KINDS[container.kind.value]}, {bytes_text(container.size)}, {counted(len(vectors), 'vector')}"
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
