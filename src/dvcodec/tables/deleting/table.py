"""Tables whose deletes can be committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dvcodec.core.rowset import RowSet
from dvcodec.tables.deleting import Deletion, Isolation, KeySource, delete
from dvcodec.tables.reading import Progress
from dvcodec.tables.table import Table

if TYPE_CHECKING:
    import pyarrow.compute as pc

__all__ = ["WritableTable"]


class WritableTable(Table):
    """A table of a format that ``dvcodec.tables.<format>.commit`` commits to."""

    def delete(
        self,
        where: pc.Expression | str | None = None,
        *,
        keys: KeySource | None = None,
        on: Sequence[str] = (),
        positions: Mapping[str, RowSet] | KeySource | None = None,
        isolation: Isolation = "snapshot",
        dry_run: bool = False,
        retries: int | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Deletion:
        """Delete rows and commit; see `dvcodec.tables.delete`, whose arguments these are."""
        return delete(
            self,
            where,
            keys=keys,
            on=on,
            positions=positions,
            isolation=isolation,
            dry_run=dry_run,
            retries=retries,
            threads=threads,
            progress=progress,
        )
