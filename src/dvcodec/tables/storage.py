"""What lies in a table's folder, against what the metadata says: files that are missing, other, or nobody's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dvcodec.core.errors import DvcodecError, MissingExtra, Unsupported
from dvcodec.io.file_key import file_key
from dvcodec.io.parallel import run_bounded
from dvcodec.io.target import local_path
from dvcodec.tables.findings import Finding, Severity
from dvcodec.tables.folder import StoredFile
from dvcodec.tables.model import DataFile, TableKind
from dvcodec.tables.table import Snapshot, Table

__all__ = ["CountedRows", "check_data_files", "count_data_files", "find_orphans", "list_files"]

_METADATA = {
    TableKind.ICEBERG: ("metadata/",),
    TableKind.DELTA: ("_",),
    TableKind.PAIMON: ("manifest/", "schema/", "snapshot/", "statistics/", "tag/", "branch/", "consumer/", "service/"),
    TableKind.LANCE: ("_versions/", "_transactions/", "_indices/", "_refs/", "tree/"),
    TableKind.SCORCH: ("root.bolt", "index_meta.json"),
}
"""What below a table's folder is metadata, or is kept by other rules than snapshots."""
_VECTOR_NAMES = (".puffin", ".bin", ".arrow")
_DATA_NAMES = (".parquet", ".orc", ".avro", ".lance", ".zap")
_YOUNG_SECONDS = 24 * 60 * 60


def list_files(table: Table) -> dict[str, StoredFile]:
    """List the files below the table's folder, by `file_key` of their location.

    Raises:
        OSError: the folder cannot be listed.
    """
    return {file_key(file.location): file for file in table.stored_files()}


def check_data_files(snapshot: Snapshot, stored: Mapping[str, StoredFile], threads: int) -> Iterator[Finding]:
    """Find data files that are missing or not as large as recorded.

    Files below the table's folder are looked up in its listing; others are opened. Checks: ``missing-data-file``,
    ``data-file-size``, and ``unreadable-data-file`` where a file elsewhere cannot be opened (access denied, say).
    """
    table = snapshot.table

    def size_at(location: str) -> int:
        known = stored.get(file_key(location))
        if known is not None:
            return known.size
        if location.startswith(f"{table.location}/"):
            raise FileNotFoundError(location)
        with table.folder.storage.open(location) as source:
            return source.size

    def size_of(file: DataFile) -> int | DvcodecError | OSError:
        try:
            return sum(map(size_at, _locations(table, file)))
        except (DvcodecError, OSError) as error:
            return error

    for file, actual in zip(snapshot.data_files, run_bounded(size_of, snapshot.data_files, threads), strict=True):
        if isinstance(actual, Exception):
            check, found = "unreadable-data-file", _one_line(actual)
            if isinstance(actual, FileNotFoundError):
                check, found = "missing-data-file", f"no such file: {actual.filename or actual}"
            expected = "a file" if file.size is None else f"a file of {file.size} bytes"
        elif file.size not in (None, actual):
            check, found = "data-file-size", f"{actual} bytes"
            expected = f"{file.size} bytes (metadata)"
        else:
            continue
        yield Finding(
            check,
            Severity.ERROR,
            f"data file {file.path}: expected {expected}, found {found}",
            snapshot.info.id,
            file.path,
            path=file.location,
            expected=expected,
            actual=found,
        )


@dataclass(frozen=True, slots=True)
class CountedRows:
    """What came of counting the rows of data files.

    Attributes:
        findings: ``physical-rows``, ``missing-data-file`` and ``unreadable-data-file``.
        counted: data files whose footer was read.
        passed_over: paths of those of a format that is not known.
    """

    findings: tuple[Finding, ...]
    counted: int
    passed_over: tuple[str, ...]


