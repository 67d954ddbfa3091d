"""The process that parses ORC files for `orc`: pyarrow's C++ reader crashes on some corrupt files.

It runs as a program of its own and imports nothing of dvcodec. Messages in both directions are a length (u64, little
endian) and that many bytes: a command in JSON and for ``open`` the file, or an answer, whose first byte is its kind.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO

SCHEMA, BATCH, END, ERROR, MEMORY = b"S", b"B", b"D", b"E", b"M"
"""Kinds of answers: row count (u64) and Arrow schema; record batch; nothing more; error as text; too little memory."""


def receive(stream: BinaryIO) -> bytes | None:
    """Return the next message, None at the end of the stream."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    return data if len(data) == size else None


def send(stream: BinaryIO, *parts: Any) -> None:
    """Send a message in parts."""
    stream.write(sum(len(part) for part in parts).to_bytes(8, "little"))
    stream.writelines(parts)
    stream.flush()


def serve(reading: BinaryIO, writing: BinaryIO) -> None:
    """Answer commands until the other end closes."""
    import pyarrow as pa  # noqa: PLC0415  (once `sys.path` is set)
    from pyarrow import orc  # noqa: PLC0415

    file: Any = None
    batches: Any = iter(())
    while (command := receive(reading)) is not None:
        given = json.loads(command)
        try:
            if given["do"] == "open":
                data = receive(reading)
                file = orc.ORCFile(pa.BufferReader(data))
                send(writing, SCHEMA, file.nrows.to_bytes(8, "little"), file.schema.serialize())
            elif given["do"] == "read":
                batches = _batches(file, given["columns"], given["rows"])
                send(writing, END)
            else:
                batch = next(batches, None)
                if batch is None:
                    file, batches = None, iter(())
                    send(writing, END)
                else:
                    sink = pa.BufferOutputStream()
                    with pa.ipc.new_stream(sink, batch.schema) as stream:
                        stream.write_batch(batch)
                    send(writing, BATCH, sink.getvalue())
        except (MemoryError, pa.ArrowMemoryError):
            send(writing, MEMORY)
        except Exception as err:  # noqa: BLE001  (whatever pyarrow raises for a corrupt file)
            send(writing, ERROR, str(err).partition("\n")[0].encode(errors="replace"))


def _batches(file: Any, columns: list[str], most: int) -> Any:
    for stripe in range(file.nstripes):
        rows = file.read_stripe(stripe, columns=columns or None)
        for start in range(0, rows.num_rows, most):
            yield rows.slice(start, most)


def main(path: list[str], memory: int) -> None:
    """Serve on standard input and output.

    Args:
        path: ``sys.path`` of the process that started this one.
        memory: bytes of address space, where the system can limit it.
    """
    sys.path[:] = path
    reading, writing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is not an answer
    try:
        import resource  # noqa: PLC0415  (not on Windows)

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):  # not on this system: the timer is left
        pass
    with writing:
        serve(reading, writing)
