"""Tables whose deletes can be committed."""

from __future__ import annotations

from dvcodec.tables import deleting
from dvcodec.tables.table import Table

__all__ = ["WritableTable"]


class WritableTable(Table):
    """A table of a format that ``dvcodec.tables.<format>.commit`` commits to."""

    delete = deleting.delete
