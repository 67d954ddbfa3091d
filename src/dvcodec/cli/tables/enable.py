"""The command enable."""

from __future__ import annotations

from typing import Annotated

import typer

from dvcodec.cli.render import plain, print_json
from dvcodec.cli.shared import Json
from dvcodec.cli.storage import storage
from dvcodec.cli.tables.shared import Allow, Kind, TableName
from dvcodec.tables import open_table
from dvcodec.tables.enabling import enable as enable_vectors


def enable(
    target: TableName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be changed; write nothing.")] = False,
    kind: Kind = None,
    allow: Allow = None,
    as_json: Json = False,
) -> None:
    """Let engines write deletion vectors to a table: change its protocol, version or options.

    Nothing is written if they may already. Engines that do not know deletion vectors cannot read the table afterwards.
    Data files stay as they are. Delta: reader version 3, writer version 7, and the table property. Iceberg: format
    version 3. Paimon: the table option, for append tables.
    """
    table = open_table(target, kind=kind, allow=allow or (), storage_options=storage())
    done = enable_vectors(table, dry_run=dry_run)
    if as_json:
        values = {"table": table.location, "kind": table.kind.value, "changes": list(done.changes), "path": done.path}
        print_json(values)
        return
    for change in done.changes:
        print(plain(change))
    if done.path is not None:
        print(f"wrote {plain(done.path)}")
    elif done.changes:
        print("dry run: nothing was written")
    else:
        print(f"{plain(table.location)}: deletion vectors are enabled, nothing was written")
