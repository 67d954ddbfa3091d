"""Lance datasets: versions, fragments and their deletion files, from the manifests in ``_versions``.

A version is a snapshot and a fragment is a data file, whose `DataFile.path` is that of the first of the fragment's
files: columns added later are stored in further ones, which ``record["files"]`` names. A fragment's deletion file is
a vector, a whole file. Detached versions are not listed (nothing leads to them but their number), but their files are
referenced, as are those of branches; a branch is opened by its own folder, ``tree/<branch>``. Files of other base paths
(those of a shallow clone or a branch) are where the manifest says, wherever the dataset was moved.

Rows are read by Lance's own library (extra ``lance``), which has to understand the location itself.
"""

from dvcodec.tables.lance.table import LanceTable, open  # noqa: A004  (what every kind of table calls it)

__all__ = ["LanceTable", "open"]
