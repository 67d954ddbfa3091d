"""Formats as values: what is known of each, and the door through which other packages add theirs.

A package registers a `Format` under the entry point group ``dvcodec.formats``::

    [project.entry-points."dvcodec.formats"]
    varset = "varset:FORMAT"

The format then has the same rights as those of dvcodec itself: `sniff` detects it, `decode`, `verify`, `describe` and
`convert` take it, and so do the command line and Spark's functions. `dvcodec.testing` has the laws for its tests.

Entry points are loaded when bytes or a name are not known here, once in each process. One that cannot be loaded is
logged in one line, and its name is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeAlias

from dvcodec.core import roaring
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import DecodeError, DvcodecError, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.report import Check
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.text import TextEnum
from dvcodec.core.usage import check_type
from dvcodec.core.vector import Magic, Vector, walk
from dvcodec.io import Source
from dvcodec.io.frames import read_frame
from dvcodec.puffin import BlobMetadata, Footer

__all__ = ["Container", "ContainerKind", "Format", "VectorRef"]

GROUP = "dvcodec.formats"
"""The entry point group."""
HEAD_BYTES = 16
"""First bytes of a file, which detect most formats without another read."""
_LOG = logging.getLogger("dvcodec.formats")


class ContainerKind(TextEnum):
    """The container format of a file.

    Formats of other packages are members too, under their names, but not among those that are listed.
    """

    PUFFIN = "puffin"
    """``PFA1``, blobs, a footer."""
    DELTA = "delta"
    """A version byte and frames; Paimon's 64-bit index files are the same bytes."""
    PAIMON = "paimon"
    """A version byte and frames, at least one of them 32-bit."""
    BLOB = "blob"
    """A single frame (DuckDB, DuckLake)."""
    ROARING64 = "roaring64"
    """A bare 64-bit portable bitmap (Hudi)."""
    ROARING32 = "roaring32"
    """A bare 32-bit portable bitmap (Lance ``.bin``)."""
    MUMBLING = "mumbling"
    """A Mumbling bitmap, as manifests of Iceberg v4 embed it."""
    LANCE_ARROW = "lance-arrow"
    """A Lance deletion file of the Arrow kind (Lance ``.arrow``, extra ``arrow``)."""
    ZAP = "zap"
    """A search segment of bleve, without deletion vectors: see `dvcodec.zap`."""

    @classmethod
    def _missing_(cls, value: object) -> ContainerKind | None:
        return _kind_of(value) if isinstance(value, str) and value in added() else None


OWN_KINDS: Mapping[str, ContainerKind] = {kind.value: kind for kind in ContainerKind}
"""The kinds that dvcodec itself detects, by name."""


@cache
def _kind_of(name: str) -> ContainerKind:
    """Return the kind of a format: a member, or for other packages' formats one that is made for it."""
    if name in OWN_KINDS:
        return OWN_KINDS[name]
    kind = str.__new__(ContainerKind, name)
    kind._name_ = kind._value_ = name
    return kind


@dataclass(frozen=True, slots=True)
class VectorRef:
    """One vector of a container, not yet read.

    Attributes:
        kind: the container's kind.
        offset: first byte of the frame (or of the bare bitmap) in the file.
        size: bytes.
        cardinality: from the container's metadata, None if unknown.
        data_file: the data file whose rows these are, None if unknown.
        blob: its entry in a Puffin footer, else None.
    """

    kind: ContainerKind
    offset: int
    size: int
    cardinality: int | None = None
    data_file: str | None = None
    blob: BlobMetadata | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """A detected container and its vectors.

    Attributes:
        kind: the container format.
        source: name of the file.
        size: bytes of the file.
        vectors: in file order.
        footer: the Puffin footer, None for other kinds.
    """

    kind: ContainerKind
    source: str
    size: int
    vectors: tuple[VectorRef, ...]
    footer: Footer | None = None


