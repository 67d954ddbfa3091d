"""Writes ducklake.puffin with DuckLake itself: pip install duckdb==1.5.5 duckdb-extension-ducklake==1.5.5.

The file is the vector of one snapshot: rows 10 to 500 of a data file.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path

import duckdb

found = importlib.util.find_spec("duckdb_extension_ducklake")
assert found
assert found.origin
(extension,) = Path(found.origin).parent.glob("extensions/*/ducklake.duckdb_extension")
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute("SET autoinstall_known_extensions = false")
connection.execute(f"LOAD '{extension}'")
with tempfile.TemporaryDirectory() as folder:
    connection.execute(f"ATTACH 'ducklake:{folder}/catalog' AS lake (DATA_PATH '{folder}/data')")
    connection.execute("USE lake")
    connection.execute("CALL lake.set_option('write_deletion_vectors', true)")
    connection.execute("CREATE TABLE t AS SELECT i FROM range(1000) r(i)")
    connection.execute("DELETE FROM t WHERE i BETWEEN 10 AND 500")
    (made,) = Path(folder).rglob("*.puffin")
    shutil.copy(made, Path(__file__).with_name("ducklake.puffin"))
