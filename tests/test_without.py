"""Where an optional package is missing, each function does what needs no such package, or names what to install."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

import without
from dvcodec import tables

for package in ("pyarrow", "fastavro", "duckdb", "lance", "typer", "rich"):
    pytest.importorskip(package)  # the gate has all of them

READING = r"(Snapshot\.(schema|rows)|live_batches|export_live|Table\.to_(reader|pandas))"
GROUPS: tuple[dict[str, str], ...] = (
    {
        "pyarrow": r"RowSet\.(to_arrow|arrow_mask)|arrow\..*|zap\.Segment\.to_arrow"
        r"|iceberg\.(read|write)_position_deletes"
        rf"|\w+: ({READING}|Table\.to_polars|delete by (keys|SQL))|iceberg: (compact|upgrade)_deletes"
        r"|checkpoint: (?!open_table).*"
        r"|lance: (?!open_table|Table.snapshot|Snapshot.data_files|enable).*"
        r"|dvcodec (demo|export-live|delete|compact-deletes|upgrade-deletes|spark-demo)|spark\..*"
    },
    {
        "fastavro": r"(iceberg|paimon): (?!open_table|enable).*|paimon: enable"
        r"|dvcodec (demo|inspect of a manifest|compact-deletes|upgrade-deletes)",
        "pandas": r"spark\..*|dvcodec spark-demo|(delta|checkpoint|lance|scorch): Table\.to_pandas",
    },
    {
        "duckdb": r"(?!lance)\w+: delete by SQL|dvcodec delete",
        "lance": rf"lance: ({READING}|delete by .*)",
        "polars": r"\w+: Table\.to_polars",
        "boto3": r"s3: .*",
    },
    {"typer": r"dvcodec .*", "rich": ""},
    {
        "obstore": r"s3: .*",
        "fsspec": r"hdfs: .*",
        "pyiceberg": r"catalog: .*|dvcodec demo",
        "pyspark": r"spark\..*|dvcodec spark-demo",
        "isal": "",
        "numba": "",
    },
)
"""Packages that are missing together -> the functions and commands that need each."""
INSTALLED_AS = {"lance": "pylance"}
NAMES = INSTALLED_AS | {"duckdb": "DuckDB 2.0 or later", "typer": "typer and rich"}


WITH_OTHERS = {"totals", "rewrite_candidates"}
"""Functions of `dvcodec.tables` that take what others return, and need no more than these."""


def brings(extra: str, package: str) -> bool:
    """Return whether an extra installs a package."""
    return any(
        re.match(rf"{INSTALLED_AS.get(package, package)}\W.*extra == '{extra}'", one)
        for one in requires("dvcodec") or []
    )


@pytest.mark.parametrize("needs", GROUPS, ids=" ".join)
def test_what_is_missing_is_named(needs: dict[str, str], tmp_path: Path) -> None:
    without.prepare(tmp_path)
    program = [sys.executable, without.__file__, ",".join(needs), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    ends: dict[str, str] = json.loads(done.stdout)
    functions = {name for name in tables.__all__ if inspect.isfunction(getattr(tables, name))}
    assert functions - WITH_OTHERS <= {door.rpartition(": ")[2].partition(" ")[0] for door in ends}
    assert {door: end for door, end in ends.items() if end and not re.fullmatch("|".join(needs.values()), door)} == {}
    for package, doors in needs.items():
        for door in filter(re.compile(doors).fullmatch, ends):
            said = re.fullmatch(
                rf"(?:MissingExtra|SystemExit): .*{NAMES.get(package, package)}\b.*pip install 'dvcodec\[(\w+)\]'\n?",
                ends[door],
            )
            assert said is not None, (door, ends[door])
            assert brings(said[1], package), ends[door]
