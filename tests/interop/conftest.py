"""The implementations that interop tests talk to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interop.driver import INTEROP, JAVA, Java, JavaPaimon, PyPaimon, need


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    """The Java program; `make interop-java` builds it."""
    need(shutil.which("java") is not None, "java")
    need((JAVA / "target" / "classpath.txt").is_file(), "the built program of interop/java")
    scratch: Path = tmp_path_factory.mktemp("java")
    return Java(scratch)


def java_paimon(version: str, tmp_path_factory: pytest.TempPathFactory) -> JavaPaimon:
    need(shutil.which("java") is not None, "java")
    built = JAVA / "paimon" / version / "target" / "classpath.txt"
    need(built.is_file(), "the built programs of interop/java/paimon")
    scratch: Path = tmp_path_factory.mktemp(f"java-paimon-{version}")
    return JavaPaimon(version, scratch)


@pytest.fixture(scope="session")
def paimon_newest(tmp_path_factory: pytest.TempPathFactory) -> JavaPaimon:
    """Paimon's newest release; `make interop-java` builds it."""
    return java_paimon("newest", tmp_path_factory)


@pytest.fixture(scope="session")
def paimon_0_9(tmp_path_factory: pytest.TempPathFactory) -> JavaPaimon:
    """Paimon 0.9.0."""
    return java_paimon("v0_9", tmp_path_factory)


@pytest.fixture(scope="session")
def pypaimon(tmp_path_factory: pytest.TempPathFactory) -> PyPaimon:
    """The pypaimon program; `make interop-pypaimon` makes its environment."""
    need((INTEROP / "pypaimon" / ".venv" / ".installed").is_file(), "interop/pypaimon/.venv")
    scratch: Path = tmp_path_factory.mktemp("pypaimon")
    return PyPaimon(scratch)
