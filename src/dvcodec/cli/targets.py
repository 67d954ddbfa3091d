"""Targets of commands: files, globs, folders, ``path@offset:size``, URLs and ``-``; options, and iteration over them.

Of tables among the folders, superseded vectors and missing files are reported.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dvcodec.cli.common import complain, storage
from dvcodec.cli.render import track
from dvcodec.cli.tables import KINDS
from dvcodec.core.errors import DecodeError, DvcodecError, Truncated, Unsupported, UsageError
from dvcodec.core.report import Check, Report, Status
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import counted
from dvcodec.core.vector import UNCOUNTED, Magic, Vector, peek_size
from dvcodec.dialects import DIALECTS
from dvcodec.formats import Container, VectorRef
from dvcodec.io import SinkTarget, Source, is_partial, is_url, open_source, read_window
from dvcodec.io.opening import find_remote, has_pattern, without_query
from dvcodec.io.source import beyond_end
from dvcodec.io.store import Reason, StoreError, open_store
from dvcodec.io.target import is_local
from dvcodec.ops.convert import TARGETS
from dvcodec.ops.read import ahead, read_vector, refuse_segment, sniff_source
from dvcodec.tables import Snapshot, TableKind, open_table
from dvcodec.tables.model import NO_SNAPSHOT

_SLICE = re.compile(r"^(?P<path>.+)@(?P<offset>\d+)(?::(?P<size>\d+))?$", re.DOTALL)
# File names of deletion vectors in Iceberg, Delta and Lance. Paimon's index files share their names with its hash
# indexes.
_VECTOR_FILE = re.compile(r"(\.puffin|/deletion_vector_[0-9a-f-]{36}\.bin|/_deletions/[^/]+\.(arrow|bin))$")
_DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""What is open already, such as ``<(...)`` of a shell; other pipes are refused, as a pipe without a writer blocks."""
_SMALLEST = 8
"""Bytes of the smallest vector: a bare bitmap without rows."""
_SEGMENT_FILE = re.compile(r"\.zap$")


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to read.

    Attributes:
        path: file, URL, or ``-`` for standard input.
        offset: first byte, None for the whole file.
        size: bytes, None for the vector that begins at `offset`, or for the rest of the file.
        found: whether it was found in a folder; a file without vectors is then not an error.
    """

    path: str
    offset: int | None = None
    size: int | None = None
    found: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """An open container.

    Attributes:
        source: the whole file.
        container: result of sniffing the file, or the named part of it; offsets are in the file.
        named: the whole file, or the named part of it.
    """

    source: Source
    container: Container
    named: Source

    def errors_of_file(self) -> AbstractContextManager[None]:
        """Make offsets of errors in `named` relative to the file."""
        return self.named.errors_of_file() if isinstance(self.named, Part) else nullcontext()

    def read(self, ref: VectorRef) -> Vector:
        """Read and walk one vector."""
        return read_vector(self.source, ref, limits=storage().limits)

    def rows(self) -> Iterator[tuple[VectorRef, RowSet]]:
        """Read all vectors."""
        for ref in self.container.vectors:
            yield ref, self.read(ref).load()


def expand(names: list[str]) -> list[Target]:
    """Resolve names to targets, in order; files of folders and globs are sorted.

    Raises:
        UsageError: a glob or folder without files, an empty name, or a part of a file that is not a byte range.
    """
    return [target for name in names for target in _expand(name)]


def only(name: str) -> Target:
    """Resolve a name to exactly one target.

    Raises:
        UsageError: a folder, or a glob of several files.
    """
    targets = expand([name])
    if len(targets) != 1 or targets[0].found:
        raise UsageError(f"{name}: expected one file, found {len(targets)} in a folder or glob")
    return targets[0]


def check_name(name: str) -> None:
    """Refuse an empty name, which the operating system takes for the current folder.

    Raises:
        UsageError: it is empty.
    """
    if not name:
        raise UsageError("expected a target, found an empty name")


def _expand(name: str) -> list[Target]:
    check_name(name)
    path = Path(name)
    if name == "-":
        return [Target(name)]
    if is_url(name) and not is_local(name):
        return _expand_remote(name)
    if path.is_dir():
        files = [Target(str(file), found=True) for file in sorted(_walk(path)) if file.is_file()]
        if not files:
            raise UsageError(f"{name}: no files in this folder")
        return files
    if path.exists():
        return [Target(name)]
    match = _SLICE.match(name)
    if match:
        return [_slice(match)]
    if glob.has_magic(name):
        matches = [Target(str(found)) for found in sorted(_glob(path)) if found.is_file()]
        if not matches:
            raise UsageError(f"{name}: no such files")
        return matches
    file, at, part = name.rpartition("@")
    if at and Path(file).is_file():
        raise UsageError(f"{name}: after @ expected OFFSET or OFFSET:SIZE in bytes, found {part!r}")
    return [Target(name)]


def _expand_remote(name: str) -> list[Target]:
    """Expand a URL; if it matches nothing, opening it fails with the store's error."""
    match = _SLICE.match(name)
    if match:
        if _is_object(name):
            return [Target(name)]
        if has_pattern(match["path"]) and not _is_object(match["path"]):
            raise UsageError(f"{name}: an offset needs one file, not a pattern")
        return [_slice(match)]
    if not (has_pattern(name) or name.endswith("/")) and _is_named_so(name, segments=True):
        return [Target(name)]
    found = find_remote(name, storage())
    if found is None:
        if has_pattern(name) or name.endswith("/"):
            raise UsageError(f"{name}: no such files")
        return [Target(name)]
    return [Target(file.location, found=found.folder is not None and not found.is_pattern) for file in found.files]


