"""The data source ``dvcodec``: files found and distributed among tasks, and containers of vectors read as rows.

The driver does not open small files. They are packed in order into partitions of bounded size; each adds an open cost,
that of a request if it is remote. A larger Puffin file is split by byte ranges: each task finds its vectors in the
footer. Other containers are read by one task.

Vectors are read in windows: pieces of some megabytes, each read at once. They are those of a file, or those that a
table's metadata names. Vectors that are not plain frames (bare bitmaps, footer entries out of range) are read one by
one by `ops.read`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dvcodec.core.batch import Survey, survey
from dvcodec.core.errors import DecodeError, DvcodecError, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index, offsets_of, u32
from dvcodec.core.vector import FRAME_OVERHEAD, UNCOUNTED, Magic
from dvcodec.formats import ContainerKind, VectorRef
from dvcodec.iceberg import CARDINALITY
from dvcodec.io import Source, Storage, open_source
from dvcodec.io.frames import VERSION
from dvcodec.io.source import WINDOW_BYTES, BlockSource, beyond_end, coalesce
from dvcodec.io.storage import HEAD_BYTES, WHOLE_BYTES
from dvcodec.io.target import file_key, is_local, join, split
from dvcodec.ops.convert import GapKeys, portable_frame
from dvcodec.ops.read import ALLOWED, read_vector, refuse_segment, sniff_source
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.spark.columns import (
    STORED_VECTORS,
    binary_array,
    is_utf8,
    numbers,
    text_array,
    texts_of,
)
from dvcodec.spark.compat import datasource
from dvcodec.spark.sources.files import (
    FileEntry,
    FilePartition,
    FileSplit,
    FoundFiles,
    counted,
    evenly,
    fetched_ahead,
    find_all,
    packed,
    run_ahead,
)
from dvcodec.spark.sources.options import ReadOptions, WriteOptions
from dvcodec.spark.sources.writer import committed_in, stored_in, writer_of


@dataclass(frozen=True, slots=True, eq=False)
class VectorRanges:
    """Byte ranges of the vectors in one container, and their metadata.

    Attributes:
        path: path or URL of the container.
        kind: kind of the container; decides which vector layouts are valid.
        format: value of the column ``format``, None for null.
        offsets: int64[n], first byte of each vector; -1 if unknown.
        lengths: int64[n], bytes of each; -1 if unknown.
        stated: int64[n], cardinality in the metadata; -1 if it has none.
        data_files: data file of each.
        refs: as `sniff_source` returns them; empty for ranges found otherwise.
    """

    path: str
    kind: ContainerKind
    format: str | None
    offsets: Index
    lengths: Index
    stated: Index
    data_files: list[str | None]
    refs: tuple[VectorRef, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, index: Index) -> VectorRanges:
        """Return the ranges at these indices."""
        where = index.tolist()
        return replace(
            self,
            offsets=self.offsets[index],
            lengths=self.lengths[index],
            stated=self.stated[index],
            data_files=[self.data_files[i] for i in where],
            refs=tuple(self.refs[i] for i in where) if self.refs else (),
        )

    def ref(self, i: int) -> VectorRef:
        """Return one range as a `VectorRef`."""
        return replace(self.refs[i], cardinality=None if self.stated[i] < 0 else int(self.stated[i]))


def index_vectors(source: Source, path: str, limits: Limits = DEFAULT_LIMITS) -> VectorRanges:
    """Find the vectors of a container.

    Raises:
        DecodeError: it is not a container, or is corrupt.
        OSError: it cannot be read.
    """
    container = refuse_segment(sniff_source(source, limits=limits))
    refs = container.vectors
    stated = (-1 if ref.cardinality is None else ref.cardinality for ref in refs)
    return VectorRanges(
        path,
        container.kind,
        container.kind.value,
        np.array([ref.offset for ref in refs], np.int64),
        np.array([ref.size for ref in refs], np.int64),
        np.fromiter((min(count, 2**63 - 1) for count in stated), np.int64, len(refs)),
        [ref.data_file for ref in refs],
        refs,
    )


def expected(found: VectorRanges, source: Source, kind: ContainerKind | None) -> VectorRanges:
    """Check the kind. A file of 64-bit vectors may be Delta's or Paimon's.

    Raises:
        Unsupported: it is not the kind that is wanted.
    """
    if kind is None or found.kind is kind:
        return found
    if kind is ContainerKind.PAIMON and found.kind is ContainerKind.DELTA:
        refs = tuple(replace(ref, kind=kind) for ref in found.refs)
        return replace(found, kind=kind, format=kind.value, refs=refs)
    raise Unsupported("container", source=source.name, expected=kind.value, actual=found.kind.value)


def wanted(found: VectorRanges, part: FileSplit, source: Source, options: ReadOptions, stores: Storage) -> VectorRanges:
    """Add the manifest's metadata, and keep the vectors of this split and of the requested data files.

    Args:
        found: the vectors of a container.
        part: the container, or a part of it.
        source: source of the container.
        options: what to read.
        stores: opens the manifest.

    Raises:
        NotCanonical: the manifest is corrupt.
        OSError: it cannot be read.
    """
    if part.manifest and found.kind in (ContainerKind.DELTA, ContainerKind.PAIMON):
        found = _named(found, stored_in(part.manifest, split(part.path)[1], stores))
    keep = np.ones(len(found), np.bool_)
    if not part.is_whole:
        begins = np.clip(found.offsets, 0, max(source.size - 1, 0))
        keep &= (part.start <= begins) & (begins < part.stop)
    if (keys := options.file_keys) is not None:
        keep &= np.array([name is not None and file_key(name) in keys for name in found.data_files], np.bool_)
    return found if keep.all() else found.take(np.flatnonzero(keep))


def _named(found: VectorRanges, stored: pa.Table) -> VectorRanges:
    """Add the data files and cardinalities of a manifest, by offset."""
    if not len(stored):
        return found
    stored = stored.sort_by("offset")
    offsets = stored["offset"].to_numpy()
    index = np.minimum(np.searchsorted(offsets, found.offsets), len(offsets) - 1)
    there = offsets[index] == found.offsets
    stated = np.where(there, stored["cardinality"].to_numpy()[index], -1)
    names = stored["data_file"].take(pa.array(index, mask=~there)).to_pylist()
    return replace(found, stated=stated, data_files=names)


_SMALL = 1 << 20
"""Files of at most this many bytes are read whole before they are identified."""
HEAD = 16
"""Bytes by which most kinds of container are known."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Vectors of one container that were read together.

    Attributes:
        ranges: ranges of the vectors.
        data: bytes of the frames, and perhaps others.
        starts: int64[n], first byte of each frame in `data`.
        sizes: int64[n], bytes of each frame in `data`; 0 for none.
        base: offset of `data` in the file.
        name: name of the source, for errors.
        error: why none of them could be read.
        mix: containers of each kind in the file, of a vector that was framed here.
    """

    ranges: VectorRanges
    data: NDArray[np.uint8]
    starts: Index
    sizes: Index
    base: int = 0
    name: str = ""
    error: str | None = None
    mix: tuple[int, int, int] | None = None

    @classmethod
    def unread(cls, ranges: VectorRanges, error: str | None = None) -> Window:
        """Return a window without bytes."""
        none = np.zeros(len(ranges), np.int64)
        return cls(ranges, np.zeros(0, np.uint8), none, none, error=error)


def windows(part: FileSplit, options: ReadOptions, stores: Storage, *, content: bool = True) -> Iterator[Window]:
    """Read the vectors of a split. Corrupt bytes give a window of one row with the error; they never raise.

    Args:
        part: a file, or a part of one.
        options: what to read of it.
        stores: opens it.
        content: False does not read the bytes of vectors.

    Raises:
        OSError: the file cannot be read.
    """
    if part.size < 0:
        why = f"{part.manifest} names it" if part.manifest else "a broken link"
        yield _failure(part, None, f"{part.path}: no such file ({why})")
        return
    with stores.open(part.path, size=part.size) as opened, _near(opened, part, content) as source:
        kind = None
        try:
            found = index_vectors(source, part.path, stores.limits)
            kind = found.kind
            found = expected(found, source, options.kind)
        except DecodeError as err:
            ignored = options.ignore_others and part.listed and isinstance(err, Unsupported)
            if part.start == 0 and not ignored:
                yield _failure(part, kind, str(err))
            return
        found = wanted(found, part, source, options, stores)
        if not content:
            if len(found):
                yield Window.unread(found)
        elif found.kind in ALLOWED:
            yield from _framed(source, found, options)
        else:
            for i in range(len(found)):
                yield _alone(source, found.take(np.array([i])), options)


def _failure(part: FileSplit, kind: ContainerKind | None, error: str) -> Window:
    unknown = np.full(1, -1, np.int64)
    format_name = None if kind is None else kind.value
    ranges = VectorRanges(part.path, kind or ContainerKind.BLOB, format_name, unknown, unknown, unknown, [None])
    return Window.unread(ranges, error)


@contextmanager
def _near(opened: Source, part: FileSplit, content: bool) -> Iterator[Source]:
    """Read a container whole if all of it will be needed; read other files in small blocks."""
    if not part.is_whole or not content:
        yield BlockSource(opened)
        return
    if opened.size > _SMALL:
        head = bytes(opened.read(0, HEAD))
        known = head[:4] == PUFFIN_MAGIC or Magic.find(head[4:8]) or (head[0] == VERSION and Magic.find(head[5:9]))
        if not known or opened.size > 2 * WINDOW_BYTES:
            yield BlockSource(opened)
            return
    with open_source(opened.read(0, opened.size), name=opened.name) as held:
        yield held


def _framed(source: Source, found: VectorRanges, options: ReadOptions) -> Iterator[Window]:
    plain = (found.offsets >= 0) & (found.lengths > 0) & (found.lengths <= source.size - found.offsets)
    for i, ref in enumerate(found.refs):  # `read_vector` refuses these before it reads
        blob = ref.blob
        if blob is not None and (
            blob.compression_codec is not None or (CARDINALITY in blob.properties and ref.cardinality is None)
        ):
            plain[i] = False
    for i in np.flatnonzero(~plain).tolist():
        yield _alone(source, found.take(np.array([i])), options)
    if not plain.all():
        found = found.take(np.flatnonzero(plain))
    order = np.argsort(found.offsets, kind="stable")
    if (np.diff(order) < 0).any():
        found = found.take(order)
    yield from _together(source, found, found.lengths)


def _together(source: Source, found: VectorRanges, sizes: Index, beyond: int = 0) -> Iterator[Window]:
    """Read vectors in the order of their offsets, neighbours at once, and so many bytes beyond them."""
    for first, last, start, stop in coalesce(found.offsets, sizes):
        part = found if last - first == len(found) else found.take(np.arange(first, last))
        try:
            data = np.frombuffer(source.read(start, min(stop + beyond, source.size) - start), np.uint8)
        except DecodeError as err:  # the file has shrunk
            yield Window.unread(part, str(err))
            continue
        yield Window(part, data, part.offsets - start, sizes[first:last], start, source.name)


def _alone(source: Source, found: VectorRanges, options: ReadOptions) -> Window:
    """Read one vector by itself, and frame it if it has no frame."""
    try:
        vector = read_vector(source, found.ref(0), verify_checksum=options.verify_checksum)
        vector.check()
        data = np.frombuffer(bytes(portable_frame(vector, GapKeys())), np.uint8)
    except (DecodeError, UsageError) as err:
        return Window.unread(found, str(err))
    return Window(found, data, np.zeros(1, np.int64), np.full(1, len(data), np.int64), mix=vector.view.mix)


def located_windows(containers: Iterable[VectorRanges], stores: Storage) -> Iterator[Window]:
    """Read the vectors of containers in order; remote ones of few vectors are read ahead.

    Errors, a missing container included, are reported in the rows and never raised.
    """

    def job(places: VectorRanges) -> tuple[int, Callable[[], list[Window]]] | None:
        size = int(np.where(places.lengths < 0, HEAD_BYTES, places.lengths).sum())
        return None if size > WHOLE_BYTES else (size, lambda: list(_windows(places, stores)))

    left = iter(containers)
    for first in left:
        every = chain([first], left)
        if _is_local(first.path):
            yield from chain.from_iterable(_windows(places, stores) for places in every)
        else:
            for places, found in run_ahead(every, job, stores.threads(first.path)):
                yield from _windows(places, stores) if found is None else found


def _is_local(path: str) -> bool:
    """Whether a path is local; an invalid path is an error of its container."""
    try:
        return is_local(path)
    except UsageError:
        return True


def _windows(places: VectorRanges, stores: Storage) -> Iterator[Window]:
    try:
        with stores.open(places.path) as source:
            places = places.take(np.argsort(places.offsets, kind="stable"))
            yield from _read(source, places)
    except (OSError, DvcodecError) as err:
        yield Window.unread(places, str(err))


def _read(source: Source, places: VectorRanges) -> Iterator[Window]:
    room = source.size - places.offsets
    asked = np.where(places.lengths < 0, FRAME_OVERHEAD, places.lengths)
    outside = (places.offsets < 0) | (asked > room)
    for i in np.flatnonzero(outside).tolist():
        one = places.take(np.array([i]))
        offset, size = int(one.offsets[0]), int(one.lengths[0])
        yield Window.unread(one, str(beyond_end(source, offset, size)))
    places = places.take(np.flatnonzero(~outside))
    sizes = np.where(places.lengths < 0, _claimed(source, places), places.lengths)
    # A frame may be 8 bytes longer than its stated size.
    for window in _together(source, places, sizes, UNCOUNTED):
        data, starts, lengths = window.data, window.starts, window.sizes.copy()
        whole = np.flatnonzero(lengths >= 4)
        claimed = u32(data, starts[whole]).astype("<u4").byteswap().astype(np.int64)
        short = whole[(claimed == lengths[whole]) & (starts[whole] + claimed + UNCOUNTED <= len(data))]
        lengths[short] += UNCOUNTED
        yield replace(window, sizes=lengths)


def _claimed(source: Source, places: VectorRanges) -> Index:
    """Return the size of each frame by its length field, at most to the end of the file."""
    out = np.zeros(len(places), np.int64)
    for i in np.flatnonzero(places.lengths < 0).tolist():
        offset = int(places.offsets[i])
        length = int.from_bytes(source.read(offset, 4), "big")
        out[i] = min(length + UNCOUNTED, source.size - offset)
    return out


def containers_of(batch: pa.RecordBatch) -> Iterator[VectorRanges]:
    """Split a sorted batch of ``container, offset, size, cardinality, data_file, format`` by container.

    An offset is that of a frame's length field; a size is that of the whole frame, or of magic and bitmap; -1 leaves it
    to the frame.
    """
    containers, data_files, formats = (texts_of(batch.column(name)) for name in ("container", "data_file", "format"))
    offsets, sizes, stated = (numbers(batch.column(name)) for name in ("offset", "size", "cardinality"))
    codes = batch.column("container").dictionary_encode().indices.to_numpy(zero_copy_only=False)
    bounds = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
    for a, b in pairwise(bounds):
        columns = (offsets[a:b], sizes[a:b], stated[a:b], data_files[a:b])
        yield VectorRanges(containers[a], ContainerKind.BLOB, formats[a], *columns)


_AT_ONCE = 16
"""Large files opened at once: each remote one is a round trip."""
BATCH_BYTES = 1 << 24
BATCH_ROWS = 1 << 15


def plan(options: ReadOptions) -> list[FilePartition]:
    """Find the files and distribute them. The same files give the same partitions in the same order.

    Raises:
        UsageError: a path that does not exist.
        OSError: a folder or file that cannot be read.
        DecodeError: a manifest that is corrupt.
    """
    stores = Storage(dict(options.storage_options), options.limits)
    splits = list(_splits(options, stores))
    large = [part for part in splits if part.size > options.partition_bytes]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cut = dict(zip(large, pool.map(lambda part: _cut(part, options.partition_bytes, stores), large), strict=True))
    pieces = [piece for part in splits for piece in cut.get(part, [part])]
    return packed(pieces, options.partition_bytes, options.open_cost)


def _splits(options: ReadOptions, stores: Storage) -> Iterator[FileSplit]:
    seen: set[str] = set()
    committed: dict[str, dict[str, str] | None] = {}
    for found in find_all(options.paths, stores):
        for part in _found(found, committed if options.committed else None, stores):
            if part.path not in seen:
                seen.add(part.path)
                yield part


def _found(
    found: FoundFiles, committed: dict[str, dict[str, str] | None] | None, stores: Storage
) -> Iterator[FileSplit]:
    """Skip files that no manifest of their folder names; add files that manifests name but that are missing."""
    if committed is None:
        yield from map(FileSplit.of, found.files)
        return
    for folder, hidden in found.folders.items():
        committed[folder] = committed_in(folder, hidden, stores)
    there: set[tuple[str, str]] = set()
    for entry in found.files:
        folder, name = split(entry.path)
        if folder not in committed:
            # Web servers do not list their files.
            names = () if folder.lower().startswith(("http://", "https://")) else None
            committed[folder] = committed_in(folder, names, stores)
        there.add((folder, name))
        containers = committed[folder]
        if not entry.listed or containers is None or name in containers:
            yield FileSplit.of(entry, (containers or {}).get(name))
    for folder in found.folders:
        for name, manifest in sorted((committed[folder] or {}).items()):
            if (folder, name) not in there:
                path, size = join(folder, name), -1
                with suppress(FileNotFoundError):  # the commit may have been after the listing
                    size = stores.stat(path).size
                yield FileSplit.of(FileEntry(path, size, listed=True), manifest)


def _cut(part: FileSplit, size: int, stores: Storage) -> list[FileSplit]:
    """Split a large Puffin file."""
    with stores.open(part.path, size=part.size) as source:
        return evenly(part, size) if source.read(0, min(source.size, len(PUFFIN_MAGIC))) == PUFFIN_MAGIC else [part]


def pools(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Group windows into batches of bounded size; those that were read are of one kind of container."""
    pool: list[Window] = []
    kinds: set[ContainerKind] = set()
    weight = rows = 0
    for window in windows:
        kind = {window.ranges.kind} if window.error is None else set()
        full = weight + len(window.data) > BATCH_BYTES or rows + len(window.ranges) > BATCH_ROWS
        if pool and (full or len(kinds | kind) > 1):
            yield pool
            pool, kinds, weight, rows = [], set(), 0, 0
        pool.append(window)
        kinds |= kind
        weight += len(window.data)
        rows += len(window.ranges)
    if pool:
        yield pool


