"""Make an append table of Parquet files, a data file of each, with deletion vectors enabled.

make_table.py WAREHOUSE PARQUET...
"""

from __future__ import annotations

import sys

import pyarrow.parquet as pq
from pypaimon import CatalogFactory, Schema

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "-1", "file.format": "parquet"}


def main(warehouse: str, *parts: str) -> None:
    catalog = CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("db", True)
    schema = pq.read_schema(parts[0])
    catalog.create_table("db.t", Schema.from_pyarrow_schema(schema, options=OPTIONS), False)
    for part in parts:
        builder = catalog.get_table("db.t").new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(pq.read_table(part))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
