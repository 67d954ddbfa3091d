"""The house itself: the map of modules, versions that were chosen."""

from __future__ import annotations

import ast
import graphlib
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import dvcodec

ROOT = Path(__file__).parents[1]
MODULES = sorted(Path(dvcodec.__file__).parent.rglob("*.py"))
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;]+)(?: ; (.+))?$")
BOUND = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z]+\])?(?:>=([0-9.]+))?")
# The tests of a wheel lie beside nothing.
in_the_tree = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="not in the project's tree")


def project() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib") if sys.version_info >= (3, 11) else pytest.importorskip("tomli")
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return found


def pins(name: str) -> dict[str, set[str]]:
    """Versions of each package (normalised) in a file of constraints."""
    found: dict[str, set[str]] = {}
    text = re.sub(r"^#.*\n", "", (ROOT / "constraints" / name).read_text(), flags=re.MULTILINE)
    for pin in text.replace(" \\\n", "").splitlines():
        if pin:
            line, *hashes = re.split(r" +--hash=sha256:(?=[0-9a-f]{64}\b)", pin)
            assert hashes, f"{name}: {line}: pip takes any file of that name, without a hash"
            match = PIN.match(line)
            assert match, f"{name}: {line}: pip takes only an exact version here, without extras"
            found.setdefault(match[1].lower().replace("_", "-").replace(".", "-"), set()).add(match[2])
    return found


def asked_for() -> list[str]:
    """All requirements of the package, its extras and its groups."""
    stated = project()
    lists = [stated["project"]["dependencies"], *stated["project"]["optional-dependencies"].values()]
    lists += [[one for one in group if isinstance(one, str)] for group in stated["dependency-groups"].values()]
    return [one for some in lists for one in some if not one.startswith("dvcodec[")]


def modules_on_the_map() -> set[str]:
    """Modules and packages that docs/architecture.md names: indented lines of names, then what they are for."""
    block = re.search(r"^dvcodec/\n((?: .*\n)+)```", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert block
    found: set[str] = set()
    folders: list[tuple[int, str]] = []
    for line in block[1].splitlines():
        indent = len(line) - len(line.lstrip())
        folders = [folder for folder in folders if folder[0] < indent]
        inside = folders[-1][1] if folders else ""
        for name in re.split(r"  +", line.strip())[0].split(", "):
            found.add(inside + name)
            if name.endswith("/"):
                folders.append((indent, inside + name))
    return found


@in_the_tree
def test_the_map_of_modules_is_complete() -> None:
    root = Path(dvcodec.__file__).parent
    there = {str(path.relative_to(root).with_suffix("")).removesuffix("__init__") for path in MODULES} - {""}
    named = modules_on_the_map()
    todo = [f"add {name}" for name in sorted(there - named)] + [f"remove {name}" for name in sorted(named - there)]
    assert not todo, "docs/architecture.md: " + ", ".join(todo)


def imports_of(path: Path, names: set[str], *, types: bool) -> set[str]:
    """Modules that a module imports, inside functions too; those for type checkers alone only if `types`."""
    found: set[str] = set()
    left: list[ast.AST] = [ast.parse(path.read_text())]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            left += node.orelse
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= parts & names | ({str(node.module)} if parts - names else set())
        else:
            left += ast.iter_child_nodes(node)
    return found & names


def import_graph(*, types: bool) -> dict[str, set[str]]:
    """Imports of each module."""
    root = Path(dvcodec.__file__).parents[1]
    paths = {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES}
    return {name: imports_of(path, set(paths), types=types) - {name} for name, path in paths.items()}


def rooms(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Imports between the packages right below `dvcodec`, and the modules there."""
    found: dict[str, set[str]] = {}
    for name, imported in graph.items():
        room = ".".join(name.split(".")[:2])
        found.setdefault(room, set()).update({".".join(one.split(".")[:2]) for one in imported} - {room})
    return found


def assert_no_circle(graph: dict[str, set[str]]) -> None:
    try:
        order = list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as err:
        pytest.fail(" -> ".join(reversed(err.args[1])))
    assert len(order) == len(graph)


@pytest.mark.parametrize("types", [False, True])
def test_no_modules_import_each_other_in_a_circle(types: bool) -> None:
    assert_no_circle(import_graph(types=types))


@pytest.mark.parametrize("types", [False, True])
def test_no_packages_import_each_other_in_a_circle(types: bool) -> None:
    assert_no_circle(rooms(import_graph(types=types)))


def test_files_are_opened_for_writing_in_one_place() -> None:
    """Whatever writes goes through `io.open_sink`, so that nothing is ever there in half."""
    writes = re.compile(r"""\.write_(?:text|bytes)\(|\bopen\([^)]*["'][wax]b?\+?["']|\bos\.(?:rename|replace|link)\(""")
    found = [
        f"{path.relative_to(path.parents[2])}: {line.strip()}"
        for path in MODULES
        for line in path.read_text().splitlines()
        if writes.search(line) and "/io/sink.py" not in str(path)
    ]
    # /dev/null in place of a closed or unwanted stream; Spark's log settings and launcher, in folders of their own.
    allowed = ("cli/__init__.py", "cli/common.py", "cli/spark_demo.py", "spark/java.py")
    assert not [line for line in found if not line.partition(":")[0].endswith(allowed)]


@in_the_tree
def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {dvcodec.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_a_version_is_chosen_for_everything() -> None:
    chosen = pins("ci.txt")
    missing = [one for one in asked_for() if BOUND.match(one.lower())[1] not in chosen]  # type: ignore[index]
    assert not missing, "make pins"


@in_the_tree
def test_the_lowest_versions_are_the_lower_bounds() -> None:
    stated = project()["project"]
    extras = stated["optional-dependencies"]
    chosen = pins("lowest.txt")
    for one in [*stated["dependencies"], *extras["arrow"], *extras["remote"], *extras["cli"], *extras["fast"]]:
        match = BOUND.match(one)
        assert match
        (version,) = chosen[match[1]]
        assert version == match[2] or version.startswith(f"{match[2]}."), f"{one}: make pins"


@in_the_tree
def test_the_recipe_for_conda_asks_for_what_the_package_asks_for() -> None:
    stated = project()["project"]
    text = (ROOT / "release" / "conda" / "recipe.yaml").read_text()
    run = re.search(r"^  run:\n    - python >=\S+ \S+ \}\}\n((?:    - .*\n)+)", text, re.MULTILINE)
    assert run
    assert run[1].replace("    - ", "").replace(" ", "").splitlines() == stated["dependencies"]
    assert f'\n  version: "{dvcodec.__version__}"\n' in text
    if sys.version_info >= (3, 11):
        made = runpy.run_path(str(ROOT / "release" / "conda" / "make.py"))["made"]
        assert text == made(), "run release/conda/make.py"
