"""The commands that compare and write: diff, merge, convert, correct, rewrite-paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dvcodec import delta, iceberg, paimon, puffin
from dvcodec.cli.common import storage
from dvcodec.cli.render import Table, print_json, say
from dvcodec.cli.targets import (
    STDOUT,
    DataFiles,
    Json,
    Name,
    Names,
    Output,
    To,
    expand,
    messages_of,
    only,
    open_source_of,
    opened,
    sink_of,
)
from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import NOTHING, bytes_text, counted, number, plain
from dvcodec.core.vector import DvLocation
from dvcodec.io import Source, is_url, open_sink
from dvcodec.io.frames import read_frame
from dvcodec.io.target import file_key, merge_spellings, path_below
from dvcodec.ops import convert as conversion
from dvcodec.ops.convert import diff as diff_rows
from dvcodec.ops.convert import merge_inputs
from dvcodec.ops.read import ALLOWED, format_of, sniff_source
from dvcodec.ops.verify import correct as correct_frame


def _rows_of(names: list[str], what: str) -> dict[str | None, RowSet]:
    """Read all vectors and merge those of one data file; each file spells its data files in one way.

    Raises:
        UsageError: a file holds several vectors without data files, whose rows must not be merged; or two names may
            be one data file, percent-encoded in one file and plain in another.
    """

    def vectors() -> Iterator[list[tuple[str | None, RowSet]]]:
        for found in opened(names, what):
            nameless = [ref for ref in found.container.vectors if ref.data_file is None]
            if len(nameless) > 1:
                raise UsageError(
                    f"{found.source.name} holds {len(nameless)} vectors without data files: "
                    f"choose one by its offset, as in {found.source.name}@{nameless[0].offset}"
                )
            yield [(ref.data_file, rows) for ref, rows in found.rows()]

    return merge_inputs(vectors())


_SIDE = "File, folder, URL, path@offset:size, or - for standard input."


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=_SIDE)],
    new: Annotated[str, typer.Argument(metavar="NEW", help=_SIDE)],
    limit: Annotated[int, typer.Option("--limit", min=0, help="Ranges to show of each change.")] = 10,
    as_json: Json = False,
) -> None:
    """Show which rows a newer file deletes and restores. Exit code 1 if there is a difference."""
    before, after = _rows_of([old], "reading"), _rows_of([new], "reading")
    if len(before) == len(after) == 1 and None in (*before, *after):
        # One vector on each side, at least one without a data file: compare them.
        name = next(iter(after)) or next(iter(before))
        before, after = {name: next(iter(before.values()))}, {name: next(iter(after.values()))}
    elif before and after and (None in before) != (None in after):
        bare, named = (old, new) if None in before else (new, old)
        raise UsageError(f"{bare} does not name its data file and {named} holds several: choose one by path@offset")
    kept = merge_spellings(before, after)
    after = {kept[path]: rows for path, rows in after.items()}
    changes = []
    for path in dict.fromkeys([*before, *after]):
        change = diff_rows(before.get(path, RowSet()), after.get(path, RowSet()))
        if change.added or change.restored:
            changes.append((path, change))
    if as_json:
        print_json(
            [
                {"data_file": path, "added": _ranges(change.added), "restored": _ranges(change.restored)}
                for path, change in changes
            ]
        )
    else:
        for path, change in changes:
            counts = f"{change.added.cardinality:,} deleted, {change.restored.cardinality:,} restored"
            say((path or new, "bold"), f"  {counts}")
            for sign, spans in (("+", _ranges(change.added)), ("-", _ranges(change.restored))):
                for start, stop in spans[:limit]:
                    print(f"  {sign} {start}" + (f"..{stop - 1}" if stop - start > 1 else ""))
                if len(spans) > limit:
                    print(f"  {sign} ... {counted(len(spans) - limit, 'more range')}")
        if not changes:
            print("no difference")
    if changes:
        raise typer.Exit(1)


def _ranges(rows: RowSet) -> list[list[int]]:
    ranges: list[list[int]] = rows.ranges().tolist()
    return ranges


def merge(
    targets: Names, output: Output, to: To = "iceberg", data_files: DataFiles = None, as_json: Json = False
) -> None:
    """Merge vectors by data file into one new file."""
    conversion.check_target(to, f"--to {to}: not one of")
    vectors = _rows_of(targets, "merging")
    if data_files:
        if list(vectors) != [None] or len(data_files) != 1:
            raise UsageError("--data-file names the data file of vectors that name none: one file for all of them")
        vectors = {data_files[0]: vectors[None]}
    if to == "iceberg" and None in vectors:
        parts = any(target.offset is not None for target in expand(targets))
        whole = f"{_WHOLE}, or " if parts else ""
        raise UsageError(f"a Puffin file names the data file of every vector: {whole}give --data-file")
    _show_written(to, conversion.write(to, sink_of(output), vectors, storage_options=storage()), output, as_json)


def convert(target: Name, output: Output, to: To, data_files: DataFiles = None, as_json: Json = False) -> None:
    """Convert a file. Vectors are verified, and copied if both formats store the same bytes."""
    conversion.check_target(to, f"--to {to}: not one of")
    chosen = only(target)
    with open_source_of(chosen) as source:
        if to == "iceberg" and not data_files:
            _need_names(source, part=chosen.offset is not None)
        written = conversion.convert(
            source, to, sink_of(output), data_files=data_files or None, storage_options=storage()
        )
    _show_written(to, written, output, as_json)


def _need_names(source: Source, *, part: bool) -> None:
    vectors = sniff_source(source).vectors
    if any(ref.data_file is None for ref in vectors):
        times = "" if len(vectors) == 1 else f" {len(vectors)} times, in file order"
        which, whole = ("part of a file", f"{_WHOLE}, or ") if part else ("file", "")
        raise UsageError(
            f"{source.name}: a Puffin file names the data file of every vector, this {which} does not: "
            f"{whole}give --data-file{times}"
        )


_WHOLE = "name the whole file, if it is a Puffin file"


def _commit_values(location: DvLocation) -> dict[str, Any]:
    """Return a vector's table metadata: a manifest entry, a descriptor, or Paimon's metadata."""
    if location.path == STDOUT:
        return {}
    if location.format.startswith("paimon") and location.data_file is not None:
        return {"deletion_vector_meta": asdict(paimon.DeletionVectorMeta.from_location(location))}
    if location.format == "iceberg" and location.data_file is not None:
        return {"manifest_entry": iceberg.manifest_entry(location)}
    if location.format == "delta":
        path = location.path if is_url(location.path) else str(Path(location.path).resolve())
        located = DvLocation("delta", path, location.offset, location.size, location.cardinality)
        folder = path.rpartition("/")[0]
        return {"descriptor": json.loads(delta.Descriptor.from_location(located, folder).to_json())}
    return {}


def _show_written(kind: str, locations: list[DvLocation], output: str, as_json: bool) -> None:
    with messages_of(output):
        if output == STDOUT:
            locations = [replace(location, path=STDOUT) for location in locations]
        if as_json:
            print_json([asdict(location) | _commit_values(location) for location in locations])
            return
        if not locations:
            written = f"wrote {plain(output)}, 1 B" if kind.startswith("paimon") else "nothing written"
            print(f"no vectors, {written}")
            return
        shown = Table("data file", "offset", "size", "rows", right=("offset", "size", "rows"))
        for location in locations:
            values = (number(location.offset), number(location.size), number(location.cardinality))
            shown.add(location.data_file or NOTHING, *values)
        shown.show()
        print(f"wrote {plain(locations[0].path)}, {bytes_text(locations[0].file_size)}")


def rewrite_paths(
    target: Name,
    output: Output,
    old: Annotated[
        str | None, typer.Option("--from", help="Folder in the old paths of the data files, as whole path segments.")
    ] = None,
    new: Annotated[str | None, typer.Option("--to", help="Its replacement.")] = None,
    pairs: Annotated[
        list[str] | None, typer.Option("--map", metavar="OLD=NEW", help="Replace one path; repeat for more.")
    ] = None,
) -> None:
    """Rename the data files of a moved table in a Puffin file; vectors are copied unchanged."""
    if bool(pairs) == (old is not None) or (old is None) != (new is None):
        raise UsageError("give --from and --to, or one or more --map OLD=NEW")
    with open_source_of(only(target)) as source:
        blobs = puffin.PuffinReader(source).blobs
        paths = [path for blob in blobs if (path := blob.properties.get(puffin.REFERENCED_DATA_FILE)) is not None]
        if old is not None and new is not None:
            mapping = _moved(paths, old, new)
            if not mapping:
                raise UsageError(f"{source.name}: no data file is in the folder {old}")
        else:
            mapping = dict(_pair(text, paths, source.name) for text in pairs or [])
        changed = puffin.rewrite_paths(source, sink_of(output), mapping, storage_options=storage())
    with messages_of(output):
        print(f"wrote {plain(output)}, {counted(changed, 'path')} changed")


def correct(
    target: Name,
    output: Output,
    cardinality: Annotated[
        int | None,
        typer.Option("--cardinality", min=0, help="Rows according to the log or manifest, for one vector."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Correct small damage in vectors, where checksums leave one answer, and write the whole file anew.

    One flipped bit, two adjacent ones or one wrong byte of each vector. Other damage is an error: nothing is written.
    Where a length in a file of Delta or Paimon is damaged, its vectors are only found by path@offset:size.
    """
    limits = storage().limits
    corrected = []
    only(target)
    for whole in opened([target], "correcting"):
        source, vectors = whole.source, whole.container.vectors
        if cardinality is not None and len(vectors) != 1:
            raise UsageError(
                f"--cardinality is of one vector, and {source.name} has {len(vectors)}: choose it by path@offset"
            )
        data = bytearray(source.read(0, source.size))
        for ref in vectors:
            if ref.kind not in ALLOWED:
                title = format_of(ref.kind.value).title
                raise UsageError(f"{source.name}: only vectors in a frame with a checksum are corrected, not a {title}")
            found = correct_frame(
                read_frame(source, ref.offset, ref.size, limits).view,
                cardinality=ref.cardinality if cardinality is None else cardinality,
                limits=limits,
                source=source.name,
                base=ref.offset,
            )
            data[ref.offset : ref.offset + ref.size] = found.data
            if found.changes:
                corrected.append((ref, found))
    if corrected:
        with open_sink(sink_of(output), storage_options=storage()) as out:
            out.write(data)
    with messages_of(output):
        if as_json:
            print_json(
                [
                    {
                        "offset": ref.offset,
                        "data_file": ref.data_file,
                        "correction": found.describe(ref.offset),
                        "doubt": found.doubt,
                        "rows": found.rows.cardinality,
                    }
                    for ref, found in corrected
                ]
            )
            return
        for ref, found in corrected:
            name = f"at byte {ref.offset}" if ref.data_file is None else plain(ref.data_file)
            print(f"vector {name}: {found.describe(ref.offset)}{found.caution}")
        print(f"wrote {plain(output)}" if corrected else "no damage: nothing written")


