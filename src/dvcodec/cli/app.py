"""The commands. Each reads targets, calls the library, and shows what came back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.markup import escape

from dvcodec import delta, iceberg, puffin
from dvcodec._version import __version__
from dvcodec.cli.render import bytes_text, console, density_strip, number, print_json, share_text, table, track
from dvcodec.cli.targets import Opened, Target, expand, open_source_of, open_target
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.location import DvLocation
from dvcodec.core.report import Report, Status
from dvcodec.core.rowset import RowSet
from dvcodec.ops import convert as conversion
from dvcodec.ops.algebra import diff as diff_rows
from dvcodec.ops.algebra import merge as merge_rows
from dvcodec.ops.sniff import VectorRef
from dvcodec.ops.stats import VectorStats, describe
from dvcodec.ops.verify import verify_source

app = typer.Typer(
    name="dvcodec",
    help="Deletion vectors of Iceberg, Delta Lake and Paimon: look inside, verify, convert, merge.",
    epilog="Exit codes: 0 fine, 1 findings (or differences), 2 unreadable or wrong usage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

Names = Annotated[
    list[str],
    typer.Argument(metavar="TARGET...", help="File, glob, folder, path@offset:size, URL, or - for standard input."),
]
Name = Annotated[str, typer.Argument(metavar="TARGET", help="File, path@offset:size, URL, or -.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Rows = Annotated[int | None, typer.Option("--rows", help="Physical rows of the data file.", min=0)]
Output = Annotated[str, typer.Option("--output", "-o", help="Where to write: a path or a URL.")]
To = Annotated[str, typer.Option("--to", help=f"What to write: {', '.join(conversion.TARGETS)}.")]
DataFile = Annotated[str | None, typer.Option("--data-file", help="Only the vector of this data file.")]
DataFiles = Annotated[
    list[str] | None,
    typer.Option("--data-file", help="The vectors' data files, in file order; repeat for each vector."),
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dvcodec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version


def _opened(names: list[str], what: str) -> Iterator[Opened]:
    """Open every target in turn; say at the end how many files of folders held no vectors."""
    targets = expand(names)
    skipped = 0
    for target in track(targets, len(targets), what):
        with open_target(target) as opened:
            if opened is None:
                skipped += 1
            else:
                yield opened
    _tell_skipped(skipped)


def _tell_skipped(count: int) -> None:
    if count:
        print(f"dvcodec: {count} other files hold no deletion vectors", file=sys.stderr)


def _label(opened: Opened, ref: VectorRef) -> str:
    return ref.data_file or f"{opened.source.name}@{ref.offset}"


# ---------------------------------------------------------------------- look


@app.command()
def inspect(targets: Names, rows: Rows = None, as_json: Json = False) -> None:
    """Show what is in a file: container, footer, vectors, and where the deleted rows lie."""
    results = []
    for opened in _opened(targets, "inspecting"):
        vectors = [(ref, opened.read(ref)) for ref in opened.container.vectors]
        if as_json:
            results.append(_inspect_json(opened, [(ref, describe(v, row_count=rows)) for ref, v in vectors]))
        else:
            stats = [(ref, describe(v, row_count=rows), v.load()) for ref, v in vectors]
            _inspect_text(opened, stats)
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


def _inspect_text(opened: Opened, vectors: list[tuple[VectorRef, VectorStats, RowSet]]) -> None:
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
        for ref, stats, rows in vectors:
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
    items = []
    for opened in _opened(targets, "reading"):
        for ref in opened.container.vectors:
            items.append((_label(opened, ref), describe(opened.read(ref), row_count=rows)))
    total = sum(item.cardinality for _, item in items)
    size = sum(item.size for _, item in items)
    if as_json:
        vectors = [{"vector": label} | item.to_dict() for label, item in items]
        print_json({"vectors": vectors, "total": {"vectors": len(items), "cardinality": total, "size": size}})
        return
    columns = ("vector", "rows", "deleted", "density", "size", "B/row", "arrays", "bitsets", "runs", "gaps")
    shown = table(*columns, right=columns[1:])
    for label, item in items:
        per_row = "–" if item.bytes_per_row is None else f"{item.bytes_per_row:.3g}"  # noqa: RUF001
        shown.add_row(
            escape(label),
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
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="Stop after so many rows.")] = None,
    as_json: Json = False,
) -> None:
    """Print deleted row positions, one on a line; before it the vector, where there are several."""
    left = limit
    results: list[dict[str, Any]] = []
    for opened in _opened(targets, "reading"):
        refs = _selected(opened, data_file)
        alone = len(refs) == 1 and len(targets) == 1
        for ref in refs:
            prefix = "" if alone else f"{_label(opened, ref)}\t"
            listed: list[int] = []
            for chunk in opened.read(ref).load().chunks():
                values = chunk[:left].tolist()
                left = None if left is None else left - len(values)
                if as_json:
                    listed += values
                elif values:
                    sys.stdout.write(prefix + f"\n{prefix}".join(map(str, values)) + "\n")
                if left == 0:
                    break
            results.append({"source": opened.source.name, "data_file": ref.data_file, "positions": listed})
    if as_json:
        print_json(results)


@app.command()
def ranges(targets: Names, data_file: DataFile = None, as_json: Json = False) -> None:
    """Print deleted rows as ranges: start and stop (the row after the last), one range on a line."""
    results: list[dict[str, Any]] = []
    for opened in _opened(targets, "reading"):
        refs = _selected(opened, data_file)
        alone = len(refs) == 1 and len(targets) == 1
        for ref in refs:
            found = opened.read(ref).load().ranges().tolist()
            results.append({"source": opened.source.name, "data_file": ref.data_file, "ranges": found})
            if not as_json:
                prefix = "" if alone else f"{_label(opened, ref)}\t"
                sys.stdout.writelines(f"{prefix}{start}\t{stop}\n" for start, stop in found)
    if as_json:
        print_json(results)


# ---------------------------------------------------------------------- check


@app.command()
def verify(
    targets: Names,
    rows: Rows = None,
    cardinality: Annotated[
        int | None, typer.Option("--cardinality", min=0, help="Rows that the manifest or log promises.")
    ] = None,
    data_file: DataFile = None,
    every: Annotated[bool, typer.Option("--all", help="Show the checks that passed too.")] = False,
    as_json: Json = False,
) -> None:
    """Check files: length, CRC, magic, structure, cardinality, and the rules for Puffin metadata."""
    reports, skipped = [], 0
    found = expand(targets)
    for target in track(found, len(found), "verifying"):
        report = _verify(target, rows, cardinality, data_file)
        if report is None:
            skipped += 1
            continue
        reports.append(report)
        if not as_json:
            _print_report(report, every)
    if as_json:
        print_json([report.to_dict() for report in reports])
    else:
        bad = sum(not report.ok for report in reports)
        print(f"{len(reports):,} {'file' if len(reports) == 1 else 'files'}, {bad or 'none'} with findings")
    _tell_skipped(skipped)
    if any(not report.ok for report in reports):
        raise typer.Exit(1)


def _verify(target: Target, rows: int | None, cardinality: int | None, data_file: str | None) -> Report | None:
    if target.found:
        with open_target_quietly(target) as opened:
            if not opened:
                return None
    with open_source_of(target) as source:
        return verify_source(source, cardinality=cardinality, row_count=rows, data_file=data_file)


class open_target_quietly:  # noqa: N801  (reads as a function)
    """Whether a file of a folder is a container at all; a damaged one is."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __enter__(self) -> bool:
        try:
            with open_target(self._target) as opened:
                return opened is not None
        except DecodeError:
            return True

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""


