"""Scorch indexes of bleve: epochs, segments and their deleted documents, from ``root.bolt``.

An epoch is a snapshot, a zap segment a data file, and the bitmap of deleted documents that ``root.bolt`` holds for a
segment (key ``d``) a vector at its byte range there. A document number is a position; nested documents are numbered
too, and if a document is deleted, the bitmap also has those nested in it. Rows are stored documents.

The index is opened by its folder, or by the folder ``store`` in it. A live writer locks ``root.bolt``. It is read here
without a lock, and read again if a transaction ended meanwhile. A `Snapshot` is valid only until the next transaction;
after that, reading a vector of it fails. Copy a busy index, or open it again.

`dvcodec.tables.scorch.rewrite` writes an index without its deleted documents, or repairs it.
"""

from __future__ import annotations

from typing import NoReturn

from dvcodec.core.errors import UsageError
from dvcodec.tables.adapters import ADAPTERS, Adapter
from dvcodec.tables.model import TableKind
from dvcodec.tables.scorch.table import ScorchTable, SegmentRecord, open  # noqa: A004  (what every kind of table calls it)

__all__ = ["ScorchTable", "SegmentRecord", "open"]


def _no_commit(table: ScorchTable, dry_run: bool = False) -> NoReturn:  # noqa: ARG001
    raise UsageError(
        f"{table.location}: documents of a search index are deleted by its own library; `dvcodec zap repair` repairs it"
    )


ADAPTERS[TableKind.SCORCH] = Adapter(open, _no_commit, _no_commit)
