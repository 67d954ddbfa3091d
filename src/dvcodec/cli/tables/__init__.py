"""Commands on whole tables: audit, table, log, report, export-live, convert-table."""