_SIGNS = {Status.PASS: "[green]pass[/]", Status.FAIL: "[bold red]FAIL[/]", Status.NOT_APPLICABLE: "[dim]n/a[/]"}


def _print_report(report: Report, every: bool) -> None:
    out = console()
    sign = "[green]ok[/]" if report.ok else "[bold red]FAIL[/]"
    passed = sum(check.status is Status.PASS for check in report.checks)
    out.print(f"{sign}  [bold]{escape(report.source)}[/]  {report.kind or 'unknown container'}, {passed} checks passed")
    for check in report.checks if every else report.findings:
        place = "" if check.offset is None else f" at byte {check.offset}"
        text = f"  {_SIGNS[check.status]}  {check.name}: {escape(check.subject)}{place}"
        if check.status is Status.FAIL:
            text += f": {escape(check.message or '')}: expected {escape(str(check.expected))}"
            text += f", found {escape(str(check.actual))}"
        out.print(text, soft_wrap=True)


# ---------------------------------------------------------------------- change


def _rows_of(name: str) -> dict[str | None, RowSet]:
    opened = _opened([name], "reading")
    return merge_rows({ref.data_file: rows} for item in opened for ref, rows in item.rows())


@app.command()
def diff(
    old: Name,
    new: Name,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Ranges to show of each change.")] = 10,
    as_json: Json = False,
) -> None:
    """Show what a newer file deletes in addition and what it restores. Exit code 1 if there is a difference."""
    before, after = _rows_of(old), _rows_of(new)
    if len(before) == len(after) == 1 and None in (*before, *after):
        # One vector against one, of which at least one is bare: they are meant for each other.
        name = next(iter(after)) or next(iter(before))
        before, after = {name: next(iter(before.values()))}, {name: next(iter(after.values()))}
    changes = []
    for path in dict.fromkeys([*before, *after]):
        change = diff_rows(before.get(path, RowSet()), after.get(path, RowSet()))
        if change.added or change.restored:
            changes.append((path, change))
    if as_json:
        print_json(
            [
                {
                    "data_file": path,
                    "added": change.added.ranges().tolist(),
                    "restored": change.restored.ranges().tolist(),
                }
                for path, change in changes
            ]
        )
    else:
        for path, change in changes:
            console().print(
                f"[bold]{escape(path or '-')}[/]  {len(change.added):,} deleted, {len(change.restored):,} restored"
            )
            for sign, rows in (("+", change.added), ("-", change.restored)):
                spans = rows.ranges()
                for start, stop in spans[:limit].tolist():
                    print(f"  {sign} {start}" + (f"..{stop - 1}" if stop - start > 1 else ""))
                if len(spans) > limit:
                    print(f"  {sign} ... {len(spans) - limit:,} more ranges")
        if not changes:
            print("no difference")
    if changes:
        raise typer.Exit(1)


