"""Audit the deletion vectors of a table: read every one, and compare it with metadata, container and folder.

Checks, each the `check` of its findings:

- ``length``, ``crc``, ``magic``, ``structure``: the bytes of a vector, as in `verify`; ``unsupported``, ``limit``: a
  vector that looks well-formed but is not read;
- ``cardinality``: rows of a vector differ from the number in the metadata;
- ``rows``: positions of a vector beyond the physical rows of its data file;
- ``equal-vectors``, ``different-vectors``: two live vectors for one data file, with the same rows or with others;
- ``stale-path``, ``gone-data-file``: a vector, or rows of position deletes, whose data file has another path in the
  snapshot; a vector whose data file is not in the snapshot;
- ``path-scheme``: position deletes that name a data file with another scheme than the metadata (``hdfs://host/t/a`` for
  ``/t/a``) and are applied here: Iceberg Java and pyiceberg compare text and do not delete the rows;
- ``stale-blob-path``: a Puffin blob with another path for its data file than the metadata;
- ``delta-protocol``, ``delta-feature``, ``delta-column-mapping``, ``delta-append-only``, ``delta-property``: the
  protocol or properties of a Delta table contradict its vectors or its columns;
- ``delta-schema``, ``delta-action``, ``delta-path``, ``delta-checkpoint``: deltalake does not open the table, because
  of its columns, of missing members of actions, or of a checkpoint that is damaged, or that ``_last_checkpoint`` names
  and is missing or empty; a data file with two spellings in the log, which deltalake takes for two files;
- ``delta-empty-checkpoint``: a checkpoint without a byte, which engines ignore; ``delta-statistics``: times before 1973
  whose zone offset seems to lack its seconds, so that Delta Spark may skip the file though it has the rows;
- ``iceberg-version``, ``partition-mismatch``, ``sequence-number``: Puffin vectors in a table of version 1 or 2; deletes
  of one data file with another partition or partition spec, or a lower sequence number, than the file;
- ``metadata-name``: metadata files of an Iceberg table that were not read, because their names have no version;
- ``paimon-vectors-disabled``: vectors in a Paimon table whose options disable them;
- ``overlap``: two vectors share bytes of a file;
- ``missing-file``, ``unreadable-file``, ``file-size``: the file of a vector;
- ``one-vector-per-file``: a Puffin file with two blobs for one data file, however it is spelled;
- ``unused-blob``: a corrupt vector that the snapshot does not use, in a Puffin file of vectors that it uses: pyiceberg
  decodes all blobs of a file;
- ``container``, and names that depend on the format: the file's own metadata;
- ``missing-data-file``, ``unreadable-data-file``, ``data-file-size``: a data file; with ``deep`` also
  ``physical-rows`` (its footer has another row count than the metadata), ``column-bounds`` (bounds or counts of nulls
  in the metadata exclude rows that the footer has: engines that skip files by them miss the rows) and ``segment``
  (what `verify` finds in a search segment);
- ``orphan-vector-file``, ``orphan-data-file``: a file that no snapshot needs;
- ``references``, ``listing``: why orphans could not be found;
- ``moved``: the metadata records another location of the table.

Two swapped vectors of the same cardinality are found by the data files that their Puffin blobs name. Files of Delta,
Paimon and Lance do not name data files: there such a swap is not found. `Audit.notes` lists other damage that no check
finds in a table: ``no-checksum`` (Lance, position deletes), ``rows-not-counted``, ``bounds-not-compared``, and without
``deep`` ``segment-contents`` (scorch).

Column bounds that metadata records of a data file are compared with those in the file's own footer. Engines skip files
by the first. Where they exclude rows that a file has, queries and deletes by condition miss these rows. Both may be
wider than the rows: lower bounds of text are cut off, upper bounds end with something greater than what was cut off.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import Any

import numpy as np

from dvcodec.core.errors import DvcodecError, MissingExtra, Unsupported
from dvcodec.core.extras import pa, types
from dvcodec.core.ragged import Index
from dvcodec.core.text import card, counted, plain
from dvcodec.io import Listed as StoredFile
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import file_keys, is_local, local_name
from dvcodec.tables.columns import UNKNOWN, VectorColumns, VectorGroup
from dvcodec.tables.folder import real_path
from dvcodec.tables.model import DataFile, SnapshotInfo, TableKind
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.findings import Finding, Severity
from dvcodec.tables.snapshots.reading import Progress
from dvcodec.tables.snapshots.scanning import Scan, scan_snapshot
from dvcodec.tables.table import Snapshot, Table, check_progress, check_table, older_without

__all__ = ["Audit", "AuditCounts", "audit"]

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


class FilesInFolder:
    """The files below a table's folder.

    Attributes:
        listed: the files.
        numbers: by `file_key` of their location.
    """

    def __init__(self, table: Table) -> None:
        """List them.

        Raises:
            OSError: the folder cannot be listed.
        """
        self.listed = table.stored_files()
        keys = file_keys(list(self.listed.locations))
        self.numbers = dict(zip(keys, range(len(keys)), strict=True))

    def sizes_of(self, locations: Sequence[str]) -> Index:
        """Return the bytes of files, int64; `UNKNOWN` of those that are not listed."""
        found = map(self.numbers.get, file_keys(list(locations)), repeat(len(self.listed)))
        return np.append(self.listed.sizes, UNKNOWN)[np.fromiter(found, np.int64, len(locations))]


def _not_checked(skipped: Sequence[str], unchecked: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Say what was not checked of data files; see `Snapshot.blind_spots`.

    Args:
        skipped: paths of those with an unknown format.
        unchecked: columns whose bounds could not be compared, each with the number of data files.
    """
    if skipped:
        more = len(skipped) - 1
        which = f"{skipped[0]}{f' and {more} more' if more else ''}"
        yield "rows-not-counted", f"the rows of {which} were not counted: the format of the footer is not supported"
    if unchecked:
        listed = [f"{name} ({counted(count, 'data file')})" for name, count in unchecked.items()]
        more = len(listed) - _MOST_LISTED
        which = ", ".join([*listed[:_MOST_LISTED], *([counted(more, "more column")] if more > 0 else [])])
        why = "were not compared with the footers, which lack them or order them otherwise"
        yield "bounds-not-compared", f"the bounds of {which} {why}"


