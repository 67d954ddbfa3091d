"""The process that decodes ORC and Lance files for `workers`: their libraries crash on some corrupt files.

It runs as a program of its own and imports nothing of dvcodec. Messages in both directions are a length (u64, little
endian) and that many bytes: a command in JSON, after ``open`` of an ORC file its bytes, or an answer, whose first byte
is its kind.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

SCHEMA, BATCH, END, ERROR, MEMORY, MISSING, SYSTEM = b"S", b"B", b"D", b"E", b"M", b"N", b"O"
"""Kinds of answers: row count (u64) and Arrow schema; record batch; nothing more; error as text; too little memory; no
such fragment, or no such package; error of the system as text."""
BATCH_AT = 8
"""Where a batch begins in its message: Arrow's joins print complaints about buffers that are not aligned."""
BATCH_BYTES = 4 << 20
"""Most bytes of a batch that is sent, unless one row has more."""
_DECODED_ROWS = 4096
"""Rows of ORC decoded at a time: a stripe of kilobytes may unpack to gigabytes, if each row repeats a large value."""
_READAHEAD = 2
"""Batches of Lance to read ahead."""


def receive(stream: BinaryIO) -> bytes | None:
    """Return the next message, None at the end of the stream.

    Raises:
        MemoryError: it does not fit. Its bytes are still in the stream, which is of no further use.
    """
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


class Missing(Exception):
    """A fragment that a version does not have."""


class Orc:
    """An ORC file, whose bytes come with the command."""

    def __init__(self) -> None:
        self._data: Any = None
        _warm_up()

    def open(self, _: dict[str, Any], reading: BinaryIO) -> tuple[int, Any]:
        """Return the row count and the schema of a file."""
        import pyarrow as pa  # noqa: PLC0415  (once `sys.path` is set)
        from pyarrow import orc  # noqa: PLC0415

        self._data = None
        try:
            self._data = receive(reading)
        except MemoryError:
            raise SystemExit(NO_MEMORY) from None  # the rest of the file would be read as commands
        file = orc.ORCFile(pa.BufferReader(self._data))
        return file.nrows, file.schema

    def batches(self, given: dict[str, Any]) -> Iterator[Any]:
        """Return the batches of a file."""
        import pyarrow as pa  # noqa: PLC0415

        return _batches(pa.py_buffer(self._data), given["columns"], given["rows"], given["dictionary"])

    def close(self) -> None:
        """Forget the file."""
        self._data = None


class Lance:
    """A version of a Lance dataset, which its library opens itself, once for all fragments that are read of it."""

    def __init__(self) -> None:
        self._opened: Any = None
        self._dataset: Any = None
        self._schema: Any = None

    def open(self, given: dict[str, Any], _reading: BinaryIO) -> tuple[int, Any]:
        """Return 0 and the schema of a version."""
        if self._opened != given:
            from lance.dataset import LanceDataset  # noqa: PLC0415  (not `lance`: any folder of that name)

            self._opened = None
            self._dataset = LanceDataset(given["location"], version=given["version"], storage_options=given["options"])
            self._schema = self._dataset.scanner(blob_handling="all_binary").projected_schema
            self._opened = given
        return 0, self._schema

    def batches(self, given: dict[str, Any]) -> Iterator[Any]:
        """Return the rows of fragments in order, in batches, with their addresses; null for those that are deleted."""
        fragments = [self._dataset.get_fragment(number) for number in given["fragments"]]
        if None in fragments:
            raise Missing
        scanner = self._dataset.scanner(
            fragments=fragments,
            columns=given["columns"],
            batch_size=given["rows"],
            batch_readahead=_READAHEAD,
            with_row_id=True,
            with_row_address=True,
            include_deleted_rows=True,
            scan_in_order=True,
            blob_handling="all_binary",
        )
        names = [*given["columns"], "_rowaddr"]
        return (batch.select(names) for batch in scanner.to_batches())

    def close(self) -> None:
        """Keep the dataset: the next fragment is often one of the same snapshot."""


NO_MEMORY = 3
"""Exit code: a file did not fit."""
_DECODERS = {"orc": Orc, "lance": Lance}


def serve(reading: BinaryIO, writing: BinaryIO, kind: str) -> None:
    """Answer commands until the other end closes: ``open``, ``read``, ``next`` until the end, and ``close``.

    Args:
        reading: commands.
        writing: answers; ``close`` has none.
        kind: ``orc`` or ``lance``.
    """
    import pyarrow as pa  # noqa: PLC0415

    decoder: Any = _DECODERS[kind]()
    batches: Iterator[Any] = iter(())
    while (command := receive(reading)) is not None:
        given = json.loads(command)
        try:
            if given["do"] == "open":
                rows, schema = decoder.open(given, reading)
                send(writing, SCHEMA, rows.to_bytes(8, "little"), schema.serialize())
            elif given["do"] == "read":
                batches = decoder.batches(given)
                send(writing, END)
            elif given["do"] == "close":
                batches = iter(())
                decoder.close()
            else:
                batch = next(batches, None)
                if batch is None:
                    send(writing, END)
                else:
                    sink = pa.BufferOutputStream()
                    with pa.ipc.new_stream(sink, batch.schema) as stream:
                        stream.write_batch(batch)
                    del batch
                    send(writing, BATCH.ljust(BATCH_AT, b"\0"), sink.getvalue())
        except (MemoryError, pa.ArrowMemoryError):
            send(writing, MEMORY)
        except (Missing, ImportError):
            send(writing, MISSING)
        except OSError as err:
            send(writing, SYSTEM, _line(err))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as err:  # noqa: BLE001  (a panic of Rust code is not an Exception)
            if "std::bad_alloc" in str(err):  # of ORC's own reader, which pyarrow calls an unknown error
                send(writing, MEMORY)
            else:
                send(writing, ERROR, _line(err))


def _line(err: BaseException) -> bytes:
    return str(err).partition("\n")[0].encode(errors="replace")


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
    """Decode a file, which starts Arrow's threads: their stacks are not memory of a file."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import orc  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"": ["a"]}), sink)
    list(_batches(sink.getvalue(), [], 1, None))


def main(path: list[str], memory: int, kind: str) -> None:
    """Serve on standard input and output.

    Args:
        path: ``sys.path`` of the process that started this one.
        memory: bytes of address space, where the system can limit it.
        kind: see `serve`.
    """
    sys.path[:] = path
    reading, writing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is not an answer
    with suppress(ImportError, OSError, ValueError):  # not on this system: the timer is left
        import resource  # noqa: PLC0415  (not on Windows)

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with writing:
        serve(reading, writing, kind)