@app.command()
def merge(
    targets: Names, output: Output, to: To = "puffin", data_files: DataFiles = None, as_json: Json = False
) -> None:
    """Unite vectors by data file and write them to one new file."""
    vectors = merge_rows({ref.data_file: rows} for opened in _opened(targets, "merging") for ref, rows in opened.rows())
    if data_files:
        if list(vectors) != [None] or len(data_files) != 1:
            raise UsageError("--data-file names the one data file of vectors that do not name theirs")
        vectors = {data_files[0]: vectors[None]}
    _show_written(conversion.write(_target(to), output, vectors), as_json)


@app.command()
def convert(target: Name, output: Output, to: To, data_files: DataFiles = None, as_json: Json = False) -> None:
    """Convert a file; vectors are verified, and copied byte for byte where the formats share them."""
    with open_source_of(expand([target])[0]) as source:
        written = conversion.convert(source, _target(to), output, data_files=data_files or None)
    _show_written(written, as_json)


def _target(to: str) -> conversion.Target:
    if to not in conversion.TARGETS:
        raise UsageError(f"--to {to}: not one of {', '.join(conversion.TARGETS)}")
    return cast("conversion.Target", to)


def _commit_values(location: DvLocation) -> dict[str, Any]:
    """What the table's metadata has to say of a vector: a manifest entry or a descriptor."""
    if location.format == "iceberg" and location.data_file is not None:
        return {"manifest_entry": iceberg.manifest_entry(location)}
    if location.format == "delta":
        path = location.path if "://" in location.path else str(Path(location.path).resolve())
        located = DvLocation("delta", path, location.offset, location.size, location.cardinality)
        folder = path.rpartition("/")[0]
        return {"descriptor": json.loads(delta.Descriptor.from_location(located, folder).to_json())}
    return {}


def _show_written(locations: list[DvLocation], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "format": location.format,
                    "path": location.path,
                    "offset": location.offset,
                    "size": location.size,
                    "cardinality": location.cardinality,
                    "data_file": location.data_file,
                    "file_size": location.file_size,
                }
                | _commit_values(location)
                for location in locations
            ]
        )
        return
    if not locations:
        print("no vectors, nothing written")
        return
    shown = table("data file", "offset", "size", "rows", right=("offset", "size", "rows"))
    for location in locations:
        values = (number(location.offset), number(location.size), number(location.cardinality))
        shown.add_row(escape(location.data_file or "–"), *values)  # noqa: RUF001
    console().print(shown)
    print(f"wrote {locations[0].path}, {bytes_text(locations[0].file_size)}")


@app.command("rewrite-paths")
def rewrite_paths(
    target: Name,
    output: Output,
    old: Annotated[str | None, typer.Option("--from", help="Prefix of the data files' old paths.")] = None,
    new: Annotated[str | None, typer.Option("--to", help="What to put in its place.")] = None,
    pairs: Annotated[list[str] | None, typer.Option("--map", metavar="OLD=NEW", help="One path for another.")] = None,
) -> None:
    """Rename the data files of a moved table in a Puffin file; the vectors' bytes stay as they are."""
    if bool(pairs) == (old is not None) or (old is None) != (new is None):
        raise UsageError("give --from and --to, or one or more --map OLD=NEW")
    with open_source_of(expand([target])[0]) as source:
        if old is not None and new is not None:
            prefix, replacement = old, new
            changed = puffin.rewrite_paths(
                source, output, lambda path: replacement + path[len(prefix) :] if path.startswith(prefix) else path
            )
        else:
            split = [pair.partition("=") for pair in pairs or []]
            if not all(sign for _, sign, _ in split):
                raise UsageError("--map needs OLD=NEW")
            changed = puffin.rewrite_paths(source, output, {before: after for before, _, after in split})
    print(f"wrote {output}, {changed} {'path' if changed == 1 else 'paths'} changed")


@app.command()
def demo(
    folder: Annotated[str, typer.Option("--folder", help="Where to put the files.")] = "demo-out",
) -> None:
    """Build Parquet files, delete rows, write vectors as Puffin, convert, verify, and read the live rows back."""
    from dvcodec.cli.demo import run

    run(Path(folder))
