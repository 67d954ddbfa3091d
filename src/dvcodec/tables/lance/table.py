"""Lance datasets: their versions, where their files are and which of these are needed, deletion files and rows.

Rows are read by Lance's own library (extra ``lance``), in another process. Its Rust code ends the process on some
corrupt files: where a length in them is too much to allocate, or an error is to be reported whose text has a NUL
character. See `workers`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import DvcodecError, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import pa, pc, require_extra
from dvcodec.formats import ContainerKind, VectorRef
from dvcodec.io import Listed as StoredFile
from dvcodec.io import is_url
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import check_reach, join, local_path, split
from dvcodec.io.worker_program import BATCH, BATCH_AT, MISSING
from dvcodec.io.workers import Kind, borrowed
from dvcodec.lance import (
    BasePath,
    DeletionFile,
    Fragment,
    FragmentFile,
    Manifest,
    manifest_version,
    read_deletion_file,
    read_manifest,
    read_operation,
)
from dvcodec.lance.deletions import ARROW_MAGIC
from dvcodec.lance.manifest import manifest_names, read_row_count
from dvcodec.ops.convert import measure
from dvcodec.ops.read import read_vector
from dvcodec.tables.deleting import WritableTable
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import (
    WHOLE,
    DataFile,
    DeletedRows,
    DeletionVector,
    Part,
    PhysicalRows,
    Record,
    RowReader,
    SnapshotInfo,
    TableKind,
    refuse_twins,
)
from dvcodec.tables.rows.bounds import RowGroupFilter
from dvcodec.tables.rows.columns import select
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.table import Snapshot, checks_snapshot

if TYPE_CHECKING:
    from dvcodec.io.store import StoreOptions
    from lance import LanceDataset


_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_LANCE = Kind("lance", "Lance", "a batch of Lance", memory=8 << 30, seconds=600.0, system_errors=True)
_FRAGMENT_BITS = 32
"""A row address is the fragment's id, shifted by these bits, plus the row's physical position."""


def open_version(location: str, version: int, options: StoreOptions | None = None) -> LanceDataset:
    """Open a version of a dataset.

    Args:
        location: its folder, path or URL.
        version: the version to open.
        options: for a URL: how to reach the store. Lance's library connects to it itself.

    Raises:
        MissingExtra: Lance's library is not installed.
        NotCanonical: it refuses the dataset.
    """
    lance = require_extra("lance.dataset", "lance", "pylance")  # not `lance`: any folder of that name would be imported
    location, given = of_library(location, options)
    with _refusals(location, f"version {version}"):
        return lance.LanceDataset(location, version=version, storage_options=given)


def schema_of(dataset: LanceDataset) -> pa.Schema:
    """Return the columns of a version, those of blobs as bytes.

    Raises:
        NotCanonical: Lance's library refuses them.
    """
    with _refusals(dataset.uri, f"schema of version {dataset.version}"):
        return dataset.scanner(blob_handling="all_binary").projected_schema


def of_library(location: str, options: StoreOptions | None) -> tuple[str, dict[str, str] | None]:
    """Return the location and the options of a store as Lance's library spells them."""
    if (local := local_path(location)) is not None:
        return os.path.abspath(local), None  # noqa: PTH100  (it commits to no path with ``..``; links stay)
    scheme, separator, rest = location.partition("://")  # it knows s3a and upper case no more than s3n
    given = options.for_rust() if options is not None else None
    return f"{_SCHEMES.get(scheme.lower(), scheme.lower())}{separator}{rest}", given or None


def fragment_rows(
    location: str,
    version: int,
    options: StoreOptions | None,
    data_file: DataFile,
    number: int,
    columns: Sequence[str] | None,
    snapshot: str,
    *,
    batch_rows: int,
    part: Part = WHOLE,
    wanted: RowGroupFilter | None = None,  # noqa: ARG001  (it has no row groups)
) -> Iterator[PhysicalRows]:
    """Open a version, see `open_version`, and read a fragment of it, deleted rows included; see `Snapshot.rows`.

    Args:
        location: see `open_version`.
        version: see `open_version`.
        options: see `open_version`.
        data_file: the fragment.
        number: its id.
        columns: names to read, in this order; None = all.
        snapshot: names an opened snapshot: the version is not opened again for its other fragments.
        batch_rows: maximum rows in a batch.
        part: of the fragment; all of it is in the first.
        wanted: see `Snapshot.rows`.

    Raises:
        UsageError: no such column or fragment.
        NotCanonical: Lance's library refuses the data, or returns its rows out of order.
        OSError: a data file cannot be read.
    """
    if part.number:
        return
    start, source = 0, data_file.location
    for addresses, batch in _scan(location, version, options, [number], columns, snapshot, batch_rows, source):
        first = (number << _FRAGMENT_BITS) + start
        _check_order(addresses, np.arange(first, first + len(addresses), dtype=np.uint64), source)
        for at in range(0, batch.num_rows, batch_rows):
            yield PhysicalRows(start + at, batch.slice(at, batch_rows))
        start += batch.num_rows
    if data_file.physical_rows not in (None, start):
        raise NotCanonical(f"rows of fragment {number}", source=source, expected=data_file.physical_rows, actual=start)


