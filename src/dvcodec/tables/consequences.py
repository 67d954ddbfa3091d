"""What libraries do with a table once it has deletion vectors enabled: what its owner gives up.

The facts are those of released versions, and tests hold them: tests/tables/test_enable.py tries pyiceberg, polars
and deltalake, tests/interop the others. docs/guides/delete.md has the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dvcodec.tables.model import Consequence, TableKind

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
"""By the format of the table; none where nothing has to be enabled."""
INSTEAD: Mapping[TableKind, str] = MappingProxyType(
    {TableKind.ICEBERG: "deletes need no version 3: in version 2 they are committed as position delete files"}
)
"""What goes without it."""
