"""Compare the files in a table's folder with its metadata: missing, changed and orphaned files.

Compare the column bounds that metadata records of a data file with those in the file's own footer.

Engines skip files by the first. Where they exclude rows that a file has, queries and deletes by condition miss these
rows. Both may be wider than the rows: lower bounds of text are cut off, upper bounds end with something greater than
what was cut off.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dvcodec.core.errors import DvcodecError, MissingExtra, Unsupported
from dvcodec.core.extras import pa, types
from dvcodec.core.text import counted
from dvcodec.io import Listed as StoredFile
from dvcodec.io.file_key import file_key
from dvcodec.io.parallel import run_bounded
from dvcodec.io.target import is_local, local_name, local_path
from dvcodec.tables.model import DataFile, TableKind
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.snapshots.findings import Finding, Severity
from dvcodec.tables.table import Snapshot, Table

_MOST_SHOWN = 40


class BoundsCheck:
    """Compares the bounds of the data files of a snapshot. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._columns: list[str] | None = None
        self._has_bounds = type(snapshot).bounds is not Snapshot.bounds
        try:
            self._columns = snapshot.schema().names if self._has_bounds else []
        except MissingExtra:
            raise
        except (DvcodecError, OSError):  # of a column with an unknown type, for example
            pass

    def __call__(self, file: DataFile) -> tuple[list[Finding], list[str]]:
        """Compare the bounds of a Parquet file.

        Returns:
            Bounds that exclude rows: ``column-bounds``. And the columns whose bounds could not be compared, though the
            metadata records some.

        Raises:
            MissingExtra: a package that reads the file is not installed.
        """
        if not self._has_bounds:
            return [], []
        if self._columns is None:
            return [], ["every column"]
        groups: list[Mapping[str, ColumnBounds]] = []

        def note(_start: int, rows: int, known: Mapping[str, ColumnBounds]) -> bool:
            if rows:
                groups.append(known)
            return False  # no rows are read

        stated: Mapping[str, ColumnBounds] = {}
        try:
            found = self._snapshot.stated_bounds(file, self._columns)
            stated = {name: one for name, one in found.items() if one != ColumnBounds() and not one.constant}
            if stated and "parquet" in (file.file_format, file.location.lower().rpartition(".")[2]):
                next(self._snapshot.rows(file, columns=list(stated), wanted=note), None)
        except MissingExtra:
            raise
        except (DvcodecError, OSError):
            if not stated:
                return [], ["every column"]
            groups.clear()
        findings, unchecked = [], []
        for name, bounds in stated.items():
            known = [group[name] for group in groups if name in group]
            if len(known) < max(len(groups), 1) or not all(_is_known(one, bounds) for one in known):
                unchecked.append(name)
            for end, expected, actual in _excluded(bounds, known):
                what = f"{end} of column {name!r}, by which engines skip rows that the file has"
                texts = f"{expected} (its footer)", f"{actual} (metadata)"
                findings.append(Finding.failed("column-bounds", what, *texts, data_file=file.path, path=file.location))
        return findings, unchecked


def _is_known(group: ColumnBounds, stated: ColumnBounds) -> bool:
    """Whether a row group records what is needed to compare with what is stated of the file."""
    ends = (stated.lower is None or group.lower is not None) and (stated.upper is None or group.upper is not None)
    return (ends or not group.values) and (group.counted or (stated.nulls and stated.values))


def _excluded(stated: ColumnBounds, groups: Sequence[ColumnBounds]) -> Iterator[tuple[str, str, str]]:
    """Yield what excludes rows: its name, what it should be, and what it is."""
    lows = [group.lower for group in groups if group.lower is not None]
    if stated.lower is not None and lows:
        low, bound = min(map(_plain, lows)), _plain(stated.lower)
        if low < bound and not (_is_text(bound) and bound.startswith(low)):
            yield "lower bound", f"at most {_shown(low, stated.lower.type)}", _shown(bound, stated.lower.type)
    highs = [group.upper for group in groups if group.upper is not None]
    if stated.upper is not None and highs:
        high, bound = max(map(_plain, highs)), _plain(stated.upper)
        if (_before(high) if _is_text(high) else high) > bound:
            yield "upper bound", f"at least {_shown(high, stated.upper.type)}", _shown(bound, stated.upper.type)
    if not stated.nulls and any(group.counted and group.nulls for group in groups):
        yield "count of nulls", "some", "0"
    if not stated.values and any(group.counted and group.values for group in groups):
        yield "count of nulls", "fewer than rows", "as many as rows"


def _plain(scalar: pa.Scalar[Any]) -> Any:
    """Return a value that can be compared with others of its type."""
    return scalar.value if types.is_temporal(scalar.type) else scalar.as_py()


def _is_text(value: object) -> bool:
    return isinstance(value, (str, bytes))


