"""The implementations that interop tests talk to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.driver import GO, INTEROP, JAVA, Go, GoBleve, GoVellum, Java, JavaPaimon, PyPaimon, need
from interop.engines import Engines, running

if TYPE_CHECKING:
    from interop.connectors import Key
    from interop.truth import MadeTable


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


def go_scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need((GO / "bin" / ".built").is_file(), "the built programs of interop/go")
    return tmp_path_factory.mktemp("go")


@pytest.fixture(scope="session")
def go(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int | str], Go]:
    """The program for a version of zap segments; `make interop-go` builds them."""
    scratch = go_scratch(tmp_path_factory)
    return lambda version: Go(version, scratch)


@pytest.fixture(scope="session")
def vellum(tmp_path_factory: pytest.TempPathFactory) -> GoVellum:
    return GoVellum(go_scratch(tmp_path_factory))


@pytest.fixture(scope="session")
def bleve(tmp_path_factory: pytest.TempPathFactory) -> GoBleve:
    return GoBleve(go_scratch(tmp_path_factory))


@pytest.fixture(scope="session")
def made(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> dict[Key, MadeTable]:
    """All tables of the Spark connectors; `make interop-spark` gets what makes them."""
    from interop.connectors import make_tables  # reads whole tables, which needs more than the other programs do

    return make_tables(engines, tmp_path_factory.mktemp("connectors"))


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """The engines of Spark that commit and read: one program, whose first statements are its slowest."""
    with running(tmp_path_factory.mktemp("engines")) as found:
        yield found
