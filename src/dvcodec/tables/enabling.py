"""Enable deletion vectors in a table: an explicit act, because older engines cannot read the table afterwards.

What is changed differs by format, see ``dvcodec.tables.<format>.enable``. Lance has deletion files in every dataset.
"""

from __future__ import annotations

from contextlib import suppress

from dvcodec.core.errors import CommitConflict
from dvcodec.tables.adapters import ADAPTERS
from dvcodec.tables.arguments import check_table
from dvcodec.tables.model import Enabled
from dvcodec.tables.put import refreshed
from dvcodec.tables.table import Table

__all__ = ["Enabled", "enable"]

_ATTEMPTS = 10


def enable(table: Table, *, dry_run: bool = False) -> Enabled:
    """Let engines write deletion vectors to a table, and read them; nothing is written if they may already.

    Delta: the features and the table property, in a commit. Iceberg: format version 3. Paimon: the table option, in a
    new schema. Only the metadata changes. Engines that do not know deletion vectors refuse the table afterwards.

    Args:
        table: see `open_table`; its newest state counts.
        dry_run: say what would be changed; nothing is written.

    Raises:
        UsageError: the table cannot have deletion vectors; the message says why.
        Unsupported: it uses a feature that is not known here; the message names it.
        CommitConflict: other writers committed first, again and again; nothing was changed.
        CommitUnknown: it could not be found out whether the change is in.
        DecodeError: the metadata is corrupt.
        OSError: a file cannot be read or written; nothing was changed.
    """
    check_table(table)
    act = ADAPTERS[table.kind].enable
    with refreshed(table, dry_run):
        for _ in range(_ATTEMPTS - 1):
            with suppress(CommitConflict):
                return act(table, dry_run)
        return act(table, dry_run)