def _to_check(vectors: VectorColumns, stored: FilesInFolder | None) -> list[tuple[str, Index]]:
    """Return the files of vectors to check, each with the numbers of its vectors.

    Left out are position deletes of the listed size: nothing else of them is compared with the metadata, once read.
    """
    places = vectors.places
    none = np.full(len(places.locations), UNKNOWN)
    sizes = none if stored is None else stored.sizes_of(places.locations)
    recorded = np.where(vectors.file_sizes == UNKNOWN, sizes[places.location_of], vectors.file_sizes)
    same = ~vectors.bitmaps & (vectors.offsets == UNKNOWN) & (recorded == sizes[places.location_of])
    others = np.bincount(places.location_of[~same], minlength=len(sizes))
    left = (sizes == UNKNOWN) | (others > 0)
    found = zip(places.locations, vectors.containers, left.tolist(), strict=True)
    return [(location, numbers) for location, numbers, is_left in found if location and is_left]


def check_data_files(
    snapshot: Snapshot,
    stored: FilesInFolder | None,
    threads: int,
    *,
    deep: bool = False,
    progress: Callable[[int], object] = lambda _: None,
) -> tuple[list[Finding], int, list[tuple[str, str]]]:
    """Compare the sizes, the rows and the bounds of columns of data files with the metadata.

    Files are looked up in the listing of the table's folder; those elsewhere, and local ones behind links to folders,
    are opened. Positions of vectors count physical rows: where these differ from the metadata, engines that use the
    metadata return wrong rows.

    Args:
        snapshot: has the data files.
        stored: those of its folder; None = sizes are not compared.
        threads: number of files read concurrently.
        deep: True reads the footer of each file that could be opened, and verifies search segments.
        progress: with `deep`, called with the number of files done.

    Returns:
        ``missing-data-file``, ``unreadable-data-file``, ``data-file-size``, ``physical-rows``, ``column-bounds`` and
        the findings of `Snapshot.check_contents`; the number of data files whose footer was read; notes on what was
        not checked.

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
    if not deep:
        files = [files[number] for number in _may_be_wrong(snapshot, stored).tolist()]
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
    return findings, opened, list(_not_checked(skipped, unchecked))


def _may_be_wrong(snapshot: Snapshot, stored: FilesInFolder | None) -> Index:
    """Return the numbers of the data files of which the listing does not show that they are as recorded."""
    columns = snapshot.file_columns
    if stored is None:
        return np.arange(len(columns.paths))
    sizes = stored.sizes_of(columns.locations)
    right = columns.single & (sizes >= 0) & ((columns.sizes == UNKNOWN) | (columns.sizes == sizes))
    for path in snapshot.damaged_files():
        right[snapshot.numbers[path]] = False
    return np.flatnonzero(~right)


def _size(table: Table, file: DataFile, stored: FilesInFolder) -> int | DvcodecError | OSError:
    """Return the bytes of a data file; for a Lance fragment with columns added later, those of several files."""
    locations = [table.folder.locate(path) for path in file.files] or [file.location]
    size = 0
    try:
        for location in locations:
            known = int(stored.sizes_of([location])[0])
            if known != UNKNOWN:
                size += known
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


def find_orphans(table: Table, stored: FilesInFolder) -> Iterator[Finding]:
    """Find vector and data files that no snapshot of the table needs (``orphan-vector-file``, ``orphan-data-file``).

    Metadata, files whose names begin with a dot, and files that engines keep by other rules are ignored.

    Raises:
        DecodeError: the metadata of a snapshot is corrupt.
        OSError: it cannot be read.
    """
    now = time.time_ns() // 1_000_000
    needed = table.referenced()
    others = sorted(stored.numbers.keys() - file_keys(list(needed)))
    files = [stored.listed[stored.numbers[key]] for key in others]
    found = [(file, what) for file in files if (what := _what(table, file))]
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


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """How much was checked.

    Attributes:
        data_files: data files of the snapshot.
        vectors: vectors of the snapshot; each was read, or is unreadable.
        containers: files that hold them.
        stored_files: files below the table's folder; None if it was not listed.
        unreadable: vectors that could not be read: their rows are unknown.
        counted_files: data files whose row count was compared with the metadata; None without ``deep``.
    """

    data_files: int
    vectors: int
    containers: int
    stored_files: int | None
    unreadable: int = 0
    counted_files: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """The result of an audit.

    Attributes:
        table: location of the table's folder.
        kind: kind of the table.
        info: which snapshot.
        findings: those of the snapshot, then those of the whole table; none if the table is valid.
        counts: how much was checked.
        scan: what the vectors delete; rows are not kept.
        notes: damage that no check can find here, and why; a table without findings may have notes.
        older: id of the newest snapshot before the current one that has no vector or data file with an error; None if
            there are no such errors, or it is not among the last ten. It is not audited.
    """

    table: str
    kind: TableKind
    info: SnapshotInfo
    findings: tuple[Finding, ...]
    counts: AuditCounts
    scan: Scan
    notes: tuple[Finding, ...] = ()
    older: int | None = None

    def __repr__(self) -> str:
        return f"<audit of {self.kind.value} table {plain(self.table)}, snapshot {self.info.id}: {self._outcome}>"

    def _repr_html_(self) -> str:
        """Return the findings as HTML for notebooks."""
        rows = ((one.severity.value, one.check, one.message) for one in self.findings)
        facts = (f"snapshot {self.info.id}", counted(self.counts.data_files, "data file"), self._outcome)
        return card(
            f"{self.kind.value} table {self.table}", facts, ("severity", "check", "finding"), rows, len(self.findings)
        )

    @property
    def _outcome(self) -> str:
        counts = Counter(finding.severity for finding in self.findings)
        return ", ".join(counted(count, kind.value) for kind, count in counts.items()) or "no findings"

    @property
    def ok(self) -> bool:
        """Whether no finding is an error: every engine can read the right rows. There may be warnings."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON, without the scan, the findings and the notes."""
        severities = Counter(finding.severity for finding in self.findings)
        return {
            "table": self.table,
            "kind": self.kind.value,
            "snapshot": asdict(self.info),
            "ok": self.ok,
            "older": self.older,
            "counts": asdict(self.counts) | {f"{kind.value}s": severities[kind] for kind in Severity},
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the scan."""
        return self.summary() | {
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": [note.to_dict() for note in self.notes],
        }


def audit(
    table: Table,
    snapshot_id: int | None = None,
    *,
    orphans: bool = True,
    deep: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit a snapshot of a table. Corrupt vectors and files are findings, not errors.

    Args:
        table: see `open_table`.
        snapshot_id: the snapshot to audit; None = the current one.
        orphans: True lists the table's folder, to find orphans and missing data files.
        deep: True opens every data file, compares the row count and the bounds of columns in its footer with the
            metadata, and verifies search segments.
        threads: number of concurrent readers; None = 8, or for remote tables the maximum of the storage.
        progress: called with the number of vectors and files done, and the total.

    Raises:
        UsageError: the table has no such snapshot.
        DecodeError: the metadata of the snapshot is corrupt, so its vectors are unknown.
        OSError: it cannot be read.
    """
    check_table(table)
    check_progress(progress)
    readers = table.folder.storage.threads(table.location, threads)
    snapshot = table.snapshot(snapshot_id)
    of_table = list(rules.moved(table))
    stored: FilesInFolder | None = None
    if orphans:  # before vectors are read: the listing has the sizes of their files
        try:
            stored = FilesInFolder(table)
        except OSError as error:
            of_table.append(Finding.failed("listing", "list of the table's files", None, error, path=table.location))
    vectors = snapshot.vector_columns
    containers = sum(map(bool, vectors.places.locations))
    before_files = len(snapshot.vectors) + containers
    total = before_files + (len(snapshot.data_files) if deep else 0)

    def advance(done: int) -> None:
        if progress is not None:
            progress(done, total)

    scan = scan_snapshot(snapshot, threads=threads, progress=lambda done, _: advance(done))
    number = snapshot.info.id
    findings = [*scan.findings, *(finding.in_snapshot(number) for finding in snapshot.check_metadata())]

    unchecked = _to_check(vectors, stored)

    def check(item: tuple[str, Index]) -> list[Finding]:
        location, group = item[0], VectorGroup(vectors, item[1])
        found = rules.overlaps(group)
        # A file that could not be opened is a finding of each of its vectors already.
        more = () if location in scan.unopened else rules.container(snapshot, location, group)
        return [*found, *more]

    for done, found in enumerate(run_bounded(check, unchecked, readers), before_files - len(unchecked) + 1):
        findings += (finding.in_snapshot(number) for finding in found)
        advance(done)
    notes = list(snapshot.blind_spots(deep=deep))
    counted = None
    if deep or stored is not None or snapshot.damaged_files():
        of_files, opened, unchecked_files = check_data_files(
            snapshot, stored, readers, deep=deep, progress=lambda done: advance(before_files + done)
        )
        findings += (finding.in_snapshot(number) for finding in of_files)
        counted = opened if deep else None
        notes += unchecked_files
    if stored is not None:
        try:
            of_table += find_orphans(table, stored)
        except MissingExtra:
            raise
        except (DvcodecError, OSError) as error:
            what = "files that the table's snapshots need, to find orphans"
            of_table.append(Finding.failed("references", what, None, error, path=table.location))
    table.folder.storage.forget()  # another audit reads again
    counts = AuditCounts(
        len(snapshot.data_files),
        len(snapshot.vectors),
        containers,
        None if stored is None else len(stored.numbers),
        scan.unreadable,
        counted,
    )
    return Audit(
        table.location,
        table.kind,
        snapshot.info,
        (*findings, *of_table),
        counts,
        scan,
        tuple(Finding(check, Severity.INFO, message, number) for check, message in notes),
        older_without(table, findings) if snapshot_id is None else None,
    )