def count_data_files(snapshot: Snapshot, threads: int, progress: Callable[[int], object]) -> CountedRows:
    """Compare the rows that data files say they have with those that the metadata records.

    Positions of vectors count physical rows: where the two differ, engines that go by the metadata return other rows.

    Args:
        snapshot: whose they are.
        threads: how many are read at a time.
        progress: called with how many are done.

    Raises:
        MissingExtra: what reads the files is not installed.
    """

    def rows_of(file: DataFile) -> int | DvcodecError | OSError | None:
        try:
            return snapshot.stored_rows(file)
        except MissingExtra:
            raise
        except Unsupported:
            return None
        except (DvcodecError, OSError) as error:
            return error

    findings: list[Finding] = []
    passed_over: list[str] = []
    counted = 0
    files = snapshot.data_files
    for done, (file, rows) in enumerate(zip(files, run_bounded(rows_of, files, threads), strict=True), 1):
        progress(done)
        if rows is None:
            passed_over.append(file.path)
            continue
        counted += not isinstance(rows, Exception)
        recorded = file.physical_rows
        if isinstance(rows, FileNotFoundError):
            check, expected, found = "missing-data-file", "a file", "no such file"
        elif isinstance(rows, Exception):
            check, expected, found = "unreadable-data-file", "a readable footer", _one_line(rows)
        elif recorded is None or rows == recorded:
            continue
        else:
            check, expected, found = "physical-rows", f"{recorded} rows (metadata)", f"{rows} rows (its footer)"
        message = f"data file {file.path}: expected {expected}, found {found}"
        findings.append(
            Finding(
                check,
                Severity.ERROR,
                message,
                snapshot.info.id,
                file.path,
                path=file.location,
                expected=expected,
                actual=found,
            )
        )
    return CountedRows(tuple(findings), counted, tuple(passed_over))


def _one_line(error: Exception) -> str:
    """Return the text of an error without line breaks."""
    return " ".join(str(error).split())


def _locations(table: Table, file: DataFile) -> list[str]:
    """Return where the bytes of a data file are: those of a Lance fragment, columns added later, in several files."""
    if table.kind is TableKind.LANCE and "files" in file.record:
        return [table.folder.locate(path) for path in file.record["files"]]
    return [file.location]


def find_orphans(table: Table, stored: Mapping[str, StoredFile], *, now_ms: int | None = None) -> Iterator[Finding]:
    """Find vector and data files that no state of the table needs (``orphan-vector-file``, ``orphan-data-file``).

    Metadata, files whose names begin with a dot, and what engines put beside a table by other rules are left alone.

    Raises:
        DecodeError: the metadata of some state is not sound.
        OSError: it cannot be read.
    """
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    needed = table.referenced()
    keys = set(map(file_key, needed))
    found = [(file, what) for key, file in sorted(stored.items()) if key not in keys and (what := _what(table, file))]
    real = set(map(_real, needed)) if found else set()
    for file, what in found:
        if _real(file.location) in real:
            continue
        age = None if file.modified_ms is None else max(now - file.modified_ms, 0) // 1000
        told = "of unknown age" if age is None else f"{age} seconds old"
        if age is not None and age < _YOUNG_SECONDS:
            told += "; it may belong to a commit that is under way"
        yield Finding(
            f"orphan-{what}-file",
            Severity.INFO,
            f"{file.location}: no state of the table needs this {what} file ({file.size} bytes, {told})",
            path=file.location,
            details={"size": file.size, "age_seconds": age},
        )


def _real(location: str) -> str:
    """Spell a location so that all ways to a local file are one: links in it are followed."""
    local = local_path(location)
    return file_key(location) if local is None else os.path.realpath(local)


def _what(table: Table, file: StoredFile) -> str | None:
    """Tell a vector file and a data file from others, by place and name."""
    below = file.location.removeprefix(f"{table.location}/")
    name = below.rpartition("/")[2]
    if below.startswith(_METADATA[table.kind]) or name.startswith("."):
        return None
    if name.endswith(_VECTOR_NAMES) or (table.kind is TableKind.PAIMON and below.startswith("index/")):
        return "vector"
    return "data" if name.endswith(_DATA_NAMES) else None