def _before(text: Any) -> Any:
    """Return text that is not greater than the greatest text of which this may be the bound, if its end was cut off.

    >>> _before("abd"), _before(b"ab!")
    ('abc', b'ab ')
    """
    if not text or text[-1:] in ("\0", b"\0"):
        return text[:-1]
    if isinstance(text, bytes):
        return text[:-1] + bytes([text[-1] - 1])
    return text[:-1] + ("\ud7ff" if text[-1] == "\ue000" else chr(ord(text[-1]) - 1))


def _shown(value: Any, kind: pa.DataType) -> str:
    if types.is_temporal(kind):
        return str(pa.scalar(value, kind).cast(pa.string()))
    if isinstance(value, bytes):
        return value[:_MOST_SHOWN].hex()
    return repr(value[:_MOST_SHOWN]) if isinstance(value, str) else str(value)


_METADATA = {
    TableKind.ICEBERG: ("metadata/",),
    TableKind.DELTA: ("_",),
    TableKind.PAIMON: ("manifest/", "schema/", "snapshot/", "statistics/", "tag/", "branch/", "consumer/", "service/"),
    TableKind.LANCE: ("_versions/", "_transactions/", "_indices/", "_refs/", "tree/"),
    TableKind.SCORCH: ("root.bolt", "index_meta.json"),
}
"""Paths below a table's folder that are metadata, or outside the control of snapshots."""
_VECTOR_NAMES = (".puffin", ".bin", ".arrow")
_DATA_NAMES = (".parquet", ".orc", ".avro", ".lance", ".zap")
_MOST_LISTED = 5
_YOUNG_SECONDS = 24 * 60 * 60


def list_files(table: Table) -> dict[str, StoredFile]:
    """List the files below the table's folder, by `file_key` of their location.

    Raises:
        OSError: the folder cannot be listed.
    """
    return {file_key(file.location): file for file in table.stored_files()}


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """Result of checking data files.

    Attributes:
        findings: ``missing-data-file``, ``unreadable-data-file``, ``data-file-size``, ``physical-rows``,
            ``column-bounds`` and those of `Snapshot.check_contents`.
        counted: data files whose footer was read.
        skipped: paths of those with an unknown format.
        unchecked: columns whose bounds could not be compared, each with the number of data files.
    """

    findings: tuple[Finding, ...]
    counted: int
    skipped: tuple[str, ...]
    unchecked: Mapping[str, int]

    def notes(self) -> Iterator[tuple[str, str]]:
        """Say what was not checked; see `Snapshot.blind_spots`."""
        if self.skipped:
            more = len(self.skipped) - 1
            which = f"{self.skipped[0]}{f' and {more} more' if more else ''}"
            yield "rows-not-counted", f"the rows of {which} were not counted: the format of the footer is not supported"
        if self.unchecked:
            listed = [f"{name} ({counted(count, 'data file')})" for name, count in self.unchecked.items()]
            more = len(listed) - _MOST_LISTED
            which = ", ".join([*listed[:_MOST_LISTED], *([counted(more, "more column")] if more > 0 else [])])
            why = "were not compared with the footers, which lack them or order them otherwise"
            yield "bounds-not-compared", f"the bounds of {which} {why}"


def check_data_files(
    snapshot: Snapshot,
    stored: Mapping[str, StoredFile] | None,
    threads: int,
    *,
    deep: bool = False,
    progress: Callable[[int], object] = lambda _: None,
) -> CheckedFiles:
    """Compare the sizes, the rows and the bounds of columns of data files with the metadata.

    Files are looked up in the listing of the table's folder; those elsewhere, and local ones behind links to folders,
    are opened. Positions of vectors count physical rows: where these differ from the metadata, engines that use the
    metadata return wrong rows.

    Args:
        snapshot: has the data files.
        stored: from `list_files`; None = sizes are not compared.
        threads: number of files read concurrently.
        deep: True reads the footer of each file that could be opened, and verifies search segments.
        progress: with `deep`, called with the number of files done.

    Raises:
        MissingExtra: a package that reads the footers is not installed.
    """
    damaged = snapshot.damaged_files()
    check_bounds = BoundsCheck(snapshot) if deep else None

    def check(file: DataFile) -> tuple[list[Finding], int | Exception | None, list[str]]:
        if file.path in damaged:
            return [_unopened(file, damaged[file.path], "a readable footer")], damaged[file.path], []
        size = file.size if stored is None else _size(snapshot.table, file, stored)
        expected = "a file" if file.size is None else f"a file of {file.size} bytes"
        if isinstance(size, Exception):
            return [_unopened(file, size, expected)], size, []
        found, columns = [], list[str]()
        if file.size not in (None, size):
            found.append(_finding("data-file-size", file, f"{file.size} bytes (metadata)", f"{size} bytes"))
        rows = _rows(snapshot, file) if deep else None
        if isinstance(rows, Exception):
            found.append(_unopened(file, rows, "a readable footer"))
        elif None not in (rows, file.physical_rows) and rows != file.physical_rows:
            expected = f"{file.physical_rows} rows (metadata)"
            found.append(_finding("physical-rows", file, expected, f"{rows} rows (its footer)"))
        elif deep:
            found += snapshot.check_contents(file)
        if check_bounds is not None and rows != 0 and not isinstance(rows, Exception):
            bounds, columns = check_bounds(file)
            found += bounds
        return found, rows, columns

    findings: list[Finding] = []
    skipped: list[str] = []
    unchecked: Counter[str] = Counter()
    opened = 0
    files = snapshot.data_files
    # Looking up a size takes less time than handing the file to a thread.
    at_once = not deep and is_local(snapshot.table.location)
    results = map(check, files) if at_once else run_bounded(check, files, threads)
    for done, (file, (found, rows, columns)) in enumerate(zip(files, results, strict=True), 1):
        findings += found
        unchecked.update(columns)
        opened += isinstance(rows, int)
        if deep:
            if rows is None:
                skipped.append(file.path)
            progress(done)
    return CheckedFiles(tuple(findings), opened, tuple(skipped), unchecked)


