"""What the formats' own libraries read of a table with the column ``id``."""

from __future__ import annotations

from typing import Any

import pytest

from dvcodec.tables import TableKind, open_table
from samples.rows import ids

__all__ = ["ids_by_library"]


def ids_by_library(door: dict[str, Any]) -> list[int]:
    """Ids of the live rows, sorted, as deltalake, pyiceberg or pylance read them; of Paimon as dvcodec does.

    Args:
        door: see `racer.open_door`.
    """
    if "catalog" in door:
        catalogs = pytest.importorskip("pyiceberg.catalog")
        return _sorted(catalogs.load_catalog("races", **door["catalog"]).load_table(door["name"]).scan().to_arrow())
    location, options = door["location"], door.get("options", {})
    table = open_table(location, storage_options=options)
    if table.kind is TableKind.DELTA:
        deltalake = pytest.importorskip("deltalake")
        found = deltalake.DeltaTable(location, storage_options=options or None)
        return _sorted(deltalake.QueryBuilder().register("t", found).execute("SELECT id FROM t").read_all())
    if table.kind is TableKind.LANCE:
        lance = pytest.importorskip("lance.dataset")
        return _sorted(lance.LanceDataset(location, storage_options=options or None).to_table(columns=["id"]))
    if table.kind is TableKind.ICEBERG:
        static = pytest.importorskip("pyiceberg.table").StaticTable
        return _sorted(static.from_metadata(table.metadata.source, _of_pyiceberg(options)).scan().to_arrow())  # type: ignore[attr-defined]
    return ids(table)


def _of_pyiceberg(options: dict[str, str]) -> dict[str, str]:
    """Options of a store as properties of pyiceberg."""
    names = {
        "aws_endpoint_url": "s3.endpoint",
        "aws_access_key_id": "s3.access-key-id",
        "aws_secret_access_key": "s3.secret-access-key",
        "aws_region": "s3.region",
    }
    return {name: options[key] for key, name in names.items() if key in options}


def _sorted(found: Any) -> list[int]:
    import pyarrow as pa

    return sorted(pa.table(found).column("id").to_pylist())