def _slice(match: re.Match[str]) -> Target:
    size = match["size"]
    return Target(match["path"], int(match["offset"]), None if size is None else int(size))


def _is_object(name: str) -> bool:
    """Whether there is an object of exactly this name; False if the store refuses the request."""
    store, key = open_store(name, storage().options)
    try:
        store.head(key)
    except StoreError as err:
        if err.reason in (Reason.UNREACHABLE, Reason.TIMEOUT):
            raise
        return False
    return True


def _walk(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder, except unfinished ones of killed writers; links are not followed."""
    for parent, _, files in os.walk(folder):
        yield from (Path(parent, file) for file in files if not is_partial(file))


def _glob(pattern: Path) -> Iterator[Path]:
    """Yield matches, as a shell does: ``*`` does not match hidden files.

    ``**`` does not follow links, which may form cycles.
    """
    parts = [part if part == "**" else re.sub(r"\*+", "*", part) for part in pattern.parts[bool(pattern.anchor) :]]
    wanted = Path(*parts, "*") if parts[-1] == "**" else Path(*parts)
    hidden = any(map(_is_hidden, parts))
    for found in Path(pattern.anchor).glob(str(wanted)):
        if hidden or not any(map(_is_hidden, found.parts)):
            yield found


def _is_hidden(part: str) -> bool:
    return part.startswith(".") and part != ".."


class Part:
    """A part of a source, from byte `base` of the file, as a source."""

    def __init__(self, source: Source, base: int, size: int) -> None:
        self.name, self.base, self.size = source.name, base, size
        self._source = source

    def read(self, offset: int, size: int) -> memoryview:
        """Return bytes, or raise `Truncated`."""
        if offset < 0 or offset + size > self.size:
            raise beyond_end(self, offset, size)
        return self._source.read(self.base + offset, size)

    @contextmanager
    def errors_of_file(self) -> Iterator[None]:
        """Make offsets of errors relative to the file."""
        try:
            yield
        except DecodeError as err:
            if err.offset is not None:
                err.offset += self.base
            raise


def _part(source: Source, target: Target) -> Part:
    """Return the named part. As in `decode_at`, its size is the frame's, or 8 bytes less as in Delta's log."""
    base, size = target.offset or 0, target.size
    left = source.size - base
    if size is not None and left < size:
        raise beyond_end(source, base, size)
    if left < 1:
        actual = f"{max(left, 0)} left of {source.size}"
        raise Truncated("byte range", source=source.name, offset=base, expected="a vector", actual=actual)
    named = left if size is None else size
    if named < _SMALLEST:  # the single byte 1 is a file without vectors, but not a vector
        expected, actual = f"a vector of at least {_SMALLEST} bytes", f"{named} bytes"
        raise Truncated("byte range", source=source.name, offset=base, expected=expected, actual=actual)
    head = read_window(source, base, min(left, 8))
    if Magic.find(bytes(head.view[4:])) is not None:
        claimed = peek_size(head)
        if claimed <= left and (size is None or size + UNCOUNTED == claimed):
            size = claimed
    return Part(source, base, left if size is None else size)


@contextmanager
def _open_file(target: Target) -> Iterator[Source]:
    if target.path == "-" and sys.stdin is None:
        raise UsageError("standard input is closed")
    if target.path == "-":
        with open_source(sys.stdin.buffer.read(), name="<stdin>") as source:
            yield source
    elif target.path.startswith(_DESCRIPTORS):
        with Path(target.path).open("rb") as file, open_source(file, name=target.path) as source:
            yield source
    else:
        with open_source(target.path, storage_options=storage()) as source:
            yield source


@contextmanager
def open_source_of(target: Target) -> Iterator[Source]:
    """Open the bytes of a target; offsets of errors are relative to the file, even for a part of it."""
    with _open_file(target) as file, _cut(file, target) as named:
        yield named


@contextmanager
def _cut(file: Source, target: Target) -> Iterator[Source]:
    """Yield the part of an open file that the target names; offsets of errors are relative to the file."""
    if target.offset is None:
        yield file
    else:
        part = _part(file, target)
        with part.errors_of_file():
            yield part


@contextmanager
def open_target(target: Target, *, segments: bool = False) -> Iterator[Opened | None]:
    """Open and sniff a target; None for a file of a folder that the command does not handle.

    A file in a folder that is named like a container must be one; otherwise it is corrupt.

    Args:
        target: what to open.
        segments: whether the command handles search segments too.
    """
    with _open_file(target) as file:
        try:
            with _cut(file, target) as named:
                container = sniff_source(named, limits=storage().limits)
            if not segments:
                refuse_segment(container)
        except Unsupported:
            if not target.found or _is_named_so(target.path, segments):
                raise
            yield None
            return
        if isinstance(named, Part):
            container = replace(container, vectors=tuple(_moved(ref, named.base) for ref in container.vectors))
        yield Opened(ahead(file, container.vectors), container, named)


def _is_named_so(path: str, segments: bool) -> bool:
    """Whether a file is named like a container; ``._name`` is what macOS keeps beside a file on other file systems."""
    name = without_query(path) if is_url(path) else Path(path).absolute().as_posix()
    return not name.rpartition("/")[2].startswith("._") and bool(
        _VECTOR_FILE.search(name) or (segments and _SEGMENT_FILE.search(name))
    )


def _moved(ref: VectorRef, base: int) -> VectorRef:
    blob = ref.blob and replace(ref.blob, offset=ref.blob.offset + base)
    return replace(ref, offset=ref.offset + base, blob=blob)


_TABLE_FILES = (
    (TableKind.DELTA, re.compile(r"(?:(.+)/)?_delta_log/[^/]+", re.DOTALL)),
    (TableKind.ICEBERG, re.compile(r"(?:(.+)/)?metadata/[^/]+\.metadata\.json(?:\.gz)?", re.DOTALL)),
    (TableKind.PAIMON, re.compile(r"(?:(.+)/)?snapshot/snapshot-[0-9]+", re.DOTALL)),
    (TableKind.LANCE, re.compile(r"(?:(.+)/)?_versions/[^/]+\.manifest", re.DOTALL)),
    (TableKind.SCORCH, re.compile(r"(?:(.+)/)?root\.bolt", re.DOTALL)),
)
"""Files that identify a table's folder."""
_NOTES = 10
"""Maximum number of tables that get their own note."""


@dataclass(slots=True)
class _Table:
    """A table in a folder.

    Attributes:
        kind: format of the table.
        name: name of its folder, as the user spelled it.
        root: the folder, as a prefix of files.
        snapshot: the current one; None if it cannot be read.
        error: the reason.
        live: offsets of the snapshot's vectors by file; None for a vector that is the whole file.
        seen: vectors that were shown or checked.
        superseded: number of these that are not in the snapshot.
    """

    kind: TableKind
    name: str
    root: str
    snapshot: Snapshot | None = None
    error: DvcodecError | OSError | None = None
    live: dict[str, set[int | None]] = field(default_factory=dict)
    seen: int = 0
    superseded: int = 0

    def open(self) -> None:
        """Read the current snapshot, but no vector."""
        try:
            self.snapshot = open_table(self.name, kind=self.kind, storage_options=storage()).snapshot()
        except (DvcodecError, OSError) as error:
            self.error = error
            return
        for vector in self.snapshot.vectors:
            if vector.location:
                self.live.setdefault(_key(vector.location), set()).add(vector.offset)

    @property
    def note(self) -> str:
        """The note to print: this is a table, and which command checks it."""
        what = KINDS[self.kind]
        if self.snapshot is not None and self.snapshot.info.id != NO_SNAPSHOT:
            what += f", snapshot {self.snapshot.info.id}"
        if self.error is not None:
            summary = f"unknown which of its vectors are superseded ({self.error})"
        elif self.kind is TableKind.SCORCH:
            summary = "its deleted documents are in root.bolt, not in these files"
        elif self.seen:
            summary = f"{self.superseded:,} of {counted(self.seen, 'vector')} superseded, not in this snapshot"
        else:
            summary = "no vector in these files"
        return f"{self.name}: this folder is a table ({what}): {summary}; to check the table: dvcodec audit {self.name}"


class TableFolders:
    """The tables in a command's folders; opened on first use.

    Args:
        targets: targets of the command; the names of files found in folders identify tables.
    """

    def __init__(self, targets: Sequence[Target]) -> None:
        self._listed = {_key(target.path) for target in targets if target.found}
        roots: dict[tuple[str, TableKind], None] = {}
        for target in targets:
            for kind, sign in _TABLE_FILES:
                if target.found and (match := sign.fullmatch(target.path)):
                    roots[match[1] or ".", kind] = None
        self._roots = list(roots)

    @cached_property
    def _tables(self) -> list[_Table]:
        tables = [_Table(kind, name, _key(name)) for name, kind in self._roots]
        for table in tables:
            table.open()
        return tables

    def seen(self, path: str, offset: int) -> dict[str, bool | None]:
        """Count a vector that was shown or checked.

        Args:
            path: file of the vector.
            offset: offset of the vector in the file.

        Returns:
            For JSON: ``superseded``, True if no table has it in its current snapshot, None if unknown; {} for a file
            outside of tables.
        """
        key = _key(path)
        known: list[bool] = []
        around = [table for table in self._tables if key.startswith(f"{table.root}/")] if key in self._listed else []
        for table in around:
            table.seen += 1
            if table.snapshot is not None and table.kind is not TableKind.SCORCH:
                live = table.live.get(key, set())
                known.append(not (offset in live or None in live))
                table.superseded += known[-1]
        return {"superseded": all(known) if known else None} if around else {}

    def missing(self) -> Iterator[Report]:
        """Yield a report for each missing file of vectors below a table's folder that its snapshot references.

        Raises:
            DecodeError: the metadata of a table is corrupt.
            OSError: it cannot be read.
        """
        for table in self._tables:
            if table.error is not None and not isinstance(table.error, Unsupported):
                raise table.error
            for path, offsets in table.live.items():
                if path.startswith(f"{table.root}/") and path not in self._listed and not _exists(path):
                    what = f"file of {counted(len(offsets), 'vector')} of the table's current snapshot"
                    yield Report(path, None, (Check.failed("missing-file", "file", None, what, "a file", "none"),))

    def report(self) -> None:
        """Report on standard error which folders are tables, and how to check them."""
        for table in self._tables[:_NOTES]:
            complain(table.note)
        if len(self._tables) > _NOTES:
            complain(f"{counted(len(self._tables) - _NOTES, 'more table')}: dvcodec audit checks them")


def _key(path: str) -> str:
    return path if is_url(path) else os.path.abspath(path)  # noqa: PTH100  (links stay)


def _exists(path: str) -> bool:
    return not is_url(path) and Path(path).exists()


STDOUT = "-"
VECTORS = "deletion vectors"

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET",
        help="File, glob, folder, URL, path@offset:size (size may be left out), or - for standard input.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="TARGET", help="File, URL, path@offset:size, or - for standard input.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
MinRatio = Annotated[
    float, typer.Option("--min-ratio", min=0, max=1, help="Rewrite files with at least this share of deleted rows.")
]
Rows = Annotated[int | None, typer.Option("--rows", help="Physical rows of the data file.", min=0)]
Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", help="Path or URL to write to (a file there is replaced), or - for standard output."
    ),
]
To = Annotated[
    str,
    typer.Option(
        "--to",
        help=f"Format to write: {', '.join(TARGETS)}, roaring64, roaring32, a dialect of roaring "
        f"({', '.join(DIALECTS)}), or a format of another package.",
    ),
]
DataFile = Annotated[str | None, typer.Option("--data-file", help="Only the vector of this data file.")]
DataFiles = Annotated[
    list[str] | None,
    typer.Option("--data-file", help="The vectors' data files, in file order; repeat for each vector."),
]


