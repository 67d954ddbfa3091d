"""Every example of the README and the docs runs, top to bottom, and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from cli_runner import ZAP_COMMANDS, run
from dvcodec.cli.app import COMMANDS
from samples.paimon_table import PaimonFile, build_paimon

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUIDE = DOCS / "guides" / "iceberg.md"
DELTA = DOCS / "guides" / "delta.md"
AFTER_DELTA = ("README.md", "index.md", "cookbook.md", "delete.md", "engines.md")
"""Their table is that of docs/guides/delta.md, and they say so; all other pages run in an empty folder."""
SPARK_PAGES = (DOCS / "spark.md", DOCS / "guides" / "udf.md", DOCS / "guides" / "spark-delete.md")
"""They run in tests/spark, with a session."""
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if page not in SPARK_PAGES)]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs: (\w+) -->\n$")  # before a block: the package that it is about
PAGE_NEEDS = re.compile(r"^<!-- page needs: ([\w.]+) -->$", re.MULTILINE)  # the package that makes the page's table
ON_A_SERVER = re.compile(r"<!-- on a server -->\n$")  # before a block: tests/lake/test_guide.py runs it
API_MODULES = (
    *("dvcodec", "dvcodec.arrow", "dvcodec.delta", "dvcodec.dialects", "dvcodec.dialects.ducklake"),
    *("dvcodec.dialects.tantivy", "dvcodec.formats", "dvcodec.iceberg", "dvcodec.lance", "dvcodec.mumbling"),
    *("dvcodec.paimon", "dvcodec.puffin", "dvcodec.report", "dvcodec.testing", "dvcodec.zap"),
    *("dvcodec.spark", "dvcodec.spark.functions", "dvcodec.spark.jobs", "dvcodec.spark.paths", "dvcodec.spark.sources"),
    *("dvcodec.tables", "dvcodec.tables.auditing", "dvcodec.tables.convert", "dvcodec.tables.repair"),
    *(f"dvcodec.tables.snapshots.{name}" for name in ("findings", "changes", "live", "scanning")),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


@pytest.fixture
def catalog(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure the catalog ``lake`` of pyiceberg as docs/guides/iceberg.md does."""
    if importlib.util.find_spec("pyiceberg") is None:
        return
    import pyiceberg.catalog
    import pyiceberg.utils.config

    printed = re.search(r"^```text\n(catalog:\n.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert printed
    (folder / ".pyiceberg.yaml").write_text(printed[1])
    monkeypatch.setenv("PYICEBERG_HOME", str(folder))
    # It is read when pyiceberg is imported.
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", pyiceberg.utils.config.Config())


def run_python(block: str, names: dict[str, object], page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=output.append, clear_globs=False)
    names.update(test.globs)
    assert not runner.failures, "".join(output)


def run_console(block: str) -> None:
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        command, _, code = command.partition(" # exit ")
        program, *arguments = shlex.split(command)
        assert program == "dvcodec"
        done = run(*arguments)
        assert done.code == int(code or 0), done.err
        assert doctest.OutputChecker().check_output(expected, done.out, FLAGS), f"{command}\n{done.out}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.usefixtures("catalog")
def test_examples_run(page: Path, folder: Path) -> None:
    names: dict[str, object] = {}
    text = page.read_text()
    for package in PAGE_NEEDS.findall(text):
        pytest.importorskip(package)
    if page.name in AFTER_DELTA:
        pytest.importorskip("deltalake")
        run_python(BLOCK.findall(DELTA.read_text())[0][1], {}, DELTA)
    if page.name == "paimon.md" and importlib.util.find_spec("pypaimon") is None:
        paimon_table(folder / "lake" / "db.db" / "readings")
    for found in BLOCK.finditer(text):
        if ON_A_SERVER.search(text, endpos=found.start()):
            continue
        needed = NEEDS.search(text, endpos=found.start())
        if needed is not None and importlib.util.find_spec(needed[1]) is None:
            continue
        if found[1] == "python":
            run_python(found[2], names, page)
        else:
            run_console(found[2])


def paimon_table(folder: Path) -> None:
    """Write the table that docs/guides/paimon.md has pypaimon write, which lives in an environment of its own."""
    columns = [(0, "id", "BIGINT"), (1, "celsius", "DOUBLE")]
    data = [
        PaimonFile(f"data-{i + 1}.parquet", pa.table({"id": range(100 * i, 100 * i + 100), "celsius": [20.5] * 100}))
        for i in range(2)
    ]
    folder.parent.mkdir(parents=True)
    build_paimon(folder, columns, [data], options={"deletion-vectors.enabled": "false"})


def test_the_notebook_shows_what_its_cells_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    monkeypatch.syspath_prepend(DOCS)
    monkeypatch.chdir(tmp_path)
    make_notebook = importlib.import_module("make_notebook")
    notebook = json.loads((DOCS / "notebook.ipynb").read_text())
    kept = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    chance = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
    made, shown = (chance.sub("..", json.dumps(each, indent=1)) for each in (make_notebook.outputs(notebook), kept))
    assert made == shown, "run `make docs`"


def test_pages_name_files_that_are_there() -> None:
    for page in [*PAGES, *SPARK_PAGES]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_no_example_escapes_the_tests() -> None:
    for page in [*PAGES, *SPARK_PAGES]:
        languages = set(re.findall(r"^```(.*)\n(?:.*\n)*?```$", page.read_text(), re.MULTILINE))
        assert languages <= {"python", "console", "sh", "text"}, page.name


def test_the_page_of_commands_and_the_man_pages_are_those_of_the_command_line(tmp_path: Path) -> None:
    # In a process of its own: here other tests may have brought some commands before others.
    code = "import sys, pathlib, make_cli, make_man; make_man.write(pathlib.Path(sys.argv[1])); "
    code += "sys.stdout.buffer.write(make_cli.page().encode())"
    page = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=DOCS, stdout=subprocess.PIPE, check=True).stdout
    assert (DOCS / "commands.md").read_bytes() == page, "run `make docs`"
    names = {*COMMANDS, *(f"zap-{name}" for name in ZAP_COMMANDS)} - {"zap"}
    assert {file.name for file in tmp_path.iterdir()} == {"dvcodec.1", *(f"dvcodec-{name}.1" for name in names)}
    audit = (tmp_path / "dvcodec-audit.1").read_text()
    assert "\n.SH NAME\ndvcodec\\-audit \\- check all vectors of a table's snapshot, and" in audit
    assert "\n.TP\n\\fB\\-\\-threads\\fR \\fIINTEGER\\fR\nFiles to read at once; by default 8" in audit
    if shutil.which("groff"):
        files = map(str, sorted(tmp_path.iterdir()))
        assert subprocess.run(["groff", "-man", "-ww", "-z", *files], capture_output=True, check=True).stderr == b""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site: a dead link, a missing anchor or a page nowhere in the navigation is an error of the build."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings_handlers") is None:
        pytest.skip("the site needs the group docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.xdist_group("site")
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"""<(?!a\b)[^>]*\b(?:src|href|srcset)=["']?(?:https?:)?//[^>]*>""")
    loaded = {page.name: loads.findall(page.read_text()) for page in site.rglob("*.html")}
    fetches = re.compile(r"@import|url\([\"']?(?:https?:)?//")
    loaded |= {style.name: fetches.findall(style.read_text()) for style in site.rglob("*.css")}
    assert len(loaded) > 30
    assert not {name: found for name, found in loaded.items() if found}


@pytest.mark.xdist_group("site")
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="the reference has the Spark face in it")
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    anchors, missing = set(re.findall(r'id="([\w.]+)"', pages)), []
    for name in API_MODULES:
        module = importlib.import_module(name)
        for export in module.__all__:
            thing = getattr(module, export)
            # A function whose module has its name stands under the module's.
            ids = {f"{name}.{export}", f"{getattr(thing, '__module__', name)}.{export}"}
            if export != "__version__" and not isinstance(thing, ModuleType) and not ids & anchors:
                missing.append(f"{name}.{export}")
    assert not missing
