"""The application: all commands, and the modules that define them."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from dvcodec._version import __version__
from dvcodec.cli.common import complain, with_storage
from dvcodec.core.errors import DvcodecError

_MODULES = {
    "tables.show": {
        "audit": "Check all vectors of a table's snapshot, and compare them with its metadata, data files and folder.",
        "table": "Show how many rows of a table are deleted, in which data files and where, and which to rewrite.",
        "log": "Show what each snapshot of a table deleted and restored, oldest first.",
        "report": "Audit a table and write the results as one self-contained HTML page.",
        "export-live": "Write the live rows of a table, or of one data file, to one Parquet file.",
    },
    "tables.delete": {
        "repair": "Show how the findings of an audit can be repaired; with --commit, do it.",
        "convert-table": "Write a table's deletes in another format: files of vectors, and commit values in JSON.",
        "delete": "Delete rows of a table: write deletion vectors and commit them.",
        "enable": "Let engines write deletion vectors to a table: change its protocol, version or options.",
        "compact-deletes": "Merge the files of position deletes of an Iceberg table of version 2, and commit.",
        "upgrade-deletes": "Replace position deletes and equality deletes of an Iceberg table by vectors, and commit.",
    },
    "inspect": {
        "inspect": "Show a file's container, footer and vectors, and where the deleted rows are; a segment's fields; "
        "a manifest.",
        "stats": "Show rows, bytes, density and container mix of vectors, without expanding them.",
        "positions": "Print deleted row positions, one per line, after the vector's name if there are several.",
        "ranges": "Print deleted rows as ranges, one per line: start, stop (exclusive).",
        "verify": "Check files: length, CRC, magic, structure, cardinality, Puffin's rules; all parts of a segment; "
        "a manifest.",
    },
    "rewrite": {
        "diff": "Show which rows a newer file deletes and restores. Exit code 1 if there is a difference.",
        "merge": "Merge vectors by data file into one new file.",
        "convert": "Convert a file. Vectors are verified, and copied if both formats store the same bytes.",
        "correct": "Correct small damage in vectors, where checksums leave one answer, and write the whole file anew.",
        "rewrite-paths": "Rename the data files of a moved table in a Puffin file; vectors are copied unchanged.",
    },
    "zap.shared": {
        "zap": "Show, merge, compact and repair search segments of bleve (zap 11 to 17).",
    },
    "demo": {
        "demo": "Demonstrate on a Delta and an Iceberg table: delete rows, read them back, repair a bit, report.",
    },
    "spark_demo": {
        "spark-demo": "Demonstrate Spark jobs on a partitioned table: build, audit and apply vectors.",
    },
    "conformance": {
        "conformance": "Run a decoder over valid and corrupt files; show what it reads wrongly, refuses or accepts.",
    },
}
"""Module -> its commands, each with its line on the help page: the first paragraph of its docstring."""
COMMANDS = {name: (module, line) for module, found in _MODULES.items() for name, line in found.items()}
"""Name of a command -> its module and its line of help."""
_PANELS = {
    "Tables": ("tables.show", "tables.delete"),
    "Files of vectors": ("inspect", "rewrite"),
    "Search segments": ("zap.shared",),
    "Learn and check": ("demo", "spark_demo", "conformance"),
}
_PANEL_OF = {module: panel for panel, modules in _PANELS.items() for module in modules}
"""Module -> the panel of its commands on the help page."""


class _BareFlags:
    """Shows nothing behind options that take no value, where newer versions of typer show ``<bool>`` or ``<int>``."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            if getattr(parameter, "is_flag", False) or getattr(parameter, "count", False):
                parameter.metavar = ""
        return found


class _Group(_BareFlags, TyperGroup):
    """A group of commands."""


class _Command(_BareFlags, TyperCommand):
    """A command."""


class _All(_Group):
    """Re-raises `Truncated`: it is an `EOFError`, which typer takes for the end of standard input.

    Prints the message of Ctrl-C, of which typer keeps the exit code alone.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EOFError as err:
            again = DvcodecError(str(err))
            again.__dict__.update(err.__dict__)  # its notes
            raise again from err
        except KeyboardInterrupt as err:
            if err.args:
                complain(err.args[0])
            raise


class _ListsFormats(_Command):
    """Adds the formats of other packages to the help of ``--to``; finding them takes longer than most commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from dvcodec.formats import added

        names = ", ".join(added())
        for parameter in self.params:
            if names and parameter.name == "to" and isinstance(parameter, TyperOption):
                parameter.help = f"{parameter.help} Installed: {names}."
        super().format_help(ctx, formatter)


def build(only: str | None = None) -> typer.Typer:
    """Return the application with all commands, or with one: importing all takes longer than running most of them.

    Args:
        only: the command that will be called; the others get only their line on the help page. An unknown or empty name
            imports none; None imports all.
    """
    app = typer.Typer(
        name="dvcodec",
        cls=_All,
        help="Deletion vectors of Iceberg, Delta Lake, Paimon and Lance: delete rows of a table, audit and repair it; "
        "inspect, verify and convert files of vectors, and search segments.",
        epilog="Exit codes: 0 fine, 1 findings (or differences), 2 unreadable or wrong usage.",
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_root)
    for name, (module, line) in COMMANDS.items():
        panel = _PANEL_OF[module]
        if only not in (None, name):
            app.command(name, help=line, rich_help_panel=panel)(_not_imported)
            continue
        command = getattr(import_module(f"dvcodec.cli.{module}"), name.replace("-", "_"))
        if isinstance(command, typer.Typer):
            for inner in command.registered_commands:
                inner.cls = _Command
                if inner.callback:
                    inner.callback = with_storage(inner.callback, f"{name} {inner.callback.__name__}")
            app.add_typer(command, cls=_Group, name=name, rich_help_panel=panel)
        else:
            app.command(name, cls=_ListsFormats, rich_help_panel=panel)(with_storage(command, name))
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
