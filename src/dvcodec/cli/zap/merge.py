"""The commands that write segments: zap merge, compact and repair; the last two write a whole index."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

from dvcodec.cli.common import complain, storage
from dvcodec.cli.render import Table, counter, print_json, say
from dvcodec.cli.targets import STDOUT, Json, Output, Target, expand, messages_of, opened
from dvcodec.cli.zap.shared import (
    LiveSegment,
    NoChecksum,
    SegmentNames,
    WithDeleted,
    find_segments,
    open_segment,
    parse_numbers,
    zap,
)
from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import bytes_text, counted, number, plain
from dvcodec.io import Sink, open_sink, open_source
from dvcodec.io.target import local_path
from dvcodec.tables.folder import Folder, folder_location
from dvcodec.tables.scorch.rewrite import IndexPlan, RewrittenIndex, commit_rewrite, plan_compaction, plan_repair
from dvcodec.zap import VERSIONS, merge_segments


@zap.command()
def merge(
    segments: SegmentNames,
    output: Output,
    drops: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="SEGMENT=NUMBERS", help="Documents to drop, such as a.zap=1,2,5-9."),
    ] = None,
    drop_files: Annotated[
        list[str] | None,
        typer.Option(
            "--drop-file", metavar="SEGMENT=FILE", help="The same, as a file: a roaring bitmap, as scorch stores it."
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version",
            min=VERSIONS[0],
            max=VERSIONS[-1],
            help="Version to write; by default the highest of the segments.",
        ),
    ] = None,
    numbers: Annotated[
        str | None,
        typer.Option("--numbers", metavar="FILE", help="File for the new document numbers, as JSON."),
    ] = None,
    salvage: Annotated[
        bool,
        typer.Option("--salvage", help="Also read postings that zapx 17.0.9 to 17.1.3 misplaced (verify names them)."),
    ] = False,
    with_deleted: WithDeleted = False,
    no_checksum: NoChecksum = False,
    as_json: Json = False,
) -> None:
    """Merge segments into one, in their order, without dropped documents and those that root.bolt marks as deleted.

    A single segment is rewritten, in another version with --version. Of an index, the segments of its newest snapshot
    are merged.
    """
    with ExitStack() as stack:
        found = find_segments(expand(segments), with_deleted=with_deleted)
        targets = [target for target, _ in found]
        _refuse_overwriting(targets, output, numbers)
        if any(deleted and _place(target.path) == _place(output) for target, deleted in found):
            raise UsageError(
                f"{output}: root.bolt marks deleted documents by the numbers that they have now: write elsewhere"
            )
        inputs = [
            stack.enter_context(open_segment(target, unchecked=no_checksum, salvage=salvage)) for target in targets
        ]
        dropped = _dropped([target.path for target in targets], drops or [], drop_files or [])
        for i, (one, (_, deleted)) in enumerate(zip(inputs, found, strict=True)):
            dropped[i] |= LiveSegment.of(one, deleted).deleted
        steps = len({info.name for one in inputs for info in one.fields})
        numbers_file = None
        if numbers is not None:  # opened before the merge, because its path may be invalid
            numbers_file = stack.enter_context(open_sink(numbers, storage_options=storage()))
        buffer = BytesIO()
        done = itertools.count(1)
        with counter("merging", show=steps > 1) as progress:
            merged = merge_segments(
                buffer if output == STDOUT else output,
                inputs,
                dropped,
                version,
                progress=lambda _: progress(next(done), steps),
                storage_options=storage(),
            )
        kept = [int((new >= 0).sum()) for new in merged]
        counts = [(one.name, one.version, one.num_docs, count) for one, count in zip(inputs, kept, strict=True)]
        highest = max(one.version for one in inputs)
        if numbers_file is not None:
            _write_numbers(numbers_file, [(name, new.tolist()) for (name, *_), new in zip(counts, merged, strict=True)])
    if output == STDOUT:
        sys.stdout.buffer.write(buffer.getbuffer())
        size = buffer.tell()
    else:
        with open_source(output, storage_options=storage()) as written:
            size = written.size
    with messages_of(output):
        _show_merged(output, highest if version is None else version, size, counts, as_json)


def _refuse_overwriting(targets: list[Target], output: str, numbers: str | None) -> None:
    """Refuse to overwrite inputs by mistake; the output may replace a segment that was named itself.

    Raises:
        UsageError: the output would replace a segment that was found in a folder; or the numbers would replace the
            output, or an input.
    """
    if any(target.found and _place(target.path) == _place(output) for target in targets):
        raise UsageError(f"{output} is an input too: name the segments, or write elsewhere")
    if numbers is None:
        return
    if output != STDOUT and _place(numbers) == _place(output):
        raise UsageError(f"--numbers {numbers} is the output: write them elsewhere")
    if any(target.path != "-" and _place(numbers) == _place(target.path) for target in targets):
        raise UsageError(f"--numbers {numbers} is an input: write them elsewhere")


def _place(name: str) -> str:
    """Return a path in one spelling, with links resolved; URLs are returned unchanged."""
    local = local_path(name)
    return name if local is None else str(local.resolve())


def _show_merged(output: str, version: int, size: int, counts: list[tuple[str, int, int, int]], as_json: bool) -> None:
    kept = sum(count for *_, count in counts)
    dropped = sum(docs - count for *_, docs, count in counts)
    if as_json:
        inputs = [
            {"source": name, "version": of, "num_docs": docs, "kept": count, "dropped": docs - count}
            for name, of, docs, count in counts
        ]
        about = {"version": version, "num_docs": kept, "dropped": dropped, "file_size": size}
        print_json({"path": output} | about | {"segments": inputs})
        return
    columns = ("segment", "version", "documents", "kept", "dropped")
    shown = Table(*columns, right=columns[1:])
    for name, of, docs, count in counts:
        shown.add(name, *map(number, (of, docs, count, docs - count)))
    shown.show()
    what = f"version {version}, {counted(kept, 'document')}, {number(dropped)} dropped"
    print(f"wrote {plain(output)}, {bytes_text(size)}, {what}")


def _write_numbers(sink: Sink, numbers: Iterable[tuple[str, list[int]]]) -> None:
    """Write the new number of every document by segment, null for dropped ones."""
    found = [{"source": name, "numbers": [None if new < 0 else new for new in of]} for name, of in numbers]
    sink.write((json.dumps(found) + "\n").encode())


def _dropped(names: list[str], drops: list[str], files: list[str]) -> list[RowSet]:
    """Return the documents to drop from each segment."""
    found = [RowSet()] * len(names)
    for text in drops:
        i, value = _pair("--drop", text, names)
        found[i] |= parse_numbers(value, f"--drop {text}")
    for text in files:
        i, value = _pair("--drop-file", text, names)
        vectors = [rows for one in opened([value], "reading") for _, rows in one.rows()]
        if len(vectors) != 1:
            raise UsageError(f"{value} holds {counted(len(vectors), 'vector')}: choose one by its offset, path@offset")
        found[i] |= vectors[0]
    return found


def _pair(option: str, text: str, names: list[str]) -> tuple[int, str]:
    """Split SEGMENT=VALUE where SEGMENT is one that is merged: both may hold more equals signs.

    Raises:
        UsageError: no such segment, or several of that name.
    """
    name = max((name for name in names if text.startswith(f"{name}=")), key=len, default=None)
    if name is None:
        raise UsageError(f"{option} {text}: expected SEGMENT=VALUE, with one of the segments {', '.join(names)}")
    if names.count(name) > 1:
        raise UsageError(f"{option} {text}: {names.count(name)} segments have the name {name}")
    return names.index(name), text[len(name) + 1 :]


Index = Annotated[str, typer.Argument(metavar="INDEX", help="Folder of a scorch index on this machine.")]
Commit = Annotated[bool, typer.Option("--commit", help="Do it; by default nothing is written.")]


@zap.command()
def compact(
    index: Index,
    commit: Commit = False,
    merge: Annotated[bool, typer.Option("--merge", help="Write all segments as one.")] = False,
    as_json: Json = False,
) -> None:
    """Show which segments have deleted documents; with --commit, write them without, and a new snapshot of the index.

    Stop what has the index open. Older snapshots are removed, and the segments that only they need.
    """
    plan = plan_compaction(Folder(folder_location(index), storage=storage()), merge=merge)
    done = None
    if commit and plan.actions:
        with counter("writing") as progress:
            done = commit_rewrite(plan, progress=progress)
    _show(plan, done, as_json)


@zap.command()
def repair(
    index: Index,
    commit: Commit = False,
    accept_restored_rows: Annotated[
        bool, typer.Option("--accept-restored-rows", help="Also if deleted documents may become live again.")
    ] = False,
    accept_lost_documents: Annotated[
        bool, typer.Option("--accept-lost-documents", help="Also if documents of a damaged segment are left out.")
    ] = False,
    mapping: Annotated[
        Path | None,
        typer.Option("--mapping", metavar="FILE", help="The index mapping as JSON, if root.bolt has none any more."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how an index with a missing or damaged segment or root.bolt can be repaired; with --commit, do it.

    Stop what has the index open. All of it is read. Damaged files stay, as NAME.damaged. Exit code 1 if something is
    wrong, unless all of it was repaired.
    """
    with counter("verifying") as progress:
        plan = plan_repair(
            Folder(folder_location(index), storage=storage()),
            mapping=None if mapping is None else mapping.read_bytes(),
            progress=progress,
        )
    done = None
    if commit and plan.actions:
        done = commit_rewrite(
            plan, accept_restored_documents=accept_restored_rows, accept_lost_documents=accept_lost_documents
        )
    _show(plan, done, as_json)
    raise typer.Exit(1 if plan.unfixed or (plan.actions and done is None) else 0)


def _show(plan: IndexPlan, done: RewrittenIndex | None, as_json: bool) -> None:
    if as_json:
        print_json(plan.to_dict() | ({} if done is None else {"commit": done.to_dict()}))
        return
    for action in plan.actions:
        say("  ", (action.action, "bold"), f"  {action.message}")
    for message in plan.unfixed:
        say("  ", ("left", "bold yellow"), f"  {message}")
    if not plan.actions:
        print("nothing to do")
    elif done is None:
        flags = [
            flag
            for flag, wanted in (
                ("--accept-restored-rows", any(action.restores_documents for action in plan.actions)),
                ("--accept-lost-documents", any(action.loses_documents for action in plan.actions)),
            )
            if wanted
        ]
        print(f"nothing was written yet: add {' '.join(['--commit', *flags])}")
    else:
        segments = f"{counted(len(done.written), 'segment')} written, {len(done.removed)} removed"
        print(f"done, snapshot {done.snapshot}: {segments}")
        for name in done.set_aside:
            complain(f"{plain(plan.index)}: set aside: {name}.damaged")
