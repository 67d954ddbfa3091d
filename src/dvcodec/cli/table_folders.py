"""Tables among the folders given to commands on files: superseded vectors, and missing files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dvcodec.cli.storage import storage
from dvcodec.cli.streams import complain
from dvcodec.cli.tables.shared import KINDS
from dvcodec.cli.targets import Target
from dvcodec.core.errors import DvcodecError, Unsupported
from dvcodec.core.report import Check, Report
from dvcodec.core.text import counted
from dvcodec.io import is_url
from dvcodec.tables import Snapshot, TableKind, open_table
from dvcodec.tables.model import NO_SNAPSHOT

_SIGNS = (
    (TableKind.DELTA, re.compile(r"(?:(.+)/)?_delta_log/[^/]+", re.DOTALL)),
    (TableKind.ICEBERG, re.compile(r"(?:(.+)/)?metadata/[^/]+\.metadata\.json(?:\.gz)?", re.DOTALL)),
    (TableKind.PAIMON, re.compile(r"(?:(.+)/)?snapshot/snapshot-[0-9]+", re.DOTALL)),
    (TableKind.LANCE, re.compile(r"(?:(.+)/)?_versions/[^/]+\.manifest", re.DOTALL)),
    (TableKind.SCORCH, re.compile(r"(?:(.+)/)?root\.bolt", re.DOTALL)),
)
"""Files that identify a table's folder."""
_SHOWN = 10
"""Maximum number of tables that get their own note."""


@dataclass(slots=True)
class _Table:
    """A table in a folder.

    Attributes:
        kind: format of the table.
        name: name of its folder, as the user spelled it.
        root: the folder, as a prefix of files.
        snapshot: the current one; None if it cannot be read.
        error: the reason.
        live: offsets of the snapshot's vectors by file; None for a vector that is the whole file.
        seen: vectors that were shown or checked.
        superseded: number of these that are not in the snapshot.
    """

    kind: TableKind
    name: str
    root: str
    snapshot: Snapshot | None = None
    error: DvcodecError | OSError | None = None
    live: dict[str, set[int | None]] = field(default_factory=dict)
    seen: int = 0
    superseded: int = 0

    def open(self) -> None:
        """Read the current snapshot, but no vector."""
        try:
            self.snapshot = open_table(self.name, kind=self.kind, storage_options=storage()).snapshot()
        except (DvcodecError, OSError) as error:
            self.error = error
            return
        for vector in self.snapshot.vectors:
            if vector.location:
                self.live.setdefault(_key(vector.location), set()).add(vector.offset)

    @property
    def note(self) -> str:
        """The note to print: this is a table, and which command checks it."""
        what = KINDS[self.kind]
        if self.snapshot is not None and self.snapshot.info.id != NO_SNAPSHOT:
            what += f", snapshot {self.snapshot.info.id}"
        if self.error is not None:
            summary = f"unknown which of its vectors are superseded ({self.error})"
        elif self.kind is TableKind.SCORCH:
            summary = "its deleted documents are in root.bolt, not in these files"
        elif self.seen:
            summary = f"{self.superseded:,} of {counted(self.seen, 'vector')} superseded, not in this snapshot"
        else:
            summary = "no vector in these files"
        return f"{self.name}: this folder is a table ({what}): {summary}; to check the table: dvcodec audit {self.name}"


class TableFolders:
    """The tables in a command's folders; opened on first use.

    Args:
        targets: targets of the command; the names of files found in folders identify tables.
    """

    def __init__(self, targets: Sequence[Target]) -> None:
        self._listed = {_key(target.path) for target in targets if target.found}
        roots: dict[tuple[str, TableKind], None] = {}
        for target in targets:
            for kind, sign in _SIGNS:
                if target.found and (match := sign.fullmatch(target.path)):
                    roots[match[1] or ".", kind] = None
        self._roots = list(roots)

    @cached_property
    def _tables(self) -> list[_Table]:
        tables = [_Table(kind, name, _key(name)) for name, kind in self._roots]
        for table in tables:
            table.open()
        return tables

    def seen(self, path: str, offset: int) -> dict[str, bool | None]:
        """Count a vector that was shown or checked.

        Args:
            path: file of the vector.
            offset: offset of the vector in the file.

        Returns:
            For JSON: ``superseded``, True if no table has it in its current snapshot, None if unknown; {} for a file
            outside of tables.
        """
        key = _key(path)
        known: list[bool] = []
        around = [table for table in self._tables if key.startswith(f"{table.root}/")] if key in self._listed else []
        for table in around:
            table.seen += 1
            if table.snapshot is not None and table.kind is not TableKind.SCORCH:
                live = table.live.get(key, set())
                known.append(not (offset in live or None in live))
                table.superseded += known[-1]
        return {"superseded": all(known) if known else None} if around else {}

    def missing(self) -> Iterator[Report]:
        """Yield a report for each missing file of vectors below a table's folder that its snapshot references.

        Raises:
            DecodeError: the metadata of a table is corrupt.
            OSError: it cannot be read.
        """
        for table in self._tables:
            if table.error is not None and not isinstance(table.error, Unsupported):
                raise table.error
            for path, offsets in table.live.items():
                if path.startswith(f"{table.root}/") and path not in self._listed and not _exists(path):
                    what = f"file of {counted(len(offsets), 'vector')} of the table's current snapshot"
                    yield Report(path, None, (Check.failed("missing-file", "file", None, what, "a file", "none"),))

    def report(self) -> None:
        """Report on standard error which folders are tables, and how to check them."""
        for table in self._tables[:_SHOWN]:
            complain(table.note)
        if len(self._tables) > _SHOWN:
            complain(f"{counted(len(self._tables) - _SHOWN, 'more table')}: dvcodec audit checks them")


def _key(path: str) -> str:
    return path if is_url(path) else os.path.abspath(path)  # noqa: PTH100  (links stay)


def _exists(path: str) -> bool:
    return not is_url(path) and Path(path).exists()
