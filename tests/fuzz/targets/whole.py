"""Small tables of every kind: one file is changed by its structure, and the table is audited and its history read."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from dvcodec import DecodeError
from dvcodec.io import Storage
from dvcodec.io.parquet import column_chunks
from dvcodec.tables import TableKind, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.rows.data_file import open_parquet
from dvcodec.tables.snapshots.changes import history
from fuzz import structures
from fuzz.seeds import VECTORS, files
from fuzz.target import Mutate, Target, held

MOST_BYTES = {"scorch": 66_000}
"""Of a file that is changed; a ``root.bolt`` has at least 16 pages."""
DEFAULT_BYTES = 16_000
METADATA = (".json", ".avro", ".manifest", ".parquet", ".puffin", ".bin", ".arrow", ".bolt", ".zap", ".txn", ".orc")
SIGNS = ("_delta_log", "_versions", "snapshot", "metadata", "root.bolt")
"""One of these is in the folder of a table."""
TABLES = 3
"""Of each kind, the smallest."""
LAST = 3
"""Snapshots whose history is read."""
WHOLE_HISTORY = 8
"""One input in so many has the history of all snapshots read."""
ANOTHER = 0.05
"""How often an input becomes another file of the tables, which is then changed."""


class Tables:
    """Copies of the smallest tables of a kind; an input is a number of one of their files, and its contents."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.most_bytes = MOST_BYTES.get(kind, DEFAULT_BYTES)

    @cached_property
    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="cost-"))

    @cached_property
    def _whole(self) -> dict[Path, bytes]:
        found = {path.parent for sign in SIGNS for path in (VECTORS / "tables" / self._kind).rglob(sign)}
        sizes = {root: sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) for root in found}
        for i, root in enumerate(sorted(found, key=lambda root: (sizes[root], root))[:TABLES]):
            shutil.copytree(root, self._folder / str(i))
        names = sorted(file for file in self._folder.rglob("*") if file.is_file() and _is_metadata(file))
        return {file: file.read_bytes() for file in names if file.stat().st_size < self.most_bytes}

    @cached_property
    def _files(self) -> list[Path]:
        return list(self._whole)[:256]

    def _file(self, data: bytes) -> Path:
        return self._files[data[0] % len(self._files)] if data else self._files[0]

    def run(self, data: bytes) -> None:
        file = self._file(data)
        file.write_bytes(data[1:])
        try:
            table = open_table(self._folder / file.relative_to(self._folder).parts[0])
            infos = table.snapshots()
            if not infos and table.kind is TableKind.SCORCH:  # nothing is committed yet: there is nothing to audit
                return
            audit(table, threads=1)
            since = None if len(data) % WHOLE_HISTORY == 0 or len(infos) < LAST else infos[-LAST].id
            for _ in history(table, since=since, threads=1):
                pass
        except OSError as error:  # metadata names another file
            raise DecodeError(f"a file that cannot be opened: {error}") from error
        finally:
            file.write_bytes(self._whole[file])

    def mutate(self, data: bytes, rng: random.Random, change: Mutate) -> bytes:
        if rng.random() < ANOTHER:
            number = rng.randrange(len(self._files))
            data = bytes([number]) + self._whole[self._files[number]]
        return data[:1] + structures.file_of_table(self._file(data).name, data[1:], rng, change)

    def seeds(self) -> Iterator[bytes]:
        """Yield one file of each folder and suffix in each table: an execution takes up to a second."""
        alike = {(file.parent, file.suffix): i for i, file in enumerate(self._files)}
        for i in alike.values():
            yield bytes([i]) + self._whole[self._files[i]]


def _is_metadata(file: Path) -> bool:
    return file.suffix in METADATA or "." not in file.name


def _table(kind: str) -> Target:
    tables = Tables(kind)
    about = f"a small {kind} table, audited, and its history"
    return Target(f"table-{kind}", about, tables.run, tables.seeds, mutate=tables.mutate, max_len=tables.most_bytes)


def _run_footer(data: bytes) -> None:
    with held({"/t/d": data}), open_parquet("/t/d", Storage()) as file:
        paths = [tuple(file.schema.column(i).path.split(".")) for i in range(len(file.schema))]
        for chunks in column_chunks(file, paths).values():
            assert len(chunks) == file.num_row_groups


def _footers() -> Iterator[bytes]:
    return iter(files("tables/**/*.parquet", most=8000, count=20))


TARGETS = (
    Target(
        "parquet-footer",
        "the footer of a Parquet file, and what it says of columns",
        _run_footer,
        _footers,
        mutate=structures.parquet,
        max_len=8192,
        keeps_size=True,
    ),
    *(_table(kind) for kind in ("iceberg", "delta", "paimon", "lance", "scorch")),
)
