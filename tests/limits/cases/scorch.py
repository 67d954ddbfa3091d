"""The bolt file at the root of a scorch index."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from dvcodec.io import open_source
from dvcodec.tables.scorch.bolt import read_bolt
from limits.making import cases, large, large_file, limit
from samples.bolt import Bolt


def bolt(change: Callable[[Bolt], None] = lambda _: None, **entries: Any) -> bytes:
    made = Bolt({name.encode(): value for name, value in entries.items()} or {b"s": {b"a": {b"b": b"c"}}})
    change(made)
    return made.data()


def put(form: str, at: int, *values: int) -> Callable[[Bolt], None]:
    """Overwrite a part of the root's page."""
    return lambda made: struct.pack_into(form, made.pages[made.root], at, *values)


def read_root(root: str | bytes) -> None:
    with open_source(root) as source:
        read_bolt(source)


CASES = [
    *cases(
        "scorch root",
        read_root,
        {
            "count of elements": lambda: bolt(put("<H", 10, 65535)),
            "page beyond the file": lambda: bolt(lambda made: setattr(made, "root", 2**62)),
            "page in itself": lambda: bolt(put("<HHI", 8, 1, 1, 0), s=b"x" * 100),
        },
    ),
    large_file("scorch root", read_root, lambda: large(bolt(), "root.bolt"), limit("max_metadata_bytes")),
]
