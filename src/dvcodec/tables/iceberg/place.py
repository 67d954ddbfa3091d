"""Where an Iceberg table is committed to: what knows the current metadata file, and changes it atomically."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dvcodec.tables.iceberg.change import Change
from dvcodec.tables.iceberg.table import IcebergTable
from dvcodec.tables.json_fields import JsonFields

__all__ = ["Place"]


class Place(ABC):
    """Knows which metadata file of a table is current: a folder, or a catalog.

    Attributes:
        knows_newest: whether it is certain which file is current, regardless of the files in the folder.
    """

    knows_newest: bool = False

    @abstractmethod
    def load(self) -> IcebergTable:
        """Open the table as it is now, not from a cache.

        Raises:
            UsageError: it is not there any more.
            DecodeError: its metadata is corrupt.
            OSError: it cannot be read.
        """

    @abstractmethod
    def check(self, table: IcebergTable, members: JsonFields) -> None:
        """Refuse a table that cannot be committed to here.

        Raises:
            UsageError: the message says why, and what to do instead.
        """

    @abstractmethod
    def put(self, table: IcebergTable, members: JsonFields, change: Change) -> None:
        """Make the change, if the table is still as it was loaded.

        Args:
            table: of `load`.
            members: its metadata.
            change: the commit.

        Raises:
            CommitConflict: the table has changed; nothing is committed.
            CommitUnknown: it could not be found out whether the change is in.
            OSError: it cannot be written; nothing is committed.
        """
