"""The application: which commands there are, and where."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dvcodec._version import __version__
from dvcodec.cli.storage import with_storage
from dvcodec.core.errors import DvcodecError

__all__ = ["COMMANDS", "build"]

COMMANDS = {
    "inspect": (
        "look",
        "Show what is in a file: container, footer, vectors, where the deleted rows are; fields of a search segment.",
    ),
    "stats": ("look", "Sum up vectors: rows, bytes, density, container mix. Nothing is expanded."),
    "positions": ("look", "Print deleted row positions, one on a line; before it the vector, where there are several."),
    "ranges": ("look", "Print deleted rows as ranges: start and stop (the row after the last), one range on a line."),
    "manifest": (
        "manifest",
        "Show what a manifest says of deletion vectors and row ids: Paimon's index manifest, Lance's manifest.",
    ),
    "verify": (
        "check",
        "Check files: length, CRC, magic, structure, cardinality, Puffin's rules; every part of a search segment.",
    ),
    "diff": (
        "change",
        "Show what a newer file deletes in addition and what it restores. Exit code 1 if there is a difference.",
    ),
    "merge": ("change", "Unite vectors by data file and write them to one new file."),
    "convert": (
        "change",
        "Convert a file; vectors are verified, and copied byte for byte where the formats share them.",
    ),
    "rewrite-paths": (
        "change",
        "Rename the data files of a moved table in a Puffin file; the vectors' bytes stay as they are.",
    ),
    "demo": (
        "change",
        "Build Parquet files, delete rows, write vectors as Puffin, convert, verify, and read the live rows back.",
    ),
    "spark-demo": (
        "change",
        "Delete rows of a partitioned table with Spark jobs: build, audit, apply, merge, convert, all checked.",
    ),
    "audit": (
        "tables.audit",
        "Check all vectors of a table's snapshot, and against its metadata, data files and folder.",
    ),
    "table": (
        "tables.show",
        "Show what is deleted of a table: how much, of which data files, where in them, and what is worth rewriting.",
    ),
    "log": ("tables.show", "Show what each snapshot of a table deleted and restored, oldest first."),
    "report": ("tables.write", "Audit a table and write what was found as one HTML page, which needs nothing else."),
    "export-live": ("tables.write", "Write the live rows of a table, or of one data file, to one Parquet file."),
    "convert-table": (
        "tables.convert",
        "Say a table's deletes in another format: files of vectors, and what a commit needs, one JSON line a vector.",
    ),
    "zap": ("zap.shared", "Search segments of bleve (zap 11 to 17): look inside, merge."),
}
"""Name of a command -> its module, and what the help page says of it: the first paragraph of its docstring."""


class _Group(TyperGroup):
    """Lets `Truncated` through, which is an `EOFError`: typer takes that for the end of standard input, and aborts."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EOFError as err:
            raise DvcodecError(str(err)) from err


def build(only: str | None = None) -> typer.Typer:
    """Return the application with all commands; or, as importing them takes longer than most of them, with one.

    Args:
        only: the command that will be called; of the others there is what the help page says of them. The name of
            none, as the empty one, imports none.
    """
    app = typer.Typer(
        name="dvcodec",
        cls=_Group,
        help="Deletion vectors of Iceberg, Delta Lake, Paimon and Lance: look inside, verify, convert, merge.",
        epilog="Exit codes: 0 fine, 1 findings (or differences), 2 unreadable or wrong usage.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(_root)
    for name, (module, line) in COMMANDS.items():
        if only not in (None, name):
            app.command(name, help=line)(_not_imported)
            continue
        command = getattr(import_module(f"dvcodec.cli.{module}"), name.replace("-", "_"))
        if isinstance(command, typer.Typer):
            for inner in command.registered_commands:
                inner.callback = with_storage(inner.callback) if inner.callback else None
            app.add_typer(command, name=name)
        else:
            app.command(name)(with_storage(command))
    return app


def _not_imported() -> None:
    """Stand in for a command that will not be called."""


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dvcodec {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
