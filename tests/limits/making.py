"""How a case is made: of a decoder and its inputs, with the bound that refuses it, of a large file, of a whole table.

A case is built first, without limits, and gives a function that decodes; see `attack.py`, which runs it. The cases of a
format are in its module of `cases`; bytes that any format may have to face are in `hostile.py`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from battery import lowered
from dvcodec import Limits, NotCanonical
from dvcodec.tables import open_table
from samples.bombs import BOMB, MEGA

Run = Callable[[], object]
Inputs = dict[str, Callable[[], bytes]]
CASES: dict[str, Callable[[], Run]] = {}
BOUNDS: dict[str, str] = {}
"""Case -> how the error begins that has to refuse it, a pattern: what bounds it is one of `Limits`, and not the cap."""
MEMORY: dict[str, str] = {}
"""Cases that the default limits allow and 256 MB do not -> why: they end in an error of ours, and not in a crash."""
ACCEPTED: dict[str, str] = {}
"""Cases that end in a value, soon and in little memory -> why."""
VECTORS_OF = Path(__file__).parent.parent / "vectors"
SMALL = Limits(
    max_vector_bytes=32 * MEGA, max_blob_bytes=32 * MEGA, max_manifest_bytes=32 * MEGA, max_footer_bytes=4 * MEGA
)
"""Well below the cap: what goes by them has room to answer."""


def case(name: str, build: Callable[[], Run]) -> None:
    """Register a case; no two have the same name."""
    assert name not in CASES, name
    CASES[name] = build


def cases(name: str, decode: Callable[[bytes], object], **inputs: Callable[[], bytes]) -> None:
    """Register cases of one decoder."""
    for what, make in inputs.items():

        def built(make: Callable[[], bytes] = make) -> Run:
            data = make()
            return lambda: decode(data)

        case(f"{name}: {what.replace('_', ' ')}", built)


def limit(name: str, most: int | None = None) -> str:
    """How an error begins that says which of `Limits` was met; by default `SMALL`."""
    value = getattr(SMALL, name) if most is None else most
    return rf"LimitExceeded: .*Limits\.{name}: expected at most {value}\b"


def bounded(name: str, by: str, decode: Callable[[bytes], object], **inputs: Callable[[], bytes]) -> None:
    """Register cases that a bound has to refuse, and nothing else."""
    cases(name, decode, **inputs)
    BOUNDS.update({f"{name}: {what.replace('_', ' ')}": by for what in inputs})


def by_path(name: str, read: Callable[[str], object]) -> Callable[[bytes], object]:
    """A decoder of a file of that name that takes no limits: the default ones are lowered."""

    def decode(data: bytes) -> object:
        path = saved(data, name)
        with lowered(SMALL):
            return read(path)

    return decode


def drained(values: Any) -> int:
    return sum(1 for _ in values)


def refuse(found: object) -> None:
    """A verifier that finds nothing wrong accepts."""
    if not found:
        what = "finding"
        raise NotCanonical(what)


def saved(data: bytes, name: str) -> str:
    """The path of a file of these bytes."""
    path = Path(tempfile.mkdtemp()) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return str(path)


def large(head: bytes, name: str, *, tail: bytes = b"") -> str:
    """The path of a file with a hole in it, larger than the cap."""
    path = saved(head, name)
    os.truncate(path, BOMB)
    with open(path, "ab") as file:  # noqa: PTH123  (what `Path.open` is too)
        file.write(tail)
    return path


def large_file(name: str, by: str, read: Callable[[str], object], path: Callable[[], str]) -> None:
    """Register a reader of a file that is larger than it may be: no more is read of it than tells that."""

    def built() -> Run:
        place = path()

        def run() -> None:
            with lowered(SMALL):
                read(place)

        return run

    case(f"large file: {name}", built)
    BOUNDS[f"large file: {name}"] = by


def table_of(**files: bytes) -> Run:
    folder = Path(tempfile.mkdtemp())
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def use() -> None:
        open_table(folder).snapshot()

    return use


def tables(kind: str, files: Callable[[bytes], dict[str, bytes]], inputs: Inputs) -> None:
    """Register whole tables of one hostile file."""
    for what, make in inputs.items():
        case(f"{kind} table: {what.replace('_', ' ')}", lambda make=make: table_of(**files(make())))  # type: ignore[misc]
