"""The command convert-table."""

from __future__ import annotations

from typing import Annotated

import typer

from dvcodec.cli.render import Table, counted, counter, number, plain, print_json
from dvcodec.cli.shared import Json
from dvcodec.cli.storage import storage
from dvcodec.cli.tables.shared import Allow, Kind, SnapshotId, TableName
from dvcodec.core.errors import UsageError
from dvcodec.io.paths import split
from dvcodec.tables import convert, open_table

_TO = f"Format to write: {', '.join(convert.TARGETS)} (the number is the width of the vectors)."


def convert_table(
    target: TableName,
    output: Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="Folder to create and write to.")],
    to: Annotated[str, typer.Option("--to", help=_TO)],
    snapshot: SnapshotId = None,
    kind: Kind = None,
    allow: Allow = None,
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
    limit: Annotated[int, typer.Option("--limit", min=0, help="Vectors to show; the file has all.")] = 20,
    as_json: Json = False,
) -> None:
    """Write a table's deletes in another format: files of vectors, and commit values in JSON.

    Every vector is verified. If the format cannot express a delete, nothing is written. The table is not changed.
    """
    if to not in convert.TARGETS:
        raise UsageError(f"--to {to}: not one of {', '.join(convert.TARGETS)}")
    table = open_table(target, kind=kind, allow=allow or (), storage_options=storage())
    with counter("converting") as progress:
        done = convert.convert_table(
            table,
            to,
            output,
            snapshot_id=snapshot,
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
        values = (number(where.offset), number(where.size), number(where.cardinality))
        shown.add(str(where.data_file), vector.how.value, split(where.path)[1], *values)
    shown.show()
    if len(done.vectors) > limit:
        print(f"... {counted(len(done.vectors) - limit, 'more vector')}")
    summary = [counted(len(done.vectors), "vector"), counted(done.rows, "deleted row")]
    summary += [f"{number(done.count(how))} {how.value}" for how in convert.How if done.count(how)]
    summary += [f"{counted(done.empty, 'vector')} without rows skipped"] if done.empty else []
    print(f"snapshot {done.snapshot.id}: {', '.join(summary)}")
    for path in (*done.files, done.entries):
        print(f"wrote {plain(path)}")
