"""Shared by commands: options, and iteration over targets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from typing import Annotated, NoReturn

import typer

from dvcodec.cli.render import track
from dvcodec.cli.storage import storage
from dvcodec.cli.streams import complain
from dvcodec.cli.table_folders import TableFolders
from dvcodec.cli.targets import Opened, Target, expand, open_target
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.report import Check, Status
from dvcodec.core.text import counted
from dvcodec.io import SinkTarget, is_url
from dvcodec.ops.convert import TARGETS
from dvcodec.ops.read import VectorRef

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
To = Annotated[str, typer.Option("--to", help=f"Format to write: {', '.join(TARGETS)}.")]
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

    def containers(self) -> Iterator[Opened]:
        """Open the containers among the targets; other files found in folders are skipped."""
        for target in self:
            with self.turn(), open_target(target) as found:
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
    for target in tour:
        with open_target(target) as found:
            if found is None:
                tour.skipped += 1
            else:
                yield found
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
