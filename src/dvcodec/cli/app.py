"""The application and what its commands share: options, and how targets are gone through."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from dvcodec._version import __version__
from dvcodec.cli.render import track
from dvcodec.cli.targets import Opened, expand, open_target
from dvcodec.core.errors import DecodeError
from dvcodec.ops.convert import TARGETS
from dvcodec.ops.sniff import VectorRef

__all__ = ["DataFile", "DataFiles", "Json", "Name", "Names", "Output", "Rows", "To", "app", "each", "label", "opened"]

app = typer.Typer(
    name="dvcodec",
    help="Deletion vectors of Iceberg, Delta Lake and Paimon: look inside, verify, convert, merge.",
    epilog="Exit codes: 0 fine, 1 findings (or differences), 2 unreadable or wrong usage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

Names = Annotated[
    list[str],
    typer.Argument(metavar="TARGET...", help="File, glob, folder, path@offset:size, URL, or - for standard input."),
]
Name = Annotated[str, typer.Argument(metavar="TARGET", help="File, path@offset:size, URL, or -.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Rows = Annotated[int | None, typer.Option("--rows", help="Physical rows of the data file.", min=0)]
Output = Annotated[str, typer.Option("--output", "-o", help="Where to write: a path or a URL.")]
To = Annotated[str, typer.Option("--to", help=f"What to write: {', '.join(TARGETS)}.")]
DataFile = Annotated[str | None, typer.Option("--data-file", help="Only the vector of this data file.")]
DataFiles = Annotated[
    list[str] | None,
    typer.Option("--data-file", help="The vectors' data files, in file order; repeat for each vector."),
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dvcodec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version


def opened(names: list[str], what: str) -> Iterator[Opened]:
    """Open every target in turn; say at the end how many files of folders held no vectors."""
    targets = expand(names)
    skipped = 0
    for target in track(targets, len(targets), what):
        with open_target(target) as found:
            if found is None:
                skipped += 1
            else:
                yield found
    tell_skipped(skipped)


def each(names: list[str], what: str, visit: Callable[[Opened], None]) -> None:
    """Visit every target; one that cannot be read is told on standard error and the others still have their turn.

    Raises:
        typer.Exit: with code 2, at the end, if one could not be read.
    """
    targets = expand(names)
    skipped = failed = 0
    for target in track(targets, len(targets), what):
        try:
            with open_target(target) as found:
                if found is None:
                    skipped += 1
                else:
                    visit(found)
        except DecodeError as err:
            failed += 1
            print(f"dvcodec: {err}", file=sys.stderr)
    tell_skipped(skipped)
    if failed:
        raise typer.Exit(2)


def tell_skipped(count: int) -> None:
    """Say on standard error how many files of folders were passed over."""
    if count:
        print(f"dvcodec: {count} other files hold no deletion vectors", file=sys.stderr)


def label(found: Opened, ref: VectorRef) -> str:
    """Name a vector among others: its data file, or where it stands."""
    return ref.data_file or f"{found.source.name}@{ref.offset}"
