"""A part of the table of docs/differences.md, printed anew by interop/conformance/table.py."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.driver import JAVA, need

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.interop


@pytest.mark.parametrize("name", ["pyiceberg", "pyroaring", "java", "paimon-java"])
def test_the_table_is_what_decoders_do_today(name: str) -> None:
    if "java" in name:
        need((JAVA / "target" / "classpath.txt").exists(), "interop/java")
    elif name == "pyiceberg":
        need(importlib.util.find_spec(name) is not None, name)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(ROOT / "interop" / "conformance" / "table.py"), name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    page = (ROOT / "docs" / "differences.md").read_text()
    _, _, *lines = done.stdout.splitlines()
    assert lines
    for line in lines:
        assert line in page
