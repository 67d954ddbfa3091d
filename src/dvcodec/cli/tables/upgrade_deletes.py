"""The command upgrade-deletes."""

from __future__ import annotations

from dvcodec.cli.json_text import print_json
from dvcodec.cli.render import counted, counter
from dvcodec.cli.shared import Json
from dvcodec.cli.tables.shared import Allow, Catalog, DryRun, OnlyWriter, TableName, opened
from dvcodec.tables.iceberg.upgrade_deletes import upgrade_deletes as upgrade


def upgrade_deletes(
    target: TableName,
    dry_run: DryRun = False,
    catalog: Catalog = None,
    only_writer: OnlyWriter = False,
    allow: Allow = None,
    as_json: Json = False,
) -> None:
    """Replace position deletes and equality deletes of an Iceberg table by vectors, and commit.

    The same rows are live afterwards, and readers that know vectors alone can read the table. It has to be of format
    version 3: see enable.
    """
    table = opened(target, None, allow, catalog, only_writer)
    with counter("searching") as progress:
        done = upgrade(table, dry_run=dry_run, progress=progress)
    if as_json:
        print_json(done.to_dict())
        return
    if not done.position_deletes + done.equality_deletes:
        print("no position deletes or equality deletes: nothing was committed")
        return
    old = f"{counted(done.position_deletes, 'file')} of position deletes and {done.equality_deletes} of equality"
    removed = f"; {counted(done.removed, 'data file')} without a live row removed" if done.removed else ""
    begin = f"snapshot {done.snapshot}" if done.committed else "dry run"
    print(f"{begin}: {old} deletes replaced by {counted(done.vectors, 'vector')}{removed}")
