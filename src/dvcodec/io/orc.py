"""ORC files as Arrow batches, parsed in another process.

pyarrow's C++ reader crashes on some corrupt files, and others make it allocate without bound; see `workers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dvcodec.core.errors import LimitExceeded, NotCanonical, UsageError
from dvcodec.core.extras import pa, require_extra
from dvcodec.io.source import Source
from dvcodec.io.worker_program import BATCH
from dvcodec.io.workers import Kind, Worker, borrowed

ORC = Kind(
    "orc",
    "ORC",
    "an ORC stripe",
    memory=3 << 30,
    seconds=60.0,
    environment={"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
)


class OrcFile:
    """An ORC file that a worker has opened.

    Attributes:
        rows: row count in its footer.
        schema: its columns.
    """

    def __init__(self, worker: Worker, source: Source) -> None:
        self._worker = worker
        self._name = source.name
        self._reading = object()
        if source.size > ORC.memory:  # the worker holds it
            expected = f"a file of at most {ORC.memory} bytes"
            raise LimitExceeded("memory to decode ORC", source=source.name, expected=expected, actual=source.size)
        worker.send({"do": "open"})
        worker.send_file(source)
        answer = self._answer()
        self.rows = int.from_bytes(answer[1:9], "little")
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(answer[9:]))
        try:
            self.schema.names  # noqa: B018  (decoded)
        except UnicodeDecodeError as err:
            what = "column name in the ORC file"
            raise NotCanonical(what, source=self._name, expected="UTF-8", actual=err.reason) from None

    def batches(
        self, columns: Sequence[str], batch_rows: int = 1 << 16, *, dictionary: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order; each batch is decoded when it is asked for.

        Args:
            columns: names, in this order; empty = all.
            batch_rows: maximum rows in a batch, fewer if they take more than a few megabytes. No batch is empty.
            dictionary: column of strings to yield as a dictionary.

        Raises:
            NotCanonical: the file is corrupt.
            LimitExceeded: decoding it takes more memory or time than a worker has.
        """
        self._worker.send({"do": "read", "columns": list(columns), "rows": batch_rows, "dictionary": dictionary})
        self._answer()
        rows, self._reading = 0, (reading := object())
        while rows <= self.rows:
            if self._reading is not reading:
                raise UsageError(f"{self._name}: its batches are read again: the earlier iterator ends")
            self._worker.send({"do": "next"})
            answer = self._answer()
            if answer[:1] != BATCH:
                break
            with pa.ipc.open_stream(pa.py_buffer(answer[1:])) as stream:
                for batch in stream:
                    rows += batch.num_rows
                    if rows > self.rows:
                        break
                    yield batch.select(list(columns)) if columns else batch
        if rows != self.rows:
            stated, found = f"{self.rows} rows", f"{rows} rows in stripes"
            raise NotCanonical("ORC file", source=self._name, expected=stated, actual=found)

    def _answer(self) -> memoryview:
        return self._worker.answer("ORC file", self._name, "valid stripes")


class open_orc:  # noqa: N801  (used as a function)
    """Open an ORC file for the time of a ``with`` block.

    Args:
        source: the file.

    Raises:
        MissingExtra: pyarrow is not installed.
        NotCanonical: the file is corrupt.
        LimitExceeded: see `OrcFile.batches`.
    """

    def __init__(self, source: Source) -> None:
        require_extra("pyarrow.orc", "tables")
        self._source = source
        self._worker = borrowed(ORC)

    def __enter__(self) -> OrcFile:
        worker = self._worker.__enter__()
        try:
            return OrcFile(worker, self._source)
        except BaseException as err:
            self.__exit__(type(err))
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._worker.__exit__(kind)