def batches(
    windows: Iterable[Window], schema: pa.Schema, *, content: bool, verify: bool, limits: Limits = DEFAULT_LIMITS
) -> Iterator[pa.RecordBatch]:
    """Verify the vectors of windows, and yield them as batches of a schema.

    Args:
        windows: in the order of the rows.
        schema: the columns, in order.
        content: whether the windows have bytes; without them only ranges are known.
        verify: whether to compare CRCs.
        limits: bounds on what the bytes may claim.
    """
    for pool in pools(windows):
        yield _batch(pool, schema, content, verify, limits)


def _batch(pool: list[Window], schema: pa.Schema, content: bool, verify: bool, limits: Limits) -> pa.RecordBatch:
    ranges = [window.ranges for window in pool]
    counts = np.array(list(map(len, ranges)), np.int64)
    of_window = np.repeat(np.arange(len(pool)), counts)
    n, bounds = len(of_window), offsets_of(counts).tolist()
    filled = [window.data for window in pool if len(window.data)]
    data = filled[0] if len(filled) == 1 else np.concatenate(filled) if filled else np.zeros(0, np.uint8)
    places = offsets_of(np.array([len(window.data) for window in pool], np.int64))[:-1]
    starts = np.concatenate([window.starts for window in pool]) + places[of_window]
    errors: dict[int, str] = {}
    for window, rows in zip(pool, pairwise(bounds), strict=True):
        if window.error is not None:
            errors.update(dict.fromkeys(range(*rows), window.error))
    sizes, crc_ok, unknown = np.concatenate([window.sizes for window in pool]), pa.nulls(n, pa.bool_()), np.full(n, -1)
    found = Survey(unknown, unknown, unknown, np.zeros((n, 3), np.int64), np.zeros(n, np.bool_), {})
    if content:
        kind = next((window.ranges.kind for window in pool if window.error is None), ContainerKind.BLOB)
        found = survey(
            data,
            starts,
            sizes,
            allowed=ALLOWED.get(kind, (Magic.PORTABLE64,)),
            cardinalities=np.concatenate([one.stated for one in ranges]),
            limits=limits,
            verify_checksum=verify,
        )
        if verify and kind in ALLOWED:  # the frames of others were made here
            crc_ok = pa.array(found.crc_ok, mask=np.isin(np.arange(n), list(errors)))
    for row in found.errors.keys() - errors.keys():
        error, of = found.errors[row], int(of_window[row])
        error.source = pool[of].name
        if error.offset is not None:  # an offset in the joined windows; report that in the file
            error.offset += pool[of].base - int(places[of])
        errors[row] = str(error)
    for window, row in zip(pool, bounds[:-1], strict=True):
        if window.mix is not None and row not in errors:
            found.mix[row] = window.mix
    names = [name for one in ranges for name in one.data_files]
    for row, name in enumerate(names):
        if not is_utf8(name):  # no column of strings can hold it
            errors.setdefault(row, f"{name!a:.200}: a data file whose name is not UTF-8")
    valid = np.ones(n, np.bool_)
    valid[list(errors)] = False

    def containers() -> pa.Array:
        columns = [pa.array(found.mix[:, k].astype(np.int32)) for k in range(3)]
        return pa.StructArray.from_arrays(columns, fields=list(schema.field("containers").type), mask=pa.array(~valid))

    columns: dict[str, Callable[[], pa.Array]] = {
        "container": lambda: text_array([one.path for one in ranges]).take(pa.array(of_window)),
        "format": lambda: text_array([one.format for one in ranges]).take(pa.array(of_window)),
        "data_file": lambda: text_array(names),
        "offset": lambda: _known(np.concatenate([one.offsets for one in ranges])),
        "size": lambda: _known(np.concatenate([one.lengths for one in ranges])),
        **{name: partial(_known, getattr(found, name), valid) for name in ("cardinality", "min", "max")},
        "containers": containers,
        "crc_ok": lambda: crc_ok,
        "error": lambda: text_array([errors.get(row) for row in range(n)]),
        "dv": lambda: binary_array(ByteStrings.cut(data, starts, np.where(valid, sizes, 0)), valid=valid),
    }
    return pa.RecordBatch.from_arrays([columns[name]() for name in schema.names], schema=schema)


