"""What a table format brings so that its tables can be opened and committed to, and what lets them have vectors.

The package of a format registers its adapter when it is imported, and `opening` imports it for a folder that looks like
one of its tables. So what deletes, enables and repairs knows no format.

Deletion vectors are enabled by an explicit act, because older engines cannot read the table afterwards. What is changed
differs by format, see ``enable`` of each. Lance has deletion files in every dataset. `CONSEQUENCES` has what released
versions of libraries do with a table afterwards, and tests hold it: tests/tables/test_enable.py tries pyiceberg, polars
and deltalake, tests/interop the others. docs/guides/delete.md has the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import CommitConflict
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import Consequence, Enabled, TableKind
from dvcodec.tables.table import Table, check_table
from dvcodec.tables.writing import refreshed

if TYPE_CHECKING:
    from dvcodec.tables.deleting.run import Committer


@dataclass(frozen=True, slots=True)
class Adapter:
    """The functions of a table format.

    Attributes:
        open: opens a table by its folder.
        committer: returns what commits deletes to a table.
        enable: lets a table have vectors, or fails with `CommitConflict`; takes the table and whether nothing is to be
            written. See `dvcodec.tables.enable`.
    """

    open: Callable[[Folder], Table]
    committer: Callable[[Any], Committer[Any]]
    enable: Callable[[Any, bool], Enabled]


ADAPTERS: dict[TableKind, Adapter] = {}
"""Of the formats whose packages were imported."""


def committer_of(table: Table) -> Committer[Any]:
    """Return what commits deletes to a table; see `Adapter`."""
    return ADAPTERS[table.kind].committer(table)


_NOT_TRIED = "not tried"

CONSEQUENCES: Mapping[TableKind, tuple[Consequence, ...]] = MappingProxyType(
    {
        TableKind.ICEBERG: (
            Consequence(
                "pyiceberg 0.12",
                "yes",
                "no rows; in REST catalogs schema, partition fields, tags, rollback and expiry, in others nothing",
            ),
            Consequence("polars 2.1", "yes", "no, as it writes through pyiceberg"),
            Consequence("DuckDB 1.5", "yes", _NOT_TRIED),
            Consequence("Spark with Iceberg 1.12", "yes", "yes"),
            Consequence("Nessie 0.99, the catalog", "refuses the upgrade", "no"),
            Consequence("engines of version 2", "no", "no"),
        ),
        TableKind.DELTA: (
            Consequence(
                "deltalake 1.6",
                "QueryBuilder; to_pandas and to_pyarrow_* refuse, count() counts deleted rows, too",
                "yes; deletes, updates and merges rewrite data files",
            ),
            Consequence("polars 2.1", "yes; of files whose path has a % in the log, deleted rows, too", "appends"),
            Consequence("DuckDB 1.5", "yes", _NOT_TRIED),
            Consequence("Spark with Delta 4.4", "yes", "yes"),
            Consequence("engines below reader version 3", "no", "no"),
        ),
        TableKind.PAIMON: (
            Consequence("pypaimon 2.1", "vectors of 32 bits, not of 64", "appends"),
            Consequence("Paimon Java 1.4", "yes", "yes"),
            Consequence("Spark 3.5 with Paimon 0.9", "yes", "yes"),
        ),
    }
)
"""What libraries do with a table that has deletion vectors enabled, by its format: what its owner gives up. None where
nothing has to be enabled."""
INSTEAD: Mapping[TableKind, str] = MappingProxyType(
    {TableKind.ICEBERG: "deletes need no version 3: in version 2 they are committed as position delete files"}
)
"""What goes without it."""
_ATTEMPTS = 10


def enable(table: Table, *, dry_run: bool = False) -> Enabled:
    """Let engines write deletion vectors to a table, and read them; nothing is written if they may already.

    Delta: the features and the table property, in a commit. Iceberg: format version 3. Paimon: the table option, in a
    new schema. Only the metadata changes. Engines that do not know deletion vectors refuse the table afterwards; what
    others do is in `Enabled.consequences`. Deletes from Iceberg tables of version 2 need none of this.

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
    with refreshed(table, dry_run):
        for left in reversed(range(_ATTEMPTS)):
            try:
                done = ADAPTERS[table.kind].enable(table, dry_run)
                break
            except CommitConflict:
                if not left:
                    raise
    return replace(done, consequences=CONSEQUENCES.get(table.kind, ())) if done.changes else done