def _moved(paths: list[str], old: str, new: str) -> dict[str, str]:
    """Map paths in one folder to another; if none has this spelling of the folder, other spellings count."""
    folder = old if not old or old.endswith("/") else f"{old}/"
    rests = {path: path[len(folder) :] for path in paths if path.startswith(folder)}
    if not rests:
        inside = {path: path_below(path, old) for path in paths}
        rests = {path: rest for path, rest in inside.items() if rest is not None}
    target = new if not new or new.endswith("/") else f"{new}/"
    return {path: new for path in paths if path == old} | {path: target + rest for path, rest in rests.items()}


def _pair(text: str, paths: list[str], name: str) -> tuple[str, str]:
    """Split OLD=NEW, where OLD is a path in the file; both may contain equals signs (``day=3/part-0.parquet``)."""
    if "=" not in text:
        raise UsageError(f"--map {text}: expected OLD=NEW")
    old = max((path for path in paths if text.startswith(f"{path}=")), key=len, default=None)
    if old is None:
        stored = {file_key(path) for path in paths}
        places = [at for at, letter in enumerate(text) if letter == "=" and file_key(text[:at]) in stored]
        if not places:
            raise UsageError(f"--map {text}: {name} has no such data file")
        old = text[: places[-1]]
    return old, text[len(old) + 1 :]