def _known(values: Index, valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers as a column, null where they are negative or not `valid`."""
    return pa.array(values, mask=(values < 0) if valid is None else ~valid | (values < 0))


_PLACE = {"container", "format", "data_file", "offset", "size"}
"""Columns that do not need the vectors' bytes."""


def schema_of(options: ReadOptions) -> StructType:
    """Return the schema of a read without a user's schema.

    Raises:
        UsageError: `columns` names an unknown column.
    """
    return StructType([STORED_VECTORS[name] for name in _checked(options.columns or STORED_VECTORS.names)])


def _checked(names: Iterable[str]) -> list[str]:
    chosen = list(names)
    for name in chosen:
        if name not in STORED_VECTORS.names:
            raise UsageError(f"no column {name!r}, expected some of {', '.join(STORED_VECTORS.names)}")
        if chosen.count(name) > 1:
            raise UsageError(f"column {name!r} twice")
    return chosen


def reader_of(options: ReadOptions, schema: StructType) -> VectorReader:
    """Return a reader of these columns.

    Raises:
        UsageError: no path, or unknown columns.
    """
    if not options.paths:
        raise UsageError("nothing to read: load(path), or the option paths")
    names = _checked(schema.names)
    if options.columns is not None and sorted(options.columns) != sorted(names):
        raise UsageError(f"the schema has the columns {', '.join(names)}, the option {', '.join(options.columns)}")
    for field in schema.fields:
        expected, given = STORED_VECTORS[field.name].dataType.simpleString(), field.dataType.simpleString()
        if expected != given:
            raise UsageError(f"column {field.name!r}: expected {expected}, found {given}")
    return VectorReader(options, schema)


class VectorReader(datasource.DataSourceReader):
    """Reads the vectors of containers; see `VectorSource`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.names = schema.names
        self.schema: pa.Schema = to_arrow_schema(schema)

    def partitions(self) -> list[datasource.InputPartition]:
        """Distribute the files among tasks."""
        with counted("plan", *self.options.paths):
            return [*plan(self.options)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Read one task's `FilePartition`."""
        options = self.options
        content = not _PLACE.issuperset(self.names)
        stores = Storage(dict(options.storage_options), options.limits)
        found = chain.from_iterable(
            windows(part, options, stores, content=content) for part in fetched_ahead(partition.splits, stores)
        )
        with counted("read", *(part.path for part in partition.splits[:1])):
            yield from batches(
                found, self.schema, content=content, verify=options.verify_checksum, limits=options.limits
            )


class VectorSource(datasource.DataSource):
    """Deletion vectors in files of any container.

    **Reading** returns one row per vector (`columns.STORED_VECTORS`), from containers that `dvcodec.sniff` detects::

        spark.read.format("dvcodec").load("s3://lake/t/data")
        spark.read.format("dvcodec").load(["/t/a.puffin", "/t/dv/*.bin"])
        spark.read.format("dvcodec").schema("data_file string, cardinality long").load(path)

    A path is a file, a folder with its subfolders, or a pattern (``*``, ``?``, ``[...]``, ``**``); several are given as
    a list, or as a JSON array in the option ``paths``. Names in a folder that begin with ``_`` or ``.`` are skipped. A
    file that several paths match is read once. URLs other than ``file:`` need obstore or fsspec (extra ``remote``) on
    driver and workers; credentials are those of the options ``storage.<key>``, or those of driver and workers
    (environment variables, AWS's files). Hadoop's are not used.

    Every vector is checked: CRC, structure, order, population, and the cardinality that metadata states. A corrupt
    vector is a row with ``error``, and the job continues. ``crc_ok`` is null if there is no CRC, or it was not
    checked. A file that is not a container is a row with ``error`` too. Only an I/O error fails a task.

    Columns that neither the schema nor the option ``columns`` names are not computed; if only ``container``,
    ``format``, ``data_file``, ``offset`` and ``size`` are named, the vectors are neither read nor checked.

    If a folder has manifests of writes (see below), only containers that they name are read from it, and they supply
    the ``data_file`` of vectors in Delta and Paimon files.

    Options of a read, besides the path:
        ``format``: the only kind of container to accept: ``puffin``, ``delta``, ``paimon``, ``blob``, ``roaring32``,
            ``roaring64`` or ``lance-arrow``. Another file is a row with ``error``.
        ``columns``: names, separated by commas.
        ``ignore-others``: ``true`` skips files of a folder or pattern that are not containers (of that kind).
        ``verify-checksum``: ``false`` skips the CRCs.
        ``committed``: ``false`` also reads containers that no manifest names.
        ``partition-bytes``, ``open-cost-bytes``: bytes of one task (32m), and bytes added for each file (64k, in object
            stores 1m, as each is a request). Larger Puffin files are split between their vectors.
        ``limits``: bounds on what the bytes may claim, as in ``max_metadata_bytes=2000000000,max_records=50000000``;
            see `dvcodec.Limits`.
        ``storage.<key>``: how to reach stores, for reads and writes: ``storage.aws_region``,
            ``storage.endpoint``, ``storage.max_concurrency``, ..; see `dvcodec.io.store.options`.
        ``data-files``: a name, or a JSON array of names: only vectors of these data files are read, in any spelling
            (in plain text).

    **Writing** takes ``data_file string, dv binary``, and optionally ``cardinality long``, which is checked; other
    columns are ignored::

        vectors.write.format("dvcodec").mode("append").option("target", "iceberg").save("s3://lake/t/deletes")

    Every vector is verified. Frames of the shared layout are copied, others re-encoded. Tasks write containers with
    fresh names into the folder; the commit lists those of successful tasks in ``_manifest-<job>.parquet``, in
    one atomic write. Readers do not see a container that no manifest names. A write that fails leaves the empty file
    ``_writing-<job>``, which says so; killed or repeated tasks may leave containers. The manifest has one row per
    vector, the fields of `dvcodec.DvLocation`: see `read_manifest`.

    Options of a write:
        ``target``: ``iceberg`` (default; Puffin files), ``delta``, ``paimon32`` or ``paimon64``.
        ``target-bytes``, ``max-vectors``: limits of a container: 64m, for Paimon 2m; 65536 vectors for Puffin.
        ``storage.<key>``: as for reads.

    Mode ``overwrite`` is not supported: it would remove containers that readers may be reading, and cannot replace
    several manifests atomically. Write into a new folder, or append.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "dvcodec"

    def schema(self) -> StructType:
        """Return the schema of a read without a user's schema."""
        return schema_of(ReadOptions.parse(self.options))

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        """Return a reader of these columns."""
        return reader_of(ReadOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:
        """Return a writer, and begin the write."""
        return writer_of(WriteOptions.parse(self.options), schema, overwrite=overwrite)
