"""What the code itself cannot do: claims of SECURITY.md, proved by walking the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dvcodec
from cases import each

ROOT = Path(dvcodec.__file__).parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
FORBIDDEN_MODULES = {
    "code", "codeop", "commands", "ctypes", "cloudpickle", "dill", "imp", "joblib", "jsonpickle", "marshal",
    "multiprocessing", "pickle", "pickletools", "pty", "pdb", "runpy", "shelve", "socket", "subprocess", "telnetlib",
    "tarfile", "webbrowser", "xml", "xmlrpc", "yaml", "zipfile", "http", "ftplib", "smtplib", "requests", "aiohttp",
    "lxml",
}  # fmt: skip
FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "breakpoint", "input", "execfile",
    "os.system", "os.popen", "os.execv", "os.execve", "os.execvp", "os.fork", "os.spawnl", "os.spawnv", "os.startfile",
    "posix_spawn", "tempfile.mktemp", "pd.read_pickle", "pandas.read_pickle", "pa.deserialize", "pa.read_serialized",
    "np.load", "numpy.load", "np.fromfile", "torch.load", "yaml.load", "yaml.unsafe_load",
}  # fmt: skip
FORBIDDEN_KEYWORDS = {"shell", "allow_pickle", "unsafe", "verify_ssl"}
EXCEPTIONS = {
    "spark/tasks.py": ["import pickle"],  # within what Spark pickles: a worker unpickles its own tasks alone
    "spark/sources/__init__.py": ["import subprocess"],  # asks the Python that Spark will start for its version
    "tables/deleting/expression.py": ["import ctypes"],  # metadata in order, of a schema that pyarrow made here
    "cli/conformance.py": ["import subprocess"],  # runs the decoder that the user names
    "io/workers.py": ["import subprocess"],  # this Python, with code of the package: it may crash on a corrupt file
    "spark/sources/shipped.py": ["import zipfile"],  # looks into archives that the user ships to the workers
}
DYNAMIC_IMPORTS = {
    "__init__.py": "names of this package, when they are first used",
    "core/extras.py": "optional dependencies, which its callers name in their code",
    "core/jit.py": "numba",
    "cli/app.py": "its commands",
    "cli/spark_demo.py": "the wheel that brings a Java",
    "cli/zap/__init__.py": "its commands",
    "spark/__init__.py": "names of this package",
    "spark/sources/__init__.py": "names of this package",
    "spark/sources/shipped.py": "the module of a source, as the driver registered it",
    "tables/__init__.py": "names of this package",
    "tables/table.py": "what reads live rows, which is written over its snapshots",
    "zap/__init__.py": "names of this package",
}
"""Where a module is imported by a name that is computed; none of these names comes from a file."""


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(), name)


def dotted(node: ast.expr) -> str:
    """The dotted name of what is called, empty if it is none."""
    if isinstance(node, ast.Attribute):
        above = dotted(node.value)
        return f"{above}.{node.attr}" if above else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Call) and dotted(node.func) == "require_extra":
            module = node.args[0]
            if ast.unparse(module) == "self._module":  # of a `LazyModule`, whose name is in the code that makes it
                continue
            assert isinstance(module, ast.Constant), ast.unparse(node)
            assert isinstance(module.value, str)
            yield module.value


def packages_of(name: str) -> set[str]:
    """The packages that a module imports."""
    return {one.partition(".")[0] for one in imported(tree_of(name))}


def offences(tree: ast.AST) -> list[str]:
    """What of a module is forbidden."""
    found = [f"import {name}" for name in imported(tree) if name.partition(".")[0] in FORBIDDEN_MODULES]
    for name, call in calls(tree):
        if name in FORBIDDEN_CALLS or name.removeprefix("builtins.") in FORBIDDEN_CALLS:
            found.append(f"{name}()")
        found += [f"{name}({word.arg}=)" for word in call.keywords if word.arg in FORBIDDEN_KEYWORDS]
    return found


def test_no_pickle_eval_shell_or_socket_in_the_code() -> None:
    assert {name: found for name in MODULES if (found := offences(tree_of(name)))} == EXCEPTIONS


@each(
    "text",
    [
        "import pickle",
        "from marshal import loads",
        "import xml.etree.ElementTree",
        "eval('1')",
        "import builtins\nbuiltins.exec('')",
        "import os\nos.system('ls')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "f('x', shell=True)",
        "import yaml\nyaml.load(x)",
    ],
)
def test_the_walk_finds_what_it_looks_for(text: str) -> None:
    assert offences(ast.parse(text))


def test_modules_are_imported_by_names_of_the_code_alone() -> None:
    dynamic = {name for name in MODULES for called, _ in calls(tree_of(name)) if called.endswith("import_module")}
    assert dynamic == DYNAMIC_IMPORTS.keys()


def test_no_name_is_looked_up_in_globals_or_modules() -> None:
    """No way from a string in a file to a function: `sys.modules`, `globals()` written to by its own names alone."""
    for name in MODULES:
        tree = tree_of(name)
        assert not [called for called, _ in calls(tree) if called in ("locals", "vars", "delattr")], name
        if name not in DYNAMIC_IMPORTS:
            assert not [called for called, _ in calls(tree) if called == "globals"], name


def test_urls_are_opened_in_one_place_alone() -> None:
    """fsspec and obstore, which open any protocol, are imported by the modules that `check_reach` stands before."""
    allowed = {"io/store/filesystems.py"}
    for package, modules in (("fsspec", allowed), ("obstore", {"io/store/objects.py"})):
        assert {name for name in MODULES if package in packages_of(name)} == modules
    users = {
        name
        for name in MODULES
        for called, _ in calls(tree_of(name))
        if called.endswith(("fs.FileSystem.from_uri", "from_uri", "url_to_fs", "urlopen"))
    }
    assert users <= allowed


COMPILED = {"cramjam", "duckdb", "fastavro", "isal", "pyarrow", "pyroaring", "zlib", "json"}
OF_THE_CALLER = {"boto3", "deltalake", "numpy", "obstore", "pandas", "polars", "pyspark"}
"""They see no bytes of files in a format: requests and answers, values that the caller passes."""
PURE = {"dvcodec", "fsspec", "pyiceberg", "rich", "typer", "typing_extensions"}


def test_packages_are_known_as_native_or_not() -> None:
    packages = set.union(*map(packages_of, MODULES)) - sys.stdlib_module_names
    assert packages - PURE - OF_THE_CALLER == (COMPILED - {"zlib", "json"}) | {"lance"}
