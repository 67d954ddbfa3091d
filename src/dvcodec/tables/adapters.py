"""What a table format brings so that its tables can be opened and committed to.

The package of a format registers its adapter when it is imported, and `opening` imports it for a folder that looks like
one of its tables. So what deletes, enables and repairs knows no format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dvcodec.tables.folder import Folder
from dvcodec.tables.model import Enabled, TableKind
from dvcodec.tables.table import Table

if TYPE_CHECKING:
    from dvcodec.tables.deleting.committer import Committer

__all__ = ["ADAPTERS", "Adapter", "committer_of"]


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
