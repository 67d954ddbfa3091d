"""Commits: a JSON object in each line; many data files that are added one after another, in columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from dvcodec.core.extras import pa
from dvcodec.core.json_text import parse_json
from dvcodec.delta import MEMBERS
from dvcodec.tables.delta.checkpoint import Actions, Columns
from dvcodec.tables.delta.log import actions_in, lines_of
from dvcodec.tables.metadata.json_fields import JsonFields

_LEAST, _MOST = 64, 1 << 12
"""Lines that become columns together."""
_ADD = re.compile(r'\{ ?"add": ?\{')


def commit_actions(data: bytes, source: str) -> Iterator[Actions]:
    """Return the actions of a commit in order; other entries are ignored.

    Args:
        data: the commit.
        source: its file, for errors.

    Raises:
        NotCanonical: a line is not a JSON object.
    """
    lines, number = lines_of(data, source), 1
    while batch := list(islice(lines, _MOST)):
        for is_add, group in groupby(batch, lambda line: _ADD.match(line) is not None):
            some = list(group)
            columns = _added(some, source, number) if is_add and len(some) >= _LEAST else None
            if columns is None:
                yield from ([action] for action in actions_in(some, source, number))
            else:
                yield columns
            number += len(some)


class _Added(Columns):
    """Data files that a commit adds; their lines are parsed again when they are looked at."""

    def __init__(self, column: pa.StructArray, source: str, lines: Sequence[str], first: int) -> None:
        super().__init__(column, "add", first, source)
        self._lines = lines

    def __getitem__(self, number: int) -> JsonFields:
        where = f"{self._location}, line {self._start + number}"
        return JsonFields.of(parse_json(self._lines[number], where, "action")["add"], where, "add")


_REQUIRED = ("modificationTime", "dataChange")
_VECTOR = {name: kind for name, _, kind in MEMBERS}


def _added(lines: Sequence[str], source: str, first: int) -> Columns | None:
    """Return the actions in lines as columns; None if one of them is anything but an `add` as engines write it.

    `ActionChecks` finds nothing in such actions, and `AddFile.parse` nothing wrong with them; see `Columns`.
    """
    try:
        records = [json.loads(line) for line in lines]
        files: list[dict[str, Any]] = [record["add"] for record in records if len(record) == 1]
        if len(files) < len(lines) or any("stats_parsed" in file for file in files):
            return None
        if any(file[name] is None for file in files for name in _REQUIRED):
            return None
        names = ["path", "partitionValues", "size", "stats"]
        columns = [
            _array([file["path"] for file in files], str),
            pa.array([list(file["partitionValues"].items()) for file in files], pa.map_(pa.string(), pa.string())),
            _array([file["size"] for file in files], int),
            _array([file.get("stats") for file in files], str),
        ]
        vectors = [file.get("deletionVector") for file in files]
        if any(vector is not None for vector in vectors):
            names.append("deletionVector")
            columns.append(_vectors(vectors))
    except (pa.ArrowException, AttributeError, LookupError, RecursionError, TypeError, ValueError, OverflowError):
        return None  # each of them says so
    found = _Added(pa.StructArray.from_arrays(columns, names), source, lines, first)
    return found if found.are_usual else None


def _vectors(vectors: Sequence[Mapping[str, Any] | None]) -> pa.StructArray:
    """Return descriptors; one without values stands for none."""
    there = [{} if vector is None else vector for vector in vectors]
    if any(vector.keys() - _VECTOR.keys() for vector in there):
        raise ValueError("a member that the specification does not have")
    members = [_array([vector.get(name) for vector in there], kind) for name, kind in _VECTOR.items()]
    return pa.StructArray.from_arrays(members, list(_VECTOR))


def _array(values: Sequence[Any], kind: type) -> pa.Array:
    """Return values, each of a type or none: pyarrow takes truth values and fractions for integers."""
    if not {type(value) for value in values} <= {kind, type(None)}:
        raise TypeError(kind)
    return pa.array(values, pa.string() if kind is str else pa.int64())
