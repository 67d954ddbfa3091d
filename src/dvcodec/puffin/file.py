"""Reads and writes Puffin files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING

from dvcodec.core.compress import CODECS, compress, decompress
from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import Truncated, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.usage import check_type
from dvcodec.io import Sink, SinkTarget, Source, SourceTarget, StorageOptions, open_sink, open_source, read_within
from dvcodec.io.file_key import file_key
from dvcodec.puffin.footer import (
    MAGIC,
    REFERENCED_DATA_FILE,
    BlobMetadata,
    Footer,
    decode_footer,
    encodable,
    encode_footer,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class PuffinReader:
    """Reads the blobs of a Puffin file by byte range.

    Args:
        source: the file; see `open_puffin` for paths and URLs.
        limits: bounds on footer and blobs.

    Raises:
        DecodeError: the footer is corrupt; see `decode_footer`.
        OSError: the source cannot be read.
    """

    def __init__(self, source: Source, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.source = source
        self.limits = limits
        self.footer = decode_footer(source, limits=limits)

    @property
    def blobs(self) -> Sequence[BlobMetadata]:
        """The blobs, in the order of the footer."""
        return self.footer.blobs

    def read_stored(self, blob: BlobMetadata, limit: str = "max_blob_bytes") -> Cursor:
        """Return the blob's stored bytes.

        Args:
            blob: of this file's footer.
            limit: the field of `Limits` that its length must be within.

        Raises:
            LimitExceeded: the blob is larger.
            Truncated: `offset` and `length` are not between the first magic and the footer.
            OSError: the file cannot be read.
        """
        self.check_range(blob)
        return read_within(self.source, limit, self.limits, offset=blob.offset, size=blob.length)

    def check_range(self, blob: BlobMetadata) -> None:
        """Check that a blob is between the first magic and the footer.

        Raises:
            Truncated: it is not.
        """
        if blob.offset < len(MAGIC) or blob.length < 0 or blob.offset + blob.length > self.footer.offset:
            raise Truncated(
                f"range of the {blob.type} blob",
                source=self.source.name,
                offset=blob.offset,
                expected=f"a range within {len(MAGIC)}..{self.footer.offset}",
                actual=f"{blob.offset}..{blob.offset + blob.length}",
            )

    def read(self, blob: BlobMetadata) -> memoryview:
        """Return the blob's content, decompressed.

        Raises:
            Truncated: the blob's range is outside the file, or its frame does not end there.
            Unsupported: an unknown codec.
            BadMagic: not a frame of that codec.
            NotCanonical: the frame is damaged, or its content size is missing or wrong.
            LimitExceeded: more bytes or content than `Limits.max_blob_bytes`, or than fits in memory.
            OSError: the file cannot be read.
        """
        stored = self.read_stored(blob)
        if blob.compression_codec is None:
            return stored.view
        if blob.compression_codec not in CODECS:
            raise stored.error(
                Unsupported, "compression-codec", expected=" or ".join(CODECS), actual=repr(blob.compression_codec)
            )
        return decompress(stored, blob.compression_codec, limits=self.limits)


@contextmanager
def open_puffin(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> Iterator[PuffinReader]:
    """Open a Puffin file.

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: bounds on footer and blobs.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the footer is corrupt; see `decode_footer`.
        UsageError: not a source.
        OSError: it cannot be opened or read.
    """
    with open_source(source, storage_options=storage_options) as opened:
        yield PuffinReader(opened, limits=limits)


class PuffinWriter:
    """Writes a Puffin file; a context manager. Bytes equal those of Iceberg Java's ``PuffinWriter`` for the same blobs.

    The file appears when the block ends without an exception, and not at all otherwise.

    Args:
        target: path, URL or writable binary file.
        properties: file properties; by default ``created-by`` names the writer.

    Raises:
        UsageError: not a target, or a property that is not text.
        OSError: the file cannot be written (an existing file is kept); raised when the block begins or ends.

    >>> import io
    >>> out = io.BytesIO()
    >>> with PuffinWriter(out, {"created-by": "docs"}) as writer:
    ...     blob = writer.add("note-v1", b"hello", fields=[1], snapshot_id=2, sequence_number=3)
    >>> blob.offset, blob.length, len(out.getvalue())
    (4, 5, 161)
    """

    def __init__(
        self, target: SinkTarget, properties: Mapping[str, str] | None = None, *, storage_options: StorageOptions = None
    ) -> None:
        self._target, self._storage_options = target, storage_options
        self._properties = _properties(properties)
        self._blobs: list[BlobMetadata] = []
        self._stack = ExitStack()
        self._sink: Sink | None = None
        self.file_size: int | None = None
        """Bytes of the file, once it is complete."""

    def __enter__(self) -> Self:
        self._sink = self._stack.enter_context(open_sink(self._target, storage_options=self._storage_options))
        self._sink.write(MAGIC)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                sink = self._open_sink()
                sink.write(encode_footer(Footer(tuple(self._blobs), self._properties)))
                self.file_size = sink.position
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise
        finally:
            self._sink = None
        self._stack.__exit__(kind, value, trace)

    def add(
        self,
        type: str,  # noqa: A002  (the specification's name)
        data: BytesLike,
        *,
        fields: Sequence[int],
        snapshot_id: int,
        sequence_number: int,
        properties: Mapping[str, str] | None = None,
        compression: str | None = None,
    ) -> BlobMetadata:
        """Append a blob; return its footer entry.

        Args:
            type: blob type.
            data: the content, not compressed.
            fields: field ids.
            snapshot_id: or -1.
            sequence_number: or -1.
            properties: blob properties, written in this order.
            compression: None or ``zstd``.

        Raises:
            UsageError: another compression, `data` is not a contiguous buffer, or the writer is closed.
            OSError: it cannot be written.
        """
        stored = as_view(data) if compression is None else compress(as_view(data), compression)
        metadata = BlobMetadata(
            type, tuple(fields), snapshot_id, sequence_number, 0, 0, compression, _properties(properties)
        )
        return self.add_stored(metadata, stored)

    def add_stored(self, metadata: BlobMetadata, stored: BytesLike) -> BlobMetadata:
        """Append the stored bytes of a blob unchanged; offset and length of `metadata` are replaced.

        Not checked: whether the bytes match `metadata`.

        Raises:
            UsageError: `stored` is not a contiguous buffer, or the writer is closed.
            OSError: it cannot be written.
        """
        view = as_view(stored)
        offset = self._open_sink().write(view)
        blob = replace(metadata, offset=offset, length=len(view))
        self._blobs.append(blob)
        return blob

    def _open_sink(self) -> Sink:
        if self._sink is None:
            raise UsageError("a PuffinWriter must be used in a with block")
        return self._sink


def rewrite_paths(
    source: SourceTarget,
    target: SinkTarget,
    mapping: Mapping[str, str] | Callable[[str], str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
) -> int:
    """Replace the ``referenced-data-file`` of the vectors of a moved table; blobs are copied unchanged.

    Args:
        source: a Puffin file.
        target: where the copy goes; may be the same path.
        mapping: old path -> new path, or a function of the old path. Other paths are kept. An old path that
            no blob has matches other spellings of the same data file (``s3a://`` for ``s3://``).
        limits: bounds on the footer.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The number of blobs that changed.

    Raises:
        UsageError: `mapping` is neither a mapping nor a function, names a path that no blob has, or gives two data
            files one path, or one file two (nothing is written then).
        DecodeError: the footer is corrupt. The blobs are not checked.
        OSError: a file cannot be opened, read or written.
    """
    if not callable(mapping):
        check_type(mapping, Mapping, "mapping", "a mapping of paths or a function")
    with open_puffin(source, limits=limits, storage_options=storage_options) as reader:
        footer = reader.footer
        old = [blob.properties.get(REFERENCED_DATA_FILE) for blob in footer.blobs]
        if isinstance(mapping, Mapping):
            for path in chain(mapping, mapping.values()):
                check_type(path, str, "a path in mapping", "a str")
            table = _by_stored_path(reader.source.name, mapping, old)
            new = [table.get(path, path) if path is not None else None for path in old]
        else:
            rename = mapping
            new = [rename(path) if path is not None else None for path in old]
            for renamed in new:
                check_type(renamed, (str, type(None)), "a path that mapping returns", "a str")
        blobs = tuple(
            blob if path is None else replace(blob, properties={**blob.properties, REFERENCED_DATA_FILE: path})
            for blob, path in zip(footer.blobs, new, strict=True)
        )
        _check_distinct(reader.source.name, old, new)
        with open_sink(target, storage_options=storage_options) as out:
            _copy(reader.source, out, footer.offset)
            out.write(encode_footer(replace(footer, blobs=blobs)))
    return sum(a != b for a, b in zip(old, new, strict=True))


def _properties(given: Mapping[str, str] | None) -> dict[str, str]:
    """Return a copy of properties, which must be text."""
    check_type(given, (Mapping, type(None)), "properties", "a mapping of str to str")
    found = dict(given or {})
    for name, value in found.items():
        check_type(name, str, "the name of a property", "a str")
        check_type(value, str, f"the property {name}", "a str")
    return found


def _by_stored_path(name: str, mapping: Mapping[str, str], old: Sequence[str | None]) -> Mapping[str, str]:
    """Return the mapping with its old paths spelled as the blobs spell them."""
    unmatched = mapping.keys() - set(old)
    if not unmatched:
        return mapping
    spelled: dict[str, set[str]] = {}
    for path in old:
        if path is not None:
            spelled.setdefault(file_key(path), set()).add(path)
    table: dict[str, str] = {}
    for path, new in mapping.items():
        known_as = spelled.get(file_key(path), ()) if path in unmatched else (path,)
        if not known_as:
            raise UsageError(f"{name}: no blob has the referenced-data-file {path!r}")
        for known in known_as:
            if table.setdefault(known, new) != new:
                raise UsageError(f"{name}: {known!r} cannot become both {table[known]!r} and {new!r}")
    return table


def _check_distinct(name: str, old: list[str | None], new: list[str | None]) -> None:
    """Raise if two data files would get the same path; duplicates that exist already are kept."""
    stored = [None if path is None else encodable(path) for path in new]
    owners: dict[str, str] = {}
    for before, after in zip(old, stored, strict=True):
        if after is None or before is None:
            continue
        owner = owners.setdefault(file_key(after), before)
        if owner != before and file_key(owner) != file_key(before):
            raise UsageError(f"{name}: {owner!r} and {before!r} would both become {after!r}")


def _copy(source: Source, sink: Sink, stop: int, step: int = 1 << 24) -> None:
    """Copy the first `stop` bytes, in pieces."""
    for start in range(0, stop, step):
        sink.write(source.read(start, min(step, stop - start)))
