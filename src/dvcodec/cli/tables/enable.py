"""The command enable."""

from __future__ import annotations

from dvcodec.cli.json_text import print_json
from dvcodec.cli.render import plain
from dvcodec.cli.shared import Json
from dvcodec.cli.tables.shared import Allow, Catalog, DryRun, Kind, OnlyWriter, TableName, opened
from dvcodec.tables.enabling import enable as enable_vectors


def enable(
    target: TableName,
    dry_run: DryRun = False,
    kind: Kind = None,
    catalog: Catalog = None,
    only_writer: OnlyWriter = False,
    allow: Allow = None,
    as_json: Json = False,
) -> None:
    """Let engines write deletion vectors to a table: change its protocol, version or options.

    Nothing is written if they may already. Engines that do not know deletion vectors cannot read the table afterwards.
    Data files stay as they are. Delta: reader version 3, writer version 7, and the table property. Iceberg: format
    version 3. Paimon: the table option, for append tables.
    """
    table = opened(target, kind, allow, catalog, only_writer)
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
