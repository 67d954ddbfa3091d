"""Drives ClickHouse (chdb): states of ``groupBitmap`` in batch files. See the README beside this file.

Contains no codec of its own: every byte is written, and every value read, by ClickHouse.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import chdb


def cases(path: str, width: int) -> Iterator[bytes]:
    """Yield the cases of a batch file, whose items have a width in bytes."""
    data = Path(path).read_bytes()
    (count,) = struct.unpack_from(">i", data)
    at = 4
    for _ in range(count):
        (size,) = struct.unpack_from(">i", data, at)
        yield data[at + 4 : at + 4 + width * size]
        at += 4 + width * size


def ask(query: str) -> str:
    return str(chdb.query(query, "TSV")).strip()


def encode(bits: str, source: str, result: str) -> None:
    out = []
    for case in cases(source, 8):
        values = ",".join(str(value) for (value,) in struct.iter_unpack(">q", case))
        rows = f"SELECT arrayJoin(CAST([{values}], 'Array(UInt{bits})')) AS value"
        data = bytes.fromhex(ask(f"SELECT hex(groupBitmapState(value)) FROM ({rows})"))
        out.append(struct.pack(">i", len(data)) + data)
    Path(result).write_bytes(struct.pack(">i", len(out)) + b"".join(out))


def decode(bits: str, source: str, result: str) -> None:
    out = []
    for case in cases(source, 1):
        state = f"CAST(unhex('{case.hex()}'), 'AggregateFunction(groupBitmap, UInt{bits})')"
        try:
            count, values = ask(f"SELECT bitmapCardinality({state}), bitmapToArray({state})").split("\t")
        except Exception as err:  # noqa: BLE001  (what it refuses is data)
            message = f"{type(err).__name__}: {err}".encode()
            out.append(struct.pack(">Bi", 0, len(message)) + message)
            continue
        found = sorted(json.loads(values))
        out.append(struct.pack(f">Bqi{len(found)}q", 1, int(count), len(found), *found))
    Path(result).write_bytes(struct.pack(">i", len(out)) + b"".join(out))


COMMANDS = {"encode": encode, "decode": decode}

if __name__ == "__main__":
    if sys.argv[1] == "versions":
        print(json.dumps({"chdb": chdb.__version__, "ClickHouse": ask("SELECT version()")}))
    else:
        COMMANDS[sys.argv[1]](*sys.argv[2:])
