"""The process that parses ORC files for `orc`: pyarrow's C++ reader crashes on some corrupt files.

It runs as a program of its own and imports nothing of dvcodec. Messages in both directions are a length (u64, little
endian) and that many bytes: a command in JSON and for ``open`` the file, or an answer, whose first byte is its kind.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

SCHEMA, BATCH, END, ERROR, MEMORY = b"S", b"B", b"D", b"E", b"M"
"""Kinds of answers: row count (u64) and Arrow schema; record batch; nothing more; error as text; too little memory."""
BATCH_BYTES = 4 << 20
"""Most bytes of a batch that is sent, unless one row has more."""
_DECODED_ROWS = 4096
"""Rows decoded at a time: a stripe of kilobytes may unpack to gigabytes, where each row repeats a large value."""


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

    data: Any = None
    batches: Any = iter(())
    _warm_up()
    while (command := receive(reading)) is not None:
        given = json.loads(command)
        try:
            if given["do"] == "open":
                data = receive(reading)
                _limit(given["memory"])
                file = orc.ORCFile(pa.BufferReader(data))
                send(writing, SCHEMA, file.nrows.to_bytes(8, "little"), file.schema.serialize())
            elif given["do"] == "read":
                batches = _batches(pa.py_buffer(data), given["columns"], given["rows"], given["dictionary"])
                send(writing, END)
            else:
                batch = next(batches, None)
                if batch is None:
                    data, batches = None, iter(())
                    send(writing, END)
                else:
                    sink = pa.BufferOutputStream()
                    with pa.ipc.new_stream(sink, batch.schema) as stream:
                        stream.write_batch(batch)
                    send(writing, BATCH, sink.getvalue())
        except (MemoryError, pa.ArrowMemoryError):
            send(writing, MEMORY)
        except Exception as err:  # noqa: BLE001  (whatever pyarrow raises for a corrupt file)
            if "std::bad_alloc" in str(err):  # of ORC's own reader, which pyarrow calls an unknown error
                send(writing, MEMORY)
            else:
                send(writing, ERROR, str(err).partition("\n")[0].encode(errors="replace"))


def _batches(data: Any, columns: list[str], most: int, dictionary: str | None) -> Iterator[Any]:
    """Yield batches of at most `most` rows, and of at most `BATCH_BYTES` if they have several rows.

    Args:
        data: the file, a buffer.
        columns: names; empty = all.
        most: rows.
        dictionary: column of strings that is sent as a dictionary.
    """
    import pyarrow as pa  # noqa: PLC0415

    def joined() -> Iterator[Any]:
        batch = pa.Table.from_batches(waiting).combine_chunks().to_batches()[0] if len(waiting) > 1 else waiting[0]
        return _sliced(batch, most)

    waiting: list[Any] = []
    rows = size = 0
    for decoded in _decoded(data, columns):
        batch = decoded
        if dictionary is not None:
            at = batch.schema.get_field_index(dictionary)
            batch = batch.set_column(at, dictionary, batch.column(at).dictionary_encode())
        if waiting and (rows + batch.num_rows > most or size + batch.nbytes > BATCH_BYTES):
            yield from joined()
            waiting, rows, size = [], 0, 0
        if batch.num_rows:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
    if waiting:
        yield from joined()


def _decoded(data: Any, columns: list[str]) -> Iterator[Any]:
    """Yield what is decoded, a few rows at a time: `ORCFile` itself reads whole stripes."""
    import pyarrow.dataset as ds  # noqa: PLC0415

    scanner = (
        ds.OrcFileFormat()
        .make_fragment(data)
        .scanner(
            columns=columns or None,
            batch_size=_DECODED_ROWS,
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        )
    )
    yield from scanner.to_batches()


def _sliced(batch: Any, most: int) -> Iterator[Any]:
    """Yield a batch in parts that are small enough."""
    if batch.num_rows > most or (batch.num_rows > 1 and batch.nbytes > BATCH_BYTES):
        part = most if batch.num_rows > most else batch.num_rows // 2
        yield from _sliced(batch.slice(0, part), most)
        yield from _sliced(batch.slice(part), most)
    else:
        yield batch


def _warm_up() -> None:
    """Decode a file, which starts Arrow's threads: their stacks are no memory of a file."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import orc  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"": ["a"]}), sink)
    list(_batches(sink.getvalue(), [], 1, None))


def _limit(memory: int | None) -> None:
    """Limit the address space to what is in use plus `memory` bytes, if the system can; None = what `main` set."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415  (not on Windows)

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        soft = most
        if memory is not None:
            with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  (only Linux has it)
                soft = int(file.read().split()[0]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (min(soft, most) if most >= 0 else soft, most))


def main(path: list[str], memory: int) -> None:
    """Serve on standard input and output.

    Args:
        path: ``sys.path`` of the process that started this one.
        memory: bytes of address space, where the system can limit it.
    """
    sys.path[:] = path
    reading, writing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is not an answer
    with suppress(ImportError, OSError, ValueError):  # not on this system: the timer is left
        import resource  # noqa: PLC0415  (not on Windows)

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with writing:
        serve(reading, writing)
