"""Delete rows of a table: find them, write deletion vectors, commit. One way for all formats."""
