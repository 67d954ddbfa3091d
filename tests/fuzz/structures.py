"""Changes files as their formats allow it: Parquet footers field by field, JSON value by value, others by `mend`."""

from __future__ import annotations

import json
import random
from typing import Any

from fuzz import mend
from fuzz.target import Mutate, overwrite
from samples import parquet_footer


def parquet(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change the footer of a Parquet file, field by field, or its pages."""
    size = int.from_bytes(data[-8:-4], "little")
    if rng.random() < 0.3 or not 0 < size <= len(data) - 12:
        body = len(data) - 8 - size if 0 < size <= len(data) - 8 else len(data)
        return overwrite(data[:body], rng) + data[body:]
    try:
        footer, _ = parquet_footer._read(data[-8 - size : -8], 0, 12)
        _edit(footer, rng)
        written = parquet_footer._write(12, footer)
    except (IndexError, KeyError, RecursionError, TypeError, ValueError):
        return mutate(data, len(data))
    return data[: -8 - size] + written + len(written).to_bytes(4, "little") + b"PAR1"


def _edit(tree: Any, rng: random.Random) -> None:
    """Change one thing in a tree of Thrift: a number, bytes, or how often a list has an item."""
    for _ in range(40):
        number = rng.choice(sorted(tree))
        kind, value = tree[number]
        if kind == 12 and value:
            tree = value
        elif kind == 9 and value[1]:
            if rng.random() < 0.3:
                at = rng.randrange(len(value[1]))
                value[1][at:at] = [value[1][at]] * rng.choice((1, 2, 10, 100, 1000))
                return
            item = rng.choice(value[1])
            if not isinstance(item, dict) or not item:
                return
            tree = item
        elif kind in (4, 5, 6):
            tree[number] = (
                kind,
                rng.choice((0, 1, value + 1, value * 2, value * 1000, 2**31 - 1, 2**40, rng.randrange(100))),
            )
            return
        elif kind == 8:
            tree[number] = kind, bytes(value) * rng.choice((0, 2, 100, 1000))
            return


def position_deletes(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Those in Parquet; the first two bytes say what they are."""
    return data[:2] + parquet(data[2:], rng, mutate) if data[1:2] == b"\0" else mutate(data, len(data))


def json_lines(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change one value of a JSON text, or of one of its lines."""
    lines = data.splitlines()
    if len(lines) > 1 and not all(line.startswith(b"{") for line in lines):
        lines = [data]
    if not lines:
        return mutate(data, len(data) + 16)
    at = rng.randrange(len(lines))
    try:
        lines[at] = json.dumps(_changed(json.loads(lines[at]), rng)).encode()
    except (ValueError, RecursionError):
        return mutate(data, len(data) + 16)
    return b"\n".join(lines)


def _changed(value: Any, rng: random.Random) -> Any:
    """A value with one value in it changed, doubled or gone."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(keys)
        what = rng.randrange(8)
        if what == 0:
            del value[key]
        elif what == 1 and isinstance(value, list):
            value.insert(key, value[key])
        elif what == 1:
            value[rng.choice(list(value))] = value[key]
        else:
            value[key] = _changed(value[key], rng)
        return value
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.6:
        return rng.choice((0, 1, -1, value + 1, value - 1, 2 * value, 2**31 - 1, 2**31, 2**63 - 1, 2**63))
    if isinstance(value, str) and value and rng.random() < 0.6:
        if value[0] in "{[":  # JSON in a string: schemas and statistics
            return json_lines(value.encode(), rng, lambda data, _: data[1:]).decode(errors="replace")
        at = rng.randrange(len(value))
        return value[:at] + rng.choice(("", "0", "/", "..", "%", "\0", "\u00e9", value)) + value[at + 1 :]
    return rng.choice((None, True, 0, -1, 2**63, 1.5, "", "a", "1", [], {}, [value], {"a": value}))


def file_of_table(name: str, data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change a file by what it is, which its name and its first bytes say, with checksums and lengths that fit."""
    suffix = name.rpartition(".")[2] if "." in name else ""
    if suffix == "parquet":
        return parquet(data, rng, mutate)
    if suffix == "manifest":
        return mend.lance_manifest(data, rng, mutate)
    if suffix == "txn":
        return mend.message(data, rng, mutate)
    if data.startswith(b"Obj\1"):
        return mend.avro_records(data, rng, mutate)
    if data[:1] == b"{":
        return json_lines(data, rng, mutate)
    repair = _REPAIRS.get(suffix)
    if repair is None and data[:1] == b"\1":  # frames: Delta's, and Paimon's, which have no suffix
        repair = mend.frames
    changed = overwrite(data, rng) if rng.random() < 0.7 or suffix in _ADDRESSED else mutate(data, len(data) + 16)
    return changed if repair is None else repair(changed)


_REPAIRS = {"puffin": mend.puffin, "zap": mend.segment, "bolt": mend.bolt}
_ADDRESSED = ("zap", "bolt", "arrow")
"""What is found by addresses stays where it is."""
