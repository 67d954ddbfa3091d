"""Lance datasets: versions, fragments and their deletion files, from the manifests in ``_versions``.

A version is a snapshot and a fragment is a data file, whose `DataFile.path` is that of the fragment's first file:
columns added later are stored in further files, which `DataFile.files` names. A fragment's deletion file is a
vector, a whole file. Detached versions are not listed, because only their number leads to them, but their files are
referenced, as are those of branches; a branch is opened by its own folder, ``tree/<branch>``. Files under other base
paths (of a shallow clone or a branch) are where the manifest says, even if the dataset was moved.

Rows are read by Lance's own library (extra ``lance``), which has to understand the location itself.
"""

from __future__ import annotations

from dvcodec.tables.adapters import ADAPTERS, Adapter
from dvcodec.tables.lance.commit import LanceCommitter
from dvcodec.tables.lance.table import DeletionRecord, FragmentRecord, LanceTable, open  # noqa: A004  (what every kind of table calls it)
from dvcodec.tables.model import Enabled, TableKind

__all__ = ["DeletionRecord", "FragmentRecord", "LanceTable", "open"]


def _enable(table: LanceTable, dry_run: bool) -> Enabled:  # noqa: ARG001
    return Enabled(())  # every dataset has deletion files


ADAPTERS[TableKind.LANCE] = Adapter(open, LanceCommitter, _enable)
