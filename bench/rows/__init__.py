"""The lines of the table of targets: one module for each row or family of rows, each with `comparisons`."""