class Tour:
    """Iterates over targets; reports unreadable ones on standard error and continues.

    Args:
        names: as typed.
        what: label of the progress bar.
        silent: whether nothing is printed before the end.
        wanted: what files of folders should hold, for messages.

    Attributes:
        targets: all of them.
        skipped: files of folders that hold nothing of the kind; counted by the command.
        failed: targets and vectors that could not be read.
        tables: whole tables among the folders.
    """

    def __init__(self, names: list[str], what: str, *, silent: bool, wanted: str = VECTORS) -> None:
        self.targets = expand(names)
        self.skipped = 0
        self.failed = 0
        self.tables = TableFolders(self.targets if wanted == VECTORS else ())
        self._what = what
        self._wanted = wanted
        self._silent = silent

    def __iter__(self) -> Iterator[Target]:
        return self._fetched(track(self.targets, self._what, silent=self._silent))

    def _fetched(self, targets: Iterator[Target]) -> Iterator[Target]:
        """Yield targets; if several are whole remote files, the next ones are prefetched."""
        whole = [target.path for target in self.targets if target.offset is None and is_url(target.path)]
        if len(whole) < 2:
            yield from targets
            return
        coming = storage().prefetch(whole)
        for target in targets:
            if target.offset is None and is_url(target.path):
                next(coming)
            yield target

    def containers(self, *, strict: bool = False) -> Iterator[Opened]:
        """Open the containers among the targets; other files found in folders are skipped.

        Args:
            strict: whether the error of one target is raised, not reported.
        """
        for target in self:
            with nullcontext() if strict else self.turn(), open_target(target) as found:
                if found is None:
                    self.skipped += 1
                else:
                    yield found

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Report an error of one target or vector instead of raising it."""
        try:
            yield
        except BrokenPipeError:
            raise
        except (DecodeError, OSError) as err:
            self.failed += 1
            sys.stdout.flush()  # keeps the order of lines on a terminal
            complain(err)

    @property
    def found_nothing(self) -> bool:
        """Whether every file was skipped."""
        return self.skipped == len(self.targets)

    def report_skipped(self) -> None:
        """Report the number of files in folders that hold nothing of the kind.

        Raises:
            UsageError: none holds any.
        """
        if self.found_nothing:
            raise UsageError(f"no {self._wanted} in {counted(self.skipped, 'file')}")
        if self.skipped:
            complain(f"{counted(self.skipped, 'other file')} without {self._wanted}")

    def finish(self, code: int = 0) -> NoReturn:
        """End the command with exit code 2 if something could not be read, else with `code`."""
        sys.stdout.flush()
        self.tables.report()
        if code == 0 or not self.found_nothing:  # else missing files have been reported
            self.report_skipped()
        raise typer.Exit(2 if self.failed else code)


def opened(names: list[str], what: str) -> Iterator[Opened]:
    """Open all targets in turn; an error ends the command."""
    tour = Tour(names, what, silent=True)
    yield from tour.containers(strict=True)
    tour.report_skipped()


def sink_of(output: str) -> SinkTarget:
    """Return the sink to write to; ``-`` is standard output."""
    return sys.stdout.buffer if output == STDOUT else output


def messages_of(output: str) -> AbstractContextManager[object]:
    """Print to standard error while a file is written to standard output."""
    return redirect_stdout(sys.stderr if output == STDOUT else sys.stdout)


def check_text(check: Check) -> str:
    """Return a check in one line: its name and subject, and where and why it failed."""
    text = f"{check.name}: {check.subject}" + ("" if check.offset is None else f" at byte {check.offset}")
    if check.status is not Status.FAIL:
        return text
    return f"{text}: {DecodeError(check.message or '', expected=check.expected, actual=check.actual)}"


def label(found: Opened, ref: VectorRef, files: int) -> str:
    """Return a vector's name: its data file, after the container if there are several; or container and offset."""
    if ref.data_file is None:
        return f"{found.source.name}@{ref.offset}"
    return ref.data_file if files == 1 else f"{found.source.name}: {ref.data_file}"
