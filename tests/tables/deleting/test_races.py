"""Processes that commit overlapping deletes to one table on disk: each is in once, in an unbroken history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from samples.id_tables import MAKERS, make_iceberg
from tables.deleting.races import FILE_ROWS, KINDS, ROWS, WRITERS, race


@pytest.mark.parametrize("writers", WRITERS)
@pytest.mark.parametrize("kind", KINDS)
def test_on_disk(kind: str, writers: int, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / kind, ROWS, FILE_ROWS)
    race({"location": str(tmp_path / kind)}, writers)


@pytest.mark.interop
@pytest.mark.parametrize("writers", WRITERS)
def test_in_a_catalog_in_sql(writers: int, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    catalogs = pytest.importorskip("pyiceberg.catalog")
    crafted = make_iceberg(tmp_path / "iceberg", ROWS, FILE_ROWS)
    options: dict[str, Any] = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    catalog = catalogs.load_catalog("races", **options)
    catalog.create_namespace("db")
    catalog.register_table("db.t", str(crafted.metadata))
    race({"catalog": options, "name": "db.t"}, writers)
