"""Every example of the README and the docs runs, top to bottom, and prints what it says."""

from __future__ import annotations

import doctest
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import delta_table
from dvcodec import RowSet, iceberg

ROOT = Path(__file__).parents[1]
SPARK_PAGE = ROOT / "docs" / "spark.md"  # its examples run in tests/spark, with a session
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if page != SPARK_PAGE)]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = [sys.executable, "-c", "from dvcodec.cli import main; main()"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh working folder with the few files that docs/command-line.md and docs/tables.md speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    rows = {"s3://lake/t/a.parquet": RowSet([0, 1, 2, 7]), "s3://lake/t/b.parquet": RowSet([42])}
    (tmp_path / "lake").mkdir()
    iceberg.write_deletion_vectors("lake/deletes.puffin", rows)
    newer = rows | {"s3://lake/t/a.parquet": rows["s3://lake/t/a.parquet"] | RowSet([100])}
    iceberg.write_deletion_vectors("lake/newer.puffin", newer)
    delta_table.make(tmp_path / "orders")
    return tmp_path


def run_python(block: str, names: dict[str, object], page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=output.append, clear_globs=False)
    names.update(test.globs)
    assert not runner.failures, "".join(output)


def run_console(block: str, folder: Path) -> None:
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        command, _, code = command.partition(" # exit ")
        program, *arguments = shlex.split(command)
        assert program == "dvcodec"
        done = subprocess.run([*RUN, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == int(code or 0), done.stderr
        assert doctest.OutputChecker().check_output(expected, done.stdout, FLAGS), f"{command}\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, folder: Path) -> None:
    damaged = folder / "lake" / "damaged"
    names: dict[str, object] = {}
    for kind, block in BLOCK.findall(page.read_text()):
        if kind == "python":
            run_python(block, names, page)
        else:
            run_console(block.split("$ dvcodec verify lake/damaged")[0], folder)
            if "lake/damaged" in block:
                damaged.mkdir()
                data = bytearray((folder / "lake" / "deletes.puffin").read_bytes())
                data[78] ^= 1
                (damaged / "deletes.puffin").write_bytes(data)
                run_console("$ dvcodec verify lake/damaged" + block.split("$ dvcodec verify lake/damaged")[1], folder)


def test_pages_name_files_that_are_there() -> None:
    for page in [*PAGES, SPARK_PAGE]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="the page has the Spark face in it")
def test_the_api_page_is_that_of_the_docstrings() -> None:
    spec = importlib.util.spec_from_file_location("make_api", ROOT / "docs" / "make_api.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert (ROOT / "docs" / "api.md").read_text() == maker.page(), "run `make docs`"


def test_the_console_examples_are_not_skipped() -> None:
    kinds = [kind for page in PAGES for kind, _ in BLOCK.findall(page.read_text())]
    assert kinds.count("console") >= 2
    assert kinds.count("python") >= 15
