"""The package as a whole: what importing costs, what it names, and that everything is documented."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

import pytest

import dvcodec
from cases import each

FOLDER = Path(dvcodec.__file__).parent
HAS_SPARK = importlib.util.find_spec("pyspark") is not None
MODULES = [
    name
    for name in ("dvcodec", *(found.name for found in pkgutil.walk_packages([str(FOLDER)], "dvcodec.")))
    if HAS_SPARK or not name.startswith("dvcodec.spark")
]
PUBLIC = (
    *("dvcodec", "dvcodec.arrow", "dvcodec.delta", "dvcodec.iceberg", "dvcodec.lance", "dvcodec.paimon"),
    *("dvcodec.puffin", "dvcodec.report", "dvcodec.tables", "dvcodec.zap", "dvcodec.spark.functions"),
    "dvcodec.spark.jobs",
)
NOT_STARRED = {"io", "report", "spark", "tables", "testing"}
"""Modules that are attributes of the package, but not names of ``from dvcodec import *``."""
BASE = {"numpy", "pyroaring", "cramjam"}
EXTRAS = {"pyarrow", "fsspec", "rich", "typer", "pandas", "polars", "isal"}


def imported_by(program: str) -> set[str]:
    """Top-level packages in sys.modules after a program has run in a fresh process."""
    code = f"{program}\nimport json, sys\nprint(json.dumps([name for name in sys.modules if '.' not in name]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@each(
    ("program", "allowed"),
    [
        ("import dvcodec", set()),
        ("import dvcodec; dvcodec.__version__; dir(dvcodec)", set()),
        ("import dvcodec; dvcodec.DecodeError", set()),
        ("import dvcodec; dvcodec.RowSet([1]).mask(0, 3)", {"numpy", "pyroaring", "isal"}),
        ("import dvcodec; dvcodec.iceberg.encode(dvcodec.RowSet([1]))", {*BASE, "isal"}),
        ("import dvcodec; dvcodec.arrow", {"numpy", "pyroaring", "isal"}),
        ("import dvcodec; dvcodec.verify(b'')", {*BASE, "isal"}),
        ("from dvcodec import *", {*BASE, "isal"}),
        ("import dvcodec.cli", set()),
    ],
)
def test_imports_no_more_than_needed(program: str, allowed: set[str]) -> None:
    assert imported_by(program) & (BASE | EXTRAS) <= allowed


@pytest.mark.skipif(HAS_SPARK, reason="pyspark is here")
def test_the_extra_is_named_where_spark_is_missing() -> None:
    with pytest.raises(dvcodec.MissingExtra, match=r"dvcodec\[spark\]"):
        importlib.import_module("dvcodec.spark.jobs")


@each("name", dvcodec.__all__)
def test_every_name_is_there(name: str) -> None:
    value = getattr(dvcodec, name)
    assert value is not None
    assert getattr(dvcodec, name) is value


def test_type_checkers_see_the_names_that_there_are() -> None:
    tree = ast.parse((FOLDER / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert (seen | {"__version__"}) - NOT_STARRED == set(dvcodec.__all__)


@pytest.mark.parametrize("name", ["dvcodec", "dvcodec.delta", "dvcodec.iceberg", "dvcodec.paimon", "dvcodec.puffin"])
def test_types_in_signatures_are_public(name: str) -> None:
    """What a caller has to pass or gets back can be imported from a public module."""
    public = {one for home in PUBLIC if "spark" not in home for one in importlib.import_module(home).__all__}
    own = {"BytesLike", "Positions", "Source", "Target"}  # unions of types that are not ours; a protocol of dvcodec.io
    for door, function in callables(importlib.import_module(name)):
        signature = inspect.signature(function)
        text = " ".join(str(one.annotation) for one in signature.parameters.values())
        for word in re.findall(r"\b[A-Z]\w+", re.sub(r"Literal\[[^]]*\]|'[^']*'", "", text)):
            defined = getattr(inspect.getmodule(function), word, None)
            ours = getattr(defined, "__module__", "").startswith("dvcodec")
            assert not ours or word in public | own, f"{name}.{door}: {word}"


# ---------------------------------------------------------------------------------------------------- documentation


def test_the_docstring_of_a_module_begins_with_a_sentence() -> None:
    for name in MODULES:
        first = (importlib.import_module(name).__doc__ or "").strip().partition("\n")[0]
        assert first.endswith((".", "?", "!", ":")), name


def test_public_names_have_docstrings() -> None:
    for name in MODULES:
        module = importlib.import_module(name)
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == name]
        names = getattr(module, "__all__", [key for key in own if not key.startswith("_")])
        assert len(names) == len(set(names)), name
        check_docstrings(name, module, names)


def check_docstrings(name: str, module: Any, names: list[str]) -> None:
    for public in names:
        value = getattr(module, public)
        # To Python 3.10 an alias such as Callable[..] is a class too.
        if (inspect.isclass(value) and get_origin(value) is None) or inspect.isfunction(value):
            own = value.__doc__
            assert own, f"{name}.{public}"
            assert not (inspect.isclass(value) and own.startswith(f"{public}(")), f"{name}.{public}: made by dataclass"
        if inspect.isclass(value) and value.__module__.startswith("dvcodec"):
            for member, method in vars(value).items():
                if not member.startswith("_") and isinstance(method, (property, classmethod, staticmethod)):
                    documented = [vars(base).get(member) for base in value.__mro__]  # a base class may do it
                    assert any(getattr(found, "__doc__", None) for found in documented), f"{name}.{public}.{member}"
                if not member.startswith("_") and inspect.isfunction(method):
                    inherited = any(hasattr(base, member) for base in value.__mro__[1:])
                    assert method.__doc__ or inherited, f"{name}.{public}.{member}"


def callables(module: Any) -> Iterator[tuple[str, Any]]:
    """Public functions of a module, and public methods of its public classes."""
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.isfunction(value):
            yield public, value
        elif inspect.isclass(value) and value.__module__.startswith("dvcodec"):
            for member in vars(value):
                method = getattr(value, member)
                if not member.startswith("_") and (inspect.isfunction(method) or inspect.ismethod(method)):
                    yield f"{public}.{member}", method


@each("name", PUBLIC)
def test_every_parameter_is_documented(name: str) -> None:
    """In ``Args:``, or in code within a sentence."""
    if name.startswith("dvcodec.spark"):
        pytest.importorskip("pyspark")
    missing = []
    for public, function in callables(importlib.import_module(name)):
        text = inspect.getdoc(function) or ""
        parameters = [one for one in inspect.signature(function).parameters if one not in ("self", "cls")]
        said = [one for one in parameters if re.search(rf"(?m)^ *{one}:|`[^`\n]*\b{one}\b[^`\n]*`", text)]
        if len(parameters) > 1 and said != parameters:
            missing.append((public, sorted({*parameters} - {*said})))
    assert not missing


def test_examples_in_docstrings() -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = {name: doctest.testmod(importlib.import_module(name), optionflags=flags) for name in MODULES}
    assert [name for name, (failed, _) in results.items() if failed] == []
    assert sum(attempted for _, attempted in results.values()) >= 10


def test_libraries_never_print() -> None:
    for path in FOLDER.rglob("*.py"):
        if FOLDER / "cli" not in path.parents:
            calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            assert "print" not in {call.id for call in calls if isinstance(call, ast.Name)}, path
