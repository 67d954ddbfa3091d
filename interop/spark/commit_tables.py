"""Commit deletion vectors that are there already, by the engines' own libraries, and read the tables.

    commit_tables.py FOLDER

Takes commands as lines of JSON, ``{"op": NAME, ...arguments}``, and answers each with a line, ``{"result": VALUE}`` or
``{"error": TEXT}``. Nothing here writes a deletion vector: the engines do, where they are asked to delete rows.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import commit_delta
import commit_iceberg
import commit_paimon
from common import Place
from make_tables import make, session


def make_tables(place: Place, only: dict[str, list[str]]) -> None:
    """Make tables of some engines by their names, in a session of their own, as its settings change."""
    for engine, names in only.items():
        make(replace(place, spark=place.spark.newSession(), only=frozenset(names)), [engine])


ENGINES: dict[str, dict[str, Callable[..., Any]]] = {
    "iceberg": commit_iceberg.COMMANDS,
    "delta": commit_delta.COMMANDS,
    "paimon": commit_paimon.COMMANDS,
    "tables": {"make": make_tables},
}


def main(folder: Path) -> None:
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # output of Spark is not an answer
        place = Place(session(folder), folder)
        for line in sys.stdin:
            command = json.loads(line)
            engine, _, name = command.pop("op").partition("-")
            try:
                answer = {"result": ENGINES[engine][name](place, **command)}
            except Exception as err:  # noqa: BLE001  (whatever an engine says: the next command has its turn)
                answer = {"error": f"{type(err).__name__}: {err}"}
            print(json.dumps(answer), file=answers, flush=True)
        place.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
