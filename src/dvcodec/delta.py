"""Delta Lake deletion vectors: descriptors, vector files, inline vectors.

Vectors are in files of their own or inline in the log, in either of two layouts. Specification: Delta's PROTOCOL.md,
"Deletion Vector Format" and "Deletion Vector File Storage Format"; Java class ``RoaringBitmapArray``. A file is a
version byte and adjacent frames; the log has their data files::

    u8 1 | frame | frame | ...
    frame   = u32 BE size | magic | bitmaps | u32 BE CRC-32       size = sizeInBytes = magic and bitmaps
    magic   = D1 D3 39 64: 64-bit portable roaring (portable), D0 D3 39 64: i32 count, (i32 length, bitmap) ... (native)

The descriptor, which locates a vector, is that of "Deletion Vector Descriptor Schema" and "Derived Fields"; Java class
``DeletionVectorDescriptor``.

UUIDs and inline vectors are stored as Z85: 4 bytes as 5 characters, most significant first. Specification: ZeroMQ RFC
32, which asks for lengths divisible by 4. For other lengths two paddings are in use:

* Delta Spark and the Java kernel pad with zero bytes; the data ends at the descriptor's size. Used for writing.
* The Rust crate z85 (delta-kernel-rs) writes a tail of n bytes as ``4 - n`` times ``#`` and n + 1 characters.

No valid group begins with ``#`` (it would be above 2**32 - 1), so a reader can distinguish them. Java's reader does
not: it decodes Rust's ``##093`` (03 00) to 08 6e.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import numpy as np

from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike, Cursor, first_true
from dvcodec.core.errors import DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.json_text import parse_json
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import as_count, check_choice, check_type
from dvcodec.core.vector import UNCOUNTED, DvLocation, Magic, StoredFrame, Vector, checked_frames
from dvcodec.io import SinkTarget, Source, SourceTarget, StorageOptions, frames, open_source
from dvcodec.io.frames import VERSION, Range, encoded, load_ranges, read_frame, read_frames, write_frames
from dvcodec.io.target import check_reach, check_step, hide_values, protocols

__all__ = [
    "EMPTY",
    "Descriptor",
    "decode",
    "decode_inline",
    "encode",
    "encode_inline",
    "load",
    "load_frames",
    "new_file",
    "read_deletion_vectors",
    "read_frames",
    "write_deletion_vectors",
    "write_stored_vectors",
]


ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = np.frombuffer(ALPHABET, np.uint8)
_NOT_A_DIGIT = 255
_VALUES = np.full(256, _NOT_A_DIGIT, np.uint8)
_VALUES[_DIGITS] = np.arange(len(ALPHABET))
_POWERS = 85 ** np.arange(4, -1, -1, dtype=np.int64)


def encode_z85(data: bytes) -> str:
    """Encode bytes; a tail of 1 to 3 bytes is padded with zero bytes (Java's way)."""
    padded = data + bytes(-len(data) % 4)
    groups = np.frombuffer(padded, ">u4").astype(np.int64)
    return bytes(_DIGITS[(groups[:, None] // _POWERS) % 85].tobytes()).decode()


def decode_z85(text: str, size: int | None = None, *, source: str | None = None) -> bytes:
    """Decode either padding.

    Args:
        text: the characters.
        size: bytes of the data (a descriptor's `sizeInBytes`); None keeps Java's padding.
        source: name of the log, for errors.

    Raises:
        NotCanonical: a length not divisible by 5, a character outside the alphabet, a group above 2**32 - 1,
            padding that is not zero, or more data than `size`.
        Truncated: less data than `size`.
        UsageError: `text` is not a str, or `size` is not an integer, or negative.
    """
    check_type(text, str, "text", "a str")
    size = None if size is None else as_count(size, "size_in_bytes")
    raw = text.encode("utf-8", "surrogatepass")

    def error(what: str, at: int, expected: str, actual: object, kind: type[DecodeError] = NotCanonical) -> DecodeError:
        return kind(what, source=source, offset=at, expected=expected, actual=actual)

    if len(raw) % 5:
        raise error("length of Z85 text", 0, "a multiple of 5", len(raw))
    last = raw[-5:].lstrip(b"#")
    tail = len(last) - 1 if 2 <= len(last) <= 4 else 0  # bytes that Rust has padded
    digits = _VALUES[np.frombuffer(raw[:-5] + last.rjust(5, b"0") if tail else raw, np.uint8)]
    if (i := first_true(digits == _NOT_A_DIGIT)) is not None:
        raise error("Z85 character", i, "one of the alphabet", repr(chr(raw[i])))
    values = digits.reshape(-1, 5).astype(np.int64) @ _POWERS
    if (i := first_true(values >= 1 << 32)) is not None:
        raise error("Z85 group", 5 * i, "a value below 2**32", repr(text[5 * i : 5 * i + 5]))
    data = values.astype(">u4").tobytes()
    if tail:
        if any(data[-4:-tail]):
            raise error("Z85 tail", len(raw) - 5, f"{tail} bytes", repr(text[-5:]))
        data = data[:-4] + data[-tail:]
    excess = b"" if size is None else data[size:]
    if size is not None and (len(data) < size or (tail and excess)):
        kind = Truncated if len(data) < size else NotCanonical
        raise error("Z85 text", 0, f"{size} bytes", len(data), kind)
    if len(excess) > 3 or any(excess):
        raise error("Z85 padding", 0, "at most 3 zero bytes", excess[:8].hex(" "))
    return data[:size]


INLINE, UUID_RELATIVE, ABSOLUTE, RELATIVE = "i", "u", "p", "r"
STORAGE_TYPES = {
    UUID_RELATIVE: "a UUID and an optional prefix, relative to the table",
    INLINE: "inline",
    ABSOLUTE: "an absolute URL",
    RELATIVE: "a path relative to the table (feature adaptiveMetadata)",
}
UUID_CHARS = 20
"""Length of a UUID in Z85, at the end of `pathOrInlineDv`, after the prefix."""
_FILE_NAME = re.compile(r"deletion_vector_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.bin")
_SURROGATES = re.compile("[\ud800-\udfff]")
_INT32_MAX = 2**31 - 1
_WHAT = "deletion vector descriptor"
MEMBERS = (
    ("storageType", "storage_type", str),
    ("pathOrInlineDv", "path_or_inline_dv", str),
    ("offset", "offset", int),
    ("sizeInBytes", "size_in_bytes", int),
    ("cardinality", "cardinality", int),
)
"""Members of a descriptor in the order of the protocol, the fields of `Descriptor` that have them, and their types."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One ``deletionVector`` struct.

    Attributes:
        storage_type: ``u``, ``i``, ``p`` or ``r``.
        path_or_inline_dv: ``u``: prefix and Z85 UUID; ``i``: the vector in Z85; ``p``: a URL; ``r``: a path.
        size_in_bytes: bytes of magic and bitmap, without length field and CRC.
        cardinality: number of deleted rows.
        offset: byte offset of the frame in the file; None if absent (always for inline).

    Raises:
        UsageError: a field of a wrong type, or the fields violate the protocol.

    >>> d = Descriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 34, 2, offset=1)
    >>> d.path("s3://bucket/table/")
    's3://bucket/table/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    >>> d.unique_id
    'uab^-aqEH.-t@S}K{vb[*k^@1'
    """

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise UsageError(f"{_WHAT}: {problem}")

    def _problem(self) -> str | None:
        for name, field, kind in MEMBERS:
            value = getattr(self, field)
            if (not isinstance(value, kind) or isinstance(value, bool)) and not (name == "offset" and value is None):
                return f"{name} must be of type {kind.__name__}, not {value!r:.60}"
        if self.storage_type not in STORAGE_TYPES:
            return f"storageType {self.storage_type!r} is not one of {', '.join(STORAGE_TYPES)}"
        if not 0 <= self.size_in_bytes <= _INT32_MAX:
            return f"sizeInBytes {self.size_in_bytes} is not between 0 and {_INT32_MAX}"
        if not 0 <= self.cardinality < 2**63:
            return f"cardinality {self.cardinality} is not between 0 and 2**63 - 1"
        if self.storage_type == INLINE and self.offset is not None:
            return f"offset {self.offset} given for an inline vector"
        if self.offset is not None and not 0 <= self.offset <= _INT32_MAX:
            return f"offset {self.offset} is not between 0 and {_INT32_MAX}"
        if self.storage_type == UUID_RELATIVE and len(self.path_or_inline_dv) < UUID_CHARS:
            return f"pathOrInlineDv {self.path_or_inline_dv!r} is shorter than {UUID_CHARS} characters"
        if self.storage_type in (ABSOLUTE, RELATIVE) and not self.path_or_inline_dv:
            return "pathOrInlineDv is empty"
        return None

    @classmethod
    def from_json(cls, text: str | bytes | Mapping[str, Any], *, source: str | None = None) -> Descriptor:
        """Decode a descriptor from a log: JSON text, or the parsed object (such as a checkpoint's struct).

        `offset` may be absent or null; members unknown to the protocol are ignored.

        Args:
            text: the JSON text, or the object.
            source: name of the log, for errors.

        Raises:
            NotCanonical: not JSON, a member is missing or has the wrong type, or the protocol is violated.
            UsageError: neither text nor a mapping.
        """
        check_type(text, (str, bytes, bytearray, Mapping), "text", "JSON text or a mapping")
        members: Any = text
        if not isinstance(text, Mapping):
            members = parse_json(text if isinstance(text, str) else bytes(text), source, _WHAT)
        if not isinstance(members, Mapping):
            raise _error(source, "a JSON object", type(members).__name__)
        values: dict[str, Any] = {}
        for name, field, kind in MEMBERS:
            value = values[field] = members.get(name)
            if (not isinstance(value, kind) or isinstance(value, bool)) and not (name == "offset" and value is None):
                raise _error(source, f"{name} of type {kind.__name__}", repr(value)[:60])
        try:
            return cls(**values)
        except UsageError as err:
            raise _error(source, "a valid descriptor", str(err).removeprefix(f"{_WHAT}: ")) from None

    def to_json(self) -> str:
        """Encode the descriptor as Delta does: members in protocol order, no spaces, no `offset` if absent."""
        members = {name: getattr(self, field) for name, field, _ in MEMBERS if getattr(self, field) is not None}
        return json.dumps(members, separators=(",", ":"), ensure_ascii=False)

    @property
    def unique_id(self) -> str:
        """The vector's identity in the log; with the data file's path, the key of the logical file."""
        suffix = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{suffix}"

    @property
    def is_inline(self) -> bool:
        """Whether the descriptor contains the vector."""
        return self.storage_type == INLINE

    @property
    def frame_size(self) -> int:
        """Bytes of the whole frame in the file."""
        return self.size_in_bytes + UNCOUNTED

    @property
    def file_uuid(self) -> uuid.UUID:
        """UUID in the file's name (storage type ``u``).

        Raises:
            UsageError: another storage type.
            NotCanonical: the last 20 characters are not Z85.
        """
        if self.storage_type != UUID_RELATIVE:
            raise UsageError(f"storage type {self.storage_type!r} has no UUID")
        return uuid.UUID(bytes=decode_z85(self.path_or_inline_dv[-UUID_CHARS:], 16, source="pathOrInlineDv"))

    def path(self, folder: str | None = None) -> str:
        """Return the path or URL of the vector's file.

        Args:
            folder: the table's folder, path or URL, with or without a trailing slash, not percent-decoded. Not needed
                for ``p``, which is percent-decoded (a ``file:`` URL becomes a local path).

        Raises:
            UsageError: the vector is inline, or `folder` is missing or not a str.
            NotCanonical: the path is outside the table's folder, or ``p`` is not a URL.
        """
        if self.is_inline:
            raise UsageError("an inline vector is stored in the log, not in a file")
        if self.storage_type == ABSOLUTE:
            return self._absolute_path()
        if not folder:
            raise UsageError(f"storage type {self.storage_type!r} is relative: pass the table's folder")
        check_type(folder, str, "folder", "a str")
        if self.storage_type == RELATIVE:
            relative = self.path_or_inline_dv
        else:
            prefix = self.path_or_inline_dv[:-UUID_CHARS]
            relative = f"{prefix}{'/' if prefix else ''}deletion_vector_{self.file_uuid}.bin"
        if relative.startswith("/") or ".." in re.split(r"[/\\]", unquote(relative)):
            raise _error(None, "a path inside the table", repr(relative))
        check_step(relative, folder)
        return _printable(f"{folder.rstrip('/')}/{relative}")

    def _absolute_path(self) -> str:
        url = self.path_or_inline_dv
        try:
            parts = urlsplit(url)
        except ValueError as err:
            raise _error(None, "a URL", f"{url!r}: {err}") from None
        if not parts.scheme and not url.startswith("/"):
            raise _error(None, "an absolute URL", repr(url))
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            return _printable(unquote(url))
        if not parts.path.startswith("/") or parts.query or parts.fragment:
            raise _error(None, "a file URL with only a path", repr(url))
        return _printable(unquote(parts.path))

    @classmethod
    def from_location(cls, location: DvLocation, folder: str | None = None) -> Descriptor:
        """Return the descriptor of a written vector.

        Storage type ``u`` if the file is below `folder` and has a Delta name (see `new_file`), else ``p``.

        Args:
            location: where it is, as `write_deletion_vectors` returned it.
            folder: the table's folder (path or URL); None: storage type ``p``.

        Raises:
            UsageError: an argument of a wrong type, or the path is not below `folder`, absolute, or a URL.
        """
        check_type(location, DvLocation, "location", "a DvLocation")
        check_type(folder, (str, type(None)), "folder", "a str")
        size, offset = location.size - UNCOUNTED, location.offset
        if folder is not None and location.path.startswith(folder.rstrip("/") + "/"):
            prefix, _, name = location.path[len(folder.rstrip("/")) + 1 :].rpartition("/")
            match = _FILE_NAME.fullmatch(name)
            if match and "/" not in prefix:
                encoded = encode_z85(uuid.UUID(match[1]).bytes)
                return cls(UUID_RELATIVE, prefix + encoded, size, location.cardinality, offset)
        return cls(ABSOLUTE, _as_url(location.path), size, location.cardinality, offset)


def _printable(path: str) -> str:
    """Check that a path has no NUL and no lone surrogates."""
    if "\0" in path or _SURROGATES.search(path):
        raise _error(None, "a path without NUL and lone surrogates", repr(path))
    return path


def _as_url(path: str) -> str:
    if urlsplit(path).scheme and not path.startswith("/"):
        return quote(os.fsencode(path), safe="/:@!$&'()*+,;=-._~")
    if not path.startswith("/"):
        raise UsageError(f"{path!r} is neither below the table's folder nor an absolute path or URL")
    return "file://" + quote(os.fsencode(path))


def _error(source: str | None, expected: str, actual: str) -> DecodeError:
    return NotCanonical(_WHAT, source=source, expected=expected, actual=actual)


def new_file(folder: str, prefix: str = "") -> str:
    """Return a new path for a vector file, named as in Delta: ``[prefix/]deletion_vector_<uuid>.bin``.

    No file is created. Not checked: the prefix (Delta uses random letters and digits).

    Args:
        folder: the table's folder (path or URL).
        prefix: folder below it; empty for none.

    Raises:
        UsageError: an argument that is not a str.
    """
    check_type(folder, str, "folder", "a str")
    check_type(prefix, str, "prefix", "a str")
    below = f"{prefix}/" if prefix else ""
    return f"{folder.rstrip('/')}/{below}deletion_vector_{uuid.uuid4()}.bin"


EMPTY = Descriptor(INLINE, "", 0, 0)
"""The descriptor for no deleted rows."""


MAGICS = (Magic.PORTABLE64, Magic.NATIVE64)
_LAYOUTS = {"portable": Magic.PORTABLE64, "native": Magic.NATIVE64}


def magic_of(layout: str) -> Magic:
    """Return the magic of a layout by its name, ``portable`` or ``native``.

    Raises:
        UsageError: another name.
    """
    check_choice(layout, _LAYOUTS, "layout")
    return _LAYOUTS[layout]


def decode_inline(
    text: str,
    size_in_bytes: int | None = None,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    source: str | None = None,
) -> RowSet:
    """Decode an inline vector; inline vectors have no checksum.

    Args:
        text: `pathOrInlineDv`, with either Z85 padding.
        size_in_bytes: `sizeInBytes`; without it, the zero bytes of Java's padding are an error.
        cardinality: from the descriptor; None skips the check.
        limits: bounds on what the bytes may claim.
        source: name of the log, for errors.

    Raises:
        DecodeError: the text is not Z85, or the vector is corrupt.
        UsageError: `size_in_bytes` is negative, or an argument has a wrong type.
    """
    return read_inline(text, size_in_bytes, cardinality=cardinality, limits=limits, source=source).load()


def read_inline(
    text: str,
    size_in_bytes: int | None = None,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    source: str | None = None,
) -> Vector:
    """Decode the text and walk the vector: `decode_inline` without expanding the rows.

    Raises:
        DecodeError: the text is not Z85, or the bytes are not a vector. Not checked: array order and bitset population
            (`Vector.check`).
        UsageError: `size_in_bytes` is negative, or an argument has a wrong type.
    """
    vector.check_count(cardinality)
    name = source or "<inline>"
    data = decode_z85(text, size_in_bytes, source=name)
    cursor = Cursor(data, source=name)
    return vector.read_payload(cursor, allowed=MAGICS, cardinality=cardinality, limits=limits)


def encode_inline(rows: RowSet, *, layout: str = "portable", run_optimize: bool = True) -> Descriptor:
    """Encode a vector into its descriptor, with Java's padding (Rust reads it too).

    Not checked: readers that store the text in Java's modified UTF-8 fail above 65,535 characters.

    Args:
        rows: the deleted rows; the descriptor of an empty set is `EMPTY`.
        layout: ``portable`` or ``native``.
        run_optimize: False writes no run containers.

    Raises:
        UsageError: not a `RowSet`, a position or a size that does not fit the format, or an unknown layout.

    >>> d = encode_inline(RowSet([3, 4, 7, 11, 18, 29]))
    >>> d.size_in_bytes, d.cardinality, d.path_or_inline_dv
    (44, 6, '^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L')
    """
    check_rows(rows)
    magic = magic_of(layout)
    if not rows:
        return EMPTY
    data = magic.value + vector.encode_payload(rows, magic, run_optimize=run_optimize)
    return Descriptor(INLINE, encode_z85(data), len(data), rows.cardinality)


def decode(
    buf: BytesLike,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one frame of a vector file, portable or native.

    Args:
        buf: exactly the frame: ``sizeInBytes + 8`` bytes from the descriptor's offset.
        cardinality: the descriptor's `cardinality`; None skips the check.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        source: name of the file, for errors.
        base: byte offset of the frame in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the data file's row count.

    Raises:
        DecodeError: the frame is corrupt: `Truncated`, `ChecksumMismatch`, `BadMagic`, `NotCanonical`,
            `CardinalityMismatch` or `LimitExceeded`.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type or is negative.

    >>> decode(encode(RowSet([1, 3, 5]), layout="native"), cardinality=3)
    RowSet([1, 3, 5])
    """
    vector.check_count(cardinality)
    cursor = Cursor(buf, source=source, base=base)
    return vector.load(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum)


def encode(rows: RowSet, *, layout: str = "portable", run_optimize: bool = True, gap_keys: bool = True) -> bytes:
    """Encode one frame.

    The defaults give the bytes of Delta Spark for a fresh vector. Delta Spark does not run-optimise *merged* vectors,
    so they may have other containers.

    Args:
        rows: the deleted rows.
        layout: ``portable``, the one written to files, or ``native``.
        run_optimize: False writes no run containers (delta-kernel-rs).
        gap_keys: False omits the empty bitmaps below the highest key (delta-kernel-rs); native always has them.

    Raises:
        UsageError: not a `RowSet`, a position or a size that does not fit the format, or an unknown layout.
    """
    magic = magic_of(layout)
    return vector.build(magic, *vector.encode_pieces(rows, magic, run_optimize=run_optimize, gap_keys=gap_keys))


def load(
    location: DvLocation | Descriptor,
    folder: str | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    allow: Iterable[str] = (),
    storage_options: StorageOptions = None,
) -> RowSet:
    """Read one vector by its byte range and check it against its location.

    Args:
        location: a descriptor from the log, or what `write_deletion_vectors` returned.
        folder: the table's folder (path or URL), for descriptors with a relative path.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        allow: protocols allowed in an absolute path, besides those of `folder` and of object stores: ``http``;
            ``file`` where `folder` is remote.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the vector is corrupt, or its size or cardinality differs from the descriptor's. For a file outside
            `folder` the error shows no values found in it.
        Unsupported: an absolute path that `allow` does not cover.
        UsageError: not a location, a relative path without `folder`, or `allow` is not a collection of protocols.
        OSError: the file cannot be opened or read.
    """
    _check_location(location)
    check_type(folder, (str, type(None)), "folder", "a str")
    if isinstance(location, DvLocation):
        path = location.path
    elif location == EMPTY:
        return RowSet()
    elif location.is_inline:
        return decode_inline(
            location.path_or_inline_dv, location.size_in_bytes, cardinality=location.cardinality, limits=limits
        )
    else:
        path = location.path(folder)
        if location.storage_type == ABSOLUTE:
            check_reach(path, folder, protocols(allow))
    with hide_values(path, folder), open_source(path, storage_options=storage_options) as source:
        return read_vector(source, location, limits, verify_checksum=verify_checksum).load()


def _check_location(location: object) -> None:
    check_type(location, (DvLocation, Descriptor), "location", "a DvLocation or a Descriptor")


def _range(source: Source, location: DvLocation | Descriptor) -> Range:
    """Return the range of a frame.

    An absent offset means 0 in the protocol and in Java, 1 in delta-kernel-rs. Here: 1 if byte 0 is the version of
    a vector file (which cannot begin a frame), else 0.
    """
    offset = location.offset
    if offset is None:
        offset = 1 if bytes(source.read(0, 1)) == bytes([VERSION]) else 0
    return offset, location.size if isinstance(location, DvLocation) else location.frame_size, location.cardinality


def read_vector(
    source: Source, location: DvLocation | Descriptor, limits: Limits = DEFAULT_LIMITS, *, verify_checksum: bool = True
) -> Vector:
    """`load` from an open file, without expanding the rows.

    Raises:
        DecodeError: see `load`. Not checked: array order and bitset population (`Vector.check`).
        OSError: the file cannot be read.
    """
    offset, size, cardinality = _range(source, location)
    cursor = read_frame(source, offset, size, limits)
    return vector.read(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum)


def read_deletion_vectors(
    source: SourceTarget,
    locations: Iterable[DvLocation] | Mapping[str, Descriptor],
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> dict[str, RowSet]:
    """Read vectors of one vector file by their byte ranges: data file -> deleted rows.

    The file does not name data files; use `load_frames` without the log.

    Args:
        source: bytes, path, URL, open file or `Source`.
        locations: data file -> descriptor, from the log; or what `write_deletion_vectors` returned. Paths in them are
            ignored: all are read from `source`.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: a vector is corrupt, or its size or cardinality differs from the descriptor's.
        UsageError: not locations, an inline vector, a location without a data file, or two locations of one data file.
        OSError: the file cannot be opened or read.
    """
    check_type(locations, Iterable, "locations", "an iterable of DvLocation or a mapping of data files to Descriptor")
    named: Iterable[tuple[str | None, DvLocation | Descriptor]] = (
        locations.items()
        if isinstance(locations, Mapping)
        else ((getattr(one, "data_file", None), one) for one in locations)
    )
    ranges: dict[str, Range] = {}
    with open_source(source, storage_options=storage_options) as opened:
        for data_file, location in named:
            _check_location(location)
            if isinstance(location, Descriptor) and location.is_inline:
                raise UsageError(f"{data_file}: the vector is inline, not in {opened.name}")
            if data_file is None or data_file in ranges:
                problem = "no data file" if data_file is None else f"a second vector for the data file {data_file!r}"
                raise UsageError(f"{opened.name}, vector at byte {location.offset}: {problem}")
            ranges[data_file] = _range(opened, location)
        found = load_ranges(
            opened, list(ranges.values()), allowed=MAGICS, limits=limits, verify_checksum=verify_checksum
        )
    return dict(zip(ranges, found, strict=True))


def load_frames(
    source: SourceTarget,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> dict[int, RowSet]:
    """Read all vectors of a vector file: offset of the frame -> deleted rows.

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the file or a vector is corrupt.
        OSError: the file cannot be opened or read.
    """
    with open_source(source, storage_options=storage_options) as opened:
        return frames.load_frames(opened, allowed=MAGICS, limits=limits, verify_checksum=verify_checksum)


def write_deletion_vectors(
    target: SinkTarget,
    vectors: Mapping[str, RowSet],
    *,
    run_optimize: bool = True,
    gap_keys: bool = True,
    storage_options: StorageOptions = None,
) -> list[DvLocation]:
    """Write one vector file with a frame for each data file, in the order of the mapping.

    Args:
        target: path, URL or writable file; `new_file` gives a Delta name.
        vectors: data file -> deleted rows.
        run_optimize: see `encode`.
        gap_keys: see `encode`.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The location of each vector; `Descriptor.from_location` converts it to a log entry. No vectors: no file.

    Raises:
        UsageError: not row sets by data file, a row set that does not fit, or a file of more than 2**31 - 1 bytes
            (nothing is written then).
        OSError: the file cannot be written (an existing file is kept).
    """
    stored = encoded(vectors, partial(encode, run_optimize=run_optimize, gap_keys=gap_keys))
    return write_stored_vectors(target, stored, storage_options=storage_options)


def write_stored_vectors(
    target: SinkTarget, vectors: Iterable[StoredFrame], *, storage_options: StorageOptions = None
) -> list[DvLocation]:
    """Write frames unchanged: conversion without re-encoding. Their contents are not checked.

    Args:
        target: path, URL or writable file; `new_file` gives a Delta name.
        vectors: the frames. No frames: no file.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: not frames, or a file of more than 2**31 - 1 bytes (nothing is written then).
        OSError: the file cannot be written (an existing file is kept).
    """
    items = checked_frames(vectors)
    first = next(items, None)
    if first is None:
        return []
    return write_frames(target, chain([first], items), lambda _: "delta", storage_options=storage_options)
