"""Writes docs/api.md from the docstrings: `make docs`."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parent / "api.md"
MODULES = (
    "dvcodec",
    "dvcodec.iceberg",
    "dvcodec.delta",
    "dvcodec.puffin",
    "dvcodec.paimon",
    "dvcodec.lance",
    "dvcodec.zap",
    "dvcodec.arrow",
    "dvcodec.spark",
    "dvcodec.spark.jobs",
    "dvcodec.spark.functions",
    "dvcodec.spark.sources",
)
HEAD = """# API

Every public name with the first line of its docstring; `help(name)` has the rest: arguments, units, errors,
and what is not checked. This page is written by `make docs`.
"""


def line(name: str, thing: object) -> str:
    """One row of the table: signature and meaning."""
    if isinstance(thing, ModuleType):
        shown = name
    elif inspect.isfunction(thing):
        shown = f"{name}({', '.join(parameters(thing))})"
    else:
        shown = name
    if not isinstance(thing, (ModuleType, type)) and not inspect.isfunction(thing):
        return f"| `{shown}` | `{thing!r}` |"
    return f"| `{shown}` | {(inspect.getdoc(thing) or '').splitlines()[0]} |"


def parameters(function: object) -> list[str]:
    """Names of the arguments, optional ones with an equals sign."""
    assert callable(function)
    found = inspect.signature(function).parameters.values()
    return [p.name if p.default is p.empty else f"{p.name}=" for p in found]


def methods(thing: type) -> list[str]:
    """The public methods and properties of a class, in the order of the source."""
    return [
        f"`{name}`"
        for name, value in vars(thing).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, (property, classmethod)))
    ]


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name in MODULES:
        module = importlib.import_module(name)
        title = inspect.getdoc(module) or ""
        parts.append(f"\n## {name}\n{title.splitlines()[0]}\n\n| name | |\n|---|---|")
        exported = [export for export in module.__all__ if export != "__version__"]
        parts += [line(export, getattr(module, export)) for export in exported]
    row_set = importlib.import_module("dvcodec").RowSet
    operators = "`in`, `len`, `iter`, `==`, `hash`, `<=`, `<`, `|`, `&`, `-`, `^`"
    parts.append(f"\n## RowSet\n{', '.join(methods(row_set))}; and {operators}.")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