def _scan(
    location: str,
    version: int,
    options: StoreOptions | None,
    numbers: Sequence[int],
    columns: Sequence[str] | None,
    snapshot: str,
    batch_rows: int,
    source: str,
) -> Iterator[tuple[pa.UInt64Array, pa.RecordBatch]]:
    """Yield the addresses and the columns of all rows of fragments, in order; see `fragment_rows`."""
    require_extra("pyarrow", "arrow")  # the worker would end without a word
    location, given = of_library(location, options)
    what = f"fragment {', '.join(map(str, numbers[:3]))}{' and others' if len(numbers) > 3 else ''}"
    missing = UsageError(f"{location}: version {version} has no {what}")
    with borrowed(_LANCE) as worker:

        def answer(what: str, source: str) -> memoryview:
            found = worker.answer(what, source, "what Lance can read")
            if found[:1] == MISSING:
                require_extra("lance.dataset", "lance", "pylance")
                raise missing
            return found

        opening = {"location": location, "version": version, "options": given, "snapshot": snapshot}
        worker.send({"do": "open"} | opening)
        opened = answer(f"version {version}", location)
        schema = select(pa.ipc.read_schema(pa.py_buffer(opened[9:])), columns, location)
        names = schema.names
        worker.send({"do": "read", "fragments": list(numbers), "columns": names, "rows": batch_rows})
        answer(what, source)
        while True:
            worker.send({"do": "next"})
            found = answer(what, source)
            if found[:1] != BATCH:
                break
            for batch in pa.ipc.open_stream(pa.py_buffer(found[BATCH_AT:])):
                rows = batch.select(names)
                yield batch["_rowaddr"], rows.cast(schema) if names else rows


def _check_order(addresses: pa.UInt64Array, expected: NDArray[np.uint64], source: str) -> None:
    """Check the order of rows: Lance returns the addresses of live rows, and null for deleted ones."""
    if pc.all(pc.equal(addresses, pa.array(expected))).as_py() is False:
        first = int(expected[0])
        raise NotCanonical("order of the rows", source=source, expected=f"ascending addresses from {first}")


@contextmanager
def _refusals(source: str, what: str) -> Iterator[None]:
    """Raise errors of Lance's library as `NotCanonical`."""
    try:
        yield
    except DvcodecError:
        raise
    except BaseException as error:
        # A panic of its Rust code derives from BaseException, and its class cannot be imported.
        if not isinstance(error, (ValueError, RuntimeError, KeyError)) and type(error).__name__ != "PanicException":
            raise
        message = str(error).partition("\n")[0]
        raise NotCanonical(what, source=source, expected="what Lance can read", actual=message) from None


@dataclass(frozen=True, slots=True)
class FragmentRecord(Record):
    """What the manifest records of a data file.

    Attributes:
        id: of the fragment.
        overlays: how many of `DataFile.files`, the last ones, are overlays: newer values of some rows.
    """

    id: int
    overlays: int


@dataclass(frozen=True, slots=True)
class DeletionRecord(Record):
    """What the manifest records of a vector.

    Attributes:
        file: the deletion file.
        physical_rows: rows of its fragment, deleted ones included; None if not recorded.
    """

    file: DeletionFile
    physical_rows: int | None


