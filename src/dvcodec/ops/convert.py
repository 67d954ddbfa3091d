"""From one format's container to another's.

Iceberg, Delta (portable) and Paimon (64-bit) hold the same frame: converting copies it, verified but never re-encoded,
and no bitmap is built. Other layouts (Delta native, Paimon 32-bit, bare roaring) are decoded and encoded anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from dvcodec import delta, iceberg
from dvcodec.core import frame
from dvcodec.core.cursor import BytesLike
from dvcodec.core.errors import UsageError
from dvcodec.core.frame import Magic
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.location import DvLocation
from dvcodec.core.roaring64 import MAX_DV_POSITION
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Vector
from dvcodec.iceberg.vectors import DEFAULT_CREATED_BY
from dvcodec.io import SinkTarget, Source, SourceTarget, open_sink, open_source, target_name
from dvcodec.ops.sniff import Container, VectorRef, read_vector, sniff_source

__all__ = ["TARGETS", "Target", "convert", "portable_frame", "write"]

Target: TypeAlias = Literal["puffin", "delta", "paimon64", "blob"]
TARGETS: tuple[str, ...] = get_args(Target)
_MAX_GAP_KEYS = 1 << 16


def convert(
    source: SourceTarget,
    to: Target,
    sink: SinkTarget,
    *,
    data_files: Sequence[str] | Mapping[int, str] | None = None,
    created_by: str = DEFAULT_CREATED_BY,
    limits: Limits = DEFAULT_LIMITS,
) -> list[DvLocation]:
    """Convert all vectors of a file.

    Every vector is verified on the way: length, CRC, magic, structure, and cardinality where the source states it.

    Args:
        source: any container that `sniff` knows.
        to: ``puffin`` (Iceberg), ``delta`` (a vector file), ``paimon64`` (an index file of 64-bit vectors),
            or ``blob`` (one bare frame).
        sink: path, URL or writable file; written whole or not at all.
        data_files: the data file of each vector, in file order or by offset; needed for ``puffin`` where the
            source does not name them, and replaces the names where it does.
        created_by: ``created-by`` of a Puffin file.
        limits: what the bytes may ask for.

    Returns:
        Where each vector is now. A source without vectors gives none, and no file.

    Raises:
        DecodeError: a vector is not sound (nothing is written).
        UsageError: a data file is missing, a ``blob`` of not exactly one vector, or rows that do not fit.
    """
    if to not in TARGETS:
        raise UsageError(f"cannot convert to {to!r}, only to {', '.join(TARGETS)}")
    with open_source(source) as opened:
        container = sniff_source(opened, limits=limits)
        refs = _named(container, data_files)
        if to == "puffin":
            nameless = next((ref for ref in refs if ref.data_file is None), None)
            if nameless is not None:
                raise UsageError(
                    f"{opened.name} does not name the data file of the vector at {nameless.offset}: name it"
                )
        if to == "blob" and len(refs) != 1:
            raise UsageError(f"{opened.name} holds {len(refs)} vectors, a bare blob is exactly one")
        frames = _frames(opened, refs, limits)
        if to == "puffin":
            named = (((path or "", cardinality), data) for path, cardinality, data in frames)
            return iceberg.write_stored_vectors(sink, named, created_by=created_by)
        return _write_frames(to, sink, frames)


def write(
    to: Target,
    sink: SinkTarget,
    vectors: Mapping[str, RowSet] | Mapping[str | None, RowSet],
    *,
    created_by: str = DEFAULT_CREATED_BY,
) -> list[DvLocation]:
    """Write row sets into a new file of the given kind; arguments and errors as in `convert`.

    Vectors have Java's bytes, gap keys included, unless a row set reaches 2**48: then no gap keys are written.
    """
    if to not in TARGETS:
        raise UsageError(f"cannot write {to!r}, only {', '.join(TARGETS)}")
    frames = ((path, rows.cardinality, iceberg.encode(rows, gap_keys=_dense(rows))) for path, rows in vectors.items())
    if to == "puffin":
        if None in vectors:
            raise UsageError("a Puffin file needs the data file of every vector")
        named = {path: rows for path, rows in vectors.items() if path is not None}
        return iceberg.write_deletion_vectors(
            sink, named, created_by=created_by, gap_keys=all(map(_dense, named.values()))
        )
    if to == "blob" and len(vectors) != 1:
        raise UsageError(f"a bare blob is exactly one vector, not {len(vectors)}")
    return _write_frames(to, sink, frames)


def _dense(rows: RowSet) -> bool:
    """Whether Java's gap keys are worth their 12 bytes each: a few bytes of input must not become gigabytes."""
    return (rows.max or 0) >> 32 < _MAX_GAP_KEYS


def _write_frames(
    to: Target, sink: SinkTarget, frames: Iterator[tuple[str | None, int, BytesLike]]
) -> list[DvLocation]:
    if to == "blob":
        return [_write_blob(sink, *next(frames))]
    written = delta.write_stored_vectors(sink, (((path, count), data) for path, count, data in frames))
    return written if to == "delta" else [replace(location, format="paimon") for location in written]


def _named(container: Container, data_files: Sequence[str] | Mapping[int, str] | None) -> list[VectorRef]:
    refs = list(container.vectors)
    if data_files is None:
        return refs
    if isinstance(data_files, Mapping):
        strangers = set(data_files) - {ref.offset for ref in refs}
        if strangers:
            raise UsageError(f"{container.source} has no vector at byte {min(strangers)}")
        return [replace(ref, data_file=data_files.get(ref.offset, ref.data_file)) for ref in refs]
    if len(data_files) != len(refs):
        raise UsageError(f"{container.source} holds {len(refs)} vectors, {len(data_files)} data files are given")
    return [replace(ref, data_file=path) for ref, path in zip(refs, data_files, strict=True)]


def _frames(source: Source, refs: list[VectorRef], limits: Limits) -> Iterator[tuple[str | None, int, BytesLike]]:
    for ref in refs:
        found = read_vector(source, ref, limits=limits)
        yield ref.data_file, found.cardinality, portable_frame(found)


def portable_frame(found: Vector) -> BytesLike:
    """Return a vector as the frame that Iceberg, Delta and Paimon 64-bit share: its own bytes, where it has them.

    Raises:
        NotCanonical: the vector is not sound.
        UsageError: a bare bitmap with positions that no deletion vector can hold.
    """
    if found.magic is Magic.PORTABLE64:
        found.check()
        if found.frame is not None:
            return found.frame.data
        if (found.view.max or 0) > MAX_DV_POSITION:
            raise UsageError(f"position {found.view.max} is above the highest of a deletion vector, {MAX_DV_POSITION}")
        return frame.build(Magic.PORTABLE64, bytes(found.view.data))
    return iceberg.encode(found.load())


def _write_blob(sink: SinkTarget, data_file: str | None, cardinality: int, data: BytesLike) -> DvLocation:
    with open_sink(sink) as out:
        out.write(data)
        size = out.position
    return DvLocation("iceberg", target_name(sink), 0, size, cardinality, data_file, size)
