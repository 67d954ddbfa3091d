"""Commands that compare and write: diff, merge, convert, rewrite-paths, demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.markup import escape

from dvcodec import delta, iceberg, puffin
from dvcodec.cli.app import DataFiles, Json, Name, Names, Output, To, app, opened
from dvcodec.cli.render import bytes_text, console, number, print_json, table
from dvcodec.cli.targets import expand, open_source_of
from dvcodec.core.errors import UsageError
from dvcodec.core.location import DvLocation
from dvcodec.core.rowset import RowSet
from dvcodec.ops import convert as conversion
from dvcodec.ops.algebra import diff as diff_rows
from dvcodec.ops.algebra import merge as merge_rows


def _rows_of(name: str) -> dict[str | None, RowSet]:
    found = opened([name], "reading")
    return merge_rows({ref.data_file: rows} for item in found for ref, rows in item.rows())


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
    vectors = merge_rows({ref.data_file: rows} for found in opened(targets, "merging") for ref, rows in found.rows())
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
