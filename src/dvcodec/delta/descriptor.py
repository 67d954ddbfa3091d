"""The deletion vector descriptor of a Delta log, which locates a vector.

Specification: Delta's PROTOCOL.md, "Deletion Vector Descriptor Schema" and "Derived Fields"; Java class
``DeletionVectorDescriptor``.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.json_text import parse_json
from dvcodec.core.usage import check_type
from dvcodec.core.vector import UNCOUNTED, DvLocation
from dvcodec.delta import z85
from dvcodec.io.allowed_locations import check_step

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
_KINDS = (
    ("storage_type", str),
    ("path_or_inline_dv", str),
    ("size_in_bytes", int),
    ("cardinality", int),
    ("offset", int),
)
_MEMBERS = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")


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
        for name, kind in _KINDS:
            value = getattr(self, name)
            if not isinstance(value, kind) and not (name == "offset" and value is None):
                return f"{name} must be of type {kind.__name__}, not {type(value).__name__}"
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
        # In the order of the fields of this class.
        kinds = {"storageType": str, "pathOrInlineDv": str, "sizeInBytes": int, "cardinality": int, "offset": int}
        for name, kind in kinds.items():
            value = members.get(name)
            if name == "offset" and value is None:
                continue
            if not isinstance(value, kind) or isinstance(value, bool):
                raise _error(source, f"{name} of type {kind.__name__}", repr(value)[:60])
        try:
            values: list[Any] = [members.get(name) for name in kinds]
            return cls(*values)
        except UsageError as err:
            raise _error(source, "a valid descriptor", str(err).removeprefix(f"{_WHAT}: ")) from None

    def to_json(self) -> str:
        """Encode the descriptor as Delta does: members in protocol order, no spaces, no `offset` if absent."""
        values = (self.storage_type, self.path_or_inline_dv, self.offset, self.size_in_bytes, self.cardinality)
        members = {name: value for name, value in zip(_MEMBERS, values, strict=True) if value is not None}
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
        return uuid.UUID(bytes=z85.decode(self.path_or_inline_dv[-UUID_CHARS:], 16, source="pathOrInlineDv"))

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
                encoded = z85.encode(uuid.UUID(match[1]).bytes)
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
