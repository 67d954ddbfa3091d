"""The recipe of SECURITY.md for tables of strangers, as it is printed: a process with little memory and a clock."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dvcodec import RowSet
from samples.iceberg_table import Commit, build_iceberg

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="address space is limited as Linux does it")
PAGE = Path(__file__).parents[2] / "SECURITY.md"
PRINTED = r"\( ulimit -v 4194304; timeout -k 5 600 dvcodec audit TABLE --json > audit\.json \)"


def follow(table: Path, folder: Path, kilobytes: int = 4194304, seconds: str = "600") -> tuple[int, str]:
    """Run it, with these limits in place of those that are printed; return the exit code and the complaint."""
    (recipe,) = re.findall(PRINTED, PAGE.read_text())
    recipe = recipe.replace("4194304", str(kilobytes)).replace("600", seconds).replace("TABLE", str(table))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", recipe],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stderr


def test_a_table_is_audited(tmp_path: Path) -> None:
    build_iceberg(tmp_path / "t", Commit(data={"a": 20}, vectors={"a": RowSet([1])}))
    assert follow(tmp_path / "t", tmp_path) == (0, "")
    assert json.loads((tmp_path / "audit.json").read_text())["result"]["ok"]


def test_memory_and_time_end(tmp_path: Path) -> None:
    """140 kB of metadata that are 14 million lists."""
    metadata = tmp_path / "t/metadata"
    metadata.mkdir(parents=True)
    with gzip.open(metadata / "v1.gz.metadata.json", "wb", 1) as file:
        file.write(b'{"format-version":2,"x":[' + b"[]," * 14_000_000 + b"[]]}")
    code, complaint = follow(tmp_path / "t", tmp_path, kilobytes=1 << 20)
    assert code == 2
    assert "memory: expected enough for the values of the table metadata" in complaint
    assert follow(tmp_path / "t", tmp_path, seconds="0.05")[0] == 124
