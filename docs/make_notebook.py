"""Runs docs/notebook.ipynb, and keeps in it what the cells show: `make docs`."""

from __future__ import annotations

import ast
import io
import json
import os
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent / "notebook.ipynb"


def outputs(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Run the code of a notebook in the current folder, and return what each cell shows.

    A cell is Python without magics; what it shows is what it prints, and the value of its last line.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [_run("".join(cell["source"]), number, names) for number, cell in enumerate(cells, 1)]


def _run(source: str, number: int, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102
        value = eval(compile(last, "cell", "eval"), names) if last else None  # noqa: S307
    found = (
        [{"name": "stdout", "output_type": "stream", "text": lines}] if (lines := _lines(printed.getvalue())) else []
    )
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        found.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Run the notebook in an empty folder, and write it with what its cells show."""
    notebook = json.loads(NOTEBOOK.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, (cell, shown) in enumerate(zip(cells, outputs(notebook), strict=True), 1):
            cell |= {"execution_count": number, "outputs": shown}
        os.chdir(sys.path[0])
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
