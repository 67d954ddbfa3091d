"""Commands on whole tables: audit, table, log, report, export-live, convert-table."""

from importlib import import_module

for commands in ("audit", "show", "write"):  # the order of the help page
    import_module(f"dvcodec.cli.tables.{commands}")
import_module("dvcodec.cli.convert_table")
