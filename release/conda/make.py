"""Writes the recipe for conda-forge from pyproject.toml: `python release/conda/make.py [SDIST]`, Python 3.11 or newer.

With the sdist of a release, the recipe has its hash; the one under version control has zeros. It takes the sdist from
`make release-build`; whoever submits it to conda-forge puts the address of the published one there.
"""

from __future__ import annotations

import hashlib
import re
import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECIPE = Path(__file__).parent / "recipe.yaml"
NAMES = {"duckdb": "python-duckdb", "isal": "python-isal"}
"""Packages that conda-forge names otherwise."""
FORM = """\
# Made from pyproject.toml by release/conda/make.py.
schema_version: 1

context:
  version: "{version}"

package:
  name: dvcodec
  version: ${{{{ version }}}}

source:
  path: ../../build/release/dvcodec-${{{{ version }}}}.tar.gz
  sha256: "{sha256}"

build:
  number: 0
  noarch: python
  script: ${{{{ PYTHON }}}} -m pip install . -vv --no-deps --no-build-isolation
  python:
    entry_points:
{entry_points}

requirements:
  host:
    - python ${{{{ python_min }}}}.*
    - pip
{host}
  run:
    - python >=${{{{ python_min }}}}
{run}
  # What the extras need; none of it is installed by itself.
  run_constraints:
{constraints}

tests:
  - python:
      imports: [dvcodec, dvcodec.iceberg, dvcodec.delta, dvcodec.paimon, dvcodec.lance]
      pip_check: true
      python_version: ${{{{ python_min }}}}.*

about:
  summary: "{summary}"
  license: {license}
  license_file: LICENSE
"""


def recipe(project: dict[str, Any], build: list[str], version: str, sha256: str) -> str:
    """Return the text of the recipe.

    Args:
        project: the table `project` of pyproject.toml.
        build: what building requires.
        version: of the release.
        sha256: of its sdist, in hexadecimal.
    """
    stated = {conda_name(one) for extra in project["optional-dependencies"].values() for one in extra}
    optional: dict[str, str] = {}
    for one in sorted(stated, key=len):  # two extras may ask for a package; the wider range is enough for one of them
        optional.setdefault(one.partition(" ")[0], one)
    return FORM.format(
        version=version,
        sha256=sha256,
        entry_points=_items((f"{name} = {where}" for name, where in project["scripts"].items()), 6),
        host=_items(map(conda_name, build)),
        run=_items(map(conda_name, project["dependencies"])),
        constraints=_items(one for name, one in sorted(optional.items()) if name != "dvcodec"),
        summary=project["description"],
        license=project["license"],
    )


def conda_name(requirement: str) -> str:
    """Return a requirement as conda spells it: without extras and markers, its name as on conda-forge."""
    found = re.fullmatch(r"([\w-]+)(?:\[[\w,-]+\])?([^;]*)(?:;.*)?", requirement)
    assert found, requirement
    return f"{NAMES.get(found[1], found[1])} {found[2].strip()}".strip()


def _items(items: Any, margin: int = 4) -> str:
    return "\n".join(f"{' ' * margin}- {one}" for one in items)


def made(sdist: Path | None = None) -> str:
    """Return the recipe of this checkout."""
    found = import_module("tomllib").loads((ROOT / "pyproject.toml").read_text())
    version = runpy.run_path(str(ROOT / "src" / "dvcodec" / "_version.py"))["__version__"]
    sha256 = hashlib.sha256(sdist.read_bytes()).hexdigest() if sdist else "0" * 64
    return recipe(found["project"], found["build-system"]["requires"], version, sha256)


if __name__ == "__main__":
    text = made(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    RECIPE.write_text(text)