class Decode(Protocol):
    """The function that decodes one vector."""

    def __call__(self, buf: BytesLike, /, *, limits: Limits, source: str | None, base: int) -> RowSet:
        """Return the rows; see `Format.decode`."""


Encode: TypeAlias = Callable[[RowSet], bytes]
Sniff: TypeAlias = Callable[[Source, bytes, Limits], bool]
Locate: TypeAlias = Callable[[Source, Limits], Iterable[VectorRef]]
Checks: TypeAlias = Callable[[Source, Container, Limits], Iterable[Check]]


@dataclass(frozen=True, kw_only=True)
class Format:
    """What dvcodec knows of a format. Its functions raise `DecodeError` for corrupt bytes, and `OSError`.

    Attributes:
        name: in lower case, as `sniff` reports it and `convert` takes it.
        title: what a file of it is, for people: ``Mumbling bitmap, as in manifests of Iceberg v4``.
        decode: the bytes of exactly one vector to its rows, with the keywords `limits`, `source` (name of the file) and
            `base` (byte offset of the vector in the file), for errors.
        encode: rows to a file of this one vector; `UsageError` for rows that do not fit. None: it cannot be written.
        sniff: the file, its first 16 bytes and the limits to whether it is of this format, even if damaged: by a magic,
            or by a checksum or a strict decoder, whose `DecodeError` is a no. None: it is known by name alone.
        locate: the file and the limits to its vectors, in file order; None: the file is one vector.
        checks: what `verify` checks of a file before its vectors: the file, the container and the limits to checks.
        checksum: whether a checksum covers every bit: `decode` refuses each flipped one.
        highest: the highest position that fits.
    """

    name: str
    title: str
    decode: Decode
    encode: Encode | None = None
    sniff: Sniff | None = None
    locate: Locate | None = None
    checks: Checks | None = None
    checksum: bool = False
    highest: int = roaring.MAX_DV_POSITION

    def __post_init__(self) -> None:
        for value, name in ((self.name, "name"), (self.title, "title")):
            check_type(value, str, f"Format.{name}", "a str")
        if not self.name.replace("-", "").isalnum() or not self.name.isascii() or self.name != self.name.lower():
            raise UsageError(f"Format.name must be of a-z, 0-9 and -, not {self.name!r:.60}")

    @property
    def kind(self) -> ContainerKind:
        """The kind of its files."""
        return _kind_of(self.name)

    def detects(self, source: Source, head: bytes, limits: Limits) -> bool:
        """Whether a file is of this format; no, and a line in the log, if its function fails.

        Args:
            source: the file.
            head: its first 16 bytes.
            limits: bounds on what the bytes may claim.
        """
        try:
            with _blamed(self.name):
                return self.sniff is not None and bool(self.sniff(source, head, limits))
        except DecodeError:
            return False
        except DvcodecError as err:
            _LOG.warning("%s", err)
            return False

    def open(self, source: Source, limits: Limits) -> Container:
        """Locate the vectors of a file that was detected.

        Args:
            source: the file.
            limits: bounds on what the bytes may claim.

        Raises:
            DecodeError, OSError: the file is damaged, or cannot be read.
        """
        with _blamed(self.name):
            whole = (VectorRef(self.kind, 0, source.size),)
            vectors = whole if self.locate is None else tuple(self.locate(source, limits))
        return Container(self.kind, source.name, source.size, vectors)

    def check(self, source: Source, container: Container, limits: Limits) -> list[Check]:
        """Return the checks of a file before its vectors.

        Args:
            source: the file.
            container: its vectors.
            limits: bounds on what the bytes may claim.
        """
        with _blamed(self.name):
            return [] if self.checks is None else list(self.checks(source, container, limits))

    def read(self, source: Source, ref: VectorRef, limits: Limits, *, verify_checksum: bool = True) -> Vector:
        """Read one vector.

        Args:
            source: the file.
            ref: where the vector is.
            limits: bounds on what the bytes may claim.
            verify_checksum: False skips the CRC of framed vectors.

        Raises:
            DecodeError, OSError: the vector is corrupt, or cannot be read.
        """
        del verify_checksum
        cursor = read_frame(source, ref.offset, ref.size, limits)
        rows = self.load(cursor.view, limits=limits, source=cursor.source, base=cursor.base)
        pieces = roaring.pieces_of(rows.serialized(), gap_keys=False)
        return bare_vector(Magic.PORTABLE64, Cursor(b"".join(pieces), source=cursor.source), limits)

    def load(
        self, buf: BytesLike, *, limits: Limits = DEFAULT_LIMITS, source: str | None = None, base: int = 0
    ) -> RowSet:
        """Decode one vector.

        Args:
            buf: exactly the vector.
            limits: bounds on what the bytes may claim.
            source: name of the file, for errors.
            base: byte offset of the vector in that file, for errors.

        Raises:
            DecodeError: the vector is corrupt.
        """
        with _blamed(self.name):
            rows = self.decode(buf, limits=limits, source=source, base=base)
            check_rows(rows, "what Format.decode returns")
        return rows

    def write(self, rows: RowSet) -> bytes:
        """Encode one vector.

        Raises:
            UsageError: rows that do not fit, or a format that cannot be written.
        """
        if self.encode is None:
            raise UsageError(f"{self.name} cannot be written")
        with _blamed(self.name):
            return self.encode(rows)


