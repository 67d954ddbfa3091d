"""The command convert-table."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import typer

from dvcodec.cli.json_text import print_json
from dvcodec.cli.render import Table, counter
from dvcodec.cli.shared import Json
from dvcodec.cli.storage import storage
from dvcodec.cli.tables.delete import show, values
from dvcodec.cli.tables.shared import Allow, Catalog, Kind, SnapshotId, TableName, opened
from dvcodec.core.errors import UsageError
from dvcodec.core.text import counted, number, plain
from dvcodec.io.target import split
from dvcodec.ops.convert import hint
from dvcodec.tables import TableKind, convert
from dvcodec.tables.deleting import Deletion

_TO = f"Format to write: {', '.join(convert.TARGETS)} (the number is the width of the vectors)."


def convert_table(
    target: TableName,
    to: Annotated[str, typer.Option("--to", help=_TO)],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder to create and write to; left out with --commit.",
            show_default=False,
        ),
    ] = None,
    snapshot: SnapshotId = None,
    kind: Kind = None,
    catalog: Catalog = None,
    allow: Allow = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version",
            metavar="2|3",
            help="With --to iceberg: 3 for vectors, the default, or 2 for position delete files.",
            show_default=False,
        ),
    ] = None,
    in_place: Annotated[
        bool | None,
        typer.Option(
            "--in-place/--copy",
            help="Reference stored vectors where possible instead of copying them; default for Iceberg.",
        ),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option("--root", metavar="DIR", help="Folder of the table to commit to, by default this one (Delta)."),
    ] = None,
    commit: Annotated[
        bool,
        typer.Option("--commit", help="Commit the deletes to the table at --root, which has the same data files."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --commit: show what would be deleted; write nothing.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Vectors to show; the file has all.")] = 20,
    as_json: Json = False,
) -> None:
    """Write a table's deletes in another format: files of vectors, and commit values in JSON.

    Every vector is verified. If the format cannot express a delete, nothing is written. The table is not changed. With
    --commit the deletes are committed to another table of the same data files instead.
    """
    if to not in convert.TARGETS:
        raise UsageError(f"--to {to}: not one of {', '.join(convert.TARGETS)}{hint(to)}")
    if commit:
        if root is None or output is not None or in_place is not None:
            raise UsageError("--commit goes with --root, the table to commit to, and not with --output or --in-place")
        if version is not None:
            raise UsageError(
                "--version goes with --output: --commit writes what the version of the table at --root needs"
            )
        table = opened(target, kind, allow, catalog)
        other = opened(root, TableKind(to.removesuffix("32").removesuffix("64")), allow)
        with counter("comparing") as progress:
            deletion = convert.copy_deletes(table, other, snapshot_id=snapshot, dry_run=dry_run, progress=progress)
        _show_commit(deletion, root, limit, as_json)
        return
    if output is None or dry_run:
        raise UsageError("expected --output, the folder to write to" if output is None else "--dry-run needs --commit")
    table = opened(target, kind, allow, catalog)
    with counter("converting") as progress:
        done = convert.convert_table(
            table,
            to,
            output,
            snapshot_id=snapshot,
            version=cast("Literal[2, 3] | None", version),
            reference_in_place=in_place,
            root=root,
            progress=progress,
            storage_options=storage(),
        )
    if as_json:
        print_json(done.to_dict())
        return
    shown = Table("data file", "how", "in", "offset", "size", "rows", right=("offset", "size", "rows"))
    for vector in done.vectors[:limit]:
        where = vector.location
        cells = (number(where.offset), number(where.size), number(where.cardinality))
        shown.add(str(where.data_file), vector.how.value, split(where.path)[1], *cells)
    shown.show()
    if len(done.vectors) > limit:
        print(f"... {counted(len(done.vectors) - limit, 'more vector')}")
    summary = [counted(len(done.vectors), "vector"), counted(done.rows, "deleted row")]
    summary += [f"{number(done.count(how))} {how.value}" for how in convert.How if done.count(how)]
    summary += [f"{counted(done.empty, 'vector')} without rows skipped"] if done.empty else []
    print(f"snapshot {done.snapshot.id}: {', '.join(summary)}")
    for path in (*done.files, done.entries):
        print(f"wrote {plain(path)}")


def _show_commit(done: Deletion, root: str, limit: int, as_json: bool) -> None:
    if as_json:
        print_json(values(done))
        return
    if done.deletes:
        show(done, limit)
    what = f"{counted(done.rows, 'row')} of {counted(done.files, 'data file')}"
    if done.committed:
        print(f"snapshot {done.snapshot} of {plain(root)}: {what} deleted")
    elif done.deletes:
        print(f"dry run: {what} would be deleted")
    else:
        print("all of these rows are deleted already: nothing was committed")
