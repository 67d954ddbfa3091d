"""Commands that look: inspect, stats, positions, ranges."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape

from dvcodec import iceberg
from dvcodec.cli.app import DataFile, Json, Names, Rows, app, each, label
from dvcodec.cli.render import bytes_text, console, density_strip, number, print_json, share_text, table
from dvcodec.cli.targets import Opened, expand
from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.ops.sniff import VectorRef
from dvcodec.ops.stats import VectorStats, describe


@app.command()
def inspect(targets: Names, rows: Rows = None, as_json: Json = False) -> None:
    """Show what is in a file: container, footer, vectors, and where the deleted rows lie."""
    results: list[dict[str, Any]] = []

    def visit(found: Opened) -> None:
        vectors = [(ref, found.read(ref)) for ref in found.container.vectors]
        numbers = [(ref, describe(vector, row_count=rows)) for ref, vector in vectors]
        if as_json:
            results.append(_inspect_json(found, numbers))
        else:
            _inspect_text(found, numbers, [vector.load() for _, vector in vectors])

    try:
        each(targets, "inspecting", visit)
    finally:
        if as_json:
            print_json(results)


def _inspect_json(opened: Opened, vectors: list[tuple[VectorRef, VectorStats]]) -> dict[str, Any]:
    container = opened.container
    found: dict[str, Any] = {"source": container.source, "kind": container.kind.value, "size": container.size}
    if container.footer is not None:
        found["properties"] = dict(container.footer.properties)
        found["blobs"] = [
            {
                "type": blob.type,
                "fields": list(blob.fields),
                "snapshot_id": blob.snapshot_id,
                "sequence_number": blob.sequence_number,
                "offset": blob.offset,
                "length": blob.length,
                "compression_codec": blob.compression_codec,
                "properties": dict(blob.properties),
            }
            for blob in container.footer.blobs
        ]
    found["vectors"] = [
        {"data_file": ref.data_file, "offset": ref.offset, "stored_cardinality": ref.cardinality} | stats.to_dict()
        for ref, stats in vectors
    ]
    return found


_KINDS = {
    "puffin": "Puffin file",
    "delta": "Delta vector file (or Paimon 64-bit index file: the same bytes)",
    "paimon": "Paimon index file",
    "blob": "bare deletion vector",
    "roaring64": "bare 64-bit roaring bitmap",
    "roaring32": "bare 32-bit roaring bitmap",
}


def _inspect_text(opened: Opened, vectors: list[tuple[VectorRef, VectorStats]], row_sets: list[RowSet]) -> None:
    out = console()
    container = opened.container
    out.print(f"[bold]{escape(container.source)}[/]  {_KINDS[container.kind.value]}, {bytes_text(container.size)}")
    if container.footer is not None:
        for name, value in container.footer.properties.items():
            out.print(f"  {escape(name)}: {escape(value)}")
        others = [blob for blob in container.footer.blobs if blob.type != iceberg.BLOB_TYPE]
        for blob in others:
            out.print(f"  blob {escape(blob.type)} at {blob.offset}, {bytes_text(blob.length)}, not a deletion vector")
    if vectors:
        columns = ("vector", "offset", "size", "rows", "first", "last", "array/bitset/run", "B/row", "where")
        shown = table(*columns, right=("offset", "size", "rows", "first", "last", "B/row"))
        for (ref, stats), rows in zip(vectors, row_sets, strict=True):
            per_row = "–" if stats.bytes_per_row is None else f"{stats.bytes_per_row:.3g}"  # noqa: RUF001
            shown.add_row(
                escape(ref.data_file or "–"),  # noqa: RUF001
                number(ref.offset),
                number(stats.size),
                number(stats.cardinality),
                number(stats.min),
                number(stats.max),
                "/".join(map(str, stats.containers)),
                per_row,
                density_strip(rows, stats.row_count),
            )
        out.print(shown)
    else:
        out.print("  no deletion vectors")
    out.print()


@app.command()
def stats(targets: Names, rows: Rows = None, as_json: Json = False) -> None:
    """Sum up vectors: rows, bytes, density, container mix. Nothing is expanded."""
    items: list[tuple[str, VectorStats]] = []

    def visit(found: Opened) -> None:
        read = [(label(found, ref), found.read(ref)) for ref in found.container.vectors]
        items.extend((name, describe(vector, row_count=rows)) for name, vector in read)

    try:
        each(targets, "reading", visit)
    finally:
        _show_stats(items, as_json)


def _show_stats(items: list[tuple[str, VectorStats]], as_json: bool) -> None:
    total = sum(item.cardinality for _, item in items)
    size = sum(item.size for _, item in items)
    if as_json:
        vectors = [{"vector": name} | item.to_dict() for name, item in items]
        print_json({"vectors": vectors, "total": {"vectors": len(items), "cardinality": total, "size": size}})
        return
    columns = ("vector", "rows", "deleted", "density", "size", "B/row", "arrays", "bitsets", "runs", "gaps")
    shown = table(*columns, right=columns[1:])
    for name, item in items:
        per_row = "–" if item.bytes_per_row is None else f"{item.bytes_per_row:.3g}"  # noqa: RUF001
        shown.add_row(
            escape(name),
            number(item.cardinality),
            share_text(item.deleted_share),
            share_text(item.density),
            bytes_text(item.size),
            per_row,
            *map(number, item.containers),
            number(item.gaps),
        )
    console().print(shown)
    print(f"{len(items):,} vectors, {total:,} rows, {bytes_text(size)}")


def _selected(opened: Opened, data_file: str | None) -> list[VectorRef]:
    refs = [ref for ref in opened.container.vectors if data_file in (None, ref.data_file)]
    if data_file is not None and not refs:
        raise UsageError(f"{opened.source.name} has no vector of {data_file}")
    return refs


@app.command()
def positions(
    targets: Names,
    data_file: DataFile = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="Stop after so many rows of a vector.")] = None,
    as_json: Json = False,
) -> None:
    """Print deleted row positions, one on a line; before it the vector, where there are several."""

    def show(found: Opened, ref: VectorRef, prefix: str) -> dict[str, Any]:
        left = limit
        listed: list[int] = []
        for chunk in found.read(ref).load().chunks():
            values = chunk[:left].tolist()
            if as_json:
                listed += values
            elif values:
                sys.stdout.write(prefix + f"\n{prefix}".join(map(str, values)) + "\n")
            left = None if left is None else left - len(values)
            if left == 0:
                break
        return {"positions": listed}

    _list(targets, data_file, as_json, show)


@app.command()
def ranges(targets: Names, data_file: DataFile = None, as_json: Json = False) -> None:
    """Print deleted rows as ranges: start and stop (the row after the last), one range on a line."""

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
    """Show every chosen vector; a prefix tells them apart where there are several."""
    results: list[dict[str, Any]] = []
    single = len(expand(targets)) == 1

    def visit(found: Opened) -> None:
        refs = _selected(found, data_file)
        for ref in refs:
            prefix = "" if single and len(refs) == 1 else f"{label(found, ref)}\t"
            listed = show(found, ref, prefix)
            results.append({"source": found.source.name, "data_file": ref.data_file, "offset": ref.offset} | listed)

    try:
        each(targets, "reading", visit)
    finally:
        if as_json:
            print_json(results)