def bare_vector(magic: Magic, cursor: Cursor, limits: Limits) -> Vector:
    """Walk a bitmap without a frame, which fills the window.

    Raises:
        DecodeError: it is corrupt.
    """
    limits.check("max_vector_bytes", cursor.remaining, cursor)
    return Vector(magic, walk(magic, cursor, limits, max_key=roaring.MAX_KEY))


@dataclass(frozen=True)
class _Installed:
    """A format of another package: itself, or why it cannot be loaded."""

    package: str
    format: Format | None = None
    problem: str = ""


@cache
def _installed() -> Mapping[str, _Installed]:
    from importlib.metadata import entry_points  # noqa: PLC0415  (slow, and seldom needed)

    found: dict[str, _Installed] = {}
    for entry in entry_points(group=GROUP):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
        problem = None
        try:
            loaded = entry.load()
            if not isinstance(loaded, Format):
                problem = f"{entry.value} is not a dvcodec.Format, but {type(loaded).__name__}"
            elif loaded.name != entry.name or entry.name in OWN_KINDS or entry.name in found:
                problem = f"the name {loaded.name} is not that of its entry point, or is taken"
        except Exception as err:  # noqa: BLE001  (whatever a module of strangers raises)
            problem = f"{type(err).__name__}: {' '.join(str(err).split())}"
        if problem is None:
            found[entry.name] = _Installed(package, loaded)
            continue
        problem = f"format {entry.name} of the package {package} cannot be loaded: {problem}"
        found.setdefault(entry.name, _Installed(package, problem=problem))
        _LOG.warning("%s", problem)
    return found


def added() -> Mapping[str, Format]:
    """Return the formats of other packages by name, without those that cannot be loaded."""
    return {name: one.format for name, one in _installed().items() if one.format is not None}


def added_format(name: str) -> Format | None:
    """Return the format of another package, None if there is none of this name.

    Raises:
        UsageError: it cannot be loaded.
    """
    one = _installed().get(name)
    if one is not None and one.format is None:
        raise UsageError(one.problem)
    return one.format if one else None


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    """Name the package of a format whose function fails in a way that it must not."""
    try:
        yield
    except (DvcodecError, OSError, MemoryError):
        raise
    except Exception as err:
        one = _installed().get(name)
        package = f" of the package {one.package}" if one else ""
        raise DvcodecError(f"format {name}{package} fails: {type(err).__name__}: {err}") from err