def _size(table: Table, file: DataFile, stored: Mapping[str, StoredFile]) -> int | DvcodecError | OSError:
    """Return the bytes of a data file; for a Lance fragment with columns added later, those of several files."""
    locations = [table.folder.locate(path) for path in file.files] or [file.location]
    size = 0
    try:
        for location in locations:
            known = stored.get(file_key(location))
            if known is not None:
                size += known.size
                continue
            if (local := local_name(location)) is not None:  # perhaps in a linked folder, which is not listed
                os.stat(local)  # noqa: PTH116  (raises for a missing file in a tenth of the time of opening it)
            elif location.startswith(f"{table.location}/"):
                return FileNotFoundError(location)
            with table.folder.storage.open(location) as source:
                size += source.size
    except MissingExtra:
        raise
    except (DvcodecError, OSError) as error:
        return error
    return size


def _rows(snapshot: Snapshot, file: DataFile) -> int | DvcodecError | OSError | None:
    """Return the row count in the footer of a data file; None for an unknown format."""
    try:
        return snapshot.stored_rows(file)
    except MissingExtra:
        raise
    except Unsupported:
        return None
    except (DvcodecError, OSError) as error:
        return error


def _unopened(file: DataFile, error: Exception, expected: str) -> Finding:
    if isinstance(error, FileNotFoundError):
        return _finding("missing-data-file", file, expected, f"no such file: {error.filename or error}")
    return _finding("unreadable-data-file", file, expected, " ".join(str(error).split()))


def _finding(check: str, file: DataFile, expected: str, actual: str) -> Finding:
    return Finding.failed(check, "data file", expected, actual, data_file=file.path, path=file.location)


def find_orphans(table: Table, stored: Mapping[str, StoredFile], *, now_ms: int | None = None) -> Iterator[Finding]:
    """Find vector and data files that no snapshot of the table needs (``orphan-vector-file``, ``orphan-data-file``).

    Metadata, files whose names begin with a dot, and files that engines keep by other rules are ignored.

    Raises:
        DecodeError: the metadata of a snapshot is corrupt.
        OSError: it cannot be read.
    """
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    needed = table.referenced()
    keys = set(map(file_key, needed))
    found = [(file, what) for key, file in sorted(stored.items()) if key not in keys and (what := _what(table, file))]
    real = {real_path(one) for one in needed if _may_exist(one)} if found else set()
    for file, what in found:
        if real_path(file.location) in real:
            continue
        age = None if file.modified_ms is None else max(now - file.modified_ms, 0) // 1000
        old = "of unknown age" if age is None else f"{age} seconds old"
        if age is not None and age < _YOUNG_SECONDS:
            old += "; it may belong to a commit in progress"
        yield Finding(
            f"orphan-{what}-file",
            Severity.INFO,
            f"no snapshot of the table needs this {what} file ({file.size} bytes, {old})",
            path=file.location,
            details={"size": file.size, "age_seconds": age},
        )


def real_path(location: str) -> str:
    """Return one path for all paths to a local file: symbolic links are resolved."""
    local = local_path(location)
    return file_key(location) if local is None else os.path.realpath(local)


def _may_exist(location: str) -> bool:
    """Whether a file is remote or there: `real_path` asks for each step of a path, which metadata may have many of."""
    local = local_name(location)
    return local is None or os.path.exists(local)  # noqa: PTH110  (no `Path` for each of 100,000)


def _what(table: Table, file: StoredFile) -> str | None:
    """Return ``vector`` or ``data`` by the place and name of a file, None for other files."""
    below = file.location.removeprefix(f"{table.location}/")
    name = below.rpartition("/")[2]
    if below.startswith(_METADATA[table.kind]) or name.startswith("."):
        return None
    if name.endswith(_VECTOR_NAMES) or (table.kind is TableKind.PAIMON and below.startswith("index/")):
        return "vector"
    return "data" if name.endswith(_DATA_NAMES) else None
