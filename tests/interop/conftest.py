"""The implementations that interop tests talk to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interop.driver import INTEROP, JAVA, Java, PyPaimon, need


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    """The Java program; `make interop-java` builds it."""
    need(shutil.which("java") is not None, "java")
    need((JAVA / "target" / "classpath.txt").is_file(), "the built program of interop/java")
    scratch: Path = tmp_path_factory.mktemp("java")
    return Java(scratch)


@pytest.fixture(scope="session")
def pypaimon(tmp_path_factory: pytest.TempPathFactory) -> PyPaimon:
    """The pypaimon program; `make interop-pypaimon` makes its environment."""
    need((INTEROP / "pypaimon" / ".venv" / ".installed").is_file(), "interop/pypaimon/.venv")
    scratch: Path = tmp_path_factory.mktemp("pypaimon")
    return PyPaimon(scratch)