@dataclass(frozen=True, repr=False)
class LanceSnapshot(Snapshot):
    """A version of a Lance dataset; see `Snapshot`."""

    @cached_property
    def _name(self) -> str:
        """A name that no other snapshot has, even of a dataset that took the place of this one."""
        return uuid4().hex

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a deletion file and compare it with the manifest: number of deleted rows, and rows of the fragment.

        Raises:
            DecodeError: it is corrupt, or differs from the manifest.
            MissingExtra: a file of the Arrow kind, without pyarrow.
            OSError: it cannot be read.
        """
        record = self._record(vector, DeletionRecord)
        physical_rows = record.physical_rows
        storage, cardinality = self.table.folder.storage, vector.cardinality
        with storage.open(vector.location) as source:
            found = read_deletion_file(
                source,
                num_deleted_rows=cardinality,
                physical_rows=physical_rows,
                limits=storage.limits,
                storage_options=storage,
            )
            kind = ContainerKind.ROARING32 if record.file.kind == "bin" else ContainerKind.LANCE_ARROW
            stats = measure(
                read_vector(source, VectorRef(kind, 0, source.size), limits=storage.limits),
                row_count=physical_rows,
                size=source.size,
            )
        return (DeletedRows(str(vector.data_file), found, stats),)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Check the name and the first bytes of a deletion file.

        Checks, for each record: ``name`` (it has the fragment, read version and id), ``read-version`` (the delete
        started from a version before the snapshot) and ``kind`` (whether the first bytes are those of an Arrow file).
        """
        with self.table.folder.storage.open(location) as source:
            head = bytes(source.read(0, min(source.size, len(ARROW_MAGIC))))
        kind = "arrow" if head == ARROW_MAGIC else "bin"
        for vector in vectors:
            file = self._record(vector, DeletionRecord).file
            started, version = file.read_version, self.info.id
            before = started if started < version else f"a version before {version}"
            for check, what, expected, actual in (
                ("name", "name of the deletion file", split(file.path(""))[1], split(location)[1]),
                ("read-version", "version that the delete started from", before, started),
                ("kind", "kind of the deletion file", file.kind, kind),
            ):
                if expected != actual:
                    yield Finding.of_vector(check, vector, what, expected, actual)

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the row count in the footers of a fragment's files; None if a file has an unknown version.

        All files have the rows of the fragment; if the counts differ, the first one that differs from the manifest is
        returned. Overlays hold values of some rows, and are not counted.
        """
        found = data_file.physical_rows
        overlays = self._record(data_file, FragmentRecord).overlays
        for path in data_file.files[: len(data_file.files) - overlays]:
            with self.table.folder.storage.open(self.table.folder.locate(path)) as source:
                rows = read_row_count(source, limits=self.table.folder.storage.limits)
            if rows is None or rows != found:
                return rows
        return found

    def blind_spots(self, *, deep: bool = False) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """Report that deletion files have no checksum."""
        count = len(self.vectors)
        if count:
            files = f"{count} deletion file{'s' if count > 1 else ''} (.arrow, .bin)"
            message = "a flipped bit that leaves a valid file with as many rows is not found"
            yield "no-checksum", f"Lance stores no checksum of {files}: {message}"

    def has_columns_of(self, other: LanceSnapshot) -> bool:
        """Compare the schemas of Lance's library, which have field ids; see `Snapshot.has_columns_of`."""
        options = self.table.folder.storage.options
        mine, its = (open_version(one.table.location, one.info.id, options).lance_schema for one in (self, other))
        return bool(mine == its)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of a version, as Lance's library reports them.

        Raises:
            MissingExtra: it is not installed.
            UsageError: no such column.
            NotCanonical: it cannot open the version.
        """
        dataset = open_version(self.table.location, self.info.id, self.table.folder.storage.options)
        return select(schema_of(dataset), columns, dataset.uri)

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads a fragment; see `Snapshot.rows`. Blob columns are read as bytes.

        The physical order is checked by the row addresses that Lance returns with live rows.

        Raises:
            MissingExtra: Lance's library is not installed.
            NotCanonical: it cannot read the fragment, or its row count differs from the manifest.
        """
        fragment = self._record(data_file, FragmentRecord).id
        options = self.table.folder.storage.options
        return RowReader(
            partial(fragment_rows, self.table.location, self.info.id, options, data_file, fragment, columns, self._name)
        )

    def read_together(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read small fragments, many in a scan: each scan costs milliseconds. See `Snapshot.read_together`."""
        group: list[tuple[int, int, int]] = []
        rows = size = 0
        for number in numbers:
            file = self.data_files[number]
            if file.physical_rows is None or file.size is None or file.physical_rows > _ROWS_TOGETHER:
                continue
            if group and (rows + file.physical_rows > _ROWS_TOGETHER or size + file.size > _BYTES_TOGETHER):
                yield from self._scanned(group, columns)
                group, rows, size = [], 0, 0
            group.append((number, self._record(file, FragmentRecord).id, file.physical_rows))
            rows, size = rows + file.physical_rows, size + file.size
        if group:
            yield from self._scanned(group, columns)

    def _scanned(
        self, group: Sequence[tuple[int, int, int]], columns: Sequence[str]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of data files: the number, the fragment, and how many rows there are of each."""
        location, options = self.table.location, self.table.folder.storage.options
        numbers = [fragment for _, fragment, _ in group]
        found = list(_scan(location, self.info.id, options, numbers, columns, self._name, _ROWS_TOGETHER, location))
        expected = np.concatenate(
            [np.arange(rows, dtype=np.uint64) + np.uint64(fragment << _FRAGMENT_BITS) for _, fragment, rows in group]
        )
        addresses = pa.chunked_array([one for one, _ in found], pa.uint64()).combine_chunks()
        if len(addresses) != len(expected):
            raise NotCanonical("rows of fragments", source=location, expected=len(expected), actual=len(addresses))
        _check_order(addresses, expected, location)
        batch = pa.Table.from_batches([one for _, one in found]).combine_chunks().to_batches()[0]
        start = 0
        for number, _, rows in group:
            yield number, batch.slice(start, rows)
            start += rows


_ROWS_TOGETHER, _BYTES_TOGETHER = 1 << 16, 8 << 20
"""Most rows, and bytes of data files, in a scan of several fragments."""
VERSIONS, DATA, DELETIONS, TRANSACTIONS, BRANCHES = "_versions", "data", "_deletions", "_transactions", "tree"
_BRANCH_NAMES = "_refs/branches"
_LISTED = frozenset({DATA, DELETIONS, TRANSACTIONS})
"""Folders whose files manifests name individually."""
_DETACHED = re.compile(r"d[0-9]{1,20}\.manifest")
_DATA_SUFFIX = ".lance"


class FileLocation(NamedTuple):
    """A file of a dataset: its path below the dataset's folder, or its location if outside; and where to open it."""

    path: str
    location: str


def data_file_place(folder: Folder, file: FragmentFile, manifest: Manifest, source: str) -> FileLocation:
    """Return where a data file is stored.

    Raises:
        NotCanonical: its path is invalid, or its base path is not in the manifest.
        Unsupported: its base path is not absolute, or one that metadata must not reference.
    """
    if not file.path or file.path.startswith("/") or is_url(file.path) or ".." in file.path.split("/"):
        raise NotCanonical("path of a data file", source=source, expected="a relative path", actual=repr(file.path))
    base = _base(folder, file.base_id, manifest, source)
    if base is None:
        return FileLocation(f"{DATA}/{file.path}", folder.join(f"{DATA}/{file.path}"))
    path = join(base.path, f"{DATA}/{file.path}" if base.is_dataset_root else file.path)
    return FileLocation(path, folder.locate(path))


def deletion_file_place(folder: Folder, file: DeletionFile, manifest: Manifest, source: str) -> FileLocation:
    """Return where a deletion file is stored.

    Raises:
        NotCanonical, Unsupported: as `data_file_place`; or a base path that is not the folder of a dataset.
    """
    base = _base(folder, file.base_id, manifest, source)
    if base is None:
        path = file.path("").lstrip("/")
        return FileLocation(path, folder.join(path))
    if not base.is_dataset_root:
        what = f"base path of the deletion file of fragment {file.fragment}"
        raise NotCanonical(what, source=source, expected="the folder of a dataset", actual=base.path)
    path = file.path(base.path)
    return FileLocation(path, folder.locate(path))


def _base(folder: Folder, base_id: int | None, manifest: Manifest, source: str) -> BasePath | None:
    if base_id is None:
        return None
    base = manifest.base_paths.get(base_id)
    if base is None:
        known = ", ".join(map(str, manifest.base_paths)) or "none"
        raise NotCanonical("base path", source=source, expected=f"one of the manifest's: {known}", actual=base_id)
    if not is_url(base.path) and not base.path.startswith("/"):
        raise Unsupported("base path", source=source, expected="an absolute path or a URL", actual=repr(base.path))
    check_reach(base.path, folder.location, folder.allow)
    return base


def needed(folder: Folder, stored: Iterable[StoredFile]) -> frozenset[str]:
    """Return the locations of the files that a dataset needs; see `LanceTable.referenced`.

    Raises:
        DecodeError: a manifest is corrupt.
    """
    branches = [unquote(name.removesuffix(".json")) for name in folder.names(_BRANCH_NAMES)]
    prefixes = [f"{BRANCHES}/{branch}/" for branch in sorted(branches, key=len, reverse=True)]
    found = set(_named(folder))
    # Names that are encoded differently may be one folder.
    for branch_folder in dict.fromkeys(folder.inner(prefix.rstrip("/")) for prefix in prefixes):
        for location in _named(branch_folder):
            found.add(location)
            found.update(folder.join(below) for below in _belows(location))
    # Blobs that are too large for a data file are stored in a folder with its name.
    blob_folders = {location.removesuffix(_DATA_SUFFIX) for location in found if location.endswith(_DATA_SUFFIX)}
    known = set(prefixes)
    for file in stored:
        below = file.location[len(folder.location) :].lstrip("/")
        prefix = next((start for start in _starts(below) if start in known), "")
        if below[len(prefix) :].partition("/")[0] not in _LISTED or split(file.location)[0] in blob_folders:
            found.add(file.location)
    return frozenset(found)


def _starts(below: str) -> Iterator[str]:
    """Yield a path's folders, the longest first, each with its slash."""
    end = below.rfind("/")
    while end > 0:
        yield below[: end + 1]
        end = below.rfind("/", 0, end)


def _named(folder: Folder) -> Iterator[str]:
    """Return the files that the manifests of a dataset, or of a branch, name."""
    names = folder.names(VERSIONS)
    known = (name for name in names if manifest_version(name) is not None or _DETACHED.fullmatch(name))

    def read(source: str) -> tuple[str, Manifest]:
        return source, read_manifest(source, limits=folder.storage.limits, storage_options=folder.storage)

    sources = (folder.join(f"{VERSIONS}/{name}") for name in known)
    for source, manifest in run_bounded(read, sources, folder.storage.readers(folder.location)):
        if manifest.transaction_file:
            yield folder.locate(f"{TRANSACTIONS}/{manifest.transaction_file}")
        for fragment in manifest.fragments:
            for file in (*fragment.files, *fragment.overlays):
                yield data_file_place(folder, file, manifest, source).location
            if fragment.deletion_file is not None:
                yield deletion_file_place(folder, fragment.deletion_file, manifest, source).location


def _belows(location: str) -> Iterator[str]:
    """Return the paths that a location may have relative to its dataset's folder.

    Branches record the dataset's folder, and go on recording it when the dataset is moved.
    """
    for part in (DATA, DELETIONS, BRANCHES):
        at = location.rfind(f"/{part}/")
        if at >= 0:
            yield location[at + 1 :]


KNOWN_FLAGS = 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 | 2048
"""Features that a reader has to support: deletion files, stable row ids, the v2 format, table config, base paths, no
transaction files, overlays, covering indices, spilled row ids. Only deletion files and base paths matter for deleted
rows."""


def open(location: Folder | str | os.PathLike[str]) -> LanceTable:  # noqa: A001  (every kind of table has one)
    """Open a dataset by its folder, or a branch by its own.

    Args:
        location: the `Folder`; or its path or URL, if it needs no storage options.

    Raises:
        UsageError: there is no version.
        OSError: the folder cannot be read.
    """
    folder = Folder.of(location)
    table = LanceTable(folder)
    table.manifests()
    return table


class LanceTable(WritableTable):
    """A Lance dataset; see `Table`."""

    kind = TableKind.LANCE

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def manifests(self) -> Mapping[int, str]:
        """Return the locations of the manifests by version, ascending; detached versions are omitted.

        Raises:
            UsageError: there is none.
            NotCanonical: two of one version.
        """
        named = manifest_names(self.folder.names(VERSIONS), f"{self.location}/{VERSIONS}")
        found = {version: self.folder.join(f"{VERSIONS}/{name}") for version, name in named.items()}
        if not found:
            raise UsageError(f"{self.location}: no version of a Lance dataset in {VERSIONS}")
        return dict(sorted(found.items()))

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the versions, oldest first. The parent is the version before, if it still exists.

        Raises:
            UsageError: there is none.
            DecodeError: a manifest is corrupt.
            OSError: it cannot be read.
        """
        manifests = self.manifests()

        def info(item: tuple[int, str]) -> SnapshotInfo:
            return self._info(_read(self.folder, item[1], item[0]), item[1], manifests)

        return tuple(run_bounded(info, manifests.items(), self.folder.storage.readers(self.location)))

    @checks_snapshot
    def snapshot(self, id: int | None = None) -> LanceSnapshot:  # noqa: A002
        """Return a version; see `Table.snapshot`.

        Raises:
            UsageError: there is no such version.
            DecodeError: its manifest is corrupt.
            Unsupported: it has an unknown feature, or names a file that metadata must not reference.
            OSError: it cannot be read.
        """
        return self._snapshot(id, self.manifests())

    def older_ids(self) -> Iterator[int]:
        """Yield the versions before the current one; see `Table.older_ids`."""
        yield from list(self.manifests())[-2::-1]

    def opener(self) -> Callable[[int], LanceSnapshot]:
        """Return what opens versions; see `Table.opener`. The folder of manifests is listed once."""
        manifests = self.manifests()
        return lambda id_: self._snapshot(id_, manifests)

    def _snapshot(self, id: int | None, manifests: Mapping[int, str]) -> LanceSnapshot:  # noqa: A002
        version = max(manifests) if id is None else id
        if version not in manifests:
            raise UsageError(f"{self.location}: no version {version}")
        location = manifests[version]
        manifest = _read(self.folder, location, version)
        data_files = [_data_file(self.folder, fragment, manifest, location) for fragment in manifest.fragments]
        refuse_twins((fragment.id for fragment in manifest.fragments), "fragments of one id", location)
        refuse_twins((file.path for file in data_files), "fragments of one data file", location)
        vectors = tuple(_vectors(self.folder, data_files, manifest, location))
        return LanceSnapshot(self, self._info(manifest, location, manifests), tuple(data_files), vectors)

    def referenced(self) -> frozenset[str]:
        """Return the locations of all files that a version, a detached version or a branch needs.

        Data files, deletion files and transactions are those that manifests name. Everything else below the folder
        (manifests, tags and branches, indices, write-ahead logs) counts as referenced: whether it is still needed is
        not checked.
        """
        return needed(self.folder, self.stored_files())

    def _info(self, manifest: Manifest, location: str, manifests: Mapping[int, str]) -> SnapshotInfo:
        operation = None
        if manifest.transaction_offset is not None:
            operation = read_operation(location, manifest.transaction_offset, storage_options=self.folder.storage)
        elif manifest.transaction_file:
            with suppress(FileNotFoundError):  # committed versions do not need it
                place = self.folder.locate(f"{TRANSACTIONS}/{manifest.transaction_file}")
                operation = read_operation(place, storage_options=self.folder.storage)
        before = manifest.version - 1
        return SnapshotInfo(manifest.version, manifest.timestamp_ms, operation, before if before in manifests else None)


def _read(folder: Folder, location: str, version: int) -> Manifest:
    """Read the manifest of a version.

    Raises:
        Unsupported: it uses an unknown feature.
        NotCanonical: its version is not the one in its name.
    """
    with folder.storage.open(location) as source:
        manifest = read_manifest(source, limits=folder.storage.limits)
    if manifest.version != version:
        raise NotCanonical("version", source=location, expected=f"{version} (its name)", actual=manifest.version)
    if manifest.reader_flags & ~KNOWN_FLAGS:
        raise Unsupported(
            "features that a reader has to know",
            source=location,
            expected=f"no others than those of {KNOWN_FLAGS:#x}",
            actual=f"{manifest.reader_flags:#x}",
        )
    return manifest


def _data_file(folder: Folder, fragment: Fragment, manifest: Manifest, source: str) -> DataFile:
    files = (*fragment.files, *fragment.overlays)
    if not fragment.files:
        raise NotCanonical(f"fragment {fragment.id}", source=source, expected="a data file", actual="none")
    places = [data_file_place(folder, file, manifest, source) for file in files]
    return DataFile(
        *places[0],
        physical_rows=fragment.physical_rows or None,
        size=sum(file.size for file in files) if all(file.size for file in files) else None,
        files=tuple(place.path for place in places),
        record=FragmentRecord(fragment.id, len(fragment.overlays)),
    )


def _vectors(
    folder: Folder, data_files: Iterable[DataFile], manifest: Manifest, source: str
) -> Iterator[DeletionVector]:
    for fragment, data_file in zip(manifest.fragments, data_files, strict=True):
        file = fragment.deletion_file
        if file is not None:
            yield DeletionVector(
                "lance",
                data_file.path,
                *deletion_file_place(folder, file, manifest, source),
                cardinality=file.num_deleted_rows or None,
                record=DeletionRecord(file, data_file.physical_rows),
            )
